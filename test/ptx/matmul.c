/* wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"): D = A B
 * + D of 64 x N, a warp of the group's four computes rows 16 (warp % 4) on. Matmuls read shared
 * memory when they are issued, or as late as somebody waits for them. */
#include <stdlib.h>

#include "support/float16.h"
#include "test/ptx/async.h"

enum {
    ROWS = 16,
    DEPTH = 16,
    MOST_COLUMNS = 256,
    ELEMENT = 2,
    CHUNK = 8 /* elements of 16 bytes */
};

/* ---- registers ---- */

static void mark_registers(sc_ptx_warp *w, const sc_ptx_inst *i, int by)
{
    for (uint32_t k = 0; k < i->out_count; k++)
        w->busy[i->out[k].reg] = (uint16_t)(w->busy[i->out[k].reg] + by);
    for (uint32_t k = 0; k < i->in_count; k++) {
        if (i->in[k].reg != SC_PTX_CONSTANT && i->in[k].bytes == 4)
            w->busy[i->in[k].reg] = (uint16_t)(w->busy[i->in[k].reg] + by);
    }
}

bool sc_ptx_registers_are_free(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    const sc_ptx_operand *all[2] = {i->out, i->in};
    uint32_t counts[2] = {i->out_count, i->in_count};
    for (uint32_t side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < counts[side]; k++) {
            if (all[side][k].reg == SC_PTX_CONSTANT || w->busy[all[side][k].reg] == 0)
                continue;
            sc_ptx_fail(w, i, 0, "it touches a register of a wgmma that is under way");
            return false;
        }
    }
    return true;
}

void sc_ptx_matmul_begin_warp(sc_ptx_warp *w)
{
    const sc_ptx_module *m = w->b->module;
    w->product_groups = 0;
    memset(w->busy, 0, m->reg_count * sizeof *w->busy);
    memset(w->is_fresh, 1,
           m->reg_count * sizeof *w->is_fresh); /* the first wgmma has a fence, too */
    memset(w->bulk_groups, 0, sizeof w->bulk_groups);
}

/* ---- matrices in shared memory ---- */

/* PTX ISA, "Matrix Descriptor Format", and the canonical layouts of "Strides": in chunks of 8
 * elements, whose rows are 8 deep. `across` counts along the dim that chunks lie in (K where the
 * matrix is K-major, else M or N), `along` the other. */
static uint64_t chunk_address(uint64_t descriptor, bool is_k_major, uint32_t across, uint32_t along)
{
    static const uint32_t widths[4] = {1, 8, 4, 2}; /* chunks of a row of the swizzle's pattern */
    uint64_t start = (descriptor & 0x3fff) << 4, lead = (descriptor >> 16 & 0x3fff) << 4,
             stride = (descriptor >> 32 & 0x3fff) << 4;
    uint32_t width = widths[descriptor >> 62];
    uint64_t mask = width - 1, at;
    if (width == 1 && is_k_major) {
        at = start + across * lead + along % 8 * 16 + along / 8 * stride;
    } else if (width == 1) {
        at = start + across * stride + along % 8 * 16 + along / 8 * lead;
    } else {
        uint64_t row = (uint64_t)width * 16;
        at = start + across % width * 16 + along % 8 * row + along / 8 * stride +
             across / width * lead;
    }
    return at ^ (at >> 7 & mask) << 4;
}

/* matrix[r][k], r < rows from `first` on, is what the descriptor describes. */
static bool read_matrix(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_actor *actor,
                        uint64_t descriptor, bool is_k_major, uint32_t first, uint32_t rows,
                        uint16_t (*matrix)[DEPTH])
{
    if ((descriptor >> 49 & 7) != 0) {
        sc_ptx_fail(w, i, 0, "descriptors with a base offset are not known");
        return false;
    }
    uint32_t across = is_k_major ? DEPTH / CHUNK : rows / CHUNK, along = is_k_major ? rows : DEPTH;
    for (uint32_t c = 0; c < across; c++) {
        for (uint32_t r = 0; r < along; r++) {
            uint16_t chunk[CHUNK];
            uint64_t at = is_k_major ? chunk_address(descriptor, true, c, first + r)
                                     : chunk_address(descriptor, false, first / CHUNK + c, r);
            const unsigned char *from =
                sc_ptx_read_as(w, i, 0, actor, SC_PTX_SHARED, at, sizeof chunk);
            if (from == NULL)
                return false;
            memcpy(chunk, from, sizeof chunk);
            for (uint32_t n = 0; n < CHUNK; n++) {
                if (is_k_major)
                    matrix[r][c * CHUNK + n] = chunk[n];
                else
                    matrix[c * CHUNK + n][r] = chunk[n];
            }
        }
    }
    return true;
}

