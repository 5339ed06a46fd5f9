/* Communicators: what the ranks of a world say to each other. A world has `size` ranks; each holds its own sc_comm. Ranks are threads of
 * one process (sc_comm_open_local) or processes, of an MPI job (sc_comm_open_mpi) or without MPI (sc_comm_open_tcp); what a call does, to
 * which bits, does not depend on that.
 *
 * Calls happen in groups. Every member of a group makes the same calls in the same order; a call of several parts moves them together.
 * Buffers are contiguous. n members, count elements in the full buffer of a part, m = count / n:
 *
 *     kind             source        destination
 *     all_gather       m             count          the members' sources, by group rank
 *     reduce_scatter   count         m              part `group rank` of the reduction of all sources
 *     all_reduce       count         count          the reduction of all sources
 *     all_to_all       count         count          part i of the source goes to member i; what comes from member i becomes part i
 *     broadcast        count (from)  count          member `from`'s source, on every member, `from` included
 *     permute          count (to)    count (from)   sends to member `to` and receives from member `from`; itself is allowed, and nobody:
 *                                                   who receives from nobody keeps its destination as it was
 *     send, recv       count         count          only these two call; what one sends to the other arrives in the order of the calls
 *     barrier                                       ends nowhere before it began everywhere; no parts
 *
 * A reduction takes its terms in the order of the group ranks 0, 1, .. for every element, in f32 for bf16 and f16 (rounded once, at the
 * end), in the dtype itself otherwise (integers modulo 2^bits): all members get the same bits, in every run and on every backend. max and
 * min of NaN and anything are NaN (of several the last); of zeros of either sign, the first. bool: sum and max are `or`, min is `and`.
 *
 * A destination may be its source (all_reduce, broadcast), or share its place in the full buffer (all_gather: source = destination + m *
 * group rank; reduce_scatter: the other way round). Buffers overlap in no other way, and are aligned to their elements. From start to wait
 * nobody else writes to a source or touches a destination.
 *
 * Errors. Members that disagree about a call (kind, reduce, dtypes, counts, peers) all get SHARDC_ERROR_COMM, saying who called what. After
 * `deadline_ms` in a wait it is SHARDC_ERROR_TIMEOUT, naming the call and the ranks that did not make it; so it is, with or without a
 * deadline, when nothing was heard of a process for `silence_ms`: every rank says all the time that it lives, and a call takes as long as
 * all of them do. A member that closed its sc_comm
 * instead of calling: SHARDC_ERROR_COMM. Each of these, and sc_comm_abort, ends the world: every call of every rank then fails with that
 * error, at once, also in the middle of a wait (of two ranks of an MPI job that fail at once, each may report its own). What is wrong with
 * one rank's arguments alone is SHARDC_ERROR_ARGUMENT of that start and ends nothing (the caller aborts if it cannot go on). Of a call that
 * failed, destinations hold anything; under MPI its buffers stay allocated until the sc_comm is closed, since another process may just be
 * reading them.
 *
 * Threads. The calls on one sc_comm and its groups come from one thread at a time, with these exceptions: sc_comm_wait from any thread (one
 * a request), sc_comm_abort and sc_comm_poll from any thread at any time. */
#ifndef SHARDC_RUNTIME_COMM_COMM_H
#define SHARDC_RUNTIME_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"
#include "support/dtype.h"

/* The collectives of programs, by the same numbers, and one more. */
typedef enum sc_comm_kind {
#define COLLECTIVE(name, NAME, traits, shares, whole) SC_COMM_##NAME,
#include "program/collectives.def"
    SC_COMM_BARRIER,
    SC_COMM_KINDS
} sc_comm_kind;

/* In the order of sc_image_reduce: a program's numbers are these. */
typedef enum sc_comm_reduce { SC_COMM_NONE, SC_COMM_SUM, SC_COMM_MAX, SC_COMM_MIN, SC_COMM_REDUCES } sc_comm_reduce;

extern const char *const sc_comm_kind_names[SC_COMM_KINDS];
extern const char *const sc_comm_reduce_names[SC_COMM_REDUCES];

enum { SC_COMM_NOBODY = -1 };

struct sc_launch;                               /* runtime/comm/launch.h */
typedef struct sc_comm sc_comm;                 /* a rank's end of a world */
typedef struct sc_comm_group sc_comm_group;     /* a rank's end of a group */
typedef struct sc_comm_request sc_comm_request; /* a call that has started */

typedef struct sc_comm_options {
    uint32_t deadline_ms; /* of one wait; 0: none */
    uint32_t join_ms;     /* TCP: until all ranks are there; 0: as SHARDC_JOIN_MS says, else two minutes */
    uint32_t
        silence_ms; /* processes: a rank of which nothing is heard for so long is lost; 0: as SHARDC_SILENCE_MS says, else five minutes */
    const char *started_with; /* processes: lines of runtime/comm/identity.h, which must be the same on all; NULL: none */
} sc_comm_options;

typedef struct sc_comm_part {
    const void *source; /* NULL is allowed where nothing is read (recv, count 0, ..), as with destination where nothing is written */
    void *destination;
    int64_t count; /* of the full buffer, see above; a multiple of n for all_gather, reduce_scatter, all_to_all */
    sc_dtype dtype;
} sc_comm_part;

