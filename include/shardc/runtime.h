/* Running compiled programs.
 *
 * An executable is a program as the compiler wrote it, read and checked. A session holds one in memory, ready to run: the ranks (threads of
 * this process, or this process alone as one rank of several processes), their arenas with all state and all that a run needs, their
 * threads. Once a session has started, running allocates nothing.
 *
 * Values cross this interface whole: row-major, in the order of the tensor's dims, whatever shards the ranks hold; padding is nobody's
 * concern. Elements are of the dtype that the caller names. Local values, a rank's shard with its padding, are there for those who ask.
 *
 *     sc_executable *program;
 *     sc_session *session;
 *     sc_error error;
 *     float loss;
 *     if (sc_executable_open("step.shardx", &program, &error) != SC_OK || sc_session_new(program, NULL, &session, &error) != SC_OK ||
 *         sc_session_initialise(session, &error) != SC_OK)
 *         return report(&error);
 *     sc_session_set_random(session, seed, step, 0);
 *     sc_session_step(session, (sc_feed_value[]){{"tokens", tokens, "i32"}}, 1, (sc_fetch_value[]){{0, &loss, "f32"}}, 1, &error);
 *
 * Ownership: who makes a thing frees it; what is given is not kept beyond the call, unless said. Threads: an executable may be used by many
 * threads at once, a session by one at a time; sessions do not know of each other. Errors: a call that fails returns its status and fills
 * `error` (which may be NULL); outputs are then undefined. Statuses: SC_ERROR_MEMORY; SC_ERROR_ARGUMENT, the call makes no sense;
 * SC_ERROR_DATA, a file or a value is not as it must be; SC_ERROR_COMM and SC_ERROR_TIMEOUT, ranks lost each other; SC_ERROR_DEVICE, the
 * kernels cannot be loaded or failed; SC_ERROR_UNAVAILABLE, this machine lacks something (a processor that executes the kernels, MPI). */
#ifndef SHARDC_RUNTIME_H
#define SHARDC_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SC_TENSOR_MAX_RANK = 15 };
#define SC_NOT_FOUND UINT32_MAX

/* ---- executables ---- */

typedef struct sc_executable sc_executable;

/* Checks everything that can be checked; the object code in it is trusted. Nothing of `bytes` is kept. */
SC_API sc_status sc_executable_read(const void *bytes, size_t size, sc_executable **out, sc_error *error);
SC_API sc_status sc_executable_open(const char *path, sc_executable **out, sc_error *error);
SC_API void sc_executable_free(sc_executable *program); /* NULL is allowed; after its sessions */

SC_API uint64_t sc_executable_ranks(const sc_executable *program);
SC_API int64_t sc_executable_arena_bytes(const sc_executable *program); /* of one rank: all it needs */
SC_API uint64_t sc_executable_hash(const sc_executable *program);       /* of everything but the object code */
SC_API const char *sc_executable_target(const sc_executable *program);  /* cpu, cuda:sm_90a, .. */
SC_API const char *sc_executable_facts(const sc_executable *program);   /* JSON; the executable's */

/* A state, an input or an output. Texts are the executable's. */
typedef struct sc_tensor_info {
    const char *name;  /* of a state its path, layers[0].attn.wq; an output may have none: "" */
    const char *kind;  /* of a state: param, cache, grad, opt, scalar, gathered, sum; else input, output */
    const char *dtype; /* f32, f64, bf16, f16, i32, i64, u8, bool */
    uint32_t rank;
    struct {
        const char *name;
        int64_t size;  /* of the whole */
        int64_t local; /* of a rank's shard, with padding */
    } dims[SC_TENSOR_MAX_RANK];
    int64_t count, local_count; /* elements: of the whole, of a rank */
    int32_t batch_dim;          /* of an input: the dim that micro-batches split, or -1 */
    bool is_pending;            /* ranks hold terms of a reduction; values cross the interface reduced */
    const void *tensor;         /* for sc_tensor_shard */
} sc_tensor_info;

SC_API uint32_t sc_executable_state_count(const sc_executable *program);
SC_API uint32_t sc_executable_find_state(const sc_executable *program, const char *path); /* SC_NOT_FOUND */
SC_API void sc_executable_state(const sc_executable *program, uint32_t state, sc_tensor_info *out);

