/* GEMMs, and parts of them, as ordinary kernels: the fallback for what the GEMM library does not
 * support. Correct but slow for matmuls. */
#ifndef SHARDC_CODEGEN_PROGRAM_GEMM_KERNEL_H
#define SHARDC_CODEGEN_PROGRAM_GEMM_KERNEL_H

#include "codegen/kernel/kernel.h"
#include "ir/graph.h"

/* Arguments: the op's operands and its result. Here and below no dim may be empty. */
sc_kernel *sc_contract_kernel(const sc_module *m, const sc_op *dot);

/* The steps of a (valid) GEMM from `first` on, applied to c, except those that sum an operand.
 * Arguments: c and, in the order of the steps, their tensors. NULL: an array's layout is not
 * possible for a kernel. */
sc_kernel *sc_steps_kernel(sc_context *context, const sc_gemm *gemm, uint32_t first);
/* A step that sums an operand. Arguments: the operand and the step's tensor. NULL as above. */
sc_kernel *sc_sum_kernel(sc_context *context, const sc_gemm *gemm, uint32_t step);

#endif
