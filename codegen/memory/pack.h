/* Packing: assigns offsets to items with live ranges so that no two items overlap in both time and
 * space. */
#ifndef SHARDC_CODEGEN_MEMORY_PACK_H
#define SHARDC_CODEGEN_MEMORY_PACK_H

#include <stdbool.h>

#include "support/arena.h"

typedef struct sc_memory_item {
    uint32_t first, last; /* live range, both ends included */
    int64_t bytes;
    int64_t offset; /* set by sc_memory_pack */
} sc_memory_item;

/* Returns the most bytes live at once and the first time when they are; `times`: 1 more than the
 * last time. */
int64_t sc_memory_bound(sc_arena *arena, const sc_memory_item *items, uint32_t count,
                        uint32_t times, uint32_t *out_when);

/* Sets the offsets and returns the total height, at least `bound` (from sc_memory_bound). Sizes and
 * offsets are multiples of one unit. */
int64_t sc_memory_pack(sc_arena *arena, sc_memory_item *items, uint32_t count, uint32_t times,
                       int64_t bound);

enum { SC_MEMORY_SIZE_CLASSES = 1024 };
/* Grows with the size; sizes of one class differ by less than a sixteenth. */
uint32_t sc_memory_size_class(int64_t bytes);

/* One packing heuristic, in linear time: sets `offsets` by item and returns the height. */
int64_t sc_memory_sweep(sc_arena *arena, const sc_memory_item *items, uint32_t count,
                        uint32_t times, bool backwards, int64_t *offsets);

#endif
