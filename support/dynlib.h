/* Libraries that are looked up while the program runs: nothing of them is linked, and what is missing is said by name. A library's
 * functions are rows of a .def table, SYMBOL(result, name, arguments..), from which its struct and its list of names are made:
 *
 *     typedef struct sc_thing {
 *         void *library;
 *     #define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
 *     #include "thing.def"
 *     #undef SYMBOL
 *     } sc_thing;
 */
#ifndef SHARDC_SUPPORT_DYNLIB_H
#define SHARDC_SUPPORT_DYNLIB_H

#include <stdbool.h>
#include <stddef.h>

#include "shardc/status.h"

typedef struct sc_dynlib_symbol {
    const char *name;
    size_t at; /* of its pointer in the struct */
} sc_dynlib_symbol;

typedef struct sc_dynlib {
    const char *title;          /* "NVRTC" */
    const char *variable;       /* of the environment: a path that is opened instead of the names; NULL: none */
    const char *remedy;         /* what to do where it is missing: "install .." */
    const char *const *names;   /* of files, the best first, NULL behind the last; the system looks them up */
    const char *const *folders; /* where it does not look; "$NAME/x": below the folder that a variable names; NULL: none */
    const sc_dynlib_symbol *symbols;
    size_t symbol_count;
} sc_dynlib;

/* Folders of CUDA's toolkit, wherever it was put. */
extern const char *const sc_dynlib_cuda_folders[];

/* Fills the struct, which begins with `void *library` and holds the pointers that `symbols` say. False after SHARDC_ERROR_UNAVAILABLE: what
 * was looked for or which function the library lacks, and the remedy; all pointers are NULL then. The library stays in the process once
 * opened: closing only counts. Any thread. */
bool sc_dynlib_open(const sc_dynlib *what, void *out, shardc_error *error);
void sc_dynlib_close(const sc_dynlib *what, void *out);
/* The file that an open library came from; "" when the system does not say. */
const char *sc_dynlib_path(void *library);

#endif
