/* Communicators between the ranks of a world. A world has `size` ranks, and each holds its own
 * sc_comm. Ranks are threads of one process (sc_comm_open_local), processes of an MPI job
 * (sc_comm_open_mpi) or processes without MPI (sc_comm_open_tcp). The semantics of a call, and its
 * result bits, are the same for all of them.
 *
 * Calls are made in groups. Every member of a group makes the same calls in the same order; a call
 * with several parts moves them together. Buffers are contiguous. n members, count elements in the
 * full buffer of a part, m = count / n:
 *
 *     kind             source        destination
 *     all_gather       m             count          the members' sources, by group rank
 *     reduce_scatter   count         m              slice `group rank` of the reduction
 *     all_reduce       count         count          the reduction of all sources
 *     all_to_all       count         count          slice i goes to member i; slice i comes from i
 *     broadcast        count (from)  count          member `from`'s source, on every member
 *     permute          count (to)    count (from)   sends to member `to`, receives from `from`;
 *                                                   either may be this rank or nobody; without
 *                                                   `from` the destination is unchanged
 *     send, recv       count         count          only the two peers call; messages between them
 *                                                   arrive in the order of the calls; nothing is
 *                                                   buffered: neither ends before both have started
 *     barrier                                       no parts; ends after all have started it
 *
 * A reduction adds its terms in the order of the group ranks 0, 1, .. for every element: in f32 for
 * bf16 and f16 (rounded once, at the end), otherwise in the dtype itself (integers modulo 2^bits).
 * So all members get the same bits, in every run and on every backend. max and min return NaN if an
 * operand is NaN (of several, the last), and of zeros of either sign the first. bool: sum and max
 * are `or`, min is `and`.
 *
 * A call may be in place: destination == source (all_reduce, broadcast), or the smaller buffer is
 * at its own place in the full one (all_gather: source = destination + m * group rank;
 * reduce_scatter: the reverse). No other overlap is allowed. Buffers are aligned to their elements.
 * From start to wait nobody else may write to a source or access a destination.
 *
 * Errors. If members disagree about a call (kind, reduce, dtypes, counts, peers), all get
 * SHARDC_ERROR_COMM, with a text that names each rank's call. SHARDC_ERROR_TIMEOUT, after
 * `deadline_ms` in a wait, names the call and the ranks that did not make it. With or without a
 * deadline, a process from which nothing was received for `silence_ms` causes the same error; ranks
 * send heartbeats, so a call may take any time while all of them live. SHARDC_ERROR_COMM: a member
 * closed its sc_comm instead of calling. Each of these errors, and sc_comm_abort, fails the world:
 * every call of every rank then fails at once with that error, even in the middle of a wait. (If
 * two ranks of an MPI job fail at the same time, each may report its own error.) Invalid arguments
 * of one rank are SHARDC_ERROR_ARGUMENT from its start and do not fail the world; the caller aborts
 * if it cannot go on. After a failed call the contents of its destinations are undefined; under MPI
 * its buffers must stay allocated until the sc_comm is closed, because another process may still be
 * reading them.
 *
 * Threads. Calls on one sc_comm and its groups come from one thread at a time, except sc_comm_wait,
 * from any thread (one per request), and sc_comm_abort and sc_comm_poll, from any thread at any
 * time. */
#ifndef SHARDC_RUNTIME_COMM_COMM_H
#define SHARDC_RUNTIME_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"
#include "support/dtype.h"

/* The collectives of compiled programs, by the same numbers, and the barrier. */
typedef enum sc_comm_kind {
#define COLLECTIVE(name, NAME, traits, shares, whole) SC_COMM_##NAME,
#include "program/collectives.def"
    SC_COMM_BARRIER,
    SC_COMM_KINDS
} sc_comm_kind;

