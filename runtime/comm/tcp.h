/* Worlds over TCP. tcp.c agrees with the other ranks about calls and detects missing ranks,
 * tcp_receive.c reads from connections, tcp_move.c moves bytes between calls and sockets. All of it
 * runs under the world's lock. */
#ifndef SHARDC_RUNTIME_COMM_TCP_H
#define SHARDC_RUNTIME_COMM_TCP_H

#include "runtime/comm/calls.h"

enum {
    SC_TCP_MAGIC = 0x73686474,
    SC_TCP_HOST = 48,       /* fits an IPv6 address */
    SC_TCP_CHUNK = 1 << 20, /* most bytes of an array in one frame */
    /* receive buffer; long arrays are read directly into their destination */
    SC_TCP_BUFFER = 64 << 10,
    SC_TCP_GOOD_TRAILER = 0x676f6f64,
    SC_TCP_VOID_TRAILER = 0x766f6964 /* trailer of a payload that was abandoned */
};

/* Kinds of frames. A frame is a header, `bytes` of payload and, after DATA, a trailer that tells
 * whether the payload is valid: a rank that abandons a call in the middle of a frame returns the
 * buffers to its caller and sends zeros for the rest. */
typedef enum tcp_kind {
    TCP_CALL,    /* a call was started: its sc_comm_summary */
    TCP_DATA,    /* a range of an array */
    TCP_FAILURE, /* the world has failed: a tcp_failure */
    TCP_BYE,     /* the sender closes */
    TCP_HEARD,   /* answer to BYE */
    TCP_BEAT,    /* heartbeat */
    TCP_KINDS
} tcp_kind;

typedef struct tcp_header {
    uint32_t magic, kind;
    uint64_t group, lane, number; /* CALL, DATA; `group`: sc_comm_group_key */
    /* DATA: in bytes, within what the sender sends this receiver of the part */
    int64_t offset;
    uint32_t part, phase; /* DATA */
    uint32_t bytes, unused;
} tcp_header;

typedef struct tcp_failure {
    shardc_error error; /* if a rank was lost, only the reason: each rank adds its own call */
    int32_t lost;       /* world rank; -1: a failure of another kind */
    uint32_t unused;
} tcp_failure;

typedef struct tcp_call {
    sc_comm_shared_call shared;
    bool is_moving;   /* all notices have arrived */
    bool has_reduced; /* also if there is nothing to reduce */
    bool is_done;
    uint32_t unsent;   /* arrays not yet completely written to sockets */
    uint64_t moved_ms; /* time of the last progress */
    int64_t *incoming; /* bytes still to be received, by phase and group rank: 2 n */
    uint32_t incoming_room;
    int64_t *offsets; /* by part: offset in a row of `terms` */
    uint32_t offset_room;
    char *terms; /* of a reduction: one row for each other member's slices, by group rank */
    int64_t row;
    size_t term_room;
    const void **sources;
    uint32_t source_room;
} tcp_call;

/* An entry of a send queue: a frame, or the frames of an array. */
typedef struct tcp_item {
    struct tcp_item *next;
    tcp_header header;
    union {
        sc_comm_summary summary;
        tcp_failure failure;
    } small;
    const char *data; /* DATA: what remains to be sent */
    int64_t bytes;
    tcp_call *call;
} tcp_item;

typedef struct tcp_peer {
    int socket;     /* -1: this rank itself, or closed */
    bool is_gone;   /* it sent BYE */
    bool has_heard; /* it answered this rank's BYE */
    bool is_mute;   /* nothing more can be sent */
    uint64_t heard_ms, sent_ms;
    char host[SC_TCP_HOST]; /* its address, for messages */
    tcp_item *first, *last;
    bool is_sending, is_void; /* in the middle of a frame; the frame's payload was abandoned */
    tcp_header sending;
    uint32_t trailer;
    size_t sent;
    bool has_header;
    tcp_header receiving;
    size_t got;
    char *target; /* where the payload goes; NULL: discarded */
    union {
        sc_comm_summary summary;
        tcp_failure failure;
    } small;
    char *buffer;
    size_t begin, end;
} tcp_peer;

typedef struct tcp_world {
    sc_comm *comm;
    uint32_t rank, size;
    pthread_mutex_t lock;   /* protects everything here */
    pthread_cond_t changed; /* signals: a call is done, the world failed, or a rank left */
    bool has_lock, has_changed;
    pthread_t thread; /* moves bytes, independent of the ranks' own threads */
    bool has_thread, stops;
    int bell; /* eventfd that wakes the thread */
    uint32_t beat_ms, silence_ms;
    /* when the thread last read everything that had arrived; silence is measured up to then */
    uint64_t looked_ms;
    /* is_failing: a failure was found, and what arrived before it is still being read */
    bool has_failed, is_failing;
    tcp_failure failure;
    tcp_peer *peers;     /* by world rank */
    sc_comm_calls calls; /* of tcp_call */
    tcp_item *unused_items;
    struct pollfd *polls;
} tcp_world;

/* ---- tcp_move.c ---- */
/* Records a failure; the first one counts. The world fails once everything that has arrived is
 * read. */
void sc_tcp_find_failure(tcp_world *world, const tcp_failure *failure);
/* Allocates memory for what the other members will send, before they can. `call->request` is
 * set. */
shardc_status sc_tcp_prepare(tcp_call *call, shardc_error *error);
/* Sends this rank's data; all members have announced the call. */
shardc_status sc_tcp_begin(tcp_world *world, tcp_call *call, shardc_error *error);
/* Advances a call as far as received data allow; sets is_done when it is complete. */
shardc_status sc_tcp_advance(tcp_world *world, tcp_call *call, shardc_error *error);
/* Flags the members to or from which bytes are still moving, one flag per member. Returns their
 * number. */
uint32_t sc_tcp_find_stalled(const tcp_world *world, const tcp_call *call, bool *is_stalled);
/* Queues a frame without an array, and sends as much as the socket takes. The payload is copied. */
shardc_status sc_tcp_send(tcp_world *world, uint32_t rank, const tcp_header *header,
                          const void *payload, shardc_error *error);
/* Sends queued frames without blocking, as much as the socket takes. */
void sc_tcp_send_more(tcp_world *world, uint32_t rank);
/* Marks that nothing more can be sent to the peer. */
void sc_tcp_go_mute(tcp_world *world, tcp_peer *peer);
/* Finds the destination of a DATA frame's payload; false if this rank does not expect it. */
bool sc_tcp_find_target(tcp_world *world, uint32_t rank, const tcp_header *header, char **out);
/* Detaches all calls' buffers: none is accessed afterwards. */
void sc_tcp_give_up_data(tcp_world *world);
/* Frees what the call holds. */
void sc_tcp_free_call(void *freed);
void sc_tcp_free_items(tcp_item *items);

/* ---- tcp_receive.c ---- */
/* Reads what has arrived, without blocking. */
void sc_tcp_receive(tcp_world *world, uint32_t rank);

#endif
