/* A training run on disk, so that it can go on: a folder with all that its steps change (state.safetensors, as f64), what it counts
 * (state.json) and the program that it trains (program.txt: before any plan placed it, and which optimizer has which parameters). Values
 * are global: a run may go on under another plan, on another mesh. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H

#include "runtime/drive/trainer.h"

typedef struct sc_train_state {
    uint64_t steps, seed;
    const char *program; /* as text */
    uint64_t tokens;     /* of the file of tokens; 0: none */
    uint64_t row_length, rows;
} sc_train_state;

/* Whether a file or folder can be made at `path`: its folder exists and may be written to. False after a message. */
bool sc_check_writable(sc_context *context, const char *path);
/* Whether sc_train_state_write may write there: what stands there is nothing, or a state. False after a message. */
bool sc_train_state_check(sc_context *context, const char *folder);

/* Writes everything to `folder`.tmp, then renames: a state is there complete, or the one before it is. Of several processes the first
 * writes, all are asked for values. False after a message. */
bool sc_train_state_write(sc_context *context, const char *folder, const sc_train_state *state, const sc_trainer *trainer);

/* What the folder's run counts. False after a message. */
bool sc_train_state_read(sc_context *context, const char *folder, sc_train_state *out);
/* Whether it is a state of this program. False after a message that names what differs. */
bool sc_train_state_fits(sc_context *context, const char *folder, const sc_train_state *saved, const char *program);
/* Gives the trainer the folder's values and count. False after a message. */
bool sc_train_state_restore(sc_context *context, const char *folder, const sc_train_state *saved, sc_trainer *trainer);

#endif