/* In the order of sc_image_reduce: a program's numbers are these. */
typedef enum sc_comm_reduce {
    SC_COMM_NONE,
    SC_COMM_SUM,
    SC_COMM_MAX,
    SC_COMM_MIN,
    SC_COMM_REDUCES
} sc_comm_reduce;

extern const char *const sc_comm_kind_names[SC_COMM_KINDS];
extern const char *const sc_comm_reduce_names[SC_COMM_REDUCES];

enum { SC_COMM_NOBODY = -1 };

struct sc_launch;                               /* runtime/comm/launch.h */
typedef struct sc_comm sc_comm;                 /* one rank's handle of a world */
typedef struct sc_comm_group sc_comm_group;     /* one rank's handle of a group */
typedef struct sc_comm_request sc_comm_request; /* a call in flight */

typedef struct sc_comm_options {
    uint32_t deadline_ms; /* limit of one wait; 0: none */
    /* TCP: limit until all ranks have joined; 0: SHARDC_JOIN_MS, by default two minutes */
    uint32_t join_ms;
    /* processes: a rank silent for this long is lost; 0: SHARDC_SILENCE_MS, by default five minutes
     */
    uint32_t silence_ms;
    /* processes: lines of runtime/comm/identity.h, which must be equal on all; NULL: none */
    const char *started_with;
} sc_comm_options;

typedef struct sc_comm_part {
    /* may be NULL if it is not read (recv, count 0, ..); likewise destination if it is not written
     */
    const void *source;
    void *destination;
    /* elements of the full buffer; a multiple of n for all_gather, reduce_scatter, all_to_all */
    int64_t count;
    sc_dtype dtype;
    /* all_to_all, by member: how many elements of the piece for it need be sent, and how many of
     * its piece for this rank arrive; others may or may not be written. Must outlive the request.
     * NULL: all */
    const int64_t *gives, *gets;
} sc_comm_part;

typedef struct sc_comm_call {
    sc_comm_kind kind;
    sc_comm_reduce reduce; /* all_reduce, reduce_scatter; else SC_COMM_NONE */
    uint32_t part_count;
    const sc_comm_part *parts;
    /* group ranks: permute reads both, send `to`, recv and broadcast `from`; otherwise ignored */
    int32_t to, from;
    /* name for messages, as "layers[3].attn", or NULL; must outlive the request */
    const char *what;
    bool is_uncounted; /* a call of the runtime's own, which counters leave out */
} sc_comm_call;

/* Opens a world of `size` ranks as threads of this process. out[r] is rank r's handle; rank r
 * closes it. On failure nothing is open. */
shardc_status sc_comm_open_local(uint32_t size, const sc_comm_options *options, sc_comm **out,
                                 shardc_error *error);

/* Opens this process's rank of the MPI job that started it (mpirun, srun). The module shardc_mpi.so
 * is searched in the folders of $SHARDC_MODULES (separated by ':'), beside the executable, in
 * lib/shardc there and in ../lib/shardc. Every rank must open the same number of communicators, in
 * the same order. SHARDC_ERROR_UNAVAILABLE, with the remedy, if the module or an MPI library is
 * missing. If this call initializes MPI, closing the returned sc_comm finalizes it: close it last.
 * If MPI is already initialized, it must provide MPI_THREAD_MULTIPLE when threads other than the
 * opening one use it. */
shardc_status sc_comm_open_mpi(const sc_comm_options *options, sc_comm **out, shardc_error *error);

/* Opens this process's rank over TCP, among processes started by torchrun, by Slurm or with RANK
 * and WORLD_SIZE (`launch`; NULL: read from the environment). See runtime/comm/rendezvous.h for how
 * they connect; its errors are returned. Every rank must open the same number of communicators, in
 * the same order. A rank whose process ends without closing fails the world at once; a rank that is
 * stopped fails it at the deadline. The error names the rank. */
shardc_status sc_comm_open_tcp(const struct sc_launch *launch, const sc_comm_options *options,
                               sc_comm **out, shardc_error *error);

