/* What a source declares: its models, entries, plans, weights and dims by name. */
#ifndef SHARDC_FRONTEND_DECLARE_DECLARATIONS_H
#define SHARDC_FRONTEND_DECLARE_DECLARATIONS_H

#include "frontend/syntax/ast.h"
#include "ir/ops/ops.h"

/* Everything that a file and its imports declare, by name. Made once, read-only afterwards. */
typedef struct sc_program sc_program;

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

#endif
