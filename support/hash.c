#include "support/hash.h"

#include <string.h>

uint64_t sc_hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    const unsigned char *p = bytes;
    uint64_t hash = seed ^ (length * 0x9e3779b97f4a7c15u);
    for (; length >= 8; length -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = sc_hash_mix(hash, word);
    }
    uint64_t tail = 0;
    memcpy(&tail, p, length);
    hash = sc_hash_mix(hash, tail);
    return hash ^ (hash >> 29);
}

uint64_t sc_fnv1a64(const void *bytes, size_t length)
{
    return sc_fnv1a64_more(14695981039346656037u, bytes, length);
}

uint64_t sc_fnv1a64_more(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

static struct sc_map_slot *find_slot(const sc_map *map, uint64_t key)
{
    uint32_t slot = (uint32_t)sc_hash_mix(key, 0x51ed270b) & (map->capacity - 1);
    while (map->slots[slot].used && map->slots[slot].key != key)
        slot = (slot + 1) & (map->capacity - 1);
    return &map->slots[slot];
}

uint32_t *sc_map_find(const sc_map *map, uint64_t key)
{
    if (map->capacity == 0)
        return NULL;
    struct sc_map_slot *slot = find_slot(map, key);
    return slot->used ? &slot->value : NULL;
}

static void grow(sc_map *map)
{
    struct sc_map_slot *old = map->slots;
    uint32_t old_capacity = map->capacity;
    map->capacity = old_capacity == 0 ? 16 : old_capacity * 2;
    map->slots = sc_arena_array(map->arena, map->capacity, sizeof *map->slots);
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i].used)
            *find_slot(map, old[i].key) = old[i];
    }
}

uint32_t *sc_map_insert(sc_map *map, uint64_t key, uint32_t value, bool *is_new)
{
    if (map->count * 2 >= map->capacity)
        grow(map);
    struct sc_map_slot *slot = find_slot(map, key);
    if (is_new != NULL)
        *is_new = !slot->used;
    if (!slot->used) {
        *slot = (struct sc_map_slot){.key = key, .value = value, .used = true};
        map->count++;
    }
    return &slot->value;
}
