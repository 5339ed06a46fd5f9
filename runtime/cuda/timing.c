/* Measures when instructions ran, by the GPU's clock: an event before and after each instruction,
 * read when the call is over. The streams run as usual, so the measurement is realistic, except
 * that a short kernel could end before the host has enqueued the next one, and the time between two
 * events would be the host's. So a function that ran before is enqueued in batches, each behind a
 * gate (a host function) that opens once the whole batch is enqueued. A gate that is not opened
 * opens itself after a timeout. */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "runtime/cuda/rank.h"
#include "support/clock.h"

enum { BUNCH = 100 /* instructions: a stream holds about a thousand entries */, GATE_SECONDS = 1 };

typedef struct moments {
    sc_cu_event events[SC_CUDA_MOMENTS];
    bool is_marked[SC_CUDA_MOMENTS];
} moments;

typedef struct gate {
    sc_cuda_times *times;
    uint64_t number;
} gate;

struct sc_cuda_times {
    moments **funcs; /* by function and instruction; NULL: never measured */
    uint32_t func;   /* of the current call */
    sc_cu_event base;
    double base_time; /* host time at which the GPU reached `base` */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    gate *gates; /* of the current call */
    uint32_t gate_room, gate_count, queued;
    uint64_t made, opened; /* numbers of gates so far */
    bool has_gates;
};

bool sc_cuda_times_wanted(const sc_rank *rank)
{
    return rank->session->options.profile || rank->session->trace != NULL;
}

/* ---- gates ---- */

static void pass(void *user)
{
    gate *g = user;
    sc_cuda_times *times = g->times;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += GATE_SECONDS;
    pthread_mutex_lock(&times->lock);
    while (g->number > times->opened &&
           pthread_cond_timedwait(&times->changed, &times->lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&times->lock);
}

void sc_cuda_times_open(sc_rank *rank)
{
    sc_cuda_times *times = ((sc_cuda_rank *)rank->device_state)->times;
    if (times == NULL)
        return;
    pthread_mutex_lock(&times->lock);
    times->opened = times->made;
    pthread_cond_broadcast(&times->changed);
    pthread_mutex_unlock(&times->lock);
}

/* Opens the previous gate, whose batch is complete, and enqueues a new one. */
static shardc_status next_gate(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    sc_cuda_times *times = own->times;
    sc_cuda_times_open(rank);
    if (!times->has_gates || times->gate_count == times->gate_room)
        return SHARDC_OK;
    gate *g = &times->gates[times->gate_count++];
    *g = (gate){times, ++times->made};
    return SC_CUDA(&own->session->api, error, "", cuLaunchHostFunc, own->streams[0], pass, g);
}

/* ---- events ---- */

static shardc_status make_times(sc_cuda_rank *own, uint32_t func_count, shardc_error *error)
{
    sc_cuda_times *times = calloc(1, sizeof *times);
    moments **funcs = calloc(func_count + 1u, sizeof *funcs);
    if (times == NULL || funcs == NULL) {
        free(times);
        free(funcs);
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to measure");
    }
    times->funcs = funcs;
    pthread_mutex_init(&times->lock, NULL);
    pthread_cond_init(&times->changed, NULL);
    own->times = times;
    return SC_CUDA(&own->session->api, error, "", cuEventCreate, &times->base, 0);
}

/* The wait of a FINISH is recorded with its collective or transfer. */
static uint32_t moment_count(const sc_image_instr *instr)
{
    bool waits = instr->kind == SC_INSTR_COLLECTIVE || instr->kind == SC_INSTR_TRANSFER;
    return instr->kind == SC_INSTR_FINISH ? 0 : waits ? SC_CUDA_MOMENTS : SC_CUDA_WAITS;
}

static shardc_status make_func(sc_cuda_rank *own, const sc_image_func *f, uint32_t func,
                               shardc_error *error)
{
    sc_cuda_times *times = own->times;
    uint32_t gates = f->instr_count / BUNCH + 1;
    shardc_status status = SHARDC_OK;
    times->funcs[func] = calloc(f->instr_count + 1u, sizeof(moments));
    if (gates > times->gate_room) {
        free(times->gates);
        times->gates = calloc(gates, sizeof *times->gates);
        times->gate_room = times->gates == NULL ? 0 : gates;
    }
    if (times->funcs[func] == NULL || times->gates == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to measure");
    for (uint32_t i = 0; i < f->instr_count; i++) {
        for (uint32_t e = 0; e < moment_count(&f->instrs[i]); e++) {
            if (status != SHARDC_OK)
                break;
            status = SC_CUDA(&own->session->api, error, "", cuEventCreate,
                             &times->funcs[func][i].events[e], 0);
        }
    }
    return status;
}

shardc_status sc_cuda_times_begin(sc_rank *rank, uint32_t func, bool ran_before,
                                  shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_image *image = rank->image;
    shardc_status status =
        own->times == NULL ? make_times(own, image->func_count, error) : SHARDC_OK;
    if (status != SHARDC_OK)
        return status;
    assert(own->times != NULL);
    if (own->times->funcs[func] == NULL)
        status = make_func(own, &image->funcs[func], func, error);
    if (status != SHARDC_OK)
        return status;
    sc_cuda_times *times = own->times;
    times->func = func;
    times->gate_count = times->queued = 0;
    times->has_gates = ran_before;
    for (uint32_t i = 0; i < image->funcs[func].instr_count; i++) {
        for (int e = 0; e < SC_CUDA_MOMENTS; e++)
            times->funcs[func][i].is_marked[e] = false;
    }
    /* Read the clock before recording the event, so that no end time is too late; twice, because
     * the first time may include waiting for earlier work. */
    for (int i = 0; i < 2; i++) {
        if (status != SHARDC_OK)
            break;
        times->base_time = sc_seconds();
        status =
            SC_CUDA(&own->session->api, error, "", cuEventRecord, times->base, own->streams[0]);
        if (status == SHARDC_OK)
            status = SC_CUDA(&own->session->api, error, "", cuEventSynchronize, times->base);
    }
    return status;
}

shardc_status sc_cuda_times_mark(sc_rank *rank, const sc_bound *bound, sc_cuda_moment moment,
                                 uint32_t stream, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    sc_cuda_times *times = own->times;
    shardc_status status = SHARDC_OK;
    if (!sc_cuda_times_wanted(rank) || times == NULL)
        return SHARDC_OK;
    moments *m = &times->funcs[times->func][bound - rank->funcs[times->func]];
    if (stream == 0 && moment % 2 == 0 && times->queued++ % BUNCH == 0)
        status = next_gate(rank, error);
    m->is_marked[moment] = true;
    return status == SHARDC_OK
               ? SC_CUDA(&own->session->api, error, bound->instr->where, cuEventRecord,
                         m->events[moment],
                         stream == 0 ? own->streams[0] : sc_cuda_stream_of(rank, bound))
               : status;
}

shardc_status sc_cuda_times_of(sc_rank *rank, uint32_t func, uint32_t instr, bool *out_ran,
                               double *out_begin, double *out_end, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_image_instr *i = &rank->image->funcs[func].instrs[instr];
    bool is_wait = i->kind == SC_INSTR_FINISH;
    const moments *m = &own->times->funcs[func][is_wait ? i->index : instr];
    int first = is_wait ? SC_CUDA_WAITS : SC_CUDA_RUNS;
    float since_base = 0, length = 0;
    *out_ran = m->is_marked[first] && m->is_marked[first + 1];
    if (!*out_ran)
        return SHARDC_OK;
    shardc_status status = SC_CUDA(api, error, i->where, cuEventElapsedTime, &since_base,
                                   own->times->base, m->events[first]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, i->where, cuEventElapsedTime, &length, m->events[first],
                         m->events[first + 1]);
    *out_begin = own->times->base_time + 1e-3 * (double)since_base;
    *out_end = *out_begin + (length > 0 ? 1e-3 * (double)length : 0);
    return status;
}

void sc_cuda_times_free(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    sc_cuda_times *times = own->times;
    const sc_cuda *api = &own->session->api;
    const sc_image *image = rank->image;
    if (times == NULL)
        return;
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (times->funcs[f] == NULL)
            continue;
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            for (int e = 0; e < SC_CUDA_MOMENTS; e++) {
                if (times->funcs[f][i].events[e] != NULL)
                    api->cuEventDestroy_v2(times->funcs[f][i].events[e]);
            }
        }
        free(times->funcs[f]);
    }
    if (times->base != NULL)
        api->cuEventDestroy_v2(times->base);
    pthread_cond_destroy(&times->changed);
    pthread_mutex_destroy(&times->lock);
    free(times->funcs);
    free(times->gates);
    free(times);
    own->times = NULL;
}

