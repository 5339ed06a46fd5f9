/* Calls of functions on a GPU. The host waits at the end of a call, which returns the failures of
 * its checks. After a function has run once it is captured as a graph, provided its collectives can
 * be captured. */
#include "program/lookup.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/messages.h"
#include "runtime/session/session.h"

#include <stdio.h>
#include <string.h>

/* ---- graphs ---- */

static void drop_graph(const sc_cuda *api, sc_cuda_graph *graph)
{
    if (graph->exec != NULL)
        api->cuGraphExecDestroy(graph->exec);
    graph->exec = NULL;
}

/* Destroys the graphs. They contain calls of communicators: they must not be replayed after those
 * are closed, and closing waits for them. A graph that is running is freed when it ends. */
void sc_cuda_drop_graphs(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    if (own->graphs == NULL)
        return;
    for (size_t g = 0; g < (size_t)rank->image->func_count * own->batches; g++) {
        drop_graph(&own->session->api, &own->graphs[g]);
        own->graphs[g].runs = 0;
    }
}

/* Notes that a function cannot be recorded, for whatever micro-batch. */
static void refuse(sc_rank *rank, uint32_t func, const shardc_error *why)
{
    sc_cuda_rank *own = rank->device_state;
    for (uint32_t b = 0; b < own->batches; b++)
        own->graphs[(size_t)func * own->batches + b].is_refused = true;
    if (own->report.refused++ == 0)
        snprintf(own->report.reason, sizeof own->report.reason,
                 "rank %u: function %s cannot be recorded as a graph and is launched kernel by "
                 "kernel: %.250s",
                 rank->rank, rank->image->funcs[func].name, why->text);
}

/* Waits for all work on stream 0. With collectives or messages ranks may be missing, if they do not
 * meet before. */
