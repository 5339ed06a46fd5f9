/* What the stub is told: settings, which calls fail; and what it tells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/cuda_stub/internal.h"

stub the = {
    .is_guarded = true, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
_Thread_local sc_cu_context current;

void *must_have(void *memory)
{
    if (memory == NULL) {
        fputs("test/cuda_stub: memory ran out\n", stderr);
        abort();
    }
    return memory;
}

/* SplitMix64 (Steele, Lea and Flood, OOPSLA 2014). */
uint64_t draw(uint64_t below)
{
    uint64_t x = the.random += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (x ^ x >> 31) % below;
}

/* ---- settings ---- */

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL || *text == 0 ? otherwise : strtoull(text, NULL, 10);
}

static void set_fail(const char *function, uint64_t n, unsigned result)
{
    snprintf(the.fail_function, sizeof the.fail_function, "%s", function == NULL ? "" : function);
    the.fail_at = n;
    the.fail_result = result;
    the.calls = 0;
    the.failed = NULL;
}

static void set_seed(uint64_t seed)
{
    the.seed = the.random = seed;
    open_memory(true);
    the.is_guarded = seed % 4 == 0;
    open_memory(false);
}

void read_environment(void)
{
    static char seen[256];
    const char *capability = getenv("SHARDC_STUB_CAPABILITY"), *fail = getenv("SHARDC_STUB_FAIL");
    the.gpus = (int)number("SHARDC_STUB_GPUS", 1);
    the.gpus = the.gpus > MAX_GPUS ? MAX_GPUS : the.gpus;
    the.driver = (int)number("SHARDC_STUB_DRIVER", 13000);
    the.mode = (int)number("SHARDC_STUB_MODE", 0);
    the.shared_kib = (int)number("SHARDC_STUB_SHARED", 163);
    the.memory = (size_t)number("SHARDC_STUB_MEMORY", 1024) << 20;
    the.is_poisoned = number("SHARDC_STUB_POISON", 0) != 0;
    the.errors = (sc_ptx_errors)(number("SHARDC_STUB_ERRORS", 0) % SC_PTX_ERRORS);
    the.major = 8;
    the.minor = 0;
    if (capability != NULL)
        // NOLINTNEXTLINE(cert-err34-c): a test wrote it
        sscanf(capability, "%d.%d", &the.major, &the.minor);
    if (getenv("SHARDC_STUB_SEED") != NULL)
        set_seed(number("SHARDC_STUB_SEED", 0));
    fail = fail == NULL ? "" : fail;
    if (strcmp(fail, seen) != 0) {
        char name[64] = "";
        const char *hash = strchr(fail, '#');
        unsigned long long n = 0;
        unsigned result = RESULT_UNKNOWN;
        snprintf(seen, sizeof seen, "%s", fail);
        // NOLINTNEXTLINE(cert-err34-c): a test wrote it
        if (hash != NULL && sscanf(hash, "#%llu=%u", &n, &result) >= 1)
            snprintf(name, sizeof name, "%.*s", (int)(hash - fail), fail);
        set_fail(name, n, result);
    }
}

/* ---- calls ---- */

static unsigned count_call(const char *function)
{
    if (the.fail_function[0] != 0 && strcmp(the.fail_function, function) != 0)
        return 0;
    if (++the.calls != the.fail_at)
        return 0;
    the.failed = function;
    return the.fail_result;
}

sc_cu_result enter(const char *function, int flags)
{
    pthread_mutex_lock(&the.lock);
    sc_cu_result injected = count_call(function);
    if (injected >= RESULT_CAPTURE_UNSUPPORTED && injected <= RESULT_CAPTURE_WRONG_THREAD)
        spoils_capture(); /* what captures do not take ends them */
    if (injected != SC_CU_SUCCESS)
        return injected;
    if (!the.is_initialised && strcmp(function, "cuInit") != 0 &&
        strcmp(function, "cuDriverGetVersion") != 0)
        return RESULT_NOT_INITIALISED;
    if ((flags & IN_CONTEXT) != 0 && current == NULL)
        return RESULT_INVALID_CONTEXT;
    if ((flags & IN_CONTEXT) != 0 && !is_live(current, CONTEXT))
        return RESULT_CONTEXT_IS_DESTROYED;
    if ((flags & IN_CONTEXT) != 0 && the.broken != SC_CU_SUCCESS)
        return the.broken;
    if ((flags & UNSAFE_IN_CAPTURE) != 0 && spoils_capture())
        return RESULT_CAPTURE_UNSUPPORTED;
    return SC_CU_SUCCESS;
}

sc_cu_result leave(sc_cu_result result)
{
    pthread_mutex_unlock(&the.lock);
    return result;
}

unsigned sc_stub_enter(const char *function)
{
    pthread_mutex_lock(&the.lock);
    unsigned injected = count_call(function);
    pthread_mutex_unlock(&the.lock);
    return injected;
}

void sc_stub_fail(const char *function, uint64_t n, unsigned result)
{
    pthread_mutex_lock(&the.lock);
    set_fail(function, n, result);
    pthread_mutex_unlock(&the.lock);
}

