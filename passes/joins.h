/* How the results of micro-batches make those of the whole batch. */
#ifndef SHARDC_PASSES_JOINS_H
#define SHARDC_PASSES_JOINS_H

#include "ir/ops/ops.h"
#include "support/join.h"

/* An entry, built with the whole batch, and with `count` times smaller `batch`: op for op the
 * same. */
typedef struct sc_join_request {
    const sc_module *part, *whole;
    sc_func_id func, whole_func;
    sc_dim batch; /* of `part` */
    uint32_t count;
} sc_join_request;

/* Proves how each result is joined (joins: by result, sc_join). Returns NULL, or why one cannot be,
 * in the arena of part's context. Linear in the ops. */
const char *sc_find_joins(const sc_join_request *request, uint8_t *joins);

#endif
