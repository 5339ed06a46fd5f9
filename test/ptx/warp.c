/* A warp: its lanes go on together while they are at the same instruction. Where a branch parts
 * them, those at the least instruction go first (or those at the greatest), until both meet. What
 * lanes do together waits until all that it names are there. */
#include <stdio.h>

#include "test/ptx/async.h"

static uint32_t can_run(const sc_ptx_warp *w)
{
    return ~(w->exited | w->waiting | w->at_barrier | w->blocked);
}

static uint32_t lanes_at(const sc_ptx_warp *w, uint32_t among, uint32_t pc)
{
    uint32_t lanes = 0;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++)
        lanes |= (uint32_t)((among >> l & 1) != 0 && w->lane_pc[l] == pc) << l;
    return lanes;
}

/* The group stands where it is, to be picked again. */
static void put_down(sc_ptx_warp *w)
{
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((w->group >> l & 1) != 0)
            w->lane_pc[l] = w->pc;
    }
    w->group = 0;
}

/* The group that goes on; false: nobody can. */
static bool pick(sc_ptx_warp *w, sc_ptx_pick how)
{
    uint32_t lanes = can_run(w), best = 0, next = UINT32_MAX;
    if (lanes == 0)
        return false;
    bool greatest = how == SC_PTX_GREATEST_FIRST;
    for (uint32_t l = 0, first = 1; l < SC_PTX_LANES; l++) {
        if ((lanes >> l & 1) == 0)
            continue;
        if (first || (greatest ? w->lane_pc[l] > best : w->lane_pc[l] < best))
            best = w->lane_pc[l];
        first = 0;
    }
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((lanes >> l & 1) != 0 && w->lane_pc[l] != best && w->lane_pc[l] < next)
            next = w->lane_pc[l];
    }
    w->pc = best;
    w->group = lanes_at(w, lanes, best);
    w->limit = greatest ? UINT32_MAX : next;
    return true;
}

/* Some of the group go to `target`, the others on. */
static void branch(sc_ptx_warp *w, uint32_t taken, uint32_t target)
{
    if (taken == w->group) {
        w->pc = target;
        return;
    }
    w->pc++;
    if (taken == 0)
        return;
    uint32_t rest = w->group & ~taken;
    w->group = rest;
    put_down(w);
    w->group = taken;
    w->pc = target;
    put_down(w);
}

/* ---- functions ---- */

static void copy_params(sc_ptx_warp *w, uint32_t lane, const sc_ptx_copy_of_param *copies,
                        uint32_t count)
{
    unsigned char *frame = w->frame + (size_t)lane * w->b->module->frame_bytes;
    uint32_t bit = (uint32_t)1 << lane;
    for (uint32_t k = 0; k < count; k++) {
        const sc_ptx_copy_of_param *c = &copies[k];
        memmove(frame + c->to, frame + c->from, c->bytes);
        for (uint32_t n = 0; n < c->bytes; n++)
            w->frame_set[c->to + n] =
                (w->frame_set[c->to + n] & ~bit) | (w->frame_set[c->from + n] & bit);
    }
}

static void call(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active)
{
    const sc_ptx_call *c = &w->b->module->calls.data[i->target];
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((active >> l & 1) == 0)
            continue;
        if (w->depth[l] == SC_PTX_MAX_DEPTH) {
            sc_ptx_fail(w, i, l, "calls lie too deep");
            return;
        }
        w->calls[l][w->depth[l]++] = w->pc;
        copy_params(w, l, c->given, c->given_count);
    }
    branch(w, active, c->target);
}

static void leave(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active)
{
    const sc_ptx_inst *code = w->b->module->code.data;
    uint32_t rest = w->group & ~active;
    w->pc++;
    w->group = rest;
    put_down(w);
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((active >> l & 1) == 0)
            continue;
        if (i->kind == SC_PTX_EXIT || w->depth[l] == 0) {
            w->exited |= (uint32_t)1 << l;
            continue;
        }
        uint32_t from = w->calls[l][--w->depth[l]];
        const sc_ptx_call *c = &w->b->module->calls.data[code[from].target];
        copy_params(w, l, c->results, c->result_count);
        w->lane_pc[l] = from + 1;
    }
}

