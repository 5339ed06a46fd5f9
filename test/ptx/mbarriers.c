/* mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"): a phase
 * is complete when all arrivals that it counts and all bytes that it expects are there. What those
 * who arrive know is known to those who wait for the phase. */
#include <stdlib.h>

#include "test/ptx/async.h"

enum { MBARRIER_BYTES = 8, MOST_ARRIVALS = (1 << 20) - 1 };

static uint32_t *new_clocks(const sc_ptx_async *a)
{
    uint32_t *made = calloc(a->agents, sizeof *made);
    if (made == NULL)
        abort();
    return made;
}

static sc_ptx_mbarrier *find(sc_ptx_async *a, uint64_t at)
{
    for (uint32_t k = 0; k < a->mbarrier_count; k++) {
        if (a->mbarriers[k].at == at)
            return &a->mbarriers[k];
    }
    return NULL;
}

static uint64_t address(const sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane)
{
    uint64_t at = sc_ptx_in_lane(w, i, 0, lane) + (uint64_t)i->offset;
    return i->space == SC_PTX_GENERIC ? at - SC_PTX_SHARED_WINDOW : at;
}

sc_ptx_mbarrier *sc_ptx_mbarrier_at(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                                    uint64_t at)
{
    sc_ptx_space space = SC_PTX_SHARED;
    sc_ptx_byte *bytes;
    if (sc_ptx_resolve(w, i, lane, &space, at, MBARRIER_BYTES, &bytes) == NULL)
        return NULL;
    sc_ptx_mbarrier *m = find(w->b->async, at);
    if (m == NULL)
        sc_ptx_fail(w, i, lane, "there is no mbarrier, or no more");
    else if (!sc_ptx_order_mbarrier(w, i, lane, bytes))
        return NULL;
    return m;
}

static void mark(sc_ptx_warp *w, sc_ptx_byte *bytes, bool is_mbarrier)
{
    sc_ptx_stamp *stamps = w->b->async->stamps + (bytes - w->b->shared_bytes);
    for (uint32_t k = 0; k < MBARRIER_BYTES; k++)
        stamps[k].is_mbarrier = is_mbarrier;
}

static sc_ptx_mbarrier *add(sc_ptx_async *a)
{
    if (a->mbarrier_count == a->mbarrier_room) {
        a->mbarrier_room = 2 * a->mbarrier_room + 16;
        a->mbarriers = realloc(a->mbarriers, a->mbarrier_room * sizeof *a->mbarriers);
        if (a->mbarriers == NULL)
            abort();
    }
    return &a->mbarriers[a->mbarrier_count++];
}

void sc_ptx_mbarrier_init(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    sc_ptx_async *a = w->b->async;
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        uint64_t at = address(w, i, l), count = sc_ptx_in_lane(w, i, 1, l);
        sc_ptx_space space = SC_PTX_SHARED;
        sc_ptx_byte *bytes;
        if (sc_ptx_resolve(w, i, l, &space, at, MBARRIER_BYTES, &bytes) == NULL)
            return;
        if (count < 1 || count > MOST_ARRIVALS)
            sc_ptx_fail(w, i, l, "an mbarrier counts 1 to 2^20 - 1 arrivals, not %llu",
                        (unsigned long long)count);
        else if (find(a, at) != NULL)
            sc_ptx_fail(w, i, l, "there is an mbarrier already");
        else if (sc_ptx_order_write(w, i, l, bytes, MBARRIER_BYTES, true)) {
            *add(a) = (sc_ptx_mbarrier){.at = at,
                                        .count = (uint32_t)count,
                                        .pending = (uint32_t)count,
                                        .arriving = new_clocks(a),
                                        .done = new_clocks(a)};
            mark(w, bytes, true);
        }
    }
}

void sc_ptx_mbarrier_inval(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    sc_ptx_async *a = w->b->async;
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        uint64_t at = address(w, i, l);
        sc_ptx_mbarrier *m = sc_ptx_mbarrier_at(w, i, l, at);
        if (m == NULL)
            return;
        sc_ptx_space space = SC_PTX_SHARED;
        sc_ptx_byte *bytes;
        (void)sc_ptx_resolve(w, i, l, &space, at, MBARRIER_BYTES, &bytes);
        mark(w, bytes, false);
        free(m->arriving);
        free(m->done);
        *m = a->mbarriers[--a->mbarrier_count];
    }
}

static void complete_phase(sc_ptx_async *a, sc_ptx_mbarrier *m)
{
    if (m->pending > 0 || m->bytes != 0)
        return;
    for (uint32_t k = 0; k < a->agents; k++)
        m->done[k] = m->done[k] > m->arriving[k] ? m->done[k] : m->arriving[k];
    memset(m->arriving, 0, a->agents * sizeof *m->arriving);
    m->pending = m->count;
    m->phase++;
}

