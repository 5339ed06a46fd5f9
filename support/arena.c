#include "support/vec.h"

#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/number.h"

enum { CHUNK_SIZE = 1 << 18 };

struct sc_arena_chunk {
    sc_arena_chunk *older;
    size_t size;
    alignas(max_align_t) char data[];
};

static size_t align_up(size_t size)
{
    const size_t unit = alignof(max_align_t);
    return (size + unit - 1) / unit * unit;
}

void sc_arena_init(sc_arena *arena, void (*on_failure)(void *), void *user)
{
    memset(arena, 0, sizeof *arena);
    arena->on_failure = on_failure;
    arena->user = user;
}

void sc_arena_free(sc_arena *arena)
{
    for (sc_arena_chunk *chunk = arena->chunks; chunk != NULL;) {
        sc_arena_chunk *older = chunk->older;
        free(chunk);
        chunk = older;
    }
    arena->chunks = NULL;
    arena->next = arena->end = NULL;
    arena->total = 0;
}

_Noreturn void sc_arena_fail(sc_arena *arena)
{
    arena->on_failure(arena->user);
    abort(); /* on_failure must not return */
}

static void add_chunk(sc_arena *arena, size_t size)
{
    size_t wanted = size > CHUNK_SIZE ? size : CHUNK_SIZE;
    if (wanted > SIZE_MAX - sizeof(sc_arena_chunk))
        sc_arena_fail(arena);
    sc_arena_chunk *chunk = calloc(1, sizeof *chunk + wanted);
    if (chunk == NULL)
        sc_arena_fail(arena);
    chunk->older = arena->chunks;
    chunk->size = wanted;
    arena->chunks = chunk;
    arena->next = chunk->data;
    arena->end = chunk->data + wanted;
    arena->total += wanted;
}

void *sc_arena_alloc(sc_arena *arena, size_t size)
{
    arena->allocations++;
    if (arena->allocations == arena->fail_at || size > SIZE_MAX / 2)
        sc_arena_fail(arena);
    size = align_up(size == 0 ? 1 : size);
    if ((size_t)(arena->end - arena->next) < size)
        add_chunk(arena, size);
    void *block = arena->next;
    arena->next += size;
    return block;
}

void *sc_arena_array(sc_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / 2 / size)
        sc_arena_fail(arena);
    return sc_arena_alloc(arena, count * size);
}

void *sc_arena_grow(sc_arena *arena, void *block, size_t old_size, size_t new_size)
{
    if (block != NULL && (char *)block + align_up(old_size) == arena->next &&
        new_size >= old_size && new_size <= SIZE_MAX / 2) {
        size_t more = align_up(new_size) - align_up(old_size);
        if ((size_t)(arena->end - arena->next) >= more) {
            arena->next += more;
            return block;
        }
    }
    void *copy = sc_arena_alloc(arena, new_size);
    if (block != NULL)
        memcpy(copy, block, old_size);
    return copy;
}

sc_arena_mark sc_arena_mark_here(const sc_arena *arena)
{
    return (sc_arena_mark){arena->chunks, arena->next};
}

void sc_arena_release(sc_arena *arena, sc_arena_mark mark)
{
    /* Bytes of the marked chunk that may have been used: cleared, so that later allocations are
     * zero. */
    char *used = arena->chunks == mark.chunk || mark.chunk == NULL
                     ? arena->next
                     : mark.chunk->data + mark.chunk->size;
    while (arena->chunks != mark.chunk) {
        sc_arena_chunk *older = arena->chunks->older;
        arena->total -= arena->chunks->size;
        free(arena->chunks);
        arena->chunks = older;
    }
    arena->next = mark.next;
    arena->end = mark.chunk == NULL ? NULL : mark.chunk->data + mark.chunk->size;
    if (mark.chunk != NULL)
        memset(mark.next, 0, (size_t)(used - mark.next));
}

char *sc_arena_copy_text(sc_arena *arena, const char *text, size_t length)
{
    char *copy = sc_arena_alloc(arena, length + 1);
    memcpy(copy, text, length);
    return copy;
}

char *sc_arena_vprintf(sc_arena *arena, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int length = sc_vsnprintf(NULL, 0, format, args);
    char *text = sc_arena_alloc(arena, (size_t)(length < 0 ? 0 : length) + 1);
    if (length > 0)
        sc_vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

char *sc_arena_printf(sc_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sc_arena_vprintf(arena, format, args);
    va_end(args);
    return text;
}

void sc_vec_reserve_raw(sc_arena *arena, void **data, uint32_t count, uint32_t *capacity,
                        uint32_t wanted, size_t element_size)
{
    if (wanted <= *capacity)
        return;
    if (wanted < count) /* 32-bit overflow */
        arena->on_failure(arena->user);
    uint64_t doubled = (uint64_t)*capacity * 2;
    uint64_t next = doubled > wanted ? doubled : wanted;
    next = next < 8 ? 8 : next > UINT32_MAX ? UINT32_MAX : next;
    *data =
        sc_arena_grow(arena, *data, (size_t)*capacity * element_size, (size_t)next * element_size);
    *capacity = (uint32_t)next;
}
