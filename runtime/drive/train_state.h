/* Checkpoints of a training run: the state that its steps change, in the dtypes in memory, and its
 * progress. Each rank writes the shards of which it is the first holder (rank-00003.safetensors),
 * so every element is in one file; index.json tells where, so that a run may be resumed with
 * another plan on another mesh. All processes of a run call these functions together. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_STATE_H

#include "runtime/drive/state_folder.h"
#include "runtime/drive/state_set.h"

/* ---- saving (save_state.c) ---- */

typedef struct sc_state_saver sc_state_saver;

typedef struct sc_save_options {
    const char *folder;
    /* checkpoints that stay, in addition to the one with the lowest held-out loss if `best` */
    uint32_t keep;
    bool best;
    /* shards are copied to memory set aside by sc_state_saver_open, and a thread writes them */
    bool is_async;
    bool goes_on;   /* the run may be resumed from a checkpoint of this folder */
    uint64_t saves; /* checkpoints that will be written at most; for the check of free space */
} sc_save_options;

/* Opens the folder for the run after checking everything that saving needs: the lock, write access,
 * free space, memory. The set must outlive the saver. NULL after messages. */
sc_state_saver *sc_state_saver_open(sc_context *context, const sc_state_set *set,
                                    const sc_save_options *options);
/* Writes a checkpoint of the steps done so far and generates its id; waits for an earlier one that
 * is being written. With is_async it returns when the shards are copied; the state's texts must
 * stay. False after a message; earlier checkpoints are then unchanged. */
bool sc_state_saver_save(sc_state_saver *saver, const sc_train_state *state);
/* Call it after every step: publishes a checkpoint that a thread has written. False after a
 * message. */
bool sc_state_saver_poll(sc_state_saver *saver);
/* Waits until every checkpoint is published. False after a message. */
bool sc_state_saver_finish(sc_state_saver *saver);

/* Times of a checkpoint: until it was published, and how long steps had to wait for it. */
typedef struct sc_save_report {
    uint64_t step;
    double seconds, blocked_seconds;
} sc_save_report;

/* Gets the report of the checkpoint published last, once. False: none since the last call. */
bool sc_state_saver_report(sc_state_saver *saver, sc_save_report *out);
void sc_state_saver_close(sc_state_saver *saver); /* NULL is allowed; ends a write */

/* ---- resuming (resume_state.c) ---- */

typedef struct sc_saved_state {
    const char *path; /* of the checkpoint: DIR or DIR/step-000400 */
    sc_train_state counts;
    sc_saved_index index;
} sc_saved_state;

/* Reads the checkpoint at `path`, or the last one if `path` is a folder of checkpoints. False after
 * messages, which name an older one that is complete. */
bool sc_saved_state_read(sc_context *context, const char *path, sc_saved_state *out);
/* True if it is a checkpoint of this model and optimizer. False after a message that names the
 * difference. */
bool sc_saved_state_fits(sc_context *context, const sc_saved_state *saved, const char *program);
/* Loads the states of an executor, each process the shards of its ranks, and checks every file.
 * False after messages. */
bool sc_saved_state_load(sc_context *context, const sc_saved_state *saved, const sc_state_set *set);
/* True if the checkpoint has nothing that the states lack, but for what another precision adds.
 * False after a message. */
bool sc_saved_state_has_no_more(sc_context *context, const sc_saved_state *saved,
                                const sc_state_set *set);
/* Returns the tensor that a state of this name and type takes its values from; NULL: none. */
const sc_saved_tensor *sc_saved_tensor_for(sc_context *context, const sc_saved_index *index,
                                           const char *name, sc_element element);
/* Adds a note that names another checkpoint of the folder that is whole. */
void sc_saved_state_note_whole(sc_context *context, const sc_saved_state *refused);

#endif
