/* Executes contractions (program/gemm.h). A plan is made once a descriptor and thread; running it gives the same bits whatever
 * the size of the thread's OpenMP team, and allocates nothing of its own (the library does). Scratch: sc_gemm_scratch_bytes(gemm) of
 * program/gemm_blocks.h, which the compiler knows, too. */
#ifndef SHARDC_RUNTIME_CPU_GEMM_H
#define SHARDC_RUNTIME_CPU_GEMM_H

#include "program/gemm.h"
#include "program/gemm_blocks.h"

typedef struct sc_gemm_plan sc_gemm_plan;

typedef enum sc_gemm_backend {
    SC_GEMM_AUTO,  /* whichever is expected to be faster here */
    SC_GEMM_PLAIN, /* ours: takes everything */
    /* The library, as far as it takes the descriptor and there is one. Steps that it lacks we do behind it, from the first one on, on what
     * it has rounded to c's dtype. */
    SC_GEMM_ONEDNN,
    SC_GEMM_BACKENDS
} sc_gemm_backend;

/* Of a valid descriptor; copies it. NULL: out of memory, or the backend that was asked for is not there or does not take it. */
sc_gemm_plan *sc_gemm_plan_new(const sc_gemm *gemm, sc_gemm_backend backend);
void sc_gemm_plan_free(sc_gemm_plan *plan);

/* Arrays begin at element 0 of the descriptor; steps[i] belongs to step i (NULL without a tensor; `steps` may be NULL when no step has
 * one). c and what steps store overlap nothing else. Uses the calling thread's OpenMP team. False: the library failed, c is undefined. */
bool sc_gemm_run(const sc_gemm_plan *plan, const void *a, const void *b, void *c, const void *const *steps, void *scratch);

/* How it will be executed, for dumps: "plain f32 avx2", "plain f32 avx2, skinny", "onednn sgemm". */
const char *sc_gemm_plan_name(const sc_gemm_plan *plan);

#endif
