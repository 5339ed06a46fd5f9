/* Worlds over TCP: tcp.c agrees with the other ranks about calls and finds who is missing, tcp_receive.c reads what arrives, tcp_move.c
 * moves bytes from calls to sockets and back. All of it is under the world's lock. */
#ifndef SHARDC_RUNTIME_COMM_TCP_H
#define SHARDC_RUNTIME_COMM_TCP_H

#include "runtime/comm/calls.h"

enum {
    SC_TCP_MAGIC = 0x73686474,
    SC_TCP_HOST = 48,         /* an address of IPv6 fits */
    SC_TCP_CHUNK = 1 << 20,   /* bytes of an array in a frame, at most */
    SC_TCP_BUFFER = 64 << 10, /* what is read at once, but for long arrays, which go where they belong */
    SC_TCP_GOOD_TRAILER = 0x676f6f64,
    SC_TCP_VOID_TRAILER = 0x766f6964 /* the payload before it is given up */
};

/* A connection carries frames: a header, `bytes` of payload, and after DATA a word that says whether the payload is what it should be: who
 * gives up a call gives its buffers back in the middle of a frame, and sends zeros for the rest. */
typedef enum tcp_kind {
    TCP_CALL,    /* a call has started: its sc_comm_summary */
    TCP_DATA,    /* a stretch of an array */
    TCP_FAILURE, /* the world has failed: a tcp_failure */
    TCP_BYE,     /* the sender closes */
    TCP_HEARD,   /* the answer to BYE */
    TCP_BEAT,    /* the sender lives */
    TCP_KINDS
} tcp_kind;

typedef struct tcp_header {
    uint32_t magic, kind;
    uint64_t group, lane, number; /* CALL, DATA; of group: a hash of its list and ordinal */
    int64_t offset;               /* DATA: in bytes, in what the sender gives the receiver of this part */
    uint32_t part, phase;         /* DATA */
    uint32_t bytes, unused;
} tcp_header;

typedef struct tcp_failure {
    shardc_error error; /* about a lost rank only why: each rank names its own call */
    int32_t lost;       /* world rank; -1: another failure */
    uint32_t unused;
} tcp_failure;

typedef struct tcp_call {
    sc_comm_shared_call shared;
    bool is_moving;   /* all notices are there */
    bool has_reduced; /* or has nothing to reduce */
    bool is_done;
    uint32_t unsent;   /* arrays that the sockets have not taken in full */
    uint64_t moved_ms; /* when its bytes last moved */
    int64_t *incoming; /* bytes to come, by phase and group rank: 2 n */
    uint32_t incoming_room;
    int64_t *offsets; /* by part, in a row of `terms` */
    uint32_t offset_room;
    char *terms; /* of a reduction: a row of the others' slices, by group rank */
    int64_t row;
    size_t term_room;
    const void **sources;
    uint32_t source_room;
} tcp_call;

/* Something that is to be sent: a frame, or the frames of an array. */
typedef struct tcp_item {
    struct tcp_item *next;
    tcp_header header;
    union {
        sc_comm_summary summary;
        tcp_failure failure;
    } small;
    const char *data; /* DATA: what is left */
    int64_t bytes;
    tcp_call *call;
} tcp_item;

typedef struct tcp_peer {
    int socket;     /* -1: this rank, or closed */
    bool is_gone;   /* said BYE */
    bool has_heard; /* this rank's BYE */
    bool is_mute;   /* nothing more can be sent */
    uint64_t heard_ms, told_ms;
    char host[SC_TCP_HOST]; /* its address, for messages */
    tcp_item *first, *last;
    bool is_sending, is_void; /* in a frame; its payload is given up */
    tcp_header sending;
    uint32_t trailer;
    size_t sent;
    bool has_header;
    tcp_header receiving;
    size_t got;
    char *target; /* of the payload; NULL: nobody wants it any more */
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
    pthread_mutex_t lock;   /* of all this */
    pthread_cond_t changed; /* a call is done, the world has failed, somebody is gone */
    bool has_lock, has_changed;
    pthread_t thread; /* moves bytes whatever the ranks' own threads do */
    bool has_thread, stops;
    int bell; /* an eventfd: the thread should look again */
    uint32_t beat_ms, silence_ms;
    uint64_t looked_ms;          /* when the thread last read what had arrived: silence is counted up to then */
    bool has_failed, is_failing; /* is_failing: something was found, and what arrived before it is still read */
    tcp_failure failure;
    tcp_peer *peers;     /* by world rank */
    sc_comm_calls calls; /* tcp_call */
    tcp_item *unused_items;
    struct pollfd *polls;
} tcp_world;

/* ---- tcp_move.c ---- */
/* The first one counts; the world fails when what has arrived is read. */
void sc_tcp_find_failure(tcp_world *world, const tcp_failure *failure);
/* Room for what the others will send, before they can: `call->request` is set. */
shardc_status sc_tcp_prepare(tcp_call *call, shardc_error *error);
/* All members are there: sends what is theirs. */
shardc_status sc_tcp_begin(tcp_world *world, tcp_call *call, shardc_error *error);
/* Goes on with what is there; sets is_done. */
shardc_status sc_tcp_advance(tcp_world *world, tcp_call *call, shardc_error *error);
/* Flags the members with which bytes are under way: one flag a member. Their number. */
uint32_t sc_tcp_find_stalled(const tcp_world *world, const tcp_call *call, bool *is_stalled);
/* A frame without an array; the payload is copied. Sends as much as the socket takes. */
shardc_status sc_tcp_send(tcp_world *world, uint32_t rank, const tcp_header *header, const void *payload, shardc_error *error);
/* Sends without waiting, as much as the sockets take. */
void sc_tcp_send_more(tcp_world *world, uint32_t rank);
/* Nothing more can be sent to the peer. */
void sc_tcp_go_mute(tcp_world *world, tcp_peer *peer);
/* Where the payload of a frame of DATA goes; false: it is nothing that this rank waits for. */
bool sc_tcp_find_target(tcp_world *world, uint32_t rank, const tcp_header *header, char **out);
/* No buffer of a call is touched after it. */
void sc_tcp_give_up_data(tcp_world *world);
/* What it holds. */
void sc_tcp_free_call(void *call);
void sc_tcp_free_items(tcp_item *items);

/* ---- tcp_receive.c ---- */
/* Receives without waiting, what is there. */
void sc_tcp_receive(tcp_world *world, uint32_t rank);

#endif
