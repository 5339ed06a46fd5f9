/* What the forms of attention on GPUs share while they are written: inside of codegen/attention only. */
#ifndef SHARDC_CODEGEN_ATTENTION_CUDA_INTERNAL_H
#define SHARDC_CODEGEN_ATTENTION_CUDA_INTERNAL_H

#include "codegen/attention/cuda.h"
#include "codegen/attention/text.h"

typedef struct sc_attention_cuda {
    sc_attention_text text;
    sc_cuda_code *code;
    const sc_attention_cuda_tiles *tiles;
    uint32_t shared; /* bytes of the stage, so far */
} sc_attention_cuda;

/* Begins the function of the next stage: parameters are called as roles are, scratch is a pointer to bytes, params[] are the values. */
void sc_attention_cuda_begin(sc_attention_cuda *cuda, int64_t blocks, uint32_t threads, int resident);
void sc_attention_cuda_end(sc_attention_cuda *cuda);
/* Declares an array of shared memory, its begin a multiple of 16; the byte where it begins. */
uint32_t sc_attention_cuda_share(sc_attention_cuda *cuda, const char *type, const char *name, uint32_t element_bytes, int64_t count);
/* As sc_attention_decode, of a number that is less than the product of the sizes: narrow where that fits, no more divisions than needed. */
void sc_attention_cuda_decode(sc_attention_text *text, sc_attention_choice *choice, const char *number);

void sc_attention_cuda_simple(sc_attention_cuda *cuda);

/* ---- tiles ---- */

/* A head's rows in shared memory: `width` elements, those beyond `size` 0; rows are `step` elements apart, an odd number of 16 bytes, so
 * that eight rows' pieces of 16 bytes lie in all 32 banks. */
typedef struct sc_attention_head {
    int size, width, step;
} sc_attention_head;

sc_attention_head sc_attention_head_of(int64_t size);
/* Whether positions leave less than all keys to a query. */
bool sc_attention_has_interval(const sc_attention_desc *desc);
bool sc_attention_has_visible(const sc_attention_desc *desc);

/* NAME_copy, NAME_gather, NAME_product, NAME_add_weighted, NAME_round. */
void sc_attention_cuda_emit_tools(sc_attention_cuda *cuda);

/* What blocks of queries (forward, d_q) keep of their rows in shared memory. */
typedef struct sc_attention_places {
    sc_attention_role roles[SC_ATTENTION_ROLES]; /* NAME_of[row]: where the array begins for the row */
    uint32_t count, of_rows;                     /* of_rows: the first are the rows' own arrays, the others those of masks and biases */
    bool has_weight_row;
} sc_attention_places;

/* Those of masks and biases, and `more`, that are there. */
sc_attention_places sc_attention_places_of(const sc_attention_desc *desc, const sc_attention_role *more, size_t count);
void sc_attention_share_places(sc_attention_cuda *cuda, const sc_attention_places *places, int64_t rows);
/* Where all dims of a query are decoded, its q_at, .. being declared. */
void sc_attention_keep_places(sc_attention_text *text, const sc_attention_places *places, const char *row);
/* keep_at, bias_at, .., weight_row of the row. */
void sc_attention_read_places(sc_attention_text *text, const char *row);

/* A stage that goes over blocks of queries. In its text: sizes; lane; warp_row, the warp's first row in the block; unit, block, part. */
typedef struct sc_attention_queries {
    sc_attention_cuda *cuda;
    sc_attention_text *text;
    const sc_attention_desc *desc;
    sc_attention_cuda_tile tile;
    sc_attention_head e, own;
    int64_t rows, blocks; /* of a unit: queries, blocks of them */
    int block_rows;
    int parts; /* of the keys that a block sees */
    bool has_interval;
    sc_attention_places places;
    uint32_t queries_at; /* byte of shared memory */
} sc_attention_queries;

sc_attention_queries sc_attention_queries_of(sc_attention_cuda *cuda, const sc_attention_cuda_tile *tile, int parts,
                                             const sc_attention_role *roles, size_t count);
void sc_attention_declare_sizes(sc_attention_queries *q);
/* The function's begin: up to where the unit's dims are decoded; queries, keys, values, places. */
void sc_attention_begin_queries(sc_attention_queries *q);
void sc_attention_share_queries(sc_attention_queries *q);
/* Of each row: where its arrays are - those that are read below 0 for one that is not there or is padding, those that are written for one
 * that is not there - and its keys. */
void sc_attention_keep_rows(sc_attention_queries *q);
/* Declares the keys from low to high that some query of the block sees (block_), of the warp (warp_), that all of the warp see (inner_);
 * without an interval, block_ alone. Of several parts, block_ is the block's. */
void sc_attention_declare_hull(sc_attention_queries *q);
/* Begins the copies of rows and of the first tiles. */
void sc_attention_begin_copies(sc_attention_queries *q);
/* Opens the loop over tiles: begin (the first key), slot, with the tile there and the next on their way. */
void sc_attention_open_tiles(sc_attention_queries *q);
/* Whether a key is the row's, behind the declaration of what that reads; whether the tile has keys that are not all rows'. */
void sc_attention_declare_bounds(const sc_attention_queries *q);
const char *sc_attention_inside(const sc_attention_queries *q);
const char *sc_attention_cut(const sc_attention_queries *q);
/* sums times factors, as rows of `role`; head: e, own. Nobody reads queries any more. */
void sc_attention_write_rows(sc_attention_queries *q, sc_attention_role role, const char *head);

/* Opens loops over the elements of a warp's strips against a tile, around lines in which i, j, c are theirs, r counts the thread's rows. */
void sc_attention_open_elements(sc_attention_text *text, const char *columns);
void sc_attention_close_elements(sc_attention_text *text);
/* `score`, of type float and lvalue, to base 2: scaled, capped; `slope` is set where there is a place for it; with bias. */
void sc_attention_cuda_score(sc_attention_text *text, bool has_slope);
/* log2(e), as an expression of C. */
#define SC_LOG2_E 1.4426950408889634

void sc_attention_cuda_forward(sc_attention_cuda *cuda);
void sc_attention_cuda_grad(sc_attention_cuda *cuda);

#endif
