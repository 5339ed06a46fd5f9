/* Parts of an input for micro-batches, and the whole value of an input or result from theirs. */
#ifndef SHARDC_TOOLS_VERIFY_JOIN_BATCHES_H
#define SHARDC_TOOLS_VERIFY_JOIN_BATCHES_H

#include "ir/interp/interp.h"
#include "support/join.h"

/* Copies the micro-batch's rows of a whole input: [i B / n, (i + 1) B / n) of the dim. All of it if
 * the dim or the micro-batch is -1. */
void sc_take_batch(const sc_array *whole, int dim, int32_t micro_batch, sc_array *part);
/* Joins array `index` of all `count` micro-batches; rows along `dim`. Sums are rounded to `dtype`,
 * as the runtime does. data NULL: out of memory. */
sc_array sc_join_batches(sc_array *const *parts, uint32_t index, uint32_t count, sc_join join,
                         int dim, sc_dtype dtype);

#endif
