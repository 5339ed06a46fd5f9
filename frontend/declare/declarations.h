/* What a source declares: its models, entries, plans, weights and dims by name. */
#ifndef SHARDC_FRONTEND_DECLARE_DECLARATIONS_H
#define SHARDC_FRONTEND_DECLARE_DECLARATIONS_H

#include "frontend/syntax/ast.h"
#include "ir/ops/ops.h"

/* Everything that a file and its imports declare, by name. Made once, read-only afterwards. */
typedef struct sc_declarations sc_declarations;

/* ---- looking at them ---- */
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

/* In order of declaration; model 0: of all. */
void sc_declarations_entries(const sc_declarations *program, sc_sym model, sc_entry_list *out);
/* The names that an entry returns, by result; 0 where an expression without a name stands. Empty where these are not as many as the
 * results: a call with several. */
void sc_declarations_returned_names(const sc_declarations *program, sc_sym model, sc_sym entry, sc_sym_list *out);
void sc_declarations_plans(const sc_declarations *program, sc_plan_list *out);
void sc_declarations_weights(const sc_declarations *program, sc_weights_list *out);
/* The file's only model, or 0 when there are none or several. */
sc_sym sc_declarations_only_model(const sc_declarations *program);
/* Parameters of a model that none of the module's state is an instance of, as paths without indices. */
void sc_declarations_unread_params(const sc_declarations *program, sc_sym model, const sc_module *m, sc_sym_list *out);
bool sc_declarations_has_dim(const sc_declarations *program, sc_sym dim);

/* ---- sizes ---- */
typedef struct sc_binding {
    sc_sym dim;
    int64_t size;
    sc_loc loc;
} sc_binding;
typedef SC_VEC(sc_binding) sc_binding_list;

/* Evaluates a constant integer expression over dims and literals; false after a message. */
bool sc_declarations_eval_integer(const sc_declarations *program, const sc_expr *expr, const sc_binding_list *bindings, int64_t *out);

#endif
