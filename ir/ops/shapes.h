/* The shape functions of ops.def. */
#ifndef SHARDC_IR_OPS_SHAPES_H
#define SHARDC_IR_OPS_SHAPES_H

#include "ir/ops/ops.h"

typedef bool sc_shape_fn(sc_shape_request *request);

sc_shape_fn shape_nothing, shape_same, shape_float, shape_rope, shape_broadcast, shape_slope,
    shape_compare, shape_logical, shape_where, shape_dot, shape_reduce, shape_argmax,
    shape_logsumexp, shape_xent, shape_gather, shape_onehot, shape_topk, shape_attend, shape_append,
    shape_slice, shape_concat, shape_rename, shape_attend_grad;

#endif
