/* The two JSON files of a checkpoint. index.json tells where each tensor is in the ranks' files,
 * and has the checksum of every file; state.json has the progress of the run. Each begins with its
 * own checksum. */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_INDEX_H
#define SHARDC_RUNTIME_DRIVE_STATE_INDEX_H

#include <stdbool.h>

#include "runtime/drive/executor.h"
#include "runtime/files/element.h"
#include "support/context.h"
#include "support/hash.h"

enum { SC_STATE_VERSION = 3, SC_STATE_ID = 32 /* hexadecimal digits */ };

#define SC_STATE_INDEX_NAME  "index.json"
#define SC_STATE_COUNTS_NAME "state.json"
#define SC_STATE_FORMAT      "shardc-state"
/* First bytes of these files; those of the ranks' files are at SC_STATE_SHARDS_AT. */
#define SC_STATE_JSON_BEGIN   "{\"checksum\": \""
#define SC_STATE_SHARDS_BEGIN "{\"__metadata__\":{\"format\":\"" SC_STATE_FORMAT "\",\"id\":\""
enum { SC_STATE_SHARDS_AT = 8 };

/* The progress of a run. */
typedef struct sc_train_state {
    const char *id;                /* of this checkpoint: all its files contain it */
    uint64_t steps, seed, skipped; /* skipped: steps that were not applied */
    double loss_scale;             /* 0: none; for readers, the value is also a tensor */
    /* the global program's text, and which optimizer has which parameters */
    const char *program;
    const char *weights;    /* where the parameters are in weights files (facts.h); NULL: unknown */
    uint64_t tokens;        /* of the data; 0: none */
    uint64_t data_identity; /* a hash of it; 0: unknown */
    uint64_t row_length, rows;
    bool has_held_out;
    double held_out; /* loss */
} sc_train_state;

typedef struct sc_saved_file {
    const char *name;
    uint64_t bytes;
    const uint64_t *sums; /* of its blocks: sc_durable_blocks(bytes) */
} sc_saved_file;

/* A box of a tensor, dense and row-major. */
typedef struct sc_saved_shard {
    uint32_t file; /* index in the list of files */
    int64_t first[SHARDC_TENSOR_MAX_RANK], sizes[SHARDC_TENSOR_MAX_RANK];
    uint64_t begin; /* offset in the file's data */
} sc_saved_shard;

typedef struct sc_saved_tensor {
    const char *name;
    sc_element element;
    uint32_t rank;
    int64_t sizes[SHARDC_TENSOR_MAX_RANK];
    SC_VEC(sc_saved_shard) shards; /* every element is in exactly one */
} sc_saved_tensor;

typedef struct sc_saved_index {
    const char *id;
    uint64_t step, save; /* save: counts the checkpoints written to the folder */
    bool has_held_out;
    double held_out;
    SC_VEC(sc_saved_file) files; /* all but the index */
    SC_VEC(sc_saved_tensor) tensors;
    sc_map by_name; /* symbol -> tensor */
} sc_saved_index;

/* Returns the name of a rank's file, in the arena. */
const char *sc_state_rank_file(sc_arena *arena, uint32_t rank);

/* Return the texts of the files, in `arena`. NULL: out of memory. */
const char *sc_state_index_text(sc_arena *arena, const sc_saved_index *index);
const char *sc_state_counts_text(sc_arena *arena, const sc_train_state *state);

/* Reports what is wrong with a file of a checkpoint, and returns false. */
bool sc_state_refuse(sc_context *context, const char *path, const char *reason);

/* Read and check a file. NULL, or what is wrong with it, without its name. Everything is in the
 * context's arena. */
const char *sc_state_index_read(sc_context *context, const char *path, sc_saved_index *out);
const char *sc_state_counts_read(sc_context *context, const char *path, sc_train_state *out);

#endif
