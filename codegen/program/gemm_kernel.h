/* Products, and parts of them, as ordinary kernels: for what a library of products does not take. Correct; a product is slow. */
#ifndef SHARDC_CODEGEN_PROGRAM_GEMM_KERNEL_H
#define SHARDC_CODEGEN_PROGRAM_GEMM_KERNEL_H

#include "codegen/kernel/kernel.h"
#include "ir/graph.h"

/* Its arguments are the op's operands and its result. Here and below no dim is empty: kernels have no such. */
sc_kernel *sc_contract_kernel(const sc_module *m, const sc_op *dot);

/* The steps of a (valid) contraction from `first` on, on what c holds; not those that sum an operand. Its arguments are c and, in the order
 * of the steps, their tensors. NULL: an array is not laid out as a kernel's are. */
sc_kernel *sc_steps_kernel(sc_context *context, const sc_gemm *gemm, uint32_t first);
/* A step that sums an operand: its arguments are that and the step's tensor. NULL as above. */
sc_kernel *sc_sum_kernel(sc_context *context, const sc_gemm *gemm, uint32_t step);

#endif
