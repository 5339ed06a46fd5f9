/* The helpers' texts. Polynomials are Chebyshev interpolants of their functions, of the degree at which rounding in f32 dominates; the
 * comment of each says of what and where. All selections are conditional expressions without side effects, which compilers turn into
 * blends; a comparison is written so that a NaN takes the side that keeps it. */
#include "codegen/printer/helpers.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct sc_helper_row {
    const char *name;
    sc_helper_set needs;
    const char *text;
} sc_helper_row;

static const sc_helper_row rows[SC_HELPER_COUNT] = {
    [SC_HELPER_headers] = {"headers", 0,
                           "#include <stddef.h>\n"
                           "#include <stdint.h>\n"},
    [SC_HELPER_math] = {"math", SC_HELPER(headers), "#include <math.h>\n"},
    [SC_HELPER_bits] = {"bits", SC_HELPER(headers),
                        "static inline uint32_t sc_bits_of_f32(float x)\n"
                        "{\n"
                        "    uint32_t bits;\n"
                        "    __builtin_memcpy(&bits, &x, sizeof bits);\n"
                        "    return bits;\n"
                        "}\n"
                        "\n"
                        "static inline float sc_f32_of_bits(uint32_t bits)\n"
                        "{\n"
                        "    float x;\n"
                        "    __builtin_memcpy(&x, &bits, sizeof x);\n"
                        "    return x;\n"
                        "}\n"},
    [SC_HELPER_bits64] = {"bits64", SC_HELPER(headers),
                          "static inline uint64_t sc_bits_of_f64(double x)\n"
                          "{\n"
                          "    uint64_t bits;\n"
                          "    __builtin_memcpy(&bits, &x, sizeof bits);\n"
                          "    return bits;\n"
                          "}\n"
                          "\n"
                          "static inline double sc_f64_of_bits(uint64_t bits)\n"
                          "{\n"
                          "    double x;\n"
                          "    __builtin_memcpy(&x, &bits, sizeof x);\n"
                          "    return x;\n"
                          "}\n"},
    [SC_HELPER_bf16_to_f32] = {"bf16_to_f32", SC_HELPER(bits),
                               "static inline float sc_bf16_to_f32(uint16_t x)\n"
                               "{\n"
                               "    return sc_f32_of_bits((uint32_t)x << 16);\n"
                               "}\n"},
    [SC_HELPER_f32_to_bf16] = {"f32_to_bf16", SC_HELPER(bits),
                               "/* To nearest even; a carry out of the significand counts the exponent up, to infinity at the end. */\n"
                               "static inline uint16_t sc_f32_to_bf16(float x)\n"
                               "{\n"
                               "    uint32_t bits = sc_bits_of_f32(x), rounded = bits + 0x7fffu + (bits >> 16 & 1u);\n"
                               "    return (uint16_t)((x != x ? bits | 0x400000u : rounded) >> 16);\n"
                               "}\n"},
    [SC_HELPER_f16_to_f32] = {"f16_to_f32", SC_HELPER(bits),
                              "/* The 15 bits as those of an f32 are 2^-112 of the value, subnormals too. */\n"
                              "static inline float sc_f16_to_f32(uint16_t x)\n"
                              "{\n"
                              "    uint32_t rest = x & 0x7fffu, sign = (uint32_t)(x & 0x8000u) << 16;\n"
                              "    uint32_t bits = sc_bits_of_f32(sc_f32_of_bits(rest << 13) * 0x1p112f);\n"
                              "    uint32_t special = rest << 13 | 0x7f800000u;\n"
                              "    return sc_f32_of_bits(sign | (rest >= 0x7c00u ? special : bits));\n"
                              "}\n"},
    [SC_HELPER_f32_to_f16] =
        {"f32_to_f16", SC_HELPER(bits),
         "/* Normal: the exponent rebased, rounded as integers are, a carry counts the exponent up. Below 2^-14 the sum with 1/2 rounds\n"
         " * to a multiple of 2^-24, which then is the low bits. */\n"
         "static inline uint16_t sc_f32_to_f16(float x)\n"
         "{\n"
         "    uint32_t bits = sc_bits_of_f32(x), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;\n"
         "    uint32_t normal = (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13;\n"
         "    uint32_t small = sc_bits_of_f32(sc_f32_of_bits(rest) + 0.5f) - 0x3f000000u;\n"
         "    uint32_t finite = rest < 0x38800000u ? small : normal;\n"
         "    uint32_t beyond = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;\n"
         "    return (uint16_t)(sign | (rest >= 0x477ff000u ? beyond : finite));\n"
         "}\n"},
    [SC_HELPER_f64_to_bf16] = {"f64_to_bf16", SC_HELPER(f32_to_bf16) | SC_HELPER(bits),
                               "/* By way of an f32 that was rounded to odd, so that rounding again is right. */\n"
                               "static inline uint16_t sc_f64_to_bf16(double x)\n"
                               "{\n"
                               "    float near = (float)x;\n"
                               "    uint32_t bits = sc_bits_of_f32(near);\n"
                               "    double magnitude = x < 0 ? -x : x, reached = near < 0 ? -(double)near : (double)near;\n"
                               "    bits -= reached > magnitude;\n"
                               "    bits |= reached != magnitude && (bits & 0x7fffffffu) < 0x7f800000u;\n"
                               "    return sc_f32_to_bf16(x != x ? near : sc_f32_of_bits(bits));\n"
                               "}\n"},
    [SC_HELPER_f64_to_f16] = {"f64_to_f16", SC_HELPER(f32_to_f16) | SC_HELPER(bits),
                              "/* By way of an f32 that was rounded to odd, so that rounding again is right. */\n"
                              "static inline uint16_t sc_f64_to_f16(double x)\n"
                              "{\n"
                              "    float near = (float)x;\n"
                              "    uint32_t bits = sc_bits_of_f32(near);\n"
                              "    double magnitude = x < 0 ? -x : x, reached = near < 0 ? -(double)near : (double)near;\n"
                              "    bits -= reached > magnitude;\n"
                              "    bits |= reached != magnitude && (bits & 0x7fffffffu) < 0x7f800000u;\n"
                              "    return sc_f32_to_f16(x != x ? near : sc_f32_of_bits(bits));\n"
                              "}\n"},
    [SC_HELPER_i64_to_f64] = {"i64_to_f64", SC_HELPER(bits64),
                              "/* Halves of 32 bits, each exact; the sum rounds once. The low one is put into the significand of 2^52. */\n"
                              "static inline double sc_i64_to_f64(int64_t x)\n"
                              "{\n"
                              "    double low = sc_f64_of_bits(((uint64_t)x & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;\n"
                              "    return (double)(int32_t)(x >> 32) * 0x1p32 + low;\n"
                              "}\n"},
    [SC_HELPER_i64_to_f32] = {"i64_to_f32", SC_HELPER(i64_to_f64),
                              "static inline float sc_i64_to_f32(int64_t x)\n"
                              "{\n"
                              "    return (float)sc_i64_to_f64(x);\n"
                              "}\n"},
    [SC_HELPER_f64_to_i32] = {"f64_to_i32", SC_HELPER(bits64) | SC_HELPER(math),
                              "/* The remainder of 2^32, which of infinities and NaN is a NaN, is put into the significand of 2^52. */\n"
                              "static inline int32_t sc_f64_to_i32(double x)\n"
                              "{\n"
                              "    double whole = trunc(x), rest = whole - floor(whole * 0x1p-32) * 0x1p32;\n"
                              "    rest = rest == rest ? rest : 0.0;\n"
                              "    return (int32_t)(uint32_t)sc_bits_of_f64(rest + 0x1p52);\n"
                              "}\n"},
    [SC_HELPER_f64_to_i64] = {"f64_to_i64", SC_HELPER(bits64) | SC_HELPER(math),
                              "/* As of i32, once for each half. */\n"
                              "static inline int64_t sc_f64_to_i64(double x)\n"
                              "{\n"
                              "    double whole = trunc(x), above = floor(whole * 0x1p-32);\n"
                              "    double low = whole - above * 0x1p32, high = above - floor(above * 0x1p-32) * 0x1p32;\n"
                              "    low = low == low ? low : 0.0;\n"
                              "    high = high == high ? high : 0.0;\n"
                              "    return (int64_t)(sc_bits_of_f64(high + 0x1p52) << 32 | (sc_bits_of_f64(low + 0x1p52) & 0xffffffffu));\n"
                              "}\n"},
    [SC_HELPER_f64_to_u8] = {"f64_to_u8", SC_HELPER(f64_to_i32),
                             "static inline uint8_t sc_f64_to_u8(double x)\n"
                             "{\n"
                             "    return (uint8_t)sc_f64_to_i32(x);\n"
                             "}\n"},
    [SC_HELPER_f32_to_i32] = {"f32_to_i32", SC_HELPER(f64_to_i32),
                              "static inline int32_t sc_f32_to_i32(float x)\n"
                              "{\n"
                              "    return sc_f64_to_i32((double)x);\n"
                              "}\n"},
    [SC_HELPER_f32_to_i64] = {"f32_to_i64", SC_HELPER(f64_to_i64),
                              "static inline int64_t sc_f32_to_i64(float x)\n"
                              "{\n"
                              "    return sc_f64_to_i64((double)x);\n"
                              "}\n"},
    [SC_HELPER_f32_to_u8] = {"f32_to_u8", SC_HELPER(f64_to_i32),
                             "static inline uint8_t sc_f32_to_u8(float x)\n"
                             "{\n"
                             "    return (uint8_t)sc_f64_to_i32((double)x);\n"
                             "}\n"},
    [SC_HELPER_min_f32] = {"min_f32", 0,
                           "static inline float sc_min_f32(float x, float y)\n"
                           "{\n"
                           "    float smaller = x < y ? x : y;\n"
                           "    return x != x ? x : smaller;\n"
                           "}\n"},
    [SC_HELPER_max_f32] = {"max_f32", 0,
                           "static inline float sc_max_f32(float x, float y)\n"
                           "{\n"
                           "    float larger = x > y ? x : y;\n"
                           "    return x != x ? x : larger;\n"
                           "}\n"},
    [SC_HELPER_sign_f32] = {"sign_f32", 0,
                            "static inline float sc_sign_f32(float x)\n"
                            "{\n"
                            "    float below = x < 0.0f ? -1.0f : x;\n"
                            "    return x > 0.0f ? 1.0f : below;\n"
                            "}\n"},
    [SC_HELPER_min_f64] = {"min_f64", 0,
                           "static inline double sc_min_f64(double x, double y)\n"
                           "{\n"
                           "    double smaller = x < y ? x : y;\n"
                           "    return x != x ? x : smaller;\n"
                           "}\n"},
    [SC_HELPER_max_f64] = {"max_f64", 0,
                           "static inline double sc_max_f64(double x, double y)\n"
                           "{\n"
                           "    double larger = x > y ? x : y;\n"
                           "    return x != x ? x : larger;\n"
                           "}\n"},
    [SC_HELPER_sign_f64] = {"sign_f64", 0,
                            "static inline double sc_sign_f64(double x)\n"
                            "{\n"
                            "    double below = x < 0.0 ? -1.0 : x;\n"
                            "    return x > 0.0 ? 1.0 : below;\n"
                            "}\n"},
    [SC_HELPER_mod_f64] = {"mod_f64", SC_HELPER(math),
                           "/* The remainder has the sign of the divisor. */\n"
                           "static inline double sc_mod_f64(double x, double y)\n"
                           "{\n"
                           "    return x - floor(x / y) * y;\n"
                           "}\n"},
    [SC_HELPER_mod_f32] = {"mod_f32", SC_HELPER(mod_f64),
                           "/* In f64, where the product is exact for quotients below 2^29. */\n"
                           "static inline float sc_mod_f32(float x, float y)\n"
                           "{\n"
                           "    return (float)sc_mod_f64((double)x, (double)y);\n"
                           "}\n"},
    [SC_HELPER_div_int] = {"div_int", SC_HELPER(bits64) | SC_HELPER(math),
                           "/* Truncates; by 0 it gives 0; the quotient that does not fit wraps. The quotient of two i32 is exact enough "
                           "in f64, which has vectors\n"
                           " * of divisions.  */\n"
                           "static inline int32_t sc_div_i32(int32_t x, int32_t y)\n"
                           "{\n"
                           "    double quotient = y == 0 ? 0.0 : trunc((double)x / (double)y);\n"
                           "    return (int32_t)(uint32_t)sc_bits_of_f64(quotient + 0x1.8p52);\n"
                           "}\n"
                           "\n"
                           "static inline int64_t sc_div_i64(int64_t x, int64_t y)\n"
                           "{\n"
                           "    if (y == 0)\n"
                           "        return 0;\n"
                           "    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;\n"
                           "}\n"
                           "\n"
                           "#define sc_div_int(x, y) _Generic((x) + (y), int: sc_div_i32, default: sc_div_i64)(x, y)\n"},
    [SC_HELPER_mod_int] = {"mod_int", SC_HELPER(bits64) | SC_HELPER(math),
                           "/* The remainder has the sign of the divisor; by 0 it is 0. */\n"
                           "static inline int32_t sc_mod_i32(int32_t x, int32_t y)\n"
                           "{\n"
                           "    double rest = y == 0 ? 0.0 : (double)x - floor((double)x / (double)y) * (double)y;\n"
                           "    return (int32_t)(uint32_t)sc_bits_of_f64(rest + 0x1.8p52);\n"
                           "}\n"
                           "\n"
                           "static inline int64_t sc_mod_i64(int64_t x, int64_t y)\n"
                           "{\n"
                           "    if (y == 0 || y == -1)\n"
                           "        return 0;\n"
                           "    int64_t rest = x % y;\n"
                           "    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;\n"
                           "}\n"
                           "\n"
                           "#define sc_mod_int(x, y) _Generic((x) + (y), int: sc_mod_i32, default: sc_mod_i64)(x, y)\n"},
    [SC_HELPER_exp_f32] =
        {"exp_f32", SC_HELPER(bits),
         "/* exp(x) = 2^n exp(r), n = floor(x / log 2), so 0 <= r < 0.694; exp(r) by a polynomial, its terms in pairs: short chains. n is\n"
         " * read out of the low bits of a sum that has no room for a fraction; n + 127 is the exponent of 2^n as it stands in an f32: 0\n"
         " * (n = -127) makes it 0, 255 (n = 128) infinity. */\n"
         "static inline float sc_exp_f32(float x)\n"
         "{\n"
         "    x = x > 89.0f ? 89.0f : x;\n"
         "    x = x < -88.0f ? -88.0f : x;\n"
         "    float shifted = (x * 1.44269504f - 0.5f) + 12582912.0f, n = shifted - 12582912.0f;\n"
         "    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f, square = r * r;\n"
         "    float p = (0.00194660330f * r + 0.00779709825f) * square + (0.0419109352f * r + 0.166611716f);\n"
         "    p = (p * square + (0.500005543f * r + 0.999999821f)) * r + 1.0f;\n"
         "    return p * sc_f32_of_bits((sc_bits_of_f32(shifted) + 127u) << 23);\n"
         "}\n"},
    [SC_HELPER_exp_below_f32] =
        {"exp_below_f32", SC_HELPER(bits),
         "/* As exp, of what is below 88: n is the integer next to x / log 2, so |r| < 0.347 and fewer terms do, one after the other:\n"
         " * loops over it are bound by how much there is to compute. */\n"
         "static inline float sc_exp_below_f32(float x)\n"
         "{\n"
         "    x = x < -88.0f ? -88.0f : x;\n"
         "    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;\n"
         "    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;\n"
         "    float p = 0.00829027215f * r + 0.0418981603f;\n"
         "    p = p * r + 0.166676381f;\n"
         "    p = p * r + 0.499991478f;\n"
         "    p = p * r + 0.999999706f;\n"
         "    p = p * r + 1.0f;\n"
         "    return p * sc_f32_of_bits((sc_bits_of_f32(shifted) + 127u) << 23);\n"
         "}\n"},
    [SC_HELPER_expm1_f32] =
        {"expm1_f32", SC_HELPER(bits),
         "/* As exp, but n is the integer next to x / log 2, so |r| < 0.347, and the 1 is taken off before anything is rounded:\n"
         " * 2^n (exp(r) - 1) + (2^n - 1). 2^n is two factors, since n may be 128. */\n"
         "static inline float sc_expm1_f32(float x)\n"
         "{\n"
         "    float given = x;\n"
         "    x = x > 89.0f ? 89.0f : x;\n"
         "    x = x < -30.0f ? -30.0f : x;\n"
         "    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;\n"
         "    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;\n"
         "    float p = 0.00139264841f;\n"
         "    p = p * r + 0.00836341962f;\n"
         "    p = p * r + 0.0416665528f;\n"
         "    p = p * r + 0.166665755f;\n"
         "    p = p * r + 0.5f;\n"
         "    p = p * (r * r) + r;\n"
         "    int32_t power = (int32_t)(sc_bits_of_f32(shifted) - 0x4b400000u), half = power >> 1;\n"
         "    float low = sc_f32_of_bits((uint32_t)(half + 127) << 23);\n"
         "    float high = sc_f32_of_bits((uint32_t)(power - half + 127) << 23);\n"
         "    float reciprocal = sc_f32_of_bits((uint32_t)(half - power + 127) << 23);\n"
         "    float result = (p * low + (low - reciprocal)) * high;\n"
         "    return given == 0.0f ? given : result;\n"
         "}\n"},
    [SC_HELPER_log_f32] = {"log_f32", SC_HELPER(bits),
                           "/* x = 2^n (1 + f), 1 + f between sqrt(1/2) and sqrt(2); log(1 + f) = f - f^2/2 + f^3 times a polynomial. */\n"
                           "static inline float sc_log_f32(float x)\n"
                           "{\n"
                           "    float scaled = x < 0x1p-126f ? x * 0x1p23f : x, lift = x < 0x1p-126f ? -23.0f : 0.0f;\n"
                           "    uint32_t bits = sc_bits_of_f32(scaled) - 0x3f3504f3u;\n"
                           "    float n = (float)((int32_t)bits >> 23) + lift;\n"
                           "    float f = sc_f32_of_bits((bits & 0x007fffffu) + 0x3f3504f3u) - 1.0f;\n"
                           "    float p = -0.0790358586f;\n"
                           "    p = p * f + 0.126261449f;\n"
                           "    p = p * f - 0.129994497f;\n"
                           "    p = p * f + 0.142141358f;\n"
                           "    p = p * f - 0.166411604f;\n"
                           "    p = p * f + 0.200010532f;\n"
                           "    p = p * f - 0.250003085f;\n"
                           "    p = p * f + 0.333333307f;\n"
                           "    float square = f * f;\n"
                           "    float result = n * 0.693359375f + (f + (square * (p * f - 0.5f) - n * 2.12194440e-4f));\n"
                           "    result = x == 0.0f ? -__builtin_inff() : result;\n"
                           "    result = x == __builtin_inff() ? x : result;\n"
                           "    return x >= 0.0f ? result : __builtin_nanf(\"\");\n"
                           "}\n"},
    [SC_HELPER_tanh_f32] =
        {"tanh_f32", 0,
         "/* tanh(x/2) = u = (a/2) / (1 + d), odd and even polynomials in x; tanh(x) = 2u / (1 + u^2), to which errors of u\n"
         " * mean the less, the nearer it is to 1. 1 and d are added late, so that d's rounding is none of the sum's. Where\n"
         " * x is cut off the result is 1. */\n"
         "static inline float sc_tanh_f32(float x)\n"
         "{\n"
         "    x = x > 9.01f ? 9.01f : x;\n"
         "    x = x < -9.01f ? -9.01f : x;\n"
         "    float z = x * x;\n"
         "    float a = (x * z) * (1.14250455e-4f * z + 0.0297737699f) + x, half = 0.5f * a;\n"
         "    float d = ((1.22885842e-6f * z + 0.00120654202f) * z + 0.113107070f) * z;\n"
         "    return (a * d + a) / ((d * (d + 2.0f) + half * half) + 1.0f);\n"
         "}\n"},
    [SC_HELPER_sigmoid_f32] = {"sigmoid_f32", SC_HELPER(exp_below_f32),
                               "/* The exponential of -|x| never overflows, and for a negative x it is the numerator. */\n"
                               "static inline float sc_sigmoid_f32(float x)\n"
                               "{\n"
                               "    float e = sc_exp_below_f32(x > 0.0f ? -x : x);\n"
                               "    return (x > 0.0f ? 1.0f : e) / (1.0f + e);\n"
                               "}\n"},
    [SC_HELPER_erf_f32] = {"erf_f32", SC_HELPER(exp_below_f32),
                           "/* |x| < 1: x times a polynomial in x^2; else 1 - erfc, log erfc being a polynomial on 1 .. 4. */\n"
                           "static inline float sc_erf_f32(float x)\n"
                           "{\n"
                           "    float a = sc_f32_of_bits(sc_bits_of_f32(x) & 0x7fffffffu), z = x * x;\n"
                           "    float near = 7.87587506e-5f;\n"
                           "    near = near * z - 8.01686429e-4f;\n"
                           "    near = near * z + 0.00518908742f;\n"
                           "    near = near * z - 0.0268542120f;\n"
                           "    near = near * z + 0.112835947f;\n"
                           "    near = near * z - 0.376126267f;\n"
                           "    near = (near * z + 1.12837917f) * x;\n"
                           "    float b = a > 4.0f ? 4.0f : a, far = -1.32723618e-5f;\n"
                           "    far = far * b + 3.16937023e-4f;\n"
                           "    far = far * b - 0.00343235138f;\n"
                           "    far = far * b + 0.0226047722f;\n"
                           "    far = far * b - 0.103281118f;\n"
                           "    far = far * b - 0.639141258f;\n"
                           "    far = far * b - 1.12589365f;\n"
                           "    far = 1.0f - sc_exp_below_f32(far * b - 7.65897780e-4f);\n"
                           "    far = sc_f32_of_bits(sc_bits_of_f32(far) | (sc_bits_of_f32(x) & 0x80000000u));\n"
                           "    return a < 1.0f ? near : far;\n"
                           "}\n"},
/* The nearest integer is read out of the low bits of a sum that has no room for a fraction. */
#define REDUCE_QUARTERS                                                                                                                    \
    "    double shifted = (double)x * 0.63661977236758134308 + 0x1.8p52, n = shifted - 0x1.8p52;\n"                                        \
    "    uint32_t quarter = (uint32_t)sc_bits_of_f64(shifted);\n"                                                                          \
    "    float r = (float)(((double)x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34 - n * 0x1.3198a2e037073p-69);\n"                       \
    "    float z = r * r;\n"                                                                                                               \
    "    float sine = r + r * z * ((-1.95878298e-4f * z + 0.00833274799f) * z - 0.166666647f);\n"                                          \
    "    float cosine = 1.0f + z * (((2.45478808e-5f * z - 0.00138883028f) * z + 0.0416666647f) * z - 0.5f);\n"
    [SC_HELPER_sin_f32] =
        {"sin_f32", SC_HELPER(bits) | SC_HELPER(bits64),
         "/* The nearest quarter turn is taken off in f64, pi/2 being three numbers of which the first two have 33 bits; polynomials on\n"
         " * -pi/4 .. pi/4 for what is left. */\n"
         "static inline float sc_sin_f32(float x)\n"
         "{\n" REDUCE_QUARTERS "    float result = (quarter & 1) != 0 ? cosine : sine;\n"
         "    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ (quarter & 2) << 30);\n"
         "    result = x == 0.0f ? x : result;\n"
         "    return (x < 0x1p31f) & (x > -0x1p31f) ? result : __builtin_nanf(\"\");\n"
         "}\n"},
    [SC_HELPER_cos_f32] = {"cos_f32", SC_HELPER(bits) | SC_HELPER(bits64),
                           "/* As sin, a quarter turn on. */\n"
                           "static inline float sc_cos_f32(float x)\n"
                           "{\n" REDUCE_QUARTERS "    float result = (quarter & 1) != 0 ? sine : cosine;\n"
                           "    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ ((quarter + 1) & 2) << 30);\n"
                           "    return (x < 0x1p31f) & (x > -0x1p31f) ? result : __builtin_nanf(\"\");\n"
                           "}\n"},
#undef REDUCE_QUARTERS
    [SC_HELPER_pow_f32] =
        {"pow_f32", SC_HELPER(bits) | SC_HELPER(bits64) | SC_HELPER(math),
         "/* 2^(y log2 |x|), all in f64, rounded once. log2 of x = 2^n m by its series in (m - 1) / (m + 1), |..| < 0.172; 2^f by "
         "Taylor's\n"
         " * series, |f| < 1/2. The special cases are those of C, annex F.10.4.4. */\n"
         "static inline float sc_pow_f32(float x, float y)\n"
         "{\n"
         "    float a = sc_f32_of_bits(sc_bits_of_f32(x) & 0x7fffffffu), scaled = a < 0x1p-126f ? a * 0x1p23f : a;\n"
         "    uint32_t bits = sc_bits_of_f32(scaled) - 0x3f3504f3u;\n"
         "    double n = (double)((int32_t)bits >> 23) + (a < 0x1p-126f ? -23.0 : 0.0);\n"
         "    double m = (double)sc_f32_of_bits((bits & 0x007fffffu) + 0x3f3504f3u), s = (m - 1.0) / (m + 1.0), z = s * s;\n"
         "    double p = 1.0 / 13;\n"
         "    p = p * z + 1.0 / 11;\n"
         "    p = p * z + 1.0 / 9;\n"
         "    p = p * z + 1.0 / 7;\n"
         "    p = p * z + 1.0 / 5;\n"
         "    p = p * z + 1.0 / 3;\n"
         "    p = p * z + 1.0;\n"
         "    double log2 = n + s * p * 2.885390081777926815;\n"
         "    log2 = a == 0.0f ? -__builtin_inf() : log2;\n"
         "    log2 = a == __builtin_inff() ? __builtin_inf() : log2;\n"
         "    double t = (double)y * log2;\n"
         "    t = a == 1.0f ? 0.0 : t;\n"
         "    t = t > 200.0 ? 200.0 : t;\n"
         "    t = t < -200.0 ? -200.0 : t;\n"
         "    double shifted = t + 0x1.8p52, f = (t - (shifted - 0x1.8p52)) * 0.69314718055994530942, e = 1.0 / 362880;\n"
         "    e = e * f + 1.0 / 40320;\n"
         "    e = e * f + 1.0 / 5040;\n"
         "    e = e * f + 1.0 / 720;\n"
         "    e = e * f + 1.0 / 120;\n"
         "    e = e * f + 1.0 / 24;\n"
         "    e = e * f + 1.0 / 6;\n"
         "    e = e * f + 0.5;\n"
         "    e = e * f + 1.0;\n"
         "    e = e * f + 1.0;\n"
         "    float result = (float)(e * sc_f64_of_bits((sc_bits_of_f64(shifted) + 1023u) << 52));\n"
         "    float half = 0.5f * y;\n"
         "    int whole = floorf(y) == y, odd = whole & (floorf(half) != half);\n"
         "    result = (x < 0.0f) & (a != __builtin_inff()) & !whole ? __builtin_nanf(\"\") : result;\n"
         "    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ (odd ? sc_bits_of_f32(x) & 0x80000000u : 0u));\n"
         "    result = (x != x) | (y != y) ? x + y : result;\n"
         "    return (y == 0.0f) | (x == 1.0f) ? 1.0f : result;\n"
         "}\n"},
    [SC_HELPER_philox] = {"philox", SC_HELPER(headers),
                          "/* Philox 4x32-10: Salmon, Moraes, Dror and Shaw, SC 2011, section 3.3. */\n"
                          "static inline void sc_philox(uint32_t c[4], uint32_t key0, uint32_t key1)\n"
                          "{\n"
                          "    uint32_t c0 = c[0], c1 = c[1], c2 = c[2], c3 = c[3];\n"
                          "    for (int round = 0; round < 10; round++) {\n"
                          "        uint64_t first = (uint64_t)0xd2511f53u * c0, second = (uint64_t)0xcd9e8d57u * c2;\n"
                          "        c0 = (uint32_t)(second >> 32) ^ c1 ^ key0;\n"
                          "        c1 = (uint32_t)second;\n"
                          "        c2 = (uint32_t)(first >> 32) ^ c3 ^ key1;\n"
                          "        c3 = (uint32_t)first;\n"
                          "        key0 += 0x9e3779b9u;\n"
                          "        key1 += 0xbb67ae85u;\n"
                          "    }\n"
                          "    c[0] = c0;\n"
                          "    c[1] = c1;\n"
                          "    c[2] = c2;\n"
                          "    c[3] = c3;\n"
                          "}\n"},
    [SC_HELPER_rng_key] = {"rng_key", SC_HELPER(headers),
                           "/* The key of a stream of random numbers: the seed, mixed, and the hash of the path. */\n"
                           "static inline uint64_t sc_rng_key(uint64_t seed, uint64_t path_hash)\n"
                           "{\n"
                           "    uint64_t x = seed + 0x9e3779b97f4a7c15u;\n"
                           "    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;\n"
                           "    x = (x ^ x >> 27) * 0x94d049bb133111ebu;\n"
                           "    return x ^ x >> 31 ^ path_hash;\n"
                           "}\n"},
    [SC_HELPER_uniform53] = {"uniform53", SC_HELPER(philox),
                             "/* 53 random bits of the element with this index in the whole array. */\n"
                             "static inline uint64_t sc_uniform53(int64_t index, uint32_t step, uint32_t micro_batch, uint64_t key)\n"
                             "{\n"
                             "    uint32_t c[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), step, micro_batch};\n"
                             "    sc_philox(c, (uint32_t)key, (uint32_t)(key >> 32));\n"
                             "    return (uint64_t)(c[0] >> 5) << 26 | c[1] >> 6;\n"
                             "}\n"},
    [SC_HELPER_uniform_f64] = {"uniform_f64", SC_HELPER(philox),
                               "/* In [0, 1), a multiple of 2^-53. */\n"
                               "static inline double sc_uniform_f64(int64_t index, uint32_t step, uint32_t micro_batch, uint64_t key)\n"
                               "{\n"
                               "    uint32_t c[4] = {(uint32_t)index, (uint32_t)((uint64_t)index >> 32), step, micro_batch};\n"
                               "    sc_philox(c, (uint32_t)key, (uint32_t)(key >> 32));\n"
                               "    return ((double)(int32_t)(c[0] >> 5) * 67108864.0 + (double)(int32_t)(c[1] >> 6)) * 0x1p-53;\n"
                               "}\n"},
#define LANES(type, suffix, max, min)                                                                                                      \
    "/* Reduced in the same order wherever it runs. */\n"                                                                                  \
    "static inline " type " sc_lane_" suffix "(" type " x, " type " y, char how)\n"                                                        \
    "{\n"                                                                                                                                  \
    "    return how == '+' ? x + y : how == '>' ? " max " : " min ";\n"                                                                    \
    "}\n"                                                                                                                                  \
    "\n"                                                                                                                                   \
    "static inline __attribute__((always_inline)) " type " sc_lanes_" suffix "(" type " *lanes, int count, char how)\n"                    \
    "{\n"                                                                                                                                  \
    "#pragma omp simd\n"                                                                                                                   \
    "    for (int i = 0; i < (count == 32 ? 16 : 0); i++)\n"                                                                               \
    "        lanes[i] = sc_lane_" suffix "(lanes[i], lanes[i + 16], how);\n"                                                               \
    "#pragma omp simd\n"                                                                                                                   \
    "    for (int i = 0; i < (count == 32 ? 8 : 0); i++)\n"                                                                                \
    "        lanes[i] = sc_lane_" suffix "(lanes[i], lanes[i + 8], how);\n"                                                                \
    "#pragma omp simd\n"                                                                                                                   \
    "    for (int i = 0; i < 4; i++)\n"                                                                                                    \
    "        lanes[i] = sc_lane_" suffix "(lanes[i], lanes[i + 4], how);\n"                                                                \
    "    for (int i = 0; i < 2; i++)\n"                                                                                                    \
    "        lanes[i] = sc_lane_" suffix "(lanes[i], lanes[i + 2], how);\n"                                                                \
    "    return sc_lane_" suffix "(lanes[0], lanes[1], how);\n"                                                                            \
    "}\n"
    [SC_HELPER_lanes_f32] = {"lanes_f32", SC_HELPER(min_f32) | SC_HELPER(max_f32),
                             LANES("float", "f32", "sc_max_f32(x, y)", "sc_min_f32(x, y)")},
    [SC_HELPER_lanes_f64] = {"lanes_f64", SC_HELPER(min_f64) | SC_HELPER(max_f64),
                             LANES("double", "f64", "sc_max_f64(x, y)", "sc_min_f64(x, y)")},
    [SC_HELPER_lanes_i32] = {"lanes_i32", SC_HELPER(headers), LANES("int32_t", "i32", "(x > y ? x : y)", "(x < y ? x : y)")},
    [SC_HELPER_lanes_i64] = {"lanes_i64", SC_HELPER(headers), LANES("int64_t", "i64", "(x > y ? x : y)", "(x < y ? x : y)")},
#undef LANES
    [SC_HELPER_stream] = {"stream", SC_HELPER(headers),
                          "#ifndef __has_builtin\n"
                          "#define __has_builtin(name) 0\n"
                          "#endif\n"
                          "typedef long long sc_b64x4 __attribute__((vector_size(32), may_alias));\n"
                          "typedef long long sc_b64x4_anywhere __attribute__((vector_size(32), aligned(1), may_alias));\n"
                          "\n"
                          "/* A line of memory that is written as a whole need not be read for it. */\n"
                          "static inline void sc_stream(void *to, const void *from, int64_t bytes)\n"
                          "{\n"
                          "    char *y = to;\n"
                          "    const char *x = from;\n"
                          "    int64_t head = (int64_t)(-(uintptr_t)y & 63), i = head < bytes ? head : bytes;\n"
                          "    __builtin_memcpy(y, x, (size_t)i);\n"
                          "    for (; i + 64 <= bytes; i += 64) {\n"
                          "        for (int half = 0; half < 64; half += 32) {\n"
                          "            sc_b64x4 line = *(const sc_b64x4_anywhere *)(x + i + half);\n"
                          "#if __has_builtin(__builtin_nontemporal_store)\n"
                          "            __builtin_nontemporal_store(line, (sc_b64x4 *)(y + i + half));\n"
                          "#elif defined __AVX__\n"
                          "            __builtin_ia32_movntdq256((sc_b64x4 *)(y + i + half), line);\n"
                          "#else\n"
                          "            *(sc_b64x4 *)(y + i + half) = line;\n"
                          "#endif\n"
                          "        }\n"
                          "    }\n"
                          "    __builtin_memcpy(y + i, x + i, (size_t)(bytes - i));\n"
                          "}\n"
                          "\n"
                          "/* What other threads do next, they do behind these stores. */\n"
                          "static inline void sc_streamed(void)\n"
                          "{\n"
                          "#ifdef __SSE__\n"
                          "    __builtin_ia32_sfence();\n"
                          "#else\n"
                          "    __sync_synchronize();\n"
                          "#endif\n"
                          "}\n"},
/* The rest, at the right and below, element by element. */
#define TURN(type, name, out)                                                                                                              \
    "static inline void " name "(const void *from, int64_t from_row, void *to, int64_t to_row, int64_t rows, int64_t columns)\n"           \
    "{\n"                                                                                                                                  \
    "    const " type " *x = from;\n"                                                                                                      \
    "    " type " *y = to;\n"                                                                                                              \
    "    for (int64_t r = 0; r < rows; r += 8) {\n"                                                                                        \
    "        const " type " *later = x + (r + 16 < rows ? (r + 16) * from_row : (r + 16 - rows) * from_row + columns);\n"                  \
    "        for (int64_t c = 0; c < columns; c += 8) {\n"                                                                                 \
    "            for (int64_t i = 0; c % (64 / (int64_t)sizeof *x) == 0 && i < 8; i++)\n"                                                  \
    "                __builtin_prefetch(later + i * from_row + c);\n"                                                                      \
    "            if (r + 8 <= rows && c + 8 <= columns) {\n"                                                                               \
    "                " name "_8(x + r * from_row + c, from_row, y + c * to_row + r, to_row);\n"                                            \
    "                continue;\n"                                                                                                          \
    "            }\n"                                                                                                                      \
    "            for (int64_t j = c; j < c + 8 && j < columns; j++)\n"                                                                     \
    "                for (int64_t i = r; i < r + 8 && i < rows; i++)\n"                                                                    \
    "                    y[j * to_row + i] = x[i * from_row + j];\n"                                                                       \
    "        }\n"                                                                                                                          \
    "    }\n"                                                                                                                              \
    "}\n"                                                                                                                                  \
    "\n"                                                                                                                                   \
    "/* The same; what it writes goes around the caches. */\n"                                                                             \
    "static inline void " out "(const void *from, int64_t from_row, void *to, int64_t to_row, int64_t rows, int64_t columns)\n"            \
    "{\n"                                                                                                                                  \
    "    " type " strip[8 * 256];\n"                                                                                                       \
    "    for (int64_t r = 0; r < rows; r += 256) {\n"                                                                                      \
    "        int64_t length = rows - r < 256 ? rows - r : 256;\n"                                                                          \
    "        for (int64_t c = 0; c < columns; c += 8) {\n"                                                                                 \
    "            int64_t width = columns - c < 8 ? columns - c : 8;\n"                                                                     \
    "            " name "((const " type " *)from + r * from_row + c, from_row, strip, 256, length, width);\n"                              \
    "            for (int64_t i = 0; i < width; i++)\n"                                                                                    \
    "                sc_stream((" type " *)to + (c + i) * to_row + r, strip + 256 * i, length * (int64_t)sizeof *strip);\n"                \
    "        }\n"                                                                                                                          \
    "    }\n"                                                                                                                              \
    "}\n"
    [SC_HELPER_turn_b32] =
        {"turn_b32", SC_HELPER(stream),
         "typedef uint32_t sc_b32 __attribute__((may_alias));\n"
         "typedef uint32_t sc_b32x8 __attribute__((vector_size(32), aligned(4), may_alias));\n"
         "\n"
         "/* 8 rows of 8: pairs, pairs of pairs, halves. */\n"
         "static inline void sc_turn_b32_8(const sc_b32 *from, int64_t from_row, sc_b32 *to, int64_t to_row)\n"
         "{\n"
         "    sc_b32x8 x[8], y[8];\n"
         "    for (int i = 0; i < 8; i++)\n"
         "        x[i] = *(const sc_b32x8 *)(from + i * from_row);\n"
         "    for (int i = 0; i < 8; i += 2) {\n"
         "        y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);\n"
         "        y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);\n"
         "    }\n"
         "    for (int i = 0; i < 8; i += 4) {\n"
         "        for (int j = 0; j < 2; j++) {\n"
         "            x[i + 2 * j] = __builtin_shufflevector(y[i + j], y[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);\n"
         "            x[i + 2 * j + 1] = __builtin_shufflevector(y[i + j], y[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);\n"
         "        }\n"
         "    }\n"
         "    for (int i = 0; i < 4; i++) {\n"
         "        *(sc_b32x8 *)(to + i * to_row) = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);\n"
         "        *(sc_b32x8 *)(to + (i + 4) * to_row) = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);\n"
         "    }\n"
         "}\n"
         "\n"
         "/* In squares of 8; later rows are fetched meanwhile, at the end those of the columns that are likely to be next. */\n" TURN(
             "sc_b32", "sc_turn_b32", "sc_turn_out_b32")},
    [SC_HELPER_turn_b16] = {"turn_b16", SC_HELPER(stream),
                            "typedef uint16_t sc_b16 __attribute__((may_alias));\n"
                            "typedef uint16_t sc_b16x8 __attribute__((vector_size(16), aligned(2), may_alias));\n"
                            "\n"
                            "/* 8 rows of 8: thrice, each row of the upper half and one of the lower become two that take turns. */\n"
                            "static inline void sc_turn_b16_8(const sc_b16 *from, int64_t from_row, sc_b16 *to, int64_t to_row)\n"
                            "{\n"
                            "    sc_b16x8 x[8], y[8];\n"
                            "    for (int i = 0; i < 8; i++)\n"
                            "        x[i] = *(const sc_b16x8 *)(from + i * from_row);\n"
                            "    for (int round = 0; round < 3; round++) {\n"
                            "        for (int i = 0; i < 4; i++) {\n"
                            "            y[2 * i] = __builtin_shufflevector(x[i], x[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);\n"
                            "            y[2 * i + 1] = __builtin_shufflevector(x[i], x[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);\n"
                            "        }\n"
                            "        for (int i = 0; i < 8; i++)\n"
                            "            x[i] = y[i];\n"
                            "    }\n"
                            "    for (int i = 0; i < 8; i++)\n"
                            "        *(sc_b16x8 *)(to + i * to_row) = x[i];\n"
                            "}\n"
                            "\n"
                            "/* As sc_turn_b32. */\n" TURN("sc_b16", "sc_turn_b16", "sc_turn_out_b16")},
#undef TURN
};

