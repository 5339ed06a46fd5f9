/* The two halves of the MPI module: mpi.c agrees with the other ranks about calls, mpi_move.c moves their bytes. */
#ifndef SHARDC_RUNTIME_COMM_MPI_INTERNAL_H
#define SHARDC_RUNTIME_COMM_MPI_INTERNAL_H

#include <mpi.h>

#include "runtime/comm/calls.h"

/* A message to another rank about a call, or about the world. They all have tag CONTROL_TAG; data have the others. */
typedef enum notice_kind { NOTICE_CALL, NOTICE_FAILURE, NOTICE_BYE, NOTICE_BEAT } notice_kind;

enum { CONTROL_TAG = 0, FIRST_DATA_TAG = 1 };

typedef struct call_notice {
    uint64_t group, lane, number; /* of sc_comm_shared_call */
    sc_comm_notice notice;        /* its tag: of the sender's data in this call; no other of its calls in flight has it */
} call_notice;

typedef struct notice {
    uint32_t kind;
    union {
        call_notice call;
        shardc_error failure;
    };
} notice;

/* A stretch of memory that is sent or received. */
typedef struct mpi_piece {
    char *at;
    size_t bytes;
} mpi_piece;

/* Where a piece of a packed message goes once it is there. */
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
    MPI_Request request; /* MPI_REQUEST_NULL: completed */
    uint32_t peer;       /* group rank */
} mpi_message;

/* Messages under way together, and the memory for what is packed or arrives to be reduced. */
typedef struct mpi_batch {
    mpi_message *messages;
    uint32_t count, room, left; /* left: not yet completed */
    mpi_unpacking *unpackings;
    uint32_t unpacking_count, unpacking_room;
    scratch_block *blocks;
    char *terms; /* of the others, in a round of a reduction: a window each, by group rank without this one */
} mpi_batch;

typedef struct mpi_call {
    sc_comm_shared_call shared; /* without a request: not started by this rank yet, or abandoned */
    int32_t tag;
    int32_t *tags; /* by group rank: the others' */
    uint32_t tag_room;
    bool is_moving, is_done;
    bool is_abandoned; /* failed, with messages under way; the request is gone */
    uint32_t phase;
    int64_t round, round_count; /* of a reduction: the one that is reduced next */
    int64_t window;             /* bytes of a slice in a round */
    int64_t *offsets;           /* by part: where its slice begins in the row of all parts' slices; see mpi_move.c */
    mpi_piece *pieces;          /* room for one a part */
    uint32_t offset_room, piece_room;
    mpi_batch batches[2]; /* of even and odd rounds */
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
    pthread_mutex_t lock; /* of all this, and of the use of `comm` */
    bool ends_mpi;        /* whoever initialised MPI finalises it */
    bool has_failed;
    bool has_lost_messages; /* some were never quiet: MPI may still use memory of theirs */
    shardc_error failure;
    bool *is_gone; /* by world rank */
    uint32_t gone_count;
    notice inbox;
    MPI_Request inbox_request;
    outgoing *outbox, *unused_outgoing;
    sc_comm_calls calls; /* mpi_call */
    int next_tag, last_tag;
    uint64_t *heard_ms;          /* by rank: when something of it last arrived */
    uint64_t told_ms, looked_ms; /* when this rank last said that it lives, and read what had arrived */
    uint32_t beat_ms, silence_ms;
    bool is_leaving;  /* it has said goodbye: nothing may follow */
    pthread_t thread; /* that says so and reads while the rank computes */
    pthread_cond_t woken;
    bool has_thread, stops;
} mpi_world;

/* ---- mpi_move.c ---- */
/* SHARDC_OK, or the error of an MPI function in words. */
shardc_status sc_mpi_check(int code, const char *function, shardc_error *error);

/* All members are there: begins to move. */
shardc_status sc_mpi_begin(mpi_world *world, mpi_call *call, shardc_error *error);
/* Goes on as far as possible without waiting; sets is_done. `out_moved`: something has happened. */
shardc_status sc_mpi_continue(mpi_world *world, mpi_call *call, bool *out_moved, shardc_error *error);
/* Flags the members with which messages are under way: one flag a member. Their number. */
uint32_t sc_mpi_find_stalled(mpi_call *call, bool *is_stalled);

/* After a failure. Cancels what no other rank has taken; MPI may not be able to, for messages that are sent. Then, to be asked again:
 * whether nothing is under way any more. Neither needs the request. */
void sc_mpi_cancel(mpi_call *call);
bool sc_mpi_is_quiet(mpi_call *call);
/* Frees what the call holds for moving. */
void sc_mpi_free_moves(void *call);

#endif
