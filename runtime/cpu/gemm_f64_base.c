/* GEMM kernels with f64 accumulators for the baseline instruction set. */
#define SUM          double
#define FLOATS       64
#define LANES        2
#define ROWS         4
#define VECS         2
#define KERNELS      sc_gemm_f64_base
#define KERNELS_NAME "f64"
#include "runtime/cpu/gemm_kernels.inc"
