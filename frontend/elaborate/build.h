/* From syntax trees to the global program: names, dims, types, then one entry point elaborated into straight-line IR. */
#ifndef SHARDC_FRONTEND_ELABORATE_BUILD_H
#define SHARDC_FRONTEND_ELABORATE_BUILD_H

#include "frontend/syntax/ast.h"
#include "ir/ops/ops.h"

/* Everything that a file and its imports declare, by name. Made once, read-only afterwards. */
typedef struct sc_program sc_program;

/* Collects the declarations, checks what needs no sizes: duplicate names and paths, dims (cycles, composites, aliases), that blocks, fns
 * and subs exist and do not contain themselves, that plans, weights and minimize name models. Never NULL; errors are in context->diag. */
sc_program *sc_program_new(sc_context *context, const sc_file *file);

/* ---- looking at a program ---- */
typedef struct sc_entry_info {
    sc_sym model, entry;
    bool minimised; /* a minimize statement names it */
    bool cached;    /* declared `at .. along ..` */
    sc_sym rows;    /* of a cached entry: the dim of its positions, B of `at pos[B]`; 0 without */
    sc_loc loc;
    const sc_minimize *minimize; /* NULL unless minimised */
} sc_entry_info;
typedef SC_VEC(sc_entry_info) sc_entry_list;
typedef SC_VEC(const sc_plan *) sc_plan_list;
typedef SC_VEC(const sc_weights *) sc_weights_list;
typedef SC_VEC(sc_sym) sc_sym_list;

void sc_program_entries(const sc_program *program, sc_sym model, sc_entry_list *out); /* in order of declaration; model 0: of all */
/* The names that an entry returns, by result; 0 where an expression without a name stands. Empty where these are not as many as the
 * results: a call with several. */
void sc_program_returned_names(const sc_program *program, sc_sym model, sc_sym entry, sc_sym_list *out);
void sc_program_plans(const sc_program *program, sc_plan_list *out);
void sc_program_weights(const sc_program *program, sc_weights_list *out);
/* The file's only model, or 0 when there are none or several. */
sc_sym sc_program_only_model(const sc_program *program);
/* Parameters of a model that none of the module's state is an instance of, as paths without indices. */
void sc_program_unread_params(const sc_program *program, sc_sym model, const sc_module *m, sc_sym_list *out);
bool sc_program_has_dim(const sc_program *program, sc_sym dim);

/* ---- sizes ---- */
typedef struct sc_binding {
    sc_sym dim;
    int64_t size;
    sc_loc loc;
} sc_binding;
typedef SC_VEC(sc_binding) sc_binding_list;

/* Evaluates a constant integer expression over dims and literals; false after a message. */
bool sc_program_eval_integer(const sc_program *program, const sc_expr *expr, const sc_binding_list *bindings, int64_t *out);
/* Folds a constant number in f64; the names of dims are their sizes in the entry. bindings NULL: no dim has a size, and *unknown tells
 * that the number depends on one. False after a message. */
bool sc_program_eval_number(sc_program *program, const sc_expr *expr, sc_sym entry, const sc_binding_list *bindings, double *out,
                            bool *unknown);

/* Dims that the entry needs (of its tensors, its stacks, its expressions) and that have no size under these bindings. */
void sc_program_unbound_dims(sc_program *program, sc_sym model, sc_sym entry, const sc_binding_list *bindings, sc_sym_list *out);

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
bool sc_build_entry(sc_program *program, const sc_build_request *request, sc_module *m, sc_build_result *result);

/* Elaborates every entry, block and fn symbolically, so that what no plan reaches is checked too. */
void sc_program_check(sc_program *program);

#endif
