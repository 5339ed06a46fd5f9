/* How fast this machine reads memory: the bound of everything that streams its weights. */
#ifndef SHARDC_RUNTIME_DRIVE_READ_SPEED_H
#define SHARDC_RUNTIME_DRIVE_READ_SPEED_H

#include <stdint.h>

enum { SC_READ_BYTES = 1 << 27 }; /* more than caches hold */

/* Memory to be read, written to once; NULL: there is none. Free it. */
uint64_t *sc_read_memory(void);
/* Seconds in which the calling thread's team reads SC_READ_BYTES of it, each thread from eight places at once. */
double sc_read_seconds(const uint64_t *memory);

#endif
