/* GEMMs with our own kernels: any descriptor, with any dtypes and strides.
 *
 * The team goes through the passes together (program/gemm_blocks.h: a pass covers some batches,
 * rows and columns of c and one block of k). In each pass it packs the blocks of a and b, then
 * computes the parts of c. Which thread takes which piece does not affect the result: pieces write
 * disjoint memory, and every element's terms are added in a fixed order. A pass ends when all its
 * pieces are done. */
#include "runtime/cpu/gemm_types.h"
#include "support/min.h"

enum { PART_ROWS = 192, PART_COLUMNS = 256, PACK_TILES = 8, SMALL_FLOPS = 1 << 17 };

/* State shared by all passes. */
typedef struct plain_run {
    const sc_gemm_plan *plan;
    const char *arrays[SC_GEMM_ARRAYS]; /* a, b, c, tensors of steps */
    char *a, *b, *beside;               /* scratch memory */
    char *c;
} plain_run;

typedef struct plain_pass {
    int64_t batch, batches;
    int64_t row, rows, column, columns;
    int64_t term, depth;
    bool first, last;
    bool packs_a, packs_b; /* false: the block that an earlier pass packed is still there */
} plain_pass;

static int64_t pieces(int64_t size, int64_t piece)
{
    return (size + piece - 1) / piece;
}

static int64_t round_up(int64_t x, int64_t to)
{
    return pieces(x, to) * to;
}

static int64_t bytes_of(const sc_gemm_plan *plan, int array)
{
    sc_dtype dtype = array < SC_GEMM_OPERANDS ? plan->gemm.dtypes[array]
                                              : plan->gemm.steps[array - SC_GEMM_OPERANDS].dtype;
    return sc_dtypes[dtype].bytes;
}

/* Returns an array's address for one batch; NULL stays NULL. */
static const char *of_batch(const plain_run *run, int array, int64_t batch)
{
    const char *data = run->arrays[array];
    return data == NULL ? NULL
                        : data + sc_gemm_at(&run->plan->walks[SC_GEMM_BATCH][array], batch) *
                                     bytes_of(run->plan, array);
}

static sc_gemm_lines lines_of(const plain_run *run, sc_gemm_operand operand, int64_t batch)
{
    const sc_gemm_plan *plan = run->plan;
    return (sc_gemm_lines){of_batch(run, (int)operand, batch), plan->gemm.dtypes[operand],
                           plan->walks[operand == SC_GEMM_A ? SC_GEMM_M : SC_GEMM_N][operand],
                           plan->walks[SC_GEMM_K][operand]};
}

/* Returns the bytes of one batch's packed block: all lines of a pass, `depth` terms each. */
static int64_t block_bytes(const sc_gemm_plan *plan, int64_t lines, int64_t depth)
{
    return sc_gemm_packed(lines) * depth * sc_dtypes[plan->gemm.sum].bytes;
}

/* Return the address of a batch's packed block of a or b. If blocks are kept, those of all k are
 * there. */
static char *packed_a(const plain_run *run, const plain_pass *pass, int64_t batch)
{
    const sc_gemm_blocks *blocks = &run->plan->blocks;
    int64_t before = blocks->a_kept ? pass->term / blocks->depth *
                                          block_bytes(run->plan, blocks->rows, blocks->depth)
                                    : 0;
    return run->a + before + batch * block_bytes(run->plan, pass->rows, pass->depth);
}

static char *packed_b(const plain_run *run, const plain_pass *pass, int64_t batch)
{
    const sc_gemm_blocks *blocks = &run->plan->blocks;
    int64_t before = blocks->b_kept ? pass->term / blocks->depth *
                                          block_bytes(run->plan, blocks->columns, blocks->depth)
                                    : 0;
    return run->b + before + batch * block_bytes(run->plan, pass->columns, pass->depth);
}

/* Return the number of packing pieces of a and b in one batch. */
static int64_t pack_pieces_a(const sc_gemm_plan *plan, const plain_pass *pass)
{
    return pass->packs_a ? pieces(pass->rows, PACK_TILES * plan->kernels->rows) : 0;
}

static int64_t pack_pieces_b(const sc_gemm_plan *plan, const plain_pass *pass)
{
    return pass->packs_b ? pieces(pass->columns, PACK_TILES * plan->kernels->columns) : 0;
}

