/* Elaborates one entry of the declarations into the global program: straight-line IR. */
#ifndef SHARDC_FRONTEND_ELABORATE_BUILD_H
#define SHARDC_FRONTEND_ELABORATE_BUILD_H

#include "frontend/declare/declarations.h"
#include "frontend/elaborate/route_dots.h"

/* ---- sizes ---- */
/* Folds a constant number in f64. Names of dims evaluate to their sizes in the entry. If `bindings`
 * is NULL no dim has a size, and *unknown is set if the number depends on one. Returns false after
 * reporting an error. */
bool sc_declarations_eval_number(sc_declarations *program, const sc_expr *expr, sc_sym entry,
                                 const sc_binding_list *bindings, double *out, bool *unknown);

/* Lists the dims that the entry needs (in its tensors, stacks and expressions) and that have no
 * size under these bindings. */
void sc_declarations_unbound_dims(sc_declarations *program, sc_sym model, sc_sym entry,
                                  const sc_binding_list *bindings, sc_sym_list *out);

/* ---- elaboration ---- */
typedef struct sc_build_request {
    sc_sym model, entry;
    /* later ones override earlier ones; an alias of a bound or sized dim may have its own size */
    const sc_binding_list *bindings;
    /* Returns the dtype of a kind (SC_KIND_PARAM, ACT, CACHE) for the tensor at `path`, from the
     * plan's precision lines. */
    sc_dtype (*dtype_of)(void *user, sc_tensor_kind kind, sc_sym path);
    void *user;
    bool symbolic; /* types without sizes, each stack once; for checking only */
    bool training; /* keep dropout */
} sc_build_request;

/* `@axis` in the model's text: pins that dim to the axes. */
typedef struct sc_inline_pin {
    sc_sym path; /* of a value, formal, param or cache */
    sc_dim dim;  /* a leaf, or the id of a composite */
    sc_name_list axes;
    sc_loc loc;
} sc_inline_pin;

typedef struct sc_build_result {
    sc_sym entry;
    sc_func_id func;
    SC_VEC(sc_inline_pin) pins;
    sc_path_texts unmade; /* of weights gathered for products that are routed instead */
    sc_dim cache_dim;     /* the dim of the keys in the caches of a cached entry, or SC_NONE */
} sc_build_result;

/* Elaborates one entry into a function of the module, named after the entry. Declares dims and
 * state on first use. Every block instance is inlined; a value has a path if the source names it.
 * Returns false after reporting errors.
 * - Inputs are the first ops (`input`), in declared order, then pos and pos_len of a cached entry.
 *   Their paths are `<entry>.<name>`.
 * - A parameter is one `param` op at its first use, followed by a cast to the act dtype. Only the
 *   result of the `param` op has the path.
 * - Each argument of a block, fn or entry call passes through a `use` op with the formal's path
 *   (`layers[0].attn.x`), each result through a `use` op with path `..out`. Results of the entry
 *   have paths `<entry>.out` (`out0`, `out1` if several), then `return` follows.
 * - The scope of an op is the instance path (`layers[0].attn`), or at model level the name of the
 *   fn or entry.
 * - Ops that read global positions in a cached entry have the operands pos, len.
 * - A mean is a sum times the reciprocal of the sizes. */
bool sc_build_entry(sc_declarations *program, const sc_build_request *request, sc_module *m,
                    sc_build_result *result);

/* Elaborates every entry, block and fn symbolically, so that code no plan reaches is checked
 * too. */
void sc_declarations_check(sc_declarations *program);

#endif
