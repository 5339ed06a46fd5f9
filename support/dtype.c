#include "support/dtype.h"

#include <string.h>

const sc_dtype_row sc_dtypes[SC_DTYPE_COUNT] = {
#define DTYPE(name, bytes, kind, bits, low, high) {#name, bytes, SC_DTYPE_##kind, bits, low, high},
#include "support/dtypes.def"
#undef DTYPE
};

sc_dtype sc_dtype_find(const char *name)
{
    int i = 0;
    while (i < SC_DTYPE_COUNT && strcmp(sc_dtypes[i].name, name) != 0)
        i++;
    return (sc_dtype)i;
}
