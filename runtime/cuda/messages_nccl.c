/* Messages with NCCL: each boundary has a communicator of its two ranks, the sender first. So a
 * message waits for no other boundary's, whatever the order in which the two start them. */
#include "runtime/comm/backend.h"
#include "runtime/cuda/messages.h"
#include "runtime/cuda/nccl.h"

enum { SENDER, RECEIVER };

/* Puts one call with several parts on the boundary's stream. */
static shardc_status put(sc_rank *rank, uint32_t boundary, const sc_comm_part *parts,
                         uint32_t part_count, const char *what, shardc_error *error)
{
    const sc_nccl *nccl = sc_nccl_of(rank);
    sc_nccl_comm comm = sc_nccl_rank_of(rank)->boundaries[boundary];
    sc_cu_stream stream = sc_cuda_boundary_stream(rank, boundary);
    bool is_receive = rank->image->boundaries[boundary].is_receive;
    shardc_status status =
        sc_nccl_check(nccl, comm, nccl->ncclGroupStart(), "ncclGroupStart", what, error);
    if (status != SHARDC_OK)
        return status;
    for (uint32_t p = 0; p < part_count; p++) {
        sc_nccl_dtype dtype = sc_nccl_dtype_of(parts[p].dtype);
        size_t count = (size_t)parts[p].count;
        if (status != SHARDC_OK)
            break;
        if (count > 0)
            status = is_receive ? SC_NCCL(nccl, comm, error, what, ncclRecv, parts[p].destination,
                                          count, dtype, SENDER, comm, stream)
                                : SC_NCCL(nccl, comm, error, what, ncclSend, parts[p].source, count,
                                          dtype, RECEIVER, comm, stream);
    }
    sc_nccl_result ended = nccl->ncclGroupEnd();
    if (status == SHARDC_OK)
        status = sc_nccl_check(nccl, comm, ended, "ncclGroupEnd", what, error);
    return status;
}

/* The first call between two ranks waits on the host until both have made it. Starting a message
 * must not wait for the other end, which may start another one first; so both make one now, of a
 * byte that nobody reads. */
shardc_status sc_nccl_connect(sc_rank *rank, uint32_t boundary, shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    char what[SC_CUDA_BOUNDARY_NAME];
    void *byte = (void *)(uintptr_t)(own->call + SC_CUDA_CALL_BYTES / 2);
    sc_comm_part part = {.source = byte, .destination = byte, .count = 1, .dtype = SC_DTYPE_u8};
    sc_cuda_boundary_name(rank->image, boundary, what, sizeof what);
    shardc_status status = put(rank, boundary, &part, 1, what, error);
    return status == SHARDC_OK
               ? sc_nccl_settle(rank, sc_nccl_rank_of(rank)->boundaries[boundary], what, error)
               : status;
}

shardc_status sc_nccl_transmit(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                               shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const char *what = message->call.what;
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status =
        put(rank, boundary, message->parts, message->call.part_count, what, error);
    if (status != SHARDC_OK)
        return status;
    status =
        sc_nccl_settle(rank, sc_nccl_rank_of(rank)->boundaries[boundary], "starting it", &reason);
    if (status != SHARDC_OK) {
        char text[SC_CUDA_MESSAGE_TEXT];
        sc_cuda_message_describe(rank, boundary, message, text, sizeof text);
        return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, text, reason.text);
    }
    return SC_CUDA(&own->session->api, error, what, cuEventRecord, message->done,
                   sc_cuda_boundary_stream(rank, boundary));
}
