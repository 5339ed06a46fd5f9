/* GEMM kernels with f32 accumulators for the baseline instruction set. */
#define SUM          float
#define FLOATS       32
#define LANES        4
#define ROWS         4
#define VECS         2
#define KERNELS      sc_gemm_f32_base
#define KERNELS_NAME "f32"
#include "runtime/cpu/gemm_kernels.inc"
