/* From declarations to the global program: one entry point elaborated into straight-line IR. */
#ifndef SHARDC_FRONTEND_ELABORATE_BUILD_H
#define SHARDC_FRONTEND_ELABORATE_BUILD_H

#include "frontend/declare/declarations.h"

/* ---- sizes ---- */
/* Folds a constant number in f64; the names of dims are their sizes in the entry. bindings NULL: no dim has a size, and *unknown tells
 * that the number depends on one. False after a message. */
bool sc_declarations_eval_number(sc_declarations *program, const sc_expr *expr, sc_sym entry, const sc_binding_list *bindings, double *out,
                                 bool *unknown);

/* Dims that the entry needs (of its tensors, its stacks, its expressions) and that have no size under these bindings. */
void sc_declarations_unbound_dims(sc_declarations *program, sc_sym model, sc_sym entry, const sc_binding_list *bindings, sc_sym_list *out);

/* ---- elaboration ---- */
typedef struct sc_build_request {
    sc_sym model, entry;
    const sc_binding_list *bindings; /* later ones win; an alias of a bound or sized dim may have its own size */
    /* dtype of a kind (SC_KIND_PARAM, ACT, CACHE) for the tensor at `path`, from the plan's precision lines */
    sc_dtype (*dtype_of)(void *user, sc_tensor_kind kind, sc_sym path);
    void *user;
    bool symbolic; /* types without sizes, each stack once: checking only */
    bool training; /* keep dropout */
} sc_build_request;

/* `@axis` written in the model: a pin of that dim for that axis. */
typedef struct sc_inline_pin {
    sc_sym path; /* of the value, formal, param or cache */
    sc_dim dim;  /* a leaf, or a composite's id */
    sc_name_list axes;
    sc_loc loc;
} sc_inline_pin;

typedef struct sc_build_result {
    sc_sym entry;
    sc_func_id func;
    SC_VEC(sc_inline_pin) pins;
    sc_dim cache_dim; /* the key dim of caches in a cached entry, or SC_NONE */
} sc_build_result;

/* Elaborates one entry into a function of the module (named after the entry), declaring dims and state on first use. Every instance of
 * every block is inlined; a value has a path when the source gives it one. False after messages.
 *
 * - inputs are `input` ops first, in declared order (then pos, pos_len of a cached entry), with path `<entry>.<name>`;
 * - a parameter is one `param` op where it is first used, cast to the act dtype right after it (path on the param op's result only);
 * - the argument of each formal of a block, fn or entry call goes through a `use` op whose path is the formal's (`layers[0].attn.x`),
 *   and each result through a `use` op with path `..out`; an entry's through `<entry>.out` (`out0`, `out1` when several), then `return`;
 * - scope of ops: the instance path (`layers[0].attn`), or the fn's or entry's name at model level;
 * - ops that must read a global position in a cached entry have the operands pos, len;
 * - means are a sum and a multiplication by the reciprocal of the sizes. */
bool sc_build_entry(sc_declarations *program, const sc_build_request *request, sc_module *m, sc_build_result *result);

/* Elaborates every entry, block and fn symbolically, so that what no plan reaches is checked too. */
void sc_declarations_check(sc_declarations *program);

#endif
