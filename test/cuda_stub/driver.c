/* GPUs, contexts, memory, copies. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "test/cuda_stub/internal.h"

/* ---- errors ---- */

static const struct {
    sc_cu_result result;
    const char *name, *text;
} results[] = {
    {SC_CU_SUCCESS, "CUDA_SUCCESS", "no error"},
    {RESULT_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {SC_CU_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {RESULT_NOT_INITIALISED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {SC_CU_NEEDS_NEWER_DRIVER, "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
     "the API call requires a newer driver"},
    {SC_CU_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {RESULT_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {RESULT_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {RESULT_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {SC_CU_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {RESULT_INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {SC_CU_UNSUPPORTED_PTX, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
     "the provided PTX was compiled with an unsupported toolchain"},
    {RESULT_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {RESULT_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {SC_CU_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {SC_CU_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {RESULT_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {RESULT_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {RESULT_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {RESULT_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {RESULT_CAPTURE_MERGE, "CUDA_ERROR_STREAM_CAPTURE_MERGE",
     "operation would result in a merge of separate capture sequences"},
    {RESULT_CAPTURE_UNMATCHED, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
     "capture was not ended in the same stream as it began"},
    {RESULT_CAPTURE_UNJOINED, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
     "capturing stream has unjoined work"},
    {RESULT_CAPTURE_ISOLATION, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
     "dependency created on uncaptured work in another stream"},
    {RESULT_CAPTURED_EVENT, "CUDA_ERROR_CAPTURED_EVENT",
     "operation not permitted on an event last recorded in a capturing stream"},
    {RESULT_CAPTURE_WRONG_THREAD, "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
     "attempt to terminate a thread-local capture sequence from another thread"},
    {RESULT_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

sc_cu_result cuGetErrorName(sc_cu_result result, const char **out)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result == result) {
            *out = results[i].name;
            return SC_CU_SUCCESS;
        }
    }
    *out = result == RESULT_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : NULL;
    return *out == NULL ? RESULT_INVALID_VALUE : SC_CU_SUCCESS;
}

sc_cu_result cuGetErrorString(sc_cu_result result, const char **out)
{
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        if (results[i].result == result) {
            *out = results[i].text;
            return SC_CU_SUCCESS;
        }
    }
    *out = result != RESULT_LAUNCH_FAILED ? NULL
           : the.report[0] != 0           ? the.report
                                          : "unspecified launch failure";
    return *out == NULL ? RESULT_INVALID_VALUE : SC_CU_SUCCESS;
}

/* ---- GPUs ---- */

static sc_cu_result init(void)
{
    read_environment();
    if (the.gpus == 0)
        return SC_CU_NO_DEVICE;
    the.is_initialised = true;
    return SC_CU_SUCCESS;
}

sc_cu_result cuInit(unsigned flags)
{
    CALL(ANYWHERE, flags != 0 ? (sc_cu_result)RESULT_INVALID_VALUE : init());
}

sc_cu_result cuDriverGetVersion(int *version)
{
    CALL(ANYWHERE, (*version = the.driver, SC_CU_SUCCESS));
}

sc_cu_result cuDeviceGetCount(int *count)
{
    CALL(ANYWHERE, (*count = the.gpus, SC_CU_SUCCESS));
}

static bool is_gpu(int gpu)
{
    return gpu >= 0 && gpu < the.gpus;
}

sc_cu_result cuDeviceGet(sc_cu_device *out, int ordinal)
{
    CALL(ANYWHERE, is_gpu(ordinal) ? (*out = ordinal, SC_CU_SUCCESS) : RESULT_INVALID_DEVICE);
}

sc_cu_result cuDeviceGetName(char *out, int room, sc_cu_device device)
{
    CALL(ANYWHERE, is_gpu(device) ? (snprintf(out, (size_t)room, "stub %d", device), SC_CU_SUCCESS)
                                  : RESULT_INVALID_DEVICE);
}

static sc_cu_result attribute(int *out, sc_cu_device_attribute which, sc_cu_device device)
{
    if (!is_gpu(device))
        return RESULT_INVALID_DEVICE;
    switch (which) {
    case SC_CU_MULTIPROCESSORS:
        *out = 4;
        return SC_CU_SUCCESS;
    case SC_CU_COMPUTE_MODE:
        *out = the.mode;
        return SC_CU_SUCCESS;
    case SC_CU_CAPABILITY_MAJOR:
        *out = the.major;
        return SC_CU_SUCCESS;
    case SC_CU_CAPABILITY_MINOR:
        *out = the.minor;
        return SC_CU_SUCCESS;
    case SC_CU_MAX_SHARED_BYTES:
        *out = the.shared_kib << 10;
        return SC_CU_SUCCESS;
    default:
        return RESULT_INVALID_VALUE;
    }
}

sc_cu_result cuDeviceGetAttribute(int *out, sc_cu_device_attribute which, sc_cu_device device)
{
    CALL(ANYWHERE, attribute(out, which, device));
}

sc_cu_result cuDeviceTotalMem_v2(size_t *bytes, sc_cu_device device)
{
    CALL(ANYWHERE, is_gpu(device) ? (*bytes = the.memory, SC_CU_SUCCESS) : RESULT_INVALID_DEVICE);
}

/* ---- contexts ---- */

static sc_cu_result retain(sc_cu_context *out, sc_cu_device device)
{
    if (!is_gpu(device))
        return RESULT_INVALID_DEVICE;
    if (the.mode == SC_CU_PROHIBITED)
        return RESULT_INVALID_DEVICE;
    if (the.primary[device] == NULL) {
        sc_cu_context context = new_object(CONTEXT, sizeof *context);
        context->gpu = device;
        context->memory = must_have(sc_machine_memory_new());
        the.primary[device] = context;
    }
    the.primary[device]->retained++;
    *out = the.primary[device];
    return SC_CU_SUCCESS;
}

sc_cu_result cuDevicePrimaryCtxRetain(sc_cu_context *out, sc_cu_device device)
{
    CALL(UNSAFE_IN_CAPTURE, retain(out, device));
}

/* What is left in a context that goes would be freed with it; here it stays among the live, so that
 * a test sees it - but after an error that no call gets past. */
static sc_cu_result release(sc_cu_device device)
{
    sc_cu_context context = is_gpu(device) ? the.primary[device] : NULL;
    if (context == NULL)
        return RESULT_INVALID_CONTEXT;
    if (--context->retained > 0)
        return SC_CU_SUCCESS;
    bool is_used = false;
    if (the.broken != SC_CU_SUCCESS)
        purge_context(context);
    for (const object *o = the.objects; o != NULL; o = o->next)
        is_used = is_used || (o->context == context && o->kind != CONTEXT);
    bool is_last = true;
    for (int c = 0; c < MAX_GPUS; c++)
        is_last =
            is_last && (c == device || the.primary[c] == NULL || the.primary[c]->retained == 0);
    the.broken = is_last ? SC_CU_SUCCESS : the.broken;
    if (is_used)
        return SC_CU_SUCCESS;
    the.primary[device] = NULL;
    sc_machine_memory_free(context->memory);
    free_object(context);
    return SC_CU_SUCCESS;
}

sc_cu_result cuDevicePrimaryCtxRelease_v2(sc_cu_device device)
{
    CALL(ANYWHERE, release(device));
}

sc_cu_result cuCtxGetCurrent(sc_cu_context *out)
{
    CALL(ANYWHERE, (*out = current, SC_CU_SUCCESS));
}

static sc_cu_result set_current(sc_cu_context context)
{
    if (context != NULL && !is_live(context, CONTEXT))
        return RESULT_INVALID_CONTEXT;
    current = context;
    return SC_CU_SUCCESS;
}

sc_cu_result cuCtxSetCurrent(sc_cu_context context)
{
    CALL(ANYWHERE, set_current(context));
}

static sc_cu_result synchronise(void)
{
    for (capture *c = the.captures; c != NULL; c = c->next) {
        if (c->origin->base.context == current) {
            c->is_invalid = true;
            return RESULT_CAPTURE_UNSUPPORTED;
        }
    }
    return drain_all();
}

sc_cu_result cuCtxSynchronize(void)
{
    CALL(IN_CONTEXT, synchronise());
}

/* ---- memory ---- */

allocation *allocation_of(object_kind kind, const void *at, size_t bytes)
{
    for (object *o = the.objects; o != NULL; o = o->next) {
        allocation *a = (allocation *)o;
        if (o->kind == kind && (uintptr_t)at - (uintptr_t)a->at <= a->bytes &&
            bytes <= a->bytes - ((uintptr_t)at - (uintptr_t)a->at))
            return a;
    }
    return NULL;
}

/* Of what is large, the beginning: the system takes its time for each page. */
static void protect(const allocation *a, bool open)
{
    enum { MOST = 256 << 10 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (a->bytes + page - 1) / page * page;
    mprotect(a->at, bytes < MOST ? bytes : MOST, open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

void open_memory(bool open)
{
    if (!the.is_guarded)
        return;
    for (const object *o = the.objects; o != NULL; o = o->next) {
        if (o->kind == MEMORY)
            protect((const allocation *)o, open);
    }
}

void free_allocation(allocation *a)
{
    if (a->base.kind == MEMORY) {
        a->base.context->used -= a->bytes;
        sc_machine_release(a->base.context->memory, a->at);
    } else
        free(a->at);
    free_object(a);
}

/* At the first byte of a page, so that addresses are multiples of 256. */
static sc_cu_result allocate(sc_cu_address *out, size_t bytes)
{
    char name[48];
    if (bytes == 0)
        return RESULT_INVALID_VALUE;
    if (bytes > the.memory || current->used > the.memory - bytes)
        return SC_CU_OUT_OF_MEMORY;
    snprintf(name, sizeof name, "an allocation of %zu", bytes);
    char *at = sc_machine_alloc(current->memory, bytes,
                                the.is_poisoned ? SC_MACHINE_AT_START : SC_MACHINE_ZEROED, name);
    if (at == NULL)
        return SC_CU_OUT_OF_MEMORY;
    allocation *a = new_object(MEMORY, sizeof *a);
    a->at = at;
    a->bytes = bytes;
    current->used += bytes;
    if (the.is_guarded)
        protect(a, false);
    *out = (sc_cu_address)(uintptr_t)at;
    return SC_CU_SUCCESS;
}

sc_cu_result cuMemAlloc_v2(sc_cu_address *out, size_t bytes)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, allocate(out, bytes));
}

static sc_cu_result release_memory(object_kind kind, const void *at)
{
    allocation *a = allocation_of(kind, at, 0);
    if (a == NULL || a->at != at)
        return RESULT_INVALID_VALUE;
    sc_cu_result result = drain_all();
    free_allocation(a);
    return result;
}

sc_cu_result cuMemFree_v2(sc_cu_address memory)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, release_memory(MEMORY, (const void *)(uintptr_t)memory));
}

static sc_cu_result allocate_pinned(void **out, size_t bytes)
{
    if (bytes == 0)
        return RESULT_INVALID_VALUE;
    allocation *a = new_object(PINNED, sizeof *a);
    a->at = must_have(malloc(bytes));
    a->bytes = bytes;
    memset(a->at, 0xa5, bytes < 4096 ? bytes : 4096);
    *out = a->at;
    return SC_CU_SUCCESS;
}

sc_cu_result cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE,
         flags > 7 ? RESULT_INVALID_VALUE : allocate_pinned(out, bytes));
}

sc_cu_result cuMemFreeHost(void *memory)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, release_memory(PINNED, memory));
}

sc_cu_result cuMemGetInfo_v2(size_t *available, size_t *total)
{
    CALL(IN_CONTEXT, (*total = the.memory, *available = the.memory - current->used, SC_CU_SUCCESS));
}

bool sc_stub_owns(sc_cu_stream stream, const void *at, size_t bytes)
{
    pthread_mutex_lock(&the.lock);
    const allocation *a = is_live(stream, STREAM) ? allocation_of(MEMORY, at, bytes) : NULL;
    bool owns = a != NULL && a->base.context == stream->base.context;
    pthread_mutex_unlock(&the.lock);
    return owns;
}

int sc_stub_gpu(void)
{
    pthread_mutex_lock(&the.lock);
    int gpu = current != NULL && is_live(current, CONTEXT) ? current->gpu : -1;
    pthread_mutex_unlock(&the.lock);
    return gpu;
}

int sc_stub_gpu_of(sc_cu_stream stream)
{
    pthread_mutex_lock(&the.lock);
    int gpu = is_live(stream, STREAM) ? stream->base.context->gpu : -1;
    pthread_mutex_unlock(&the.lock);
    return gpu;
}

/* ---- copies ---- */

typedef struct copy {
    char *to;
    const char *from; /* NULL: a fill */
    size_t bytes;
    uint32_t value, width;
} copy;

/* Pages that are given back are zeros when they are touched again. */
static void clear(char *to, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)to % page) % page,
           whole = (bytes - before) / page * page;
    memset(to, 0, before);
    madvise(to + before, whole, MADV_DONTNEED);
    memset(to + before + whole, 0, bytes - before - whole);
}

static bool run_copy(void *data, char *why, size_t room)
{
    const copy *c = data;
    (void)why, (void)room;
    if (c->from != NULL)
        memmove(c->to, c->from, c->bytes);
    else if (c->value == 0 && c->bytes > 1 << 20)
        clear(c->to, c->bytes);
    else if (c->width == 1)
        memset(c->to, (int)c->value, c->bytes);
    for (size_t i = 0; c->from == NULL && c->width > 1 && i < c->bytes; i += c->width)
        memcpy(c->to + i, &c->value, c->width);
    return true;
}

/* Pageable memory is read before the call returns, and written before it does. */
static sc_cu_result put_copy(sc_cu_stream stream, bool from_host, bool to_host, copy c,
                             const char *name)
{
    sc_stub_work work = {.name = name, .run = run_copy};
    if (!is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if ((!to_host && allocation_of(MEMORY, c.to, c.bytes) == NULL) ||
        (c.from != NULL && !from_host && allocation_of(MEMORY, c.from, c.bytes) == NULL))
        return RESULT_INVALID_VALUE;
    bool is_pageable = (from_host && allocation_of(PINNED, c.from, c.bytes) == NULL) ||
                       (to_host && allocation_of(PINNED, c.to, c.bytes) == NULL);
    if (is_pageable && stream->capture != NULL) {
        stream->capture->is_invalid = true;
        return RESULT_CAPTURE_UNSUPPORTED;
    }
    sc_cu_result result = c.bytes == 0 ? SC_CU_SUCCESS : put(stream, &work, &c, sizeof c);
    return result == SC_CU_SUCCESS && is_pageable ? drain_stream(stream) : result;
}

#define AT(address) ((char *)(uintptr_t)(address))

sc_cu_result cuMemcpyHtoDAsync_v2(sc_cu_address to, const void *from, size_t bytes,
                                  sc_cu_stream stream)
{
    CALL(IN_CONTEXT, put_copy(stream, true, false,
                              (copy){.to = AT(to), .from = from, .bytes = bytes}, __func__));
}

sc_cu_result cuMemcpyDtoHAsync_v2(void *to, sc_cu_address from, size_t bytes, sc_cu_stream stream)
{
    CALL(IN_CONTEXT, put_copy(stream, false, true,
                              (copy){.to = to, .from = AT(from), .bytes = bytes}, __func__));
}

sc_cu_result cuMemcpyDtoDAsync_v2(sc_cu_address to, sc_cu_address from, size_t bytes,
                                  sc_cu_stream stream)
{
    CALL(IN_CONTEXT, put_copy(stream, false, false,
                              (copy){.to = AT(to), .from = AT(from), .bytes = bytes}, __func__));
}

sc_cu_result cuMemsetD8Async(sc_cu_address to, unsigned char value, size_t count,
                             sc_cu_stream stream)
{
    CALL(IN_CONTEXT,
         put_copy(stream, false, false,
                  (copy){.to = AT(to), .bytes = count, .value = value, .width = 1}, __func__));
}

sc_cu_result cuMemsetD32Async(sc_cu_address to, unsigned value, size_t count, sc_cu_stream stream)
{
    CALL(IN_CONTEXT,
         put_copy(stream, false, false,
                  (copy){.to = AT(to), .bytes = 4 * count, .value = value, .width = 4}, __func__));
}
