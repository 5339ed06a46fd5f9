/* The CUDA device: sessions, ranks and their memory; instructions are enqueued on streams. */
#include "runtime/cuda/device.h"
#include "runtime/cuda/messages.h"
#include "runtime/session/session.h"
#include "support/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sessions ---- */

/* True if a rank of this process has GEMMs. */
static bool has_gemms(const shardc_session *session)
{
    uint32_t r = 0;
    while (r < session->rank_count && session->ranks[r].image->gemm_count == 0)
        r++;
    return r < session->rank_count;
}

/* True if ranks of the program move something between each other. All processes get the same
 * answer, though the ranks of one stage may move nothing: opening NCCL's world takes all. */
static bool has_moves(const sc_program *program)
{
    uint32_t s = 0;
    while (s < program->stage_count &&
           program->stages[s]->collective_count + program->stages[s]->boundary_count == 0)
        s++;
    return s < program->stage_count;
}

static bool ranks_share_a_gpu(const shardc_session *session)
{
    const sc_cuda_session *own = session->device_state;
    return session->rank_count > own->gpu_count;
}

/* Ranks that move something use NCCL if they have a GPU each; one that is alone, if it is told to.
 */
static shardc_status open_nccl(shardc_session *session, shardc_error *error)
{
    sc_cuda_session *own = session->device_state;
    char why[SC_ENVIRONMENT_WHY];
    int64_t is_alone = 0;
    if (!sc_environment_i64("SHARDC_NCCL_ALONE", 0, 1, &is_alone, why))
        return sc_fail(error, SHARDC_ERROR_ARGUMENT, "%s", why);
    own->is_nccl_alone = is_alone != 0 && session->image->ranks == 1;
    if (!has_moves(&session->program->all) || ranks_share_a_gpu(session) ||
        (session->image->ranks == 1 && !own->is_nccl_alone) || sc_nccl_open(&own->nccl, error))
        return SHARDC_OK;
    own->nccl.library = NULL;
    return SHARDC_ERROR_UNAVAILABLE;
}

static shardc_status open_session(shardc_session *session, shardc_error *error)
{
    sc_cuda_session *own = session->device_state = calloc(1, sizeof *own);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for a session");
    pthread_mutex_init(&own->messages, NULL);
    shardc_status status = sc_cuda_open_gpus(session, error);
    if (status == SHARDC_OK && has_gemms(session))
        status = sc_cuda_gemm_plans_open(session, error);
    return status == SHARDC_OK ? open_nccl(session, error) : status;
}

static void close_session(shardc_session *session)
{
    sc_cuda_session *own = session->device_state;
    if (own == NULL)
        return;
    if (own->nccl.library != NULL)
        sc_nccl_close(&own->nccl);
    sc_cuda_gemm_plans_close(own);
    sc_cuda_close_gpus(session);
    pthread_mutex_destroy(&own->messages);
    free(own);
    session->device_state = NULL;
}

/* ---- ranks: memory ---- */

static shardc_status allocate(sc_rank *rank, sc_cuda_rank *own, shardc_error *error)
{
    const sc_cuda *api = &own->session->api;
    size_t bytes = (size_t)rank->image->arena_bytes;
    char what[64];
    snprintf(what, sizeof what, "the %zu bytes of rank %u", bytes, rank->rank);
    /* cuMemAlloc returns addresses aligned to at least 256 bytes. */
    shardc_status status = SC_CUDA(api, error, what, cuMemAlloc_v2, &own->memory, bytes + 1);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, error, what, cuMemsetD8Async, own->memory, 0, bytes + 1, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuMemAlloc_v2, &own->call, SC_CUDA_CALL_BYTES);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuMemHostAlloc, &own->staging, SC_CUDA_STAGING,
                         SC_CU_HOST_PORTABLE);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuStreamSynchronize, own->streams[0]);
    rank->arena = (char *)(uintptr_t)own->memory;
    return status == SHARDC_OK ? sc_cuda_host_open(rank, error) : status;
}

static shardc_status open_rank(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state = calloc(1, sizeof *own);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    own->session = rank->session->device_state;
    own->gpu = sc_cuda_gpu_of(rank);
    own->code = &own->gpu->codes[rank->image->pipeline.stage];
    const sc_cuda *api = &own->session->api;
    own->comm = own->session->nccl.library == NULL ? &sc_cuda_comm_local : &sc_cuda_comm_nccl;
    own->batches = sc_image_most_batches(rank->image);
    own->graphs = calloc((size_t)rank->image->func_count * own->batches + 1, sizeof *own->graphs);
    if (own->graphs == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    shardc_status status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (status == SHARDC_OK && s != SC_CUDA_COLLECTIVES)
            status = SC_CUDA(api, error, "", cuStreamCreate, &own->streams[s],
                             SC_CU_STREAM_NON_BLOCKING);
    }
    if (status == SHARDC_OK)
        status = sc_cuda_group_streams_open(rank, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuEventCreate, &own->finished, SC_CU_EVENT_NO_TIMING);
    return status == SHARDC_OK ? allocate(rank, own, error) : status;
}

