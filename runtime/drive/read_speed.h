/* Measures this machine's memory read bandwidth, the bound of everything that streams weights. */
#ifndef SHARDC_RUNTIME_DRIVE_READ_SPEED_H
#define SHARDC_RUNTIME_DRIVE_READ_SPEED_H

#include <stdint.h>

enum { SC_READ_BYTES = 1 << 27 }; /* larger than the caches */

/* Allocates memory to read and writes it once; NULL: out of memory. The caller frees it. */
uint64_t *sc_read_memory(void);
/* Returns the seconds in which the calling thread's team reads SC_READ_BYTES of it, each thread in
 * eight streams. */
double sc_read_seconds(const uint64_t *memory);

#endif
