/* Executes a function: its instructions one after the other, on any device. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "program/failure.h"
#include "program/lookup.h"
#include "runtime/session/device.h"
#include "runtime/session/session.h"
#include "support/clock.h"
#include "support/number.h"
#include "support/rng.h"

/* ---- kernels ---- */

void sc_rank_set_params(sc_rank *rank, const sc_image_instr *instr, uint32_t micro_batch)
{
    uint32_t key[2];
    for (uint32_t i = 0; i < instr->param_count; i++) {
        const sc_image_param *param = &instr->params[i];
        switch (param->kind) {
        case SC_PARAM_RANK:
            rank->params[i] = sc_image_terms_value(&param->terms, rank->rank);
            break;
        case SC_PARAM_KEY:
            sc_rng_key(rank->session->seed, param->path_hash, key);
            rank->params[i] = (int64_t)((uint64_t)key[1] << 32 | key[0]);
            break;
        case SC_PARAM_STEP:
            rank->params[i] = (int64_t)(rank->session->step & UINT32_MAX);
            break;
        default:
            rank->params[i] = micro_batch;
            break;
        }
    }
}

/* What a mark in a message stands for: {where}, {value}, or {value/D}, the least hundredth that is
 * at least value / D. Writes it and returns the end of the mark; NULL: there is none here. */
static const char *read_mark(const char *message, const char *where, int64_t value, char *out,
                             size_t size)
{
    static const char place[] = "{where}", plain[] = "{value}", share[] = "{value/";
    const int64_t most = ((int64_t)1 << (SC_IMAGE_VALUE_BITS - 1)) - 1;
    if (strncmp(message, place, strlen(place)) == 0) {
        snprintf(out, size, "%s", where);
        return message + strlen(place);
    }
    if (strncmp(message, plain, strlen(plain)) == 0) {
        snprintf(out, size, "%lld%s", (long long)value,
                 value == most        ? " or more"
                 : value == -most - 1 ? " or less"
                                      : "");
        return message + strlen(plain);
    }
    if (strncmp(message, share, strlen(share)) == 0) {
        char *end;
        double by = sc_strtod(message + strlen(share), &end);
        if (*end != '}' || !(by > 0))
            return NULL;
        sc_snprintf(out, size, "%.2f", ceil(100 * (double)value / by) / 100);
        return end + 1;
    }
    return NULL;
}

/* Fills place and value into a check's message. A value too wide for a kernel's return value is
 * clamped to the nearest one that fits. */
static void write_failure(const char *message, const char *where, int64_t value, char *out,
                          size_t size)
{
    size_t length = 0;
    out[0] = 0;
    while (*message != 0 && length + 1 < size) {
        const char *next = read_mark(message, where, value, out + length, size - length);
        if (next == NULL) {
            out[length++] = *message++;
        } else {
            message = next;
            length += strlen(out + length);
        }
    }
    out[length] = 0;
}

void sc_rank_fail_check(const sc_rank *rank, const sc_image_instr *instr, int64_t failure,
                        shardc_error *error)
{
    const sc_image_kernel *kernel = &rank->image->kernels[instr->index];
    if (failure > 0 && sc_image_failed_check(failure) < kernel->check_count) {
        char text[sizeof error->text];
        write_failure(kernel->checks[sc_image_failed_check(failure)], instr->where,
                      sc_image_failed_value(failure), text, sizeof text);
        sc_fail(error, SHARDC_ERROR_DATA, "%s (rank %u)", text, rank->rank);
    } else
        sc_fail(error, SHARDC_ERROR_DEVICE,
                "%s: kernel %s returned %lld, which is not a valid result (rank %u)", instr->where,
                kernel->symbol, (long long)failure, rank->rank);
}

/* ---- instructions ---- */

/* Starts a copy of the message, which is kept until it is waited for. */
static shardc_status start_message(sc_rank *rank, const sc_bound *bound, shardc_error *error)
{
    sc_rank_boundary *boundary =
        &rank->boundaries[rank->image->messages[bound->instr->index].boundary];
    sc_bound *started = &boundary->started[(boundary->first + boundary->count) % boundary->room];
    sc_comm_part *parts = started->parts;
    void *device = started->device;
    *started = *bound;
    started->device = device;
    started->parts = parts;
    started->call.parts = parts;
    memcpy(parts, bound->parts, bound->call.part_count * sizeof *parts);
    shardc_status status = rank->session->device->start(rank, started, error);
    boundary->count += status == SHARDC_OK;
    return status;
}

static shardc_status finish_message(sc_rank *rank, uint32_t index, shardc_error *error)
{
    sc_rank_boundary *boundary = &rank->boundaries[index];
    sc_bound *oldest = &boundary->started[boundary->first];
    boundary->first = (boundary->first + 1) % boundary->room;
    boundary->count--;
    return rank->session->device->finish(rank, oldest, error);
}

