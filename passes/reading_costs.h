/* What it takes to have a value again: the bytes that a kernel reads if it recomputes the value
 * instead of reading it. */
#ifndef SHARDC_PASSES_READING_COSTS_H
#define SHARDC_PASSES_READING_COSTS_H

#include "ir/graph.h"

typedef struct sc_reading_costs {
    const sc_module *m;
    /* transcendental functions cost less than the memory traffic that storing their results takes,
     * as on GPUs */
    bool cheap_functions;
    int64_t *bytes; /* by value: the fewest bytes to read, its own included */
    uint32_t
        *functions; /* by value: transcendental functions to compute for it, from those bytes */
} sc_reading_costs;

/* Finds the sources of all values of the function. Linear in its ops. */
sc_reading_costs sc_find_reading_costs(sc_module *m, sc_func_id func, bool cheap_functions);
/* True if computing the op, with what it is recomputed from, costs more than a kernel saves by not
 * storing its result. */
bool sc_is_expensive(const sc_reading_costs *costs, const sc_op *op);
/* True if recomputing the op's result reads no more bytes than reading the result would. */
bool sc_reads_little(const sc_reading_costs *costs, const sc_op *op);
/* True if at most one operand of the op is as large as its result, in elements. */
bool sc_reads_one(const sc_module *m, const sc_op *op);

#endif
