/* Exchanges of rows between the ranks that have them and the ranks of their experts. */
#ifndef SHARDC_PASSES_EXCHANGES_H
#define SHARDC_PASSES_EXCHANGES_H

#include "ir/graph.h"

/* One value's. Those of a group, direction and phase may be one call. */
typedef struct sc_exchange {
    sc_op_id op; /* the reshard */
    uint32_t group;
    bool is_back;
} sc_exchange;

typedef SC_VEC(sc_exchange) sc_exchange_list;

/* Moves exchanges of one function that may be one call next to the first of them, with what they
 * depend on, unless that depends on the first; gives them a number by which coalesce makes them one.
 * `list` is in function order. */
void sc_join_exchanges(sc_module *m, const sc_exchange_list *list);

#endif
