/* The expand functions of ops.def: the definition of an op in terms of other ops, which is also its
 * sharded form. */
#ifndef SHARDC_IR_OPS_EXPAND_H
#define SHARDC_IR_OPS_EXPAND_H

#include "ir/ops/ops.h"

typedef void sc_expand_fn(sc_expand *expand);

/* One for each function in the column; expand_none is no function, but the word for none. */
#define OP(name, in, roles, shape, eval, expand, ...) sc_expand_fn expand_##expand;
#include "ir/ops/ops.def"
#undef OP

/* Those of forms.def: steps of a ring. */
sc_expand_fn expand_attend_ring, expand_attend_grad_ring;

/* How many times a block goes on to the next rank in the ring of an op whose positions these
 * sub-axes split. */
int64_t sc_ring_steps(const sc_module *m, const sc_op *op, const sc_sub_axis_list *split);

/* True if the op is `where (eq x, ignore), 0, x`, the way expand_xent reads targets: the elements
 * of x with `ignore` replaced by 0. */
bool sc_is_ignoring(const sc_module *m, const sc_op *op, sc_value *x, double *ignore);

#endif
