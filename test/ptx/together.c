/* What lanes exchange: shfl, vote, elect, bar.warp.sync, setmaxnreg. w->active are the members. */
#include "test/ptx/async.h"

/* PTX ISA, "shfl.sync": of the third operand bits 0 to 4 clamp, bits 8 to 12 are the segments'. */
static uint32_t source_of(const sc_ptx_inst *i, uint32_t lane, uint32_t b, uint32_t c, bool *is_in)
{
    enum { UP, DOWN, BUTTERFLY };
    uint32_t by = b & 31, clamp = c & 31, segment = c >> 8 & 31,
             last = (lane & segment) | (clamp & ~segment & 31), from;
    if (i->what == UP) {
        *is_in = lane >= last + by;
        return *is_in ? lane - by : lane;
    }
    from = i->what == DOWN        ? lane + by
           : i->what == BUTTERFLY ? lane ^ by
                                  : (lane & segment) | (by & ~segment & 31);
    *is_in = from <= last;
    return *is_in ? from : lane;
}

void sc_ptx_shuffle(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t r[SC_PTX_LANES] = {0}, inside = 0, set = sc_ptx_in_set(w, i, 0), defined = 0;
    for (uint32_t k = 1; k < i->in_count; k++) {
        if (!sc_ptx_is_set(w, i, k, w->active))
            return;
    }
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        bool is_in;
        if ((w->active >> l & 1) == 0)
            continue;
        uint32_t from = source_of(i, l, (uint32_t)sc_ptx_in_lane(w, i, 1, l),
                                  (uint32_t)sc_ptx_in_lane(w, i, 2, l), &is_in);
        if ((w->active >> from & 1) == 0) {
            sc_ptx_fail(w, i, l, "it takes the value of lane %u, which is no member", from);
            return;
        }
        r[l] = (uint32_t)sc_ptx_in_lane(w, i, 0, from);
        inside |= (uint32_t)is_in << l;
        defined |= (set >> from & 1) << l;
    }
    w->defined = defined;
    sc_ptx_out(w, i, 0, r);
    w->defined = SC_PTX_ALL;
    if (i->out_count > 1)
        sc_ptx_out_bits(w, i, 1, inside);
}

void sc_ptx_vote(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    enum { BALLOT, ANY, ALL };
    uint32_t bits = sc_ptx_in_bits(w, i, 0) ^ ((i->what & 4) != 0 ? SC_PTX_ALL : 0);
    bits &= w->active;
    uint32_t mode = i->what & 3u, r[SC_PTX_LANES];
    bool holds = mode == ANY   ? bits != 0
                 : mode == ALL ? bits == w->active
                               : bits == 0 || bits == w->active;
    if (mode != BALLOT) {
        sc_ptx_out_bits(w, i, 0, holds ? SC_PTX_ALL : 0);
        return;
    }
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        r[l] = bits;
    sc_ptx_out(w, i, 0, r);
}

/* What some lanes order among themselves is not told apart from what all do, so all must. */
void sc_ptx_sync_warp(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    if (w->active != SC_PTX_ALL)
        sc_ptx_fail(w, i, 0, "bar.warp.sync of some lanes is not known");
    sc_ptx_join_lanes(w);
    w->epoch++;
}

/* PTX ISA, "elect.sync": which member it is, is left open, but of the same members always the same
 * one. */
void sc_ptx_elect(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    bool last = w->b->launch->schedule == SC_MACHINE_WARPS_REVERSED;
    uint32_t leader =
        last ? 31 - (uint32_t)__builtin_clz(w->active) : (uint32_t)__builtin_ctz(w->active);
    uint32_t r[SC_PTX_LANES];
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        r[l] = leader;
    if (i->out_count > 1)
        sc_ptx_out(w, i, 1, r);
    sc_ptx_out_bits(w, i, 0, (uint32_t)1 << leader);
}

/* ---- setmaxnreg: `offset` registers for each thread of the warp, `what` 1: more ---- */

enum { REGISTERS = 65536 / SC_PTX_LANES, FEWEST = 24, MOST = 256 };

/* Those that others gave back are there. */
bool sc_ptx_registers_are_there(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    const uint32_t *of = w->b->async->warp_registers;
    uint32_t all = (uint32_t)i->offset;
    for (uint32_t k = 0; k < w->b->warp_count; k++)
        all += k == w->index ? 0 : of[k];
    return i->what == 0 || all <= REGISTERS;
}

void sc_ptx_set_registers(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t *of = &w->b->async->warp_registers[w->index], wanted = (uint32_t)i->offset;
    if (w->active != SC_PTX_ALL)
        sc_ptx_fail(w, i, 0, "setmaxnreg of some lanes");
    else if (wanted < FEWEST || wanted > MOST || wanted % 8 != 0)
        sc_ptx_fail(w, i, 0, "a thread has 24 to 256 registers, a multiple of 8");
    else if (i->what == 1 ? wanted < *of : wanted > *of)
        sc_ptx_fail(w, i, 0, "its threads have %u registers", *of);
    *of = wanted;
}
