/* Shared by the CUDA emitters of attention; internal to codegen/attention. */
#ifndef SHARDC_CODEGEN_ATTENTION_CUDA_INTERNAL_H
#define SHARDC_CODEGEN_ATTENTION_CUDA_INTERNAL_H

#include "codegen/attention/cuda.h"
#include "codegen/attention/text.h"

typedef struct sc_attention_cuda {
    sc_attention_text text;
    sc_cuda_code *code;
    const sc_attention_cuda_tiles *tiles;
    uint32_t shared; /* bytes of shared memory declared by the stage so far */
} sc_attention_cuda;

/* Begins the function of the next stage. Parameters are named after their roles, scratch is a byte
 * pointer, params[] holds the param values. */
void sc_attention_cuda_begin(sc_attention_cuda *cuda, int64_t blocks, uint32_t threads,
                             int resident);
void sc_attention_cuda_end(sc_attention_cuda *cuda);
/* Declares a shared memory array aligned to 16 bytes; returns its byte offset. */
uint32_t sc_attention_cuda_share(sc_attention_cuda *cuda, const char *type, const char *name,
                                 uint32_t element_bytes, int64_t count);
/* Like sc_attention_decode, for a number less than the product of the sizes: uses narrow integers
 * where they suffice and as few divisions as possible. */
void sc_attention_cuda_decode(sc_attention_text *text, sc_attention_choice *choice,
                              const char *number);

void sc_attention_cuda_simple(sc_attention_cuda *cuda);

/* ---- tiles ---- */

/* A head's rows in shared memory: `width` elements, zero beyond `size`. Rows are `step` elements
 * apart, an odd number of 16-byte pieces, so that the pieces of eight rows cover all 32 banks. */
typedef struct sc_attention_head {
    int size, width, step;
} sc_attention_head;

sc_attention_head sc_attention_head_of(int64_t size);
/* True if position masks can hide keys from a query. */
bool sc_attention_has_interval(const sc_attention_desc *desc);
bool sc_attention_has_visible(const sc_attention_desc *desc);

/* Emits NAME_copy, NAME_gather, NAME_matmul, NAME_add_weighted, NAME_round. */
void sc_attention_cuda_emit_tools(sc_attention_cuda *cuda);

/* Per-row offsets that stages over blocks of queries (forward, d_q) keep in shared memory. */
typedef struct sc_attention_places {
    sc_attention_role roles[SC_ATTENTION_ROLES]; /* NAME_of[row]: offset of the row in the array */
    uint32_t count, of_rows;                     /* of_rows: how many of them are the rows' own
                                                  * arrays; the rest are masks and biases */
    bool has_weight_row;
} sc_attention_places;

/* The masks and biases present, and those of `more` that are present. */
sc_attention_places sc_attention_places_of(const sc_attention_desc *desc,
                                           const sc_attention_role *more, size_t count);
void sc_attention_share_places(sc_attention_cuda *cuda, const sc_attention_places *places,
                               int64_t rows);
/* Stores the offsets of a row; all dims of its query are decoded and q_at, .. declared. */
void sc_attention_store_places(sc_attention_text *text, const sc_attention_places *places,
                               const char *row);
/* Declares keep_at, bias_at, .., weight_row of the row. */
void sc_attention_read_places(sc_attention_text *text, const char *row);

/* A stage over blocks of queries. Its text declares sizes; lane; warp_row, the warp's first row in
 * the block; unit, block, part. */
typedef struct sc_attention_queries {
    sc_attention_cuda *cuda;
    sc_attention_text *text;
    const sc_attention_desc *desc;
    sc_attention_cuda_tile tile;
    sc_attention_head e, own;
    int64_t rows, blocks; /* per unit: queries, blocks of queries */
    int block_rows;
    int parts; /* that the keys of a block are split into */
    bool has_interval;
    sc_attention_places places;
    uint32_t queries_at; /* byte offset in shared memory */
} sc_attention_queries;

sc_attention_queries sc_attention_queries_of(sc_attention_cuda *cuda,
                                             const sc_attention_cuda_tile *tile, int parts,
                                             const sc_attention_role *roles, size_t count);
void sc_attention_declare_sizes(sc_attention_queries *q);
/* Emits the start of the function, up to decoding the unit's dims; then declares queries, keys,
 * values and places. */
void sc_attention_begin_queries(sc_attention_queries *q);
void sc_attention_share_queries(sc_attention_queries *q);
/* Stores for each row the offsets of its arrays and its key interval. Offsets for reads are
 * negative for missing rows and padding; those for writes only for missing rows. */
void sc_attention_store_rows(sc_attention_queries *q);
/* Declares key intervals low .. high: the keys seen by some query of the block (block_), by some
 * query of the warp (warp_), by all queries of the warp (inner_). Without an interval, block_ only.
 * With several parts, block_ is clipped to the part. */
void sc_attention_declare_hull(sc_attention_queries *q);
/* Starts the copies of the rows and of the first tiles. */
void sc_attention_begin_copies(sc_attention_queries *q);
/* Opens the loop over tiles and declares begin (the first key) and slot; this tile has arrived and
 * the next ones are in flight. */
void sc_attention_open_tiles(sc_attention_queries *q);
/* Declares what the next two read. Then: the condition that a key is in the row's interval; the
 * condition that some key of the tile is outside some row's interval. */
void sc_attention_declare_bounds(const sc_attention_queries *q);
const char *sc_attention_inside(const sc_attention_queries *q);
const char *sc_attention_cut(const sc_attention_queries *q);
/* Writes sums times factors as rows of `role`; head: e or own. The queries in shared memory are
 * dead by now. */
void sc_attention_write_rows(sc_attention_queries *q, sc_attention_role role, const char *head);

/* Opens loops over the elements of a warp's strips against a tile; inside, i, j, c index the
 * element and r counts the thread's rows. */
void sc_attention_open_elements(sc_attention_text *text, const char *columns);
void sc_attention_close_elements(sc_attention_text *text);
/* Turns `score`, a float lvalue, into the base-2 score: scaled, capped, with bias. Sets `slope` if
 * has_slope. */
void sc_attention_cuda_score(sc_attention_text *text, bool has_slope);
/* log2(e), as a C expression. */
#define SC_LOG2_E 1.4426950408889634

void sc_attention_cuda_forward(sc_attention_cuda *cuda);
void sc_attention_cuda_grad(sc_attention_cuda *cuda);

#endif
