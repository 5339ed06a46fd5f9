/* Streams and events. What is on streams runs when a call waits for it, by whichever thread does,
 * with the lock held: one thing at a time. A wait stands for a record that was put before it, so
 * what may run next is never nothing, but where work says that it is not ready: then other threads
 * (or processes) must come first. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/cuda_stub/internal.h"

#define CALL(flags, work)                                                                          \
    do {                                                                                           \
        sc_cu_result entered = enter(__func__, flags);                                             \
        return leave(entered != SC_CU_SUCCESS ? entered : (sc_cu_result)(work));                   \
    } while (0)

/* ---- records and work ---- */

void record_drop(record *r)
{
    if (r == NULL || --r->refs > 0)
        return;
    free(r->tail);
    free(r);
}

void op_free(op *o)
{
    if (o->work.drop != NULL)
        o->work.drop(o->data);
    record_drop(o->record);
    free(o->data);
    free(o);
}

double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

bool run_work(op *o)
{
    char why[sizeof the.report] = "";
    if (o->work.run(o->data, why, sizeof why))
        return true;
    if (the.broken == SC_CU_SUCCESS)
        snprintf(the.report, sizeof the.report, "%s", why);
    the.broken = RESULT_LAUNCH_FAILED;
    return false;
}

/* ---- running ---- */

static bool is_ready(const op *o)
{
    if (o == NULL)
        return false;
    if (o->kind == OP_WAIT)
        return o->record->is_done;
    return o->kind == OP_RECORD || o->work.is_ready == NULL || o->work.is_ready(o->data);
}

static void unlink_stream(sc_cu_stream stream)
{
    sc_cu_stream *at = &the.streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    free_object(stream);
}

void drop_stream(sc_cu_stream stream)
{
    free(stream->tail);
    stream->tail = NULL;
    stream->tail_count = 0;
    stream->is_destroyed = true;
    if (stream->first == NULL) {
        unlink_stream(stream);
        return;
    }
    /* no longer among the live, though it runs on */
    sc_cu_stream rest = must_have(calloc(1, sizeof *rest));
    *rest = *stream;
    for (op *o = rest->first; o != NULL; o = o->next) {
        if (o->kind == OP_RECORD)
            o->record->stream = rest;
    }
    sc_cu_stream *at = &the.streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = rest;
    free_object(stream);
}

static void run_first(sc_cu_stream stream)
{
    op *o = stream->first;
    if (o->kind == OP_WORK && the.broken == SC_CU_SUCCESS && run_work(o) &&
        o->work.goes_on != NULL && o->work.goes_on(o->data))
        return;
    stream->first = o->next;
    if (stream->first == NULL)
        stream->last = NULL;
    if (o->kind == OP_RECORD) {
        o->record->is_done = true;
        o->record->time = now();
    }
    op_free(o);
    if (stream->is_destroyed && stream->first == NULL)
        unlink_stream(stream);
}

/* One of the streams that can go on, by lot; NULL: none can. */
static sc_cu_stream any_stream(void)
{
    sc_cu_stream chosen = NULL;
    uint64_t count = 0;
    for (sc_cu_stream s = the.streams; s != NULL; s = s->next) {
        if (is_ready(s->first) && draw(++count) == 0)
            chosen = s;
    }
    return chosen;
}

/* The stream that has to go on for this one to, no other; NULL: it cannot. */
static sc_cu_stream needed_stream(sc_cu_stream stream)
{
    while (stream != NULL && stream->first != NULL && stream->first->kind == OP_WAIT &&
           !stream->first->record->is_done)
        stream = stream->first->record->stream;
    return stream != NULL && is_ready(stream->first) ? stream : NULL;
}

/* Half of all orders run no more than somebody waits for. */
static bool is_lazy(void)
{
    return the.seed % 2 == 1;
}

static bool step(sc_cu_stream towards)
{
    sc_cu_stream stream = is_lazy() && towards != NULL ? needed_stream(towards) : NULL;
    if (stream == NULL)
        stream = any_stream();
    if (stream == NULL)
        return false;
    run_first(stream);
    return true;
}

static void wait_for_others(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    open_memory(false);
    pthread_cond_timedwait(&the.changed, &the.lock, &until);
    open_memory(true);
}

static sc_cu_result drain(sc_cu_stream stream, const record *r)
{
    open_memory(true);
    while (the.broken == SC_CU_SUCCESS &&
           (r != NULL ? !r->is_done : is_live(stream, STREAM) && stream->first != NULL)) {
        if (!step(r != NULL ? r->stream : stream))
            wait_for_others();
    }
    open_memory(false);
    return the.broken;
}

sc_cu_result drain_stream(sc_cu_stream stream)
{
    return drain(stream, NULL);
}

