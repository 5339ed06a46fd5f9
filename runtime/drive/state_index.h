/* The two JSON files of a saved state: index.json, which says what lies where in the files of the ranks, with the checksum of every file,
 * and state.json, which says how far the run is. Both begin with a checksum of their own. */
#ifndef SHARDC_RUNTIME_DRIVE_STATE_INDEX_H
#define SHARDC_RUNTIME_DRIVE_STATE_INDEX_H

#include <stdbool.h>

#include "runtime/drive/executor.h"
#include "runtime/files/element.h"
#include "support/context.h"
#include "support/hash.h"

enum { SC_STATE_VERSION = 2, SC_STATE_ID = 32 /* hexadecimal digits */ };

#define SC_STATE_INDEX_NAME  "index.json"
#define SC_STATE_COUNTS_NAME "state.json"
#define SC_STATE_FORMAT      "shardc-state"
/* What the files begin with. Those of ranks do at SC_STATE_SHARDS_AT. */
#define SC_STATE_JSON_BEGIN   "{\"checksum\": \""
#define SC_STATE_SHARDS_BEGIN "{\"__metadata__\":{\"format\":\"" SC_STATE_FORMAT "\",\"id\":\""
enum { SC_STATE_SHARDS_AT = 8 };

/* How far a run is. */
typedef struct sc_train_state {
    const char *id;                /* of this one state: all its files have it */
    uint64_t steps, seed, skipped; /* skipped: of the steps, those that were not applied */
    const char *program;           /* as text: before any plan placed it, and which optimizer has which parameters */
    uint64_t tokens;               /* of the file of tokens; 0: none */
    uint64_t row_length, rows;
    bool has_held_out;
    double held_out; /* loss */
} sc_train_state;

typedef struct sc_saved_file {
    const char *name;
    uint64_t bytes, sum;
} sc_saved_file;

/* A box of a tensor, dense and row-major. */
typedef struct sc_saved_shard {
    uint32_t file; /* of the index */
    int64_t first[SHARDC_TENSOR_MAX_RANK], sizes[SHARDC_TENSOR_MAX_RANK];
    uint64_t begin; /* in the file's data */
} sc_saved_shard;

typedef struct sc_saved_tensor {
    const char *name;
    sc_element element;
    uint32_t rank;
    int64_t sizes[SHARDC_TENSOR_MAX_RANK];
    SC_VEC(sc_saved_shard) shards; /* each element is in one of them */
} sc_saved_tensor;

typedef struct sc_saved_index {
    const char *id;
    uint64_t step, save; /* save: states of the folder are counted in the order in which they were written */
    bool has_held_out;
    double held_out;
    SC_VEC(sc_saved_file) files; /* all but the index */
    SC_VEC(sc_saved_tensor) tensors;
    sc_map by_name; /* symbol -> tensor */
} sc_saved_index;

/* The name of the file of a rank, in the arena. */
const char *sc_state_rank_file(sc_arena *arena, uint32_t rank);

/* The texts of the files, in `arena`. NULL: no memory. */
const char *sc_state_index_text(sc_arena *arena, const sc_saved_index *index);
const char *sc_state_counts_text(sc_arena *arena, const sc_train_state *state);

/* Read a file and check it: NULL, or what is wrong with it, without its name. Everything is in the context's arena. */
const char *sc_state_index_read(sc_context *context, const char *path, sc_saved_index *out);
const char *sc_state_counts_read(sc_context *context, const char *path, sc_train_state *out);

#endif
