/* Rounding to a dtype, parameterised by its row in dtypes.def. */
#include <math.h>
#include <string.h>

#include "ir/ops/eval.h"

/* To nearest, ties to even, on the bits of the double: half a unit is added to the bits that are
 * cut off; a carry into the exponent is correct. Below the smallest normal the unit is fixed. */
static double round_float(const sc_dtype_row *dtype, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent == 1024 || value == 0)
        return value;
    if (exponent < dtype->low) {
        double unit = ldexp(1, dtype->low - dtype->significand + 1);
        return copysign(nearbyint(value / unit) * unit, value);
    }
    int cut = 53 - dtype->significand;
    bits += (((uint64_t)1 << cut >> 1) - 1) + (bits >> cut & 1);
    bits &= ~(((uint64_t)1 << cut) - 1);
    memcpy(&value, &bits, sizeof value);
    return fabs(value) >= ldexp(1, dtype->high + 1) ? copysign(INFINITY, value) : value;
}

/* Truncates; i32 and u8 wrap; NaN and infinities give 0. i64 is exact only up to 2^53. */
static double round_integer(const sc_dtype_row *dtype, double value)
{
    if (!isfinite(value))
        return 0;
    double whole = trunc(value) + 0.0; /* no negative zero */
    if (dtype->bytes == 8)
        return whole;
    double range = ldexp(1, 8 * dtype->bytes), low = dtype->bytes == 1 ? 0 : -range / 2;
    return whole - floor((whole - low) / range) * range;
}

double sc_round_to(sc_dtype dtype, double value)
{
    const sc_dtype_row *row = &sc_dtypes[dtype];
    if (row->kind == SC_DTYPE_BOOL)
        return value != 0;
    if (row->kind == SC_DTYPE_INT)
        return round_integer(row, value);
    return row->significand == 53 ? value : round_float(row, value);
}

void sc_round_array(sc_dtype dtype, double *data, int64_t count)
{
    if (dtype == SC_DTYPE_f64)
        return;
    if (dtype == SC_DTYPE_f32) {
        for (int64_t i = 0; i < count; i++)
            data[i] = (double)(float)data[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        data[i] = sc_round_to(dtype, data[i]);
}
