/* attend and attend_grad as CUDA: from the descriptors of describe.h, with the parameters and stages of codegen/cuda/emit.h. The arguments
 * are the op's operands, then its results. What `form` of the descriptor says is for CPUs; code->why_simple says it for GPUs.
 *
 * Results are written whole, those of padding with zeros or with what padding gives. Sums are added in an order that depends on the
 * descriptor alone. Of masked keys, see describe.h; the simple form multiplies none. */
#ifndef SHARDC_CODEGEN_ATTENTION_CUDA_H
#define SHARDC_CODEGEN_ATTENTION_CUDA_H

#include "codegen/attention/describe.h"
#include "codegen/cuda/emit.h"

/* How a stage of the form for 16-bit elements goes over queries and keys: a block holds warps x strips x 16 rows of one side, and runs over
 * `tile` rows of the other at a time, `stages` of these on their way at once. */
typedef struct sc_attention_cuda_tile {
    int warps, strips, tile, stages; /* 1 .. 32; 1 or 2; a multiple of 16; 2 .. */
    int resident;                    /* blocks that should fit on a multiprocessor */
} sc_attention_cuda_tile;

typedef struct sc_attention_cuda_tiles {
    sc_attention_cuda_tile forward, d_q, d_k_d_v; /* rows of queries, queries, keys; the last has 2 stages */
    int parts; /* of the keys that a block of queries sees, forward: blocks of their own, put together by one more stage; 1 .. 32 */
} sc_attention_cuda_tiles;

/* What is chosen for an op that has the form, where a block may have so many bytes of shared memory and a multiprocessor has
 * SC_ATTENTION_CUDA_RESERVED more (program/target.h). */
enum { SC_ATTENTION_CUDA_MAX_HEAD = 256, SC_ATTENTION_CUDA_RESERVED = 1 << 10 /* bytes that the system takes of each block */ };
sc_attention_cuda_tiles sc_attention_cuda_default_tiles(const sc_attention_desc *desc, uint32_t shared_bytes);

/* Appends the stages' functions, NAME_0, NAME_1, .., which stand behind sc_cuda_machine_text and the helpers that *helpers gains (may be
 * NULL). */
void sc_attention_emit_cuda(sc_context *context, const sc_attention_desc *desc, uint32_t shared_bytes, const char *name, sc_strbuf *out,
                            sc_helper_set *helpers, sc_cuda_code *code);
/* The same in tiles of these sizes, where it has some: for tests. */
void sc_attention_emit_cuda_tiled(sc_context *context, const sc_attention_desc *desc, const sc_attention_cuda_tiles *tiles,
                                  const char *name, sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code);

#endif
