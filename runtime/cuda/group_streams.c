/* The streams of collectives: one for each group of ranks.
 *
 * On one stream for all, what computation waits for (a sum over tp) would stand behind what nothing
 * waits for yet (the gather of a unit of parameters over fsdp, ahead of its use). Collectives of
 * one group stay in the program's order. Those of several may run at once: no instruction touches
 * what a started collective reads or writes (program/format.h), so their order makes no difference
 * to values. All ranks put them on their streams in the same order, and NCCL's kernels take a small
 * part of a GPU's multiprocessors, so that those of several groups fit beside one another and none
 * keeps another from starting.
 *
 * Blocks of collectives go before those of computation: they are few, and other ranks wait for
 * them. Groups that the rank's computation waits for at once come first. */
#include <stdlib.h>

#include "runtime/cuda/rank.h"
#include "runtime/session/session.h"

/* True if the function waits for a collective of the group right after starting it. */
static bool waits_at_once(const sc_image *image, const sc_image_func *f, uint32_t group)
{
    for (uint32_t i = 0; i + 1 < f->instr_count; i++) {
        const sc_image_instr *instr = &f->instrs[i], *next = &f->instrs[i + 1];
        if (instr->kind == SC_INSTR_COLLECTIVE && image->collectives[instr->index].group == group &&
            next->kind == SC_INSTR_FINISH && next->index == i)
            return true;
    }
    return false;
}

static bool is_urgent(const sc_image *image, uint32_t group)
{
    for (uint32_t f = 0; f < image->func_count; f++) {
        if (waits_at_once(image, &image->funcs[f], group))
            return true;
    }
    return false;
}

shardc_status sc_cuda_group_streams_open(sc_rank *rank, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const sc_image *image = rank->image;
    int least = 0, greatest = 0; /* the greatest is the least number; equal: there are none */
    own->group_streams = calloc(image->group_count + 1u, sizeof *own->group_streams);
    if (own->group_streams == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory for rank %u",
                       rank->rank);
    shardc_status status = SC_CUDA(api, error, "", cuCtxGetStreamPriorityRange, &least, &greatest);
    for (uint32_t g = 0; g < image->group_count; g++) {
        if (status != SHARDC_OK)
            break;
        int priority = is_urgent(image, g) || greatest + 1 > least ? greatest : greatest + 1;
        status = SC_CUDA(api, error, "", cuStreamCreateWithPriority, &own->group_streams[g],
                         SC_CU_STREAM_NON_BLOCKING, priority);
    }
    return status;
}

void sc_cuda_group_streams_wait(const sc_rank *rank)
{
    const sc_cuda_rank *own = rank->device_state;
    if (own->group_streams == NULL)
        return;
    for (uint32_t g = 0; g < rank->image->group_count; g++) {
        if (own->group_streams[g] != NULL)
            own->session->api.cuStreamSynchronize(own->group_streams[g]);
    }
}

void sc_cuda_group_streams_close(sc_rank *rank)
{
    sc_cuda_rank *own = rank->device_state;
    if (own->group_streams == NULL)
        return;
    for (uint32_t g = 0; g < rank->image->group_count; g++) {
        if (own->group_streams[g] != NULL)
            own->session->api.cuStreamDestroy_v2(own->group_streams[g]);
    }
    free(own->group_streams);
    own->group_streams = NULL;
}

sc_cu_stream sc_cuda_stream_of(const sc_rank *rank, const sc_bound *bound)
{
    const sc_cuda_rank *own = rank->device_state;
    return bound->instr->kind == SC_INSTR_COLLECTIVE
               ? ((const sc_cuda_bound *)bound->device)->stream
               : own->streams[bound->instr->stream];
}
