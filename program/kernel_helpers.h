/* Numeric functions called by emitted C: conversions, math, random numbers.
 * codegen/printer/helpers.h says what each computes. A section is the text after a comment `@ NAME:
 * NEEDS..` up to the next; NEEDS are the sections that it calls, which must come first. The build
 * embeds the sections, comments included, in the compiler, which copies those that a kernel needs
 * into its source. The runtime's GEMM kernels include this file, so an activation has the same bits
 * in a GEMM's epilogue and in a kernel.
 *
 * Polynomials are Chebyshev interpolants, of the degree at which f32 rounding dominates; each
 * comment names the function and the interval. All selections are conditional expressions without
 * side effects, which compilers turn into blends; comparisons are written so that a NaN takes the
 * branch that preserves it. */
#ifndef SHARDC_PROGRAM_KERNEL_HELPERS_H
#define SHARDC_PROGRAM_KERNEL_HELPERS_H
#pragma GCC system_header /* users compile these texts with flags of their own */

/*@ headers: */
#include <stddef.h>
#include <stdint.h>

/*@ math: headers */
#include <math.h>

/*@ bits: headers */
static inline uint32_t sc_bits_of_f32(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float sc_f32_of_bits(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/*@ bits64: headers */
static inline uint64_t sc_bits_of_f64(double x)
{
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double sc_f64_of_bits(uint64_t bits)
{
    double x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/*@ bf16_to_f32: bits */
static inline float sc_bf16_to_f32(uint16_t x)
{
    return sc_f32_of_bits((uint32_t)x << 16);
}

/*@ f32_to_bf16: bits */
/* To nearest even; a carry out of the significand counts the exponent up, to infinity at the end.
 */
static inline uint16_t sc_f32_to_bf16(float x)
{
    uint32_t bits = sc_bits_of_f32(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return (uint16_t)((x != x ? bits | 0x400000u : rounded) >> 16);
}

/*@ f16_to_f32: bits */
/* The 15 bits as those of an f32 are 2^-112 of the value, subnormals too. */
static inline float sc_f16_to_f32(uint16_t x)
{
    uint32_t rest = x & 0x7fffu, sign = (uint32_t)(x & 0x8000u) << 16;
    uint32_t bits = sc_bits_of_f32(sc_f32_of_bits(rest << 13) * 0x1p112f);
    uint32_t special = rest << 13 | 0x7f800000u;
    return sc_f32_of_bits(sign | (rest >= 0x7c00u ? special : bits));
}

/*@ f32_to_f16: bits */
/* Normal: the exponent rebased, rounded as integers are, a carry counts the exponent up. Below
 * 2^-14 the sum with 1/2 rounds to a multiple of 2^-24, which then is the low bits. */
static inline uint16_t sc_f32_to_f16(float x)
{
    uint32_t bits = sc_bits_of_f32(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;
    uint32_t small = sc_bits_of_f32(sc_f32_of_bits(rest) + 0.5f) - 0x3f000000u;
    uint32_t finite = rest < 0x38800000u ? small : normal;
    uint32_t beyond = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return (uint16_t)(sign | (rest >= 0x477ff000u ? beyond : finite));
}

/*@ f64_to_bf16: bits f32_to_bf16 */
/* By way of an f32 that was rounded to odd, so that rounding again is right. */
static inline uint16_t sc_f64_to_bf16(double x)
{
    float near = (float)x;
    uint32_t bits = sc_bits_of_f32(near);
    double magnitude = x < 0 ? -x : x, reached = near < 0 ? -(double)near : (double)near;
    bits -= reached > magnitude;
    bits |= reached != magnitude && (bits & 0x7fffffffu) < 0x7f800000u;
    return sc_f32_to_bf16(x != x ? near : sc_f32_of_bits(bits));
}

/*@ f64_to_f16: bits f32_to_f16 */
/* By way of an f32 that was rounded to odd, so that rounding again is right. */
static inline uint16_t sc_f64_to_f16(double x)
{
    float near = (float)x;
    uint32_t bits = sc_bits_of_f32(near);
    double magnitude = x < 0 ? -x : x, reached = near < 0 ? -(double)near : (double)near;
    bits -= reached > magnitude;
    bits |= reached != magnitude && (bits & 0x7fffffffu) < 0x7f800000u;
    return sc_f32_to_f16(x != x ? near : sc_f32_of_bits(bits));
}

/*@ i64_to_f64: bits64 */
/* Halves of 32 bits, each exact; the sum rounds once. The low one is put into the significand of
 * 2^52. */
static inline double sc_i64_to_f64(int64_t x)
{
    double low = sc_f64_of_bits(((uint64_t)x & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;
    return (double)(int32_t)(x >> 32) * 0x1p32 + low;
}

/*@ i64_to_f32: i64_to_f64 */
static inline float sc_i64_to_f32(int64_t x)
{
    return (float)sc_i64_to_f64(x);
}

/*@ f64_to_i32: math bits64 */
/* The remainder of 2^32, which of infinities and NaN is a NaN, is put into the significand of 2^52.
 */
static inline int32_t sc_f64_to_i32(double x)
{
    double whole = trunc(x), rest = whole - floor(whole * 0x1p-32) * 0x1p32;
    rest = rest == rest ? rest : 0.0;
    return (int32_t)(uint32_t)sc_bits_of_f64(rest + 0x1p52);
}

/*@ f64_to_i64: math bits64 */
/* As of i32, once for each half. */
static inline int64_t sc_f64_to_i64(double x)
{
    double whole = trunc(x), above = floor(whole * 0x1p-32);
    double low = whole - above * 0x1p32, high = above - floor(above * 0x1p-32) * 0x1p32;
    low = low == low ? low : 0.0;
    high = high == high ? high : 0.0;
    return (int64_t)(sc_bits_of_f64(high + 0x1p52) << 32 |
                     (sc_bits_of_f64(low + 0x1p52) & 0xffffffffu));
}

/*@ f64_to_u8: f64_to_i32 */
static inline uint8_t sc_f64_to_u8(double x)
{
    return (uint8_t)sc_f64_to_i32(x);
}

/*@ f32_to_i32: f64_to_i32 */
static inline int32_t sc_f32_to_i32(float x)
{
    return sc_f64_to_i32((double)x);
}

/*@ f32_to_i64: f64_to_i64 */
static inline int64_t sc_f32_to_i64(float x)
{
    return sc_f64_to_i64((double)x);
}

/*@ f32_to_u8: f64_to_i32 */
static inline uint8_t sc_f32_to_u8(float x)
{
    return (uint8_t)sc_f64_to_i32((double)x);
}

/*@ min_f32: */
static inline float sc_min_f32(float x, float y)
{
    float smaller = x < y ? x : y;
    return x != x ? x : smaller;
}

/*@ max_f32: */
static inline float sc_max_f32(float x, float y)
{
    float larger = x > y ? x : y;
    return x != x ? x : larger;
}

/*@ sign_f32: */
static inline float sc_sign_f32(float x)
{
    float below = x < 0.0f ? -1.0f : x;
    return x > 0.0f ? 1.0f : below;
}

/*@ min_f64: */
static inline double sc_min_f64(double x, double y)
{
    double smaller = x < y ? x : y;
    return x != x ? x : smaller;
}

/*@ max_f64: */
static inline double sc_max_f64(double x, double y)
{
    double larger = x > y ? x : y;
    return x != x ? x : larger;
}

/*@ sign_f64: */
static inline double sc_sign_f64(double x)
{
    double below = x < 0.0 ? -1.0 : x;
    return x > 0.0 ? 1.0 : below;
}

/*@ mod_f64: math */
/* The remainder has the sign of the divisor. */
static inline double sc_mod_f64(double x, double y)
{
    return x - floor(x / y) * y;
}

/*@ mod_f32: mod_f64 */
/* In f64, where the product is exact for quotients below 2^29. */
static inline float sc_mod_f32(float x, float y)
{
    return (float)sc_mod_f64((double)x, (double)y);
}

/*@ div_int: math bits64 */
/* Truncates; by 0 it gives 0; the quotient that does not fit wraps. The quotient of two i32 is
 * exact enough in f64, which has vectors of divisions.  */
static inline int32_t sc_div_i32(int32_t x, int32_t y)
{
    double quotient = y == 0 ? 0.0 : trunc((double)x / (double)y);
    return (int32_t)(uint32_t)sc_bits_of_f64(quotient + 0x1.8p52);
}

static inline int64_t sc_div_i64(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

#define sc_div_int(x, y) _Generic((x) + (y), int : sc_div_i32, default : sc_div_i64)(x, y)

/*@ mod_int: math bits64 */
/* The remainder has the sign of the divisor; by 0 it is 0. */
static inline int32_t sc_mod_i32(int32_t x, int32_t y)
{
    double rest = y == 0 ? 0.0 : (double)x - floor((double)x / (double)y) * (double)y;
    return (int32_t)(uint32_t)sc_bits_of_f64(rest + 0x1.8p52);
}

static inline int64_t sc_mod_i64(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return 0;
    int64_t rest = x % y;
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

#define sc_mod_int(x, y) _Generic((x) + (y), int : sc_mod_i32, default : sc_mod_i64)(x, y)

/*@ exp_f32: bits */
/* exp(x) = 2^n exp(r), n = floor(x / log 2), so 0 <= r < 0.694; exp(r) by a polynomial, its terms
 * in pairs: short chains. n is read out of the low bits of a sum that has no room for a fraction; n
 * + 127 is the exponent of 2^n as it stands in an f32: 0 (n = -127) makes it 0, 255 (n = 128)
 * infinity. */
static inline float sc_exp_f32(float x)
{
    x = x > 89.0f ? 89.0f : x;
    x = x < -88.0f ? -88.0f : x;
    float shifted = (x * 1.44269504f - 0.5f) + 12582912.0f, n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f, square = r * r;
    float p = (0.00194660330f * r + 0.00779709825f) * square + (0.0419109352f * r + 0.166611716f);
    p = (p * square + (0.500005543f * r + 0.999999821f)) * r + 1.0f;
    return p * sc_f32_of_bits((sc_bits_of_f32(shifted) + 127u) << 23);
}

/*@ exp_below_f32: bits */
/* As exp, of what is below 88: n is the integer next to x / log 2, so |r| < 0.347 and fewer terms
 * do, one after the other: loops over it are bound by how much there is to compute. */
static inline float sc_exp_below_f32(float x)
{
    x = x < -88.0f ? -88.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 0.00829027215f * r + 0.0418981603f;
    p = p * r + 0.166676381f;
    p = p * r + 0.499991478f;
    p = p * r + 0.999999706f;
    p = p * r + 1.0f;
    return p * sc_f32_of_bits((sc_bits_of_f32(shifted) + 127u) << 23);
}

/*@ expm1_f32: bits */
/* As exp, but n is the integer next to x / log 2, so |r| < 0.347, and the 1 is taken off before
 * anything is rounded: 2^n (exp(r) - 1) + (2^n - 1). 2^n is two factors, since n may be 128. */
static inline float sc_expm1_f32(float x)
{
    float given = x;
    x = x > 89.0f ? 89.0f : x;
    x = x < -30.0f ? -30.0f : x;
    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 0.00139264841f;
    p = p * r + 0.00836341962f;
    p = p * r + 0.0416665528f;
    p = p * r + 0.166665755f;
    p = p * r + 0.5f;
    p = p * (r * r) + r;
    int32_t power = (int32_t)(sc_bits_of_f32(shifted) - 0x4b400000u), half = power >> 1;
    float low = sc_f32_of_bits((uint32_t)(half + 127) << 23);
    float high = sc_f32_of_bits((uint32_t)(power - half + 127) << 23);
    float reciprocal = sc_f32_of_bits((uint32_t)(half - power + 127) << 23);
    float result = (p * low + (low - reciprocal)) * high;
    return given == 0.0f ? given : result;
}

/*@ log_f32: bits */
/* x = 2^n (1 + f), 1 + f between sqrt(1/2) and sqrt(2); log(1 + f) = f - f^2/2 + f^3 times a
 * polynomial. */
static inline float sc_log_f32(float x)
{
    float scaled = x < 0x1p-126f ? x * 0x1p23f : x, lift = x < 0x1p-126f ? -23.0f : 0.0f;
    uint32_t bits = sc_bits_of_f32(scaled) - 0x3f3504f3u;
    float n = (float)((int32_t)bits >> 23) + lift;
    float f = sc_f32_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = -0.0790358586f;
    p = p * f + 0.126261449f;
    p = p * f - 0.129994497f;
    p = p * f + 0.142141358f;
    p = p * f - 0.166411604f;
    p = p * f + 0.200010532f;
    p = p * f - 0.250003085f;
    p = p * f + 0.333333307f;
    float square = f * f;
    float result = n * 0.693359375f + (f + (square * (p * f - 0.5f) - n * 2.12194440e-4f));
    result = x == 0.0f ? -__builtin_inff() : result;
    result = x == __builtin_inff() ? x : result;
    return x >= 0.0f ? result : __builtin_nanf("");
}

/*@ tanh_f32: */
/* tanh(x/2) = u = (a/2) / (1 + d), odd and even polynomials in x; tanh(x) = 2u / (1 + u^2), to
 * which errors of u mean the less, the nearer it is to 1. 1 and d are added late, so that d's
 * rounding is none of the sum's. Where x is cut off the result is 1. */
static inline float sc_tanh_f32(float x)
{
    x = x > 9.01f ? 9.01f : x;
    x = x < -9.01f ? -9.01f : x;
    float z = x * x;
    float a = (x * z) * (1.14250455e-4f * z + 0.0297737699f) + x, half = 0.5f * a;
    float d = ((1.22885842e-6f * z + 0.00120654202f) * z + 0.113107070f) * z;
    return (a * d + a) / ((d * (d + 2.0f) + half * half) + 1.0f);
}

/*@ sigmoid_f32: exp_below_f32 */
/* The exponential of -|x| never overflows, and for a negative x it is the numerator. */
static inline float sc_sigmoid_f32(float x)
{
    float e = sc_exp_below_f32(x > 0.0f ? -x : x);
    return (x > 0.0f ? 1.0f : e) / (1.0f + e);
}

/*@ erf_f32: exp_below_f32 */
/* |x| < 1: x times a polynomial in x^2; else 1 - erfc, log erfc being a polynomial on 1 .. 4. */
static inline float sc_erf_f32(float x)
{
    float a = sc_f32_of_bits(sc_bits_of_f32(x) & 0x7fffffffu), z = x * x;
    float near = 7.87587506e-5f;
    near = near * z - 8.01686429e-4f;
    near = near * z + 0.00518908742f;
    near = near * z - 0.0268542120f;
    near = near * z + 0.112835947f;
    near = near * z - 0.376126267f;
    near = (near * z + 1.12837917f) * x;
    float b = a > 4.0f ? 4.0f : a, far = -1.32723618e-5f;
    far = far * b + 3.16937023e-4f;
    far = far * b - 0.00343235138f;
    far = far * b + 0.0226047722f;
    far = far * b - 0.103281118f;
    far = far * b - 0.639141258f;
    far = far * b - 1.12589365f;
    far = 1.0f - sc_exp_below_f32(far * b - 7.65897780e-4f);
    far = sc_f32_of_bits(sc_bits_of_f32(far) | (sc_bits_of_f32(x) & 0x80000000u));
    return a < 1.0f ? near : far;
}

/*@ sin_f32: bits bits64 */
/* The nearest quarter turn is taken off in f64, pi/2 being three numbers of which the first two
 * have 33 bits; polynomials on -pi/4 .. pi/4 for what is left. */
static inline float sc_sin_f32(float x)
{
    double shifted = (double)x * 0.63661977236758134308 + 0x1.8p52, n = shifted - 0x1.8p52;
    uint32_t quarter = (uint32_t)sc_bits_of_f64(shifted);
    float r = (float)(((double)x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34 -
                      n * 0x1.3198a2e037073p-69);
    float z = r * r;
    float sine = r + r * z * ((-1.95878298e-4f * z + 0.00833274799f) * z - 0.166666647f);
    float cosine =
        1.0f + z * (((2.45478808e-5f * z - 0.00138883028f) * z + 0.0416666647f) * z - 0.5f);
    float result = (quarter & 1) != 0 ? cosine : sine;
    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ (quarter & 2) << 30);
    result = x == 0.0f ? x : result;
    return (x < 0x1p31f) & (x > -0x1p31f) ? result : __builtin_nanf("");
}

/*@ cos_f32: bits bits64 */
/* As sin, a quarter turn on. */
static inline float sc_cos_f32(float x)
{
    double shifted = (double)x * 0.63661977236758134308 + 0x1.8p52, n = shifted - 0x1.8p52;
    uint32_t quarter = (uint32_t)sc_bits_of_f64(shifted);
    float r = (float)(((double)x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34 -
                      n * 0x1.3198a2e037073p-69);
    float z = r * r;
    float sine = r + r * z * ((-1.95878298e-4f * z + 0.00833274799f) * z - 0.166666647f);
    float cosine =
        1.0f + z * (((2.45478808e-5f * z - 0.00138883028f) * z + 0.0416666647f) * z - 0.5f);
    float result = (quarter & 1) != 0 ? sine : cosine;
    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ ((quarter + 1) & 2) << 30);
    return (x < 0x1p31f) & (x > -0x1p31f) ? result : __builtin_nanf("");
}

/*@ pow_f32: math bits bits64 */
/* 2^(y log2 |x|), all in f64, rounded once. log2 of x = 2^n m by its series in (m - 1) / (m + 1),
 * |..| < 0.172; 2^f by Taylor's series, |f| < 1/2. The special cases are those of C, annex
 * F.10.4.4. */
static inline float sc_pow_f32(float x, float y)
{
    float a = sc_f32_of_bits(sc_bits_of_f32(x) & 0x7fffffffu),
          scaled = a < 0x1p-126f ? a * 0x1p23f : a;
    uint32_t bits = sc_bits_of_f32(scaled) - 0x3f3504f3u;
    double n = (double)((int32_t)bits >> 23) + (a < 0x1p-126f ? -23.0 : 0.0);
    double m = (double)sc_f32_of_bits((bits & 0x007fffffu) + 0x3f3504f3u),
           s = (m - 1.0) / (m + 1.0), z = s * s;
    double p = 1.0 / 13;
    p = p * z + 1.0 / 11;
    p = p * z + 1.0 / 9;
    p = p * z + 1.0 / 7;
    p = p * z + 1.0 / 5;
    p = p * z + 1.0 / 3;
    p = p * z + 1.0;
    double log2 = n + s * p * 2.885390081777926815;
    log2 = a == 0.0f ? -__builtin_inf() : log2;
    log2 = a == __builtin_inff() ? __builtin_inf() : log2;
    double t = (double)y * log2;
    t = a == 1.0f ? 0.0 : t;
    t = t > 200.0 ? 200.0 : t;
    t = t < -200.0 ? -200.0 : t;
    double shifted = t + 0x1.8p52, f = (t - (shifted - 0x1.8p52)) * 0.69314718055994530942,
           e = 1.0 / 362880;
    e = e * f + 1.0 / 40320;
    e = e * f + 1.0 / 5040;
    e = e * f + 1.0 / 720;
    e = e * f + 1.0 / 120;
    e = e * f + 1.0 / 24;
    e = e * f + 1.0 / 6;
    e = e * f + 0.5;
    e = e * f + 1.0;
    e = e * f + 1.0;
    float result = (float)(e * sc_f64_of_bits((sc_bits_of_f64(shifted) + 1023u) << 52));
    float half = 0.5f * y;
    int whole = floorf(y) == y, odd = whole & (floorf(half) != half);
    result = (x < 0.0f) & (a != __builtin_inff()) & !whole ? __builtin_nanf("") : result;
    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ (odd ? sc_bits_of_f32(x) & 0x80000000u : 0u));
    result = (x != x) | (y != y) ? x + y : result;
    return (y == 0.0f) | (x == 1.0f) ? 1.0f : result;
}

/*@ philox: headers */
/* Philox 4x32-10: Salmon, Moraes, Dror and Shaw, SC 2011, section 3.3. */
static inline void sc_philox(uint32_t c[4], uint32_t key0, uint32_t key1)
{
    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xd2511f53u * c0, second = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)first;
        key0 += 0x9e3779b9u;
        key1 += 0xbb67ae85u;
    }
    c[0] = c0;
    c[1] = c1;
    c[2] = c2;
    c[3] = c3;
}

/*@ rng_key: headers */
/* The key of a stream of random numbers: the seed, mixed, and the hash of the path. */
static inline uint64_t sc_rng_key(uint64_t seed, uint64_t path_hash)
{
    uint64_t x = seed + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31 ^ path_hash;
}

/*@ uniform53: philox */
/* 53 random bits of the element with this index in the whole array. */
static inline uint64_t sc_uniform53(int64_t index, uint32_t step, uint32_t micro_batch,
                                    uint64_t key)
{
    uint32_t c[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), step, micro_batch};
    sc_philox(c, (uint32_t)key, (uint32_t)(key >> 32));
    return (uint64_t)(c[0] >> 5) << 26 | c[1] >> 6;
}

/*@ uniform_f64: philox */
/* In [0, 1), a multiple of 2^-53. */
static inline double sc_uniform_f64(int64_t index, uint32_t step, uint32_t micro_batch,
                                    uint64_t key)
{
    uint32_t c[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), step, micro_batch};
    sc_philox(c, (uint32_t)key, (uint32_t)(key >> 32));
    return ((double)(int32_t)(c[0] >> 5) * 67108864.0 + (double)(int32_t)(c[1] >> 6)) * 0x1p-53;
}

#endif
