/* A monotonic clock. */
#ifndef SHARDC_SUPPORT_CLOCK_H
#define SHARDC_SUPPORT_CLOCK_H

#include <stdint.h>

double sc_seconds(void);
uint64_t sc_milliseconds(void);

#endif
