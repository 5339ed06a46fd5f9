#include "support/float16.h"

#include <math.h>

/* Rounds to the nearest value of a float format with `fraction` stored bits, smallest normal
 * 2^least and largest finite value `max`. Scaling by a power of two is exact here, so rint is the
 * only rounding. */
static double round_to(double value, int fraction, int least, double max)
{
    if (!isfinite(value) || value == 0)
        return value;
    int exponent = ilogb(value);
    int unit = (exponent < least ? least : exponent) - fraction;
    double rounded = ldexp(rint(ldexp(value, -unit)), unit);
    return fabs(rounded) > max ? copysign((double)INFINITY, value) : rounded;
}

uint16_t sc_f16_of_f64(double value)
{
    double rounded = round_to(value, 10, -14, 65504.0);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(rounded);
    if (isnan(value))
        return sign | 0x7e00;
    if (isinf(rounded))
        return sign | 0x7c00;
    if (magnitude < 0x1p-14)
        return (uint16_t)(sign | (unsigned)ldexp(magnitude, 24));
    int exponent = ilogb(magnitude);
    unsigned fraction = (unsigned)ldexp(magnitude, 10 - exponent) & 1023u;
    return (uint16_t)(sign | (unsigned)(exponent + 15) << 10 | fraction);
}

uint16_t sc_bf16_of_f64(double value)
{
    float rounded = (float)round_to(value, 7, -126, 0x1.fep127);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}