/* Packs piece i: some tiles of a batch's block of a or b. */
static void pack_piece(const plain_run *run, const plain_pass *pass, int64_t i)
{
    const sc_gemm_plan *plan = run->plan;
    const sc_gemm_kernels *kernels = plan->kernels;
    int64_t piece_rows = PACK_TILES * kernels->rows, piece_columns = PACK_TILES * kernels->columns;
    int64_t of_a = pack_pieces_a(plan, pass), of_b = pack_pieces_b(plan, pass);
    int64_t batch = i / (of_a + of_b), piece = i % (of_a + of_b),
            bytes = sc_dtypes[plan->gemm.sum].bytes;
    if (piece < of_a) {
        sc_gemm_lines lines = lines_of(run, SC_GEMM_A, pass->batch + batch);
        int64_t at = piece * piece_rows, count = sc_min_i64(piece_rows, pass->rows - at);
        char *out = packed_a(run, pass, batch) + at * pass->depth * bytes;
        kernels->pack_rows(&lines, pass->row + at, count, pass->term, pass->depth, out);
    } else {
        sc_gemm_lines lines = lines_of(run, SC_GEMM_B, pass->batch + batch);
        int64_t at = (piece - of_a) * piece_columns,
                count = sc_min_i64(piece_columns, pass->columns - at);
        char *out = packed_b(run, pass, batch) + at * pass->depth * bytes;
        kernels->pack_columns(&lines, pass->column + at, count, pass->term, pass->depth, out);
    }
}

static int64_t pack_pieces(const sc_gemm_plan *plan, const plain_pass *pass)
{
    return pass->batches * (pack_pieces_a(plan, pass) + pack_pieces_b(plan, pass));
}

/* Returns the rows of a part of c: about PART_ROWS, with parts of a pass as equal as whole tiles
 * allow. */
static int64_t part_rows(const sc_gemm_plan *plan, const plain_pass *pass)
{
    return round_up(pieces(pass->rows, pieces(pass->rows, PART_ROWS)), plan->kernels->rows);
}

static int64_t multiply_pieces(const sc_gemm_plan *plan, const plain_pass *pass)
{
    return pass->batches * pieces(pass->rows, part_rows(plan, pass)) *
           pieces(pass->columns, PART_COLUMNS);
}

static void set_steps(const plain_run *run, int64_t batch, const void **steps)
{
    for (uint32_t s = 0; s < run->plan->gemm.step_count; s++)
        steps[s] = of_batch(run, SC_GEMM_OPERANDS + (int)s, batch);
}

static void multiply_piece(const plain_run *run, const plain_pass *pass, int64_t i)
{
    const sc_gemm_plan *plan = run->plan;
    int64_t rows = part_rows(plan, pass), along = pieces(pass->columns, PART_COLUMNS),
            down = pieces(pass->rows, rows);
    int64_t batch = i / (down * along), row = i / along % down * rows,
            column = i % along * PART_COLUMNS;
    int64_t bytes = sc_dtypes[plan->gemm.sum].bytes, c_bytes = bytes_of(plan, SC_GEMM_C);
    sc_gemm_block block = {
        .plan = plan,
        .a = packed_a(run, pass, batch) + row * pass->depth * bytes,
        .b = packed_b(run, pass, batch) + column * pass->depth * bytes,
        .depth = pass->depth,
        .row = pass->row + row,
        .rows = sc_min_i64(rows, pass->rows - row),
        .column = pass->column + column,
        .columns = sc_min_i64(PART_COLUMNS, pass->columns - column),
        .c = run->c +
             sc_gemm_at(&plan->walks[SC_GEMM_BATCH][SC_GEMM_C], pass->batch + batch) * c_bytes,
        .first = pass->first,
        .last = pass->last,
    };
    set_steps(run, pass->batch + batch, block.steps);
    if (plan->blocks.beside) {
        block.beside_stride = round_up(plan->blocks.columns, SC_GEMM_PAD);
        int64_t of_one = plan->blocks.rows * block.beside_stride;
        block.beside = run->beside + (batch * of_one + row * block.beside_stride + column) * bytes;
    }
    plan->kernels->multiply(&block);
}

/* Advances to the next pass, k fastest, so that partial sums are kept briefly. False after the
 * last. */
static bool next_pass(const sc_gemm_plan *plan, plain_pass *pass, bool begin)
{
    const sc_gemm_blocks *blocks = &plan->blocks;
    const int64_t *sizes = plan->sizes;
    if (begin)
        *pass = (plain_pass){0};
    else if ((pass->term += blocks->depth) >= sizes[SC_GEMM_K]) {
        pass->term = 0;
        if ((pass->column += blocks->columns) >= sizes[SC_GEMM_N]) {
            pass->column = 0;
            if ((pass->row += blocks->rows) >= sizes[SC_GEMM_M]) {
                pass->row = 0;
                if ((pass->batch += blocks->batch) >= sizes[SC_GEMM_BATCH])
                    return false;
            }
        }
    }
    pass->batches = sc_min_i64(blocks->batch, sizes[SC_GEMM_BATCH] - pass->batch);
    pass->rows = sc_min_i64(blocks->rows, sizes[SC_GEMM_M] - pass->row);
    pass->columns = sc_min_i64(blocks->columns, sizes[SC_GEMM_N] - pass->column);
    pass->depth = sc_min_i64(blocks->depth, sizes[SC_GEMM_K] - pass->term);
    pass->first = pass->term == 0;
    pass->last = pass->term + pass->depth >= sizes[SC_GEMM_K];
    pass->packs_a = !blocks->a_kept || pass->column == 0;
    pass->packs_b = !blocks->b_kept || pass->row == 0;
    return true;
}