/* ---- operands ---- */

bool sc_ptx_is_set(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t k, uint32_t lanes)
{
    uint32_t missing = lanes & ~sc_ptx_in_set(w, i, k);
    if (missing == 0)
        return true;
    sc_ptx_fail(w, i, (uint32_t)__builtin_ctz(missing),
                "its operand %u is a register that nobody wrote, or made of one", k + 1);
    return false;
}

/* What it makes of values. */
static bool look_at_operands(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active)
{
    w->defined = SC_PTX_ALL;
    w->half = 0;
    for (uint32_t k = 0; k < i->in_count; k++) {
        if (i->is_strict && !sc_ptx_is_set(w, i, k, active))
            return false;
        w->defined &= sc_ptx_in_set(w, i, k);
    }
    return w->product_count == 0 || i->is_matmul || sc_ptx_registers_are_free(w, i);
}

/* ---- together ---- */

/* The lanes that it names: all of the active say the same. */
static bool members_of(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active, uint32_t *out)
{
    *out = SC_PTX_ALL;
    if (i->members == 0)
        return true;
    bool first = true;
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((active >> l & 1) == 0)
            continue;
        uint32_t mask = (uint32_t)sc_ptx_in_lane(w, i, i->members - 1u, l);
        if ((mask >> l & 1) == 0 || (!first && mask != *out)) {
            sc_ptx_fail(w, i, l, "its members are %08x, of other lanes others, or not it itself",
                        mask);
            return false;
        }
        *out = mask;
        first = false;
    }
    return true;
}

static void together(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active)
{
    uint32_t members, pc = w->pc;
    if (!members_of(w, i, active, &members))
        return;
    if (active == members && active == w->group) {
        w->active = active;
        i->run(w, i);
        w->pc++;
        return;
    }
    uint32_t all = w->group;
    put_down(w);
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((all & ~active) >> l & 1)
            w->lane_pc[l] = pc + 1;
    }
    w->waiting |= active;
    if ((lanes_at(w, w->waiting, pc) & members) != members)
        return;
    w->waiting &= ~members;
    w->active = members;
    if (look_at_operands(w, i, members))
        i->run(w, i);
    for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
        if ((members >> l & 1) != 0)
            w->lane_pc[l] = pc + 1;
    }
}

static void at_barrier(sc_ptx_warp *w, uint32_t active)
{
    uint32_t rest = w->group & ~active;
    w->group = active;
    uint32_t pc = w->pc;
    put_down(w);
    w->at_barrier |= active;
    w->group = rest;
    w->pc = pc + 1;
    put_down(w);
}

/* They go on, or are tried again once others did something. */
static void wait_for(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t active)
{
    w->active = active;
    if (i->is_over(w, i)) {
        i->run(w, i);
        w->pc++;
        return;
    }
    uint32_t rest = w->group & ~active, pc = w->pc;
    w->group = active;
    put_down(w);
    w->blocked |= active;
    w->vain++;
    w->group = rest;
    w->pc = pc + 1;
    put_down(w);
}

/* ---- instructions ---- */

/* The lanes of the group whose guard holds. */
static bool guarded(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t *active)
{
    uint32_t bits;
    *active = w->group;
    if (i->guard == SC_PTX_CONSTANT)
        return true;
    if ((w->set[i->guard] & w->group) != w->group) {
        sc_ptx_fail(w, i, (uint32_t)__builtin_ctz(w->group & ~w->set[i->guard]),
                    "its guard is a predicate that nobody wrote, or made of one");
        return false;
    }
    memcpy(&bits, w->registers + i->at, sizeof bits);
    *active &= i->guard_not ? ~bits : bits;
    return true;
}

