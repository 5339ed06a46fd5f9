/* The flops functions of ops.def: multiplications and additions of an op's matmuls. */
#ifndef SHARDC_IR_OPS_FLOPS_H
#define SHARDC_IR_OPS_FLOPS_H

#include "ir/ops/ops.h"

typedef double sc_flops_fn(const sc_module *m, const sc_op *op, sc_size_of *size);

/* One for each function in the column; flops_none is no function, but the word for none. */
#define OP(name, in, roles, shape, eval, expand, derive, flops, ...) sc_flops_fn flops_##flops;
#include "ir/ops/ops.def"
#undef OP

#endif
