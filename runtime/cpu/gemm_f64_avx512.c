/* GEMM kernels with f64 accumulators for AVX-512: 24 of 32 registers are accumulators. */
#if defined(__AVX512F__)
#define SUM          double
#define FLOATS       64
#define LANES        8
#define ROWS         12
#define VECS         2
#define KERNELS      sc_gemm_f64_avx512
#define KERNELS_NAME "f64 avx512"
#include "runtime/cpu/gemm_kernels.inc"
#else
typedef int sc_gemm_not_for_this_target; /* ISO C forbids an empty file */
#endif
