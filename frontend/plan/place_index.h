/* Finds the places of a view by path. Private to frontend/plan. */
#ifndef SHARDC_FRONTEND_PLAN_PLACE_INDEX_H
#define SHARDC_FRONTEND_PLAN_PLACE_INDEX_H

#include "frontend/plan/view.h"

typedef struct sc_named_place {
    const char *path; /* without indices */
    uint32_t place;
} sc_named_place;

/* A cached match of a place for one scope. */
typedef struct sc_place_memo {
    uint32_t scope;
    uint8_t match;
} sc_place_memo;

typedef struct sc_place_index {
    sc_context *context;
    sc_named_place *places; /* sorted; NULL until needed */
    /* by place: start of its values in `values`; has one more entry at the end */
    uint32_t *first_value;
    uint32_t *values;       /* indices into view->values */
    sc_place_memo *matches; /* by place */
    uint32_t scopes;        /* number of scopes so far; numbers them */
} sc_place_index;

typedef SC_VEC(uint32_t) sc_place_values;

/* Returns an empty index; it is filled at the first path lookup. */
sc_place_index *sc_place_index_new(sc_context *context);
void sc_place_index_fill(const sc_plan_view *view);
/* Appends the values of places whose path is `key` or starts with `key` and a dot, as indices into
 * view->values. */
void sc_place_index_find(const sc_plan_view *view, const char *key, sc_place_values *out);

#endif