/* ---- ranks: instructions ---- */

/* Lays out a kernel's launch parameters: the values in a row, and the address of each. */
static shardc_status bind_kernel(const sc_image *image, sc_cuda_rank *own, sc_bound *bound,
                                 sc_cuda_bound *extra, shardc_error *error)
{
    const sc_image_instr *instr = bound->instr;
    uint32_t count = instr->arg_count + instr->param_count + 2;
    extra->values = calloc(count, sizeof *extra->values);
    extra->launch = calloc(count, sizeof *extra->launch);
    if (extra->values == NULL || extra->launch == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the launches");
    for (uint32_t i = 0; i < count; i++)
        extra->launch[i] = &extra->values[i];
    if (image->kernels[instr->index].check_count > 0)
        extra->slot = own->slot_count++;
    return SHARDC_OK;
}

static shardc_status make_events(const sc_cuda *api, sc_cuda_bound *extra, shardc_error *error)
{
    sc_cu_event *events[] = {&extra->ready, &extra->half, &extra->done};
    shardc_status status = SHARDC_OK;
    for (int i = 0; i < 3; i++) {
        if (status != SHARDC_OK)
            break;
        status = SC_CUDA(api, error, "", cuEventCreate, events[i], SC_CU_EVENT_NO_TIMING);
    }
    return status;
}

static shardc_status each_bound(sc_rank *rank,
                                shardc_status (*work)(sc_rank *rank, sc_bound *bound,
                                                      shardc_error *error),
                                shardc_error *error)
{
    const sc_image *image = rank->image;
    shardc_status status = SHARDC_OK;
    if (rank->funcs == NULL)
        return SHARDC_OK;
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (status != SHARDC_OK)
            break;
        for (uint32_t i = 0; i < image->funcs[f].instr_count; i++) {
            if (status != SHARDC_OK)
                break;
            status = work(rank, &rank->funcs[f][i], error);
        }
    }
    return status;
}

static shardc_status bind_one(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const bool is_started =
        bound->instr->kind == SC_INSTR_COLLECTIVE || bound->instr->kind == SC_INSTR_TRANSFER;
    if (bound->instr->kind != SC_INSTR_KERNEL && !is_started)
        return SHARDC_OK;
    sc_cuda_bound *extra = bound->device = calloc(1, sizeof *extra);
    if (extra == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the launches");
    if (bound->instr->kind == SC_INSTR_COLLECTIVE)
        extra->stream = own->group_streams[rank->image->collectives[bound->instr->index].group];
    if (is_started)
        return make_events(&own->session->api, extra, error);
    return bind_kernel(rank->image, own, bound, extra, error);
}

/* Sets the failure addresses, which are known once all kernels that can fail are counted. */
static shardc_status point_to_failures(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda_bound *extra = bound->device;
    (void)error;
    if (bound->instr->kind == SC_INSTR_KERNEL) {
        uint32_t at = bound->instr->arg_count + bound->instr->param_count;
        extra->values[at] = own->call;
        extra->values[at + 1] = own->failures + 8u * extra->slot;
    }
    return SHARDC_OK;
}

static shardc_status unbind_one(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_cuda *api = &((sc_cuda_rank *)rank->device_state)->session->api;
    sc_cuda_bound *extra = bound->device;
    (void)error;
    if (extra == NULL)
        return SHARDC_OK;
    sc_cu_event events[] = {extra->ready, extra->half, extra->done};
    for (int i = 0; i < 3; i++) {
        if (events[i] != NULL)
            api->cuEventDestroy_v2(events[i]);
    }
    free(extra->values);
    free(extra->launch);
    free(extra);
    bound->device = NULL;
    return SHARDC_OK;
}

static shardc_status prepare_rank(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    own->slot_count = 1;
    shardc_status status = each_bound(rank, bind_one, error);
    size_t bytes = own->slot_count * sizeof *own->host_failures;
    void *pinned = NULL;
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuMemAlloc_v2, &own->failures, bytes);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuMemHostAlloc, &pinned, bytes + sizeof(uint64_t),
                         SC_CU_HOST_PORTABLE);
    own->host_failures = pinned;
    if (status == SHARDC_OK)
        status = each_bound(rank, point_to_failures, error);
    if (status == SHARDC_OK)
        status = sc_cuda_progress_open(rank, error);
    return status == SHARDC_OK ? sc_cuda_gemm_plans_make(rank, error) : status;
}

