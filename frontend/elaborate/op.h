/* A call of a language op while it is converted to IR. */
#ifndef SHARDC_FRONTEND_ELABORATE_OP_H
#define SHARDC_FRONTEND_ELABORATE_OP_H

#include "frontend/elaborate/internal.h"

enum { SC_SOME = 255, SC_MAX_OPTIONS = 8 };

struct sc_op_call;
typedef sc_bval_list sc_op_builder(struct sc_op_call *call);

typedef struct sc_lang_op {
    const char *name;
    sc_op_builder *build;
    sc_op_kind kind;
    uint8_t dims, values;
    const char *options;
    bool has_arrow; /* dims are written as [A -> B] */
} sc_lang_op;

typedef struct sc_op_call {
    sc_frame *f;
    const sc_expr *expr;
    const sc_lang_op *row;
    sc_loc loc;
    uint32_t value_count;
    const sc_expr *values[SC_MAX_OPTIONS];
    const sc_arg *options[SC_MAX_OPTIONS]; /* by index in row->options; NULL: not given */
    uint32_t dim_count;
    sc_dim from[SC_MAX_RANK], to[SC_MAX_RANK]; /* as written; `to` is SC_NONE without an arrow */
    uint32_t leaf_count;
    sc_dim leaves[SC_MAX_RANK]; /* of all `from` */
} sc_op_call;

#define sc_call_error(c, id, ...)                                                                  \
    (sc_build_error((c)->f->b, id, (c)->loc, __VA_ARGS__), sc_no_results(c))

/* ---- call.c ---- */
/* one result that stands for an error already reported */
sc_bval_list sc_no_results(sc_op_call *call);
sc_bval_list sc_one_result(sc_op_call *call, sc_bval value);
sc_bval_list sc_one_tensor(sc_op_call *call, sc_value value);
/* Returns the leaf dims of one bracketed dim as an attribute. */
sc_attr sc_call_dim_attr(sc_op_call *call, sc_attr_key key, sc_dim dim);
sc_attr sc_call_leaves_attr(sc_op_call *call, sc_attr_key key);
/* Evaluates the i-th operand. */
sc_bval sc_call_value(sc_op_call *call, uint32_t i);
/* Returns the i-th operand as a tensor of its own dtype (a number as f32 or i32). SC_NONE after
 * reporting an error. */
sc_value sc_call_tensor(sc_op_call *call, uint32_t i);
const sc_expr *sc_call_option(sc_op_call *call, const char *name); /* NULL if not given */
/* Reads a numeric option; `otherwise` if not given. Sets *known (may be NULL) to false if it
 * depends on an unknown size. Returns false after reporting an error. */
bool sc_call_number(sc_op_call *call, const char *name, double otherwise, double *out, bool *known);
bool sc_call_integer(sc_op_call *call, const char *name, int64_t otherwise, int64_t *out);
/* sc_word_index: index of a word in a blank-separated list, or -1. sc_word_list: the list as text
 * `a, b, c`. */
int sc_word_index(const char *list, const char *word);
const char *sc_word_list(sc_builder *b, const char *list);
/* A word option, possibly with numbers: window(4). sc_call_word returns false after reporting an
 * error. */
bool sc_call_word(sc_op_call *call, const char *name, const char *otherwise, const char *choices,
                  sc_bval *out);
/* Sorts the numbers of option `name`, a word, as `signature` names them: blank-separated names, `=`
 * and a default, `..` for a list (all lists of one length). Returns false after reporting an error.
 */
bool sc_call_word_numbers(sc_op_call *call, const char *name, const sc_bval *word,
                          const char *signature, const double **numbers, uint32_t *count);
/* Returns the seed of a dropout op: its path and its index among the dropouts of that path. Each
 * dropout of a function thus has its own mask. */
sc_sym sc_call_dropout_seed(const sc_op_call *call);

sc_op_builder build_number, build_numbers, build_bools, build_pow, build_where, build_cast,
    build_dropout, build_moved, build_dot, build_sum, build_mean, build_reduction, build_normalised,
    build_logsumexp, build_gather, build_xent, build_onehot, build_topk, build_slice, build_concat,
    build_rename, build_regroup, build_positions, build_rope, build_attend, build_append,
    build_last;

#endif
