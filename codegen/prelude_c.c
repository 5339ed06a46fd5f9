/* The helpers' texts. Polynomials are Chebyshev interpolants of their functions, of the degree at which rounding in f32 dominates; the
 * comment of each says of what and where. All selections are conditional expressions without side effects, which compilers turn into
 * blends; a comparison is written so that a NaN takes the side that keeps it. */
#include "codegen/prelude_c.h"

#include <math.h>

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
    [SC_HELPER_bf16_to_f32] = {"bf16_to_f32", SC_HELPER(bits),
                               "static inline float sc_bf16_to_f32(uint16_t x)\n"
                               "{\n"
                               "    return sc_f32_of_bits((uint32_t)x << 16);\n"
                               "}\n"},
    [SC_HELPER_f32_to_bf16] = {"f32_to_bf16", SC_HELPER(bits),
                               "/* To nearest even; a carry out of the significand counts the exponent up, to infinity at the end. */\n"
                               "static inline uint16_t sc_f32_to_bf16(float x)\n"
                               "{\n"
                               "    uint32_t bits = sc_bits_of_f32(x);\n"
                               "    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16, quiet = bits >> 16 | 0x40u;\n"
                               "    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);\n"
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
    [SC_HELPER_exp_f32] =
        {"exp_f32", SC_HELPER(bits),
         "/* exp(x) = 2^n exp(r), n the integer next to x / log 2, so |r| < 0.347; exp(r) by a polynomial. n is read out of the low bits\n"
         " * of a sum that has no room for a fraction. 2^n is two factors, since n may be 128. */\n"
         "static inline float sc_exp_f32(float x)\n"
         "{\n"
         "    x = x > 89.0f ? 89.0f : x;\n"
         "    x = x < -104.0f ? -104.0f : x;\n"
         "    float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;\n"
         "    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;\n"
         "    float p = 0.00139264841f;\n"
         "    p = p * r + 0.00836341962f;\n"
         "    p = p * r + 0.0416665528f;\n"
         "    p = p * r + 0.166665755f;\n"
         "    p = p * r + 0.5f;\n"
         "    p = p * (r * r) + r + 1.0f;\n"
         "    int32_t power = (int32_t)(sc_bits_of_f32(shifted) - 0x4b400000u), half = power >> 1;\n"
         "    return p * sc_f32_of_bits((uint32_t)(half + 127) << 23) * sc_f32_of_bits((uint32_t)(power - half + 127) << 23);\n"
         "}\n"},
    [SC_HELPER_expm1_f32] = {"expm1_f32", SC_HELPER(bits),
                             "/* As sc_exp_f32, with the 1 taken off before anything is rounded: 2^n (exp(r) - 1) + (2^n - 1). */\n"
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
                             "    float result = (p * low + (low - 1.0f / high)) * high;\n"
                             "    return given == 0.0f ? given : result;\n"
                             "}\n"},
    [SC_HELPER_log_f32] =
        {"log_f32", SC_HELPER(bits),
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
    [SC_HELPER_tanh_f32] = {"tanh_f32", SC_HELPER(expm1_f32),
                            "/* With e = exp(2 |x|) - 1: e / (e + 2), and the sign. Beyond 10 it is 1. */\n"
                            "static inline float sc_tanh_f32(float x)\n"
                            "{\n"
                            "    float twice = sc_f32_of_bits(sc_bits_of_f32(x) & 0x7fffffffu) * 2.0f;\n"
                            "    twice = twice > 20.0f ? 20.0f : twice;\n"
                            "    float e = sc_expm1_f32(twice), result = e / (e + 2.0f);\n"
                            "    return sc_f32_of_bits(sc_bits_of_f32(result) | (sc_bits_of_f32(x) & 0x80000000u));\n"
                            "}\n"},
    [SC_HELPER_sigmoid_f32] = {"sigmoid_f32", SC_HELPER(exp_f32),
                               "/* The exponential of -|x| never overflows, and for a negative x it is the numerator. */\n"
                               "static inline float sc_sigmoid_f32(float x)\n"
                               "{\n"
                               "    float e = sc_exp_f32(x > 0.0f ? -x : x);\n"
                               "    return (x > 0.0f ? 1.0f : e) / (1.0f + e);\n"
                               "}\n"},
    [SC_HELPER_erf_f32] =
        {"erf_f32", SC_HELPER(exp_f32),
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
         "    far = 1.0f - sc_exp_f32(far * b - 7.65897780e-4f);\n"
         "    far = sc_f32_of_bits(sc_bits_of_f32(far) | (sc_bits_of_f32(x) & 0x80000000u));\n"
         "    return a < 1.0f ? near : far;\n"
         "}\n"},
#define REDUCE_QUARTERS                                                                                                                    \
    "    double turns = (double)x * 0.63661977236758134308;\n"                                                                             \
    "    int32_t quarter = (int32_t)(turns + (turns < 0 ? -0.5 : 0.5));\n"                                                                 \
    "    double n = (double)quarter;\n"                                                                                                    \
    "    float r = (float)(((double)x - n * 0x1.921fb544p+0) - n * 0x1.0b4611a6p-34 - n * 0x1.3198a2e037073p-69);\n"                       \
    "    float z = r * r;\n"                                                                                                               \
    "    float sine = r + r * z * ((-1.95878298e-4f * z + 0.00833274799f) * z - 0.166666647f);\n"                                          \
    "    float cosine = 1.0f + z * (((2.45478808e-5f * z - 0.00138883028f) * z + 0.0416666647f) * z - 0.5f);\n"
    [SC_HELPER_sin_f32] = {"sin_f32", SC_HELPER(bits),
                           "/* The nearest quarter turn is taken off in f64, pi/2 being three numbers of which the first two have 33 bits; polynomials on\n"
                           " * -pi/4 .. pi/4 for what is left. */\n"
                           "static inline float sc_sin_f32(float x)\n"
                           "{\n" REDUCE_QUARTERS
                           "    float result = (quarter & 1) != 0 ? cosine : sine;\n"
                           "    result = sc_f32_of_bits(sc_bits_of_f32(result) ^ (uint32_t)(quarter & 2) << 30);\n"
                           "    return x == 0.0f ? x : result;\n"
                           "}\n"},
    [SC_HELPER_cos_f32] = {"cos_f32", SC_HELPER(bits),
                           "/* As sc_sin_f32, a quarter turn on. */\n"
                           "static inline float sc_cos_f32(float x)\n"
                           "{\n" REDUCE_QUARTERS
                           "    float result = (quarter & 1) != 0 ? sine : cosine;\n"
                           "    return sc_f32_of_bits(sc_bits_of_f32(result) ^ (uint32_t)((quarter + 1) & 2) << 30);\n"
                           "}\n"},
#undef REDUCE_QUARTERS
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

uint64_t sc_uniform53_limit(double p)
{
    return (uint64_t)ceil(ldexp(p, 53));
}
