/* A row-major dense array of doubles: how values travel between files, commands and whatever runs a program. */
#ifndef SHARDC_SUPPORT_ARRAY_H
#define SHARDC_SUPPORT_ARRAY_H

#include <stdint.h>

enum { SC_ARRAY_MAX_RANK = 15 };

typedef struct sc_array {
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
    int64_t count; /* product of sizes */
    double *data;  /* malloc'd; NULL: absent */
} sc_array;

sc_array sc_array_new(uint32_t rank, const int64_t *sizes); /* zeros; data NULL when memory ran out or the size overflows */
void sc_array_free(sc_array *array);

#endif