SC_API uint32_t sc_executable_func_count(const sc_executable *program);
SC_API uint32_t sc_executable_find_func(const sc_executable *program, const char *name); /* SC_NOT_FOUND */
SC_API const char *sc_executable_func(const sc_executable *program, uint32_t func);
SC_API uint32_t sc_executable_input_count(const sc_executable *program, uint32_t func);
SC_API uint32_t sc_executable_output_count(const sc_executable *program, uint32_t func);
SC_API void sc_executable_input(const sc_executable *program, uint32_t func, uint32_t input, sc_tensor_info *out);
SC_API void sc_executable_output(const sc_executable *program, uint32_t func, uint32_t output, sc_tensor_info *out);

/* The calls of a step, in order: the function and its micro-batch, or -1. */
SC_API uint32_t sc_executable_call_count(const sc_executable *program);
SC_API uint32_t sc_executable_call(const sc_executable *program, uint32_t call, int32_t *out_micro_batch);
SC_API uint32_t sc_executable_micro_batches(const sc_executable *program); /* of a step; 1 when nothing is split */

/* Where the rank's shard begins, by dim: element i of the shard is element first + i of the whole, as far as there is one. Returns whether
 * this rank is the first of those that hold the same shard. */
SC_API bool sc_tensor_shard(const sc_tensor_info *info, uint64_t rank, int64_t first[SC_TENSOR_MAX_RANK]);

/* ---- sessions ---- */

typedef struct sc_session sc_session;

typedef enum sc_world {
    SC_WORLD_LOCAL,    /* all ranks are threads of this process */
    SC_WORLD_MPI,      /* this process is one rank of the MPI job in which it was started */
    SC_WORLD_TCP,      /* one of those that torchrun, Slurm or RANK and WORLD_SIZE started, which find each other over TCP */
    SC_WORLD_PROCESSES /* TCP, or MPI where mpirun started them, or Slurm without MASTER_PORT */
} sc_world;

typedef struct sc_session_options {
    sc_world world;
    uint32_t threads;     /* that compute, in this process, for all its ranks; 0: OMP_NUM_THREADS, else one a core */
    uint32_t deadline_ms; /* of one collective; 0: none */
    bool profile;         /* measure instructions, for sc_session_profile */
    const char *products; /* cards: a file with what cuBLASLt says of the products, which is read, and written where more was asked;
                             several processes may use it at once. NULL: none */
    bool tune;            /* cards: measure several algorithms of each product, and take the fastest; of several processes the first
                             writes the file */
} sc_session_options;

/* `options` NULL: all zero. State begins as zeros. Fails with SC_ERROR_ARGUMENT when the job has another number of ranks, or another
 * program. */
SC_API sc_status sc_session_new(const sc_executable *program, const sc_session_options *options, sc_session **out, sc_error *error);
SC_API void sc_session_free(sc_session *session); /* NULL is allowed */

/* How the products of a program for cards are computed: by the algorithms that cuBLASLt chooses, which it is asked for once a program, kind
 * of card and version of the library where options.products names a file. */
typedef struct sc_products {
    uint32_t count;                   /* of the program; 0: it is not for cards */
    uint32_t kept, asked, measured;   /* answers: from the file; of the library; of these, those that were measured. Of all cards here */
    uint32_t faster;                  /* measured: not the library's first choice */
    double first, least;              /* measured: seconds of one call of each, by the library's first choices and by those taken */
    bool is_written;                  /* the file */
    char unread[400], unwritten[400]; /* why the file was not used, or not written; "": nothing went wrong */
} sc_products;

SC_API void sc_session_products(const sc_session *session, sc_products *out);

/* Ranks of this process: all of them, or one. */
SC_API uint32_t sc_session_local_ranks(const sc_session *session, uint32_t *out_first);

/* What random numbers depend on: parameters on the seed; dropout on all three. A step sets the micro-batch itself. Zeros before. */
SC_API void sc_session_set_random(sc_session *session, uint64_t seed, uint64_t step, uint32_t micro_batch);

/* ---- state ----
 * `dtype`: of the elements at `data`; NULL: as the state's. Integers that the state's dtype does not hold are SC_ERROR_DATA; floats round
 * to nearest even. Among processes every rank makes the same calls, and gives and gets whole values. */

/* Initial values, by the seed: the same bits on every mesh. A master copy gets its parameter's, in its own precision. */
SC_API sc_status sc_session_initialise(sc_session *session, sc_error *error);
/* A parameter's master copy is set with it. */
SC_API sc_status sc_session_set_state(sc_session *session, uint32_t state, const void *data, const char *dtype, sc_error *error);
SC_API sc_status sc_session_get_state(sc_session *session, uint32_t state, void *data, const char *dtype, sc_error *error);
/* A rank's shard as it lies in memory; the rank is one of this process. The pointer lives as long as the session, and may be written to
 * while nothing runs. NULL: no such rank or state, or the memory is a card's. */
