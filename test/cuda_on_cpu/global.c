/* Global memory: what wrappers load and store, and what the compiler's instrumentation sees of all else. */
#include <string.h>

#include "test/cuda_on_cpu/engine.h"

/* The array, when arrays are looked at; the run ends when the bytes are not all in one. */
static const sc_machine_array *check_place(sc_machine_block *b, int line, const void *at, int64_t bytes, bool writes)
{
    const char *verb = writes ? "writes" : "reads";
    const sc_machine_array *a = b->array;
    if (a == NULL || (uintptr_t)at - (uintptr_t)a->pages >= a->page_bytes)
        a = b->array = sc_machine_array_of(b->arrays, b->array_count, at);
    if (a == NULL)
        sc_machine_stop(b, line, "%s %lld bytes at %p, which is no array's", verb, (long long)bytes, at);
    int64_t from = (int64_t)((uintptr_t)at - (uintptr_t)a->data);
    if (from < 0 || from + bytes > (int64_t)a->bytes)
        sc_machine_stop(b, line, "%s bytes %lld .. %lld of %s, which has %zu", verb, (long long)from, (long long)(from + bytes - 1),
                        a->name, a->bytes);
    if (writes && a->read_only)
        sc_machine_stop(b, line, "writes byte %lld of %s, which is only read", (long long)from, a->name);
    return a;
}

void sc_machine_global_read(sc_machine_block *b, int line, const void *from, int bytes)
{
    if (b->arrays != NULL && bytes > 0)
        check_place(b, line, from, bytes, false);
}

static void check_align(sc_machine_block *b, int line, const char *verb, const void *at, int bytes, int align)
{
    if ((uintptr_t)at % (uintptr_t)align != 0)
        sc_machine_stop(b, line, "%s %d bytes at %p, which is no multiple of %d", verb, bytes, at, align);
}

void sc_machine_global_load(int line, const void *from, void *to, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "reads", from, bytes, align);
    sc_machine_global_read(b, line, from, bytes);
    memcpy(to, from, (size_t)bytes);
}

void sc_machine_global_store(int line, void *to, const void *from, int bytes, int align)
{
    sc_machine_block *b = sc_machine_now();
    check_align(b, line, "writes", to, bytes, align);
    if (b->arrays != NULL)
        check_place(b, line, to, bytes, true);
    memcpy(to, from, (size_t)bytes);
}

/* Stacks of threads are their own; what is neither there nor near an array is the shared object's constants. */
void sc_machine_touch(const void *at, int64_t bytes, int writes)
{
    sc_machine_block *b = sc_machine_now();
    if (b == NULL || b->arrays == NULL || (uintptr_t)at - (uintptr_t)b->stacks < b->stack_count * SC_MACHINE_STACK)
        return;
    if (sc_machine_array_of(b->arrays, b->array_count, at) != NULL)
        check_place(b, 0, at, bytes, writes != 0);
}
