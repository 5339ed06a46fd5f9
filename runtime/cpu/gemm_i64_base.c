/* GEMM kernels with i64 accumulators for the baseline instruction set. */
#define SUM          uint64_t
#define FLOATS       0
#define LANES        2
#define ROWS         4
#define VECS         2
#define KERNELS      sc_gemm_i64_base
#define KERNELS_NAME "i64"
#include "runtime/cpu/gemm_kernels.inc"
