/* Communicators for applications: ranks that are threads of one process, or processes, exchange and reduce arrays. Results
 * are the same bits in every run and wherever the ranks are, since every sum has one order. docs/communication.md is the guide,
 * examples/comm_ring.c a program. Link with the runtime library; no other header is needed. */
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
    SHARDC_BOOL /* a byte, 0 or 1 */
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

typedef struct shardc_comm shardc_comm;                 /* a rank's end of a world; closed by its owner */
typedef struct shardc_comm_group shardc_comm_group;     /* a rank's end of a group; belongs to the communicator */
typedef struct shardc_comm_request shardc_comm_request; /* a call under way; gone when it was waited for */

/* An array that takes part in a call, of `count` elements in full (n members, m = count / n):
 *
 *     kind             source         destination
 *     all_gather       m              count          the members' sources, in the order of the group
 *     reduce_scatter   count          m              this member's m-th part of the reduction
 *     all_reduce       count          count          the reduction of all sources
 *     all_to_all       count          count          part i goes to member i; part i is what came from member i
 *     broadcast        count (from)   count          member `from`'s source
 *     permute          count (to)     count (from)   one to `to`, one from `from`; or nobody, and then nothing is written
 *     send, recv       count          count
 *
 * Arrays are contiguous and aligned to their elements. The destination may be the source (all_reduce, broadcast), or, where one of them is
 * a part of the other, lie at its place in it (all_gather, reduce_scatter). Unread sources and unwritten destinations may be NULL. */
typedef struct shardc_comm_part {
    const void *source;
    void *destination;
    int64_t count; /* divides by n for all_gather, reduce_scatter, all_to_all */
    shardc_dtype dtype;
} shardc_comm_part;

#define SHARDC_NOBODY (-1)

typedef struct shardc_comm_call {
    shardc_comm_kind kind;
    shardc_reduce reduce; /* all_reduce, reduce_scatter; elsewhere SHARDC_NO_REDUCE */
    uint32_t part_count;  /* they travel together */
    const shardc_comm_part *parts;
    int32_t to, from; /* ranks in the group: permute both, send `to`, recv and broadcast `from` */
    const char *what; /* for messages, or NULL; outlives the call */
} shardc_comm_call;

/* A world of `size` threads: out[0] .. out[size - 1], one for each. `deadline_ms`: how long a wait waits for the others; 0: for ever, or
 * between processes for as long as something is heard of all of them (SHARDC_SILENCE_MS, five minutes).
 * Errors: MEMORY; ARGUMENT (size 0 or above 1024). */
SHARDC_API shardc_status shardc_comm_open_local(uint32_t size, uint32_t deadline_ms, shardc_comm **out, shardc_error *error);

/* This process's rank in its MPI job. Every process calls it as often as the others. The first one initialises MPI, unless the application
 * has, and finalises it when it is closed: last. UNAVAILABLE without the module shardc_mpi.so or without MPI, with the remedy. */
SHARDC_API shardc_status shardc_comm_open_mpi(uint32_t deadline_ms, shardc_comm **out, shardc_error *error);

/* This process's rank among those that torchrun, Slurm or RANK and WORLD_SIZE started, over TCP: they meet where MASTER_ADDR (without it on
 * this machine) and MASTER_PORT say, and must know the same secret: SHARDC_SECRET, or on one machine a file of the user's. Every process
 * calls it as often as the others. A process that ends without closing ends the world for all others at once. Errors: ARGUMENT (the
 * environment), TIMEOUT (who did not come), COMM (refused). */
SHARDC_API shardc_status shardc_comm_open_tcp(uint32_t deadline_ms, shardc_comm **out, shardc_error *error);

/* With all its groups. Calls under way are given up, and the others then fail. MPI: waits until all ranks close. NULL is allowed. */
SHARDC_API void shardc_comm_close(shardc_comm *comm);

SHARDC_API uint32_t shardc_comm_rank(const shardc_comm *comm);
SHARDC_API uint32_t shardc_comm_size(const shardc_comm *comm);
SHARDC_API const char *shardc_comm_backend(const shardc_comm *comm); /* "local", "mpi", "tcp" */
SHARDC_API void shardc_comm_set_deadline(shardc_comm *comm, uint32_t deadline_ms);

/* The group of all ranks. */
SHARDC_API shardc_comm_group *shardc_comm_world(shardc_comm *comm);
/* The group of `ranks` (of the world), in this order. Each of them makes it, with the same list; equal lists make different groups, in
 * their order. Errors: MEMORY; ARGUMENT (a rank twice, beyond the world, or this rank missing). */
SHARDC_API shardc_status shardc_comm_group_new(shardc_comm *comm, const uint32_t *ranks, uint32_t count, shardc_comm_group **out,
                                               shardc_error *error);
SHARDC_API uint32_t shardc_comm_group_rank(const shardc_comm_group *group);
SHARDC_API uint32_t shardc_comm_group_size(const shardc_comm_group *group);

/* Starts a call and returns at once. All members make the same calls in the same order; of send and recv, only the two. The call and its
 * parts are copied, their arrays stay as they are until the wait. Errors: ARGUMENT (only this call is concerned), MEMORY, and those of a
 * wait. */
SHARDC_API shardc_status shardc_comm_start(shardc_comm_group *group, const shardc_comm_call *call, shardc_comm_request **out,
                                           shardc_error *error);

/* Ends a call: every request once, in any order, from any thread. Errors, which end the world for all its ranks: COMM (the members' calls
 * differ, a rank gave up or closed), TIMEOUT (the deadline; the message names who is missing). Under MPI the arrays of a failed call stay
 * allocated until the communicator is closed: another process may just be reading them. */
SHARDC_API shardc_status shardc_comm_wait(shardc_comm_request *request, shardc_error *error);

/* Start and wait. */
SHARDC_API shardc_status shardc_comm_run(shardc_comm_group *group, const shardc_comm_call *call, shardc_error *error);
SHARDC_API shardc_status shardc_comm_barrier(shardc_comm_group *group, shardc_error *error);

/* This rank cannot go on: all others, also those in a wait, get SHARDC_ERROR_COMM with `why`. From any thread. */
SHARDC_API void shardc_comm_abort(shardc_comm *comm, const char *why);

/* Without a call: OK, or why the world has failed. From any thread. */
SHARDC_API shardc_status shardc_comm_poll(shardc_comm *comm, shardc_error *error);

/* What this rank has started of a kind: calls, bytes of the full arrays, and bytes sent as `shardc comm` counts them. */
typedef struct shardc_comm_counter {
    uint64_t calls, bytes;
    double sent;
} shardc_comm_counter;

SHARDC_API shardc_comm_counter shardc_comm_count(const shardc_comm *comm, shardc_comm_kind kind);

#endif
