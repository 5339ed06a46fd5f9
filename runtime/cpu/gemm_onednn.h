/* GEMMs with oneDNN. Used only by runtime/cpu/gemm*.c, and only with SHARDC_ONEDNN. */
#ifndef SHARDC_RUNTIME_CPU_GEMM_ONEDNN_H
#define SHARDC_RUNTIME_CPU_GEMM_ONEDNN_H

#include "program/gemm.h"

typedef struct sc_gemm_onednn sc_gemm_onednn;

/* Creates a plan for a canonical descriptor; each run has `scratch_bytes` of scratch memory. NULL:
 * out of memory, no library, or an unsupported descriptor. */
sc_gemm_onednn *sc_gemm_onednn_new(const sc_gemm *gemm, int64_t scratch_bytes);
void sc_gemm_onednn_free(sc_gemm_onednn *o);
bool sc_gemm_onednn_run(const sc_gemm_onednn *o, const void *a, const void *b, void *c,
                        const void *const *steps, void *scratch);
/* True if the library supports this kind of epilogue step. */
bool sc_gemm_onednn_has_step(sc_gemm_step_kind kind);
/* Returns "onednn " and the library's name of the implementation. */
const char *sc_gemm_onednn_name(const sc_gemm_onednn *o);
/* True if the library is available and uses this machine's bf16 multiply instructions. */
bool sc_gemm_onednn_multiplies_bf16(void);

#endif
