/* From the ops of a kernel (fuse's attribute) to kernel IR.
 *
 * Values are pulled: each one that is stored asks, at the indices where it is, for the expression of its op, which asks for its operands at
 * the indices where it reads them; what the kernel does not compute is a load. So a transpose, a slice or a gather inside a kernel are
 * other indices and nothing more. Reductions are complete when their phase has ended; a phase is as far back as the reductions allow that
 * its values read. */
#ifndef SHARDC_CODEGEN_LOWER_LOWER_H
#define SHARDC_CODEGEN_LOWER_LOWER_H

#include "codegen/kernel/kernel.h"
#include "ir/ops/ops.h"

/* What an argument of the kernel is. */
typedef struct sc_lowered_arg {
    sc_value value;
    sc_value in_place; /* INOUT: the value that stands there before the call; SC_NONE: none */
} sc_lowered_arg;

/* Every element of the value is at least 0 and less than `below`, or a check of the kernel fails. */
typedef struct sc_lowered_ids {
    sc_value value;
    int64_t below;
} sc_lowered_ids;

typedef struct sc_lowered {
    sc_kernel *kernel;
    SC_VEC(sc_lowered_ids) ids;
    SC_VEC(sc_lowered_arg) args; /* as kernel->args */
} sc_lowered;

/* Per value of a function: whether it is read by an op of another kernel than the one that makes it. */
bool *sc_find_escaping(const sc_module *m, sc_func_id func);

/* The kernel of ops[0..count), which stand together and in order, in the context's scratch. False after a message: no row of lowering.def
 * fits (a bug of ours). */
bool sc_lower_kernel(const sc_module *m, const sc_op_id *ops, uint32_t count, const bool *escapes, sc_lowered *out);

/* Sum of terms of a rank's digits: the index of its shard, of `local` elements each, along sub-axes. */
sc_image_terms sc_terms_of(const sc_module *m, const uint8_t *sub_axes, uint32_t count, int64_t local);

#endif
