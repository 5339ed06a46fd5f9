/* How an emitted CUDA function is launched (codegen/cuda/emit.h). */
#ifndef SHARDC_CODEGEN_CUDA_LAUNCH_H
#define SHARDC_CODEGEN_CUDA_LAUNCH_H

#include "program/format.h"

enum { SC_CUDA_MAX_STAGES = SC_IMAGE_MAX_STAGES };

typedef sc_image_stage sc_cuda_stage;

typedef struct sc_cuda_code {
    uint32_t stage_count;
    sc_cuda_stage stages[SC_CUDA_MAX_STAGES];
    int64_t scratch_bytes;
    const char *why_simple; /* NULL: the fast form; else the reason, for users */
} sc_cuda_code;

#endif