static bool expect(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_mbarrier *m,
                   int64_t bytes)
{
    m->bytes += bytes;
    if (m->bytes > MOST_ARRIVALS || m->bytes < -MOST_ARRIVALS) {
        sc_ptx_fail(w, i, lane, "an mbarrier counts to 2^20 - 1 bytes, not to %lld",
                    (long long)m->bytes);
        return false;
    }
    return true;
}

void sc_ptx_mbarrier_complete(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                              sc_ptx_mbarrier *m, uint32_t bytes)
{
    sc_ptx_async *a = w->b->async;
    uint32_t agent = sc_ptx_bulk_agent(w->b) - 1;
    m->arriving[agent] = a->copies;
    if (expect(w, i, lane, m, -(int64_t)bytes))
        complete_phase(a, m);
}

/* `what` 1: it expects the second operand's bytes, and arrives once; else it arrives as often as
 * the second operand says. */
void sc_ptx_mbarrier_arrive(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint64_t states[SC_PTX_LANES] = {0};
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        sc_ptx_mbarrier *m = sc_ptx_mbarrier_at(w, i, l, address(w, i, l));
        if (m == NULL)
            return;
        uint32_t given = i->in_count > 1 ? (uint32_t)sc_ptx_in_lane(w, i, 1, l) : 1,
                 count = i->what == 1 ? 1 : given;
        if (i->what == 1 && !expect(w, i, l, m, given))
            return;
        if (count < 1 || count > m->pending) {
            sc_ptx_fail(w, i, l, "%u arrive, where the phase lacks %u of %u", count, m->pending,
                        m->count);
            return;
        }
        states[l] = m->phase;
        sc_ptx_release(w, l, m->arriving);
        m->pending -= count;
        complete_phase(w->b->async, m);
    }
    if (i->out_count > 0)
        sc_ptx_out(w, i, 0, states);
}

void sc_ptx_mbarrier_expect(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        sc_ptx_mbarrier *m = sc_ptx_mbarrier_at(w, i, l, address(w, i, l));
        if (m == NULL || !expect(w, i, l, m, (int64_t)sc_ptx_in_lane(w, i, 1, l)))
            return;
    }
}

/* ---- waits ---- */

/* `what` 1: the second operand is a phase's parity, else a state that an arrival gave. */
static bool is_complete(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                        const sc_ptx_mbarrier *m)
{
    uint64_t of = sc_ptx_in_lane(w, i, 1, lane);
    if (i->what == 1)
        return (m->phase & 1) != (of & 1);
    if (of > m->phase || m->phase > of + 1)
        sc_ptx_fail(w, i, lane, "the state is of phase %llu, the mbarrier is in phase %llu",
                    (unsigned long long)of, (unsigned long long)m->phase);
    return m->phase > of;
}

bool sc_ptx_mbarrier_is_over(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    bool over = true;
    for (uint32_t l = 0; l < SC_PTX_LANES && !w->b->failed; l++) {
        if ((w->active >> l & 1) == 0)
            continue;
        const sc_ptx_mbarrier *m = sc_ptx_mbarrier_at(w, i, l, address(w, i, l));
        over = over && m != NULL && is_complete(w, i, l, m);
    }
    return over || w->b->failed;
}

/* try_wait may suspend the thread until the phase is complete: here it always does. */
void sc_ptx_mbarrier_wait(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        const sc_ptx_mbarrier *m = NULL;
        if ((w->active >> l & 1) != 0)
            m = find(w->b->async, address(w, i, l));
        if (m != NULL)
            sc_ptx_acquire(w, l, m->done);
    }
    sc_ptx_out_bits(w, i, 0, SC_PTX_ALL);
}

void sc_ptx_mbarrier_explain(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane)
{
    const sc_ptx_mbarrier *m = find(w->b->async, address(w, i, lane));
    if (m != NULL)
        sc_ptx_fail(w, i, lane,
                    "it waits for an mbarrier for good: phase %llu lacks %u of %u arrivals and "
                    "%lld bytes",
                    (unsigned long long)m->phase, m->pending, m->count, (long long)m->bytes);
}

/* ---- fences ---- */

void sc_ptx_fence_proxy(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)i;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        w->b->async->fences[w->index * SC_PTX_LANES + l] += w->active >> l & 1;
}

/* What orders nothing here that is looked at. */
void sc_ptx_no_operation(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    (void)w;
    (void)i;
}
