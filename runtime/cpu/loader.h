/* A shared object that stands in memory, as a program's image holds it. */
#ifndef SHARDC_RUNTIME_CPU_LOADER_H
#define SHARDC_RUNTIME_CPU_LOADER_H

#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

/* 0, or 1 + the index of a check that failed: see sc_image_kernel. */
typedef int64_t sc_kernel_function(void *const *args, const int64_t *params);

typedef struct sc_loader sc_loader;

/* NULL after an error. The bytes are not needed any more then. Any thread; functions live until the loader is closed. */
sc_loader *sc_loader_open(const void *bytes, size_t count, shardc_error *error);
/* NULL after an error. */
sc_kernel_function *sc_loader_symbol(sc_loader *loader, const char *name, shardc_error *error);
void sc_loader_close(sc_loader *loader);

#endif
