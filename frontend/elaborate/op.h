/* One call of a language op on its way to the IR. */
#ifndef SHARDC_FRONTEND_ELABORATE_OP_H
#define SHARDC_FRONTEND_ELABORATE_OP_H

#include "frontend/elaborate/internal.h"

enum { SC_SOME = 255, SC_MAX_OPTIONS = 7 };

struct sc_op_call;
typedef sc_bval_list sc_op_builder(struct sc_op_call *call);

typedef struct sc_lang_op {
    const char *name;
    sc_op_builder *build;
    sc_op_kind kind;
    uint8_t dims, values;
    const char *options;
} sc_lang_op;

typedef struct sc_op_call {
    sc_frame *f;
    const sc_expr *expr;
    const sc_lang_op *row;
    sc_loc loc;
    uint32_t value_count;
    const sc_expr *values[SC_MAX_OPTIONS];
    const sc_arg *options[SC_MAX_OPTIONS]; /* in the order of the row; NULL: not given */
    uint32_t dim_count;
    sc_dim from[SC_MAX_RANK], to[SC_MAX_RANK]; /* as written; `to` is SC_NONE without an arrow */
    uint32_t leaf_count;
    sc_dim leaves[SC_MAX_RANK]; /* of all `from` */
} sc_op_call;

#define sc_call_error(c, id, ...) (sc_build_error((c)->f->b, id, (c)->loc, __VA_ARGS__), sc_no_results(c))

/* ---- call.c ---- */
sc_bval_list sc_no_results(sc_op_call *call); /* one value that says nothing more */
sc_bval_list sc_one_result(sc_op_call *call, sc_bval value);
sc_bval_list sc_one_tensor(sc_op_call *call, sc_value value);
/* The leaf dims of one bracketed dim as an attribute. */
sc_attr sc_call_dim_attr(sc_op_call *call, sc_attr_key key, sc_dim dim);
sc_attr sc_call_leaves_attr(sc_op_call *call, sc_attr_key key);
/* The i-th operand evaluated. */
sc_bval sc_call_value(sc_op_call *call, uint32_t i);
/* The i-th operand as a tensor of its own dtype (a number as f32 or i32); SC_NONE after a message. */
sc_value sc_call_tensor(sc_op_call *call, uint32_t i);
const sc_expr *sc_call_option(sc_op_call *call, const char *name); /* NULL */
/* A number option: `otherwise` when not given, *known (may be NULL) false when it depends on a size that is not known. */
bool sc_call_number(sc_op_call *call, const char *name, double otherwise, double *out, bool *known);
bool sc_call_integer(sc_op_call *call, const char *name, int64_t otherwise, int64_t *out);
/* Index of a word in a blank-separated list, or -1; such a list as `a, b, c`. */
int sc_word_index(const char *list, const char *word);
const char *sc_word_list(sc_builder *b, const char *list);
/* A word option, perhaps with numbers: window(4). False after a message. */
typedef struct sc_word_option {
    sc_sym word;
    uint32_t count;
    sc_bval numbers[4];
} sc_word_option;
bool sc_call_word(sc_op_call *call, const char *name, const char *otherwise, const char *choices, sc_word_option *out);
/* Each dropout of a function has its own mask: its seed is the path where it stands, counted there. */
sc_sym sc_call_dropout_seed(const sc_op_call *call);

sc_op_builder build_unary, build_float, build_pair, build_logical, build_pow, build_where, build_cast, build_dropout, build_moved,
    build_dot, build_sum, build_mean, build_reduction, build_normalised, build_gather, build_xent, build_onehot, build_topk, build_slice,
    build_concat, build_rename, build_regroup, build_positions, build_rope, build_attend, build_append, build_last;

#endif
