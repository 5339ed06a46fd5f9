/* Accumulation adds up micro-batches, which is correct only for objectives that are sums over the
 * batch. */
#ifndef SHARDC_PASSES_SEPARABLE_H
#define SHARDC_PASSES_SEPARABLE_H

#include "ir/ops/ops.h"

/* Proves that the first results of a forward function (a scalar, or total and weight) are sums over
 * `batch` of terms that do not mix its rows. Otherwise reports the op that mixes them and returns
 * false. `line` is the plan's line that splits the batch, `word` its first word. */
bool sc_check_separable(const sc_module *m, sc_func_id func, sc_dim batch, sc_loc line,
                        const char *word);

#endif
