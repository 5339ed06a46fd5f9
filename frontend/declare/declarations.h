/* Declarations of a source file and its imports: models, entries, plans, weights and dims by
 * name. */
#ifndef SHARDC_FRONTEND_DECLARE_DECLARATIONS_H
#define SHARDC_FRONTEND_DECLARE_DECLARATIONS_H

#include "frontend/syntax/ast.h"
#include "ir/ops/ops.h"

/* All declarations of a file and its imports, by name. Built once, read-only afterwards. */
typedef struct sc_declarations sc_declarations;

/* ---- queries ---- */
typedef struct sc_entry_info {
    sc_sym model, entry;
    bool minimised; /* named by a `minimize` statement */
    bool cached;    /* declared with `at .. along ..` */
    sc_sym rows;    /* cached entries: the dim of the positions (B of `at pos[B]`); 0 otherwise */
    sc_loc loc;
    const sc_minimize *minimize; /* NULL unless minimised */
} sc_entry_info;
typedef SC_VEC(sc_entry_info) sc_entry_list;
typedef SC_VEC(const sc_plan *) sc_plan_list;
typedef SC_VEC(const sc_weights *) sc_weights_list;
typedef SC_VEC(sc_sym) sc_sym_list;

/* Lists entries in declaration order. model 0: those of all models. */
void sc_declarations_entries(const sc_declarations *program, sc_sym model, sc_entry_list *out);
/* Lists the names an entry returns, one per result; 0 for a result that is an unnamed expression.
 * Empty if their number differs from the number of results (one call with several results). */
void sc_declarations_returned_names(const sc_declarations *program, sc_sym model, sc_sym entry,
                                    sc_sym_list *out);
void sc_declarations_plans(const sc_declarations *program, sc_plan_list *out);
void sc_declarations_weights(const sc_declarations *program, sc_weights_list *out);
/* The file's only model, or 0 when there are none or several. */
sc_sym sc_declarations_only_model(const sc_declarations *program);
/* Lists the parameters of a model of which the module's state has no instance, as paths without
 * indices. */
void sc_declarations_unread_params(const sc_declarations *program, sc_sym model, const sc_module *m,
                                   sc_sym_list *out);
bool sc_declarations_has_dim(const sc_declarations *program, sc_sym dim);

/* ---- sizes ---- */
typedef struct sc_binding {
    sc_sym dim;
    int64_t size;
    sc_loc loc;
} sc_binding;
typedef SC_VEC(sc_binding) sc_binding_list;

/* Evaluates a constant integer expression over dims and literals. Returns false after reporting an
 * error. */
bool sc_declarations_eval_integer(const sc_declarations *program, const sc_expr *expr,
                                  const sc_binding_list *bindings, int64_t *out);

#endif
