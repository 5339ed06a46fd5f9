/* GEMM kernels with f64 accumulators for AVX2 and FMA: 12 of 16 registers are accumulators. */
#if defined(__AVX2__) && defined(__FMA__)
#define SUM          double
#define FLOATS       64
#define LANES        4
#define ROWS         6
#define VECS         2
#define KERNELS      sc_gemm_f64_avx2
#define KERNELS_NAME "f64 avx2"
#include "runtime/cpu/gemm_kernels.inc"
#else
typedef int sc_gemm_not_for_this_target; /* ISO C forbids an empty file */
#endif
