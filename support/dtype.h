/* Element types. The language, the compiler and the runtime share these numbers
 * (support/dtypes.def). */
#ifndef SHARDC_SUPPORT_DTYPE_H
#define SHARDC_SUPPORT_DTYPE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sc_dtype {
#define DTYPE(name, bytes, kind, bits, low, high) SC_DTYPE_##name,
#include "support/dtypes.def"
#undef DTYPE
    SC_DTYPE_COUNT
} sc_dtype;

typedef enum sc_dtype_kind { SC_DTYPE_FLOAT, SC_DTYPE_INT, SC_DTYPE_BOOL } sc_dtype_kind;

typedef struct sc_dtype_row {
    const char *name;
    uint8_t bytes;
    sc_dtype_kind kind;
    int16_t significand, low, high;
} sc_dtype_row;

extern const sc_dtype_row sc_dtypes[SC_DTYPE_COUNT];
/* Returns SC_DTYPE_COUNT if no dtype has this name. */
sc_dtype sc_dtype_find(const char *name);
static inline bool sc_dtype_is_float(sc_dtype dtype)
{
    return sc_dtypes[dtype].kind == SC_DTYPE_FLOAT;
}
/* True if `to` is wider than `from` and has all its values; false between bf16 and f16. */
static inline bool sc_dtype_widens(sc_dtype from, sc_dtype to)
{
    return sc_dtypes[from].kind == sc_dtypes[to].kind &&
           sc_dtypes[from].bytes < sc_dtypes[to].bytes;
}

#endif