/* Runs on every thread of the team. */
static void run_passes(const plain_run *run)
{
    plain_pass pass;
    for (bool more = next_pass(run->plan, &pass, true); more;
         more = next_pass(run->plan, &pass, false)) {
        int64_t packs = pack_pieces(run->plan, &pass), parts = multiply_pieces(run->plan, &pass);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < packs; i++)
            pack_piece(run, &pass, i);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < parts; i++)
            multiply_piece(run, &pass, i);
    }
}

/* ---- skinny GEMMs: few rows ---- */

/* True if rows of a are read in place, without a copy. */
static bool reads_a(const sc_gemm_plan *plan)
{
    return plan->gemm.dtypes[SC_GEMM_A] == SC_DTYPE_f32 &&
           sc_gemm_runs(&plan->walks[SC_GEMM_K][SC_GEMM_A]) &&
           plan->walks[SC_GEMM_M][SC_GEMM_A].offsets == NULL;
}

static void copy_lines(const plain_run *run, int64_t batch, int64_t i)
{
    const sc_gemm_plan *plan = run->plan;
    int64_t m = plan->sizes[SC_GEMM_M];
    sc_gemm_lines lines = lines_of(run, SC_GEMM_A, batch + i / m);
    plan->kernels->copy_line(&lines, i % m, plan->sizes[SC_GEMM_K], plan->blocks.depth,
                             run->a + i * plan->blocks.depth * (int64_t)sizeof(float));
}

/* Returns the strip of batch + within; the caller sets columns and terms. */
static sc_gemm_strip strip_of(const plain_run *run, int64_t batch, int64_t within)
{
    const sc_gemm_plan *plan = run->plan;
    const sc_gemm_blocks *blocks = &plan->blocks;
    int64_t m = plan->sizes[SC_GEMM_M];
    sc_gemm_strip strip = {
        .plan = plan,
        .a = reads_a(plan) ? (const float *)(const void *)of_batch(run, SC_GEMM_A, batch + within)
                           : (const float *)(const void *)run->a + within * m * blocks->depth,
        .a_stride = reads_a(plan) ? plan->walks[SC_GEMM_M][SC_GEMM_A].stride : blocks->depth,
        .b = of_batch(run, SC_GEMM_B, batch + within),
        .parts = blocks->parts == 1 ? NULL
                                    : (float *)(void *)run->beside +
                                          within * blocks->parts * m * plan->sizes[SC_GEMM_N],
        .c = run->c + sc_gemm_at(&plan->walks[SC_GEMM_BATCH][SC_GEMM_C], batch + within) *
                          bytes_of(plan, SC_GEMM_C),
    };
    set_steps(run, batch + within, strip.steps);
    return strip;
}

static void multiply_strip(const plain_run *run, int64_t batch, int64_t i)
{
    const sc_gemm_plan *plan = run->plan;
    const sc_gemm_blocks *blocks = &plan->blocks;
    int64_t strips = pieces(plan->sizes[SC_GEMM_N], blocks->columns);
    sc_gemm_strip strip = strip_of(run, batch, i / (strips * blocks->parts));
    strip.column = i % strips * blocks->columns;
    strip.columns = sc_min_i64(blocks->columns, plan->sizes[SC_GEMM_N] - strip.column);
    strip.term = i / strips % blocks->parts * blocks->part;
    strip.terms = sc_min_i64(blocks->part, plan->sizes[SC_GEMM_K] - strip.term);
    plan->kernels->multiply_strip(&strip);
}

static void add_parts(const plain_run *run, int64_t batch, int64_t i)
{
    const sc_gemm_plan *plan = run->plan;
    int64_t n = plan->sizes[SC_GEMM_N], strips = pieces(n, PART_COLUMNS);
    sc_gemm_strip strip = strip_of(run, batch, i / strips);
    strip.column = i % strips * PART_COLUMNS;
    strip.columns = sc_min_i64(PART_COLUMNS, n - strip.column);
    plan->kernels->add_parts(&strip);
}

