/* Races: every watched byte remembers who touched it last. Two accesses by different threads are in
 * order when a barrier of their block lies between them (another epoch), or within a warp a
 * bar.warp.sync (another warp epoch); those of different blocks never are. As
 * test/cuda_on_cpu/order.c, whose rules these are. Where mbarriers order accesses, too, a byte of
 * shared memory has the clocks of its agents besides (async.h). */
#include <stdio.h>

#include "test/ptx/async.h"

/* Agents that are no threads are in no warp. */
static uint32_t warp_of(uint32_t agent)
{
    return (agent - 1) / SC_PTX_LANES;
}

static bool is_thread(const sc_ptx_warp *w, uint32_t agent)
{
    return agent <= w->b->warp_count * SC_PTX_LANES;
}

static const char *name_of(const sc_ptx_warp *w, uint32_t agent, char *out, size_t room)
{
    uint32_t threads = w->b->warp_count * SC_PTX_LANES;
    if (agent <= threads)
        snprintf(out, room, "thread %u", agent - 1);
    else if (agent <= threads + w->b->warp_count)
        snprintf(out, room, "a matmul of warp %u", agent - 1 - threads);
    else
        snprintf(out, room, "a bulk copy");
    return out;
}

static sc_ptx_stamp *stamp_of(const sc_ptx_warp *w, const sc_ptx_byte *byte, bool is_shared)
{
    const sc_ptx_async *a = w->b->async;
    return a == NULL || !is_shared ? NULL : a->stamps + (byte - w->b->shared_bytes);
}

/* An access under examination. */
typedef struct access {
    sc_ptx_warp *w;
    const sc_ptx_inst *i;
    uint32_t lane;
    const sc_ptx_actor *actor;
} access;

static bool race(const access *a, const char *verb, uint32_t other, const char *other_verb,
                 uint32_t pc)
{
    char name[48];
    bool same = is_thread(a->w, other) && warp_of(other) == warp_of(a->actor->self);
    sc_ptx_fail(
        a->w, a->i, a->lane, "a race: it %s a byte that %s %s (line %u), with no %s between", verb,
        name_of(a->w, other, name, sizeof name), other_verb, a->w->b->module->code.data[pc].line,
        same                     ? "bar.warp.sync"
        : a->w->b->async != NULL ? "bar.sync or mbarrier"
                                 : "bar.sync");
    return false;
}

/* Whether this access is unordered with the last write. */
static inline bool after_write(const access *a, const sc_ptx_byte *byte, const sc_ptx_stamp *stamp)
{
    const sc_ptx_warp *w = a->w;
    return byte->write_epoch == w->b->epoch && byte->writer != a->actor->self &&
           (warp_of(byte->writer) != warp_of(a->actor->self) ||
            byte->write_warp_epoch == w->epoch) &&
           (stamp == NULL || !sc_ptx_knows(a->actor, byte->writer, stamp->write));
}

static inline bool knows_reader(const access *a, uint32_t reader, uint32_t clock, bool has_clock)
{
    return has_clock && sc_ptx_knows(a->actor, reader, clock);
}

/* The reader that a write by this actor is unordered with, or 0. */
static inline uint32_t reader_before(const access *a, const sc_ptx_byte *byte,
                                     const sc_ptx_stamp *stamp)
{
    uint32_t self = a->actor->self, read = stamp == NULL ? 0 : stamp->read,
             foreign = stamp == NULL ? 0 : stamp->foreign;
    bool has = stamp != NULL;
    if (byte->read_epoch != a->w->b->epoch)
        return 0;
    bool ours = warp_of(byte->reader) == warp_of(self);
    if (!ours && byte->reader != self && !knows_reader(a, byte->reader, read, has))
        return byte->reader;
    if (byte->foreign != 0 && byte->foreign != self && warp_of(byte->foreign) != warp_of(self) &&
        !knows_reader(a, byte->foreign, foreign, has))
        return byte->foreign;
    if (!ours || byte->read_warp_epoch != a->w->epoch)
        return 0;
    return byte->reader != self ? byte->reader : byte->other;
}

