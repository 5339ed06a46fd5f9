#include "runtime/files/element.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "stored tensors are little-endian and are used in place");

typedef struct element_row {
    const char *name;
    size_t size;
    double low, high;
} element_row;

static const element_row rows[SC_ELEMENT_COUNT] = {
#define ELEMENT(name, size, low, high) {#name, size, low, high},
#include "runtime/files/element.def"
#undef ELEMENT
};

const char *sc_element_name(sc_element element)
{
    return rows[element].name;
}

size_t sc_element_size(sc_element element)
{
    return rows[element].size;
}

bool sc_element_from_name(const char *name, sc_element *out_element)
{
    for (int i = 0; i < SC_ELEMENT_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *out_element = (sc_element)i;
            return true;
        }
    }
    return false;
}

static double bf16_to_double(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static double f16_to_double(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude;
    if (exponent == 31)
        magnitude = fraction == 0 ? (double)INFINITY : (double)NAN;
    else if (exponent == 0)
        magnitude = ldexp(fraction, -24);
    else
        magnitude = ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -magnitude : magnitude;
}

#define LOAD(type)                                                                                                                         \
    {                                                                                                                                      \
        type value;                                                                                                                        \
        memcpy(&value, at, sizeof value);                                                                                                  \
        return (double)value;                                                                                                              \
    }

double sc_element_load(sc_element element, const void *array, uint64_t index)
{
    const char *at = (const char *)array + index * rows[element].size;
    uint16_t half;
    switch (element) {
    case SC_ELEMENT_F64:
        LOAD(double)
    case SC_ELEMENT_F32:
        LOAD(float)
    case SC_ELEMENT_BF16:
        memcpy(&half, at, sizeof half);
        return bf16_to_double(half);
    case SC_ELEMENT_F16:
        memcpy(&half, at, sizeof half);
        return f16_to_double(half);
    case SC_ELEMENT_I64:
        LOAD(int64_t)
    case SC_ELEMENT_I32:
        LOAD(int32_t)
    case SC_ELEMENT_I16:
        LOAD(int16_t)
    case SC_ELEMENT_I8:
        LOAD(int8_t)
    case SC_ELEMENT_U64:
        LOAD(uint64_t)
    case SC_ELEMENT_U32:
        LOAD(uint32_t)
    case SC_ELEMENT_U16:
        LOAD(uint16_t)
    case SC_ELEMENT_U8:
        LOAD(uint8_t)
    case SC_ELEMENT_BOOL:
        return *at != 0;
    case SC_ELEMENT_COUNT:
        break;
    }
    return (double)NAN;
}

/* The nearest value of a float format with `fraction` stored bits, least normal 2^least and largest finite value `max`. Scaling by a
 * power of two is exact here, so the one rounding is rint's. */
static double round_to(double value, int fraction, int least, double max)
{
    if (!isfinite(value) || value == 0)
        return value;
    int exponent = ilogb(value);
    int unit = (exponent < least ? least : exponent) - fraction;
    double rounded = ldexp(rint(ldexp(value, -unit)), unit);
    return fabs(rounded) > max ? copysign((double)INFINITY, value) : rounded;
}

static uint16_t f16_bits(double value)
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

static uint16_t bf16_bits(double value)
{
    float rounded = (float)round_to(value, 7, -126, 0x1.fep127);
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Two's complement makes the low bytes of the 64-bit value right for every narrower integer. */
static void store_integer(void *at, size_t size, double value)
{
    uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
    memcpy(at, &bits, size);
}

bool sc_element_store(sc_element element, void *array, uint64_t index, double value)
{
    const element_row *row = &rows[element];
    char *at = (char *)array + index * row->size;
    float narrow;
    uint16_t half;
    switch (element) {
    case SC_ELEMENT_F64:
        memcpy(at, &value, sizeof value);
        return true;
    case SC_ELEMENT_F32:
        narrow = (float)value;
        memcpy(at, &narrow, sizeof narrow);
        return true;
    case SC_ELEMENT_BF16:
        half = bf16_bits(value);
        memcpy(at, &half, sizeof half);
        return true;
    case SC_ELEMENT_F16:
        half = f16_bits(value);
        memcpy(at, &half, sizeof half);
        return true;
    default:
        if (!(value >= row->low && value < row->high) || value != trunc(value))
            return false;
        store_integer(at, row->size, value);
        return true;
    }
}
