/* Numbers of emitted CUDA on a CPU, behind machine.h: conversions are exact, and what a machine
 * only approximates is as far off here as it may be there (codegen/cuda/machine.cu.h has the
 * bounds). */

/* ---- conversions ---- */
SC_DEVICE float sc_f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
SC_DEVICE uint32_t sc_bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
SC_DEVICE double sc_f64_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
SC_DEVICE uint64_t sc_bits_of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
/* A NaN becomes 0x7fff, as the machine's conversions of pairs have it. */
SC_DEVICE uint32_t sc_machine_bf16(float value)
{
    uint32_t bits = sc_bits_of_f32(value);
    return value != value ? 0x7fffu : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
SC_DEVICE uint32_t sc_machine_f16(float value)
{
    uint32_t bits = sc_bits_of_f32(value), sign = bits >> 16 & 0x8000u;
    float magnitude = fabsf(value);
    if (value != value)
        return 0x7fffu;
    if (magnitude >= 65520.0f)
        return sign | 0x7c00u;
    /* multiples of 2^-24, to nearest even; 2^-14 itself is the next exponent */
    if (magnitude < 0x1p-14f)
        return sign | (uint32_t)nearbyintf(magnitude * 0x1p24f);
    bits &= 0x7fffffffu;
    return sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13;
}
SC_DEVICE uint32_t sc_pack_bf16(float low, float high)
{
    return sc_machine_bf16(low) | sc_machine_bf16(high) << 16;
}
SC_DEVICE uint32_t sc_pack_f16(float low, float high)
{
    return sc_machine_f16(low) | sc_machine_f16(high) << 16;
}
SC_DEVICE float sc_f16_to_f32(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    if (rest >= 0x7c00u)
        return sc_f32_of_bits(sign | 0x7f800000u | rest << 13);
    return sc_f32_of_bits(sign | sc_bits_of_f32(ldexpf(sc_f32_of_bits(rest << 13), 112)));
}

/* ---- mathematics that the machine does itself ---- */
/* As far from the right value as a machine may be, by a lot that the value draws: whoever takes an
 * approximation for exact sees it. What is 0, infinite or NaN stays so. */
SC_DEVICE float sc_machine_near(float value, int ulps)
{
    uint32_t bits = sc_bits_of_f32(value), lot = bits * 0x9e3779b1u >> 16;
    if (!(fabsf(value) >= 0x1p-120f && fabsf(value) < 0x1p127f))
        return value;
    return sc_f32_of_bits(bits + lot % (2u * (uint32_t)ulps + 1u) - (uint32_t)ulps);
}
SC_DEVICE float sc_machine_flush(float value)
{
    return fabsf(value) < 0x1p-126f ? copysignf(0.0f, value) : value;
}
SC_DEVICE float sc_exp2_fast(float x)
{
    float result = sc_machine_flush(exp2f(x));
    return x == 0.0f ? result : sc_machine_near(result, 2);
}
/* The error beside 1 is one of the sum, not of what is left of it. */
SC_DEVICE float sc_log2_fast(float x)
{
    float result = log2f(x);
    return x > 0.5f && x < 2.0f ? sc_machine_near(result + 4.0f, 1) - 4.0f
                                : sc_machine_near(result, 2);
}
SC_DEVICE float sc_max_f32(float x, float y)
{
    return x != x || x > y ? x : y;
}
SC_DEVICE float sc_min_f32(float x, float y)
{
    return x != x || x < y ? x : y;
}
/* Of 2: what the machine divides by it is exact, as its table of reciprocals begins with one. */
SC_DEVICE bool sc_machine_is_power(float x)
{
    return (sc_bits_of_f32(x) & 0x7fffffu) == 0;
}
SC_DEVICE float sc_divide_f32(float x, float y)
{
    float result = sc_machine_flush(sc_machine_flush(x) / sc_machine_flush(y));
    return sc_machine_is_power(y) ? result : sc_machine_near(result, 2);
}
SC_DEVICE float sc_reciprocal_fast(float x)
{
    float result = sc_machine_flush(1.0f / sc_machine_flush(x));
    return sc_machine_is_power(x) ? result : sc_machine_near(result, 1);
}
SC_DEVICE float sc_sqrt_f32(float x)
{
    return sc_machine_near(sqrtf(x), 2);
}
SC_DEVICE float sc_rsqrt_f32(float x)
{
    return sc_machine_near((float)(1.0 / sqrt((double)x)), 2);
}
/* The formula of codegen/cuda/machine.cu.h. */
SC_DEVICE float sc_exp_f32(float x)
{
    const float t = x * 1.44269504f, rest = fmaf(t, -0.693147182f, x) + 0.00000762939453125f;
    return sc_exp2_fast(t) *
           (0.99999237060546875f + (rest > 0.0f ? rest < 1.0f ? rest : 1.0f : 0.0f));
}
