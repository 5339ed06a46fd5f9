/* GEMM kernels with f32 accumulators for AVX-512: 24 of 32 registers are accumulators. */
#if defined(__AVX512F__)
#define SUM          float
#define FLOATS       32
#define LANES        16
#define ROWS         12
#define VECS         2
#define KERNELS      sc_gemm_f32_avx512
#define KERNELS_NAME "f32 avx512"
#include "runtime/cpu/gemm_kernels.inc"
#else
typedef int sc_gemm_not_for_this_target; /* ISO C forbids an empty file */
#endif
