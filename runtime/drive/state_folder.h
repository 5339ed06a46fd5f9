/* The folder of --state: DIR/step-000400/ for each checkpoint, DIR/latest with the name of the
 * newest, DIR/shardc.lock. Checkpoints are written to DIR/tmp-<id>/ and renamed when complete.
 * Files that this program did not write are left alone. The lock allows one run at a time to
 * write. */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_FOLDER_H
#define SHARDC_RUNTIME_DRIVE_STATE_FOLDER_H

#include "runtime/drive/state_index.h"

#define SC_STATE_LATEST "latest"

/* A checkpoint in a folder. */
typedef struct sc_state_entry {
    const char *name, *path;
    const char *wrong; /* why its index is invalid; NULL: it is valid */
    sc_saved_index index;
} sc_state_entry;

typedef SC_VEC(sc_state_entry) sc_state_entries;

/* Lists the checkpoints step-* of the folder, most recently written first; those with an invalid
 * index follow, by name. Does not check other files. False: the folder cannot be read, errno. */
bool sc_state_list(sc_context *context, const char *folder, sc_state_entries *out);
/* Returns the checkpoint named by DIR/latest. NULL: the file is missing (*wrong is NULL) or invalid
 * (*wrong says why). */
const char *sc_state_latest(sc_arena *arena, const char *folder, const char **wrong);
const char *sc_state_step_name(sc_arena *arena, uint64_t step);
/* True if the folder contains files of a checkpoint and nothing else. */
bool sc_state_is_ours(const char *folder);

/* A folder opened for writing. */
typedef struct sc_state_folder {
    const char *path;
    int lock;        /* -1: not held */
    uint64_t save;   /* number of the next checkpoint */
    uint32_t states; /* checkpoints present when it was opened */
    char *made;      /* folder of the checkpoint being written, malloc'd; NULL: none */
} sc_state_folder;

/* Creates the folder (not its parents), takes the lock, and removes or completes what killed runs
 * left. False after a message. Close it in any case. `token` is written into the lock file, by
 * which other processes check that they see the same folder. */
bool sc_state_folder_open(sc_context *context, const char *path, const char *token,
                          sc_state_folder *out);
void sc_state_folder_close(sc_state_folder *folder);
/* True if the folder's lock file contains the token. */
bool sc_state_folder_has(const char *path, const char *token);

/* Creates a folder for a checkpoint: DIR/tmp-<id>. False after a message. */
bool sc_state_folder_begin(sc_context *context, sc_state_folder *folder, const char *id);
/* Publishes the checkpoint: syncs its folder, renames it and updates DIR/latest. Then removes older
 * ones until `keep` remain, in addition to the one with the lowest held-out loss if `best`. False
 * after a message. */
bool sc_state_folder_publish(sc_context *context, sc_state_folder *folder, uint64_t step,
                             uint32_t keep, bool best);
/* Removes the checkpoint being written. */
void sc_state_folder_drop(sc_state_folder *folder);

#endif
