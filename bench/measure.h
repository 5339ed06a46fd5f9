/* What measurements share: clocks, medians, and arrays in huge pages, as the arena of a session has
 * them. The including file defines _GNU_SOURCE for madvise. */
#ifndef SHARDC_BENCH_MEASURE_H
#define SHARDC_BENCH_MEASURE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static inline double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts the values. */
static inline double median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, by_size);
    return values[count / 2];
}

/* The bytes of whole huge pages that hold `bytes`. */
static inline size_t room_bytes(int64_t bytes)
{
    const size_t huge_page = 1 << 21;
    return ((size_t)bytes + huge_page) / huge_page * huge_page;
}

/* For free(); ends the program if there is no memory. */
static inline void *room(int64_t bytes)
{
    const size_t size = room_bytes(bytes);
    void *data = aligned_alloc(1 << 21, size);
    if (data == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    (void)madvise(data, size, MADV_HUGEPAGE);
    return data;
}

#endif
