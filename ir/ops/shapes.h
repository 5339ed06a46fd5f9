/* The shape functions of ops.def. */
#ifndef SHARDC_IR_OPS_SHAPES_H
#define SHARDC_IR_OPS_SHAPES_H

#include "ir/ops/ops.h"

typedef bool sc_shape_fn(sc_shape_request *request);

/* One for each function in the column; shape_none is no function, but the word for none. */
#define OP(name, in, roles, shape, ...) sc_shape_fn shape_##shape;
#include "ir/ops/ops.def"
#undef OP

#endif
