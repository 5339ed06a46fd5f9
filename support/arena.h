/* Arena: bump allocation that is freed all at once. Everything a compile allocates lives in one arena, so that running out of
 * memory (or an injected failure) can unwind to the API call with nothing leaked: no allocation here ever returns NULL, it calls
 * `on_failure`, which must not return (the context's jumps to the API boundary). Not thread-safe; one arena a compile. */
#ifndef SHARDC_SUPPORT_ARENA_H
#define SHARDC_SUPPORT_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_arena_chunk sc_arena_chunk;

typedef struct sc_arena {
    sc_arena_chunk *chunks;         /* newest first */
    char *next, *end;               /* free part of the newest chunk */
    size_t total;                   /* bytes asked from the system, for --memory reports and limits */
    uint64_t allocations;           /* chunks and requests so far; the counter that failure injection looks at */
    uint64_t fail_at;               /* 0, or the number of the request that fails (tests) */
    void (*on_failure)(void *user); /* never returns */
    void *user;
} sc_arena;

void sc_arena_init(sc_arena *arena, void (*on_failure)(void *), void *user);
void sc_arena_free(sc_arena *arena);

/* As a request that fails, for memory that ran out elsewhere. Does not return. */
_Noreturn void sc_arena_fail(sc_arena *arena);

/* `size` bytes aligned for any object. The contents are zero. */
void *sc_arena_alloc(sc_arena *arena, size_t size);

/* count * size, overflow-checked (an overflow is an allocation failure). */
void *sc_arena_array(sc_arena *arena, size_t count, size_t size);

/* Grows a block to new_size bytes: in place when it is the newest, else copied; the old bytes are kept, the rest is zero. */
void *sc_arena_grow(sc_arena *arena, void *block, size_t old_size, size_t new_size);

/* Where an arena is. Releasing frees all that was asked for since: nothing of it may be used then, and blocks from before must not have
 * been grown meanwhile. Marks are released in the reverse of their order. */
typedef struct sc_arena_mark {
    sc_arena_chunk *chunk;
    char *next;
} sc_arena_mark;

sc_arena_mark sc_arena_mark_here(const sc_arena *arena);
void sc_arena_release(sc_arena *arena, sc_arena_mark mark);

/* A copy of `length` bytes with a terminating 0. */
char *sc_arena_copy_text(sc_arena *arena, const char *text, size_t length);

/* printf into the arena. */
char *sc_arena_printf(sc_arena *arena, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *sc_arena_vprintf(sc_arena *arena, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

#endif
