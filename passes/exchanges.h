/* Exchanges of rows between the ranks that have them and the ranks of their experts. */
#ifndef SHARDC_PASSES_EXCHANGES_H
#define SHARDC_PASSES_EXCHANGES_H

#include "ir/graph.h"

/* One value's. Those of a group, direction and phase may be one call. */
typedef struct sc_exchange {
    sc_op_id op; /* exchange_rows of one value */
    uint32_t group;
    bool is_back;
} sc_exchange;

typedef SC_VEC(sc_exchange) sc_exchange_list;

/* Makes exchanges of one function that may be one call one op, at the first of them: moves what
 * they depend on there, unless that depends on the first. `list` is in function order. */
void sc_join_exchanges(sc_module *m, sc_func_id func, const sc_exchange_list *list);

#endif
