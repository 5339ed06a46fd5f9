/* Waiting on the host for the GPU, with a deadline for each collective and message.
 *
 * The deadline is for one of them, not for the function that it is in: its clock runs while this
 * rank's stream has come to it and it is not done. So the host has to know how far a call's
 * collectives are: two steps for each, in the program's order. Groups have streams of their own; a
 * collective that is not done is the one that is waited for, although later ones may be.
 *
 * Without a graph the steps are the events `ready` and `done` of a collective. In a graph these are
 * edges, not events, and nothing can be queried. So a capture has a stream of its own for progress:
 * it waits for `ready` and `done` of each collective in turn, and after each copies the step's
 * number to a word of pinned memory, which the host reads. Neither the computation nor the
 * collectives wait for these copies of 4 bytes, but for the last one, at the graph's end. A copy to
 * pinned memory can be captured since CUDA 10, and what it leaves is known: values written by a
 * stream (cuStreamWriteValue32) are nodes of graphs only since CUDA 11.7, and that an event
 * recorded by a graph (CU_EVENT_RECORD_EXTERNAL) counts as pending from the graph's launch on is
 * nowhere promised. */
#define _GNU_SOURCE
#include "program/lookup.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/messages.h"
#include "runtime/session/session.h"
#include "support/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

uint32_t sc_cuda_current_func(const sc_cuda_rank *own)
{
    return (uint32_t)((size_t)(own->graph - own->graphs) / own->batches);
}

/* ---- progress ---- */

static uint32_t most_collectives(const sc_image *image)
{
    uint32_t most = 0;
    for (uint32_t f = 0; f < image->func_count; f++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++)
            count += image->funcs[f].instrs[i].kind == SC_INSTR_COLLECTIVE;
        most = count > most ? count : most;
    }
    return most;
}

static shardc_status upload_numbers(sc_cuda_rank *own, uint32_t count, shardc_error *error)
{
    const sc_cuda *api = &own->session->api;
    sc_cu_address to = own->progress->numbers;
    uint32_t *numbers = own->staging;
    const uint32_t room = SC_CUDA_STAGING / sizeof *numbers;
    shardc_status status = SHARDC_OK;
    for (uint32_t done = 0; done < count;) {
        if (status != SHARDC_OK)
            break;
        uint32_t piece = count - done < room ? count - done : room;
        for (uint32_t i = 0; i < piece; i++)
            numbers[i] = done + i + 1;
        status = SC_CUDA(api, error, "", cuMemcpyHtoDAsync_v2, to + done * sizeof *numbers, numbers,
                         piece * sizeof *numbers, own->streams[0]);
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, "", cuStreamSynchronize, own->streams[0]);
        done += piece;
    }
    return status;
}

shardc_status sc_cuda_progress_open(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    uint32_t count = 2 * most_collectives(rank->image);
    void *word = NULL;
    if (own->comm->poll == NULL || count == 0)
        return SHARDC_OK;
    sc_cuda_progress *progress = own->progress = calloc(1, sizeof *progress);
    if (progress == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    shardc_status status =
        SC_CUDA(api, error, "", cuStreamCreate, &progress->stream, SC_CU_STREAM_NON_BLOCKING);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuEventCreate, &progress->end, SC_CU_EVENT_NO_TIMING);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, error, "", cuMemAlloc_v2, &progress->numbers, count * sizeof(uint32_t));
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuMemHostAlloc, &word, sizeof *progress->word,
                         SC_CU_HOST_PORTABLE);
    progress->word = word;
    return status == SHARDC_OK ? upload_numbers(own, count, error) : status;
}

void sc_cuda_progress_close(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    sc_cuda_progress *progress = own->progress;
    if (progress == NULL)
        return;
    if (progress->word != NULL)
        api->cuMemFreeHost(progress->word);
    if (progress->numbers != 0)
        api->cuMemFree_v2(progress->numbers);
    if (progress->end != NULL)
        api->cuEventDestroy_v2(progress->end);
    if (progress->stream != NULL)
        api->cuStreamDestroy_v2(progress->stream);
    free(progress);
    own->progress = NULL;
}

