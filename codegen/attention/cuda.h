/* Emits attend and attend_grad as CUDA from the descriptors of describe.h, with the parameters and
 * stages of codegen/cuda/emit.h. The arguments are the op's operands, then its results. The
 * descriptor's `form` applies to CPUs only; on GPUs see code->why_simple.
 *
 * Results are written in full; padding gets zeros or whatever the padded inputs yield. The order of
 * summation depends on the descriptor alone. For masked keys see describe.h; the simple form never
 * multiplies them. */
#ifndef SHARDC_CODEGEN_ATTENTION_CUDA_H
#define SHARDC_CODEGEN_ATTENTION_CUDA_H

#include "codegen/attention/describe.h"
#include "codegen/cuda/emit.h"

/* Tiling of one stage of the form for 16-bit elements. A block holds warps x strips x 16 rows of
 * one side (queries or keys) and iterates over the other side in tiles of `tile` rows, with
 * `stages` tiles in flight. */
typedef struct sc_attention_cuda_tile {
    int warps, strips, tile, stages; /* 1 .. 32; 1 or 2; a multiple of 16; 2 .. */
    int resident;                    /* blocks that should be resident on a multiprocessor */
} sc_attention_cuda_tile;

typedef struct sc_attention_cuda_tiles {
    sc_attention_cuda_tile forward, d_q, d_k_d_v; /* rows: queries, queries, keys; 2 stages in the
                                                   * last */
    /* forward: parts of the keys, each a block; 1 .. 32 */
    int parts;
} sc_attention_cuda_tiles;

/* Default tiles for an op that has this form, given the shared memory available to a block in
 * bytes; a multiprocessor has SC_ATTENTION_CUDA_RESERVED more in total (program/target.h). */
enum {
    SC_ATTENTION_CUDA_MAX_HEAD = 256,
    SC_ATTENTION_CUDA_RESERVED = 1 << 10 /* bytes that the system reserves per block */
};
sc_attention_cuda_tiles sc_attention_cuda_default_tiles(const sc_attention_desc *desc,
                                                        uint32_t shared_bytes);

/* Appends the functions of the stages, NAME_0, NAME_1, .. They must follow sc_cuda_machine_text and
 * the helpers added to *helpers (may be NULL). */
void sc_attention_emit_cuda(sc_context *context, const sc_attention_desc *desc,
                            uint32_t shared_bytes, const char *name, sc_strbuf *out,
                            sc_helper_set *helpers, sc_cuda_code *code);
/* The same with these tile sizes, if the op has a tiled form; for tests. */
void sc_attention_emit_cuda_tiled(sc_context *context, const sc_attention_desc *desc,
                                  const sc_attention_cuda_tiles *tiles, const char *name,
                                  sc_strbuf *out, sc_helper_set *helpers, sc_cuda_code *code);

#endif
