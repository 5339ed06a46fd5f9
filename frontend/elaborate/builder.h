/* Values, instances, frames and the builder of elaboration, by how long they live. internal.h has
 * the functions. */
#ifndef SHARDC_FRONTEND_ELABORATE_BUILDER_H
#define SHARDC_FRONTEND_ELABORATE_BUILDER_H

#include "frontend/declare/internal.h"
#include "frontend/elaborate/build.h"

/* ---- values ---- */
typedef enum sc_bval_kind {
    SC_BVAL_NONE,   /* an error was reported: users of the value report nothing further */
    SC_BVAL_NUMBER, /* a constant without a dtype yet */
    SC_BVAL_WORD,   /* a static argument such as `causal` or `window(4096)` */
    SC_BVAL_LIST,   /* static arguments of the instances of a stack */
    SC_BVAL_TENSOR
} sc_bval_kind;

/* Whether a value keeps its dtype where others are rounded to `act`: because of a cast in this
 * expression, or because of its op, and then under any name. */
typedef enum sc_fixed {
    SC_ROUNDS,
    SC_FIXED_BY_CAST /* here */,
    SC_FIXED_BY_OP /* under any name */
} sc_fixed;

/* A number of a word: `original = 4096` in yarn(4, original = 4096). */
typedef struct sc_word_number {
    sc_name name;  /* 0: by its place */
    uint32_t list; /* 0: none; else in which list of the word, from 1 */
    double number; /* 1 if it depends on a dim without a size, which then is `unknown` */
    bool is_integer, unknown;
} sc_word_number;

typedef SC_VEC(sc_word_number) sc_word_number_list;

typedef struct sc_bval {
    sc_bval_kind kind;
    sc_fixed fixed;
    bool is_integer, unknown; /* NUMBER; unknown: depends on a dim without a size */
    sc_sym word;
    uint32_t count;                /* WORD, LIST */
    const sc_word_number *numbers; /* WORD */
    const struct sc_bval *items;   /* LIST */
    sc_value value;
    int64_t integer;
    double number; /* set for integers too */
} sc_bval;

typedef struct sc_bval_list {
    sc_bval *data;
    uint32_t count;
} sc_bval_list;

/* ---- instances and frames ---- */
typedef struct sc_dim_binding {
    sc_sym name;
    sc_dim dim;
} sc_dim_binding;
typedef SC_VEC(sc_dim_binding) sc_dim_binding_list;

typedef struct sc_static {
    sc_sym name;
    sc_bval value;
} sc_static;
typedef SC_VEC(sc_static) sc_static_list;

typedef struct sc_instance {
    const sc_unit *unit;               /* NULL: a fn at file level, which sees no params */
    sc_sym path;                       /* e.g. layers[0].attn; 0 for a model */
    sc_dim_binding_list params;        /* the block's own dim parameters */
    sc_dim_binding_list substitutions; /* of file-level dims; inherited by subs */
    sc_static_list statics;
    /* of a fn: the instance that contains it, without the fn's own arguments; NULL: this
     * instance */
    const struct sc_instance *home;
} sc_instance;

typedef struct sc_local {
    sc_sym name;
    sc_bval value;
    sc_loc loc;
    uint32_t depth; /* number of enclosing repeats at its first assignment */
    sc_name dtype;  /* declared dtype, which also applies to later assignments; 0: none */
} sc_local;

typedef struct sc_repeat {
    sc_dim dim;
    int64_t index;
} sc_repeat;

struct sc_builder;

typedef struct sc_frame {
    struct sc_builder *b;
    const struct sc_frame *caller;
    const sc_callable *callable;
    const sc_instance *instance;
    sc_sym path;  /* prefix of paths in this frame: layers[0].attn, trunk, loss */
    sc_sym scope; /* of ops created in this frame */
    sc_dtype act;
    uint32_t level; /* number of callers */
    SC_VEC(sc_local) locals;
    sc_map local_map; /* symbol -> index into locals; SC_NONE if no longer visible */
    SC_VEC(sc_repeat) repeats;
    bool returned;
    sc_bval_list results;
} sc_frame;

/* ---- builders, by lifetime ---- */
/* What is known of the dims of the program and of the module. */
typedef struct sc_build_dims {
    int64_t *program_sizes; /* by program dim; 0: unknown */
    sc_dim *module_dims;    /* by program dim; SC_NONE until used */
    SC_VEC(int64_t) sizes;  /* by module dim */
    bool *needed;           /* by program dim: used by what was elaborated; may be NULL */
} sc_build_dims;

/* The function of one entry, or of a block or fn that is checked by itself. */
typedef struct sc_build_entry_values {
    sc_func_id func;
    sc_map casts;                     /* value << 8 | dtype -> value */
    sc_map constants[SC_DTYPE_COUNT]; /* bits of the number -> value */
    sc_map params;                    /* path -> value as read (after its cast) */
    /* path -> value in the cache's dtype: as read, or as last appended to */
    sc_map caches;
    sc_map dropouts;         /* path -> number of dropouts so far */
    sc_map pins;             /* path << 32 | place: already in result->pins */
    SC_VEC(uint32_t) states; /* used by this function */
    bool cached;
    sc_dim along; /* of a cached entry, else SC_NONE */
    sc_value pos, len;
} sc_build_entry_values;

typedef struct sc_build_limits {
    /* recursion depth on the C stack: nested expressions of all frames */
    uint32_t depth;
    uint32_t steps, step_limit; /* statements and expressions so far */
    bool may_stop;              /* running out of steps is not an error */
    bool stopped;
    uint32_t checked_types;
} sc_build_limits;

/* Lives as long as a request; frames and instances (above) are those of one body each. */
typedef struct sc_builder {
    sc_context *context;
    sc_declarations *program;
    sc_build_request request;
    sc_build_result *result;
    sc_module *m;
    sc_build_dims dims;
    sc_build_entry_values entry;
    sc_build_limits limits;
    uint32_t noted; /* number of messages before the newest report */
    bool failed;
} sc_builder;

#endif
