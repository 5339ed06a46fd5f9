/* Compiles emitted functions into one shared object. Each function is compiled separately and
 * cached, so only new functions are compiled; the linked object is cached, too
 * (codegen/toolchain/cache.h). The compiler is $SHARDC_CC, else $CC, else cc; it runs without a
 * shell, one process per function, up to one per core. $SHARDC_CFLAGS (words separated by spaces)
 * is appended to each of its command lines and so takes precedence (-O1 compiles faster); it is
 * part of the cache key. $SHARDC_CPU selects the instruction set (program/cpu_level.h). */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_OBJECTS_H
#define SHARDC_CODEGEN_TOOLCHAIN_OBJECTS_H

#include "codegen/printer/helpers.h"

typedef struct sc_object_function {
    const char *symbol;    /* equal symbols: one function */
    const char *text;      /* defines the symbol */
    sc_helper_set helpers; /* helpers that the text calls */
} sc_object_function;

/* NULL or 0: from the environment. */
typedef struct sc_object_options {
    const char *cache;    /* a folder; "": none */
    const char *compiler; /* a path, or a name to look up; may have leading words: "ccache gcc" */
    uint32_t jobs;
} sc_object_options;

typedef struct sc_object {
    const uint8_t *bytes; /* the shared object, in the arena */
    size_t byte_count;
    const char *path;           /* of the cached file that starts with these bytes; NULL: none */
    uint32_t compiled, started; /* functions compiled; processes started */
    const char *refused;        /* why the cache is refused, in the arena, or NULL */
} sc_object;

/* "sc_k_" and the hash of a function's text, emitted without comments under the name
 * SC_OBJECT_NAME. */
#define SC_OBJECT_NAME "sc_k"
const char *sc_object_symbol(sc_arena *arena, const char *text);

/* NULL, or what went wrong, in the arena, with the compiler's output and the path of the rejected
 * source, which is kept. */
const char *sc_objects_build(sc_arena *arena, const sc_object_function *functions, uint32_t count,
                             const sc_object_options *options, sc_object *out);

#endif
