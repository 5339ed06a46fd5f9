/* Constant folding: ops on numbers, computed by the ops' own eval functions. */
#ifndef SHARDC_IR_OPS_FOLD_H
#define SHARDC_IR_OPS_FOLD_H

#include "ir/ops/ops.h"

/* Returns the elementwise op of these f64 numbers. */
double sc_op_fold(sc_op_kind kind, const double *operands, uint32_t operand_count,
                  const sc_attr *attrs, uint32_t attr_count);
/* The same for two integers, exactly. False where the result is no integer of 64 bits, or where the
 * op has no such form. */
bool sc_op_fold_integers(sc_op_kind kind, int64_t a, int64_t b, int64_t *out);

#endif
