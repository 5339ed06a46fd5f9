/* Messages between pipeline stages: the instructions that start them and wait for them. */
#include <string.h>

#include "runtime/cuda/messages.h"

/* The next entry of the ring, with what the instruction moves now. */
static sc_cuda_message *take_entry(sc_cuda_boundary *end, const sc_bound *bound)
{
    sc_cuda_message *message = &end->ring[end->started % end->room];
    message->number = end->started++;
    message->order = 0;
    message->call = bound->call;
    memcpy(message->parts, bound->parts, bound->call.part_count * sizeof *message->parts);
    message->call.parts = message->parts;
    return message;
}

shardc_status sc_cuda_message_start(sc_rank *rank, const sc_bound *bound, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    const sc_cuda *api = &own->session->api;
    const char *where = bound->instr->where;
    uint32_t boundary = rank->image->messages[bound->instr->index].boundary;
    sc_cuda_boundary *end = sc_cuda_boundary_of(rank, boundary);
    if (end->started - end->waited + 1 >= end->room)
        return sc_fail(error, SHARDC_ERROR_DEVICE,
                       "%s: all %u slots of a boundary have messages in flight (rank %u)", where,
                       end->room - 1, rank->rank);
    sc_cuda_message *message = take_entry(end, bound);
    shardc_status status =
        SC_CUDA(api, error, where, cuEventRecord, message->ready, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(api, error, where, cuStreamWaitEvent, end->stream, message->ready, 0);
    return status == SHARDC_OK ? own->comm->transmit(rank, boundary, message, error) : status;
}

/* Returns the WAIT of the current call that is being run: the first for the boundary after the last
 * one that was. NULL: an instruction of another kind waits. */
static const sc_bound *current_wait(const sc_rank *rank, uint32_t boundary)
{
    sc_cuda_rank *own = rank->device_state;
    uint32_t func = sc_cuda_current_func(own);
    const sc_image_func *f = &rank->image->funcs[func];
    for (uint32_t i = own->next_wait; i < f->instr_count; i++) {
        bool waits = f->instrs[i].kind == SC_INSTR_WAIT || f->instrs[i].kind == SC_INSTR_ROOM;
        if (waits && f->instrs[i].index == boundary) {
            own->next_wait = i + 1;
            return &rank->funcs[func][i];
        }
    }
    return NULL;
}

/* Makes stream 0 wait, and measures how long it does. */
static shardc_status put_wait(sc_rank *rank, uint32_t boundary, const sc_cuda_message *message,
                              shardc_error *error)
{
    const sc_cuda_rank *own = rank->device_state;
    const sc_bound *wait = sc_cuda_times_wanted(rank) ? current_wait(rank, boundary) : NULL;
    shardc_status status =
        wait == NULL ? SHARDC_OK : sc_cuda_times_mark(rank, wait, SC_CUDA_RUNS, 0, error);
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, error, message->call.what, cuEventRecord,
                         message->reached, own->streams[0]);
    if (status == SHARDC_OK)
        status = SC_CUDA(&own->session->api, error, message->call.what, cuStreamWaitEvent,
                         own->streams[0], message->done, 0);
    return status == SHARDC_OK && wait != NULL
               ? sc_cuda_times_mark(rank, wait, SC_CUDA_RAN, 0, error)
               : status;
}

shardc_status sc_cuda_message_finish(sc_rank *rank, const sc_bound *started, shardc_error *error)
{
    sc_cuda_rank *own = rank->device_state;
    uint32_t boundary = rank->image->messages[started->instr->index].boundary;
    sc_cuda_boundary *end = sc_cuda_boundary_of(rank, boundary);
    if (end->waited == end->started)
        return sc_fail(error, SHARDC_ERROR_COMM,
                       "%s: its message was abandoned after an earlier error (rank %u)",
                       started->instr->where, rank->rank);
    sc_cuda_message *message = &end->ring[end->waited++ % end->room];
    message->order = ++own->messages->orders;
    bool is_in_call = own->graph != NULL;
    shardc_status status =
        own->comm->meet == NULL ? SHARDC_OK : own->comm->meet(rank, boundary, message, error);
    if (status == SHARDC_OK && is_in_call)
        return put_wait(rank, boundary, message, error);
    if (status == SHARDC_OK)
        status = sc_cuda_wait(rank, message->done, true, error);
    if (status != SHARDC_OK && !is_in_call) /* no end of a call gives up */
        sc_cuda_give_up(rank, error->text);
    return status;
}
