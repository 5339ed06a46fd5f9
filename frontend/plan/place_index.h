/* The places of a view, found by path. Private to frontend/plan. */
#ifndef SHARDC_FRONTEND_PLAN_PLACE_INDEX_H
#define SHARDC_FRONTEND_PLAN_PLACE_INDEX_H

#include "frontend/plan/view.h"

typedef struct sc_named_place {
    const char *path; /* without indices */
    uint32_t place;
} sc_named_place;

/* A match that a scope has looked up. */
typedef struct sc_place_memo {
    uint32_t scope;
    uint8_t match;
} sc_place_memo;

typedef struct sc_place_index {
    sc_context *context;
    sc_named_place *places; /* sorted; NULL until it is needed */
    uint32_t *first_value;  /* by place: where its values begin in `values`; one more at the end */
    uint32_t *values;       /* indices in view->values */
    sc_place_memo *matches; /* by place */
    uint32_t scopes;        /* numbers given out */
} sc_place_index;

typedef SC_VEC(uint32_t) sc_place_values;

/* Empty; it is filled when a path is first looked up. */
sc_place_index *sc_place_index_new(sc_context *context);
void sc_place_index_fill(const sc_plan_view *view);
/* Adds the values of the places whose paths are `key` or begin with it and a point: indices in view->values. */
void sc_place_index_find(const sc_plan_view *view, const char *key, sc_place_values *out);

#endif