static shardc_status open_groups(sc_rank *rank, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_status status =
        SC_CUDA(&own->session->api, error, "", cuCtxSetCurrent, own->gpu->context);
    sc_cuda_drop_graphs(rank);
    if (status == SHARDC_OK)
        status = sc_rank_bind_groups(rank, rank->comm, error);
    if (status == SHARDC_OK)
        status = sc_cuda_messages_open(rank, error);
    return status == SHARDC_OK ? own->comm->open(rank, error) : status;
}

static void close_rank(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    if (own == NULL)
        return;
    const sc_cuda *api = &own->session->api;
    api->cuCtxSetCurrent(own->gpu->context);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (own->streams[s] != NULL && !rank->has_lost_world)
            api->cuStreamSynchronize(own->streams[s]);
    }
    if (!rank->has_lost_world)
        sc_cuda_group_streams_wait(rank);
    sc_cuda_drop_graphs(rank);
    if (own->comm != NULL)
        own->comm->close(rank);
    sc_cuda_messages_close(rank);
    sc_cuda_gemm_plans_free(rank);
    sc_cuda_times_free(rank);
    sc_cuda_progress_close(rank);
    each_bound(rank, unbind_one, NULL);
    sc_cu_address memories[] = {own->failures, own->call, own->memory};
    for (int i = 0; i < 3; i++) {
        if (memories[i] != 0)
            api->cuMemFree_v2(memories[i]);
    }
    if (own->host_failures != NULL)
        api->cuMemFreeHost(own->host_failures);
    if (own->staging != NULL)
        api->cuMemFreeHost(own->staging);
    sc_cuda_host_close(rank);
    if (own->finished != NULL)
        api->cuEventDestroy_v2(own->finished);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (own->streams[s] != NULL)
            api->cuStreamDestroy_v2(own->streams[s]);
    }
    sc_cuda_group_streams_close(rank);
    free(own->graphs);
    free(own);
    rank->device_state = NULL;
}

/* ---- instructions ---- */

static shardc_status gemm(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, 0, &reason);
    if (status == SHARDC_OK)
        status = sc_cuda_matmul_run(rank, bound, own->matmuls[bound->instr->index], &reason);
    if (status != SHARDC_OK)
        return sc_fail(error, status, "%s: %s (rank %u)", bound->instr->where, reason.text,
                       rank->rank);
    return sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, 0, error);
}

static shardc_status copy(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    uint8_t stream = bound->instr->stream;
    shardc_status status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, stream, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, error, bound->instr->where, cuMemcpyDtoDAsync_v2,
                         (sc_cu_address)(uintptr_t)bound->args[1],
                         (sc_cu_address)(uintptr_t)bound->args[0], (size_t)bound->bytes,
                         own->streams[stream]);
    return status == SHARDC_OK ? sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, stream, error)
                               : status;
}

static shardc_status lost(sc_rank *rank, shardc_status status)
{
    rank->has_lost_world = rank->has_lost_world || status != SHARDC_OK;
    return status;
}

/* The collective's stream waits for the computation of its operands. */
static shardc_status start_collective(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_cuda_bound *extra = bound->device;
    shardc_status status =
        SC_CUDA(api, error, bound->instr->where, cuEventRecord, extra->ready, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, bound->instr->where, cuStreamWaitEvent, extra->stream,
                         extra->ready, 0);
    if (status == SHARDC_OK)
        status = sc_cuda_progress_mark(rank, extra->ready, bound->instr->where, error);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, 1, error);
    if (status == SHARDC_OK)
        status = own->comm->start(rank, bound, error);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, 1, error);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, error, bound->instr->where, cuEventRecord, extra->done, extra->stream);
    return status == SHARDC_OK
               ? sc_cuda_progress_mark(rank, extra->done, bound->instr->where, error)
               : status;
}

/* Or a transfer. */
static shardc_status finish_collective(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda_bound *extra = started->device;
    shardc_status status = sc_cuda_times_mark(rank, started, SC_CUDA_WAITS, 0, error);
    if (status == SHARDC_OK && started->instr->kind == SC_INSTR_COLLECTIVE)
        status = own->comm->finish(rank, started, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, error, started->instr->where, cuStreamWaitEvent,
                         own->streams[0], extra->done, 0);
    return status == SHARDC_OK ? sc_cuda_times_mark(rank, started, SC_CUDA_WAITED, 0, error)
                               : status;
}