/* ---- fragments ---- */

static double value_of(const sc_ptx_inst *i, uint16_t bits)
{
    return (double)(i->type == SC_PTX_bf16 ? sc_f32_of_bf16(bits) : sc_f32_of_f16(bits));
}

/* "Matrix fragments for wgmma.mma_async.m64nNk16": as those of mma.m16n8k16, next to each other. */
static void unpack_a(const sc_ptx_product *p, uint16_t (*a)[DEPTH])
{
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        for (uint32_t k = 0; k < 8; k++)
            a[l / 4 + (k & 2 ? 8 : 0)][l % 4 * 2 + (k & 1) + (k >= 4 ? 8 : 0)] =
                (uint16_t)(p->a[k / 2][l] >> (16 * (k & 1)));
    }
}

static void add_products(const sc_ptx_inst *i, uint16_t (*a)[DEPTH], uint16_t (*b)[DEPTH],
                         uint32_t columns, double (*sums)[MOST_COLUMNS])
{
    double sign =
        ((i->what & SC_PTX_MATMUL_NEGATES_A) != 0) != ((i->what & SC_PTX_MATMUL_NEGATES_B) != 0)
            ? -1.0
            : 1.0;
    double wide[MOST_COLUMNS][DEPTH];
    for (uint32_t n = 0; n < columns; n++) {
        for (uint32_t k = 0; k < DEPTH; k++)
            wide[n][k] = value_of(i, b[n][k]);
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        for (uint32_t k = 0; k < DEPTH; k++) {
            double x = sign * value_of(i, a[r][k]);
            for (uint32_t n = 0; n < columns; n++)
                sums[r][n] += x * wide[n][k];
        }
    }
}

/* D's register k of a lane: columns 8 (k / 4) + 2 (lane % 4) + k % 2, row lane / 4 (+ 8). */
static uint32_t d_row(uint32_t lane, uint32_t k)
{
    return lane / 4 + (k & 2 ? 8 : 0);
}

static uint32_t d_column(uint32_t lane, uint32_t k)
{
    return k / 4 * 8 + lane % 4 * 2 + (k & 1);
}

static void compute(sc_ptx_warp *w, sc_ptx_product *p)
{
    const sc_ptx_inst *i = p->inst;
    static _Thread_local double sums[ROWS][MOST_COLUMNS];
    uint16_t a[ROWS][DEPTH], b[MOST_COLUMNS][DEPTH];
    uint32_t columns = i->out_count * 2u;
    const sc_ptx_actor agent = {
        .self = sc_ptx_matmul_agent(w), .clock = p->clock, .known = p->known, .is_async = true};
    bool is_shared = (i->what & SC_PTX_MATMUL_A_IS_SHARED) != 0;
    if (!is_shared)
        unpack_a(p, a);
    if ((is_shared &&
         !read_matrix(w, i, &agent, p->desc_a, (i->what & SC_PTX_MATMUL_A_IS_M_MAJOR) == 0,
                      w->index % 4 * ROWS, ROWS, a)) ||
        !read_matrix(w, i, &agent, p->desc_b, (i->what & SC_PTX_MATMUL_B_IS_N_MAJOR) == 0, 0,
                     columns, b))
        return;
    for (uint32_t k = 0; k < i->out_count; k++) {
        const float *d = (const float *)(const void *)(w->registers + i->out[k].at);
        for (uint32_t l = 0; l < SC_PTX_LANES; l++)
            sums[d_row(l, k)][d_column(l, k)] = p->accumulates ? (double)d[l] : 0;
    }
    add_products(i, a, b, columns, sums);
    uint32_t active = w->active;
    w->active = w->defined = SC_PTX_ALL;
    for (uint32_t k = 0; k < i->out_count; k++) {
        float r[SC_PTX_LANES];
        for (uint32_t l = 0; l < SC_PTX_LANES; l++)
            r[l] = sc_ptx_rounded_sum(w->b, sums[d_row(l, k)][d_column(l, k)]);
        sc_ptx_out(w, i, k, r);
        w->is_fresh[i->out[k].reg] = false;
    }
    w->active = active;
    p->is_done = true;
}

/* ---- instructions ---- */

