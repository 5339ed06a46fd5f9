/* Libraries opened at run time: nothing is linked against them, and errors name what is missing. A
 * library's functions are rows of a .def table, SYMBOL(result, name, arguments..), which generates
 * its struct and its list of names:
 *
 *     typedef struct sc_thing {
 *         void *library;
 *     #define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
 *     #include "thing.def"
 *     #undef SYMBOL
 *     } sc_thing; */
#ifndef SHARDC_SUPPORT_DYNLIB_H
#define SHARDC_SUPPORT_DYNLIB_H

#include <stdbool.h>
#include <stddef.h>

#include "shardc/status.h"

typedef struct sc_dynlib_symbol {
    const char *name;
    size_t at; /* offset of its pointer in the struct */
} sc_dynlib_symbol;

typedef struct sc_dynlib {
    const char *title; /* e.g. "NVRTC" */
    /* environment variable with a path to open instead of the names; NULL: none */
    const char *variable;
    const char *remedy; /* advice if the library is missing: "install .." */
    /* file names, preferred first, NULL-terminated; searched by the system's loader */
    const char *const *names;
    /* further folders; "$NAME/x": relative to the folder in an environment variable; NULL: none */
    const char *const *folders;
    const sc_dynlib_symbol *symbols;
    size_t symbol_count;
} sc_dynlib;

/* Usual install folders of the CUDA toolkit. */
extern const char *const sc_dynlib_cuda_folders[];

/* Opens a library and fills the struct, which starts with `void *library` and has the pointers
 * listed in `symbols`. On failure returns false with SHARDC_ERROR_UNAVAILABLE and sets all pointers
 * to NULL; the text has the file names tried or the missing function, and the remedy. An opened
 * library is never unloaded; closing only decrements its reference count. Thread-safe. */
bool sc_dynlib_open(const sc_dynlib *what, void *out, shardc_error *error);
void sc_dynlib_close(const sc_dynlib *what, void *out);
/* Returns the file of an open library; "" if the system does not report it. */
const char *sc_dynlib_path(void *library);

#endif
