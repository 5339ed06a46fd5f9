/* What emitted C needs besides itself: small `static inline` functions, written out into the file that calls them, each once and after
 * what it calls. None has branches or calls (but for two of i64, see div_int), so that gcc and clang vectorise loops around it with
 * -fno-math-errno -fno-trapping-math alone; nothing needs -ffast-math. The mathematics of f32 has relative errors below 3e-7 (3 ulp; pow
 * and mod are rounded once, of an f64), treats infinities, NaN and 0 as libm does, and may give 0 for a result that would be subnormal.
 * Of f64, kernels call libm. Nothing here depends on the width of vectors: the same bits everywhere where a product and a sum are
 * contracted alike. */
#ifndef SHARDC_CODEGEN_PRINTER_HELPERS_H
#define SHARDC_CODEGEN_PRINTER_HELPERS_H

#include <stdbool.h>

#include "support/strbuf.h"

/* In the order in which they are written. */
typedef enum sc_helper {
    SC_HELPER_headers,     /* stdint.h, stddef.h; every file that a kernel stands in */
    SC_HELPER_math,        /* math.h: INFINITY, and libm's functions of f64 */
    SC_HELPER_bits,        /* uint32_t sc_bits_of_f32(float), float sc_f32_of_bits(uint32_t) */
    SC_HELPER_bits64,      /* uint64_t sc_bits_of_f64(double), double sc_f64_of_bits(uint64_t) */
    SC_HELPER_bf16_to_f32, /* float sc_bf16_to_f32(uint16_t) */
    SC_HELPER_f32_to_bf16, /* uint16_t sc_f32_to_bf16(float): to nearest even; a NaN stays one */
    SC_HELPER_f16_to_f32,  /* float sc_f16_to_f32(uint16_t), with subnormals */
    SC_HELPER_f32_to_f16,  /* uint16_t sc_f32_to_f16(float): to nearest even, with subnormals; beyond 65504 to infinity */
    SC_HELPER_f64_to_bf16, /* uint16_t sc_f64_to_bf16(double), sc_f64_to_f16: rounded once */
    SC_HELPER_f64_to_f16,
    SC_HELPER_i64_to_f64, /* double sc_i64_to_f64(int64_t), as a cast does; casts have no vectors on AVX2 */
    SC_HELPER_i64_to_f32, /* by way of an f64 */
    SC_HELPER_f64_to_i32, /* int32_t sc_f64_to_i32(double) and so on, as sc_round_to: truncated; i32 and u8 wrap, and i64, too; 0 for */
    SC_HELPER_f64_to_i64, /* infinities and NaN */
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
    SC_HELPER_div_int,       /* sc_div_int(x, y) of i32 or i64: truncates, 0 by 0, wraps. The function of i64 is not vectorised */
    SC_HELPER_mod_int,       /* sc_mod_int(x, y): has the divisor's sign, 0 by 0 */
    SC_HELPER_exp_f32,       /* float sc_exp_f32(float) */
    SC_HELPER_exp_below_f32, /* the same of x < 88: less work; below 2^-126 it is 0 */
    SC_HELPER_expm1_f32,     /* float sc_expm1_f32(float): exp(x) - 1, exact to the last digits near 0 */
    SC_HELPER_log_f32,
    SC_HELPER_tanh_f32,
    SC_HELPER_sigmoid_f32, /* 1 / (1 + exp(-x)) */
    SC_HELPER_erf_f32,
    SC_HELPER_sin_f32, /* sin and cos: reduced in f64; |x| < 1e6 to the relative error, < 2^31 to an absolute one of 3e-7, NaN beyond */
    SC_HELPER_cos_f32,
    SC_HELPER_pow_f32,     /* float sc_pow_f32(float x, float y) */
    SC_HELPER_philox,      /* void sc_philox(uint32_t counter[4] in and out, uint32_t key0, uint32_t key1): support/rng.h's */
    SC_HELPER_rng_key,     /* uint64_t sc_rng_key(uint64_t seed, uint64_t path_hash): key[0] the low word, key[1] the high one */
    SC_HELPER_uniform53,   /* uint64_t sc_uniform53(int64_t index, uint32_t step, uint32_t micro_batch, uint64_t key): a number of 53 bits,
                              2^53 times sc_rng_uniform_at of that counter. Comparing it with ceil(p 2^53) is exact. */
    SC_HELPER_uniform_f64, /* double sc_uniform_f64(same): sc_rng_uniform_at of that counter */
    SC_HELPER_lanes_f32,   /* float sc_lanes_f32(float *lanes, int count, char how): 8 or 32 to one by halves; how: '+', '>', '<'. They are
                              written */
    SC_HELPER_lanes_f64,
    SC_HELPER_lanes_i32,
    SC_HELPER_lanes_i64,
    SC_HELPER_stream,   /* void sc_stream(void *to, const void *from, int64_t bytes): memcpy around the caches; void sc_streamed(void):
                           behind the last */
    SC_HELPER_turn_b32, /* void sc_turn_b32(const void *from, int64_t from_row, void *to, int64_t to_row, int64_t rows, int64_t columns):
                           transposes elements of 4 bytes; rows lie so many elements apart. sc_turn_out_b32: by way of sc_stream */
    SC_HELPER_turn_b16, /* of 2 bytes */
    SC_HELPER_COUNT
} sc_helper;

typedef uint64_t sc_helper_set;
#define SC_HELPER(name) ((sc_helper_set)1 << SC_HELPER_##name)

/* The helper's name and its text, which ends in a newline. */
const char *sc_helper_name(sc_helper helper);
const char *sc_helper_text(sc_helper helper);
/* With all that they call. */
sc_helper_set sc_helpers_closed(sc_helper_set helpers);
/* The helpers whose functions a C text names, `math` for what is libm's; not what these call in turn. Comments do not count. */
sc_helper_set sc_helpers_named_in(const char *text);
/* Writes them, with all that they call, in the table's order. */
void sc_helpers_emit(sc_strbuf *out, sc_helper_set helpers);

/* 2^53 p rounded up: a number of 53 bits below it is one of the part p. */
uint64_t sc_uniform53_limit(double p);

#endif