/* Frees the sc_comm and its groups. Calls in flight are abandoned, which fails the world for the
 * others. MPI: waits until all ranks close theirs; in a failed world for a few seconds only. NULL
 * is allowed. */
void sc_comm_close(sc_comm *comm);

const char *sc_comm_backend_name(const sc_comm *comm); /* local, mpi, tcp */
uint32_t sc_comm_rank(const sc_comm *comm);
uint32_t sc_comm_size(const sc_comm *comm);
sc_comm_group *sc_comm_world(sc_comm *comm); /* the group of all ranks, in order */
void sc_comm_set_deadline(sc_comm *comm, uint32_t deadline_ms);
/* From now on errors name the stages of ranks, rank / divide % count: "rank 2 (stage 1) is lost".
 * Called before other threads use the sc_comm. */
void sc_comm_set_stages(sc_comm *comm, uint32_t divide, uint32_t count);

/* Creates the group of these world ranks, in this order. The list has no duplicates and contains
 * this rank. Every member calls it with the same list; the k-th group of a list on one member
 * matches the k-th group of that list on the others. Does not wait for the other members. The
 * sc_comm owns the group. */
shardc_status sc_comm_group_new(sc_comm *comm, const uint32_t *ranks, uint32_t count,
                                sc_comm_group **out, shardc_error *error);
uint32_t sc_comm_group_rank(const sc_comm_group *group);
uint32_t sc_comm_group_size(const sc_comm_group *group);

/* Starts a call and returns at once; `call` and its parts are copied. Requests are recycled: once
 * the maximum number of requests and parts has been in flight, nothing more is allocated (except by
 * MPI). Every started request must be waited for, in any order, even after an error. */
shardc_status sc_comm_start(sc_comm_group *group, const sc_comm_call *call, sc_comm_request **out,
                            shardc_error *error);
/* Waits for the request and frees it. The other members must have started the call. Under MPI, for
 * more than a small message, they must also be in a wait or in sc_comm_progress, because nobody
 * else moves their bytes; there the deadline restarts whenever bytes have moved. */
shardc_status sc_comm_wait(sc_comm_request *request, shardc_error *error);
/* Makes progress on this rank's calls without blocking. Not needed between threads, where waits do
 * all the work. A process moves bytes only in calls like this one, so call it now and then during
 * long computations. Errors are reported by the wait. */
void sc_comm_progress(sc_comm *comm);
/* sc_comm_start, then sc_comm_wait. A send needs its recv: two ranks that both send to each other
 * first deadlock. Use sc_comm_start for one of them. */
shardc_status sc_comm_run(sc_comm_group *group, const sc_comm_call *call, shardc_error *error);
shardc_status sc_comm_barrier(sc_comm_group *group, shardc_error *error);

/* Fails the world: all ranks get "rank 2 gave up: WHY". The first reason is kept. */
void sc_comm_abort(sc_comm *comm, const char *why);

/* Returns SHARDC_OK, or the error with which the world failed; for a caller that waits for the
 * other ranks by other means. Over TCP it also detects ranks that are stopped; under MPI only what
 * has arrived. Callable from any thread. */
shardc_status sc_comm_poll(sc_comm *comm, shardc_error *error);

/* Totals of the calls that this rank started, by kind. `bytes`: b, of the full buffers of all
 * parts. `sent`, as counted by `shardc comm`, in a group of n: all_gather, reduce_scatter,
 * all_to_all b(n-1)/n; all_reduce 2b(n-1)/n; broadcast b (0 if n = 1); permute and send b, unless
 * to itself; recv and barrier 0. */
typedef struct sc_comm_counter {
    uint64_t calls, bytes;
    double sent;
} sc_comm_counter;

const sc_comm_counter *sc_comm_counters(const sc_comm *comm); /* SC_COMM_KINDS entries */
void sc_comm_reset_counters(sc_comm *comm);

#endif
