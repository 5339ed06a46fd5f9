#include "support/array.h"

#include <stdlib.h>

sc_array sc_array_new(uint32_t rank, const int64_t *sizes)
{
    sc_array array = {.rank = rank, .count = 1};
    if (rank > SC_ARRAY_MAX_RANK)
        return array;
    for (uint32_t i = 0; i < rank; i++) {
        array.sizes[i] = sizes[i];
        if (sizes[i] < 1 || __builtin_mul_overflow(array.count, sizes[i], &array.count))
            return array;
    }
    if ((uint64_t)array.count <= SIZE_MAX / sizeof *array.data)
        array.data = calloc((size_t)array.count, sizeof *array.data);
    return array;
}

void sc_array_free(sc_array *array)
{
    free(array->data);
    array->data = NULL;
}
