#include "support/vec.h"

void sc_vec_reserve_raw(sc_arena *arena, void **data, uint32_t count, uint32_t *capacity, uint32_t wanted, size_t element_size)
{
    if (wanted <= *capacity)
        return;
    if (wanted < count) /* 32 bits wrapped */
        arena->on_failure(arena->user);
    uint64_t doubled = (uint64_t)*capacity * 2;
    uint64_t next = doubled > wanted ? doubled : wanted;
    next = next < 8 ? 8 : next > UINT32_MAX ? UINT32_MAX : next;
    *data = sc_arena_grow(arena, *data, (size_t)*capacity * element_size, (size_t)next * element_size);
    *capacity = (uint32_t)next;
}
