/* Communicators for applications: ranks, which are threads of one process or separate processes,
 * exchange and reduce arrays. Every reduction has a fixed order, so results are bit-identical in
 * every run and on every backend. Guide: docs/communication.md; example: examples/comm_ring.c. Link
 * with the runtime library; no other header is needed. */
#ifndef SHARDC_COMM_H
#define SHARDC_COMM_H

#include <stdint.h>

#include "shardc/status.h"

typedef enum shardc_dtype {
    SHARDC_F32,
    SHARDC_F64,
    SHARDC_BF16,
    SHARDC_F16,
    SHARDC_I32,
    SHARDC_I64,
    SHARDC_U8,
    SHARDC_BOOL /* one byte, 0 or 1 */
} shardc_dtype;

typedef enum shardc_comm_kind {
    SHARDC_ALL_GATHER,
    SHARDC_REDUCE_SCATTER,
    SHARDC_ALL_REDUCE,
    SHARDC_ALL_TO_ALL,
    SHARDC_PERMUTE,
    SHARDC_BROADCAST,
    SHARDC_SEND,
    SHARDC_RECV,
    SHARDC_BARRIER
} shardc_comm_kind;

typedef enum shardc_reduce { SHARDC_NO_REDUCE, SHARDC_SUM, SHARDC_MAX, SHARDC_MIN } shardc_reduce;

/* one rank's handle of a world, as MPI_Comm; the caller closes it */
typedef struct shardc_comm shardc_comm;
/* one rank's handle of a group, as ncclComm_t; owned by the communicator */
typedef struct shardc_comm_group shardc_comm_group;
/* a call in flight, as MPI_Request; freed by shardc_comm_wait */
typedef struct shardc_comm_request shardc_comm_request;

/* One array of a call, with `count` elements in full (n members, m = count / n):
 *
 *     kind             source         destination
 *     all_gather       m              count          the members' sources, by group rank
 *     reduce_scatter   count          m              this member's slice of the reduction
 *     all_reduce       count          count          the reduction of all sources
 *     all_to_all       count          count          slice i goes to member i; slice i comes from i
 *     broadcast        count (from)   count          member `from`'s source
 *     permute          count (to)     count (from)   sent to `to`, received from `from`; if one is
 *                                                    SHARDC_NOBODY, nothing is sent or written
 *     send, recv       count          count
 *
 * Arrays are contiguous and aligned to their elements. The call may be in place: destination ==
 * source (all_reduce, broadcast), or the smaller array is at its own place in the larger one
 * (all_gather, reduce_scatter). Sources that are not read and destinations that are not written may
 * be NULL. */
typedef struct shardc_comm_part {
    const void *source;
    void *destination;
    /* elements of the full array; a multiple of n for all_gather, reduce_scatter, all_to_all */
    int64_t count;
    shardc_dtype dtype;
} shardc_comm_part;

#define SHARDC_NOBODY (-1)

typedef struct shardc_comm_call {
    shardc_comm_kind kind;
    shardc_reduce reduce; /* all_reduce, reduce_scatter; otherwise SHARDC_NO_REDUCE */
    uint32_t part_count;  /* parts of one call are sent together */
    const shardc_comm_part *parts;
    int32_t to, from; /* group ranks: permute reads both, send `to`, recv and broadcast `from` */
    const char *what; /* name for error messages, or NULL; must outlive the call */
} shardc_comm_call;

/* Opens a world of `size` threads; out[0] .. out[size - 1] are the ranks' handles. `deadline_ms`
 * limits how long a wait waits for other ranks. 0: no limit between threads; between processes a
 * rank counts as lost after SHARDC_SILENCE_MS (default five minutes) without any message from it.
 * Errors: MEMORY; ARGUMENT (size 0 or above 1024). */
SHARDC_API shardc_status shardc_comm_open_local(uint32_t size, uint32_t deadline_ms,
                                                shardc_comm **out, shardc_error *error);

/* Opens this process's rank of its MPI job. Every process must open the same number of
 * communicators. If MPI is not initialized yet, the first call initializes it, and closing that
 * communicator finalizes MPI: close it last. UNAVAILABLE, with the remedy, if the module
 * shardc_mpi.so or MPI itself is missing. */
SHARDC_API shardc_status shardc_comm_open_mpi(uint32_t deadline_ms, shardc_comm **out,
                                              shardc_error *error);

