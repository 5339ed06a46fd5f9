#include "support/intern.h"

#include <stdio.h>
#include <string.h>

#include "support/hash.h"
#include "support/number.h"

static void grow_slots(sc_interner *interner, uint32_t slot_count)
{
    interner->slots = sc_arena_array(interner->arena, slot_count, sizeof *interner->slots);
    interner->slot_count = slot_count;
    for (uint32_t sym = 1; sym < interner->count; sym++) {
        uint32_t slot = (uint32_t)interner->hashes[sym] & (slot_count - 1);
        while (interner->slots[slot] != 0)
            slot = (slot + 1) & (slot_count - 1);
        interner->slots[slot] = sym;
    }
}

static void grow_symbols(sc_interner *interner, uint32_t capacity)
{
    const uint32_t old = interner->capacity;
    interner->texts = sc_arena_grow(interner->arena, interner->texts, old * sizeof *interner->texts,
                                    capacity * sizeof *interner->texts);
    interner->lengths =
        sc_arena_grow(interner->arena, interner->lengths, old * sizeof *interner->lengths,
                      capacity * sizeof *interner->lengths);
    interner->hashes =
        sc_arena_grow(interner->arena, interner->hashes, old * sizeof *interner->hashes,
                      capacity * sizeof *interner->hashes);
    interner->capacity = capacity;
}

void sc_interner_init(sc_interner *interner, sc_arena *arena)
{
    memset(interner, 0, sizeof *interner);
    interner->arena = arena;
    grow_symbols(interner, 256);
    interner->texts[0] = "";
    interner->count = 1;
    grow_slots(interner, 1024);
}

sc_sym sc_intern(sc_interner *interner, const char *text, size_t length)
{
    if (length == 0)
        return 0;
    uint64_t hash = sc_hash_bytes(text, length, 0);
    uint32_t slot = (uint32_t)hash & (interner->slot_count - 1);
    for (uint32_t sym; (sym = interner->slots[slot]) != 0;
         slot = (slot + 1) & (interner->slot_count - 1)) {
        if (interner->hashes[sym] == hash && interner->lengths[sym] == length &&
            memcmp(interner->texts[sym], text, length) == 0)
            return sym;
    }
    if (interner->count == interner->capacity)
        grow_symbols(interner, interner->capacity * 2);
    uint32_t sym = interner->count++;
    interner->texts[sym] = sc_arena_copy_text(interner->arena, text, length);
    interner->lengths[sym] = (uint32_t)length;
    interner->hashes[sym] = hash;
    if (interner->count * 2 > interner->slot_count)
        grow_slots(interner, interner->slot_count * 2);
    else
        interner->slots[slot] = sym;
    return sym;
}

sc_sym sc_intern_text(sc_interner *interner, const char *text)
{
    return sc_intern(interner, text, strlen(text));
}

sc_sym sc_intern_printf(sc_interner *interner, const char *format, ...)
{
    char buffer[512];
    va_list args;
    va_start(args, format);
    int length = sc_vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (length < (int)sizeof buffer)
        return sc_intern(interner, buffer, length < 0 ? 0 : (size_t)length);
    va_start(args, format);
    char *text = sc_arena_vprintf(interner->arena, format, args);
    va_end(args);
    return sc_intern_text(interner, text);
}

const char *sc_sym_text(const sc_interner *interner, sc_sym sym)
{
    return interner->texts[sym];
}
