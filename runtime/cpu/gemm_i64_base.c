/* Contractions that sum in i64, with whatever vectors the compiler may assume. */
#define SUM          uint64_t
#define FLOATS       0
#define LANES        2
#define ROWS         4
#define VECS         2
#define KERNELS      sc_gemm_i64_base
#define KERNELS_NAME "i64"
#include "runtime/cpu/gemm_kernels.inc"
