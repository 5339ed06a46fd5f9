/* Packing: places intervals of time above a common ground so that no two that overlap in time overlap in space. */
#ifndef SHARDC_CODEGEN_MEMORY_PACK_H
#define SHARDC_CODEGEN_MEMORY_PACK_H

#include <stdbool.h>

#include "support/arena.h"

typedef struct sc_memory_item {
    uint32_t first, last; /* both alive */
    int64_t bytes;
    int64_t offset; /* from the ground: found by sc_memory_pack */
} sc_memory_item;

/* The most bytes alive at once, and the first moment when they are; `times`: 1 more than the last moment. */
int64_t sc_memory_bound(sc_arena *arena, const sc_memory_item *items, uint32_t count, uint32_t times, uint32_t *out_when);

/* Fills the offsets and gives the height reached, at least `bound` (sc_memory_bound's). Sizes are multiples of one unit, offsets too. */
int64_t sc_memory_pack(sc_arena *arena, sc_memory_item *items, uint32_t count, uint32_t times, int64_t bound);

enum { SC_MEMORY_SIZE_CLASSES = 1024 };
/* Grows with the size; sizes of one class differ by less than a sixteenth. */
uint32_t sc_memory_size_class(int64_t bytes);

/* One way of doing it, in linear time: offsets by item, and the height. */
int64_t sc_memory_sweep(sc_arena *arena, const sc_memory_item *items, uint32_t count, uint32_t times, bool backwards, int64_t *offsets);

#endif