void sc_cuda_progress_begin(sc_rank *rank)
{
    sc_cuda_progress *progress = ((sc_cuda_rank *)rank->device_state)->progress;
    if (progress == NULL)
        return;
    __atomic_store_n(progress->word, 0, __ATOMIC_RELAXED); /* no graph runs now */
    progress->marked = progress->steps = progress->at = 0;
}

shardc_status sc_cuda_progress_mark(sc_rank *rank, sc_cu_event event, const char *where,
                                    shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    sc_cuda_progress *progress = own->progress;
    if (progress == NULL || !own->is_capturing)
        return SHARDC_OK;
    sc_cu_address number = progress->numbers + progress->marked++ * sizeof *progress->word;
    shardc_status status =
        SC_CUDA(api, error, where, cuStreamWaitEvent, progress->stream, event, 0);
    return status == SHARDC_OK ? SC_CUDA(api, error, where, cuMemcpyDtoHAsync_v2, progress->word,
                                         number, sizeof *progress->word, progress->stream)
                               : status;
}

shardc_status sc_cuda_progress_join(sc_rank *rank, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_cuda_progress *progress = own->progress;
    if (progress == NULL || progress->marked == 0)
        return SHARDC_OK;
    shardc_status status = SC_CUDA(api, error, "", cuEventRecord, progress->end, progress->stream);
    return status == SHARDC_OK
               ? SC_CUDA(api, error, "", cuStreamWaitEvent, own->streams[0], progress->end, 0)
               : status;
}

/* The next collective from instruction `at` on; NULL: there is none. */
static const sc_bound *next_collective(const sc_rank *rank, uint32_t func, uint32_t at)
{
    for (uint32_t i = at; i < rank->image->funcs[func].instr_count; i++) {
        if (rank->funcs[func][i].instr->kind == SC_INSTR_COLLECTIVE)
            return &rank->funcs[func][i];
    }
    return NULL;
}

/* What a call's collectives have come to. */
typedef struct call_state {
    uint32_t steps;       /* odd: the stream has come to `next`, which is not done */
    const sc_bound *next; /* the collective of the next step; NULL: all are done */
} call_state;

/* Whether the next step is done, which is one of `next`. */
static shardc_status is_step_done(const sc_rank *rank, const sc_bound *next, bool *out_done,
                                  shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda_progress *progress = own->progress;
    const sc_cuda_bound *extra = next->device;
    if (!own->is_graph)
        return sc_cuda_is_done(&own->session->api,
                               progress->steps % 2 == 0 ? extra->ready : extra->done, out_done,
                               error);
    *out_done = progress->steps != __atomic_load_n(progress->word, __ATOMIC_ACQUIRE);
    return SHARDC_OK;
}

static shardc_status read_progress(const sc_rank *rank, call_state *out, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    sc_cuda_progress *progress = own->progress;
    uint32_t func = sc_cuda_current_func(own);
    bool is_done = true;
    *out = (call_state){0, NULL};
    if (progress == NULL || rank->session->gemms_only)
        return SHARDC_OK;
    while (is_done && (out->next = next_collective(rank, func, progress->at)) != NULL) {
        shardc_status status = is_step_done(rank, out->next, &is_done, error);
        if (status != SHARDC_OK)
            return status;
        progress->steps += is_done;
        if (is_done && progress->steps % 2 == 0)
            progress->at = (uint32_t)(out->next - rank->funcs[func]) + 1;
    }
    out->steps = progress->steps;
    return SHARDC_OK;
}

/* ---- the deadline ---- */

/* What the rank waits for others for, and since when. */
typedef struct wait_clock {
    uint64_t what; /* 0: nothing; a collective's step, or a message's number with the highest bit */
    double since;
} wait_clock;

