/* The CUDA device: instructions are enqueued on streams, and the host waits at the end of a call. A
 * call returns the failures of its checks to the host. After a function has run once it is captured
 * as a graph, provided its collectives can be captured. */
#define _GNU_SOURCE
#include "runtime/cuda/device.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/rank.h"
#include "runtime/session/session.h"
#include "support/clock.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- sessions ---- */

static bool has_gemms(const sc_image *image)
{
    return image->gemm_count > 0;
}

static bool ranks_share_a_gpu(const shardc_session *session)
{
    const sc_cuda_session *own = session->device_state;
    return session->rank_count > own->gpu_count;
}

static shardc_status open_session(shardc_session *session, shardc_error *error)
{
    sc_cuda_session *own = session->device_state = calloc(1, sizeof *own);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for a session");
    shardc_status status = sc_cuda_open_gpus(session, error);
    if (status == SHARDC_OK && has_gemms(session->image))
        status = sc_cuda_gemm_plans_open(session, error);
    if (status == SHARDC_OK && session->image->collective_count > 0 && session->image->ranks > 1 &&
        !ranks_share_a_gpu(session) && !sc_nccl_open(&own->nccl, error)) {
        own->nccl.library = NULL;
        status = SHARDC_ERROR_UNAVAILABLE;
    }
    return status;
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
    free(own);
    session->device_state = NULL;
}

/* ---- ranks: memory ---- */

static shardc_status allocate(sc_rank *rank, sc_cuda_rank *own, shardc_error *error)
{
    const sc_cuda *api = &own->session->api;
    size_t bytes = (size_t)rank->session->image->arena_bytes;
    char what[64];
    snprintf(what, sizeof what, "the %zu bytes of rank %u", bytes, rank->rank);
    /* cuMemAlloc returns addresses aligned to at least 256 bytes. */
    shardc_status status = SC_CUDA(api, error, what, cuMemAlloc_v2, &own->memory, bytes + 1);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, error, what, cuMemsetD8Async, own->memory, 0, bytes + 1, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuMemAlloc_v2, &own->call, 64);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuMemHostAlloc, &own->staging, SC_CUDA_STAGING,
                         SC_CU_HOST_PORTABLE);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuStreamSynchronize, own->streams[0]);
    rank->arena = (char *)(uintptr_t)own->memory;
    return status;
}

