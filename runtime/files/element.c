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
