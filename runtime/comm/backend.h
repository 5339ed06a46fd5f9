/* What a backend of communicators implements, and what runtime/comm/comm.c does for all of them: arguments are checked, calls copied and
 * counted before a backend sees them. A backend moves the bytes, and finds members that disagree or are missing. */
#ifndef SHARDC_RUNTIME_COMM_BACKEND_H
#define SHARDC_RUNTIME_COMM_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/comm/comm.h"
#include "support/error.h"

enum { SC_COMM_ABI = 4 /* of this header, between the runtime and shardc_mpi.so */, SC_COMM_SHOWN_PARTS = 3, SC_COMM_WHAT = 64 };

/* A call as the other members must see it: without pointers, so that it travels. */
typedef struct sc_comm_summary {
    uint64_t parts_hash;   /* of all dtypes and counts */
    int64_t bytes;         /* of the full buffers */
    uint32_t kind, reduce; /* sc_comm_kind, sc_comm_reduce */
    int32_t to, from;
    uint32_t part_count;
    uint32_t dtypes[SC_COMM_SHOWN_PARTS]; /* of the first parts, for messages */
    int64_t counts[SC_COMM_SHOWN_PARTS];
    char what[SC_COMM_WHAT];
} sc_comm_summary;

/* Calls of one lane of a group are numbered from 0, by each member for itself: what has the same number belongs together. All
 * collectives are lane 0; sends from group rank f to group rank t are lane 1 + f * n + t, on both ends. */
struct sc_comm_request {
    sc_comm_group *group;
    sc_comm_call call; /* call.parts == parts */
    sc_comm_part *parts;
    uint32_t part_room;
    uint64_t lane, number;
    sc_comm_summary summary;
    void *work;                       /* the backend's, from start to the end of wait */
    sc_comm_request *next, *previous; /* in flight; `next` among the free ones */
};

struct sc_comm_group {
    sc_comm *comm;
    uint32_t size, rank;
    uint32_t *ranks;
    uint32_t ordinal;                             /* how many groups of this list came before it */
    uint64_t next_number, *next_send, *next_recv; /* of lane 0; by peer */
    void *state;                                  /* the backend's */
    sc_comm_group *next;
};

typedef struct sc_comm_backend {
    const char *name;
    /* Sets group->state. */
    shardc_status (*group_open)(sc_comm_group *group, shardc_error *error);
    void (*group_close)(sc_comm_group *group);
    shardc_status (*start)(sc_comm_request *request, shardc_error *error);
    /* When it returns nobody uses the request any more, however it ends, nor its buffers, but as comm.h says. */
    shardc_status (*wait)(sc_comm_request *request, shardc_error *error);
    /* Goes on with calls without waiting; NULL: only waits do. */
    void (*progress)(sc_comm *comm);
    void (*abort)(sc_comm *comm, const shardc_error *error);
    /* `leave`: this rank makes no more calls; nothing is in flight any more. `close`, after the groups are closed, frees comm->state. */
    void (*leave)(sc_comm *comm);
    void (*close)(sc_comm *comm);
    /* From any thread. */
    shardc_status (*poll)(sc_comm *comm, shardc_error *error);
} sc_comm_backend;

struct sc_comm {
    const sc_comm_backend *backend;
    uint32_t rank, size;
    _Atomic uint32_t deadline_ms;
    void *state; /* the backend's */
    sc_comm_group *groups, *world;
    sc_comm_counter counters[SC_COMM_KINDS];
    pthread_mutex_t lock; /* of the two lists below */
    sc_comm_request *in_flight, *unused;
};

enum { SC_COMM_SILENCE_MS = 300000, SC_COMM_JOIN_MS = 120000 /* unless told otherwise */ };

/* The options of a world of processes (NULL: all zero) with what the environment and the defaults say in place of zeros.
 * SHARDC_ERROR_ARGUMENT names a variable that is no such number. */
shardc_status sc_comm_settle_options(const sc_comm_options *options, sc_comm_options *out, shardc_error *error);

/* A backend opens with this: makes the end of `rank`, and its world group, which needs `state`. NULL with `error` filled; then the
 * state is still the caller's. */
sc_comm *sc_comm_new(const sc_comm_backend *backend, uint32_t rank, uint32_t size, const sc_comm_options *options, void *state,
                     shardc_error *error);

/* What shardc_mpi.so gives: its data symbol `shardc_mpi_module`. Its code has this file's structures compiled in, so `abi` is compared. */
typedef struct sc_comm_module {
    uint32_t abi;
    shardc_status (*open)(const sc_comm_options *options, sc_comm **out, shardc_error *error);
} sc_comm_module;

/* Whether two members' calls of one lane and number fit; each with its group rank. Of a group's members compare each with one that came
 * before it, of a permute with all (sc_comm_compares_all). */
bool sc_comm_summaries_fit(const sc_comm_summary *a, uint32_t rank_a, const sc_comm_summary *b, uint32_t rank_b);
bool sc_comm_compares_all(const sc_comm_summary *summary);

/* Fill `error` with SHARDC_ERROR_COMM or SHARDC_ERROR_TIMEOUT; ranks are group ranks here, world ranks in the text. `is_missing` has one
 * flag a member. */
shardc_status sc_comm_fail_mismatch(shardc_error *error, const sc_comm_request *mine, const sc_comm_summary *a, uint32_t rank_a,
                                    const sc_comm_summary *b, uint32_t rank_b);
typedef enum sc_comm_absence { SC_COMM_LATE, SC_COMM_STALLED /* it called, but does not move its bytes */, SC_COMM_GONE } sc_comm_absence;
shardc_status sc_comm_fail_missing(shardc_error *error, sc_comm_absence absence, const sc_comm_request *mine, const bool *is_missing,
                                   uint32_t waited_ms);
/* "all_reduce(sum) of f32[12] (layers[3].attn) in group 0, 1": of a call that other means carry out. */
void sc_comm_describe(const sc_comm_group *group, const sc_comm_call *call, char *out, size_t size);
/* Among the counters, one of those. */
void sc_comm_count(sc_comm_group *group, const sc_comm_call *call);
/* World rank `lost` is not there any more, whatever its part in `mine` (NULL: in no call). */
shardc_status sc_comm_fail_lost(shardc_error *error, shardc_status status, const sc_comm_request *mine, uint32_t lost, const char *why);

#endif
