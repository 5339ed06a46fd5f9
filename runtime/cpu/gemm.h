/* Executes GEMMs (program/gemm.h). A plan is created once per descriptor and thread. Running it
 * gives the same bits for any size of the thread's OpenMP team, and allocates nothing itself (the
 * library does). Scratch memory: sc_gemm_scratch_bytes(gemm) of program/gemm_blocks.h, which the
 * compiler uses, too. */
#ifndef SHARDC_RUNTIME_CPU_GEMM_H
#define SHARDC_RUNTIME_CPU_GEMM_H

#include "program/gemm.h"
#include "program/gemm_blocks.h"

typedef struct sc_gemm_plan sc_gemm_plan;

typedef enum sc_gemm_backend {
    SC_GEMM_AUTO,  /* the one expected to be faster on this machine */
    SC_GEMM_PLAIN, /* our own kernels: they support every descriptor */
    /* oneDNN, if it is available and supports the descriptor. From the first epilogue step that it
     * lacks on, steps are applied by our own code, on results already rounded to c's dtype. */
    SC_GEMM_ONEDNN,
    SC_GEMM_BACKENDS
} sc_gemm_backend;

/* Creates a plan for a valid descriptor, which is copied. NULL: out of memory, or the requested
 * backend is not available or does not support the descriptor. */
sc_gemm_plan *sc_gemm_plan_new(const sc_gemm *gemm, sc_gemm_backend backend);
void sc_gemm_plan_free(sc_gemm_plan *plan);

/* Runs a plan on the calling thread's OpenMP team. Arrays begin at element 0 of the descriptor.
 * steps[i] is the tensor of step i, or NULL if it has none; `steps` may be NULL if no step has one.
 * c and stored results must not overlap anything else. False: the library failed, and c is
 * undefined. */
bool sc_gemm_run(const sc_gemm_plan *plan, const void *a, const void *b, void *c,
                 const void *const *steps, void *scratch);

/* Returns how the plan is executed, for dumps: "plain f32 avx2", "plain f32 avx2, skinny", "onednn
 * sgemm". */
const char *sc_gemm_plan_name(const sc_gemm_plan *plan);

#endif
