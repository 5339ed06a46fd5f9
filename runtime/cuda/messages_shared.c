/* Messages between ranks that share a GPU. The end that starts a message second finds what the
 * first left in its ring, and copies from one's buffer to the other's on its own stream of the
 * boundary, after what both had computed when they started. So neither waits at a start, and a
 * message needs no more than both starts to end.
 *
 * A wait for a message first meets the other end on the host, in a barrier that both begin with the
 * start: then the copy is on a stream, and its event is recorded. */
#include "program/lookup.h"
#include "runtime/cuda/messages.h"

/* Copies what both ends have started, and marks both as done after it. */
static shardc_status copy(const sc_rank *rank, uint32_t boundary, sc_cuda_message *mine,
                          sc_cuda_message *other, shardc_error *error)
{
    const sc_cuda *api = &((const sc_cuda_rank *)rank->device_state)->session->api;
    sc_cu_stream stream = sc_cuda_boundary_stream(rank, boundary);
    bool is_receive = rank->image->boundaries[boundary].is_receive;
    const sc_cuda_message *from = is_receive ? other : mine, *to = is_receive ? mine : other;
    const char *what = mine->call.what;
    shardc_status status = SC_CUDA(api, error, what, cuStreamWaitEvent, stream, other->ready, 0);
    for (uint32_t p = 0; p < mine->call.part_count; p++) {
        const sc_comm_part *part = &mine->parts[p];
        if (status != SHARDC_OK)
            break;
        if (part->count > 0)
            status = SC_CUDA(api, error, what, cuMemcpyDtoDAsync_v2,
                             (sc_cu_address)(uintptr_t)to->parts[p].destination,
                             (sc_cu_address)(uintptr_t)from->parts[p].source,
                             (size_t)part->count * sc_dtypes[part->dtype].bytes, stream);
    }
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, what, cuEventRecord, mine->done, stream);
    return status == SHARDC_OK ? SC_CUDA(api, error, what, cuEventRecord, other->done, stream)
                               : status;
}

shardc_status sc_cuda_shared_transmit(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                                      shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    sc_cuda_boundary *end = sc_cuda_boundary_of(rank, boundary),
                     *other = sc_cuda_boundary_of(end->peer, end->peer_boundary);
    sc_comm_call barrier = {.kind = SC_COMM_BARRIER,
                            .to = SC_COMM_NOBODY,
                            .from = SC_COMM_NOBODY,
                            .what = message->call.what};
    shardc_status status = SHARDC_OK;
    pthread_mutex_lock(&own->session->messages);
    end->posted = message->number + 1;
    if (other->posted > message->number)
        status = copy(rank, boundary, message, &other->ring[message->number % other->room], error);
    pthread_mutex_unlock(&own->session->messages);
    return status == SHARDC_OK
               ? sc_comm_start(rank->boundaries[boundary].group, &barrier, &message->request, error)
               : status;
}

shardc_status sc_cuda_shared_meet(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                                  shardc_error *error)
{
    shardc_error reason = {.status = SHARDC_OK};
    shardc_status status = sc_comm_wait(message->request, &reason);
    message->request = NULL;
    if (status == SHARDC_OK)
        return SHARDC_OK;
    char text[SC_CUDA_MESSAGE_TEXT];
    sc_cuda_message_describe(rank, boundary, message, text, sizeof text);
    return sc_fail(error, status, "rank %u waits for %s: %s", rank->rank, text, reason.text);
}