/* Finds what holds the rank up now. */
static shardc_status find_awaited(const sc_rank *rank, uint64_t *out, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda_message *message = NULL;
    call_state state = {0, NULL};
    bool is_reached = false;
    uint32_t boundary;
    shardc_status status = own->graph == NULL ? SHARDC_OK : read_progress(rank, &state, error);
    *out = state.steps % 2 == 1 ? state.steps : 0;
    if (status == SHARDC_OK && *out == 0)
        status = sc_cuda_message_awaited(rank, &message, &boundary, error);
    if (status == SHARDC_OK && message != NULL)
        status = sc_cuda_is_done(&own->session->api, message->reached, &is_reached, error);
    if (is_reached)
        *out = message->order | (uint64_t)1 << 63;
    return status;
}

/* Checks for how long the rank has been waiting for one thing. */
static shardc_status check_deadline(const sc_rank *rank, wait_clock *clock, double *out_waited,
                                    shardc_error *error)
{
    double now = sc_seconds();
    uint64_t what = 0;
    shardc_status status = find_awaited(rank, &what, error);
    if (what != clock->what || what == 0)
        *clock = (wait_clock){what, now};
    *out_waited = now - clock->since;
    return status;
}

/* ---- names ---- */

/* Names what the rank waits for: a message; the collective that is not done; else the function. If
 * stream 0 waits for a message, only a collective that it has come to counts. An error of the
 * driver leaves no more to be known. */
static void name_wait(const sc_rank *rank, char *out, size_t size)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda_message *message = NULL;
    call_state state = {0, NULL};
    uint32_t boundary = 0;
    shardc_error ignored;
    sc_cuda_message_awaited(rank, &message, &boundary, &ignored);
    if (message != NULL)
        sc_cuda_message_describe(rank, boundary, message, out, size);
    if (own->graph == NULL) /* between calls only messages are waited for */
        return;
    read_progress(rank, &state, &ignored);
    if (state.next != NULL && (message == NULL || state.steps % 2 == 1))
        sc_comm_describe(state.next->group, &state.next->call, out, size);
    else if (message == NULL)
        snprintf(out, size, "function %s", rank->image->funcs[sc_cuda_current_func(own)].name);
}

/* ---- waiting ---- */

/* Whether the wait has gone wrong: a rank is lost, or the deadline is over. */
static shardc_status check_others(sc_rank *rank, wait_clock *clock, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    double deadline = rank->session->options.deadline_ms * 1e-3;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = own->comm->poll(rank, &reason);
    double waited = 0;
    if (status == SHARDC_OK && deadline > 0 &&
        check_deadline(rank, clock, &waited, error) != SHARDC_OK)
        return error->status;
    if (status == SHARDC_OK && waited > deadline)
        status = sc_fail(&reason, SHARDC_ERROR_TIMEOUT,
                         "not all ranks reached it within %.3g s; the deadline is %.3g s", waited,
                         deadline);
    if (status == SHARDC_OK)
        return SHARDC_OK;
    char what[SC_CUDA_MESSAGE_TEXT] = "the GPU";
    name_wait(rank, what, sizeof what);
    return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, what, reason.text);
}

/* Short waits spin, long ones sleep. */
shardc_status sc_cuda_wait(sc_rank *rank, sc_cu_event event, bool may_hang, shardc_error *error)
{
    enum {
        BURN_US = 2000,
        SLEEP_US = 50 /* about 0.1 ms with the system's overhead: little compared with the wait */
    };
    const sc_cuda_rank *own = rank->device_state;
    double begin = sc_seconds();
    wait_clock clock = {0, begin};
    may_hang = may_hang && own->comm->poll != NULL;
    for (;;) {
        bool is_done = false;
        shardc_status status = sc_cuda_is_done(&own->session->api, event, &is_done, error);
        if (status == SHARDC_OK && !is_done && may_hang)
            status = check_others(rank, &clock, error);
        if (status != SHARDC_OK || is_done)
            return status;
        if (sc_seconds() - begin > BURN_US * 1e-6)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_US * 1000L}, NULL);
        else
            sched_yield();
    }
}
