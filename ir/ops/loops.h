/* Loop dims: the dims of a value with their local sizes on one rank, as sets ordered like the
 * loops. */
#ifndef SHARDC_IR_OPS_LOOPS_H
#define SHARDC_IR_OPS_LOOPS_H

#include "ir/graph.h"

/* A dim may be whole in one value and sharded in another: these are different loops. */
typedef struct sc_loop_dim {
    sc_dim dim;
    int64_t size;
} sc_loop_dim;

/* Room for the dims of two values. */
typedef struct sc_loop_dims {
    uint32_t count;
    sc_loop_dim dims[2 * SC_MAX_RANK];
} sc_loop_dims;

/* The dims of a value with local sizes, slowest first. */
sc_loop_dims sc_loops_of(const sc_module *m, sc_value value);
bool sc_loops_have(const sc_loop_dims *loops, sc_loop_dim dim);
bool sc_loops_within(const sc_loop_dims *small, const sc_loop_dims *large);
/* Order does not matter. */
bool sc_loops_equal(const sc_loop_dims *a, const sc_loop_dims *b);
sc_loop_dims sc_loops_minus(const sc_loop_dims *all, const sc_loop_dims *less);
sc_loop_dims sc_loops_plus(const sc_loop_dims *a, const sc_loop_dims *b);
int64_t sc_loops_elements(const sc_loop_dims *loops);

#endif
