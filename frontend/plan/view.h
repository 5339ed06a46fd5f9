/* What the lines of a plan may mean: a function's values by kind and by path. Private to frontend/plan and frontend/train. */
#ifndef SHARDC_FRONTEND_PLAN_VIEW_H
#define SHARDC_FRONTEND_PLAN_VIEW_H

#include "frontend/declare/internal.h"
#include "frontend/plan/plan.h"

/* ---- a function as plans see it (view.c) ---- */
enum {
    SC_KIND_NO_RULES = 0, /* kinds of a value that rules pass by: formals, constants, casts of parameters */
    SC_KINDS_FOLLOWING = 1 << SC_KIND_GRAD | 1 << SC_KIND_OPT /* state that lies like its parameter: pins and styles are for that */
};

/* Each value's kinds (bits of sc_tensor_kind) and its place: the text that `in PATHS` is compared with, its path or else its op's scope. */
typedef struct sc_plan_view {
    const sc_context *context;
    sc_module *m;
    sc_sym entry;
    bool symbolic;        /* stacks stand once: indices of patterns are not looked at */
    uint32_t value_count; /* of the module when the view was made; values made later are in no view */
    uint8_t *kinds;
    uint32_t *places; /* by value: index in place_paths */
    SC_VEC(sc_sym) place_paths;
    SC_VEC(sc_value) values; /* of the functions, in their order */
    sc_map by_path;          /* path -> first value of it (index in `values`); next_same chains */
    SC_VEC(uint32_t) next_same;
    struct sc_place_index *index; /* what finds the places that a path may mean; filled when it is first needed */
} sc_plan_view;

/* All functions of a module that holds one entry, or the train step made of it. */
sc_plan_view *sc_plan_view_make(sc_context *context, sc_module *m, sc_sym entry);
/* One of several entries, elaborated without sizes. */
sc_plan_view *sc_plan_view_make_symbolic(sc_context *context, sc_module *m, sc_func_id func);
/* Whether the op is of the forward pass, and no copy of one that is recomputed. */
bool sc_plan_in_forward(const sc_context *context, const sc_op *op);
sc_path_match sc_plan_view_match(const sc_plan_view *view, const sc_path *pattern, sc_sym path);
/* The path a value is found by: its own, or that of the state it reads; 0 when it has none. */
sc_sym sc_plan_value_path(const sc_module *m, sc_value value);

/* Reports a path whose names the functions have, but not at its indices. */
void sc_plan_check_indices(sc_context *context, const sc_plan_view *view, const sc_path *path);

/* ---- what the paths of a line mean (scope.c) ---- */
/* The values that the `in` paths of a line may cover: found by an index, so that thousands of lines cost what they mean. */
typedef struct sc_plan_scope {
    const sc_plan_view *view;
    const sc_path_list *paths; /* empty: everything */
    const uint32_t *values;    /* places in view->values, ascending; NULL: all of them */
    uint32_t count, number;    /* number: of the scope, for the matches that are remembered */
} sc_plan_scope;
sc_plan_scope sc_plan_scope_make(sc_context *context, const sc_plan_view *view, const sc_path_list *paths);
/* The i-th of its `count` values. */
sc_value sc_plan_scope_value(const sc_plan_scope *scope, uint32_t i);
/* The best match of any of the paths. */
sc_path_match sc_plan_scope_match(sc_plan_scope *scope, uint32_t place);

#endif
