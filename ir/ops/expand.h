/* The expand functions that rows of ops.def name: an op's definition in terms of others, which is also its sharded form. */
#ifndef SHARDC_IR_OPS_EXPAND_H
#define SHARDC_IR_OPS_EXPAND_H

#include "ir/ops/ops.h"

typedef void sc_expand_fn(sc_expand *expand);

sc_expand_fn expand_argmax, expand_softmax, expand_log_softmax, expand_logsumexp, expand_xent, expand_topk, expand_rope;

/* Whether the op is `where (eq x, ignore), 0, x`, as expand_xent reads targets: its elements are those of x, of which some stand for none.
 */
bool sc_is_ignoring(const sc_module *m, const sc_op *op, sc_value *x, double *ignore);

#endif
