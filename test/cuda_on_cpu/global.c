/* Global memory: what wrappers load and store, and what the compiler's instrumentation sees of all
 * else. */
#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

/* The array in whose pages the address is, or NULL; looked for beginning with the last. */
static sc_machine_array *array_near(sc_machine_block *b, const void *at)
{
    sc_machine_array *a = b->array;
    if (a == NULL || (uintptr_t)at - (uintptr_t)a->pages >= a->page_bytes)
        a = b->array = sc_machine_array_of(b->arrays, b->array_count, at);
    return a;
}

/* The array whose bytes these are; the run ends when they are not all of one. */
static sc_machine_array *array_at(sc_machine_block *b, int line, const void *at, int64_t bytes,
                                  bool writes)
{
    const char *verb = writes ? "writes" : "reads";
    sc_machine_array *a = array_near(b, at);
    if (a == NULL)
        sc_machine_stop(b, line, "%s %lld bytes at %p, which is no array's", verb, (long long)bytes,
                        at);
    int64_t from = (int64_t)((uintptr_t)at - (uintptr_t)a->data);
    if (from < 0 || from + bytes > (int64_t)a->bytes)
        sc_machine_stop(b, line, "%s bytes %lld .. %lld of %s, which has %zu", verb,
                        (long long)from, (long long)(from + bytes - 1), a->name, a->bytes);
    if (writes && a->read_only)
        sc_machine_stop(b, line, "writes byte %lld of %s, which is only read", (long long)from,
                        a->name);
    return a;
}

/* A part of 4 bytes, or the 2 that are read, that is poison. Single bytes may have any value. */
static void check_written(sc_machine_block *b, int line, const sc_machine_array *a, const char *at,
                          int64_t bytes)
{
    int64_t part = bytes >= 4 ? 4 : bytes;
    for (int64_t i = 0; part >= 2 && i + part <= bytes; i += part) {
        bool poison = true;
        for (int64_t k = i; k < i + part; k++)
            poison = poison && at[k] == sc_machine_poison((uintptr_t)(at + k));
        if (poison)
            sc_machine_stop(b, line, "reads bytes %lld .. %lld of %s, which nobody wrote",
                            (long long)(at + i - a->data), (long long)(at + i + part - 1 - a->data),
                            a->name);
    }
}

static void access_array(sc_machine_block *b, int line, const void *at, int64_t bytes, bool writes)
{
    if (b->arrays == NULL || bytes <= 0)
        return;
    sc_machine_array *a = array_at(b, line, at, bytes, writes);
    if (b->launch->bounds_only)
        return;
    if (!writes)
        check_written(b, line, a, at, bytes);
    if (a->read_only)
        return;
    if (a->touched == NULL && (a->touched = calloc(a->bytes, sizeof *a->touched)) == NULL)
        sc_machine_stop(b, line, "the engine's memory ran out");
    int64_t from = (int64_t)((uintptr_t)at - (uintptr_t)a->data);
    for (int64_t i = from; i < from + bytes; i++) {
        sc_machine_order_blocks(b, &a->touched[i], line, a->name, i, writes);
        if (writes)
            sc_machine_order_write(b, &a->touched[i], b->now, line, a->name, i);
        else
            sc_machine_order_read(b, &a->touched[i], b->now, line, a->name, i);
    }
}

void sc_machine_global_read(sc_machine_block *b, int line, const void *from, int bytes)
{
    access_array(b, line, from, bytes, false);
}

static void check_align(sc_machine_block *b, int line, const char *verb, const void *at, int bytes,
                        int align)
{
    if ((uintptr_t)at % (uintptr_t)align != 0)
        sc_machine_stop(b, line, "%s %d bytes at %p, which is no multiple of %d", verb, bytes, at,
                        align);
}

void sc_machine_global_load(int line, const void *from, void *to, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "reads", from, bytes, align);
    access_array(b, line, from, bytes, false);
    memcpy(to, from, (size_t)bytes);
}

void sc_machine_global_store(int line, void *to, const void *from, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "writes", to, bytes, align);
    access_array(b, line, to, bytes, true);
    memcpy(to, from, (size_t)bytes);
}

void sc_machine_global_add(int line, void *at, int64_t value, int bytes)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "adds to", at, bytes, bytes);
    access_array(b, line, at, bytes, false);
    if (b->arrays != NULL)
        array_at(b, line, at, bytes, true);
    if (bytes == 4)
        __atomic_fetch_add((uint32_t *)at, (uint32_t)value, __ATOMIC_RELAXED);
    else
        __atomic_fetch_add((uint64_t *)at, (uint64_t)value, __ATOMIC_RELAXED);
}

void sc_machine_global_lower(int line, uint64_t *at, uint64_t value)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "writes", at, 8, 8);
    if (b->arrays != NULL)
        array_at(b, line, at, 8, true);
    uint64_t old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (value < old && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_RELAXED,
                                                       __ATOMIC_RELAXED)) {
    }
}

/* Stacks of threads are their own; what is neither there nor near an array is the shared object's
 * constants. */
void sc_machine_touch(const void *code, const void *at, int64_t bytes, int writes)
{
    sc_machine_block *b = sc_machine_now();
    if (b == NULL || b->arrays == NULL ||
        (uintptr_t)at - (uintptr_t)b->stacks < b->stack_count * SC_MACHINE_STACK)
        return;
    b->code = code;
    if (array_near(b, at) != NULL)
        access_array(b, 0, at, bytes, writes != 0);
}