SC_API void *sc_session_local_state(sc_session *session, uint32_t state, uint32_t rank);

/* Parameters from a safetensors file or folder, whose tensors are called like them; with `all`, every parameter and all optimizer state, as
 * sc_session_save wrote them. All or nothing: what is missing, or of another shape, is an error before anything changes. */
SC_API sc_status sc_session_load(sc_session *session, const char *path, bool all, sc_error *error);
/* Parameters, with `all` also optimizer state, in their dtypes. Among processes rank 0 writes. */
SC_API sc_status sc_session_save(sc_session *session, const char *path, bool all, sc_error *error);

/* ---- running ---- */

typedef struct sc_feed_value {
    const char *name;  /* of the input */
    const void *data;  /* whole; for a step, of all micro-batches: the batch dim is as many times larger */
    const char *dtype; /* of the elements at data; NULL: as the input's */
} sc_feed_value;

typedef struct sc_fetch_value {
    uint32_t output;   /* of the function; for a step, of the last call's */
    void *data;        /* whole; room for all elements */
    const char *dtype; /* wanted; NULL: as the output's */
} sc_fetch_value;

/* Runs one function: its inputs, each once, in any order; as many outputs as are wanted. A check that fails on a rank (an id out of range)
 * is SC_ERROR_DATA, with the check, the place in the model and the rank; the function still runs to its end everywhere, so state that it
 * changes is undefined, and the session can go on. */
SC_API sc_status sc_session_run(sc_session *session, uint32_t func, const sc_feed_value *feeds, size_t feed_count,
                                const sc_fetch_value *fetches, size_t fetch_count, sc_error *error);
/* Runs a step: every call of the schedule. Stops after a call that fails. */
SC_API sc_status sc_session_step(sc_session *session, const sc_feed_value *feeds, size_t feed_count, const sc_fetch_value *fetches,
                                 size_t fetch_count, sc_error *error);

/* ---- training ---- */

/* The optimizers of a train step: their rates and what else changes from step to step, as the model's `minimize` says. */
typedef struct sc_stepper sc_stepper;

/* The program outlives it. SC_ERROR_ARGUMENT: it is no train step, or an image without facts. */
SC_API sc_status sc_stepper_new(const sc_executable *program, sc_stepper **out, sc_error *error);
SC_API void sc_stepper_free(sc_stepper *stepper); /* NULL is allowed */

/* Before sc_session_step: makes the session ready for step number `step`, from 1: learning rates, bias corrections, random numbers. */
SC_API sc_status sc_stepper_begin(sc_stepper *stepper, sc_session *session, uint64_t seed, uint64_t step, sc_error *error);

/* ---- measuring ---- */

typedef enum sc_work { SC_WORK_KERNEL, SC_WORK_ATTENTION, SC_WORK_GEMM, SC_WORK_COMM, SC_WORK_WAIT, SC_WORK_COPY, SC_WORK_KINDS } sc_work;

/* What one rank of this process did in calls of a function since the last reset. */
typedef struct sc_func_profile {
    uint64_t calls;
    double seconds;             /* of whole calls */
    double work[SC_WORK_KINDS]; /* seconds; zeros unless options.profile. COMM: starting collectives, WAIT: waiting for their end */
    uint64_t collectives[8];    /* calls, by kind: all_gather, reduce_scatter, all_reduce, all_to_all, permute, broadcast, send, recv */
    double sent[8];             /* bytes that the rank sends, as `shardc comm` counts them */
} sc_func_profile;

SC_API void sc_session_profile(const sc_session *session, uint32_t func, uint32_t rank, sc_func_profile *out);
SC_API void sc_session_reset_profile(sc_session *session);

/* One instruction, as it ends. Texts are the executable's. */
typedef struct sc_trace_event {
    uint32_t rank, func, instr;
    sc_work work;
    const char *title; /* what it computes, or the collective's kind */
    const char *where, *phase;
    double begin, end; /* seconds of a monotonic clock */
} sc_trace_event;

/* Calls `trace` from the ranks' threads, several at once; NULL: no more. Not while something runs. */
SC_API void sc_session_set_trace(sc_session *session, void (*trace)(void *user, const sc_trace_event *event), void *user);

#ifdef __cplusplus
}
#endif

#endif
