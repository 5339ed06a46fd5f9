/* Launches of kernels. */
#include "runtime/cuda/rank.h"
#include "runtime/session/session.h"

shardc_status sc_cuda_launch(sc_rank *rank, sc_bound *bound, uint32_t micro_batch,
                             shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_image_instr *instr = bound->instr;
    const sc_image_kernel *code = &rank->image->kernels[instr->index];
    const sc_cuda_bound *extra = bound->device;
    sc_rank_set_params(rank, instr, micro_batch);
    for (uint32_t i = 0; i < instr->arg_count; i++) /* they may be those of a micro-batch */
        extra->values[i] = (uint64_t)(uintptr_t)bound->args[i];
    for (uint32_t i = 0; i < instr->param_count; i++)
        extra->values[instr->arg_count + i] = (uint64_t)rank->params[i];
    shardc_status status = sc_cuda_times_mark(rank, bound, SC_CUDA_RUNS, instr->stream, error);
    for (uint32_t s = 0; s < code->stage_count; s++) {
        if (status != SHARDC_OK)
            break;
        const sc_image_stage *stage = &code->stages[s];
        status = SC_CUDA(&own->session->api, error, instr->where, cuLaunchKernel,
                         own->code->functions[instr->index][s], (unsigned)stage->blocks, 1, 1,
                         stage->threads, 1, 1, stage->shared_bytes, own->streams[instr->stream],
                         extra->launch, NULL);
    }
    return status == SHARDC_OK ? sc_cuda_times_mark(rank, bound, SC_CUDA_RAN, instr->stream, error)
                               : status;
}
