/* Floats: float_forms.def's rows. */
#include <math.h>

#include "support/float16.h"
#include "test/ptx/lanes.h"

/* ---- results ---- */

static inline float f(float x)
{
    return x != x ? sc_f32_of_bits(0x7fffffff) : x;
}

static inline double d64(double x)
{
    const uint64_t bits = 0x7fffffffffffffffu;
    double nan;
    memcpy(&nan, &bits, sizeof nan);
    return x != x ? nan : x;
}

/* A subnormal becomes a zero of its sign. */
static inline float flush(float x)
{
    return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

/* The one that is a number, if one is; 0 is larger than -0. */
static inline float larger(float a, float b)
{
    float r = a > b || (a == b && !signbit(a)) ? a : b;
    return b != b ? a : r;
}

static inline double larger64(double a, double b)
{
    double r = a > b || (a == b && !signbit(a)) ? a : b;
    return b != b ? a : r;
}

/* Saturates; NaN becomes 0. */
static inline int64_t within(double x, double least, double most)
{
    return x != x ? 0 : (int64_t)(x < least ? least : x > most ? most : x);
}

static inline int64_t within64(double x)
{
    return x != x ? 0 : x >= 0x1p63 ? INT64_MAX : x < -0x1p63 ? INT64_MIN : (int64_t)x;
}

static inline uint64_t within_unsigned(double x)
{
    return x != x || x <= 0 ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

static inline uint16_t half(float x)
{
    return x != x ? 0x7fff : sc_f16_of_f32(x);
}

static inline uint16_t brain(float x)
{
    return x != x ? 0x7fff : sc_bf16_of_f32(x);
}

/* ---- approximations ---- */

/* -1, 0, 1: the way in which this one is off. The same operand is always off in the same way. */
static inline int way(const sc_ptx_warp *w, float operand)
{
    uint32_t bits = sc_bits_of_f32(operand);
    switch (w->b->errors) {
    case SC_PTX_ABOVE:
        return 1;
    case SC_PTX_BELOW:
        return -1;
    case SC_PTX_EITHER:
        bits = (bits ^ bits >> 16) * 0x45d9f3bu;
        bits = (bits ^ bits >> 16) * 0x45d9f3bu;
        return (bits >> 16 & 1) != 0 ? 1 : -1;
    default:
        return 0;
    }
}

/* Off by so many ulps of the correctly rounded result, or by less than `part` of the exact one:
 * half an ulp, at most 2^-24 of it, is left for rounding. A power of 2 is what it is, although the
 * PTX ISA does not say so: libdevice's exp, tanh and erf of f64 take ex2.approx of whole numbers
 * for exact. */
static inline float off(const sc_ptx_warp *w, double exact, int ulps, double part, float operand)
{
    int sign = way(w, operand);
    float r = f((float)exact);
    bool is_power = exact == (double)r && (sc_bits_of_f32(r) & 0x7fffff) == 0;
    if (sign == 0 || is_power || isinf(exact) || exact != exact || isinf(r))
        return r;
    if (part > 0)
        return (float)(exact * (1 + sign * (part - 0x1p-24)));
    uint32_t bits = sc_bits_of_f32(r);
    bool grows = (sign > 0) == (exact > 0);
    if ((bits & 0x7fffffff) > 2)
        bits = grows ? bits + (uint32_t)ulps : bits - (uint32_t)ulps;
    return sc_f32_of_bits(bits);
}

/* lg2: by 2^-22 where the operand is in 0.5 .. 2, beyond by 2^-22 of the result. */
static inline float off_log(const sc_ptx_warp *w, double exact, float operand)
{
    int sign = way(w, operand);
    if (operand < 0.5f || operand > 2 || isinf(exact) || exact != exact)
        return off(w, exact, 0, 0x1p-22, operand);
    return f((float)(exact + sign * (0x1p-22 - 0x1p-24)));
}

static inline uint64_t bits64(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double of_bits64(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* PTX ISA, "rcp.approx.ftz.f64": a gross approximation, from the upper halves of operands to those
 * of results; subnormal ones are zeros. */
static inline double high_half(double x)
{
    return of_bits64(fabs(x) < 0x1p-1022 ? bits64(x) & (uint64_t)1 << 63
                                         : bits64(x) & 0xffffffff00000000u);
}

static inline double gross(const sc_ptx_warp *w, double exact)
{
    if (exact != exact)
        return d64(exact);
    uint64_t bits = bits64(high_half(exact));
    int sign = isinf(exact) || (bits << 1) == 0 ? 0 : way(w, (float)exact);
    return of_bits64(bits + ((uint64_t)(int64_t)sign << 32));
}

#define FORM1  SC_PTX_FORM1
#define FORM2  SC_PTX_FORM2
#define FORM3  SC_PTX_FORM3
#define SELECT SC_PTX_SELECT
#include "test/ptx/float_forms.def"
#undef FORM1
#undef FORM2
#undef FORM3
#undef SELECT

#define FORM1  SC_PTX_ROW1
#define FORM2  SC_PTX_ROW2
#define FORM3  SC_PTX_ROW3
#define SELECT SC_PTX_SELECT_ROW
const sc_ptx_form sc_ptx_float_forms[] = {
#include "test/ptx/float_forms.def"
};
const uint32_t sc_ptx_float_form_count = sizeof sc_ptx_float_forms / sizeof *sc_ptx_float_forms;
