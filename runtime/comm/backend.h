/* The interface between comm.c and the backends of communicators. comm.c does what is common: it
 * checks arguments, copies calls and counts them. A backend moves the bytes and detects members
 * that disagree or are missing. */
#ifndef SHARDC_RUNTIME_COMM_BACKEND_H
#define SHARDC_RUNTIME_COMM_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/comm/comm.h"
#include "support/error.h"

enum {
    SC_COMM_ABI = 5 /* version of this header, compared between the runtime and shardc_mpi.so */,
    SC_COMM_SHOWN_PARTS = 3,
    SC_COMM_WHAT = 64
};

/* What members compare of a call. It contains no pointers, so it can be sent. */
typedef struct sc_comm_summary {
    uint64_t parts_hash;   /* hash of all dtypes and counts */
    int64_t bytes;         /* bytes of the full buffers */
    uint32_t kind, reduce; /* sc_comm_kind, sc_comm_reduce */
    int32_t to, from;
    uint32_t part_count;
    uint32_t dtypes[SC_COMM_SHOWN_PARTS]; /* of the first parts, for messages */
    int64_t counts[SC_COMM_SHOWN_PARTS];
    char what[SC_COMM_WHAT];
} sc_comm_summary;

/* A call in flight. Calls in one lane of a group are numbered from 0 by each member; calls with the
 * same number match. All collectives use lane 0. Sends from group rank f to group rank t use lane 1
 * + f * n + t on both ends. */
struct sc_comm_request {
    sc_comm_group *group;
    sc_comm_call call; /* call.parts == parts */
    sc_comm_part *parts;
    uint32_t part_room;
    uint64_t lane, number;
    sc_comm_summary summary;
    void *work;                       /* owned by the backend, from start to the end of wait */
    sc_comm_request *next, *previous; /* list of calls in flight; free requests use `next` only */
};

struct sc_comm_group {
    sc_comm *comm;
    uint32_t size, rank;
    uint32_t *ranks;
    /* number of earlier groups with the same list of ranks */
    uint32_t ordinal;
    /* next number: of lane 0; of sends and receives, by peer */
    uint64_t next_number, *next_send, *next_recv;
    void *state; /* owned by the backend */
    sc_comm_group *next;
};

typedef struct sc_comm_backend {
    const char *name;
    /* Sets group->state. */
    shardc_status (*group_open)(sc_comm_group *group, shardc_error *error);
    void (*group_close)(sc_comm_group *group);
    shardc_status (*start)(sc_comm_request *request, shardc_error *error);
    /* Waits for a call. After it returns, whatever the status, nobody uses the request or its
     * buffers any more, except as comm.h describes for MPI. */
    shardc_status (*wait)(sc_comm_request *request, shardc_error *error);
    /* Makes progress on calls without blocking; NULL: only waits make progress. */
    void (*progress)(sc_comm *comm);
    void (*abort)(sc_comm *comm, const shardc_error *error);
    /* `leave`: this rank makes no more calls; nothing is in flight. `close`: called after the
     * groups are closed; frees comm->state. */
    void (*leave)(sc_comm *comm);
    void (*close)(sc_comm *comm);
    /* Callable from any thread. */
    shardc_status (*poll)(sc_comm *comm, shardc_error *error);
} sc_comm_backend;

struct sc_comm {
    const sc_comm_backend *backend;
    uint32_t rank, size;
    _Atomic uint32_t deadline_ms;
    uint32_t stage_divide, stage_count; /* of sc_comm_set_stages; 0 stages: not set */
    void *state;                        /* owned by the backend */
    sc_comm_group *groups, *world;
    sc_comm_counter counters[SC_COMM_KINDS];
    pthread_mutex_t lock; /* protects the two lists below */
    sc_comm_request *in_flight, *unused;
};

enum { SC_COMM_SILENCE_MS = 300000, SC_COMM_JOIN_MS = 120000 /* defaults */ };

/* Fills in the options of a world of processes: zeros are replaced from the environment or by
 * defaults. `options` NULL: all zero. SHARDC_ERROR_ARGUMENT names a variable whose value is not a
 * valid number. */
shardc_status sc_comm_settle_options(const sc_comm_options *options, sc_comm_options *out,
                                     shardc_error *error);

/* Creates the handle of `rank` and its world group, which needs `state`. Called by a backend's open
 * function. NULL with `error` filled on failure; the caller then still owns `state`. */
sc_comm *sc_comm_new(const sc_comm_backend *backend, uint32_t rank, uint32_t size,
                     const sc_comm_options *options, void *state, shardc_error *error);

/* The data symbol `shardc_mpi_module` of shardc_mpi.so. The module is compiled with this header's
 * structures, so `abi` is compared. */
typedef struct sc_comm_module {
    uint32_t abi;
    shardc_status (*open)(const sc_comm_options *options, sc_comm **out, shardc_error *error);
} sc_comm_module;

/* True if two members' calls of one lane and number match; each comes with its group rank. Compare
 * each member's call with one that arrived before it; for a permute with all of them
 * (sc_comm_compares_all). */
bool sc_comm_summaries_fit(const sc_comm_summary *a, uint32_t rank_a, const sc_comm_summary *b,
                           uint32_t rank_b);
bool sc_comm_compares_all(const sc_comm_summary *summary);

/* Fill `error` with SHARDC_ERROR_COMM or SHARDC_ERROR_TIMEOUT. Parameters are group ranks; the text
 * has world ranks. `is_missing` has one flag per member. */
shardc_status sc_comm_fail_mismatch(shardc_error *error, const sc_comm_request *mine,
                                    const sc_comm_summary *a, uint32_t rank_a,
                                    const sc_comm_summary *b, uint32_t rank_b);
typedef enum sc_comm_absence {
    SC_COMM_LATE,
    SC_COMM_STALLED /* it made the call, but its bytes do not move */,
    SC_COMM_GONE
} sc_comm_absence;
shardc_status sc_comm_fail_missing(shardc_error *error, sc_comm_absence absence,
                                   const sc_comm_request *mine, const bool *is_missing,
                                   uint32_t waited_ms);
/* Formats "all_reduce(sum) of f32[12] (layers[3].attn) in group 0, 1". For calls that are not
 * carried out by a communicator, such as NCCL's. */
void sc_comm_describe(const sc_comm_group *group, const sc_comm_call *call, char *out, size_t size);
/* Counts one call of that kind. */
void sc_comm_count(sc_comm_group *group, const sc_comm_call *call);
/* Reports that world rank `lost` is gone. `mine` is this rank's call, or NULL if it is in none. */
shardc_status sc_comm_fail_lost(shardc_error *error, shardc_status status, const sc_comm *comm,
                                const sc_comm_request *mine, uint32_t lost, const char *why);

#endif
