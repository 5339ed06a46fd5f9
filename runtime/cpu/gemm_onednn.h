/* Contractions by oneDNN: inside of runtime/gemm*.c only, and only with SHARDC_ONEDNN. */
#ifndef SHARDC_RUNTIME_CPU_GEMM_ONEDNN_H
#define SHARDC_RUNTIME_CPU_GEMM_ONEDNN_H

#include "program/gemm.h"

typedef struct sc_gemm_onednn sc_gemm_onednn;

/* Of a canonical descriptor, with so much scratch at every run. NULL: no memory, no library, or it does not take the descriptor. */
sc_gemm_onednn *sc_gemm_onednn_new(const sc_gemm *gemm, int64_t scratch_bytes);
void sc_gemm_onednn_free(sc_gemm_onednn *o);
bool sc_gemm_onednn_run(const sc_gemm_onednn *o, const void *a, const void *b, void *c, const void *const *steps, void *scratch);
/* Whether it may be a step of a descriptor that the library takes. */
bool sc_gemm_onednn_has_step(sc_gemm_step_kind kind);
/* "onednn " and the library's name of the code that runs. */
const char *sc_gemm_onednn_name(const sc_gemm_onednn *o);
/* Whether there is a library, and this machine has instructions for products of bf16 that it uses. */
bool sc_gemm_onednn_multiplies_bf16(void);

#endif
