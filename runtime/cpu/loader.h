/* Loads a shared object from memory, as a compiled program contains it. */
#ifndef SHARDC_RUNTIME_CPU_LOADER_H
#define SHARDC_RUNTIME_CPU_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

/* Returns 0, or 1 + the index of a failed check: see sc_image_kernel. */
typedef int64_t sc_kernel_function(void *const *args, const int64_t *params);

typedef struct sc_loader sc_loader;

/* Opens an object. NULL after an error. The bytes may be freed afterwards. Callable from any
 * thread; functions are valid until the loader is closed. */
sc_loader *sc_loader_open(const void *bytes, size_t count, shardc_error *error);
/* Returns a function's address; NULL after an error. */
sc_kernel_function *sc_loader_symbol(sc_loader *loader, const char *name, shardc_error *error);
void sc_loader_close(sc_loader *loader);

#endif
