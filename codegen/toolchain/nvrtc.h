/* NVRTC, NVIDIA's CUDA C++ compiler library, opened at run time ($SHARDC_NVRTC names another file).
 * It compiles a source to a cubin for the target, and to PTX for later GPUs. The declarations are
 * our own and cover what is used; test/cuda/signatures.c compares them with the real header where
 * it is installed. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_NVRTC_H
#define SHARDC_CODEGEN_TOOLCHAIN_NVRTC_H

#include <stdbool.h>

#include "program/target.h"
#include "shardc/status.h"
#include "support/arena.h"
#include "support/vec.h"

typedef unsigned sc_nvrtc_result;
typedef struct _nvrtcProgram *sc_nvrtc_program;

enum {
    SC_NVRTC_SUCCESS = 0,
    SC_NVRTC_OUT_OF_MEMORY = 1,
    SC_NVRTC_INVALID_OPTION = 5,
    SC_NVRTC_COMPILATION = 6
};

typedef struct sc_nvrtc {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "codegen/toolchain/nvrtc.def"
#undef SYMBOL
    int major, minor; /* its version */
} sc_nvrtc;

/* False with SHARDC_ERROR_UNAVAILABLE, naming what is missing and the remedy. */
bool sc_nvrtc_open(sc_nvrtc *out, shardc_error *error);
void sc_nvrtc_close(sc_nvrtc *nvrtc);

/* The options for every source except the architecture; NULL-terminated. */
extern const char *const sc_nvrtc_options[];

/* Allocated with malloc; release with sc_nvrtc_code_free. */
typedef struct sc_nvrtc_code {
    char *cubin; /* NULL: the target is virtual */
    size_t cubin_bytes;
    char *ptx; /* for target->ptx; 0-terminated, the 0 counted */
    size_t ptx_bytes;
    char *log; /* text, also on failure; NULL if memory ran out */
} sc_nvrtc_code;

/* NULL, or an error text (static; NVRTC's or ours); the log has the details. `name` stands for the
 * path in the log. Thread-safe on one sc_nvrtc. */
const char *sc_nvrtc_compile(const sc_nvrtc *nvrtc, const char *source, const char *name,
                             const sc_target *target, sc_nvrtc_code *out);
void sc_nvrtc_code_free(sc_nvrtc_code *code);

/* Resource usage of a kernel, from the log: registers per thread; static counts of spill stores and
 * loads in bytes per thread; stack bytes per thread; static shared memory per block (not what is
 * requested at launch). */
typedef struct sc_cuda_usage {
    const char *entry;
    uint32_t registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes;
} sc_cuda_usage;
typedef SC_VEC(sc_cuda_usage) sc_cuda_usages;

/* Appends the kernels of the log in its order; PTX has none. */
void sc_nvrtc_read_log(sc_arena *arena, const char *log, sc_cuda_usages *out);

#endif
