/* Emitted functions as one shared object. Each function is compiled by itself and kept on disk, so that only what is new is compiled; the
 * object that they are linked to is kept, too (codegen/toolchain/cache.h). The compiler is $SHARDC_CC, else $CC, else cc; it runs without a
 * shell, a process a function and a core. $SHARDC_CFLAGS, words between spaces, stand at the end of each of its command lines and so
 * prevail (-O1 compiles sooner); objects made with other flags are other objects. $SHARDC_CPU says which instructions they use
 * (program/cpu_level.h). */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_OBJECTS_H
#define SHARDC_CODEGEN_TOOLCHAIN_OBJECTS_H

#include "codegen/printer/helpers.h"

typedef struct sc_object_function {
    const char *symbol;    /* equal symbols: one function */
    const char *text;      /* defines the symbol */
    sc_helper_set helpers; /* that the text calls */
} sc_object_function;

/* NULL or 0: as the environment says. */
typedef struct sc_object_options {
    const char *cache;    /* a folder; "": none */
    const char *compiler; /* a path, or a name that is looked up; words of the command before others, too: "ccache gcc" */
    uint32_t jobs;
} sc_object_options;

typedef struct sc_object {
    const uint8_t *bytes; /* the shared object, in the arena */
    size_t byte_count;
    const char *path;           /* of the cache's file, whose first byte_count bytes these are; NULL: none */
    uint32_t compiled, started; /* functions that were compiled; processes that were started */
    const char *refused;        /* why the cache is not used, in the arena; NULL: nothing is wrong with it */
} sc_object;

/* "sc_k_" and the hash of a function's text as emitted under the name SC_OBJECT_NAME without comments. */
#define SC_OBJECT_NAME "sc_k"
const char *sc_object_symbol(sc_arena *arena, const char *text);

/* NULL, or what went wrong (in the arena): with the compiler's words and the path of the source that it refused, which is kept. */
const char *sc_objects_build(sc_arena *arena, const sc_object_function *functions, uint32_t count, const sc_object_options *options,
                             sc_object *out);

#endif
