/* Messages between pipeline stages on GPUs. Every boundary has a stream of its own, on which its
 * messages follow each other: behind what stream 0 had when they were started. Stream 0 goes on and
 * waits for a message's event at its WAIT, which may be in a later call. So a call that ends leaves
 * messages in flight, and the host waits for none of them at its end.
 *
 * All that a message needs is in a ring of its boundary, not in the instruction that starts it: an
 * instruction may be started again, with other addresses, before its message was waited for.
 *
 * A function that starts or waits for messages is not recorded as a graph: the other end of a
 * message in flight is in another call. A recorded wait could only be for an event of the same
 * recording, and a recorded message would be joined with it before its end. */
#ifndef SHARDC_RUNTIME_CUDA_MESSAGES_H
#define SHARDC_RUNTIME_CUDA_MESSAGES_H

#include "runtime/cuda/rank.h"

enum { SC_CUDA_BOUNDARY_NAME = 80, SC_CUDA_MESSAGE_TEXT = 384 };

struct sc_cuda_message {
    uint64_t number; /* in its boundary, from 0; of this end and of the other */
    uint64_t order;  /* of its WAIT among all of the rank's; 0: nobody waits yet */
    /* stream 0 got to its start; to its WAIT; the message is through */
    sc_cu_event ready, reached, done;
    sc_comm_call call; /* call.parts == parts */
    sc_comm_part *parts;
    sc_comm_request *request; /* shared GPU: the barrier; NULL: none */
};

/* This rank's end of a boundary. */
typedef struct sc_cuda_boundary {
    sc_cu_stream stream;
    uint64_t started, waited; /* messages so far */
    uint64_t posted;          /* shared GPU: messages that the other end may find; locked */
    uint32_t room;            /* one more than the slots: the last that was waited for stays */
    sc_cuda_message *ring;    /* by number % room */
    const sc_rank *peer;      /* shared GPU: the other end */
    uint32_t peer_boundary;   /* index in the peer's image */
} sc_cuda_boundary;

/* A rank's messages. */
struct sc_cuda_messages {
    uint32_t count;
    sc_cuda_boundary *boundaries;
    sc_cuda_message *messages; /* the rings, in a row */
    sc_comm_part *parts;       /* of all messages, in a row */
    uint64_t message_count;
    uint64_t orders; /* WAITs so far */
};

/* ---- message_rings.c ---- */
/* Creates streams and events; called again after the world was lost, it forgets all messages. */
shardc_status sc_cuda_messages_open(sc_rank *rank, shardc_error *error);
void sc_cuda_messages_close(sc_rank *rank);
/* After comm->abort: waits until nothing is in flight, and forgets all messages. */
void sc_cuda_messages_abandon(sc_rank *rank);
/* Finds the message that stream 0 waits for, or will when it gets there; NULL: none. */
shardc_status sc_cuda_message_awaited(const sc_rank *rank, const sc_cuda_message **out,
                                      uint32_t *out_boundary, shardc_error *error);

sc_cuda_boundary *sc_cuda_boundary_of(const sc_rank *rank, uint32_t boundary);
sc_cu_stream sc_cuda_boundary_stream(const sc_rank *rank, uint32_t boundary);
/* Returns the index of the other end, in the peer's image. */
uint32_t sc_cuda_other_end(const sc_image *image, uint32_t boundary, const sc_image *peer);
/* "the boundary from stage 0 to stage 1" */
void sc_cuda_boundary_name(const sc_image *image, uint32_t boundary, char *out, size_t size);
/* "recv of i64[3] (layers[3]) in group 0, 1, message 5 of the boundary from .." */
void sc_cuda_message_describe(const sc_rank *rank, uint32_t boundary,
                              const sc_cuda_message *message, char *out, size_t size);

/* ---- messages.c ---- */
shardc_status sc_cuda_message_start(sc_rank *rank, const sc_bound *bound, shardc_error *error);
/* Waits for the oldest message of the boundary of `started`: stream 0 does, but between calls the
 * host. */
shardc_status sc_cuda_message_finish(sc_rank *rank, const sc_bound *started, shardc_error *error);

/* ---- messages_shared.c ---- */
shardc_status sc_cuda_shared_transmit(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                                      shardc_error *error);
shardc_status sc_cuda_shared_meet(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                                  shardc_error *error);

#endif
