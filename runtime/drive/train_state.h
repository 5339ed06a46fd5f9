/* A training run on disk, so that it can go on: what its steps change, in the dtypes that it has in memory, and what it counts. Each rank
 * writes the shards that it gives out (rank-00003.safetensors), each element is in one file; index.json says where, so that a run may go
 * on under another plan, on another mesh. Of several processes all call these functions together. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H

#include "runtime/drive/state_folder.h"
#include "runtime/drive/trainer.h"

/* ---- saving (save_state.c) ---- */

typedef struct sc_state_saver sc_state_saver;

/* Holds `folder` for the run, after everything that saving needs was tried: the lock, writing, room on the disk for `saves` states of
 * which `keep` stay (the best by held-out loss, too, if `best`). `goes_on`: a state of the folder may be what the run goes on from.
 * NULL after messages. */
sc_state_saver *sc_state_saver_open(sc_context *context, const char *folder, const sc_trainer *trainer, uint32_t keep, bool best,
                                    uint64_t saves, bool goes_on);
/* A state of the steps done so far; its id is drawn here. False after a message: the states before it are as they were. */
bool sc_state_saver_save(sc_state_saver *saver, const sc_train_state *state);
void sc_state_saver_close(sc_state_saver *saver); /* NULL is allowed */

/* ---- going on (resume_state.c) ---- */

typedef struct sc_saved_state {
    const char *path; /* of the state: DIR or DIR/step-000400 */
    sc_train_state counts;
    sc_saved_index index;
} sc_saved_state;

/* What `path` has: a state, or a folder of them, of which the last one is meant. False after messages, which say which older one is
 * whole. */
bool sc_saved_state_read(sc_context *context, const char *path, sc_saved_state *out);
/* Whether it is a state of this program. False after a message that names what differs. */
bool sc_saved_state_fits(sc_context *context, const sc_saved_state *saved, const char *program);
/* Checks every file and gives the trainer values and counts. False after messages. */
bool sc_saved_state_restore(sc_context *context, const sc_saved_state *saved, sc_trainer *trainer);

#endif
