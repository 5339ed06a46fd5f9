/* The dims that loops run over: a value's, as this rank holds it. Sets, in the order of the loops. */
#ifndef SHARDC_IR_OPS_LOOPS_H
#define SHARDC_IR_OPS_LOOPS_H

#include "ir/graph.h"

/* The same name may be whole in one value and a shard in another: that is another loop. */
typedef struct sc_loop_dim {
    sc_dim dim;
    int64_t size;
} sc_loop_dim;

/* Room for the dims of two values. */
typedef struct sc_loop_dims {
    uint32_t count;
    sc_loop_dim dims[2 * SC_MAX_RANK];
} sc_loop_dims;

/* Local sizes, slowest first. */
sc_loop_dims sc_loops_of(const sc_module *m, sc_value value);
bool sc_loops_have(const sc_loop_dims *loops, sc_loop_dim dim);
bool sc_loops_within(const sc_loop_dims *small, const sc_loop_dims *large);
/* In whatever order. */
bool sc_loops_equal(const sc_loop_dims *a, const sc_loop_dims *b);
sc_loop_dims sc_loops_minus(const sc_loop_dims *all, const sc_loop_dims *less);
sc_loop_dims sc_loops_plus(const sc_loop_dims *a, const sc_loop_dims *b);
int64_t sc_loops_elements(const sc_loop_dims *loops);

#endif
