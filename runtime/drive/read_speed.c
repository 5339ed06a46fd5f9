/* Measures memory read bandwidth. */
#define _DEFAULT_SOURCE /* madvise */
#include "runtime/drive/read_speed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "runtime/drive/train_log.h"
#include "support/clock.h"

enum { HUGE_PAGE = 1 << 21 };

/* Uses huge pages, as a session's arena does. */
uint64_t *sc_read_memory(void)
{
    uint64_t *memory = aligned_alloc(HUGE_PAGE, SC_READ_BYTES);
    if (memory == NULL)
        return NULL;
    (void)madvise(memory, SC_READ_BYTES, MADV_HUGEPAGE);
    memset(memory, 1, SC_READ_BYTES);
    return memory;
}

double sc_read_seconds(const uint64_t *memory)
{
    enum { STREAM = 4096, COUNT = SC_READ_BYTES / 8 };
    uint64_t total = 0;
    double start = sc_seconds();
#pragma omp parallel for reduction(+ : total) schedule(dynamic)
    for (int64_t block = 0; block < COUNT; block += 8 * STREAM) {
        for (int64_t i = block; i < block + STREAM; i++)
            total += memory[i] + memory[i + STREAM] + memory[i + 2 * STREAM] +
                     memory[i + 3 * STREAM] + memory[i + 4 * STREAM] + memory[i + 5 * STREAM] +
                     memory[i + 6 * STREAM] + memory[i + 7 * STREAM];
    }
    return total == 0 ? 0 : sc_seconds() - start;
}
