/* Shared memory: every load and store comes here. A copy under way holds its bytes from its issue
 * until its thread waits for it; it then counts as that thread's store. */
#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

void sc_machine_shared_start(sc_machine_block *b)
{
    for (uint32_t i = 0; i < b->launch->shared_bytes; i++)
        b->shared[i] = sc_machine_poison(i);
    b->first_epoch = ++b->epoch;
}

static void check_place(sc_machine_block *b, int line, const char *what, int64_t at, int bytes,
                        int align)
{
    if (at < 0 || at + bytes > (int64_t)b->launch->shared_bytes)
        sc_machine_stop(b, line, "%s bytes %lld .. %lld of shared memory, which has %u", what,
                        (long long)at, (long long)at + bytes - 1, b->launch->shared_bytes);
    if (at % align != 0)
        sc_machine_stop(b, line,
                        "%s %d bytes of shared memory at byte %lld, which is no multiple of %d",
                        what, bytes, (long long)at, align);
}

static void check_copying(sc_machine_block *b, const sc_machine_byte *byte, int line,
                          const char *what, int64_t at)
{
    if (byte->copying != 0)
        sc_machine_stop(b, line,
                        "%s byte %lld of shared memory while thread %d's copy to it (line %d) is "
                        "under way: no sc_copy_wait",
                        what, (long long)at, byte->copying - 1, byte->write_line);
}

void sc_machine_shared_read(sc_machine_block *b, const sc_machine_thread *t, int line, int64_t at,
                            void *to, int bytes, int align)
{
    check_place(b, line, "reads", at, bytes, align);
    for (int i = 0; i < bytes; i++) {
        sc_machine_byte *byte = &b->bytes[at + i];
        check_copying(b, byte, line, "reads", at + i);
        if (byte->write_epoch < b->first_epoch)
            sc_machine_stop(b, line, "reads byte %lld of shared memory, which was never written",
                            (long long)at + i);
        sc_machine_order_read(b, byte, t, line, "shared memory", at + i);
    }
    memcpy(to, b->shared + at, (size_t)bytes);
}

static void note_write(sc_machine_block *b, const sc_machine_thread *t, int line, int64_t at,
                       int bytes, bool copying)
{
    for (int i = 0; i < bytes; i++) {
        sc_machine_byte *byte = &b->bytes[at + i];
        check_copying(b, byte, line, "writes", at + i);
        sc_machine_order_write(b, byte, t, line, "shared memory", at + i);
        byte->copying = copying ? byte->writer : 0;
    }
}

void sc_machine_shared_load(int line, int64_t at, void *to, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    sc_machine_shared_read(b, b->now, line, at, to, bytes, align);
}

void sc_machine_shared_store(int line, int64_t at, const void *from, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    check_place(b, line, "writes", at, bytes, align);
    note_write(b, b->now, line, at, bytes, false);
    memcpy(b->shared + at, from, (size_t)bytes);
}

/* ---- copies ---- */

static void land(sc_machine_block *b, const sc_machine_copy *copy)
{
    memcpy(b->shared + copy->to, copy->from, (size_t)copy->bytes);
    memset(b->shared + copy->to + copy->bytes, 0, (size_t)(16 - copy->bytes));
}

static sc_machine_copy *new_copy(sc_machine_block *b, sc_machine_thread *t)
{
    if (t->first_copy == t->copy_count)
        t->first_copy = t->copy_count = 0;
    if (t->copy_count == t->copy_room) {
        uint32_t room = t->copy_room == 0 ? 16 : 2 * t->copy_room;
        sc_machine_copy *copies = realloc(t->copies, room * sizeof *copies);
        if (copies == NULL)
            sc_machine_stop(b, 0, "the engine's memory ran out");
        t->copies = copies;
        t->copy_room = room;
    }
    return &t->copies[t->copy_count++];
}

void sc_machine_copy_async(int line, int64_t to, const void *from, int bytes)
{
    sc_machine_block *b = sc_machine_now();
    check_place(b, line, "copies to", to, 16, 16);
    if ((uintptr_t)from % 16 != 0)
        sc_machine_stop(b, line, "copies from address %p, which is no multiple of 16", from);
    if (bytes < 0 || bytes > 16)
        sc_machine_stop(b, line, "copies %d bytes: 0 to 16 are possible", bytes);
    sc_machine_global_read(b, line, from, bytes);
    note_write(b, b->now, line, to, 16, true);
    sc_machine_copy *copy = new_copy(b, b->now);
    *copy = (sc_machine_copy){
        .to = to, .from = from, .bytes = bytes, .line = line, .group = b->now->groups};
    if (b->launch->copies == SC_MACHINE_COPY_AT_ISSUE)
        land(b, copy);
}

void sc_machine_copy_commit(int line)
{
    sc_machine_thread *t = sc_machine_now()->now;
    t->line = line;
    t->groups++;
}

/* Groups are counted from 0: those below groups - newest have to be here. */
void sc_machine_copy_wait(int line, int newest)
{
    sc_machine_block *b = sc_machine_now();
    sc_machine_thread *t = b->now;
    t->line = line;
    while (t->first_copy < t->copy_count &&
           (int64_t)t->copies[t->first_copy].group < (int64_t)t->groups - newest) {
        const sc_machine_copy *copy = &t->copies[t->first_copy++];
        if (b->launch->copies == SC_MACHINE_COPY_AT_WAIT)
            land(b, copy);
        for (int i = 0; i < 16; i++) {
            sc_machine_byte *byte = &b->bytes[copy->to + i];
            byte->copying = 0;
            byte->write_epoch = b->epoch;
            byte->write_warp_epoch = b->warp[t->index / SC_MACHINE_WARP].epoch;
        }
    }
    sc_machine_yield(b);
}