static sc_ptx_product *add(sc_ptx_warp *w)
{
    if (w->product_count == w->product_room) {
        w->product_room = 2 * w->product_room + 16;
        w->products = realloc(w->products, w->product_room * sizeof *w->products);
        if (w->products == NULL)
            abort();
    }
    sc_ptx_product *p = &w->products[w->product_count++];
    memset(p, 0, sizeof *p);
    return p;
}

/* All registers of matmuls were written in front of the last wgmma.fence, or by matmuls. */
static bool are_fenced(sc_ptx_warp *w, const sc_ptx_inst *i, bool accumulates)
{
    for (uint32_t k = 0; k < i->out_count; k++) {
        if (accumulates && w->busy[i->out[k].reg] == 0 && w->set[i->out[k].reg] != SC_PTX_ALL) {
            sc_ptx_fail(w, i, 0, "it adds to a register that nobody wrote");
            return false;
        }
        if (w->is_fresh[i->out[k].reg]) {
            sc_ptx_fail(w, i, 0, "a register of D was written behind the last wgmma.fence");
            return false;
        }
    }
    for (uint32_t k = 0; k < i->in_count; k++) {
        if (i->in[k].bytes == 4 && i->in[k].reg != SC_PTX_CONSTANT && w->is_fresh[i->in[k].reg]) {
            sc_ptx_fail(w, i, 0, "a register of A was written behind the last wgmma.fence");
            return false;
        }
    }
    return true;
}

static bool uniform(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint64_t *out)
{
    *out = sc_ptx_in_lane(w, i, k, 0);
    for (uint32_t l = 1; l < SC_PTX_LANES; l++) {
        if (sc_ptx_in_lane(w, i, k, l) != *out) {
            sc_ptx_fail(w, i, l, "its descriptor is another one than lane 0's");
            return false;
        }
    }
    return true;
}

void sc_ptx_matmul(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    sc_ptx_async *all = w->b->async;
    bool is_shared = (i->what & SC_PTX_MATMUL_A_IS_SHARED) != 0;
    uint32_t at_b = is_shared ? 1 : 4, scale = sc_ptx_in_bits(w, i, at_b + 1);
    if (scale != 0 && scale != SC_PTX_ALL) {
        sc_ptx_fail(w, i, 0, "some lanes add to D, and others do not");
        return;
    }
    if (!are_fenced(w, i, scale != 0))
        return;
    sc_ptx_product *p = add(w);
    p->inst = i;
    p->group = w->product_groups;
    p->accumulates = scale != 0;
    p->clock = ++all->matmuls[w->index];
    if ((is_shared && !uniform(w, i, 0, &p->desc_a)) || !uniform(w, i, at_b, &p->desc_b))
        return;
    for (uint32_t k = 0; k < 4 && !is_shared; k++)
        memcpy(p->a[k], sc_ptx_in(w, i, k), sizeof p->a[k]);
    p->known = malloc(all->agents * sizeof *p->known);
    if (p->known == NULL)
        abort();
    memcpy(p->known, sc_ptx_common(w), all->agents * sizeof *p->known);
    mark_registers(w, i, 1);
    all->matmul_trail[w->index] = all->matmul_trail[w->index] * 1099511628211u + i->line;
    if (w->b->launch->copies == SC_MACHINE_COPY_AT_ISSUE)
        compute(w, p);
}

void sc_ptx_matmul_fence(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)i;
    memset(w->is_fresh, 0, w->b->module->reg_count * sizeof *w->is_fresh);
}

void sc_ptx_matmul_commit(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)i;
    w->product_groups++;
}

/* All but the newest `offset` groups are done: what they read may be written to by whoever learns
 * of it from a lane of this warp. */
void sc_ptx_matmul_wait(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    const sc_ptx_async *all = w->b->async;
    uint32_t kept = 0, clock = 0;
    for (uint32_t k = 0; k < w->product_count; k++) {
        sc_ptx_product *p = &w->products[k];
        if (p->group + i->offset >= w->product_groups || w->b->failed) {
            w->products[kept++] = *p;
            continue;
        }
        if (!p->is_done)
            compute(w, p);
        clock = p->clock;
        mark_registers(w, p->inst, -1);
        free(p->known);
    }
    w->product_count = kept;
    for (uint32_t l = 0; l < SC_PTX_LANES && clock > 0; l++) {
        size_t row = (size_t)(w->index * SC_PTX_LANES + l) * all->agents;
        all->known[row + sc_ptx_matmul_agent(w) - 1] = clock;
    }
}