sc_cu_result drain_all(void)
{
    open_memory(true);
    for (sc_cu_stream s = the.streams; s != NULL && the.broken == SC_CU_SUCCESS;) {
        if (s->first == NULL)
            s = s->next;
        else {
            if (!step(NULL))
                wait_for_others();
            s = the.streams;
        }
    }
    open_memory(false);
    return the.broken;
}

/* Some of what could run: all of it with seed 0, nothing in lazy orders. */
static void let_some_run(void)
{
    uint64_t steps = the.seed == 0 ? UINT64_MAX : is_lazy() ? 0 : draw(4);
    if (steps == 0)
        return;
    open_memory(true);
    while (steps-- > 0 && the.broken == SC_CU_SUCCESS && step(NULL)) {
    }
    open_memory(false);
}

static void append(sc_cu_stream stream, op *o)
{
    if (stream->last != NULL)
        stream->last->next = o;
    else
        stream->first = o;
    stream->last = o;
    pthread_cond_broadcast(&the.changed);
}

sc_cu_result put(sc_cu_stream stream, const sc_stub_work *work, const void *data, size_t bytes)
{
    op *o = must_have(calloc(1, sizeof *o));
    *o = (op){.kind = OP_WORK,
              .work = *work,
              .data = must_have(malloc(bytes + 1)),
              .bytes = bytes,
              .context = current};
    memcpy(o->data, data, bytes);
    sc_cu_result result = !is_live(stream, STREAM) || stream->base.context != current
                              ? (sc_cu_result)RESULT_INVALID_HANDLE
                          : stream->capture != NULL && stream->capture->is_invalid
                              ? (sc_cu_result)RESULT_CAPTURE_INVALIDATED
                              : the.broken;
    if (result != SC_CU_SUCCESS) {
        op_free(o);
        return result;
    }
    if (stream->capture != NULL) {
        capture_add(stream, o);
        return SC_CU_SUCCESS;
    }
    append(stream, o);
    let_some_run();
    return the.broken;
}

sc_cu_result sc_stub_enqueue(sc_cu_stream stream, const sc_stub_work *work, const void *data,
                             size_t bytes)
{
    pthread_mutex_lock(&the.lock);
    sc_cu_result result = put(stream, work, data, bytes);
    pthread_mutex_unlock(&the.lock);
    return result;
}

void sc_stub_go_on(void)
{
    pthread_mutex_lock(&the.lock);
    open_memory(true);
    for (int steps = 0; steps < 64 && the.broken == SC_CU_SUCCESS && step(NULL); steps++) {
    }
    open_memory(false);
    pthread_mutex_unlock(&the.lock);
}

void sc_stub_wake(void)
{
    pthread_cond_broadcast(&the.changed);
}

/* ---- streams ---- */

enum { GREATEST = -5 }; /* least: 0 */

static sc_cu_result create_stream(sc_cu_stream *out, int priority)
{
    sc_cu_stream stream = new_object(STREAM, sizeof *stream);
    stream->priority = priority;
    stream->next = the.streams;
    the.streams = stream;
    *out = stream;
    return SC_CU_SUCCESS;
}

sc_cu_result cuStreamCreate(sc_cu_stream *out, unsigned flags)
{
    CALL(IN_CONTEXT, flags > 1 ? (sc_cu_result)RESULT_INVALID_VALUE : create_stream(out, 0));
}

/* Priorities out of range are clamped. */
sc_cu_result cuStreamCreateWithPriority(sc_cu_stream *out, unsigned flags, int priority)
{
    int clamped = priority > 0 ? 0 : priority < GREATEST ? GREATEST : priority;
    CALL(IN_CONTEXT, flags > 1 ? (sc_cu_result)RESULT_INVALID_VALUE : create_stream(out, clamped));
}

sc_cu_result cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CALL(IN_CONTEXT, (*least = 0, *greatest = GREATEST, SC_CU_SUCCESS));
}

unsigned sc_stub_streams(int priority)
{
    unsigned count = 0;
    pthread_mutex_lock(&the.lock);
    for (sc_cu_stream s = the.streams; s != NULL; s = s->next)
        count += s->priority == priority;
    pthread_mutex_unlock(&the.lock);
    return count;
}

