/* Collectives with NCCL, one GPU per rank. Calls go to the stream of their group, in the program's
 * order, which is the same on all members; later errors are found by polling.
 * The order of a sum's terms is NCCL's: all members get the same bits, but not necessarily those of
 * the group order. */
#include "program/lookup.h"
#include "runtime/comm/backend.h"
#include "runtime/cuda/nccl.h"

/* For bool (bytes 0 and 1) sum and max are `or`, min is `and`. */
static sc_nccl_reduce reduce_of(sc_comm_reduce reduce, sc_dtype dtype)
{
    if (reduce == SC_COMM_SUM && dtype != SC_DTYPE_bool)
        return SC_NCCL_SUM;
    return reduce == SC_COMM_MIN ? SC_NCCL_MIN : SC_NCCL_MAX;
}

static shardc_status send_and_receive(sc_rank *rank, const sc_bound *bound, sc_nccl_comm comm,
                                      const sc_comm_part *part, shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    sc_cu_stream stream = sc_cuda_stream_of(rank, bound);
    const char *where = bound->instr->where;
    uint32_t n = sc_comm_group_size(bound->group);
    bool all = bound->call.kind == SC_COMM_ALL_TO_ALL;
    int64_t count = all ? part->count / n : part->count,
            bytes = count * sc_dtypes[part->dtype].bytes;
    int32_t to = bound->call.kind == SC_COMM_RECV ? SC_COMM_NOBODY : bound->call.to;
    int32_t from = bound->call.kind == SC_COMM_SEND ? SC_COMM_NOBODY : bound->call.from;
    shardc_status status = SHARDC_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (status != SHARDC_OK)
            break;
        int64_t at = all ? i * bytes : 0;
        if (all || (int32_t)i == to)
            status = SC_NCCL(nccl, comm, error, where, ncclSend, (const char *)part->source + at,
                             (size_t)count, sc_nccl_dtype_of(part->dtype), (int)i, comm, stream);
        if (status == SHARDC_OK && (all || (int32_t)i == from))
            status = SC_NCCL(nccl, comm, error, where, ncclRecv, (char *)part->destination + at,
                             (size_t)count, sc_nccl_dtype_of(part->dtype), (int)i, comm, stream);
    }
    return status;
}

static shardc_status one_part(sc_rank *rank, const sc_bound *bound, sc_nccl_comm comm,
                              const sc_comm_part *part, shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    sc_cu_stream stream = sc_cuda_stream_of(rank, bound);
    const char *where = bound->instr->where;
    size_t count = (size_t)part->count, piece = count / sc_comm_group_size(bound->group);
    sc_nccl_dtype dtype = sc_nccl_dtype_of(part->dtype);
    switch (bound->call.kind) {
    case SC_COMM_ALL_GATHER:
        return SC_NCCL(nccl, comm, error, where, ncclAllGather, part->source, part->destination,
                       piece, dtype, comm, stream);
    case SC_COMM_REDUCE_SCATTER:
        return SC_NCCL(nccl, comm, error, where, ncclReduceScatter, part->source, part->destination,
                       piece, dtype, reduce_of(bound->call.reduce, part->dtype), comm, stream);
    case SC_COMM_ALL_REDUCE:
        return SC_NCCL(nccl, comm, error, where, ncclAllReduce, part->source, part->destination,
                       count, dtype, reduce_of(bound->call.reduce, part->dtype), comm, stream);
    case SC_COMM_BROADCAST:
        return SC_NCCL(nccl, comm, error, where, ncclBroadcast, part->source, part->destination,
                       count, dtype, (int)bound->call.from, comm, stream);
    default:
        return send_and_receive(rank, bound, comm, part, error);
    }
}

static shardc_status start(sc_rank *rank, sc_bound *bound, shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    const sc_nccl_rank *own = sc_nccl_rank_of(rank);
    sc_nccl_comm comm = own->groups[rank->image->collectives[bound->instr->index].group];
    shardc_status status = sc_nccl_check(nccl, comm, nccl->ncclGroupStart(), "ncclGroupStart",
                                         bound->instr->where, error);
    if (status != SHARDC_OK)
        return status;
    for (uint32_t p = 0; p < bound->call.part_count; p++) {
        if (status != SHARDC_OK)
            break;
        if (bound->parts[p].count > 0)
            status = one_part(rank, bound, comm, &bound->parts[p], error);
    }
    sc_nccl_result ended = nccl->ncclGroupEnd();
    if (status == SHARDC_OK)
        status = sc_nccl_check(nccl, comm, ended, "ncclGroupEnd", bound->instr->where, error);
    shardc_error reason = {.status = SHARDC_OK};
    if (status != SHARDC_OK ||
        (status = sc_nccl_settle(rank, comm, "starting it", &reason)) == SHARDC_OK)
        return status;
    char what[256];
    sc_comm_describe(bound->group, &bound->call, what, sizeof what);
    return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, what, reason.text);
}

static shardc_status finish(sc_rank *rank, sc_bound *started, shardc_error *error)
{
    (void)rank, (void)started, (void)error;
    return SHARDC_OK;
}

const sc_cuda_comm sc_cuda_comm_nccl = {
    .name = "nccl",
    .is_captured = true,
    .open = sc_nccl_open_comms,
    .close = sc_nccl_close_comms,
    .start = start,
    .finish = finish,
    .transmit = sc_nccl_transmit,
    .poll = sc_nccl_poll,
    .abort = sc_nccl_abort,
};