/* ---- measuring ---- */

static shardc_status run_rounds(sc_rank *rank, sc_cuda_work *work, void *user,
                                const sc_cu_event events[2], double *out, shardc_error *error)
{
    enum { ROUNDS = 4, MOST_CALLS = 50 };
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const float round_ms = 5;
    shardc_status status = SHARDC_OK;
    int count = 1; /* the first round warms up, and determines how many calls fill a round */
    for (int round = 0; round < ROUNDS; round++) {
        if (status != SHARDC_OK)
            break;
        float ms = 0;
        status = SC_CUDA(api, error, "", cuEventRecord, events[0], own->streams[0]);
        for (int i = 0; i < count; i++) {
            if (status != SHARDC_OK)
                break;
            status = work(rank, user, error);
        }
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, "", cuEventRecord, events[1], own->streams[0]);
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, "", cuEventSynchronize, events[1]);
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, "", cuEventElapsedTime, &ms, events[0], events[1]);
        double seconds = 1e-3 * (double)ms / count;
        *out = round <= 1 || seconds < *out ? seconds : *out;
        if (round == 0)
            count = ms * MOST_CALLS <= round_ms ? MOST_CALLS
                    : ms >= round_ms            ? 1
                                                : (int)(round_ms / ms);
    }
    return status;
}

shardc_status sc_cuda_seconds_of(sc_rank *rank, sc_cuda_work *work, void *user, double *out,
                                 shardc_error *error)
{
    const sc_cuda *api = &((const sc_cuda_rank *)rank->device_state)->session->api;
    sc_cu_event events[2] = {NULL, NULL};
    shardc_status status = SHARDC_OK;
    for (int i = 0; i < 2; i++) {
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, "", cuEventCreate, &events[i], 0);
    }
    if (status == SHARDC_OK)
        status = run_rounds(rank, work, user, events, out, error);
    for (int i = 0; i < 2; i++) {
        if (events[i] != NULL)
            api->cuEventDestroy_v2(events[i]);
    }
    return status;
}