const char *sc_stub_failed(void)
{
    return the.failed;
}

static uint64_t get(const uint64_t *number)
{
    pthread_mutex_lock(&the.lock);
    uint64_t value = *number;
    pthread_mutex_unlock(&the.lock);
    return value;
}

uint64_t sc_stub_calls(void)
{
    return get(&the.calls);
}

uint64_t sc_stub_launches(void)
{
    return get(&the.launches);
}

uint64_t sc_stub_replays(void)
{
    return get(&the.replays);
}

uint64_t sc_stub_allocated(void)
{
    return get(&the.allocated);
}

void sc_stub_seed(uint64_t seed)
{
    pthread_mutex_lock(&the.lock);
    set_seed(seed);
    pthread_mutex_unlock(&the.lock);
}

void sc_stub_delay(const char *kernel, int gpu, uint32_t milliseconds)
{
    pthread_mutex_lock(&the.lock);
    the.delayed = kernel;
    the.delay_gpu = gpu;
    the.delay_ms = milliseconds;
    pthread_mutex_unlock(&the.lock);
}

/* ---- objects ---- */

bool is_live(const void *handle, object_kind kind)
{
    const object *o = the.objects;
    while (o != NULL && (const void *)o != handle)
        o = o->next;
    return o != NULL && o->kind == kind;
}

void *new_object(object_kind kind, size_t bytes)
{
    object *o = must_have(calloc(1, bytes));
    *o = (object){kind, the.objects, current};
    the.objects = o;
    the.allocated += kind != CONTEXT;
    return o;
}

void free_object(void *handle)
{
    object **at = &the.objects;
    while (*at != NULL && *at != handle)
        at = &(*at)->next;
    if (*at != NULL)
        *at = (*at)->next;
    free(handle);
}

uint32_t sc_stub_live(char *text, size_t room)
{
    static const char *const names[OBJECT_KINDS] = {"context", "module", "allocation", "pinned",
                                                    "stream",  "event",  "graph",      "exec"};
    uint32_t counts[OBJECT_KINDS] = {0}, all = 0;
    size_t at = 0;
    pthread_mutex_lock(&the.lock);
    for (const object *o = the.objects; o != NULL; o = o->next, all++)
        counts[o->kind]++;
    pthread_mutex_unlock(&the.lock);
    if (room > 0)
        *text = 0;
    for (int k = 0; k < OBJECT_KINDS; k++) {
        if (counts[k] > 0 && at < room)
            at += (size_t)snprintf(text + at, room - at, "%s%u %s", at > 0 ? ", " : "", counts[k],
                                   names[k]);
    }
    return all;
}

bool sc_stub_check(char *text, size_t room)
{
    sc_machine_report report = {""};
    bool ok = true;
    pthread_mutex_lock(&the.lock);
    open_memory(true);
    for (int c = 0; c < MAX_GPUS && ok; c++)
        ok = the.primary[c] == NULL || sc_machine_memory_check(the.primary[c]->memory, &report);
    open_memory(false);
    pthread_mutex_unlock(&the.lock);
    snprintf(text, room, "%s", report.text);
    return ok;
}

static void free_any(object *o)
{
    switch (o->kind) {
    case MEMORY:
    case PINNED:
        free_allocation((allocation *)o);
        return;
    case STREAM:
        drop_stream((sc_cu_stream)o);
        return;
    case EVENT:
        record_drop(((sc_cu_event)o)->latest);
        break;
    case GRAPH:
        nodes_drop(((sc_cu_graph)o)->nodes);
        break;
    case GRAPH_EXEC:
        nodes_drop(((sc_cu_graph_exec)o)->nodes);
        break;
    default:
        break;
    }
    free_object(o);
}

/* Streams are empty, or their work is lost. */
void purge_context(const struct CUctx_st *context)
{
    for (sc_cu_stream s = the.streams, next; s != NULL; s = next) {
        next = s->next;
        if (s->base.context != context)
            continue;
        for (op *o = s->first, *after; o != NULL; o = after) {
            after = o->next;
            op_free(o);
        }
        s->first = s->last = NULL;
        if (s->is_destroyed)
            drop_stream(s);
    }
    for (object *o = the.objects, *next; o != NULL; o = next) {
        next = o->next;
        if (o->kind != CONTEXT && o->context == context)
            free_any(o);
    }
}

void sc_stub_reset(void)
{
    pthread_mutex_lock(&the.lock);
    the.broken = SC_CU_SUCCESS;
    while (the.captures != NULL) {
        capture *c = the.captures;
        the.captures = c->next;
        nodes_drop(c->nodes);
        free(c);
    }
    for (int i = 0; i < MAX_GPUS; i++) {
        if (the.primary[i] == NULL)
            continue;
        purge_context(the.primary[i]);
        sc_machine_memory_free(the.primary[i]->memory);
        free_object(the.primary[i]);
    }
    memset(the.primary, 0, sizeof the.primary);
    current = NULL;
    pthread_mutex_unlock(&the.lock);
}
