/* Launches: blocks one after the other, their warps in turns. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "test/ptx/async.h"

void sc_ptx_fail(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, const char *format, ...)
{
    sc_ptx_block *b = w->b;
    if (b->failed)
        return;
    b->failed = true;
    int count, length;
    size_t room = sizeof b->report->text;
    const char *line = sc_ptx_line(b->module, i->line, &count);
    length = snprintf(b->report->text, room,
                      "%s, PTX line %u, `%.*s`: block %lld, thread %u: ", b->function->name,
                      i->line, count < 160 ? count : 160, line, (long long)b->index,
                      w->index * SC_PTX_LANES + lane);
    va_list args;
    va_start(args, format);
    vsnprintf(b->report->text + length, room - (size_t)length, format, args);
    va_end(args);
}

/* ---- blocks ---- */

static void set_special(sc_ptx_warp *w, uint32_t which, uint32_t first, uint32_t step)
{
    uint32_t lanes[SC_PTX_LANES];
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        lanes[l] = first + step * l;
    memcpy(w->registers + (size_t)which * sizeof lanes, lanes, sizeof lanes);
    w->set[which] = w->low[which] = SC_PTX_ALL;
}

static void begin_warp(sc_ptx_block *b, sc_ptx_warp *w)
{
    const sc_ptx_module *m = b->module;
    memset(w->set, 0, m->reg_count * sizeof *w->set);
    memset(w->low, 0, m->reg_count * sizeof *w->low);
    memset(w->frame_set, 0, m->frame_bytes * sizeof *w->frame_set);
    set_special(w, SC_PTX_TID, w->index * SC_PTX_LANES, 1);
    set_special(w, SC_PTX_NTID, b->launch->threads, 0);
    set_special(w, SC_PTX_CTAID, (uint32_t)b->index, 0);
    set_special(w, SC_PTX_NCTAID, (uint32_t)b->launch->blocks, 0);
    set_special(w, SC_PTX_LANEID, 0, 1);
    w->group = SC_PTX_ALL;
    w->pc = b->function->first;
    w->limit = UINT32_MAX;
    w->exited = w->waiting = w->at_barrier = w->blocked = w->carry = 0;
    w->epoch++;
    memset(w->depth, 0, sizeof w->depth);
    memset(w->groups, 0, sizeof w->groups);
}

/* Whether all threads are at the block's barrier; then they go on. */
static bool pass_barrier(sc_ptx_block *b)
{
    uint32_t pc = b->warps[0].lane_pc[0];
    for (uint32_t k = 0; k < b->warp_count; k++) {
        const sc_ptx_warp *w = &b->warps[k];
        bool all = w->at_barrier == SC_PTX_ALL;
        for (uint32_t l = 0; l < SC_PTX_LANES; l++)
            all = all && w->lane_pc[l] == pc;
        if (!all)
            return false;
    }
    b->epoch++;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        sc_ptx_warp *w = &b->warps[k];
        w->at_barrier = 0;
        w->group = SC_PTX_ALL;
        w->pc = pc + 1;
        w->limit = UINT32_MAX;
    }
    return true;
}

static bool is_done(const sc_ptx_block *b)
{
    bool done = true;
    for (uint32_t k = 0; k < b->warp_count; k++)
        done = done && b->warps[k].exited == SC_PTX_ALL;
    return done;
}

/* Each warp as far as it can, or all of them a few instructions at a time. */
static bool run_warps(sc_ptx_block *b)
{
    sc_machine_schedule how = b->launch->schedule;
    bool reversed = how == SC_MACHINE_WARPS_REVERSED, any = false;
    uint32_t slice = how == SC_MACHINE_LOCK_STEP ? 16 : 1 << 20;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        sc_ptx_warp *w = &b->warps[reversed ? b->warp_count - 1 - k : k];
        any |= sc_ptx_warp_run(w, reversed ? SC_PTX_GREATEST_FIRST : SC_PTX_LEAST_FIRST, slice);
    }
    return any;
}

/* Nobody can go on, so that what arrives as late as allowed arrives now. */
static bool arrive_late(sc_ptx_block *b)
{
    return b->async != NULL && sc_ptx_bulk_arrive_one(b);
}

static void run_block(sc_ptx_block *b, int64_t index)
{
    const uint64_t most = b->launch->max_turns > 0 ? b->launch->max_turns : (uint64_t)1 << 31;
    b->index = index;
    b->steps = 0;
    b->first_epoch = ++b->epoch;
    for (uint32_t k = 0; k < b->warp_count; k++)
        begin_warp(b, &b->warps[k]);
    if (b->async != NULL)
        sc_ptx_async_begin_block(b);
    while (!b->failed && !is_done(b)) {
        if (!run_warps(b) && !pass_barrier(b) && !arrive_late(b))
            sc_ptx_explain_stuck(b);
        if (b->steps > most)
            sc_ptx_fail(&b->warps[0], &b->module->code.data[b->function->first], 0,
                        "the block has no end: %llu instructions are done",
                        (unsigned long long)b->steps);
    }
    if (b->async != NULL && !b->failed)
        sc_ptx_async_end_block(b);
    for (uint32_t k = 0; k < b->warp_count; k++)
        sc_ptx_copies_drop(&b->warps[k]);
}

/* ---- launches ---- */

/* A number of the order that visits each once: from a start, by steps that have no divisor in
 * common with the count. */
static int64_t block_at(const sc_machine_launch *launch, int64_t i)
{
    if (launch->order == SC_MACHINE_FORWARD)
        return i;
    if (launch->order == SC_MACHINE_REVERSED)
        return launch->blocks - 1 - i;
    static const int64_t primes[] = {1000003, 998244353, 2147483647};
    int64_t step = primes[launch->seed % 3], n = launch->blocks;
    step = step % n == 0 ? 1 : step;
    return (int64_t)(((uint64_t)i * (uint64_t)step + launch->seed % (uint64_t)n) % (uint64_t)n);
}