const char *sc_helper_name(sc_helper helper)
{
    return rows[helper].name;
}

const char *sc_helper_text(sc_helper helper)
{
    return rows[helper].text;
}

/* A helper needs only such as stand before it. */
sc_helper_set sc_helpers_closed(sc_helper_set helpers)
{
    for (int i = SC_HELPER_COUNT; i-- > 0;)
        helpers |= (helpers >> i & 1) != 0 ? rows[i].needs : 0;
    return helpers;
}

void sc_helpers_emit(sc_strbuf *out, sc_helper_set helpers)
{
    helpers = sc_helpers_closed(helpers);
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if ((helpers >> i & 1) == 0)
            continue;
        sc_strbuf_add(out, rows[i].text);
        if (i > SC_HELPER_math || (helpers >> (i + 1) & 1) == 0)
            sc_strbuf_add_char(out, '\n');
    }
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* Whether the helper's text defines a function or macro of this name: the name stands there after a blank, before a parenthesis, and the
 * line does not begin with one. */
static bool defines(const sc_helper_row *row, const char *name, size_t length)
{
    for (const char *line = row->text; line != NULL && *line != 0; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, "static inline ", 14) != 0 && strncmp(line, "#define ", 8) != 0)
            continue;
        const char *attribute = strstr(line, ")) "), *stop = strchr(line, '\n');
        bool has_attribute = strncmp(line, "static inline __attribute__", 27) == 0 && attribute != NULL && attribute < stop;
        const char *end = strchr(has_attribute ? attribute + 2 : line, '(');
        if (end != NULL && (size_t)(end - line) > length && end[-(ptrdiff_t)length - 1] == ' ' && memcmp(end - length, name, length) == 0)
            return true;
    }
    return false;
}

