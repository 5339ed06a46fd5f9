/* Helpers of emitted C: small `static inline` functions, written into each file that calls them,
 * once, callees first. None has branches or calls (except two for i64, see div_int), so gcc and
 * clang vectorize loops around them with -fno-math-errno -fno-trapping-math; -ffast-math is not
 * needed. The f32 functions have relative errors below 3e-7 (3 ulp; pow and mod are computed in f64
 * and rounded once), treat infinities, NaN and 0 as libm does, and may flush subnormal results to
 * 0. For f64, kernels call libm. Results do not depend on the vector width: the bits are the same
 * wherever multiply-adds are contracted alike. */
#ifndef SHARDC_CODEGEN_PRINTER_HELPERS_H
#define SHARDC_CODEGEN_PRINTER_HELPERS_H

#include <stdbool.h>

#include "support/strbuf.h"

/* In the order of emission. */
typedef enum sc_helper {
    SC_HELPER_headers,     /* stdint.h, stddef.h; in every file with a kernel */
    SC_HELPER_math,        /* math.h: INFINITY, and libm's f64 functions */
    SC_HELPER_bits,        /* uint32_t sc_bits_of_f32(float), float sc_f32_of_bits(uint32_t) */
    SC_HELPER_bits64,      /* uint64_t sc_bits_of_f64(double), double sc_f64_of_bits(uint64_t) */
    SC_HELPER_bf16_to_f32, /* float sc_bf16_to_f32(uint16_t) */
    SC_HELPER_f32_to_bf16, /* uint16_t sc_f32_to_bf16(float): to nearest even; a NaN stays one */
    SC_HELPER_f16_to_f32,  /* float sc_f16_to_f32(uint16_t), with subnormals */
    /* uint16_t sc_f32_to_f16(float): to nearest even, with subnormals; beyond 65504 to infinity */
    SC_HELPER_f32_to_f16,
    SC_HELPER_f64_to_bf16, /* uint16_t sc_f64_to_bf16(double), sc_f64_to_f16: rounded once */
    SC_HELPER_f64_to_f16,
    SC_HELPER_i64_to_f64, /* double sc_i64_to_f64(int64_t); AVX2 cannot vectorize a cast */
    SC_HELPER_i64_to_f32, /* via f64 */
    SC_HELPER_f64_to_i32, /* int32_t sc_f64_to_i32(double) ..: as sc_round_to: truncates, wraps; */
    SC_HELPER_f64_to_i64, /* infinities and NaN give 0 */
    SC_HELPER_f64_to_u8,
    SC_HELPER_f32_to_i32,
    SC_HELPER_f32_to_i64,
    SC_HELPER_f32_to_u8,
    SC_HELPER_min_f32, /* float sc_min_f32(float, float): NaN if either is */
    SC_HELPER_max_f32,
    SC_HELPER_sign_f32, /* 1, -1, or the operand: 0 with its sign, NaN */
    SC_HELPER_min_f64,
    SC_HELPER_max_f64,
    SC_HELPER_sign_f64,
    SC_HELPER_mod_f64, /* double sc_mod_f64(double x, double y): x - floor(x / y) y */
    SC_HELPER_mod_f32,
    SC_HELPER_div_int,       /* sc_div_int(x, y): truncates, wraps, 0 by 0; scalar for i64 */
    SC_HELPER_mod_int,       /* sc_mod_int(x, y): has the divisor's sign, 0 if y is 0 */
    SC_HELPER_exp_f32,       /* float sc_exp_f32(float) */
    SC_HELPER_exp_below_f32, /* the same for x < 88: faster; flushes below 2^-126 to 0 */
    SC_HELPER_expm1_f32,     /* float sc_expm1_f32(float): exp(x) - 1, accurate near 0 */
    SC_HELPER_log_f32,
    SC_HELPER_tanh_f32,
    SC_HELPER_sigmoid_f32, /* 1 / (1 + exp(-x)) */
    SC_HELPER_erf_f32,
    SC_HELPER_sin_f32, /* sin and cos: argument reduction in f64; relative error for |x| < 1e6,
                        * absolute error 3e-7 for < 2^31, NaN beyond */
    SC_HELPER_cos_f32,
    SC_HELPER_pow_f32, /* float sc_pow_f32(float x, float y) */
    SC_HELPER_philox,  /* void sc_philox(uint32_t counter[4] in and out, uint32_t key0, uint32_t
                        * key1): as in support/rng.h */
    /* uint64_t sc_rng_key(uint64_t seed, uint64_t path_hash): key[0] the low word, key[1] the high
       one */
    SC_HELPER_rng_key,
    SC_HELPER_uniform53,   /* uint64_t sc_uniform53(int64_t index, uint32_t step, uint32_t
                            * micro_batch, uint64_t key): a 53-bit number, 2^53 times
                            * sc_rng_uniform_at of that counter. Comparing it with ceil(p 2^53) is
                            * exact. */
    SC_HELPER_uniform_f64, /* double sc_uniform_f64(same): sc_rng_uniform_at of that counter */
    SC_HELPER_lanes_f32,   /* float sc_lanes_f32(float *lanes, int count, char how): reduces 8 or 32
                            * lanes to one by halves, in place; how: '+', '>', '<' */
    SC_HELPER_lanes_f64,
    SC_HELPER_lanes_i32,
    SC_HELPER_lanes_i64,
    SC_HELPER_stream, /* void sc_stream(void *to, const void *from, int64_t bytes): memcpy with
                       * non-temporal stores; void sc_streamed(void): call after the last */
    SC_HELPER_transpose_b32, /* void sc_transpose_b32(const void *from, int64_t from_row, void *to,
                              * int64_t to_row, int64_t rows, int64_t columns): transposes 4-byte
                              * elements; the row strides are in elements. sc_transpose_out_b32:
                              * stores with sc_stream */
    SC_HELPER_transpose_b16, /* the same for 2-byte elements */
    SC_HELPER_COUNT
} sc_helper;

typedef uint64_t sc_helper_set;
#define SC_HELPER(name) ((sc_helper_set)1 << SC_HELPER_##name)

/* The helper's name; its text, which ends in a newline. */
const char *sc_helper_name(sc_helper helper);
const char *sc_helper_text(sc_helper helper);
/* The set with all helpers that its members call. */
sc_helper_set sc_helpers_closed(sc_helper_set helpers);
/* The helpers whose functions a C text names, `math` for libm's; not what these call in turn.
 * Comments are ignored. */
sc_helper_set sc_helpers_named_in(const char *text);
/* Writes the helpers, with all that they call, in the table's order. */
void sc_helpers_emit(sc_strbuf *out, sc_helper_set helpers);

/* 2^53 p rounded up: a 53-bit random number is below it with probability p. */
uint64_t sc_uniform53_limit(double p);

#endif