static const char *prepare(sc_ptx_block *b)
{
    const sc_machine_launch *l = b->launch;
    const sc_ptx_module *m = b->module;
    for (uint32_t i = 0; i < m->functions.count; i++) {
        if (m->functions.data[i].is_entry && strcmp(m->functions.data[i].name, l->entry) == 0)
            b->function = &m->functions.data[i];
    }
    if (b->function == NULL)
        return "there is no such kernel";
    if (l->blocks < 1 || l->blocks > INT32_MAX)
        return "a grid has 1 to 2^31 - 1 blocks";
    if (l->threads < 1 || l->threads > SC_MACHINE_MAX_THREADS || l->threads % SC_PTX_LANES != 0)
        return "a block has 32 to 1024 threads, a multiple of 32";
    if ((int)l->threads > b->function->kernel.max_threads)
        return "the block has more threads than .maxntid says";
    if (l->shared_bytes + m->shared_bytes > 227 << 10)
        return "a block has at most 227 KiB of shared memory";
    if (l->memory == NULL)
        return "a launch has the arrays of its memory";
    b->param_bytes = 0;
    for (uint32_t k = 0; k < b->function->params.count; k++) {
        const sc_ptx_param *p = &b->function->params.data[k];
        if (p->bytes > SC_PTX_TENSOR_MAP_BYTES || p->at + p->bytes > sizeof b->params)
            return "the kernel's parameters are too large";
        memcpy(b->params + p->at, l->params[k], p->bytes);
        b->param_bytes = p->at + p->bytes;
    }
    b->warp_count = l->threads / SC_PTX_LANES;
    b->dynamic_bytes = (l->shared_bytes + 127) / 128 * 128;
    b->all_shared = b->dynamic_bytes + m->shared_bytes;
    return NULL;
}

static bool allocate(sc_ptx_block *b)
{
    const sc_ptx_module *m = b->module;
    size_t shared = b->all_shared + 1u, frame = (size_t)m->frame_bytes * SC_PTX_LANES + 1;
    b->warps = calloc(b->warp_count, sizeof *b->warps);
    b->shared = aligned_alloc(128, (shared + 127) / 128 * 128);
    b->shared_bytes = calloc(shared, sizeof *b->shared_bytes);
    b->arrays = sc_machine_arrays(b->launch->memory, &b->array_count);
    if (b->warps == NULL || b->shared == NULL || b->shared_bytes == NULL || b->arrays == NULL)
        return false;
    memset(b->shared, 0xff, shared);
    b->touched = calloc(b->array_count + 1u, sizeof *b->touched);
    if (b->touched == NULL)
        return false;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        sc_ptx_warp *w = &b->warps[k];
        w->b = b;
        w->index = k;
        w->registers = aligned_alloc(64, (m->file_bytes + 63u) / 64 * 64);
        w->set = calloc(m->reg_count, sizeof *w->set);
        w->low = calloc(m->reg_count, sizeof *w->low);
        w->frame = malloc(frame);
        w->frame_set = calloc(m->frame_bytes + 1u, sizeof *w->frame_set);
        if (w->registers == NULL || w->set == NULL || w->low == NULL || w->frame == NULL ||
            w->frame_set == NULL)
            return false;
        memset(w->registers, 0, m->file_bytes);
        if (m->is_async) {
            w->busy = calloc(m->reg_count, sizeof *w->busy);
            w->is_fresh = calloc(m->reg_count, sizeof *w->is_fresh);
        }
        if (m->is_async && (w->busy == NULL || w->is_fresh == NULL))
            return false;
    }
    return !m->is_async || sc_ptx_async_new(b);
}

static void release(sc_ptx_block *b)
{
    sc_ptx_async_free(b);
    for (uint32_t k = 0; b->warps != NULL && k < b->warp_count; k++) {
        free(b->warps[k].registers);
        free(b->warps[k].set);
        free(b->warps[k].low);
        free(b->warps[k].frame);
        free(b->warps[k].frame_set);
        free(b->warps[k].copies);
        free(b->warps[k].products);
        free(b->warps[k].busy);
        free(b->warps[k].is_fresh);
    }
    for (uint32_t k = 0; b->touched != NULL && k < b->array_count; k++) {
        if (b->touched[k] != NULL)
            munmap(b->touched[k], b->arrays[k].bytes * sizeof(sc_ptx_byte));
    }
    free(b->warps);
    free(b->shared);
    free(b->shared_bytes);
    free(b->touched);
    free(b->arrays);
}

bool sc_ptx_run(const sc_ptx_module *module, const sc_machine_launch *launch, sc_ptx_errors errors,
                sc_machine_report *report)
{
    sc_ptx_block *b = calloc(1, sizeof *b);
    report->text[0] = 0;
    const char *why = "memory ran out";
    bool failed = false;
    if (b != NULL) {
        b->module = module;
        b->launch = launch;
        b->report = report;
        b->errors = errors;
        b->constants = module->constants;
        b->variables = module->variables;
        why = prepare(b);
    }
    if (why == NULL && !allocate(b))
        why = "memory ran out";
    if (why == NULL) {
        for (int64_t i = 0; i < launch->blocks && !b->failed; i++)
            run_block(b, block_at(launch, i));
        failed = b->failed;
    }
    if (why != NULL)
        snprintf(report->text, sizeof report->text, "%s: %s", launch->entry, why);
    if (b != NULL)
        release(b);
    free(b);
    return why == NULL && !failed;
}