/* An error of communication takes precedence over a failed check. */
static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = bound->instr->kind == SC_INSTR_MESSAGE
                               ? sc_cuda_message_start(rank, bound, &reason)
                               : start_collective(rank, bound, &reason);
    if (status != SHARDC_OK)
        *error = reason;
    return lost(rank, status);
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = started->instr->kind == SC_INSTR_MESSAGE
                               ? sc_cuda_message_finish(rank, started, &reason)
                               : finish_collective(rank, started, &reason);
    if (status != SHARDC_OK)
        *error = reason;
    return lost(rank, status);
}

/* ---- memory ---- */

static shardc_status each_piece(sc_rank *rank, uint32_t buffer, int64_t from, char *host,
                                int64_t bytes, bool to_host, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const char *what = rank->image->buffers[buffer].name;
    sc_cu_address at = (sc_cu_address)(uintptr_t)sc_rank_buffer(rank, buffer) + (sc_cu_address)from;
    sc_cu_context callers = NULL; /* this may be an application's thread */
    shardc_status status = SC_CUDA(api, error, "", cuCtxGetCurrent, &callers);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    for (int64_t done = 0; done < bytes;) {
        if (status != SHARDC_OK)
            break;
        size_t piece = bytes - done < SC_CUDA_STAGING ? (size_t)(bytes - done) : SC_CUDA_STAGING;
        if (!to_host)
            memcpy(own->staging, host + done, piece);
        status = to_host ? SC_CUDA(api, error, what, cuMemcpyDtoHAsync_v2, own->staging,
                                   at + (uint64_t)done, piece, own->streams[0])
                         : SC_CUDA(api, error, what, cuMemcpyHtoDAsync_v2, at + (uint64_t)done,
                                   own->staging, piece, own->streams[0]);
        if (status == SHARDC_OK)
            status = SC_CUDA(api, error, what, cuStreamSynchronize, own->streams[0]);
        if (status == SHARDC_OK && to_host)
            memcpy(host + done, own->staging, piece);
        done += (int64_t)piece;
    }
    return sc_cuda_give_back(api, callers, status, error);
}

static shardc_status clear_buffer(sc_rank *rank, uint32_t buffer, int64_t bytes,
                                  shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const char *what = rank->image->buffers[buffer].name;
    sc_cu_context callers = NULL;
    shardc_status status = SC_CUDA(api, error, "", cuCtxGetCurrent, &callers);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuMemsetD8Async,
                         (sc_cu_address)(uintptr_t)sc_rank_buffer(rank, buffer), 0, (size_t)bytes,
                         own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuStreamSynchronize, own->streams[0]);
    return sc_cuda_give_back(api, callers, status, error);
}

static shardc_status read_buffer(sc_rank *rank, uint32_t buffer, int64_t at, void *to,
                                 int64_t bytes, shardc_error *error)
{
    const sc_image_buffer *of = &rank->image->buffers[buffer];
    return of->host ? sc_host_arena_read(&rank->host, of->offset + at, to, bytes, error)
                    : each_piece(rank, buffer, at, to, bytes, true, error);
}

static shardc_status write_buffer(sc_rank *rank, uint32_t buffer, const void *from, int64_t bytes,
                                  shardc_error *error)
{
    const sc_image_buffer *of = &rank->image->buffers[buffer];
    return of->host ? sc_host_arena_write(&rank->host, of->offset, from, bytes, error)
                    : each_piece(rank, buffer, 0, (char *)from, bytes, false, error);
}

const sc_device sc_device_cuda = {
    .name = "cuda",
    .check = sc_cuda_check_machine,
    .open = open_session,
    .close = close_session,
    .open_rank = open_rank,
    .prepare_rank = prepare_rank,
    .close_rank = close_rank,
    .open_groups = open_groups,
    .begin = sc_cuda_begin_call,
    .kernel = sc_cuda_launch,
    .gemm = gemm,
    .copy = copy,
    .start = start,
    .transfer = sc_cuda_transfer,
    .finish = finish,
    .end = sc_cuda_end_call,
    .settle = sc_cuda_settle_call,
    .time = sc_cuda_times_of,
    .read = read_buffer,
    .write = write_buffer,
    .clear = clear_buffer,
    .gemm_tuning = sc_cuda_gemm_tuning,
    .graphs = sc_cuda_graphs,
    .is_host = false,
};
