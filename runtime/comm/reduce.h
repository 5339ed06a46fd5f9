/* Elementwise reductions for the backends, in the order in which the terms are passed. */
#ifndef SHARDC_RUNTIME_COMM_REDUCE_H
#define SHARDC_RUNTIME_COMM_REDUCE_H

#include "runtime/comm/comm.h"

/* Reduces `source_count` (at least 1) arrays of `count` elements: destination = ((s0 op s1) op s2)
 * .., rounded once. The destination may be one of the sources but must not overlap another. Arrays
 * are aligned to their elements. */
void sc_comm_reduce_arrays(sc_dtype dtype, sc_comm_reduce reduce, void *destination,
                           const void *const *sources, uint32_t source_count, int64_t count);

#endif