static shardc_status wait_for_stream(sc_rank *rank, bool may_hang, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    shardc_status status =
        SC_CUDA(&own->session->api, error, "", cuEventRecord, own->finished, own->streams[0]);
    return status == SHARDC_OK ? sc_cuda_wait(rank, own->finished, may_hang, error) : status;
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

/* True if the captured graph still matches this call. Calls of the same micro-batch have the same
 * addresses; of a pipeline, others may not. */
static bool is_current(const sc_rank *rank, const sc_cuda_graph *graph, uint32_t func,
                       uint32_t micro_batch)
{
    const sc_image *image = rank->image;
    return (graph->seed == rank->session->seed || !has_param(image, func, SC_PARAM_KEY)) &&
           (graph->micro_batch == micro_batch ||
            (image->pipeline.count == 0 && !has_param(image, func, SC_PARAM_MICRO_BATCH)));
}

/* True if the function may be captured. Never on its first run, in which libraries select
 * algorithms; and not with messages, whose other ends are in other calls (messages.h). */
static bool may_capture(const sc_rank *rank, const sc_cuda_graph *graph, uint32_t func)
{
    const sc_cuda_rank *own = rank->device_state;
    return !graph->is_refused && graph->runs > 0 && !rank->session->gemms_only &&
           !rank->session->no_graphs && !sc_cuda_times_wanted(rank) &&
           !sc_image_has_messages(&rank->image->funcs[func]) &&
           (own->comm->is_captured || rank->image->ranks == 1 ||
            !has_collectives(rank->image, func));
}

shardc_status sc_cuda_begin_call(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done,
                                 shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    sc_cuda_graph *graph = own->graph =
        &own->graphs[(size_t)func * own->batches + micro_batch % own->batches];
    bool may = may_capture(rank, graph, func);
    *out_done = own->is_graph = false;
    own->next_wait = 0;
    sc_cuda_progress_begin(rank);
    shardc_status status = SC_CUDA(api, error, "", cuCtxSetCurrent, own->gpu->context);
    if (status == SHARDC_OK)
        status = set_call(rank, error);
    if (status == SHARDC_OK && sc_cuda_times_wanted(rank))
        status = sc_cuda_times_begin(rank, func, graph->runs > 0, error);
    if (status == SHARDC_OK && may && graph->exec != NULL &&
        !is_current(rank, graph, func, micro_batch))
        drop_graph(api, graph);
    if (status == SHARDC_OK && may && graph->exec != NULL) {
        *out_done = own->is_graph = true;
        return SC_CUDA(api, error, rank->image->funcs[func].name, cuGraphLaunch, graph->exec,
                       own->streams[0]);
    }
    if (status == SHARDC_OK && may) {
        shardc_error reason = {.status = SHARDC_OK};
        own->is_capturing = SC_CUDA(api, &reason, "", cuStreamBeginCapture_v2, own->streams[0],
                                    SC_CU_CAPTURE_THREAD) == SHARDC_OK;
        if (!own->is_capturing)
            refuse(rank, func, &reason);
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

/* Ends the capture and instantiates the graph. After a failure there is none. */
static shardc_status end_capture(sc_rank *rank, const char *name, bool failed, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    sc_cuda_graph *graph = own->graph;
    sc_cu_graph recorded = NULL;
    shardc_status status = failed ? SHARDC_OK : sc_cuda_progress_join(rank, error);
    own->is_capturing = false;
    sc_cu_result result = api->cuStreamEndCapture(own->streams[0], &recorded);
    if (status == SHARDC_OK && !failed)
        status = sc_cuda_check(api, result, "cuStreamEndCapture", name, error);
    if (status == SHARDC_OK && !failed)
        status = SC_CUDA(api, error, name, cuGraphInstantiateWithFlags, &graph->exec, recorded, 0);
    if (status != SHARDC_OK)
        graph->exec = NULL;
    if (recorded != NULL)
        api->cuGraphDestroy(recorded);
    return status;
}

/* While it is recorded nothing runs, and a call leaves nothing behind on the host that the next one
 * does not replace: a function without messages keeps its state in events, which are recorded
 * anew. So what was recorded in vain can be run from its beginning. Only an error of communication
 * stays: NCCL's communicators, which have its calls, do not work after one. */
shardc_status sc_cuda_settle_call(sc_rank *rank, uint32_t func, shardc_status status,
                                  bool *out_again, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const char *name = rank->image->funcs[func].name;
    shardc_error reason = *error;
    *out_again = false;
    if (!own->is_capturing)
        return status;
    shardc_status ended = end_capture(rank, name, status != SHARDC_OK, &reason);
    if (status == SHARDC_ERROR_COMM || status == SHARDC_ERROR_TIMEOUT) {
        name_recording(name, error);
        return status;
    }
    own->is_graph = status == SHARDC_OK && ended == SHARDC_OK;
    if (own->is_graph)
        return SC_CUDA(&own->session->api, error, name, cuGraphLaunch, own->graph->exec,
                       own->streams[0]);
    refuse(rank, func, &reason);
    *error = (shardc_error){.status = SHARDC_OK};
    *out_again = true;
    if (status != SHARDC_OK) /* a collective that was not recorded is not lost */
        rank->has_lost_world = false;
    return SHARDC_OK;
}

void sc_cuda_graphs(const shardc_session *session, shardc_graph_report *out)
{
    for (uint32_t r = 0; r < session->rank_count; r++) {
        const sc_cuda_rank *own = session->ranks[r].device_state;
        if (out->refused == 0)
            *out = own->report;
        else
            out->refused += own->report.refused;
    }
}

/* Reports the first instruction that failed. */
static void find_failure(sc_rank *rank, uint32_t func, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    for (uint32_t i = 0; i < rank->image->funcs[func].instr_count; i++) {
        if (error->status != SHARDC_OK)
            break;
        const sc_bound *bound = &rank->funcs[func][i];
        const sc_cuda_bound *extra = bound->device;
        if (bound->instr->kind == SC_INSTR_KERNEL && extra->slot != 0 &&
            own->host_failures[extra->slot] != UINT64_MAX)
            sc_rank_fail_check(rank, bound->instr, (int64_t)own->host_failures[extra->slot], error);
    }
}

void sc_cuda_give_up(sc_rank *rank, const char *why)
{
    const sc_cuda_rank *own = rank->device_state;
    sc_cuda_drop_graphs(rank);
    own->comm->abort(rank, why[0] != 0 ? why : "its call on the GPU failed");
    for (int s = 0; s < SC_IMAGE_STREAMS; s++) {
        if (s != SC_CUDA_COLLECTIVES)
            own->session->api.cuStreamSynchronize(own->streams[s]);
    }
    sc_cuda_group_streams_wait(rank);
    sc_cuda_messages_abandon(rank);
}

/* Counts the collectives that the GPU executed, those of a graph included, and the messages. */
static void count_collectives(sc_rank *rank, uint32_t func)
{
    const sc_image *image = rank->image;
    if (rank->session->gemms_only)
        return;
    for (uint32_t i = 0; i < image->funcs[func].instr_count; i++) {
        const sc_bound *bound = &rank->funcs[func][i];
        if (bound->instr->kind == SC_INSTR_COLLECTIVE || bound->instr->kind == SC_INSTR_MESSAGE)
            sc_comm_count(bound->group, &bound->call);
    }
}

static shardc_status end_call(sc_rank *rank, uint32_t func, bool failed, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    shardc_error reason = {.status = SHARDC_OK};
    sc_cuda_times_open(rank);
    if (failed) {
        rank->has_lost_world = true;
        sc_cuda_give_up(rank, error->text);
        return SHARDC_OK;
    }
    shardc_status status =
        SC_CUDA(api, &reason, "", cuMemcpyDtoHAsync_v2, own->host_failures, own->failures,
                own->slot_count * sizeof *own->host_failures, own->streams[0]);
    if (status == SHARDC_OK)
        status = wait_for_stream(
            rank, rank->image->boundary_count > 0 || has_collectives(rank->image, func), &reason);
    if (status != SHARDC_OK) {
        rank->has_lost_world = true;
        *error = reason;
        sc_cuda_give_up(rank, error->text);
        return status;
    }
    own->graph->runs++;
    count_collectives(rank, func);
    find_failure(rank, func, error);
    return SHARDC_OK;
}

shardc_status sc_cuda_end_call(sc_rank *rank, uint32_t func, bool failed, shardc_error *error)
{
    shardc_status status = end_call(rank, func, failed, error);
    ((sc_cuda_rank *)rank->device_state)->graph = NULL;
    return status;
}
