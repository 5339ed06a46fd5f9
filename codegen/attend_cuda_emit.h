/* What the forms of attention on cards share while they are written: inside of codegen/attend_cuda*.c only. */
#ifndef SHARDC_CODEGEN_ATTEND_CUDA_EMIT_H
#define SHARDC_CODEGEN_ATTEND_CUDA_EMIT_H

#include "codegen/attend_cuda.h"
#include "codegen/attend_emit.h"

typedef struct sc_attend_cuda {
    sc_attend_text text;
    sc_cuda_code *code;
} sc_attend_cuda;

/* Begins the function of the next stage: parameters are called as roles are, scratch is a pointer to bytes, params[] are the values. Its
 * shared bytes may be set in code->stages until it ends. */
sc_cuda_stage *sc_attend_cuda_begin(sc_attend_cuda *cuda, int64_t blocks, uint32_t threads, int resident);
void sc_attend_cuda_end(sc_attend_cuda *cuda);

void sc_attend_cuda_simple(sc_attend_cuda *cuda);

#endif
