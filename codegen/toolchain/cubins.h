/* Emitted CUDA functions as machine code: each becomes a cubin of its own, with its PTX and what its kernels take of a multiprocessor. They
 * are compiled by NVRTC, a thread a core, and kept on disk under the hash of all that they depend on (codegen/toolchain/cache.h), so that
 * only what is new is compiled. No GPU and no driver are needed. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_CUBINS_H
#define SHARDC_CODEGEN_TOOLCHAIN_CUBINS_H

#include "codegen/printer/helpers.h"
#include "codegen/toolchain/nvrtc.h"

typedef struct sc_cubin_function {
    const char *symbol;    /* equal symbols: one function */
    const char *text;      /* its stages: kernels SYMBOL_0, SYMBOL_1, .. */
    sc_helper_set helpers; /* that the text calls */
} sc_cubin_function;

/* NULL or 0: as the environment says. */
typedef struct sc_cubin_options {
    const char *cache; /* a folder; "": none */
    uint32_t jobs;
} sc_cubin_options;

/* In the arena. */
typedef struct sc_cubin {
    const uint8_t *cubin; /* NULL: the target is virtual */
    size_t cubin_bytes;
    const char *ptx;  /* a text, for the target's capability and later ones */
    size_t ptx_bytes; /* its 0 counted, as the driver wants it */
    sc_cuda_usages usages;
} sc_cubin;

typedef struct sc_cubins {
    sc_cubin *cubins;    /* by function, as they were given */
    uint32_t compiled;   /* that the cache did not have */
    const char *refused; /* why the cache is not used, in the arena; NULL: nothing is wrong with it */
} sc_cubins;

/* What is compiled for a function: the wrappers of the machine, the helpers but for those that the machine has, its stages. */
void sc_cuda_source(sc_strbuf *out, const char *text, sc_helper_set helpers);

/* NULL, or what went wrong (in the arena): NVRTC is missing, or has something against a source, with its words and the path of the source,
 * which is kept. The target is one of CUDA's. */
const char *sc_cubins_build(sc_arena *arena, const sc_target *target, const sc_cubin_function *functions, uint32_t count,
                            const sc_cubin_options *options, sc_cubins *out);

#endif
