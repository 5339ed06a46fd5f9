/* Vector clocks of agents, where mbarriers order accesses (async.h). */
#include <stdlib.h>

#include "test/ptx/async.h"

static uint32_t *row_of(const sc_ptx_warp *w, uint32_t lane)
{
    const sc_ptx_async *a = w->b->async;
    return a->known + (size_t)(w->index * SC_PTX_LANES + lane) * a->agents;
}

bool sc_ptx_async_new(sc_ptx_block *b)
{
    sc_ptx_async *a = calloc(1, sizeof *a);
    b->async = a;
    if (a == NULL)
        return false;
    a->threads = b->warp_count * SC_PTX_LANES;
    a->agents = a->threads + b->warp_count + 1;
    a->known = calloc((size_t)a->threads * a->agents, sizeof *a->known);
    a->fences = calloc(a->threads, sizeof *a->fences);
    a->matmuls = calloc(b->warp_count, sizeof *a->matmuls);
    a->common = calloc(a->agents, sizeof *a->common);
    a->stamps = calloc(b->all_shared + 1u, sizeof *a->stamps);
    a->warp_registers = calloc(b->warp_count, sizeof *a->warp_registers);
    a->matmul_trail = calloc(b->warp_count, sizeof *a->matmul_trail);
    return a->known != NULL && a->fences != NULL && a->matmuls != NULL && a->common != NULL &&
           a->stamps != NULL && a->warp_registers != NULL && a->matmul_trail != NULL;
}

static void forget_objects(sc_ptx_block *b)
{
    sc_ptx_async *a = b->async;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        for (uint32_t n = 0; n < b->warps[k].product_count; n++)
            free(b->warps[k].products[n].known);
        b->warps[k].product_count = 0;
    }
    for (uint32_t k = 0; k < a->mbarrier_count; k++) {
        free(a->mbarriers[k].arriving);
        free(a->mbarriers[k].done);
    }
    for (uint32_t k = 0; k < a->bulk_count; k++)
        free(a->bulks[k].known);
    a->mbarrier_count = a->bulk_count = 0;
}

void sc_ptx_async_free(sc_ptx_block *b)
{
    sc_ptx_async *a = b->async;
    if (a == NULL)
        return;
    forget_objects(b);
    free(a->known);
    free(a->fences);
    free(a->matmuls);
    free(a->common);
    free(a->stamps);
    free(a->warp_registers);
    free(a->matmul_trail);
    free(a->mbarriers);
    free(a->bulks);
    free(a);
}

/* Clocks go on from 1, so that 0 is what nobody did. */
void sc_ptx_async_begin_block(sc_ptx_block *b)
{
    sc_ptx_async *a = b->async;
    forget_objects(b);
    memset(a->known, 0, (size_t)a->threads * a->agents * sizeof *a->known);
    memset(a->stamps, 0, b->all_shared * sizeof *a->stamps);
    memset(a->fences, 0, a->threads * sizeof *a->fences);
    a->copies = 1;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        a->matmuls[k] = 1;
        a->matmul_trail[k] = 0;
        for (uint32_t l = 0; l < SC_PTX_LANES; l++)
            row_of(&b->warps[k], l)[k * SC_PTX_LANES + l] = 1;
        /* a warp begins with what ptxas gives it: the most that all warps can have at once */
        uint32_t most = 65536 / a->threads / 8 * 8;
        a->warp_registers[k] = most > 248 ? 248 : most;
    }
    for (uint32_t k = 0; k < b->warp_count; k++)
        sc_ptx_matmul_begin_warp(&b->warps[k]);
}

void sc_ptx_async_end_block(sc_ptx_block *b)
{
    const sc_ptx_async *a = b->async;
    if (a->bulk_count > 0) {
        const sc_ptx_bulk *k = &a->bulks[0];
        sc_ptx_fail(&b->warps[k->warp], k->inst, k->lane, "it is under way when the block ends");
    }
    for (uint32_t k = 0; k < b->warp_count; k++) {
        sc_ptx_warp *w = &b->warps[k];
        if (w->product_count > 0)
            sc_ptx_fail(w, w->products[0].inst, 0, "it is under way when the block ends");
        if (a->matmul_trail[k] != a->matmul_trail[k / 4 * 4])
            sc_ptx_fail(w, &b->module->code.data[b->function->first], 0,
                        "warps %u and %u of one warpgroup did not do the same matmuls", k / 4 * 4,
                        k);
    }
}

/* ---- agents ---- */

sc_ptx_actor sc_ptx_thread(const sc_ptx_warp *w, uint32_t lane)
{
    uint32_t thread = w->index * SC_PTX_LANES + lane;
    if (w->b->async == NULL)
        return (sc_ptx_actor){.self = thread + 1};
    const uint32_t *row = row_of(w, lane);
    return (sc_ptx_actor){.self = thread + 1, .clock = row[thread], .known = row};
}

uint32_t sc_ptx_matmul_agent(const sc_ptx_warp *w)
{
    return w->b->async->threads + w->index + 1;
}

uint32_t sc_ptx_bulk_agent(const sc_ptx_block *b)
{
    return b->async->agents;
}

bool sc_ptx_knows(const sc_ptx_actor *a, uint32_t agent, uint32_t clock)
{
    return a->known != NULL && agent > 0 && clock > 0 && a->known[agent - 1] >= clock;
}

static void join(uint32_t *into, const uint32_t *from, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++)
        into[k] = into[k] > from[k] ? into[k] : from[k];
}

void sc_ptx_release(sc_ptx_warp *w, uint32_t lane, uint32_t *into)
{
    uint32_t *row = row_of(w, lane);
    join(into, row, w->b->async->agents);
    row[w->index * SC_PTX_LANES + lane]++;
}

void sc_ptx_acquire(sc_ptx_warp *w, uint32_t lane, const uint32_t *from)
{
    uint32_t *row = row_of(w, lane), self = w->index * SC_PTX_LANES + lane, clock = row[self];
    join(row, from, w->b->async->agents);
    row[self] = clock;
}

void sc_ptx_join_lanes(sc_ptx_warp *w)
{
    sc_ptx_async *a = w->b->async;
    if (a == NULL)
        return;
    memset(a->common, 0, a->agents * sizeof *a->common);
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        join(a->common, row_of(w, l), a->agents);
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        memcpy(row_of(w, l), a->common, a->agents * sizeof *a->common);
        row_of(w, l)[w->index * SC_PTX_LANES + l]++;
    }
}

const uint32_t *sc_ptx_common(sc_ptx_warp *w)
{
    sc_ptx_async *a = w->b->async;
    memcpy(a->common, row_of(w, 0), a->agents * sizeof *a->common);
    for (uint32_t l = 1; l < SC_PTX_LANES; l++) {
        const uint32_t *row = row_of(w, l);
        for (uint32_t k = 0; k < a->agents; k++)
            a->common[k] = a->common[k] < row[k] ? a->common[k] : row[k];
    }
    return a->common;
}
