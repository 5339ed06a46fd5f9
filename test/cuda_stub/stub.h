/* A driver of GPUs where there are none: a shared object with the functions of
 * runtime/cuda/libcuda.def ($SHARDC_LIBCUDA names it), whose device memory is the host's and whose
 * kernels run on the engine of test/cuda_on_cpu. It is as little helpful as a driver may be:
 *  - what is put on streams runs only when somebody waits for it, in any order that streams and
 * events leave open: a wait that is missing shows as a wrong value. Copies read pinned memory when
 * they run;
 *  - device memory cannot be touched by the host (where the seed is a multiple of 4), or by kernels
 * beyond an allocation's end;
 *  - captures follow CUDA's rules: who may join, what may not be called, and that a graph keeps the
 * values that parameters had;
 *  - what goes wrong on a stream (a kernel's report) is the error of a later call, of every later
 * one, and cuGetErrorString has the report;
 *  - handles that nobody made, or that are gone, are refused.
 * "Machine code" of a module is SC_STUB_CUBIN and a text of kernels as the engine takes it. PTX
 * that NVRTC itself made ($SHARDC_NVRTC names it, or nothing; programs for compute_80, or on a
 * later capability) runs on the interpreter of test/ptx.
 *
 * Read from the environment by cuInit, with what they are when not set:
 *     SHARDC_STUB_GPUS        1
 *     SHARDC_STUB_CAPABILITY  8.0
 *     SHARDC_STUB_MEMORY      1024, MiB of each
 *     SHARDC_STUB_SHARED      163, KiB of a block
 *     SHARDC_STUB_DRIVER      13000, as cuDriverGetVersion says it
 *     SHARDC_STUB_MODE        0, a compute mode
 *     SHARDC_STUB_SEED        0: all runs at once; others: orders
 *     SHARDC_STUB_POISON      0; 1: new memory is what sc_machine_alloc fills it with, no zeros
 *     SHARDC_STUB_ERRORS      0; of PTX: how approximations are off (sc_ptx_errors)
 *     SHARDC_STUB_EDIT        none; a line of PTX that is another (module.c)
 *     SHARDC_STUB_LOSE        none; a kernel with this text in its name ends its context
 *     SHARDC_STUB_FAIL        none: "FUNCTION#n=result", the n-th call of that function;
 *                             "#n=result", of all
 *
 * Also for the stubs of libraries above it, which find the functions here in the same object. */
#ifndef SHARDC_TEST_CUDA_STUB_STUB_H
#define SHARDC_TEST_CUDA_STUB_STUB_H

#include "runtime/cuda/libcuda.h"

/* printf's format of a module's first line: the capability, as in sm_80 (then `a` or nothing), and
 * the bytes of the text behind it. Of PTX, which GPUs from that capability on take, the other one.
 */
#define SC_STUB_CUBIN "//stub cubin sm_%d%s %zu\n"
#define SC_STUB_PTX   "//stub ptx compute_%d%s %zu\n"

#define SC_STUB_API __attribute__((visibility("default")))

/* ---- for libraries ---- */
/* Every function of a stub begins with it: counts the call; not 0: it must fail with that. */
SC_STUB_API unsigned sc_stub_enter(const char *function);

/* Puts work on a stream, or into its capture: `bytes` of data are copied. When its turn comes, and
 * `is_ready` (NULL: always) says so, `run` gets them; false, with the reason: an error of the
 * stream. Both are called with the stub's lock held, on any thread, with device memory open; they
 * must not call back. */
typedef struct sc_stub_work {
    const char *name;
    bool (*is_ready)(void *data);
    bool (*run)(void *data, char *why, size_t room);
    /* whether it did a part, and is to be called again; NULL: it did all */
    bool (*goes_on)(void *data);
    /* nobody needs it any more: it ran, or the graphs that have it are gone; NULL: no matter */
    void (*drop)(void *data);
} sc_stub_work;
SC_STUB_API sc_cu_result sc_stub_enqueue(sc_cu_stream stream, const sc_stub_work *work,
                                         const void *data, size_t bytes);
/* Something that `is_ready` looks at has changed elsewhere. */
SC_STUB_API void sc_stub_wake(void);
/* What can run does so, as if somebody waited for it. */
SC_STUB_API void sc_stub_go_on(void);
/* The GPU that this thread's calls are for, and that of a stream; -1: none. */
SC_STUB_API int sc_stub_gpu(void);
SC_STUB_API int sc_stub_gpu_of(sc_cu_stream stream);
/* Whether this thread records a graph. */
SC_STUB_API bool sc_stub_records(void);
/* Whether these bytes lie in one allocation of the GPU that the stream is of. Not from within
 * `run`. */
SC_STUB_API bool sc_stub_owns(sc_cu_stream stream, const void *at, size_t bytes);

/* ---- for tests ---- */
/* The n-th call from now on, of that function or (NULL) of all, fails with the result; n 0: none
 * does. Forgets what has failed. */
SC_STUB_API void sc_stub_fail(const char *function, uint64_t n, unsigned result);
/* The function whose call was made to fail; NULL: none yet. */
SC_STUB_API const char *sc_stub_failed(void);
SC_STUB_API uint64_t sc_stub_calls(void);    /* since the last sc_stub_fail */
SC_STUB_API uint64_t sc_stub_launches(void); /* of kernels, since the beginning */
SC_STUB_API uint64_t sc_stub_replays(void);  /* of graphs */
/* calls that made anything but a context, since the beginning */
SC_STUB_API uint64_t sc_stub_allocated(void);
/* streams that there are with this priority */
SC_STUB_API unsigned sc_stub_streams(int priority);
SC_STUB_API void sc_stub_seed(uint64_t seed);
/* From now on launches of that entry take so long on that GPU (-1: on all), while other streams go
 * on; NULL: none does. The text stays the caller's. */
SC_STUB_API void sc_stub_delay(const char *kernel, int gpu, uint32_t milliseconds);
/* How many contexts, allocations, modules, streams, events and graphs there are, and in words. */
SC_STUB_API uint32_t sc_stub_live(char *text, size_t room);
/* Whether nothing was written beside allocations. */
SC_STUB_API bool sc_stub_check(char *text, size_t room);
/* Everything is gone, whatever state it was in: after calls that were made to fail. Nobody is
 * inside. */
SC_STUB_API void sc_stub_reset(void);

#endif