static bool other_block(const access *a, const sc_ptx_byte *byte, bool writes)
{
    uint32_t first = a->w->b->first_epoch;
    bool written = byte->write_epoch != 0 && byte->write_epoch < first;
    bool read = byte->read_before || (byte->read_epoch != 0 && byte->read_epoch < first);
    if (!written && !(writes && read))
        return false;
    sc_ptx_fail(a->w, a->i, a->lane,
                "a race: it %s a byte that another block of the launch %s (line %u)",
                writes ? "writes" : "reads", written ? "wrote" : "reads",
                a->w->b->module->code.data[written ? byte->write_pc : byte->read_pc].line);
    return true;
}

static bool under_way(const access *a, const sc_ptx_byte *byte)
{
    char name[48];
    if (is_thread(a->w, byte->copying))
        sc_ptx_fail(a->w, a->i, a->lane,
                    "it touches a byte while thread %u's cp.async to it is under way",
                    byte->copying - 1u);
    else
        sc_ptx_fail(a->w, a->i, a->lane, "it touches a byte while %s to it is under way",
                    name_of(a->w, byte->copying, name, sizeof name));
    return false;
}

/* What the async proxy reads, and overwrites, was published to it: it was written by the async
 * proxy, or its writer did a fence.proxy.async behind. (PTX ISA, "Async proxy".) */
static bool is_published(const access *a, const sc_ptx_byte *byte, const sc_ptx_stamp *stamp)
{
    const sc_ptx_async *all = a->w->b->async;
    if (!a->actor->is_async || stamp == NULL || !stamp->is_generic ||
        all->fences[byte->writer - 1] > stamp->fences)
        return true;
    char name[48];
    sc_ptx_fail(a->w, a->i, a->lane,
                "it touches a byte that %s wrote (line %u), with no fence.proxy.async behind",
                name_of(a->w, byte->writer, name, sizeof name),
                a->w->b->module->code.data[byte->write_pc].line);
    return false;
}

static bool is_data(const access *a, const sc_ptx_stamp *stamp)
{
    if (stamp == NULL || !stamp->is_mbarrier)
        return true;
    sc_ptx_fail(a->w, a->i, a->lane, "it touches an mbarrier as if it were data");
    return false;
}

static inline void note_read(const access *a, sc_ptx_byte *byte, sc_ptx_stamp *stamp)
{
    const sc_ptx_block *b = a->w->b;
    uint32_t self = a->actor->self, *clock = NULL;
    bool fresh = byte->read_epoch != b->epoch,
         ours = !fresh && warp_of(byte->reader) == warp_of(self);
    if (fresh || (ours && byte->read_warp_epoch != a->w->epoch)) {
        byte->read_before |= byte->read_epoch != 0 && byte->read_epoch < b->first_epoch;
        byte->foreign = fresh ? 0 : byte->foreign;
        byte->other = 0;
        byte->reader = (uint16_t)self;
        byte->read_epoch = b->epoch;
        byte->read_warp_epoch = a->w->epoch;
        clock = stamp == NULL ? NULL : &stamp->read;
    } else if (!ours) {
        byte->foreign = (uint16_t)self;
        clock = stamp == NULL ? NULL : &stamp->foreign;
    } else if (byte->reader != self) {
        byte->other = (uint16_t)self;
        clock = stamp == NULL ? NULL : &stamp->other;
    } else if (stamp != NULL) {
        clock = &stamp->read;
    }
    if (clock != NULL)
        *clock = a->actor->clock;
}

