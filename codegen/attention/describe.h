/* attend and attend_grad of a per-rank module as data, and the C that computes them.
 *
 * Every dim of such an op has one part: T (keys) and E (contracted between q and k); the dims of v that stand in the result in E's place,
 * *own*; and the *query* dims, all others of q. One of these may be the position dim, which masks compare with T. Arrays are dense and
 * row-major in the order of their types' dims, of local sizes; where they stand along a dim is a stride.
 *
 * All forms treat NaN and infinities of visible keys as the interpreter does. Of a key that is masked, the simple form reads nothing; the
 * others may multiply its value by a weight of 0, so values of masked keys have to be finite, but for keys that positions hide from
 * every query of a head.
 *
 * Emitted functions are kernels of programs (sc_image_kernel in program/format.h). Their arguments are the op's operands, then its
 * results, then, if scratch_bytes > 0, a scratch buffer of so many bytes; results are written whole. No check can fail. */
#ifndef SHARDC_CODEGEN_ATTENTION_DESCRIBE_H
#define SHARDC_CODEGEN_ATTENTION_DESCRIBE_H

#include "codegen/printer/helpers.h"
#include "ir/graph.h"
#include "program/format.h"

typedef enum sc_attention_role {
    SC_ATTENTION_Q,
    SC_ATTENTION_K,
    SC_ATTENTION_V,
    SC_ATTENTION_OUT, /* a result of attend, an operand of attend_grad; LSE, too */
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
    int64_t count; /* elements */
} sc_attention_array;

typedef struct sc_attention_dim {
    const char *name;
    int64_t size, global;                /* local; of the whole array, without padding */
    int64_t strides[SC_ATTENTION_ROLES]; /* in elements; 0 where the array lacks the dim */
    uint32_t has;                        /* bit per role */
    uint32_t first;                      /* parameter: global index of the local element 0; SC_NONE: 0 */
    bool is_uneven;                      /* the last shards hold padding */
    int64_t dropout_stride;              /* in the whole array of weights */
} sc_attention_dim;

typedef enum sc_attention_form {
    SC_ATTENTION_SIMPLE, /* a query at a time */
    SC_ATTENTION_TILED,  /* blocks of queries against tiles of keys, in registers and caches */
    SC_ATTENTION_DECODE  /* few queries a head: keys and values stream past them */
} sc_attention_form;

typedef struct sc_attention_desc {
    bool is_grad;
    sc_attention_array arrays[SC_ATTENTION_ROLES];
    sc_attention_dim t, e;
    uint32_t own_count, query_count;
    sc_attention_dim own[SC_MAX_RANK], queries[SC_MAX_RANK]; /* queries: in q's order */
    uint32_t own_e;                                          /* index of E in own; SC_NONE: v has no E */
    uint32_t position;                                       /* index of a query dim; SC_NONE: none */
    bool is_causal;
    int64_t window;           /* keys at <= position - window are masked; 0: none are for that */
    double scale, softcap, p; /* softcap 0, p 0: none */
    uint32_t param_count;     /* what the function is given: `first` of dims, then, with p, key, step, micro-batch */
    sc_image_param params[SC_MAX_RANK + 4];
    uint32_t key_param; /* step and micro-batch follow */
    uint32_t arg_count; /* without scratch, which follows them */
    int64_t scratch_bytes;
    sc_attention_form form;
    const char *why_simple; /* NULL unless SIMPLE: the reason, for people */
} sc_attention_desc;

/* In the context's arena. NULL when the op is not one that the verifier lets pass. */
sc_attention_desc *sc_attention_describe(const sc_module *m, sc_op_id op);

/* Gives it the simple form, whatever fits: what other forms are compared with. */
void sc_attention_make_simple(sc_attention_desc *desc);

/* ---- what forms ask of it ---- */
enum { SC_ATTENTION_TILE = 48 /* keys, in C */ };
bool sc_attention_is_unit(const sc_attention_dim *dim);
int64_t sc_attention_units(const sc_attention_desc *desc);
/* Queries of a unit. */
int64_t sc_attention_rows(const sc_attention_desc *desc);
int64_t sc_attention_own_size(const sc_attention_desc *desc);
/* Whether a cotangent is a sum that begins with zeros and grows in memory. */
bool sc_attention_is_summed(const sc_attention_desc *desc, sc_attention_role role);
/* Whether that happens in scratch, in the dtype of arithmetic, as a copy of the array, and where that begins, in elements of that. */
bool sc_attention_needs_sum(const sc_attention_desc *desc, sc_attention_role role);
int64_t sc_attention_sum_at(const sc_attention_desc *desc, sc_attention_role role);
/* Decoding: into how many chunks keys are split; what a query keeps of one, in elements of f32: sums, the largest score, the total; and the
 * scratch for that, in bytes. */
int64_t sc_attention_decode_chunks(const sc_attention_desc *desc);
int64_t sc_attention_decode_part(const sc_attention_desc *desc);
int64_t sc_attention_decode_scratch(const sc_attention_desc *desc);

/* ---- C ---- */
/* Writes static functions whose names begin with name_, and the function `name`. The helpers that they need are added to *helpers; they
 * and OpenMP's pragmas are all that the text needs. */
void sc_attention_emit(sc_context *context, const sc_attention_desc *desc, const char *name, sc_strbuf *out, sc_helper_set *helpers);

#endif
