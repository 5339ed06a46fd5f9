/* Arrays of the device, each in pages of its own between two that nobody may touch. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/cuda_on_cpu/engine.h"

struct sc_machine_memory {
    pthread_mutex_t lock;
    sc_machine_array *arrays; /* in order of address */
    uint32_t count, room;
};

enum { ALIGN = 64 };

sc_machine_memory *sc_machine_memory_new(void)
{
    sc_machine_memory *memory = calloc(1, sizeof *memory);
    if (memory != NULL)
        pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

void sc_machine_memory_free(sc_machine_memory *memory)
{
    if (memory == NULL)
        return;
    for (uint32_t i = 0; i < memory->count; i++)
        munmap(memory->arrays[i].pages, memory->arrays[i].page_bytes);
    pthread_mutex_destroy(&memory->lock);
    free(memory->arrays);
    free(memory);
}

static bool insert(sc_machine_memory *memory, const sc_machine_array *array)
{
    if (memory->count == memory->room) {
        uint32_t room = memory->room == 0 ? 16 : 2 * memory->room;
        sc_machine_array *arrays = realloc(memory->arrays, room * sizeof *arrays);
        if (arrays == NULL)
            return false;
        memory->arrays = arrays;
        memory->room = room;
    }
    uint32_t i = memory->count++;
    for (; i > 0 && memory->arrays[i - 1].pages > array->pages; i--)
        memory->arrays[i] = memory->arrays[i - 1];
    memory->arrays[i] = *array;
    return true;
}

void *sc_machine_alloc(sc_machine_memory *memory, size_t bytes, sc_machine_place place,
                       const char *name)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), padded = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (padded < bytes || padded > SIZE_MAX / 2)
        return NULL;
    sc_machine_array array = {.page_bytes = (padded + page - 1) / page * page + 2 * page,
                              .bytes = bytes};
    array.page_bytes += bytes == 0 ? page : 0;
    array.pages = mmap(NULL, array.page_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (array.pages == MAP_FAILED)
        return NULL;
    char *first = array.pages + page, *end = array.pages + array.page_bytes - page;
    array.data = place == SC_MACHINE_AT_END ? end - padded : first;
    snprintf(array.name, sizeof array.name, "%s", name == NULL ? "array" : name);
    bool ok = mprotect(first, (size_t)(end - first), PROT_READ | PROT_WRITE) == 0;
    for (char *at = place == SC_MACHINE_ZEROED ? first + bytes : first; ok && at < end; at++)
        *at = sc_machine_poison((uintptr_t)at);
    pthread_mutex_lock(&memory->lock);
    ok = ok && insert(memory, &array);
    pthread_mutex_unlock(&memory->lock);
    if (!ok)
        munmap(array.pages, array.page_bytes);
    return ok ? array.data : NULL;
}

/* With the lock held; memory->count when there is none. */
static uint32_t find(const sc_machine_memory *memory, const void *data)
{
    uint32_t i = 0;
    while (i < memory->count && memory->arrays[i].data != data)
        i++;
    return i;
}

bool sc_machine_release(sc_machine_memory *memory, void *array)
{
    pthread_mutex_lock(&memory->lock);
    uint32_t i = find(memory, array);
    bool found = i < memory->count;
    if (found) {
        munmap(memory->arrays[i].pages, memory->arrays[i].page_bytes);
        memory->count--;
        memmove(&memory->arrays[i], &memory->arrays[i + 1],
                (memory->count - i) * sizeof *memory->arrays);
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

void sc_machine_read_only(sc_machine_memory *memory, void *array, bool read_only)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pthread_mutex_lock(&memory->lock);
    uint32_t i = find(memory, array);
    if (i < memory->count) {
        sc_machine_array *a = &memory->arrays[i];
        a->read_only = mprotect(a->pages + page, a->page_bytes - 2 * page,
                                read_only ? PROT_READ : PROT_READ | PROT_WRITE) == 0 &&
                       read_only;
    }
    pthread_mutex_unlock(&memory->lock);
}

bool sc_machine_memory_check(sc_machine_memory *memory, sc_machine_report *report)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    bool ok = true;
    report->text[0] = 0;
    pthread_mutex_lock(&memory->lock);
    for (uint32_t i = 0; i < memory->count && ok; i++) {
        const sc_machine_array *a = &memory->arrays[i];
        const char *end = a->pages + a->page_bytes - page;
        for (const char *at = a->pages + page; at < end && ok; at++) {
            at = at == a->data ? at + a->bytes : at;
            ok = at >= end || *at == sc_machine_poison((uintptr_t)at);
            if (!ok && at < a->data)
                sc_machine_report_add(report, "%s: byte %td in front of its first was written",
                                      a->name, a->data - at);
            else if (!ok)
                sc_machine_report_add(report, "%s: byte %td was written, it has %zu", a->name,
                                      at - a->data, a->bytes);
        }
    }
    pthread_mutex_unlock(&memory->lock);
    return ok;
}

sc_machine_array *sc_machine_arrays(sc_machine_memory *memory, uint32_t *count)
{
    pthread_mutex_lock(&memory->lock);
    sc_machine_array *arrays = malloc((memory->count + (size_t)1) * sizeof *arrays);
    *count = memory->count;
    if (arrays != NULL && memory->count > 0)
        memcpy(arrays, memory->arrays, memory->count * sizeof *arrays);
    pthread_mutex_unlock(&memory->lock);
    return arrays;
}

sc_machine_array *sc_machine_array_of(sc_machine_array *arrays, uint32_t count, const void *at)
{
    uint32_t first = 0, end = count;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        sc_machine_array *a = &arrays[middle];
        if ((uintptr_t)at < (uintptr_t)a->pages)
            end = middle;
        else if ((uintptr_t)at >= (uintptr_t)a->pages + a->page_bytes)
            first = middle + 1;
        else
            return a;
    }
    return NULL;
}
