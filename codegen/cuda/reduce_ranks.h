/* Reductions of ranks that share a GPU (runtime/cuda/collectives_shared.c), as the module `sc_reduce` of a program: entries
 * sc_reduce_{sum,max,min}_DTYPE with the parameters
 *
 *     const T *s0, .., const T *s15, int64_t members, T *to, int64_t first, int64_t count
 *
 * in blocks of 256 threads: to[i] becomes the reduction of element first + i of the first `members` sources, in their order; in f32 for
 * bf16 and f16, rounded once, in the dtype itself otherwise. As runtime/comm/comm.h says: of NaN and anything NaN, of equals the first. */
#ifndef SHARDC_CODEGEN_CUDA_REDUCE_RANKS_H
#define SHARDC_CODEGEN_CUDA_REDUCE_RANKS_H

#include "codegen/printer/helpers.h"
#include "program/format.h"

/* SC_CUDA_MAX_SHARING of the runtime. */
enum { SC_CUDA_REDUCE_SOURCES = 16, SC_CUDA_REDUCE_THREADS = 256 };

/* Appends one. It stands behind sc_cuda_machine_text and the helpers that *helpers gains. */
void sc_cuda_reduce_emit(sc_dtype dtype, sc_image_reduce reduce, sc_strbuf *out, sc_helper_set *helpers);
/* Those that the image's collectives ask for, each once; false: none does. */
bool sc_cuda_reduce_text(const sc_image *image, sc_strbuf *out, sc_helper_set *helpers);

#endif