static shardc_status open_rank(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state = calloc(1, sizeof *own);
    if (own == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    own->session = rank->session->device_state;
    own->gpu = sc_cuda_gpu_of(rank);
    const sc_cuda *api = &own->session->api;
    bool is_alone = rank->session->image->ranks == 1;
    own->comm =
        is_alone || ranks_share_a_gpu(rank->session) ? &sc_cuda_comm_local : &sc_cuda_comm_nccl;
    own->batches = shardc_executable_micro_batches(rank->session->program);
    own->graphs =
        calloc((size_t)rank->session->image->func_count * own->batches + 1, sizeof *own->graphs);
    if (own->graphs == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    shardc_status status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (status != SHARDC_OK)
            break;
        status =
            SC_CUDA(api, error, "", cuStreamCreate, &own->streams[s], SC_CU_STREAM_NON_BLOCKING);
    }
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
    for (uint32_t i = 0; i < instr->arg_count; i++)
        extra->values[i] = (uint64_t)(uintptr_t)bound->args[i];
    if (image->kernels[instr->index].check_count > 0)
        extra->slot = own->slot_count++;
    return SHARDC_OK;
}

static shardc_status bind_collective(const sc_cuda *api, sc_cuda_bound *extra, shardc_error *error)
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
    const sc_image *image = rank->session->image;
    shardc_status status = SHARDC_OK;
    for (uint32_t f = 0; rank->funcs != NULL && f < image->func_count; f++) {
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
    if (bound->instr->kind != SC_INSTR_KERNEL && bound->instr->kind != SC_INSTR_COLLECTIVE)
        return SHARDC_OK;
    sc_cuda_bound *extra = bound->device = calloc(1, sizeof *extra);
    if (extra == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for the launches");
    if (bound->instr->kind == SC_INSTR_COLLECTIVE)
        return bind_collective(&own->session->api, extra, error);
    return bind_kernel(rank->session->image, own, bound, extra, error);
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
    return status == SHARDC_OK ? sc_cuda_gemm_plans_make(rank, error) : status;
}

static void drop_graph(const sc_cuda *api, sc_cuda_graph *graph)
{
    if (graph->exec != NULL)
        api->cuGraphExecDestroy(graph->exec);
    graph->exec = NULL;
}

/* Destroys the graphs. They contain calls of communicators: they must not be replayed after those
 * are closed, and closing waits for them. A graph that is running is freed when it ends. */
static void drop_graphs(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    for (size_t g = 0;
         own->graphs != NULL && g < (size_t)rank->session->image->func_count * own->batches; g++) {
        drop_graph(&own->session->api, &own->graphs[g]);
        own->graphs[g].runs = 0;
    }
}

static shardc_status open_groups(sc_rank *rank, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_status status =
        SC_CUDA(&own->session->api, error, "", cuCtxSetCurrent, own->gpu->context);
    drop_graphs(rank);
    if (status == SHARDC_OK)
        status = sc_rank_bind_groups(rank, rank->comm, error);
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
    drop_graphs(rank);
    if (own->comm != NULL)
        own->comm->close(rank);
    sc_cuda_gemm_plans_free(rank);
    sc_cuda_times_free(rank);
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
    if (own->finished != NULL)
        api->cuEventDestroy_v2(own->finished);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (own->streams[s] != NULL)
            api->cuStreamDestroy_v2(own->streams[s]);
    }
    free(own->graphs);
    free(own);
    rank->device_state = NULL;
}

/* ---- waiting ---- */

/* Names the collective that a function is waiting for: the first that is not done. Events inside a
 * graph cannot be queried, so for a graph it is the function's first collective. */
static void name_collective(const sc_rank *rank, uint32_t func, char *out, size_t size)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_image_func *f = &rank->session->image->funcs[func];
    bool is_graph = own->graph->exec != NULL;
    snprintf(out, size, "function %s", f->name);
    for (uint32_t i = 0; i < f->instr_count; i++) {
        const sc_bound *bound = &rank->funcs[func][i];
        const sc_cuda_bound *extra = bound->device;
        if (bound->instr->kind != SC_INSTR_COLLECTIVE)
            continue;
        if (!is_graph && own->session->api.cuEventQuery(extra->done) != SC_CU_NOT_READY)
            continue;
        sc_comm_describe(bound->group, &bound->call, out, size);
        if (is_graph)
            snprintf(out + strlen(out), size - strlen(out), ", or one after it in %s", f->name);
        return;
    }
}

/* Waits for all work on stream 0. With collectives, ranks may be missing if they do not meet
 * before; so it polls them, and applies the session's deadline. Short waits spin, long ones
 * sleep. */
static shardc_status wait_for_stream(sc_rank *rank, uint32_t func, bool has_collectives,
                                     shardc_error *error)
{
    enum {
        BURN_US = 2000,
        SLEEP_US = 50 /* about 0.1 ms with the system's overhead: little compared with the wait */
    };
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    double begin = sc_seconds(), deadline = rank->session->options.deadline_ms * 1e-3;
    shardc_status status = SC_CUDA(api, error, "", cuEventRecord, own->finished, own->streams[0]);
    while (status == SHARDC_OK) {
        sc_cu_result result = api->cuEventQuery(own->finished);
        if (result != SC_CU_NOT_READY)
            return sc_cuda_check(api, result, "cuEventQuery", "a kernel before it failed", error);
        double waited = sc_seconds() - begin;
        bool may_hang = has_collectives && own->comm->poll != NULL;
        shardc_error reason = {.status = SHARDC_OK};
        if (may_hang)
            status = own->comm->poll(rank, &reason);
        if (status == SHARDC_OK && may_hang && deadline > 0 && waited > deadline)
            status = sc_fail(&reason, SHARDC_ERROR_TIMEOUT,
                             "not all ranks reached it within %.3g s; the deadline is %.3g s",
                             waited, deadline);
        if (status != SHARDC_OK) {
            char what[256];
            name_collective(rank, func, what, sizeof what);
            return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, what,
                           reason.text);
        }
        if (waited > BURN_US * 1e-6)
            nanosleep(&(struct timespec){.tv_nsec = SLEEP_US * 1000L}, NULL);
        else
            sched_yield();
    }
    return status;
}

