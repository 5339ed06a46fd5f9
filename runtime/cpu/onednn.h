/* oneDNN 2, opened at run time. Included only if its headers were found at build time
 * (SHARDC_ONEDNN). */
#ifndef SHARDC_RUNTIME_CPU_ONEDNN_H
#define SHARDC_RUNTIME_CPU_ONEDNN_H

#include <stdbool.h>

#include <dnnl.h>

typedef struct sc_onednn {
    void *library;
#define SYMBOL(name) __typeof__(name) *(name);
#include "runtime/cpu/onednn.def"
#undef SYMBOL
} sc_onednn;

/* False if there is no libdnnl.so.2, it lacks a function, or this process has already used it with
 * instructions that $SHARDC_CPU excludes. The library is never unloaded; closing only decrements a
 * count. */
bool sc_onednn_open(sc_onednn *out);
void sc_onednn_close(sc_onednn *onednn);

#endif
