#include "support/rng.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* No fused multiply-add: it would round once where separate operations round twice. GCC does not
 * contract in ISO C mode. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

void sc_rng_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
             k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t first = (uint64_t)0xd2511f53u * c0, second = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(second >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)second;
        c2 = (uint32_t)(first >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)first;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Mixes the seed (the finaliser of splitmix64: Steele, Lea and Flood, OOPSLA 2014) before combining
 * it with the hash, so that neighbouring seeds are far apart and a small difference of seeds does
 * not equal one of paths. */
void sc_rng_key(uint64_t seed, uint64_t path_hash, uint32_t key[2])
{
    uint64_t x = seed + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    x ^= path_hash;
    key[0] = (uint32_t)x;
    key[1] = (uint32_t)(x >> 32);
}

static void draw(uint64_t seed, uint64_t path_hash, uint64_t index, uint32_t words[4])
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), 0, 0}, key[2];
    sc_rng_key(seed, path_hash, key);
    sc_rng_philox(counter, key, words);
}

/* 53 bits: the upper 27 of one word, the upper 26 of the next. */
static double fraction(uint32_t high, uint32_t low)
{
    return ((double)(high >> 5) * 67108864.0 + (double)(low >> 6)) * (1.0 / 9007199254740992.0);
}

/* Normals are computed several at a time: every step is a vectorizable loop over lanes, with the
 * same arithmetic per lane as for a single value. `lanes` is a constant, 1 or LANES, wherever these
 * functions are inlined. */
enum { LANES = 8 };
#define INLINE static inline __attribute__((always_inline))

/* log(x) of a normal x > 0. x = m 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh(s), s = (m -
 * 1) / (m + 1), |s| < 0.1716. The error of the series to s^23 is below 2^-60. */
INLINE void logarithms(int lanes, double *x)
{
    double exponent[LANES], s[LANES], s2[LANES], series[LANES];
    for (int l = 0; l < lanes; l++) {
        uint64_t bits;
        double m;
        memcpy(&bits, &x[l], sizeof bits);
        int power = (int)(bits >> 52) - 1023;
        bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
        memcpy(&m, &bits, sizeof m);
        bool is_large = m > 1.4142135623730951;
        m = is_large ? m * 0.5 : m;
        exponent[l] = (double)(power + is_large);
        s[l] = (m - 1.0) / (m + 1.0);
        s2[l] = s[l] * s[l];
        series[l] = 0.0;
    }
    for (int n = 23; n >= 1; n -= 2) {
        for (int l = 0; l < lanes; l++)
            series[l] = series[l] * s2[l] + 1.0 / (double)n;
    }
    for (int l = 0; l < lanes; l++)
        x[l] = exponent[l] * 0.69314718055994530942 + 2.0 * s[l] * series[l];
}

/* cos(2 pi u), 0 <= u < 1. Subtracts the nearest quarter turn exactly; the rest is at most pi/4,
 * where the error of the Taylor series to the 18th power is below 2^-60. */
INLINE void cosines_of_turns(int lanes, double *u)
{
    int quarter[LANES];
    double angle[LANES], square[LANES], cosine[LANES], sine[LANES];
    for (int l = 0; l < lanes; l++) {
        quarter[l] = (int)(u[l] * 4.0 + 0.5);
        angle[l] = (u[l] - (double)quarter[l] * 0.25) * 6.28318530717958647692;
        square[l] = angle[l] * angle[l];
        cosine[l] = sine[l] = 1.0;
    }
    for (int n = 18; n >= 2; n -= 2) {
        for (int l = 0; l < lanes; l++) {
            cosine[l] = 1.0 - cosine[l] * square[l] / (double)(n * (n - 1));
            sine[l] = 1.0 - sine[l] * square[l] / (double)(n * (n + 1));
        }
    }
    for (int l = 0; l < lanes; l++) {
        double chosen = (quarter[l] & 1) != 0 ? sine[l] * angle[l] : cosine[l];
        u[l] = ((quarter[l] + 1) & 2) != 0 ? -chosen : chosen; /* cos, -sin, -cos, sin */
    }
}

/* 1 - fraction is in (0, 1], so its logarithm is finite. */
INLINE void draw_normals(int lanes, uint64_t seed, uint64_t path_hash, uint64_t first, double *out)
{
    double radius[LANES], turn[LANES];
    uint32_t words[4];
    for (int l = 0; l < lanes; l++) {
        draw(seed, path_hash, first + (uint64_t)l, words);
        radius[l] = 1.0 - fraction(words[0], words[1]);
        turn[l] = fraction(words[2], words[3]);
    }
    logarithms(lanes, radius);
    cosines_of_turns(lanes, turn);
    for (int l = 0; l < lanes; l++)
        out[l] = (double)(float)(sqrt(-2.0 * radius[l]) * turn[l]);
}

double sc_rng_uniform(uint64_t seed, uint64_t path_hash, uint64_t index)
{
    uint32_t words[4];
    draw(seed, path_hash, index, words);
    return fraction(words[0], words[1]);
}

double sc_rng_uniform_at(const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t words[4];
    sc_rng_philox(counter, key, words);
    return fraction(words[0], words[1]);
}

double sc_rng_normal(uint64_t seed, uint64_t path_hash, uint64_t index)
{
    double value;
    draw_normals(1, seed, path_hash, index, &value);
    return value;
}

void sc_rng_normals(uint64_t seed, uint64_t path_hash, uint64_t first, uint64_t count, double *out)
{
    uint64_t i = 0;
    for (; count - i >= LANES; i += LANES)
        draw_normals(LANES, seed, path_hash, first + i, out + i);
    for (; i < count; i++)
        draw_normals(1, seed, path_hash, first + i, out + i);
}
