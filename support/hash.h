/* Hashes of bytes, and a map from 64-bit keys to 32-bit values. sc_hash_bytes may change between
 * versions. sc_fnv1a64 is the published 64-bit FNV-1a (offset basis 14695981039346656037, prime
 * 1099511628211); initial parameter values depend on it. */
#ifndef SHARDC_SUPPORT_HASH_H
#define SHARDC_SUPPORT_HASH_H

#include <stdbool.h>

#include "support/arena.h"

uint64_t sc_hash_bytes(const void *bytes, size_t length, uint64_t seed);
uint64_t sc_fnv1a64(const void *bytes, size_t length);
/* Continues a hash with more bytes. */
uint64_t sc_fnv1a64_more(uint64_t hash, const void *bytes, size_t length);

static inline uint64_t sc_hash_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccdu;
    return x ^ (x >> 32);
}

/* Open addressing. A zeroed map with its arena set is empty. Any key is allowed. */
typedef struct sc_map {
    sc_arena *arena;
    struct sc_map_slot {
        uint64_t key;
        uint32_t value;
        bool used;
    } * slots;
    uint32_t count, capacity;
} sc_map;

/* Returns the value's address, or NULL. Valid until the next insertion. */
uint32_t *sc_map_find(const sc_map *map, uint64_t key);
/* Returns the value's address; inserts `value` if the key is new, and sets *is_new (may be
 * NULL). */
uint32_t *sc_map_insert(sc_map *map, uint64_t key, uint32_t value, bool *is_new);

#endif
