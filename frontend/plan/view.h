/* Values of a function by kind and by path, as lines of a plan refer to them. Private to
 * frontend/plan and frontend/train. */
#ifndef SHARDC_FRONTEND_PLAN_VIEW_H
#define SHARDC_FRONTEND_PLAN_VIEW_H

#include "frontend/declare/internal.h"
#include "frontend/plan/plan.h"

/* ---- views of functions (view.c) ---- */
enum {
    /* the kinds of values that rules skip: formals, constants, casts of parameters */
    SC_KIND_NO_RULES = 0,
    /* state that follows its parameter's placement: pins and styles apply to it */
    SC_KINDS_FOLLOWING = 1 << SC_KIND_GRAD | 1 << SC_KIND_OPT
};

/* For each value its kinds (bits of sc_tensor_kind) and its place: the path that `in PATHS` is
 * compared with, which is its own path or its op's scope. */
typedef struct sc_plan_view {
    const sc_context *context;
    sc_module *m;
    sc_sym entry;
    bool symbolic; /* each stack appears once: indices in patterns are ignored */
    /* of the module when the view was made; values created later are not in the view */
    uint32_t value_count;
    uint8_t *kinds;
    uint32_t *places; /* by value: index into place_paths */
    SC_VEC(sc_sym) place_paths;
    SC_VEC(sc_value) values; /* of the functions, in order */
    /* path -> its first value (index into `values`); next_same links the others */
    sc_map by_path;
    SC_VEC(uint32_t) next_same;
    /* finds the places that a path may match; filled when first needed */
    struct sc_place_index *index;
} sc_plan_view;

/* Returns a view of all functions of a module that holds one entry, or the train step made of
 * it. */
sc_plan_view *sc_plan_view_make(sc_context *context, sc_module *m, sc_sym entry);
/* Returns a view of one of several entries, elaborated without sizes. */
sc_plan_view *sc_plan_view_make_symbolic(sc_context *context, sc_module *m, sc_func_id func);
/* True if the op belongs to the forward pass and is not a recomputed copy. */
bool sc_plan_in_forward(const sc_context *context, const sc_op *op);
sc_path_match sc_plan_view_match(const sc_plan_view *view, const sc_path *pattern, sc_sym path);
/* Returns the path by which a value is found: its own, or that of the state it reads; 0 if it has
 * none. */
sc_sym sc_plan_value_path(const sc_module *m, sc_value value);

/* Reports a path whose names exist in the functions, but not with its indices. */
void sc_plan_check_indices(sc_context *context, const sc_plan_view *view, const sc_path *path);

/* ---- values that the paths of a line match (scope.c) ---- */
/* The values that the `in` paths of a line may cover. An index finds them, so that the cost of
 * thousands of lines is proportional to the values they match. */
typedef struct sc_plan_scope {
    const sc_plan_view *view;
    const sc_path_list *paths; /* empty: all values */
    const uint32_t *values;    /* indices into view->values, ascending; NULL: all of them */
    uint32_t count, number;    /* number: identifies the scope in cached matches */
} sc_plan_scope;
sc_plan_scope sc_plan_scope_make(sc_context *context, const sc_plan_view *view,
                                 const sc_path_list *paths);
/* Returns the i-th of the `count` values. */
sc_value sc_plan_scope_value(const sc_plan_scope *scope, uint32_t i);
/* Returns the best match of any of the paths. */
sc_path_match sc_plan_scope_match(sc_plan_scope *scope, uint32_t place);

#endif