static shardc_status make_room(sc_rank *rank, uint32_t index, shardc_error *error)
{
    while (rank->boundaries[index].count >= rank->image->boundaries[index].slots) {
        shardc_status status = finish_message(rank, index, error);
        if (status != SHARDC_OK)
            return status;
    }
    return SHARDC_OK;
}

shardc_status sc_rank_drain(sc_rank *rank, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < rank->image->boundary_count; i++) {
        while (rank->boundaries[i].count > 0) {
            shardc_error reason = {.status = SHARDC_OK};
            shardc_status own = finish_message(rank, i, &reason);
            if (own != SHARDC_OK && status == SHARDC_OK)
                status = sc_fail(error, own, "%s", reason.text);
        }
    }
    return status;
}

static shardc_status run_instr(sc_rank *rank, sc_bound *list, uint32_t index, uint32_t micro_batch,
                               shardc_error *error)
{
    const sc_device *device = rank->session->device;
    sc_bound *bound = &list[index];
    if (bound->moves && bound->micro_batch != micro_batch)
        sc_rank_move(rank, bound, micro_batch);
    switch (bound->instr->kind) {
    case SC_INSTR_KERNEL:
        return device->kernel(rank, bound, micro_batch, error);
    case SC_INSTR_GEMM:
        return device->gemm(rank, bound, error);
    case SC_INSTR_COLLECTIVE:
        return device->start(rank, bound, error);
    case SC_INSTR_FINISH:
        return device->finish(rank, &list[bound->instr->index], error);
    case SC_INSTR_TRANSFER:
        return device->transfer(rank, bound, error);
    case SC_INSTR_MESSAGE:
        return start_message(rank, bound, error);
    case SC_INSTR_WAIT:
        return finish_message(rank, bound->instr->index, error);
    case SC_INSTR_ROOM:
        return make_room(rank, bound->instr->index, error);
    default:
        return device->copy(rank, bound, error);
    }
}

static const char *title_of_boundary(const sc_image *image, uint32_t boundary)
{
    return sc_collectives[image->boundaries[boundary].is_receive ? SC_IMAGE_RECV : SC_IMAGE_SEND]
        .name;
}

static const char *title_of(const sc_image *image, const sc_bound *list,
                            const sc_image_instr *instr)
{
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return image->kernels[instr->index].title;
    case SC_INSTR_GEMM:
        return "gemm";
    case SC_INSTR_COLLECTIVE:
        return sc_collectives[image->collectives[instr->index].kind].name;
    case SC_INSTR_FINISH:
        return title_of(image, list, list[instr->index].instr);
    case SC_INSTR_TRANSFER:
        return image->buffers[instr->args[0].buffer].host ? "to device" : "to host";
    case SC_INSTR_MESSAGE:
        return title_of_boundary(image, image->messages[instr->index].boundary);
    case SC_INSTR_WAIT:
    case SC_INSTR_ROOM:
        return title_of_boundary(image, instr->index);
    default:
        return "copy";
    }
}

static shardc_work work_of(const sc_image *image, const sc_image_instr *instr)
{
    switch (instr->kind) {
    case SC_INSTR_KERNEL:
        return image->kernels[instr->index].attention ? SHARDC_WORK_ATTENTION : SHARDC_WORK_KERNEL;
    case SC_INSTR_GEMM:
        return SHARDC_WORK_GEMM;
    case SC_INSTR_COLLECTIVE:
    case SC_INSTR_MESSAGE:
        return SHARDC_WORK_COMM;
    case SC_INSTR_FINISH:
    case SC_INSTR_WAIT:
    case SC_INSTR_ROOM:
        return SHARDC_WORK_WAIT;
    default:
        return SHARDC_WORK_COPY;
    }
}

static void note_time(sc_rank *rank, uint32_t func, uint32_t index, double begin, double end)
{
    shardc_session *session = rank->session;
    const sc_image_instr *instr = rank->funcs[func][index].instr;
    shardc_work work = work_of(rank->image, instr);
    rank->profile[rank->func_numbers[func]].work[work] += end - begin;
    if (session->trace == NULL)
        return;
    session->trace(session->trace_user,
                   &(shardc_trace_event){.rank = rank->rank,
                                         .func = rank->func_numbers[func],
                                         .instr = index,
                                         .work = work,
                                         .title = title_of(rank->image, rank->funcs[func], instr),
                                         .where = instr->where,
                                         .phase = instr->phase,
                                         .begin = begin,
                                         .end = end});
}

/* Records the device's timings of a call that has ended. */
static shardc_status note_times(sc_rank *rank, uint32_t func, shardc_error *error)
{
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < rank->image->funcs[func].instr_count; i++) {
        if (status != SHARDC_OK)
            break;
        bool ran = false;
        double begin = 0, end = 0;
        status = rank->session->device->time(rank, func, i, &ran, &begin, &end, error);
        if (status == SHARDC_OK && ran)
            note_time(rank, func, i, begin, end);
    }
    return status;
}

static bool is_measured(const shardc_session *session)
{
    return session->options.profile || session->trace != NULL;
}

