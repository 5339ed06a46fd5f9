/* Races: every watched byte remembers who touched it last. Two accesses by different threads are in
 * order when a barrier of their block lies between them (another epoch), or within a warp an
 * sc_sync_warp (another warp epoch); those of different blocks never are. Of shared memory what is
 * left of an older block does not count. */
#include <stdio.h>

#include "test/cuda_on_cpu/engine.h"

static int warp_of(int thread)
{
    return (thread - 1) / SC_MACHINE_WARP;
}

static _Noreturn void stop_race(sc_machine_block *b, const sc_machine_thread *t, int line,
                                const char *verb, const char *name, int64_t at, int other,
                                const char *other_verb, int other_line)
{
    const char *missing = warp_of(other) == t->index / SC_MACHINE_WARP ? "sc_sync_warp" : "sc_sync";
    char place[32] = "";
    if (other_line > 0)
        snprintf(place, sizeof place, " (line %d)", other_line);
    sc_machine_stop(b, line, "race: %s byte %lld of %s, which thread %d %s%s, with no %s between",
                    verb, (long long)at, name, other - 1, other_verb, place, missing);
}

/* Whether this thread's access is unordered with the last write. */
static bool after_write(const sc_machine_block *b, const sc_machine_byte *byte,
                        const sc_machine_thread *t)
{
    if (byte->writer == t->index + 1 || byte->write_epoch != b->epoch)
        return false;
    int warp = t->index / SC_MACHINE_WARP;
    return warp_of(byte->writer) != warp || byte->write_warp_epoch == b->warp[warp].epoch;
}

/* The reader that a write by this thread is unordered with, or 0. */
static int reader_before(const sc_machine_block *b, const sc_machine_byte *byte,
                         const sc_machine_thread *t)
{
    int self = t->index + 1, warp = t->index / SC_MACHINE_WARP;
    if (byte->read_epoch != b->epoch)
        return 0;
    if (warp_of(byte->reader) != warp)
        return byte->reader;
    if (byte->foreign != 0)
        return byte->foreign;
    if (byte->read_warp_epoch != b->warp[warp].epoch)
        return 0;
    return byte->reader != self ? byte->reader : byte->other;
}

void sc_machine_order_read(sc_machine_block *b, sc_machine_byte *byte, const sc_machine_thread *t,
                           int line, const char *name, int64_t at)
{
    uint16_t self = (uint16_t)(t->index + 1);
    int warp = t->index / SC_MACHINE_WARP;
    if (after_write(b, byte, t))
        stop_race(b, t, line, "reads", name, at, byte->writer, "wrote", byte->write_line);
    bool fresh = byte->read_epoch != b->epoch, ours = !fresh && warp_of(byte->reader) == warp;
    if (fresh || (ours && byte->read_warp_epoch != b->warp[warp].epoch)) {
        byte->read_before |= byte->read_epoch != 0 && byte->read_epoch < b->first_epoch;
        byte->foreign = fresh ? 0 : byte->foreign;
        byte->other = 0;
        byte->reader = self;
        byte->read_epoch = b->epoch;
        byte->read_warp_epoch = b->warp[warp].epoch;
    } else if (!ours) {
        byte->foreign = self;
    } else if (byte->reader != self) {
        byte->other = self;
    }
    byte->read_line = line;
}

void sc_machine_order_write(sc_machine_block *b, sc_machine_byte *byte, const sc_machine_thread *t,
                            int line, const char *name, int64_t at)
{
    if (after_write(b, byte, t))
        stop_race(b, t, line, "writes", name, at, byte->writer, "wrote", byte->write_line);
    int reader = reader_before(b, byte, t);
    if (reader != 0)
        stop_race(b, t, line, "writes", name, at, reader, "reads", byte->read_line);
    byte->writer = (uint16_t)(t->index + 1);
    byte->write_line = line;
    byte->write_epoch = b->epoch;
    byte->write_warp_epoch = b->warp[t->index / SC_MACHINE_WARP].epoch;
    byte->read_epoch = 0;
}

void sc_machine_order_blocks(sc_machine_block *b, const sc_machine_byte *byte, int line,
                             const char *name, int64_t at, bool writes)
{
    bool written = byte->write_epoch != 0 && byte->write_epoch < b->first_epoch;
    bool read = byte->read_before || (byte->read_epoch != 0 && byte->read_epoch < b->first_epoch);
    if (written || (writes && read))
        sc_machine_stop(b, line, "race: %s byte %lld of %s, which another block of the launch %s",
                        writes ? "writes" : "reads", (long long)at, name,
                        written ? "wrote" : "reads");
}
