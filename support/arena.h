/* Arena: bump allocation, freed all at once. A compile allocates everything in one arena, so that
 * running out of memory (or an injected failure) can unwind to the API call without leaks.
 * Allocations never return NULL; on failure they call `on_failure`, which must not return (the
 * context's jumps to the API boundary). Not thread-safe; use one arena per compile. */
#ifndef SHARDC_SUPPORT_ARENA_H
#define SHARDC_SUPPORT_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_arena_chunk sc_arena_chunk;

typedef struct sc_arena {
    sc_arena_chunk *chunks; /* newest first */
    char *next, *end;       /* unused part of the newest chunk */
    size_t total;           /* bytes requested from the system, for --memory reports and limits */
    /* number of chunks and requests so far, as counted by failure injection */
    uint64_t allocations;
    uint64_t fail_at;               /* number of the request that fails (tests); 0: none */
    void (*on_failure)(void *user); /* never returns */
    void *user;
} sc_arena;

void sc_arena_init(sc_arena *arena, void (*on_failure)(void *), void *user);
void sc_arena_free(sc_arena *arena);

/* Fails as a failed allocation does, for memory that ran out elsewhere. Does not return. */
_Noreturn void sc_arena_fail(sc_arena *arena);

/* Returns `size` zeroed bytes, aligned for any object. */
void *sc_arena_alloc(sc_arena *arena, size_t size);

/* Returns count * size zeroed bytes. Overflow is an allocation failure. */
void *sc_arena_array(sc_arena *arena, size_t count, size_t size);

/* Grows a block to new_size bytes, in place if it is the newest, else by copying. Old bytes are
 * kept, new ones are zero. */
void *sc_arena_grow(sc_arena *arena, void *block, size_t old_size, size_t new_size);

/* A position in an arena. Releasing a mark frees everything allocated since: none of it may be used
 * afterwards, and older blocks must not have been grown in the meantime. Marks are released in
 * reverse order. */
typedef struct sc_arena_mark {
    sc_arena_chunk *chunk;
    char *next;
} sc_arena_mark;

sc_arena_mark sc_arena_mark_here(const sc_arena *arena);
void sc_arena_release(sc_arena *arena, sc_arena_mark mark);

/* Returns a 0-terminated copy of `length` bytes. */
char *sc_arena_copy_text(sc_arena *arena, const char *text, size_t length);

/* Formats text into the arena. */
char *sc_arena_printf(sc_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
char *sc_arena_vprintf(sc_arena *arena, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

#endif
