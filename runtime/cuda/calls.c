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
    *out_done = false;
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
        *out_done = true;
        return SC_CUDA(api, error, rank->image->funcs[func].name, cuGraphLaunch, graph->exec,
                       own->streams[0]);
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
    const char *name = rank->image->funcs[func].name;
    sc_cu_graph recorded = NULL;
    shardc_status status = failed ? SHARDC_OK : sc_cuda_progress_join(rank, error);
    own->is_capturing = false;
    sc_cu_result result = api->cuStreamEndCapture(own->streams[0], &recorded);
    if (failed) {
        if (recorded != NULL)
            api->cuGraphDestroy(recorded);
        name_recording(name, error);
        return SHARDC_OK;
    }
    sc_cuda_graph *graph = own->graph;
    if (status == SHARDC_OK)
        status = sc_cuda_check(api, result, "cuStreamEndCapture", name, error);
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
    for (int s = 0; s < SC_IMAGE_STREAMS; s++)
        own->session->api.cuStreamSynchronize(own->streams[s]);
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
    shardc_status status = SHARDC_OK;
    sc_cuda_times_open(rank);
    if (own->is_capturing)
        status = end_capture(rank, func, failed, failed ? error : &reason);
    if (failed) {
        rank->has_lost_world = true;
        sc_cuda_give_up(rank, error->text);
        return SHARDC_OK;
    }
    if (status == SHARDC_OK)
        status = SC_CUDA(api, &reason, "", cuMemcpyDtoHAsync_v2, own->host_failures, own->failures,
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
