/* Shared by the two files of the MPI module: mpi.c agrees with the other ranks about calls,
 * mpi_move.c moves their bytes. */
#ifndef SHARDC_RUNTIME_COMM_MPI_INTERNAL_H
#define SHARDC_RUNTIME_COMM_MPI_INTERNAL_H

#include <mpi.h>

#include "runtime/comm/calls.h"

/* Kinds of messages about a call or about the world. They all use CONTROL_TAG; data messages use
 * the other tags. */
typedef enum notice_kind { NOTICE_CALL, NOTICE_FAILURE, NOTICE_BYE, NOTICE_BEAT } notice_kind;

enum { CONTROL_TAG = 0, FIRST_DATA_TAG = 1 };

typedef struct call_notice {
    uint64_t group, lane, number; /* of sc_comm_shared_call */
    /* its tag: of the sender's data in this call; unique among the sender's calls in flight */
    sc_comm_notice notice;
} call_notice;

typedef struct notice {
    uint32_t kind;
    union {
        call_notice call;
        shardc_error failure;
    };
} notice;

/* A range of memory to send or receive. */
typedef struct mpi_piece {
    char *at;
    size_t bytes;
} mpi_piece;

/* Where to copy a piece of a packed message once it has arrived. */
typedef struct mpi_unpacking {
    const char *from;
    mpi_piece to;
} mpi_unpacking;

typedef struct scratch_block {
    struct scratch_block *next;
    size_t size, used;
    _Alignas(64) char bytes[];
} scratch_block;

typedef struct mpi_message {
    MPI_Request request; /* MPI_REQUEST_NULL: complete */
    uint32_t peer;       /* group rank */
} mpi_message;

/* Messages in flight together, with memory for packed pieces and for terms to be reduced. */
typedef struct mpi_batch {
    mpi_message *messages;
    uint32_t count, room, left; /* left: not yet complete */
    mpi_unpacking *unpackings;
    uint32_t unpacking_count, unpacking_room;
    scratch_block *blocks;
    /* the other members' terms in a round of a reduction: one window each, by group rank without
     * this one */
    char *terms;
} mpi_batch;

typedef struct mpi_call {
    sc_comm_shared_call shared; /* without a request: not yet started by this rank, or abandoned */
    int32_t tag;
    int32_t *tags; /* by group rank: the other members' tags */
    uint32_t tag_room;
    bool is_moving, is_done;
    bool is_abandoned; /* failed with messages in flight; the request is gone */
    uint32_t phase;
    int64_t round, round_count; /* of a reduction: the round to be reduced next */
    int64_t window;             /* bytes of a slice per round */
    /* by part: where its slice begins in the row of all parts' slices; see mpi_move.c */
    int64_t *offsets;
    mpi_piece *pieces; /* scratch, one per part */
    uint32_t offset_room, piece_room;
    mpi_batch batches[2]; /* for even and odd rounds */
    const void **sources;
    uint32_t source_room;
} mpi_call;

typedef struct outgoing {
    struct outgoing *next;
    MPI_Request request;
    notice notice;
} outgoing;

typedef struct mpi_world {
    MPI_Comm comm;
    pthread_mutex_t lock; /* protects everything here and the use of `comm` */
    bool ends_mpi;        /* this world initialized MPI, and finalizes it */
    bool has_failed;
    bool has_lost_messages; /* some messages never completed: MPI may still use their memory */
    shardc_error failure;
    bool *is_gone; /* by world rank */
    uint32_t gone_count;
    notice inbox;
    MPI_Request inbox_request;
    outgoing *outbox, *unused_outgoing;
    sc_comm_calls calls; /* of mpi_call */
    int next_tag, last_tag;
    uint64_t *heard_ms; /* by rank: when a message from it last arrived */
    /* when this rank last sent a heartbeat, and last read what had arrived */
    uint64_t sent_ms, looked_ms;
    uint32_t beat_ms, silence_ms;
    bool is_leaving;  /* sent goodbye; nothing may follow */
    pthread_t thread; /* sends heartbeats and reads messages while the rank computes */
    pthread_cond_t woken;
    bool has_thread, stops;
} mpi_world;

/* ---- mpi_move.c ---- */
/* Turns an MPI return code into a status, with the function's name and MPI's text. */
shardc_status sc_mpi_check(int code, const char *function, shardc_error *error);

/* Starts to move the data of a call; all members have announced it. */
shardc_status sc_mpi_begin(mpi_world *world, mpi_call *call, shardc_error *error);
/* Advances a call without blocking; sets is_done when it is complete. `out_moved`: there was
 * progress. */
shardc_status sc_mpi_continue(mpi_world *world, mpi_call *call, bool *out_moved,
                              shardc_error *error);
/* Flags the members with which messages are still in flight, one flag per member. Returns their
 * number. */
uint32_t sc_mpi_find_stalled(mpi_call *call, bool *is_stalled);

/* After a failure: cancels messages that no other rank has taken. MPI may be unable to cancel
 * sends. Then call sc_mpi_is_quiet until no message is in flight. Neither uses the request. */
void sc_mpi_cancel(mpi_call *call);
bool sc_mpi_is_quiet(mpi_call *call);
/* Frees what the call holds for moving data. */
void sc_mpi_free_moves(void *freed);

#endif