static bool has_collectives(const sc_image *image, uint32_t func)
{
    for (uint32_t i = 0; i < image->funcs[func].instr_count; i++) {
        if (image->funcs[func].instrs[i].kind == SC_INSTR_COLLECTIVE)
            return true;
    }
    return false;
}

/* ---- calls ---- */

/* Uploads the step number and clears the failures. */
static shardc_status set_call(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    uint64_t *step = &own->host_failures[own->slot_count];
    *step = rank->session->step & UINT32_MAX;
    shardc_status status = SC_CUDA(api, error, "", cuMemcpyHtoDAsync_v2, own->call, step,
                                   sizeof *step, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, "", cuMemsetD8Async, own->failures, 0xff,
                         own->slot_count * sizeof *own->host_failures, own->streams[0]);
    return status;
}

/* True if a kernel of the function has a parameter of this kind, whose value a graph would freeze.
 * The step is not one: kernels read it from memory. */
static bool has_param(const sc_image *image, uint32_t func, sc_image_param_kind kind)
{
    for (uint32_t i = 0; i < image->funcs[func].instr_count; i++) {
        const sc_image_instr *instr = &image->funcs[func].instrs[i];
        for (uint32_t p = 0; p < instr->param_count; p++) {
            if (instr->params[p].kind == kind)
                return true;
        }
    }
    return false;
}

/* True if the captured graph still matches this call. */
static bool is_current(const sc_rank *rank, const sc_cuda_graph *graph, uint32_t func,
                       uint32_t micro_batch)
{
    const sc_image *image = rank->session->image;
    return (graph->seed == rank->session->seed || !has_param(image, func, SC_PARAM_KEY)) &&
           (graph->micro_batch == micro_batch || !has_param(image, func, SC_PARAM_MICRO_BATCH));
}

/* True if the function may be captured. Never on its first run, in which libraries select
 * algorithms. */
static bool may_capture(const sc_rank *rank, const sc_cuda_graph *graph, uint32_t func)
{
    const sc_cuda_rank *own = rank->device_state;
    return !graph->is_refused && graph->runs > 0 && !rank->session->gemms_only &&
           !rank->session->no_graphs && !sc_cuda_times_wanted(rank) &&
           (own->comm->is_captured || rank->session->image->ranks == 1 ||
            !has_collectives(rank->session->image, func));
}

static shardc_status begin(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done,
                           shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    sc_cuda_graph *graph = own->graph =
        &own->graphs[(size_t)func * own->batches + micro_batch % own->batches];
    bool may = may_capture(rank, graph, func);
    *out_done = false;
    shardc_status status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    if (status == SHARDC_OK)
        status = set_call(rank, error);
    if (status == SHARDC_OK && sc_cuda_times_wanted(rank))
        status = sc_cuda_times_begin(rank, func, graph->runs > 0, error);
    if (status == SHARDC_OK && may && graph->exec != NULL &&
        !is_current(rank, graph, func, micro_batch))
        drop_graph(api, graph);
    if (status == SHARDC_OK && may && graph->exec != NULL) {
        *out_done = true;
        return SC_CUDA(api, error, rank->session->image->funcs[func].name, cuGraphLaunch,
                       graph->exec, own->streams[0]);
    }
    if (status == SHARDC_OK && may) {
        status =
            SC_CUDA(api, error, "", cuStreamBeginCapture_v2, own->streams[0], SC_CU_CAPTURE_THREAD);
        own->is_capturing = status == SHARDC_OK;
        graph->seed = rank->session->seed;
        graph->micro_batch = micro_batch;
    }
    return status;
}

