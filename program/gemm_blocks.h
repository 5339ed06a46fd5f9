/* How a contraction is cut into blocks, as far as memory depends on it. Compiler and runtime both ask here: what the compiler puts aside in
 * the arena is what any machine's kernels need, whatever their tiles and however many threads they have.
 *
 * Blocks of a and b are packed: copied, in the dtype of the sum, in the order in which a kernel reads them; `batch` batches' blocks at
 * once, or all blocks along k where they are needed again. Where k has several blocks, sums that wait for the next one stand in c, or
 * beside it when c is no place for them. After Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", ACM TOMS 34
 * (2008). */
#ifndef SHARDC_PROGRAM_GEMM_BLOCKS_H
#define SHARDC_PROGRAM_GEMM_BLOCKS_H

#include "program/gemm.h"

/* A tile has at most so many rows and columns. m up to the second is skinny: then b is read where it stands. */
enum { SC_GEMM_PAD = 32, SC_GEMM_SKINNY = 8 };

/* Sums of a skinny product's strip: rows times columns. */
enum { SC_GEMM_STRIP = 4096 };

/* Lines of a packed block: whole tiles, whatever their size. */
static inline int64_t sc_gemm_packed(int64_t lines)
{
    return (lines + 2 * SC_GEMM_PAD - 2) / SC_GEMM_PAD * SC_GEMM_PAD;
}

typedef struct sc_gemm_blocks {
    bool skinny;                     /* b is read where it stands; a, where it cannot be, is copied as [batch][m][depth], depth being k
                                        padded; rows is 0, columns those of c a strip */
    int64_t parts, part;             /* of a skinny one: k in so many parts of so many terms. Several parts: their sums wait in scratch,
                                        [batch][parts][m][n], until the last one has come */
    bool beside;                     /* waiting sums stand in scratch: [batch][rows][columns], columns padded to PAD */
    int64_t batch;                   /* batches a pass */
    int64_t rows, columns;           /* of c a pass */
    int64_t depth;                   /* of k a block */
    int64_t depth_count;             /* blocks of k; 1 when k is empty */
    bool a_kept;                     /* all of k's blocks of a stand in scratch: packed once for the passes over columns */
    bool b_kept;                     /* .. of b, for the passes over rows */
    int64_t a_at, b_at, c_at, bytes; /* where these are in scratch, and all of it: multiples of 64 */
} sc_gemm_blocks;

/* Of a valid descriptor in canonical form. */
sc_gemm_blocks sc_gemm_cut(const sc_gemm *canonical);
/* Of any valid one: how much scratch its execution is to be given, aligned to 64. */
int64_t sc_gemm_scratch_bytes(const sc_gemm *gemm);

#endif
