/* Checkpoints of a training run: the state that its steps change, in the dtypes in memory, and its
 * progress. Each rank writes the shards of which it is the first holder (rank-00003.safetensors),
 * so every element is in one file; index.json tells where, so that a run may be resumed with
 * another plan on another mesh. All processes of a run call these functions together. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H

#include "runtime/drive/state_folder.h"
#include "runtime/drive/trainer.h"

/* ---- saving (save_state.c) ---- */

typedef struct sc_state_saver sc_state_saver;

/* Opens `folder` for the run after checking everything that saving needs: the lock, write access,
 * free space for `saves` checkpoints of which `keep` remain (plus the best by held-out loss, if
 * `best`). `goes_on`: the run may be resumed from a checkpoint of this folder. NULL after
 * messages. */
sc_state_saver *sc_state_saver_open(sc_context *context, const char *folder,
                                    const sc_trainer *trainer, uint32_t keep, bool best,
                                    uint64_t saves, bool goes_on);
/* Writes a checkpoint of the steps done so far and generates its id. False after a message; earlier
 * checkpoints are then unchanged. */
bool sc_state_saver_save(sc_state_saver *saver, const sc_train_state *state);
void sc_state_saver_close(sc_state_saver *saver); /* NULL is allowed */

/* ---- resuming (resume_state.c) ---- */

typedef struct sc_saved_state {
    const char *path; /* of the checkpoint: DIR or DIR/step-000400 */
    sc_train_state counts;
    sc_saved_index index;
} sc_saved_state;

/* Reads the checkpoint at `path`, or the last one if `path` is a folder of checkpoints. False after
 * messages, which name an older one that is complete. */
bool sc_saved_state_read(sc_context *context, const char *path, sc_saved_state *out);
/* True if it is a checkpoint of this program. False after a message that names the difference. */
bool sc_saved_state_fits(sc_context *context, const sc_saved_state *saved, const char *program);
/* Checks every file, then loads state and progress into the trainer. False after messages. */
bool sc_saved_state_restore(sc_context *context, const sc_saved_state *saved, sc_trainer *trainer);

#endif