typedef struct sc_comm_call {
    sc_comm_kind kind;
    sc_comm_reduce reduce; /* all_reduce, reduce_scatter; else SC_COMM_NONE */
    uint32_t part_count;
    const sc_comm_part *parts;
    int32_t to, from; /* group ranks: permute both, send `to`, recv and broadcast `from`; not read elsewhere */
    const char *what; /* for messages: "layers[3].attn"; NULL: nothing to say. It outlives the request */
} sc_comm_call;

/* A world of `size` ranks as threads of this process: out[r] is rank r's, and rank r closes it. All or nothing. */
shardc_status sc_comm_open_local(uint32_t size, const sc_comm_options *options, sc_comm **out, shardc_error *error);

/* This process's rank in the MPI job that it was started in (mpirun, srun), through the module shardc_mpi.so, which is looked for in the
 * folders of $SHARDC_MODULES (separated by ':'), beside the executable, in lib/shardc there and in ../lib/shardc. Every rank opens as
 * many, in the same order. SHARDC_ERROR_UNAVAILABLE, with the remedy, where there is no such module or no MPI library. The sc_comm whose
 * opening initialised MPI finalises it when it is closed: close it last. Where MPI is initialised already it must provide
 * MPI_THREAD_MULTIPLE if other threads than the opening one use it. */
shardc_status sc_comm_open_mpi(const sc_comm_options *options, sc_comm **out, shardc_error *error);

/* This process's rank among those that torchrun, Slurm or RANK and WORLD_SIZE started (`launch`; NULL: as the environment says), over TCP:
 * runtime/comm/rendezvous.h says how they meet, and its errors are errors here. Every rank opens as many, in the same order. A rank whose
 * process ends without closing ends the world at once, one that is stopped by the deadline; both are named. */
shardc_status sc_comm_open_tcp(const struct sc_launch *launch, const sc_comm_options *options, sc_comm **out, shardc_error *error);

/* Frees the sc_comm and its groups. Calls in flight are given up (a world with such ends with an error for the others). MPI: waits until
 * all ranks close theirs; of a failed world for some seconds. NULL is allowed. */
void sc_comm_close(sc_comm *comm);

const char *sc_comm_backend_name(const sc_comm *comm); /* local, mpi, tcp */
uint32_t sc_comm_rank(const sc_comm *comm);
uint32_t sc_comm_size(const sc_comm *comm);
sc_comm_group *sc_comm_world(sc_comm *comm); /* the group of all ranks, in order */
void sc_comm_set_deadline(sc_comm *comm, uint32_t deadline_ms);

/* The group of these world ranks, in this order: no rank twice, this rank among them. Every member makes it with the same list; the k-th
 * group of a list on one member is the k-th group of that list on the others. Belongs to the sc_comm. Does not wait for the others. */
shardc_status sc_comm_group_new(sc_comm *comm, const uint32_t *ranks, uint32_t count, sc_comm_group **out, shardc_error *error);
uint32_t sc_comm_group_rank(const sc_comm_group *group);
uint32_t sc_comm_group_size(const sc_comm_group *group);

/* Starts a call and returns at once; `call` and its parts are copied. Once there were as many requests in flight, of as many parts, as ever
 * will be, nothing is allocated (but by MPI). A request that has started must be waited for, in any order, whatever becomes of it. */
shardc_status sc_comm_start(sc_comm_group *group, const sc_comm_call *call, sc_comm_request **out, shardc_error *error);
/* Ends the request, which is then gone. It needs the other members to have started the call; under MPI, for what does not fit into a small
 * message, also to be in some wait or sc_comm_progress: nobody else moves their bytes. A deadline begins again there whenever something has
 * moved. */
shardc_status sc_comm_wait(sc_comm_request *request, shardc_error *error);
/* Goes on with what this rank has started, as far as that goes without waiting. Between threads there is nothing to do, since waits do all
 * of a call; a process moves bytes only in calls like this one, so who computes for long calls it now and then. What fails, a wait tells.
 */
void sc_comm_progress(sc_comm *comm);
/* Both. send and recv: each needs the other, so two ranks that first send to one another wait for ever; start one of them. */
shardc_status sc_comm_run(sc_comm_group *group, const sc_comm_call *call, shardc_error *error);
shardc_status sc_comm_barrier(sc_comm_group *group, shardc_error *error);

/* Ends the world: "rank 2 gave up: WHY" for everybody. The first reason stays. */
void sc_comm_abort(sc_comm *comm, const char *why);

/* Without a call, for who waits for the others by other means: SHARDC_OK, or why the world has failed. Over TCP also finds ranks that are
 * stopped; by MPI only what has arrived. From any thread. */
shardc_status sc_comm_poll(sc_comm *comm, shardc_error *error);

/* What this rank started, by kind. `bytes`: b, of the full buffers of all parts; `sent`: as `shardc comm` counts, in a group of n:
 * all_gather, reduce_scatter, all_to_all b(n-1)/n; all_reduce 2b(n-1)/n; broadcast b (0 when n = 1); permute and send b, when they go to
 * somebody else; recv and barrier 0. */
typedef struct sc_comm_counter {
    uint64_t calls, bytes;
    double sent;
} sc_comm_counter;

const sc_comm_counter *sc_comm_counters(const sc_comm *comm); /* SC_COMM_KINDS of them */
void sc_comm_reset_counters(sc_comm *comm);

#endif
