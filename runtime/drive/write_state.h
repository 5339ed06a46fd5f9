/* Writes the files of a checkpoint: each process those of its ranks, the first one those common to
 * all. Saving as a whole is in save_state.c. */
#ifndef SHARDC_RUNTIME_DRIVE_WRITE_STATE_H
#define SHARDC_RUNTIME_DRIVE_WRITE_STATE_H

#include "runtime/drive/state_index.h"
#include "runtime/drive/state_set.h"

/* A rank's file as written; bytes 0: the rank gives no shard and has no file. */
typedef struct sc_state_file {
    uint64_t bytes;
    uint64_t *sums; /* of its blocks; malloc'd */
} sc_state_file;

/* Writes the rank's shards to its file in `folder`. `copy`: the shards one after the other without
 * padding, in the order of the set (sc_state_copy_rank); NULL: read from the executor now, through
 * `room`. False after a message. */
bool sc_state_write_rank(sc_context *context, const sc_state_set *set, uint32_t rank,
                         const char *folder, const sc_train_state *state, const char *copy,
                         void *room, sc_state_file *out);

/* Writes state.json, then index.json. `files` by rank; `save`: number of the checkpoint. */
bool sc_state_write_common(sc_context *context, const sc_state_set *set, const char *folder,
                           const sc_train_state *state, uint64_t save, const sc_state_file *files);

#endif
