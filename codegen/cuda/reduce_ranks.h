/* Reductions of ranks that share a GPU (runtime/cuda/collectives_shared.c), as the program's module
 * `sc_reduce`: entries sc_reduce_{sum,max,min}_DTYPE with the parameters
 *
 *     const T *s0, .., const T *s15, int64_t members, T *to, int64_t first, int64_t count
 *
 * in blocks of 256 threads. to[i] becomes the reduction of element first + i over the first
 * `members` sources, in order; in f32 for bf16 and f16, rounded once, else in the dtype itself. As
 * in runtime/comm/comm.h, NaN with anything yields NaN; of equal values the first is taken. */
#ifndef SHARDC_CODEGEN_CUDA_REDUCE_RANKS_H
#define SHARDC_CODEGEN_CUDA_REDUCE_RANKS_H

#include "codegen/printer/helpers.h"
#include "program/format.h"

/* The sources: SC_CUDA_MAX_SHARING of the runtime. */
enum { SC_CUDA_REDUCE_SOURCES = 16, SC_CUDA_REDUCE_THREADS = 256 };

/* Appends one entry. It must follow sc_cuda_machine_text and the helpers added to *helpers. */
void sc_cuda_reduce_emit(sc_dtype dtype, sc_image_reduce reduce, sc_strbuf *out,
                         sc_helper_set *helpers);
/* Appends the entries that the program's collectives need, each once; false if none is needed. */
bool sc_cuda_reduce_text(const sc_image *image, sc_strbuf *out, sc_helper_set *helpers);

#endif
