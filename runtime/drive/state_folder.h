/* The folder of --state: DIR/step-000400/ for each state, DIR/latest with the name of the newest, DIR/shardc.lock. States are made in
 * DIR/tmp-<id>/ and renamed when they are complete. Other files may lie there, too: what this program did not write is not touched. One
 * run at a time writes there, the one that holds the lock. */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_FOLDER_H
#define SHARDC_RUNTIME_DRIVE_STATE_FOLDER_H

#include "runtime/drive/state_index.h"

#define SC_STATE_LATEST "latest"

/* A state that stands in a folder. */
typedef struct sc_state_entry {
    const char *name, *path;
    const char *wrong; /* with its index; NULL: nothing */
    sc_saved_index index;
} sc_state_entry;

typedef SC_VEC(sc_state_entry) sc_state_entries;

/* The states step-* of the folder, the last written first; those whose index is wrong after them, by name. Files are not checked. False:
 * it cannot be read, errno. */
bool sc_state_list(sc_context *context, const char *folder, sc_state_entries *out);
/* What DIR/latest names; NULL: there is none, or it is no such file (*wrong says what is the matter, else it is NULL). */
const char *sc_state_latest(sc_arena *arena, const char *folder, const char **wrong);
const char *sc_state_step_name(sc_arena *arena, uint64_t step);
/* Whether the folder holds files of a state and nothing else. */
bool sc_state_is_ours(const char *folder);

/* A folder that is written to. */
typedef struct sc_state_folder {
    const char *path;
    int lock;        /* -1: not held */
    uint64_t save;   /* of the next state */
    uint32_t states; /* that were there when it was opened */
    char *made;      /* the folder of the state that is being written; malloc'd; NULL: none */
} sc_state_folder;

/* Creates the folder (not its parents), takes the lock, removes or completes what killed runs left. False after a message. Close it in any
 * case. `token` is written into the lock, for other processes to see that they see the same folder. */
bool sc_state_folder_open(sc_context *context, const char *path, const char *token, sc_state_folder *out);
void sc_state_folder_close(sc_state_folder *folder);
/* Whether the folder's lock has the token. */
bool sc_state_folder_has(const char *path, const char *token);

/* A new folder for a state: DIR/tmp-<id>. False after a message. */
bool sc_state_folder_begin(sc_context *context, sc_state_folder *folder, const char *id);
/* Names it, once all in it is synced, and makes it the latest; then removes older ones until `keep` stay, and if `best` the one with the
 * least held-out loss. False after a message. */
bool sc_state_folder_publish(sc_context *context, sc_state_folder *folder, uint64_t step, uint32_t keep, bool best);
/* Removes what was begun. */
void sc_state_folder_drop(sc_state_folder *folder);

#endif