/* Adds to an error that it occurred during capture: code that breaks capture's rules may run
 * without. */
static void name_recording(const char *name, shardc_error *error)
{
    size_t length = strlen(error->text);
    snprintf(error->text + length, sizeof error->text - length,
             " (while %s was recorded as a graph; --no-graph runs without)", name);
}

/* Ends the capture, instantiates the graph and launches it. */
static shardc_status end_capture(sc_rank *rank, uint32_t func, bool failed, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const char *name = rank->session->image->funcs[func].name;
    sc_cu_graph recorded = NULL;
    own->is_capturing = false;
    sc_cu_result result = api->cuStreamEndCapture(own->streams[0], &recorded);
    if (failed) {
        if (recorded != NULL)
            api->cuGraphDestroy(recorded);
        name_recording(name, error);
        return SHARDC_OK;
    }
    sc_cuda_graph *graph = own->graph;
    shardc_status status = sc_cuda_check(api, result, "cuStreamEndCapture", name, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, name, cuGraphInstantiateWithFlags, &graph->exec, recorded, 0);
    if (status != SHARDC_OK) {
        graph->exec = NULL;
        name_recording(name, error);
    }
    graph->is_refused = status != SHARDC_OK; /* the next call runs without a graph */
    if (recorded != NULL)
        api->cuGraphDestroy(recorded);
    return status == SHARDC_OK
               ? SC_CUDA(api, error, name, cuGraphLaunch, graph->exec, own->streams[0])
               : status;
}

/* Reports the first instruction that failed. */
static void find_failure(sc_rank *rank, uint32_t func, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    for (uint32_t i = 0; i < rank->session->image->funcs[func].instr_count; i++) {
        if (error->status != SHARDC_OK)
            break;
        const sc_bound *bound = &rank->funcs[func][i];
        const sc_cuda_bound *extra = bound->device;
        if (bound->instr->kind == SC_INSTR_KERNEL && extra->slot != 0 &&
            own->host_failures[extra->slot] != UINT64_MAX)
            sc_rank_fail_check(rank, bound->instr, (int64_t)own->host_failures[extra->slot], error);
    }
}

/* After an error: waits for the streams, so that their work does not run into the next call or
 * outlive the buffers. */
static void give_up(sc_rank *rank)
{
    const sc_cuda_rank *own = rank->device_state;
    drop_graphs(rank);
    own->comm->abort(rank);
    for (int s = 0; s < SC_IMAGE_STREAMS; s++)
        own->session->api.cuStreamSynchronize(own->streams[s]);
}

/* Counts the collectives that the GPU executed, those of a graph included. */
static void count_collectives(sc_rank *rank, uint32_t func)
{
    const sc_image *image = rank->session->image;
    for (uint32_t i = 0; !rank->session->gemms_only && i < image->funcs[func].instr_count; i++) {
        const sc_bound *bound = &rank->funcs[func][i];
        if (bound->instr->kind == SC_INSTR_COLLECTIVE)
            sc_comm_count(bound->group, &bound->call);
    }
}

