/* What a failed check of a kernel reports: its number and a value, as one integer. */
#ifndef SHARDC_PROGRAM_FAILURE_H
#define SHARDC_PROGRAM_FAILURE_H

#include "program/format.h"

/* (1 + check) << 48 | the low 48 bits of the value. Comparing these as integers orders failures. */
static inline int64_t sc_image_failure(uint32_t check, int64_t value)
{
    const int64_t mask = ((int64_t)1 << SC_IMAGE_VALUE_BITS) - 1;
    return ((int64_t)check + 1) << SC_IMAGE_VALUE_BITS | (value & mask);
}

static inline uint32_t sc_image_failed_check(int64_t failure)
{
    return (uint32_t)(failure >> SC_IMAGE_VALUE_BITS) - 1;
}

static inline int64_t sc_image_failed_value(int64_t failure)
{
    const int64_t half = (int64_t)1 << (SC_IMAGE_VALUE_BITS - 1);
    return (failure & (2 * half - 1)) - ((failure & half) != 0 ? 2 * half : 0);
}

#endif
