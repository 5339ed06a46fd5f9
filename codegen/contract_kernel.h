/* A `dot` as an ordinary kernel: for what no library of products takes (integers on a card, say). Correct, and slow. */
#ifndef SHARDC_CODEGEN_CONTRACT_KERNEL_H
#define SHARDC_CODEGEN_CONTRACT_KERNEL_H

#include "codegen/kernel.h"
#include "ir/graph.h"

/* Its arguments are the op's operands and its result. */
sc_kernel *sc_contract_kernel(const sc_module *m, const sc_op *dot);

#endif
