/* oneDNN 2, opened at run time. Included only where its headers were there to compile with (SHARDC_ONEDNN). */
#ifndef SHARDC_RUNTIME_CPU_ONEDNN_H
#define SHARDC_RUNTIME_CPU_ONEDNN_H

#include <stdbool.h>

#include <dnnl.h>

typedef struct sc_onednn {
    void *library;
#define SYMBOL(name) __typeof__(name) *name;
#include "runtime/cpu/onednn.def"
#undef SYMBOL
} sc_onednn;

/* False when there is no libdnnl.so.2, it lacks a function, or it was used in this process with instructions that $SHARDC_CPU does not
 * allow. The library stays in the process once opened: closing only counts. */
bool sc_onednn_open(sc_onednn *out);
void sc_onednn_close(sc_onednn *onednn);

#endif
