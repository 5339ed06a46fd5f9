/* Host memory of ranks on GPUs: a pinned arena, and copies between it and the device's arena on
 * stream 2. A copy waits for what stream 0 was given before it; its FINISH makes stream 0 wait for
 * the copy. Copies follow one another, so one may read what an earlier one writes, also in an
 * earlier call: a call ends when stream 0 has waited for all of its copies. The arena's addresses
 * do not change while the rank lives, so copies can be captured in graphs. */
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/rank.h"

enum { TRANSFERS = 2 /* the stream */ };

shardc_status sc_cuda_host_open(sc_rank *rank, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    void *memory = NULL;
    char what[80];
    rank->host = (sc_host_arena){.file = -1, .bytes = rank->image->host_bytes, .rank = rank->rank};
    if (rank->host.bytes == 0)
        return SHARDC_OK;
    snprintf(what, sizeof what, "the %lld bytes of host memory of rank %u",
             (long long)rank->host.bytes, rank->rank);
    shardc_status status = SC_CUDA(&own->session->api, error, what, cuMemHostAlloc, &memory,
                                   (size_t)rank->host.bytes, SC_CU_HOST_PORTABLE);
    if (status != SHARDC_OK)
        return status;
    memset(memory, 0, (size_t)rank->host.bytes);
    rank->host.memory = memory;
    return SHARDC_OK;
}

void sc_cuda_host_close(sc_rank *rank)
{
    const sc_cuda_rank *own = rank->device_state;
    if (rank->host.memory != NULL)
        own->session->api.cuMemFreeHost(rank->host.memory);
    rank->host.memory = NULL;
}

/* One part has the whole buffer of its end in host memory. */
static shardc_status copy_part(const sc_rank *rank, const sc_bound *bound, uint32_t part,
                               shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_image_buffer *buffers = rank->image->buffers,
                          *from = &buffers[bound->instr->args[part].buffer],
                          *to = &buffers[bound->instr->args[part + 1].buffer];
    void *source = bound->args[part], *destination = bound->args[part + 1];
    if ((from->host ? from : to)->bytes == 0)
        return SHARDC_OK;
    return from->host ? SC_CUDA(api, error, bound->instr->where, cuMemcpyHtoDAsync_v2,
                                (sc_cu_address)(uintptr_t)destination, source, (size_t)from->bytes,
                                own->streams[TRANSFERS])
                      : SC_CUDA(api, error, bound->instr->where, cuMemcpyDtoHAsync_v2, destination,
                                (sc_cu_address)(uintptr_t)source, (size_t)to->bytes,
                                own->streams[TRANSFERS]);
}

shardc_status sc_cuda_transfer(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_cuda_bound *extra = bound->device;
    const char *where = bound->instr->where;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status =
        SC_CUDA(api, &reason, where, cuEventRecord, extra->ready, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, &reason, where, cuStreamWaitEvent, own->streams[TRANSFERS],
                         extra->ready, 0);
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, TRANSFERS, &reason);
    for (uint32_t i = 0; i < bound->instr->arg_count; i += 2) {
        if (status != SHARDC_OK)
            break;
        status = copy_part(rank, bound, i, &reason);
    }
    if (status == SHARDC_OK)
        status = sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, TRANSFERS, &reason);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, &reason, where, cuEventRecord, extra->done, own->streams[TRANSFERS]);
    if (status != SHARDC_OK) {
        rank->has_lost_world = true;
        *error = reason;
    }
    return status;
}
