/* How an emitted CUDA function is launched (codegen/emit_cuda.h). */
#ifndef SHARDC_CODEGEN_CUDA_CODE_H
#define SHARDC_CODEGEN_CUDA_CODE_H

#include <stdint.h>

enum { SC_CUDA_MAX_STAGES = 4 };

typedef struct sc_cuda_stage {
    int64_t blocks;        /* of the grid: 1 .. 2^31 - 1 */
    uint32_t threads;      /* of a block: a multiple of 32, at most 1024 */
    uint32_t shared_bytes; /* of a block */
} sc_cuda_stage;

typedef struct sc_cuda_code {
    uint32_t stage_count;
    sc_cuda_stage stages[SC_CUDA_MAX_STAGES];
    int64_t scratch_bytes;
    const char *why_simple; /* NULL: it has a fast form; else the reason, for people */
} sc_cuda_code;

#endif
