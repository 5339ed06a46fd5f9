/* Compiles emitted CUDA functions: each becomes its own cubin, with its PTX and its kernels'
 * resource usage. NVRTC runs on one thread per core; results are cached on disk under the hash of
 * all inputs (codegen/toolchain/cache.h), so only new functions are compiled. No GPU or driver is
 * needed. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_CUBINS_H
#define SHARDC_CODEGEN_TOOLCHAIN_CUBINS_H

#include "codegen/printer/helpers.h"
#include "codegen/toolchain/nvrtc.h"

typedef struct sc_cubin_function {
    const char *symbol;    /* equal symbols: one function */
    const char *text;      /* its stages: kernels SYMBOL_0, SYMBOL_1, .. */
    sc_helper_set helpers; /* helpers that the text calls */
} sc_cubin_function;

/* NULL or 0: from the environment. */
typedef struct sc_cubin_options {
    const char *cache; /* a folder; "": none */
    uint32_t jobs;
} sc_cubin_options;

/* Allocated in the arena. */
typedef struct sc_cubin {
    const uint8_t *cubin; /* NULL: the target is virtual */
    size_t cubin_bytes;
    const char *ptx;  /* 0-terminated, for the target's compute capability and later ones */
    size_t ptx_bytes; /* counting the terminating 0, as the driver expects */
    sc_cuda_usages usages;
} sc_cubin;

typedef struct sc_cubins {
    sc_cubin *cubins;    /* by function, as given */
    uint32_t nvrtc;      /* its version, as CUDA numbers versions: 13000 is 13.0 */
    uint32_t compiled;   /* functions that were not in the cache */
    const char *refused; /* why the cache is refused, in the arena, or NULL */
} sc_cubins;

/* Builds the source for a function: the wrappers of the machine, the helpers it does not define,
 * the stages. */
void sc_cuda_source(sc_strbuf *out, const char *text, sc_helper_set helpers);

/* NULL, or what went wrong, in the arena: NVRTC is missing or rejected a source (with its log and
 * the path of the source, which is kept). The target is a CUDA target. */
const char *sc_cubins_build(sc_arena *arena, const sc_target *target,
                            const sc_cubin_function *functions, uint32_t count,
                            const sc_cubin_options *options, sc_cubins *out);

#endif
