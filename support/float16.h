/* bf16 and f16, stored as bits. Conversions from and to f32 are vectorizable in loops; conversions
 * from f64 round once. */
#ifndef SHARDC_SUPPORT_FLOAT16_H
#define SHARDC_SUPPORT_FLOAT16_H

#include <stdint.h>
#include <string.h>

static inline float sc_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t sc_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The bits of a double tell 0 from -0, and a NaN equals itself. */
static inline uint64_t sc_bits_of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float sc_f32_of_bf16(uint16_t bits)
{
    return sc_f32_of_bits((uint32_t)bits << 16);
}

/* Rounds to nearest, ties to even; preserves NaN. */
static inline uint16_t sc_bf16_of_f32(float value)
{
    uint32_t bits = sc_bits_of_f32(value);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)(value != value ? bits >> 16 | 0x40 : rounded);
}

/* Branch-free. Rebiases the exponent by 112; subnormals are multiples of 2^-24. */
static inline float sc_f32_of_f16(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, magnitude = bits & 0x7fff;
    uint32_t normal = (magnitude << 13) + (112u << 23), special = magnitude << 13 | 0x7f800000;
    uint32_t small = sc_bits_of_f32((float)(int32_t)magnitude * 0x1p-24f);
    return sc_f32_of_bits(sign | (magnitude >= 0x7c00  ? special
                                  : magnitude < 0x0400 ? small
                                                       : normal));
}

/* Rounds to nearest, ties to even; above 65504 to infinity; preserves NaN. Below 2^-14, adding 1/2
 * rounds to multiples of 2^-24. */
static inline uint16_t sc_f16_of_f32(float value)
{
    uint32_t bits = sc_bits_of_f32(value), magnitude = bits & 0x7fffffff;
    uint32_t normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    uint32_t small = sc_bits_of_f32(sc_f32_of_bits(magnitude) + 0.5f) - 0x3f000000;
    uint32_t large = magnitude > 0x7f800000 ? 0x7e00 : 0x7c00;
    uint32_t out = magnitude >= 0x477ff000 ? large : magnitude < 0x38800000 ? small : normal;
    return (uint16_t)((bits >> 16 & 0x8000) | out);
}

/* Conversions from double with a single rounding; going through f32 would round twice. */
uint16_t sc_bf16_of_f64(double value);
uint16_t sc_f16_of_f64(double value);

#endif
