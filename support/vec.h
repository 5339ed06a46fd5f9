/* Growable arrays in an arena: `SC_VEC(T) v = {0}; *sc_vec_push(arena, &v) = x;`. Indices are 32
 * bits; elements start zeroed. */
#ifndef SHARDC_SUPPORT_VEC_H
#define SHARDC_SUPPORT_VEC_H

#include "support/arena.h"

#define SC_VEC(T)                                                                                  \
    struct {                                                                                       \
        T *data;                                                                                   \
        uint32_t count, capacity;                                                                  \
    }

/* Defined in arena.c. */
void sc_vec_reserve_raw(sc_arena *arena, void **data, uint32_t count, uint32_t *capacity,
                        uint32_t wanted, size_t element_size);

/* Reserves room for `extra` more elements. */
#define sc_vec_reserve(arena, v, extra)                                                            \
    sc_vec_reserve_raw((arena), (void **)&(v)->data, (v)->count, &(v)->capacity,                   \
                       (v)->count + (uint32_t)(extra), sizeof *(v)->data)

/* Appends one element (bytes unspecified if the slot was used before) and returns its address. */
#define sc_vec_push(arena, v) (sc_vec_reserve(arena, v, 1), &(v)->data[(v)->count++])

#endif