static void step(sc_ptx_warp *w, const sc_ptx_inst *i)
{
    uint32_t active;
    if (!guarded(w, i, &active))
        return;
    if (active == 0) {
        w->pc++;
        return;
    }
    if (!look_at_operands(w, i, active))
        return;
    switch ((sc_ptx_kind)i->kind) {
    case SC_PTX_LANE:
        w->active = active;
        i->run(w, i);
        w->pc++;
        return;
    case SC_PTX_TOGETHER:
        together(w, i, active);
        return;
    case SC_PTX_BARRIER:
        at_barrier(w, active);
        return;
    case SC_PTX_WAIT:
        wait_for(w, i, active);
        return;
    case SC_PTX_BRANCH:
        branch(w, active, i->target);
        return;
    case SC_PTX_CALL:
        call(w, i, active);
        return;
    case SC_PTX_RETURN:
    case SC_PTX_EXIT:
        leave(w, i, active);
        return;
    }
}

bool sc_ptx_warp_run(sc_ptx_warp *w, sc_ptx_pick how, uint32_t slice)
{
    const sc_ptx_inst *code = w->b->module->code.data;
    uint32_t left = slice;
    w->blocked = w->vain = 0;
    while (left > 0 && !w->b->failed) {
        if (w->group == 0 && !pick(w, how))
            break;
        left--;
        step(w, &code[w->pc]);
        if (w->group != 0 && w->pc >= w->limit)
            put_down(w); /* others are there, or were passed by */
    }
    w->b->steps += slice - left;
    return slice - left > w->vain;
}

/* ---- for good ---- */

static void say_waiting(const sc_ptx_warp *w, uint32_t lane, char *out, size_t room)
{
    const sc_ptx_inst *i = &w->b->module->code.data[w->lane_pc[lane]];
    uint32_t thread = w->index * SC_PTX_LANES + lane, bit = (uint32_t)1 << lane;
    if ((w->exited & bit) != 0)
        snprintf(out, room, "thread %u has left", thread);
    else
        snprintf(out, room, "thread %u waits at line %u", thread, i->line);
}

/* Whom the first that waits in vain waits for: a lane of its warp, or a thread of the block. */
static void explain(sc_ptx_warp *w, uint32_t lane)
{
    const sc_ptx_inst *i = &w->b->module->code.data[w->lane_pc[lane]];
    bool is_warp = (w->waiting >> lane & 1) != 0;
    uint32_t first = is_warp ? w->index : 0, end = is_warp ? w->index + 1 : w->b->warp_count;
    for (uint32_t k = first; k < end; k++) {
        sc_ptx_warp *other = &w->b->warps[k];
        for (uint32_t l = 0; l < SC_PTX_LANES; l++) {
            bool is_there = ((is_warp ? other->waiting : other->at_barrier) >> l & 1) != 0;
            char text[64];
            if (is_there && other->lane_pc[l] == w->lane_pc[lane])
                continue;
            say_waiting(other, l, text, sizeof text);
            sc_ptx_fail(w, i, lane, "not all %s come to it: %s", is_warp ? "lanes" : "threads",
                        text);
            return;
        }
    }
}

static void explain_blocked(sc_ptx_block *b)
{
    for (uint32_t k = 0; k < b->warp_count && !b->failed; k++) {
        sc_ptx_warp *w = &b->warps[k];
        if (w->blocked == 0)
            continue;
        uint32_t lane = (uint32_t)__builtin_ctz(w->blocked);
        const sc_ptx_inst *i = &b->module->code.data[w->lane_pc[lane]];
        if (i->run == sc_ptx_set_registers)
            sc_ptx_fail(w, i, lane, "it waits for registers that no warp gives back");
        else
            sc_ptx_mbarrier_explain(w, i, lane);
    }
}

void sc_ptx_explain_stuck(sc_ptx_block *b)
{
    explain_blocked(b);
    for (uint32_t barriers = 0; barriers < 2; barriers++) {
        for (uint32_t k = 0; k < b->warp_count; k++) {
            sc_ptx_warp *w = &b->warps[k];
            uint32_t lanes = barriers == 0 ? w->waiting : w->at_barrier;
            if (lanes != 0) {
                explain(w, (uint32_t)__builtin_ctz(lanes));
                return;
            }
        }
    }
}