static bool is_of_libm(const char *name, size_t length)
{
    static const char *const names[] = {"INFINITY", "NAN",   "ceil", "cos",   "erf", "exp", "expm1", "fabs",  "fabsf", "floor", "floorf",
                                        "isinf",    "isnan", "log",  "log1p", "pow", "sin", "sqrt",  "sqrtf", "tanh",  "trunc", "truncf"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (names[i][0] == name[0] && strncmp(names[i], name, length) == 0 && names[i][length] == 0)
            return true;
    }
    return false;
}

static sc_helper_set helpers_of_name(const char *name, size_t length)
{
    if (is_of_libm(name, length))
        return SC_HELPER(math);
    if (length < 3 || memcmp(name, "sc_", 3) != 0)
        return 0;
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if (defines(&rows[i], name, length))
            return (sc_helper_set)1 << i;
    }
    return 0;
}

sc_helper_set sc_helpers_named_in(const char *text)
{
    sc_helper_set named = 0;
    while (*text != 0) {
        const char *comment_end = text[0] == '/' && text[1] == '*' ? strstr(text + 2, "*/") : NULL;
        text = comment_end == NULL ? text : comment_end;
        size_t length = 0;
        while (is_name(text[length]))
            length++;
        if (length > 0)
            named |= helpers_of_name(text, length);
        text += length == 0 ? 1 : length;
    }
    return named;
}

uint64_t sc_uniform53_limit(double p)
{
    return (uint64_t)ceil(ldexp(p, 53));
}