static void run_strips(const plain_run *run)
{
    const sc_gemm_plan *plan = run->plan;
    const sc_gemm_blocks *blocks = &plan->blocks;
    int64_t m = plan->sizes[SC_GEMM_M], n = plan->sizes[SC_GEMM_N];
    for (int64_t batch = 0; batch < plan->sizes[SC_GEMM_BATCH]; batch += blocks->batch) {
        int64_t batches = sc_min_i64(blocks->batch, plan->sizes[SC_GEMM_BATCH] - batch);
        int64_t strips = batches * pieces(n, blocks->columns) * blocks->parts,
                sums = batches * pieces(n, PART_COLUMNS);
        if (!reads_a(plan)) {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < batches * m; i++)
                copy_lines(run, batch, i);
        }
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < strips; i++)
            multiply_strip(run, batch, i);
        if (blocks->parts > 1) {
#pragma omp for schedule(static)
            for (int64_t i = 0; i < sums; i++)
                add_parts(run, batch, i);
        }
    }
}

static void set_arrays(plain_run *run, const void *const *steps)
{
    const sc_gemm *gemm = &run->plan->gemm;
    run->arrays[SC_GEMM_C] = run->c;
    for (uint32_t s = 0; s < gemm->step_count; s++)
        run->arrays[SC_GEMM_OPERANDS + s] =
            sc_gemm_step_has_tensor(gemm->steps[s].kind) ? steps[s] : NULL;
}

static void sum_operand(const plain_run *run, uint32_t s)
{
    const sc_gemm_plan *plan = run->plan;
    const sc_gemm_step *step = &plan->gemm.steps[s];
    sc_gemm_operand operand = sc_gemm_step_sums(step->kind);
    int role = operand == SC_GEMM_A ? SC_GEMM_M : SC_GEMM_N, array = SC_GEMM_OPERANDS + (int)s;
    int64_t lines = plan->sizes[role], depth = plan->sizes[SC_GEMM_K],
            count = plan->sizes[SC_GEMM_BATCH] * lines;
#pragma omp parallel for if (count > SMALL_FLOPS / (depth + 1))
    for (int64_t i = 0; i < count; i++) {
        sc_gemm_lines of = lines_of(run, operand, i / lines);
        void *out = (void *)(uintptr_t)of_batch(run, array, i / lines);
        plan->kernels->sum_line(&of, i % lines, depth, step->dtype, out,
                                sc_gemm_at(&plan->walks[role][array], i % lines));
    }
}

void sc_gemm_sum_plain(const sc_gemm_plan *plan, const void *a, const void *b,
                       const void *const *steps)
{
    plain_run run = {.plan = plan, .arrays = {[SC_GEMM_A] = a, [SC_GEMM_B] = b}};
    set_arrays(&run, steps);
    for (uint32_t s = 0; s < plan->gemm.step_count; s++) {
        if (sc_gemm_step_sums(plan->gemm.steps[s].kind) != SC_GEMM_OPERANDS)
            sum_operand(&run, s);
    }
}

void sc_gemm_finish_plain(const sc_gemm_plan *plan, void *c, const void *const *steps,
                          uint32_t first)
{
    plain_run run = {.plan = plan, .c = c};
    int64_t m = plan->sizes[SC_GEMM_M], rows = m == 0 ? 0 : pieces(m, PART_ROWS),
            count = plan->sizes[SC_GEMM_BATCH] * rows;
    set_arrays(&run, steps);
#pragma omp parallel for if (sc_gemm_flops(&plan->gemm) > SMALL_FLOPS)
    for (int64_t i = 0; i < count; i++) {
        int64_t batch = i / rows, row = i % rows * PART_ROWS;
        sc_gemm_block block = {.plan = plan,
                               .row = row,
                               .rows = sc_min_i64(PART_ROWS, m - row),
                               .columns = plan->sizes[SC_GEMM_N],
                               .c = run.c +
                                    sc_gemm_at(&plan->walks[SC_GEMM_BATCH][SC_GEMM_C], batch) *
                                        bytes_of(plan, SC_GEMM_C)};
        set_steps(&run, batch, block.steps);
        plan->kernels->finish(&block, first);
    }
}

void sc_gemm_run_plain(const sc_gemm_plan *plan, const void *a, const void *b, void *c,
                       const void *const *steps, void *scratch)
{
    plain_run run = {.plan = plan, .c = c};
    const sc_gemm_blocks *blocks = &plan->blocks;
    if (blocks->batch == 0 || sc_gemm_extent(&plan->gemm, SC_GEMM_C) == 0)
        return;
    run.arrays[SC_GEMM_A] = a;
    run.arrays[SC_GEMM_B] = b;
    set_arrays(&run, steps);
    run.a = (char *)scratch + blocks->a_at;
    run.b = (char *)scratch + blocks->b_at;
    run.beside = (char *)scratch + blocks->c_at;
#pragma omp parallel if (sc_gemm_flops(&plan->gemm) > SMALL_FLOPS)
    {
        if (blocks->skinny)
            run_strips(&run);
        else
            run_passes(&run);
    }
}