/* Lets collectives make progress: processes move bytes only when called. */
static void go_on(sc_rank *rank, uint32_t func, bool is_timed)
{
    double begin = is_timed ? sc_seconds() : 0;
    sc_comm_progress(rank->comm);
    if (is_timed)
        rank->profile[rank->func_numbers[func]].work[SHARDC_WORK_COMM] += sc_seconds() - begin;
}

/* ---- functions ---- */

shardc_status sc_rank_meet(sc_rank *rank, shardc_status mine, shardc_error *error)
{
    int32_t failed = mine != SHARDC_OK ? (int32_t)rank->rank + 1 : 0, any = 0;
    sc_comm_part part = {.source = &failed, .destination = &any, .count = 1, .dtype = SC_DTYPE_i32};
    sc_comm_call call = {.kind = SC_COMM_ALL_REDUCE,
                         .reduce = SC_COMM_MAX,
                         .part_count = 1,
                         .parts = &part,
                         .what = "outcome of the step",
                         .is_uncounted = true};
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_comm_run(sc_comm_world(rank->comm), &call, &reason);
    if (status != SHARDC_OK) {
        rank->has_lost_world = true;
        return mine != SHARDC_OK ? mine : sc_fail(error, status, "%s", reason.text);
    }
    return mine == SHARDC_OK && any != 0
               ? sc_fail(error, SHARDC_ERROR_COMM, "rank %d failed: its message says why", any - 1)
               : mine;
}

/* True of the first instruction that changes parameters, where a check may have failed on this rank
 * or others. Devices that run behind the host find out later: their updates are void because
 * gradients of experts without room are NaN. */
static bool is_update(const sc_rank *rank, const sc_image_instr *instr)
{
    return rank->session->may_lack_room && rank->session->device->time == NULL &&
           strcmp(instr->phase, "update") == 0;
}

static shardc_status run_list(sc_rank *rank, uint32_t func, uint32_t micro_batch,
                              shardc_error *error)
{
    uint32_t count = rank->image->funcs[func].instr_count;
    bool is_timed = is_measured(rank->session) && rank->session->device->time == NULL;
    sc_bound *list = rank->funcs[func];
    bool has_met = false, has_failed = false;
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].is_idle || (rank->session->gemms_only && list[i].instr->kind != SC_INSTR_GEMM))
            continue;
        bool updates = is_update(rank, list[i].instr);
        if (updates && !has_met)
            has_failed = sc_rank_meet(rank, error->status, error) != SHARDC_OK;
        has_met = has_met || updates;
        if (updates && has_failed) /* on all ranks */
            continue;
        double begin = is_timed ? sc_seconds() : 0;
        shardc_status status = run_instr(rank, list, i, micro_batch, error);
        if (status != SHARDC_OK)
            return status;
        if (is_timed)
            note_time(rank, func, i, begin, sc_seconds());
        if (rank->in_flight > 0)
            go_on(rank, func, is_timed);
    }
    return SHARDC_OK;
}

/* Runs the instructions, again if the device had recorded them in vain. */
static shardc_status run_all(sc_rank *rank, uint32_t func, uint32_t micro_batch,
                             shardc_error *error)
{
    const sc_device *device = rank->session->device;
    bool is_again = false;
    shardc_status status = run_list(rank, func, micro_batch, error);
    if (device->settle != NULL)
        status = device->settle(rank, func, status, &is_again, error);
    return is_again ? run_list(rank, func, micro_batch, error) : status;
}

shardc_status sc_rank_run(sc_rank *rank, uint32_t func, uint32_t micro_batch, shardc_error *error)
{
    enum { KINDS = sizeof rank->profile->sent / sizeof *rank->profile->sent };
    shardc_func_profile *profile = &rank->profile[rank->func_numbers[func]];
    sc_comm_counter before[KINDS];
    const sc_comm_counter *counters = sc_comm_counters(rank->comm);
    memcpy(before, counters, sizeof before);
    *error = (shardc_error){.status = SHARDC_OK};
    double begin = sc_seconds();
    bool is_done = false;
    shardc_status status = rank->session->device->begin(rank, func, micro_batch, &is_done, error);
    if (status == SHARDC_OK && !is_done)
        status = run_all(rank, func, micro_batch, error);
    shardc_status end = rank->session->device->end(rank, func, status != SHARDC_OK, error);
    uint32_t ended = status == SHARDC_OK ? 0 : rank->image->boundary_count;
    for (uint32_t i = 0; i < ended; i++)
        rank->boundaries[i].count = 0; /* `end` has ended the messages */
    if (status == SHARDC_OK && end == SHARDC_OK && !is_done && is_measured(rank->session) &&
        rank->session->device->time != NULL)
        end = note_times(rank, func, error);
    if (status == SHARDC_OK)
        status = end != SHARDC_OK ? end : error->status;
    profile->calls++;
    profile->seconds += sc_seconds() - begin;
    for (int i = 0; i < KINDS; i++) {
        profile->collectives[i] += counters[i].calls - before[i].calls;
        profile->sent[i] += counters[i].sent - before[i].sent;
    }
    return status;
}
