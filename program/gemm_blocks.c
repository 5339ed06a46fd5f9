#include "program/gemm_blocks.h"
#include "support/min.h"

/* In elements. DEPTH: terms for which tiles of rows and columns fit a core's first-level cache
 * together. BLOCK: packed a or b that still fits the last-level cache. */
enum {
    DEPTH = 768,
    BLOCK = 1 << 21,
    KEPT = 1 << 21,
    SKINNY_BLOCK = 1 << 16,
    BESIDE_ROWS = 1024,
    BESIDE_COLUMNS = 2048,
    ALIGN = 64
};

/* Skinny matmuls. PIECES: number of pieces to distribute over threads; a piece with fewer columns
 * or terms is not worth distributing. */
enum { PIECES = 16, LEAST_COLUMNS = 256, LEAST_TERMS = 32, STRIP_UNIT = 64, TERMS_UNIT = 8 };

static int64_t round_up(int64_t x, int64_t to)
{
    return (x + to - 1) / to * to;
}

/* Returns the size of equal parts, a multiple of `unit`, for the fewest parts of at most `most`. */
static int64_t even_part(int64_t size, int64_t most, int64_t unit)
{
    if (size <= most)
        return size;
    int64_t parts = (size + most - 1) / most;
    return round_up((size + parts - 1) / parts, unit);
}

/* True if c can hold intermediate sums: it has their dtype, and its old value can be added
 * first. */
static bool c_holds_sums(const sc_gemm *gemm)
{
    return gemm->dtypes[SC_GEMM_C] == gemm->sum && !(gemm->accumulate && gemm->step_count > 0);
}

/* True if b is contiguous along the role. */
static bool runs_along(const sc_gemm *gemm, sc_gemm_role role)
{
    int64_t dims = 0, stride = 0;
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        if (gemm->dims[i].role != role)
            continue;
        dims++;
        stride = gemm->dims[i].strides[SC_GEMM_B];
    }
    return dims == 1 && stride == 1;
}

static bool is_skinny(const sc_gemm *gemm, int64_t m, int64_t k)
{
    return gemm->sum == SC_DTYPE_f32 && m <= SC_GEMM_SKINNY && k > 0 && k <= BLOCK &&
           (runs_along(gemm, SC_GEMM_K) || runs_along(gemm, SC_GEMM_N));
}

static int64_t place(sc_gemm_blocks *blocks, int64_t elements, int64_t bytes)
{
    int64_t at = blocks->bytes;
    blocks->bytes += round_up(elements * bytes, ALIGN);
    return at;
}

/* m and n are those of all pieces: the parts of k, so the order of sums, are the whole's.
 *
 * Long contiguous reads use memory bandwidth best without prefetch hints. A strip of b that is
 * contiguous along k has them at any width. If b is contiguous along n, a strip is as wide as its
 * sums allow, and k is divided among threads instead. */
static void cut_strips(sc_gemm_blocks *blocks, const sc_gemm *gemm, int64_t m, int64_t n, int64_t k)
{
    int64_t most = SC_GEMM_STRIP / m / STRIP_UNIT * STRIP_UNIT;
    blocks->parts = 1;
    blocks->part = k;
    if (runs_along(gemm, SC_GEMM_K)) {
        blocks->columns = sc_min_i64(round_up((n + PIECES - 1) / PIECES, STRIP_UNIT), most);
        return;
    }
    blocks->columns = even_part(n, most, STRIP_UNIT);
    for (;;) {
        int64_t pieces = (n + blocks->columns - 1) / blocks->columns * blocks->batch,
                wanted = (PIECES + pieces - 1) / pieces;
        blocks->part = round_up((k + wanted - 1) / wanted, TERMS_UNIT);
        if (blocks->part < LEAST_TERMS)
            blocks->part = LEAST_TERMS;
        blocks->parts = (k + blocks->part - 1) / blocks->part;
        if (2 * pieces * blocks->parts >= PIECES || blocks->columns < 2 * LEAST_COLUMNS)
            return;
        blocks->columns = round_up(blocks->columns / 2, STRIP_UNIT);
    }
}

sc_gemm_blocks sc_gemm_cut(const sc_gemm *gemm)
{
    int64_t batch = sc_gemm_size(gemm, SC_GEMM_BATCH), m = sc_gemm_size(gemm, SC_GEMM_M),
            n = sc_gemm_size(gemm, SC_GEMM_N);
    int64_t k = sc_gemm_size(gemm, SC_GEMM_K), bytes = sc_dtypes[gemm->sum].bytes;
    sc_gemm_blocks blocks = {.batch = 1, .depth_count = 1};
    if (batch == 0 || m == 0 || n == 0)
        return blocks;
    const int64_t all_m = sc_gemm_whole(gemm, SC_GEMM_M), all_n = sc_gemm_whole(gemm, SC_GEMM_N);
    blocks.skinny = is_skinny(gemm, all_m, k);
    if (blocks.skinny) {
        blocks.depth = round_up(k, 16);
        blocks.batch = sc_min_i64(batch, 1 + SKINNY_BLOCK / (all_m * k));
        cut_strips(&blocks, gemm, all_m, all_n, k);
        blocks.a_at = place(&blocks, blocks.batch * m * blocks.depth, bytes);
        blocks.c_at =
            place(&blocks, blocks.parts > 1 ? blocks.batch * blocks.parts * m * n : 0, bytes);
        return blocks;
    }
    blocks.depth = even_part(k, DEPTH, 8);
    blocks.depth_count = k == 0 ? 1 : (k + blocks.depth - 1) / blocks.depth;
    blocks.beside = blocks.depth_count > 1 && !c_holds_sums(gemm);
    int64_t most = BLOCK / DEPTH / SC_GEMM_PAD * SC_GEMM_PAD;
    blocks.rows = even_part(m, blocks.beside ? BESIDE_ROWS : most, SC_GEMM_PAD);
    blocks.columns = even_part(n, blocks.beside ? BESIDE_COLUMNS : most, SC_GEMM_PAD);
    int64_t rows = sc_gemm_packed(blocks.rows), columns = sc_gemm_packed(blocks.columns),
            all = blocks.depth * blocks.depth_count;
    int64_t largest = rows > columns ? rows : columns;
    blocks.a_kept = k > 0 && blocks.columns < n && rows * all <= KEPT;
    blocks.b_kept = k > 0 && blocks.columns >= n && blocks.rows < m && columns * all <= KEPT;
    blocks.batch = sc_min_i64(batch, 1 + BLOCK / (largest * (blocks.depth > 0 ? blocks.depth : 1)));
    if (blocks.beside)
        blocks.batch = sc_min_i64(blocks.batch, 1 + BLOCK / (rows * columns));
    if (blocks.a_kept || blocks.b_kept)
        blocks.batch = 1;
    blocks.a_at = place(&blocks, blocks.batch * rows * (blocks.a_kept ? all : blocks.depth), bytes);
    blocks.b_at =
        place(&blocks, blocks.batch * columns * (blocks.b_kept ? all : blocks.depth), bytes);
    blocks.c_at = place(&blocks, blocks.beside ? blocks.batch * rows * columns : 0, bytes);
    return blocks;
}

int64_t sc_gemm_scratch_bytes(const sc_gemm *gemm)
{
    bool swapped;
    sc_gemm canonical = sc_gemm_canonical(gemm, &swapped);
    return sc_gemm_cut(&canonical).bytes;
}
