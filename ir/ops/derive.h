/* The derive functions of ops.def: reverse mode, one op at a time. Each emits ops that compute the
 * cotangents of the operands from those of the results. */
#ifndef SHARDC_IR_OPS_DERIVE_H
#define SHARDC_IR_OPS_DERIVE_H

#include "ir/ops/ops.h"

typedef void sc_derive_fn(sc_derive *derive);

/* One for each function in the column; derive_none is no function, but the word for none. */
#define OP(name, in, roles, shape, eval, expand, derive, ...) sc_derive_fn derive_##derive;
#include "ir/ops/ops.def"
#undef OP

#endif
