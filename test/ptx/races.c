/* Races: every watched byte remembers who touched it last. Two accesses by different threads are in
 * order when a barrier of their block lies between them (another epoch), or within a warp a
 * bar.warp.sync (another warp epoch); those of different blocks never are. As
 * test/cuda_on_cpu/order.c, whose rules these are. */
#include <stdio.h>

#include "test/ptx/internal.h"

static uint32_t warp_of(uint32_t thread)
{
    return (thread - 1) / SC_PTX_LANES;
}

static bool race(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, const char *verb,
                 uint32_t other, const char *other_verb, uint32_t pc)
{
    sc_ptx_fail(w, i, lane, "a race: it %s a byte that thread %u %s (line %u), with no %s between",
                verb, other - 1, other_verb, w->b->module->code.data[pc].line,
                warp_of(other) == w->index ? "bar.warp.sync" : "bar.sync");
    return false;
}

/* Whether this thread's access is unordered with the last write. */
static inline bool after_write(const sc_ptx_warp *w, const sc_ptx_byte *byte, uint32_t self)
{
    return byte->write_epoch == w->b->epoch && byte->writer != self &&
           (warp_of(byte->writer) != w->index || byte->write_warp_epoch == w->epoch);
}

/* The reader that a write by this thread is unordered with, or 0. */
static inline uint32_t reader_before(const sc_ptx_warp *w, const sc_ptx_byte *byte, uint32_t self)
{
    if (byte->read_epoch != w->b->epoch)
        return 0;
    if (warp_of(byte->reader) != w->index)
        return byte->reader;
    if (byte->foreign != 0)
        return byte->foreign;
    if (byte->read_warp_epoch != w->epoch)
        return 0;
    return byte->reader != self ? byte->reader : byte->other;
}

static bool other_block(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane,
                        const sc_ptx_byte *byte, bool writes)
{
    uint32_t first = w->b->first_epoch;
    bool written = byte->write_epoch != 0 && byte->write_epoch < first;
    bool read = byte->read_before || (byte->read_epoch != 0 && byte->read_epoch < first);
    if (!written && !(writes && read))
        return false;
    sc_ptx_fail(w, i, lane, "a race: it %s a byte that another block of the launch %s (line %u)",
                writes ? "writes" : "reads", written ? "wrote" : "reads",
                w->b->module->code.data[written ? byte->write_pc : byte->read_pc].line);
    return true;
}

static bool under_way(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, const sc_ptx_byte *byte)
{
    sc_ptx_fail(w, i, lane, "it touches a byte while thread %u's cp.async to it is under way",
                byte->copying - 1u);
    return false;
}

static inline void note_read(sc_ptx_warp *w, sc_ptx_byte *byte, uint32_t self)
{
    const sc_ptx_block *b = w->b;
    bool fresh = byte->read_epoch != b->epoch, ours = !fresh && warp_of(byte->reader) == w->index;
    if (fresh || (ours && byte->read_warp_epoch != w->epoch)) {
        byte->read_before |= byte->read_epoch != 0 && byte->read_epoch < b->first_epoch;
        byte->foreign = fresh ? 0 : byte->foreign;
        byte->other = 0;
        byte->reader = (uint16_t)self;
        byte->read_epoch = b->epoch;
        byte->read_warp_epoch = w->epoch;
    } else if (!ours) {
        byte->foreign = (uint16_t)self;
    } else if (byte->reader != self) {
        byte->other = (uint16_t)self;
    }
}

bool sc_ptx_order_read(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_byte *bytes,
                       uint32_t count, bool is_shared)
{
    uint32_t self = w->index * SC_PTX_LANES + lane + 1,
             pc = (uint32_t)(i - w->b->module->code.data);
    bool is_constant = i->run == sc_ptx_load_memory && i->what == 1;
    for (uint32_t k = 0; k < count; k++) {
        sc_ptx_byte *byte = &bytes[k];
        if (is_shared && byte->copying != 0)
            return under_way(w, i, lane, byte);
        if (after_write(w, byte, self))
            return race(w, i, lane, "reads", byte->writer, "wrote", byte->write_pc);
        if (!is_shared && other_block(w, i, lane, byte, false))
            return false;
        if (is_shared && byte->write_epoch < w->b->first_epoch) {
            sc_ptx_fail(w, i, lane, "it reads shared memory that nobody wrote");
            return false;
        }
        if (is_constant && byte->write_epoch != 0) {
            sc_ptx_fail(w, i, lane,
                        "ld.global.nc reads what thread %u of the launch wrote (line %u)",
                        byte->writer - 1u, w->b->module->code.data[byte->write_pc].line);
            return false;
        }
        byte->is_constant |= is_constant;
        note_read(w, byte, self);
        byte->read_pc = pc;
    }
    return true;
}

bool sc_ptx_order_write(sc_ptx_warp *w, const sc_ptx_inst *i, uint32_t lane, sc_ptx_byte *bytes,
                        uint32_t count, bool is_shared)
{
    uint32_t self = w->index * SC_PTX_LANES + lane + 1,
             pc = (uint32_t)(i - w->b->module->code.data);
    for (uint32_t k = 0; k < count; k++) {
        sc_ptx_byte *byte = &bytes[k];
        uint32_t reader = reader_before(w, byte, self);
        if (is_shared && byte->copying != 0)
            return under_way(w, i, lane, byte);
        if (after_write(w, byte, self))
            return race(w, i, lane, "writes", byte->writer, "wrote", byte->write_pc);
        if (reader != 0)
            return race(w, i, lane, "writes", reader, "reads", byte->read_pc);
        if (!is_shared && other_block(w, i, lane, byte, true))
            return false;
        if (byte->is_constant) {
            sc_ptx_fail(w, i, lane, "it writes what ld.global.nc of the launch reads (line %u)",
                        w->b->module->code.data[byte->read_pc].line);
            return false;
        }
        byte->writer = (uint16_t)self;
        byte->write_pc = pc;
        byte->write_epoch = w->b->epoch;
        byte->write_warp_epoch = w->epoch;
        byte->read_epoch = 0;
    }
    return true;
}