/* Opens this process's rank over TCP, among processes started by torchrun, by Slurm or with RANK
 * and WORLD_SIZE. They meet at MASTER_ADDR (default: this machine) and MASTER_PORT, and must share
 * a secret: SHARDC_SECRET, or on a single machine a file of the user's. Every process must open the
 * same number of communicators. If a process ends without closing, the world fails for all others
 * at once. Errors: ARGUMENT (the environment is invalid), TIMEOUT (names the missing ranks), COMM
 * (refused). */
SHARDC_API shardc_status shardc_comm_open_tcp(uint32_t deadline_ms, shardc_comm **out,
                                              shardc_error *error);

/* Closes the communicator and frees its groups. Calls in flight are abandoned, and the other ranks
 * then fail. MPI: waits until all ranks close. NULL is allowed. */
SHARDC_API void shardc_comm_close(shardc_comm *comm);

SHARDC_API uint32_t shardc_comm_rank(const shardc_comm *comm);
SHARDC_API uint32_t shardc_comm_size(const shardc_comm *comm);
SHARDC_API const char *shardc_comm_backend(const shardc_comm *comm); /* "local", "mpi", "tcp" */
SHARDC_API void shardc_comm_set_deadline(shardc_comm *comm, uint32_t deadline_ms);

/* Returns the group of all ranks. */
SHARDC_API shardc_comm_group *shardc_comm_world(shardc_comm *comm);
/* Creates the group of these world ranks, in this order. Every member must call it with the same
 * list; calling it again with an equal list creates another group, and the k-th such group of one
 * member matches the k-th of the others. Errors: MEMORY; ARGUMENT (a duplicate rank, one outside
 * the world, or this rank missing). */
SHARDC_API shardc_status shardc_comm_group_new(shardc_comm *comm, const uint32_t *ranks,
                                               uint32_t count, shardc_comm_group **out,
                                               shardc_error *error);
SHARDC_API uint32_t shardc_comm_group_rank(const shardc_comm_group *group);
SHARDC_API uint32_t shardc_comm_group_size(const shardc_comm_group *group);

/* Starts a call and returns at once. All members of the group must make the same calls in the same
 * order; for send and recv only the two peers call. The call and its parts are copied; the arrays
 * must stay valid, and sources unchanged, until the wait. Errors: ARGUMENT (only this call fails),
 * MEMORY, and those of shardc_comm_wait. */
SHARDC_API shardc_status shardc_comm_start(shardc_comm_group *group, const shardc_comm_call *call,
                                           shardc_comm_request **out, shardc_error *error);

/* Waits for a call, as MPI_Wait, and frees the request. Wait for every request exactly once, in any
 * order, from any thread. Errors, each of which fails the world for all ranks: COMM (the members'
 * calls differ, or a rank aborted or closed), TIMEOUT (deadline passed; the message names the
 * missing ranks). Under MPI, keep the arrays of a failed call allocated until the communicator is
 * closed: another process may still be reading them. */
SHARDC_API shardc_status shardc_comm_wait(shardc_comm_request *request, shardc_error *error);

/* shardc_comm_start, then shardc_comm_wait. */
SHARDC_API shardc_status shardc_comm_run(shardc_comm_group *group, const shardc_comm_call *call,
                                         shardc_error *error);
SHARDC_API shardc_status shardc_comm_barrier(shardc_comm_group *group, shardc_error *error);

/* Fails the world, as MPI_Abort without ending the process: all other ranks, including those in a
 * wait, get SHARDC_ERROR_COMM with the text `why`. Callable from any thread. */
SHARDC_API void shardc_comm_abort(shardc_comm *comm, const char *why);

/* Returns SHARDC_OK, or the error with which the world failed. Callable from any thread. */
SHARDC_API shardc_status shardc_comm_poll(shardc_comm *comm, shardc_error *error);

/* Totals of the calls of one kind that this rank started. `bytes` counts the full arrays; `sent`
 * counts bytes sent, as `shardc comm` does. */
typedef struct shardc_comm_counter {
    uint64_t calls, bytes;
    double sent;
} shardc_comm_counter;

SHARDC_API shardc_comm_counter shardc_comm_count(const shardc_comm *comm, shardc_comm_kind kind);

#endif
