#include "runtime/tokenizer/vocabulary.h"

#include <string.h>

#include "support/hash.h"

static uint32_t slot_of(const sc_vocabulary *vocabulary, const char *content, size_t length)
{
    uint32_t slot = (uint32_t)sc_hash_bytes(content, length, 0) & (vocabulary->capacity - 1);
    while (vocabulary->slots[slot] != 0) {
        const sc_token *token = &vocabulary->tokens[vocabulary->slots[slot] - 1];
        if (token->length == length && memcmp(token->content, content, length) == 0)
            break;
        slot = (slot + 1) & (vocabulary->capacity - 1);
    }
    return slot;
}

uint32_t sc_vocabulary_find(const sc_vocabulary *vocabulary, const char *content, size_t length)
{
    if (vocabulary->capacity == 0 || length > vocabulary->longest)
        return SC_NONE;
    uint32_t found = vocabulary->slots[slot_of(vocabulary, content, length)];
    return found == 0 ? SC_NONE : found - 1;
}

static void grow_slots(sc_vocabulary *vocabulary)
{
    const uint32_t *old = vocabulary->slots;
    uint32_t old_capacity = vocabulary->capacity;
    vocabulary->capacity = old_capacity == 0 ? 64 : old_capacity * 2;
    vocabulary->slots =
        sc_arena_array(vocabulary->arena, vocabulary->capacity, sizeof *vocabulary->slots);
    for (uint32_t i = 0; i < old_capacity; i++) {
        if (old[i] != 0) {
            const sc_token *token = &vocabulary->tokens[old[i] - 1];
            vocabulary->slots[slot_of(vocabulary, token->content, token->length)] = old[i];
        }
    }
}

void sc_vocabulary_add(sc_vocabulary *vocabulary, const char *content, uint32_t length, uint32_t id)
{
    if (id >= vocabulary->tokens_capacity) {
        uint32_t wanted =
            id + 1 > vocabulary->tokens_capacity * 2 ? id + 1 : vocabulary->tokens_capacity * 2;
        vocabulary->tokens =
            sc_arena_grow(vocabulary->arena, vocabulary->tokens,
                          (size_t)vocabulary->tokens_capacity * sizeof *vocabulary->tokens,
                          (size_t)wanted * sizeof *vocabulary->tokens);
        vocabulary->tokens_capacity = wanted;
    }
    if (vocabulary->count * 2 >= vocabulary->capacity)
        grow_slots(vocabulary);
    vocabulary->tokens[id] = (sc_token){content, length};
    vocabulary->slots[slot_of(vocabulary, content, length)] = id + 1;
    vocabulary->count++;
    vocabulary->size = id >= vocabulary->size ? id + 1 : vocabulary->size;
    vocabulary->longest = length > vocabulary->longest ? length : vocabulary->longest;
}
