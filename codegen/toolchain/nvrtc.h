/* NVRTC, NVIDIA's compiler of CUDA C++, opened at run time ($SHARDC_NVRTC names another file): a source for a target becomes a cubin,
 * and PTX for later GPUs. The declarations are our own, of what is used; test/cuda/signatures.c compares them with the real header where
 * that is. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_NVRTC_H
#define SHARDC_CODEGEN_TOOLCHAIN_NVRTC_H

#include <stdbool.h>

#include "program/target.h"
#include "shardc/status.h"
#include "support/arena.h"
#include "support/vec.h"

typedef unsigned sc_nvrtc_result;
typedef struct _nvrtcProgram *sc_nvrtc_program;

enum { SC_NVRTC_SUCCESS = 0, SC_NVRTC_OUT_OF_MEMORY = 1, SC_NVRTC_INVALID_OPTION = 5, SC_NVRTC_COMPILATION = 6 };

typedef struct sc_nvrtc {
    void *library;
#define SYMBOL(result, name, ...) result (*(name))(__VA_ARGS__);
#include "codegen/toolchain/nvrtc.def"
#undef SYMBOL
    int major, minor; /* its version */
} sc_nvrtc;

/* False after SHARDC_ERROR_UNAVAILABLE with what is missing and the remedy. */
bool sc_nvrtc_open(sc_nvrtc *out, shardc_error *error);
void sc_nvrtc_close(sc_nvrtc *nvrtc);

/* What every source is compiled with, but for the architecture; NULL behind the last. */
extern const char *const sc_nvrtc_options[];

/* Memory of malloc: sc_nvrtc_code_free. */
typedef struct sc_nvrtc_code {
    char *cubin; /* NULL: the target is virtual */
    size_t cubin_bytes;
    char *ptx; /* for target->ptx: a text, its 0 counted */
    size_t ptx_bytes;
    char *log; /* a text; of refusals, too, and may be NULL for lack of memory */
} sc_nvrtc_code;

/* NULL, or what went wrong: a text of NVRTC's or ours that nobody frees; the log says more. `name` stands in the log in place of a path.
 * Any number of threads at once, on one sc_nvrtc. */
const char *sc_nvrtc_compile(const sc_nvrtc *nvrtc, const char *source, const char *name, const sc_target *target, sc_nvrtc_code *out);
void sc_nvrtc_code_free(sc_nvrtc_code *code);

/* What a kernel takes of its multiprocessor, as the log says: registers of a thread, bytes of a thread that did not fit in them (stored and
 * loaded again: of instructions, not of runs) and of its stack, static shared bytes of a block (those given at the launch are not there).
 */
typedef struct sc_cuda_usage {
    const char *entry;
    uint32_t registers, spill_store_bytes, spill_load_bytes, stack_bytes, shared_bytes;
} sc_cuda_usage;
typedef SC_VEC(sc_cuda_usage) sc_cuda_usages;

/* In the log's order; those of PTX are none. */
void sc_nvrtc_read_log(sc_arena *arena, const char *log, sc_cuda_usages *out);

#endif