bool sc_ptx_order_read_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                          const sc_ptx_actor *actor, sc_ptx_byte *bytes, uint32_t count,
                          bool is_shared)
{
    const access a = {w, i, lane, actor};
    uint32_t pc = (uint32_t)(i - w->b->module->code.data);
    bool is_constant = i->run == sc_ptx_load_memory && i->what == 1;
    for (uint32_t k = 0; k < count; k++) {
        sc_ptx_byte *byte = &bytes[k];
        sc_ptx_stamp *stamp = stamp_of(w, byte, is_shared);
        if (!is_data(&a, stamp))
            return false;
        if (is_shared && byte->copying != 0)
            return under_way(&a, byte);
        if (after_write(&a, byte, stamp))
            return race(&a, "reads", byte->writer, "wrote", byte->write_pc);
        if (!is_shared && other_block(&a, byte, false))
            return false;
        if (is_shared && byte->write_epoch < w->b->first_epoch) {
            sc_ptx_fail(w, i, lane, "it reads shared memory that nobody wrote");
            return false;
        }
        if (!is_published(&a, byte, stamp))
            return false;
        if (is_constant && byte->write_epoch != 0) {
            sc_ptx_fail(w, i, lane,
                        "ld.global.nc reads what thread %u of the launch wrote (line %u)",
                        byte->writer - 1u, w->b->module->code.data[byte->write_pc].line);
            return false;
        }
        byte->is_constant |= is_constant;
        note_read(&a, byte, stamp);
        byte->read_pc = pc;
    }
    return true;
}

static void note_write(const access *a, sc_ptx_byte *byte, sc_ptx_stamp *stamp)
{
    byte->writer = (uint16_t)a->actor->self;
    byte->write_pc = (uint32_t)(a->i - a->w->b->module->code.data);
    byte->write_epoch = a->w->b->epoch;
    byte->write_warp_epoch = a->w->epoch;
    byte->read_epoch = 0;
    if (stamp == NULL)
        return;
    stamp->write = a->actor->clock;
    stamp->is_generic = !a->actor->is_async;
    stamp->fences = stamp->is_generic ? a->w->b->async->fences[a->actor->self - 1] : 0;
}

bool sc_ptx_order_write_as(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                           const sc_ptx_actor *actor, sc_ptx_byte *bytes, uint32_t count,
                           bool is_shared)
{
    const access a = {w, i, lane, actor};
    for (uint32_t k = 0; k < count; k++) {
        sc_ptx_byte *byte = &bytes[k];
        sc_ptx_stamp *stamp = stamp_of(w, byte, is_shared);
        if (!is_data(&a, stamp))
            return false;
        if (is_shared && byte->copying != 0)
            return under_way(&a, byte);
        if (after_write(&a, byte, stamp))
            return race(&a, "writes", byte->writer, "wrote", byte->write_pc);
        uint32_t reader = reader_before(&a, byte, stamp);
        if (reader != 0)
            return race(&a, "writes", reader, "reads", byte->read_pc);
        if (!is_shared && other_block(&a, byte, true))
            return false;
        if (!is_published(&a, byte, stamp))
            return false;
        if (byte->is_constant) {
            sc_ptx_fail(w, i, lane, "it writes what ld.global.nc of the launch reads (line %u)",
                        w->b->module->code.data[byte->read_pc].line);
            return false;
        }
        note_write(&a, byte, stamp);
    }
    return true;
}

bool sc_ptx_order_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_byte *bytes,
                        uint32_t count, bool is_shared)
{
    const sc_ptx_actor actor = sc_ptx_thread(w, lane);
    return sc_ptx_order_write_as(w, i, lane, &actor, bytes, count, is_shared);
}

bool sc_ptx_order_mbarrier(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                           const sc_ptx_byte *bytes)
{
    const sc_ptx_actor actor = sc_ptx_thread(w, lane);
    const access a = {w, i, lane, &actor};
    const sc_ptx_stamp *stamp = stamp_of(w, bytes, true);
    return !after_write(&a, bytes, stamp) ||
           race(&a, "uses", bytes->writer, "made an mbarrier of", bytes->write_pc);
}

void sc_ptx_note_write(sc_ptx_warp *w, const sc_ptx_inst *i, const sc_ptx_actor *actor,
                       sc_ptx_byte *bytes, uint32_t count)
{
    const access a = {w, i, 0, actor};
    for (uint32_t k = 0; k < count; k++)
        note_write(&a, &bytes[k], stamp_of(w, &bytes[k], true));
}
