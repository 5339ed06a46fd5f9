/* Calls of NCCL: their results, and operations that go on after them. */
#include "runtime/cuda/nccl.h"

#include <time.h>

#include "support/clock.h"

const sc_nccl *sc_nccl_of(const sc_rank *rank)
{
    return &((const sc_cuda_session *)rank->session->device_state)->nccl;
}

sc_nccl_rank *sc_nccl_rank_of(const sc_rank *rank)
{
    return ((sc_cuda_rank *)rank->device_state)->comm_state;
}

shardc_status sc_nccl_check(const sc_nccl *nccl, sc_nccl_comm comm, sc_nccl_result result,
                            const char *call, const char *what, shardc_error *error)
{
    if (result == SC_NCCL_SUCCESS || result == SC_NCCL_IN_PROGRESS)
        return SHARDC_OK;
    const char *last = comm != NULL ? nccl->ncclGetLastError(comm) : "";
    return sc_fail(error, SHARDC_ERROR_COMM, "%s%s%s: %s%s%.200s", what, *what == 0 ? "" : ": ",
                   call, nccl->ncclGetErrorString(result), last != NULL && *last != 0 ? ": " : "",
                   last == NULL ? "" : last);
}

shardc_status sc_nccl_settle(const sc_rank *rank, sc_nccl_comm comm, const char *what,
                             shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    double begin = sc_seconds(), deadline = rank->session->options.deadline_ms * 1e-3;
    shardc_error reason = {.status = SHARDC_OK};
    for (;;) {
        sc_nccl_result state = SC_NCCL_SUCCESS;
        shardc_status status =
            SC_NCCL(nccl, comm, error, what, ncclCommGetAsyncError, comm, &state);
        if (status != SHARDC_OK || state != SC_NCCL_IN_PROGRESS)
            return status != SHARDC_OK ? status
                                       : sc_nccl_check(nccl, comm, state, "NCCL", what, error);
        status = sc_comm_poll(rank->comm, &reason);
        if (status != SHARDC_OK)
            return sc_fail(error, status, "%s: %s", what, reason.text);
        if (deadline > 0 && sc_seconds() - begin > deadline)
            return sc_fail(error, SHARDC_ERROR_TIMEOUT, "%s: rank %u waited %.3g s for the others",
                           what, rank->rank, sc_seconds() - begin);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
}

sc_nccl_dtype sc_nccl_dtype_of(sc_dtype dtype)
{
    static const sc_nccl_dtype dtypes[SC_DTYPE_COUNT] = {
        [SC_DTYPE_f32] = SC_NCCL_F32, [SC_DTYPE_f64] = SC_NCCL_F64, [SC_DTYPE_bf16] = SC_NCCL_BF16,
        [SC_DTYPE_f16] = SC_NCCL_F16, [SC_DTYPE_i32] = SC_NCCL_I32, [SC_DTYPE_i64] = SC_NCCL_I64,
        [SC_DTYPE_u8] = SC_NCCL_U8,   [SC_DTYPE_bool] = SC_NCCL_U8};
    return dtypes[dtype];
}