static shardc_status end(sc_rank *rank, uint32_t func, bool failed, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = SHARDC_OK;
    sc_cuda_times_open(rank);
    if (own->is_capturing)
        status = end_capture(rank, func, failed, failed ? error : &reason);
    if (failed) {
        rank->has_lost_world = true;
        give_up(rank);
        return SHARDC_OK;
    }
    if (status == SHARDC_OK)
        status = SC_CUDA(api, &reason, "", cuMemcpyDtoHAsync_v2, own->host_failures, own->failures,
                         own->slot_count * sizeof *own->host_failures, own->streams[0]);
    if (status == SHARDC_OK)
        status = wait_for_stream(rank, func, has_collectives(rank->session->image, func), &reason);
    if (status != SHARDC_OK) {
        rank->has_lost_world = true;
        *error = reason;
        give_up(rank);
        return status;
    }
    own->graph->runs++;
    count_collectives(rank, func);
    find_failure(rank, func, error);
    return SHARDC_OK;
}

/* ---- instructions ---- */

static shardc_status kernel(sc_rank *rank, sc_bound *bound, uint32_t micro_batch,
                            shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_image_instr *instr = bound->instr;
    const sc_image_kernel *code = &rank->session->image->kernels[instr->index];
    const sc_cuda_bound *extra = bound->device;
    sc_rank_set_params(rank, instr, micro_batch);
    for (uint32_t i = 0; i < instr->param_count; i++)
        extra->values[instr->arg_count + i] = (uint64_t)rank->params[i];
    shardc_status status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, instr->stream, error);
    for (uint32_t s = 0; s < code->stage_count; s++) {
        if (status != SHARDC_OK)
            break;
        const sc_image_stage *stage = &code->stages[s];
        status = SC_CUDA(&own->session->api, error, instr->where, cuLaunchKernel,
                         own->gpu->functions[instr->index][s], (unsigned)stage->blocks, 1, 1,
                         stage->threads, 1, 1, stage->shared_bytes, own->streams[instr->stream],
                         extra->launch, NULL);
    }
    return status == SHARDC_OK ? sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, instr->stream, error)
                               : status;
}

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
static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_cuda_bound *extra = bound->device;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status =
        SC_CUDA(api, &reason, bound->instr->where, cuEventRecord, extra->ready, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, &reason, bound->instr->where, cuStreamWaitEvent, own->streams[1],
                         extra->ready, 0);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, 1, &reason);
    if (status == SHARDC_OK)
        status = own->comm->start(rank, bound, &reason);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, 1, &reason);
    if (status == SHARDC_OK)
        status =
            SC_CUDA(api, &reason, bound->instr->where, cuEventRecord, extra->done, own->streams[1]);
    if (status != SHARDC_OK)
        *error = reason;
    return lost(rank, status);
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda_bound *extra = started->device;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_cuda_times_mark(rank, started, SC_CUDA_WAITS, 0, &reason);
    if (status == SHARDC_OK)
        status = own->comm->finish(rank, started, &reason);
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, &reason, started->instr->where, cuStreamWaitEvent,
                         own->streams[0], extra->done, 0);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, started, SC_CUDA_WAITED, 0, &reason);
    if (status != SHARDC_OK)
        *error = reason;
    return lost(rank, status);
}

/* ---- memory ---- */

static shardc_status each_piece(sc_rank *rank, uint32_t buffer, char *host, int64_t bytes,
                                bool to_host, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const char *what = rank->session->image->buffers[buffer].name;
    sc_cu_address at = (sc_cu_address)(uintptr_t)sc_rank_buffer(rank, buffer);
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

static shardc_status read_buffer(sc_rank *rank, uint32_t buffer, void *to, int64_t bytes,
                                 shardc_error *error)
{
    return each_piece(rank, buffer, to, bytes, true, error);
}

static shardc_status write_buffer(sc_rank *rank, uint32_t buffer, const void *from, int64_t bytes,
                                  shardc_error *error)
{
    return each_piece(rank, buffer, (char *)from, bytes, false, error);
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
    .begin = begin,
    .kernel = kernel,
    .gemm = gemm,
    .copy = copy,
    .start = start,
    .finish = finish,
    .end = end,
    .time = sc_cuda_times_of,
    .read = read_buffer,
    .write = write_buffer,
    .gemm_tuning = sc_cuda_gemm_tuning,
    .is_host = false,
};
