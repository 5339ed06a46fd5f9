/* Activations and their derivatives as kernel IR, for ops and for matmul epilogue steps alike. */
#ifndef SHARDC_CODEGEN_LOWER_ACTIVATION_H
#define SHARDC_CODEGEN_LOWER_ACTIVATION_H

#include "codegen/kernel/kernel.h"

/* f(x); kind: an activation of program/activations.def. */
sc_knode sc_activation_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode x);
/* dy times f'(x); kind: an activation with a slope. dy and x have one dtype. */
sc_knode sc_slope_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode dy, sc_knode x);

#endif
