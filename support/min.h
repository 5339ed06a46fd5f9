#ifndef SHARDC_SUPPORT_MIN_H
#define SHARDC_SUPPORT_MIN_H

#include <stdint.h>

static inline int64_t sc_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

#endif
