/* Interned text: equal texts have equal symbols, so names compare as integers. Symbol 0 is the
 * empty text. */
#ifndef SHARDC_SUPPORT_INTERN_H
#define SHARDC_SUPPORT_INTERN_H

#include <stdbool.h>

#include "support/arena.h"

typedef uint32_t sc_sym;

typedef struct sc_interner {
    sc_arena *arena;
    const char **texts;
    uint32_t *lengths;
    uint64_t *hashes;
    uint32_t count, capacity;
    uint32_t *slots; /* open addressing: symbol or 0; size is a power of two */
    uint32_t slot_count;
} sc_interner;

void sc_interner_init(sc_interner *interner, sc_arena *arena);
sc_sym sc_intern(sc_interner *interner, const char *text, size_t length);
sc_sym sc_intern_text(sc_interner *interner, const char *text);
sc_sym sc_intern_printf(sc_interner *interner, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* 0-terminated; lives as long as the arena. */
const char *sc_sym_text(const sc_interner *interner, sc_sym sym);

#endif
