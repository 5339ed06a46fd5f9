/* A dense row-major array of doubles: exchanges values between files, commands and executors. */
#ifndef SHARDC_SUPPORT_ARRAY_H
#define SHARDC_SUPPORT_ARRAY_H

#include <stdint.h>

enum { SC_ARRAY_MAX_RANK = 15 };

typedef struct sc_array {
    uint32_t rank;
    int64_t sizes[SC_ARRAY_MAX_RANK];
    int64_t count; /* product of sizes */
    double *data;  /* allocated with malloc; NULL: absent */
} sc_array;

/* returns zeros; data is NULL if memory runs out or the size overflows */
sc_array sc_array_new(uint32_t rank, const int64_t *sizes);
void sc_array_free(sc_array *array);

#endif
