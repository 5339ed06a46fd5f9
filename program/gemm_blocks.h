/* Blocking of a contraction, as far as it determines memory. Used by both compiler and runtime: the
 * scratch that the compiler reserves in the arena suffices for any machine's kernels, tiles and
 * number of threads.
 *
 * Blocks of a and b are packed: copied in the accumulation dtype, in the order in which a kernel
 * reads them; the blocks of `batch` batches at once, or all blocks along k if they are reused. If k
 * has several blocks, intermediate sums are kept in c, or in scratch if c cannot hold them. After
 * Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34
 * (2008). */
#ifndef SHARDC_PROGRAM_GEMM_BLOCKS_H
#define SHARDC_PROGRAM_GEMM_BLOCKS_H

#include "program/gemm.h"

/* PAD: maximum number of rows and of columns of a tile. SKINNY: up to this m, b is read in
 * place. */
enum { SC_GEMM_PAD = 32, SC_GEMM_SKINNY = 8 };

/* Sums of a strip of a skinny matmul: rows times columns. */
enum { SC_GEMM_STRIP = 4096 };

/* Lines of a packed block, rounded up to whole tiles of any size. */
static inline int64_t sc_gemm_packed(int64_t lines)
{
    return (lines + 2 * SC_GEMM_PAD - 2) / SC_GEMM_PAD * SC_GEMM_PAD;
}

typedef struct sc_gemm_blocks {
    bool skinny; /* b is read in place; a is copied if it cannot be, as [batch][m][depth], depth =
                    padded k; rows = 0, columns = c's per strip */
    int64_t parts,
        part; /* skinny: k is split into `parts` of `part` terms. With several parts, their sums are
                 kept in scratch, [batch][parts][m][n], until the last is complete */
    /* intermediate sums are in scratch: [batch][rows][columns], columns padded to PAD */
    bool beside;
    int64_t batch;         /* batches per pass */
    int64_t rows, columns; /* of c per pass */
    int64_t depth;         /* of k per block */
    int64_t depth_count;   /* number of blocks of k; 1 if k is empty */
    /* all blocks of a along k are in scratch: packed once for all passes over columns */
    bool a_kept;
    bool b_kept;                     /* the same for b and passes over rows */
    int64_t a_at, b_at, c_at, bytes; /* offsets of these in scratch and its size; multiples of 64 */
} sc_gemm_blocks;

/* Computes the blocking of a valid descriptor in canonical form. */
sc_gemm_blocks sc_gemm_cut(const sc_gemm *gemm);
/* Returns the scratch bytes for executing any valid descriptor; scratch must be aligned to 64. */
int64_t sc_gemm_scratch_bytes(const sc_gemm *gemm);

#endif