static sc_cu_result destroy_stream(sc_cu_stream stream)
{
    if (!is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if (stream->capture != NULL)
        stream->capture->is_invalid = true;
    drop_stream(stream);
    return SC_CU_SUCCESS;
}

sc_cu_result cuStreamDestroy_v2(sc_cu_stream stream)
{
    CALL(IN_CONTEXT, destroy_stream(stream));
}

/* Whether the stream can be waited for. */
static sc_cu_result waitable(sc_cu_stream stream)
{
    if (!is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if (stream->capture == NULL)
        return SC_CU_SUCCESS;
    stream->capture->is_invalid = true;
    return RESULT_CAPTURE_UNSUPPORTED;
}

static sc_cu_result synchronise(sc_cu_stream stream)
{
    sc_cu_result result = waitable(stream);
    return result == SC_CU_SUCCESS ? drain_stream(stream) : result;
}

sc_cu_result cuStreamSynchronize(sc_cu_stream stream)
{
    CALL(IN_CONTEXT, synchronise(stream));
}

/* Who asks again and again must get on. */
static void run_a_little(sc_cu_stream towards)
{
    open_memory(true);
    for (uint64_t steps = draw(16); steps > 0 && the.broken == SC_CU_SUCCESS && step(towards);
         steps--) {
    }
    open_memory(false);
}

static sc_cu_result query_stream(sc_cu_stream stream)
{
    sc_cu_result result = waitable(stream);
    if (result != SC_CU_SUCCESS)
        return result;
    run_a_little(stream);
    return the.broken != SC_CU_SUCCESS ? the.broken
           : stream->first == NULL     ? SC_CU_SUCCESS
                                       : SC_CU_NOT_READY;
}

sc_cu_result cuStreamQuery(sc_cu_stream stream)
{
    CALL(IN_CONTEXT, query_stream(stream));
}

/* ---- functions of the host ---- */

/* It runs on a thread of its own, without the lock, when its turn comes; the stream goes on when it
 * is back. */
typedef struct host_call {
    sc_cu_host_function function;
    void *data;
    bool is_started, is_done, is_dropped;
} host_call;

static void *run_host_call(void *user)
{
    host_call *call = user;
    call->function(call->data);
    pthread_mutex_lock(&the.lock);
    call->is_done = true;
    if (call->is_dropped)
        free(call);
    pthread_cond_broadcast(&the.changed);
    pthread_mutex_unlock(&the.lock);
    return NULL;
}

static bool is_host_call_over(void *data)
{
    host_call *call = *(host_call **)data;
    pthread_t thread;
    if (!call->is_started) {
        call->is_started = true;
        if (pthread_create(&thread, NULL, run_host_call, call) != 0)
            abort();
        pthread_detach(thread);
    }
    return call->is_done;
}

static bool run_nothing(void *data, char *why, size_t room)
{
    (void)data, (void)why, (void)room;
    return true;
}

static void drop_host_call(void *data)
{
    host_call *call = *(host_call **)data;
    call->is_dropped = true;
    if (!call->is_started || call->is_done)
        free(call);
}

/* Not in captures: nobody asks for it. */
static sc_cu_result put_host_call(sc_cu_stream stream, sc_cu_host_function function, void *data)
{
    static const sc_stub_work work = {.name = "cuLaunchHostFunc",
                                      .is_ready = is_host_call_over,
                                      .run = run_nothing,
                                      .drop = drop_host_call};
    if (!is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if (function == NULL || stream->capture != NULL)
        return RESULT_INVALID_VALUE;
    host_call *call = must_have(calloc(1, sizeof *call));
    *call = (host_call){.function = function, .data = data};
    return put(stream, &work, &call, sizeof call);
}

sc_cu_result cuLaunchHostFunc(sc_cu_stream stream, sc_cu_host_function function, void *data)
{
    CALL(IN_CONTEXT, put_host_call(stream, function, data));
}

/* ---- events ---- */

static sc_cu_result create_event(sc_cu_event *out, unsigned flags)
{
    sc_cu_event event = new_object(EVENT, sizeof *event);
    event->flags = flags;
    *out = event;
    return SC_CU_SUCCESS;
}

sc_cu_result cuEventCreate(sc_cu_event *out, unsigned flags)
{
    CALL(IN_CONTEXT, flags > 3 ? (sc_cu_result)RESULT_INVALID_VALUE : create_event(out, flags));
}

static sc_cu_result destroy_event(sc_cu_event event)
{
    if (!is_live(event, EVENT))
        return RESULT_INVALID_HANDLE;
    record_drop(event->latest);
    free_object(event);
    return SC_CU_SUCCESS;
}

sc_cu_result cuEventDestroy_v2(sc_cu_event event)
{
    CALL(IN_CONTEXT, destroy_event(event));
}

static sc_cu_result record_event(sc_cu_event event, sc_cu_stream stream)
{
    if (!is_live(event, EVENT) || !is_live(stream, STREAM) ||
        event->base.context != stream->base.context)
        return RESULT_INVALID_HANDLE;
    if (stream->capture != NULL && stream->capture->is_invalid)
        return RESULT_CAPTURE_INVALIDATED;
    record *r = must_have(calloc(1, sizeof *r));
    *r = (record){.refs = 1, .stream = stream};
    record_drop(event->latest);
    event->latest = r;
    if (stream->capture != NULL) {
        r->capture = stream->capture->number;
        set_tail(&r->tail, &r->tail_count, stream->tail, stream->tail_count);
        return SC_CU_SUCCESS;
    }
    op *o = must_have(calloc(1, sizeof *o));
    *o = (op){.kind = OP_RECORD, .record = r};
    r->refs++;
    append(stream, o);
    let_some_run();
    return the.broken;
}

sc_cu_result cuEventRecord(sc_cu_event event, sc_cu_stream stream)
{
    CALL(IN_CONTEXT, record_event(event, stream));
}

/* A stream that waits for what a capture holds is part of it from then on. */
static sc_cu_result join_capture(sc_cu_stream stream, const record *r)
{
    capture *c = capture_numbered(r->capture);
    if (c == NULL)
        return RESULT_CAPTURE_ISOLATION;
    if (c->is_invalid)
        return RESULT_CAPTURE_INVALIDATED;
    if (stream->capture != NULL && stream->capture != c) {
        stream->capture->is_invalid = c->is_invalid = true;
        return RESULT_CAPTURE_MERGE;
    }
    stream->capture = c;
    add_tail(&stream->tail, &stream->tail_count, r->tail, r->tail_count);
    return SC_CU_SUCCESS;
}

static sc_cu_result wait_event(sc_cu_stream stream, sc_cu_event event)
{
    if (!is_live(event, EVENT) || !is_live(stream, STREAM))
        return RESULT_INVALID_HANDLE;
    if (stream->capture != NULL && stream->capture->is_invalid)
        return RESULT_CAPTURE_INVALIDATED;
    record *r = event->latest;
    if (r == NULL)
        return SC_CU_SUCCESS;
    if (r->capture != 0)
        return join_capture(stream, r);
    if (stream->capture != NULL) {
        stream->capture->is_invalid = true;
        return RESULT_CAPTURE_ISOLATION;
    }
    op *o = must_have(calloc(1, sizeof *o));
    *o = (op){.kind = OP_WAIT, .record = r};
    r->refs++;
    append(stream, o);
    let_some_run();
    return the.broken;
}

sc_cu_result cuStreamWaitEvent(sc_cu_stream stream, sc_cu_event event, unsigned flags)
{
    CALL(IN_CONTEXT, flags != 0 ? (sc_cu_result)RESULT_INVALID_VALUE : wait_event(stream, event));
}

static sc_cu_result look_at(sc_cu_event event)
{
    if (!is_live(event, EVENT))
        return RESULT_INVALID_HANDLE;
    if (event->latest == NULL || event->latest->capture == 0)
        return SC_CU_SUCCESS;
    capture *c = capture_numbered(event->latest->capture);
    if (c != NULL)
        c->is_invalid = true;
    return RESULT_CAPTURED_EVENT;
}

static sc_cu_result query_event(sc_cu_event event)
{
    sc_cu_result result = look_at(event);
    record *r = result == SC_CU_SUCCESS ? event->latest : NULL;
    if (r == NULL)
        return result;
    if (!r->is_done)
        run_a_little(r->stream);
    return the.broken != SC_CU_SUCCESS ? the.broken : r->is_done ? SC_CU_SUCCESS : SC_CU_NOT_READY;
}

sc_cu_result cuEventQuery(sc_cu_event event)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, query_event(event));
}

static sc_cu_result synchronise_event(sc_cu_event event)
{
    sc_cu_result result = look_at(event);
    record *r = result == SC_CU_SUCCESS ? event->latest : NULL;
    if (r == NULL)
        return result;
    r->refs++;
    result = drain(NULL, r);
    record_drop(r);
    return result;
}

sc_cu_result cuEventSynchronize(sc_cu_event event)
{
    CALL(IN_CONTEXT | UNSAFE_IN_CAPTURE, synchronise_event(event));
}

static sc_cu_result elapsed(float *milliseconds, sc_cu_event begin, sc_cu_event end)
{
    if (!is_live(begin, EVENT) || !is_live(end, EVENT) ||
        ((begin->flags | end->flags) & SC_CU_EVENT_NO_TIMING) != 0 || begin->latest == NULL ||
        end->latest == NULL)
        return RESULT_INVALID_HANDLE;
    if (!begin->latest->is_done || !end->latest->is_done)
        return SC_CU_NOT_READY;
    *milliseconds = (float)(1e3 * (end->latest->time - begin->latest->time));
    return SC_CU_SUCCESS;
}

sc_cu_result cuEventElapsedTime(float *milliseconds, sc_cu_event begin, sc_cu_event end)
{
    CALL(IN_CONTEXT, elapsed(milliseconds, begin, end));
}
