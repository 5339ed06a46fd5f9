/* Element sizes, names, and conversions. */
#include "runtime/files/element.h"

#include <math.h>
#include <string.h>

#include "support/float16.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "stored tensors are little-endian and are used in place");

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

#define LOAD(type)                                                                                 \
    {                                                                                              \
        type value;                                                                                \
        memcpy(&value, at, sizeof value);                                                          \
        return (double)value;                                                                      \
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
        return (double)sc_f32_of_bf16(half);
    case SC_ELEMENT_F16:
        memcpy(&half, at, sizeof half);
        return (double)sc_f32_of_f16(half);
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

/* In two's complement the low bytes of the 64-bit value are the value of every narrower type. */
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
        half = sc_bf16_of_f64(value);
        memcpy(at, &half, sizeof half);
        return true;
    case SC_ELEMENT_F16:
        half = sc_f16_of_f64(value);
        memcpy(at, &half, sizeof half);
        return true;
    default:
        if (!(value >= row->low && value < row->high) || value != trunc(value))
            return false;
        store_integer(at, row->size, value);
        return true;
    }
}

/* ---- arrays ---- */

/* Loops over elements at any alignment, which compilers vectorize. */
#define CONVERT(name, source_type, target_type, expression)                                        \
    static void name(const char *from, char *to, uint64_t count)                                   \
    {                                                                                              \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            source_type value;                                                                     \
            memcpy(&value, from + i * sizeof value, sizeof value);                                 \
            target_type result = expression;                                                       \
            memcpy(to + i * sizeof result, &result, sizeof result);                                \
        }                                                                                          \
    }

CONVERT(f32_of_bf16, uint16_t, float, sc_f32_of_bf16(value))
CONVERT(f32_of_f16, uint16_t, float, sc_f32_of_f16(value))
CONVERT(f32_of_f64, double, float, (float)value)
CONVERT(bf16_of_f32, float, uint16_t, sc_bf16_of_f32(value))
CONVERT(f16_of_f32, float, uint16_t, sc_f16_of_f32(value))
CONVERT(f64_of_f32, float, double, (double)value)
CONVERT(f64_of_bf16, uint16_t, double, (double)sc_f32_of_bf16(value))

/* The frequent pairs; sc_element_load and sc_element_store do the others. */
static const struct {
    sc_element from, to;
    void (*convert)(const char *from, char *to, uint64_t count);
} pairs[] = {
    {SC_ELEMENT_BF16, SC_ELEMENT_F32, f32_of_bf16}, {SC_ELEMENT_F16, SC_ELEMENT_F32, f32_of_f16},
    {SC_ELEMENT_F64, SC_ELEMENT_F32, f32_of_f64},   {SC_ELEMENT_F32, SC_ELEMENT_BF16, bf16_of_f32},
    {SC_ELEMENT_F32, SC_ELEMENT_F16, f16_of_f32},   {SC_ELEMENT_F32, SC_ELEMENT_F64, f64_of_f32},
    {SC_ELEMENT_BF16, SC_ELEMENT_F64, f64_of_bf16},
};

bool sc_element_convert(sc_element from, const void *source, sc_element to, void *destination,
                        uint64_t count)
{
    if (from == to) {
        memcpy(destination, source, count * rows[to].size);
        return true;
    }
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (pairs[i].from == from && pairs[i].to == to) {
            pairs[i].convert(source, destination, count);
            return true;
        }
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!sc_element_store(to, destination, i, sc_element_load(from, source, i)))
            return false;
    }
    return true;
}
