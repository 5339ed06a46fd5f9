/* attend and attend_grad of a per-rank module as plain data, and the C emitter.
 *
 * Each dim of the op plays one part: T (keys); E (contracted between q and k); the *own* dims,
 * those of v that take E's place in the result; and the *query* dims, all other dims of q. One of
 * the query dims may be the position dim, which position masks compare with T. Arrays are dense and
 * row-major in the order of their types' dims, with local sizes; a dim's stride locates an element.
 *
 * All forms treat NaN and infinities of visible keys as the interpreter does. The simple form reads
 * nothing of a masked key. The others may multiply its value by a weight of 0, so values of masked
 * keys must be finite, except for keys that position masks hide from every query of a head.
 *
 * Emitted functions are program kernels (sc_image_kernel in program/format.h). Their arguments are
 * the op's operands, its results and, if scratch_bytes > 0, a scratch buffer of that size. Results
 * are written in full. There are no run-time checks. */
#ifndef SHARDC_CODEGEN_ATTENTION_DESCRIBE_H
#define SHARDC_CODEGEN_ATTENTION_DESCRIBE_H

#include "codegen/printer/helpers.h"
#include "ir/graph.h"
#include "program/format.h"

typedef enum sc_attention_role {
    SC_ATTENTION_Q,
    SC_ATTENTION_K,
    SC_ATTENTION_V,
    SC_ATTENTION_OUT, /* a result of attend, an operand of attend_grad; so is LSE */
    SC_ATTENTION_LSE,
    SC_ATTENTION_D_OUT,
    SC_ATTENTION_KEEP,
    SC_ATTENTION_BIAS,
    SC_ATTENTION_SEGMENTS,
    SC_ATTENTION_KEY_SEGMENTS,
    SC_ATTENTION_POS,
    SC_ATTENTION_LEN,
    SC_ATTENTION_D_Q,
    SC_ATTENTION_D_K,
    SC_ATTENTION_D_V,
    SC_ATTENTION_D_BIAS,
    SC_ATTENTION_ROLES
} sc_attention_role;

typedef struct sc_attention_array {
    bool is_there;
    sc_dtype dtype;
    uint32_t arg;
    int64_t count; /* of elements */
} sc_attention_array;

typedef struct sc_attention_dim {
    const char *name;
    int64_t size, global;                /* local; of the global array, without padding */
    int64_t strides[SC_ATTENTION_ROLES]; /* in elements; 0 if the array lacks the dim */
    uint32_t has;                        /* a bit per role */
    uint32_t in_all; /* a bit per role: arrays with the keys of all members of a ring */
    /* param: global index of element 0; SC_NONE: 0. With a chunk, of a zigzag: element i is element
     * j = within + i of what a member holds, and has the global index first + j if j < chunk, else
     * second + plus + j; `second` and `within` are params, too, the latter maybe SC_NONE: 0 */
    uint32_t first, second, within;
    int64_t chunk, plus;
    bool is_uneven;         /* the last shards hold padding */
    int64_t dropout_stride; /* in the global array of weights */
} sc_attention_dim;

typedef enum sc_attention_form {
    SC_ATTENTION_SIMPLE, /* one query at a time */
    SC_ATTENTION_TILED,  /* blocks of queries against tiles of keys, in registers and caches */
    SC_ATTENTION_DECODE  /* few queries per head: keys and values are streamed past them */
} sc_attention_form;

typedef struct sc_attention_desc {
    bool is_grad;
    sc_attention_array arrays[SC_ATTENTION_ROLES];
    sc_attention_dim t, e;
    uint32_t own_count, query_count;
    sc_attention_dim own[SC_MAX_RANK], queries[SC_MAX_RANK]; /* queries: in q's order */
    /* index of E in own; SC_NONE: v has no E */
    uint32_t own_e;
    /* index of a query dim; SC_NONE: none */
    uint32_t position;
    bool is_causal;
    int64_t window;           /* keys at <= position - window are masked; 0: no window */
    double scale, softcap, p; /* softcap 0, p 0: none */
    uint32_t param_count;     /* `first` of dims; if p > 0 then key, step, micro-batch */
    sc_image_param params[3 * SC_MAX_RANK + 4];
    uint32_t key_param; /* step and micro-batch follow */
    uint32_t arg_count; /* without scratch, which follows them */
    int64_t scratch_bytes;
    sc_attention_form form;
    const char *why_simple; /* NULL unless SIMPLE: the reason, for users */
} sc_attention_desc;

/* Allocates in the context's arena. NULL if the verifier would reject the op. */
sc_attention_desc *sc_attention_describe(const sc_module *m, sc_op_id op);

/* Forces the simple form, which the other forms are tested against. */
void sc_attention_make_simple(sc_attention_desc *desc);

/* The part of all pairs of queries and keys that its position mask leaves, over all positions. */
double sc_attention_visible_part(const sc_attention_desc *desc);

/* ---- queries of the emitters ---- */
enum { SC_ATTENTION_TILE = 48 /* keys, in C */ };
bool sc_attention_is_unit(const sc_attention_dim *dim);
/* True if different queries share keys and values, whose cotangents are then sums over them. */
bool sc_attention_shares_keys(const sc_attention_desc *desc);
int64_t sc_attention_units(const sc_attention_desc *desc);
/* Queries per unit. */
int64_t sc_attention_rows(const sc_attention_desc *desc);
int64_t sc_attention_own_size(const sc_attention_desc *desc);
/* True if the cotangent of `role` is a sum accumulated in memory, starting from zeros. */
bool sc_attention_is_summed(const sc_attention_desc *desc, sc_attention_role role);
/* True if it is accumulated in scratch, in the arithmetic dtype, as a copy of the array; and the
 * offset of that copy, in elements of that dtype. */
bool sc_attention_needs_sum(const sc_attention_desc *desc, sc_attention_role role);
int64_t sc_attention_sum_at(const sc_attention_desc *desc, sc_attention_role role);
/* Decode form: the number of chunks that keys are split into; the f32 elements that a query keeps
 * per chunk (sums, the largest score, the total); the bytes of scratch for them. */
int64_t sc_attention_decode_chunks(const sc_attention_desc *desc);
int64_t sc_attention_decode_part(const sc_attention_desc *desc);
int64_t sc_attention_decode_scratch(const sc_attention_desc *desc);

/* ---- C ---- */
/* Emits static functions with the prefix NAME_, and the function `name`. Adds the helpers they call
 * to *helpers; the text needs nothing else but OpenMP pragmas. */
void sc_attention_emit(sc_context *context, const sc_attention_desc *desc, const char *name,
                       sc_strbuf *out, sc_helper_set *helpers);

#endif
