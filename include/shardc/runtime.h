/* Running compiled programs.
 *
 * An executable is a program as the compiler wrote it, read and checked. A session holds one in memory, ready to run: the ranks (threads of
 * this process, or this process alone as one rank of several processes), their arenas with all state and all that a run needs, their
 * threads. Once a session has started, running allocates nothing.
 *
 * Values cross this interface whole: row-major, in the order of the tensor's dims, whatever shards the ranks hold; padding is nobody's
 * concern. Elements are of the dtype that the caller names. Local values, a rank's shard with its padding, are there for those who ask.
 *
 *     shardc_executable *program;
 *     shardc_session *session;
 *     shardc_error error;
 *     float loss;
 *     if (shardc_executable_open("step.shardx", &program, &error) != SHARDC_OK ||
 *         shardc_session_new(program, NULL, &session, &error) != SHARDC_OK || shardc_session_initialise(session, &error) != SHARDC_OK)
 *         return report(&error);
 *     shardc_session_set_random(session, seed, step, 0);
 *     shardc_session_step(session, (shardc_feed_value[]){{"tokens", tokens, sizeof tokens, "i32"}}, 1,
 *                         (shardc_fetch_value[]){{0, &loss, sizeof loss, "f32"}}, 1, &error);
 *
 * Ownership: who makes a thing frees it; what is given is not kept beyond the call, unless said. Threads: an executable may be used by many
 * threads at once, a session by one at a time; sessions do not know of each other. Errors: a call that fails returns its status and fills
 * `error` (which may be NULL); outputs are then undefined. Statuses: SHARDC_ERROR_MEMORY; SHARDC_ERROR_ARGUMENT, the call makes no sense;
 * SHARDC_ERROR_DATA, a file or a value is not as it must be; SHARDC_ERROR_COMM and SHARDC_ERROR_TIMEOUT, ranks lost each other;
 * SHARDC_ERROR_DEVICE, the kernels cannot be loaded or failed; SHARDC_ERROR_UNAVAILABLE, this machine lacks something (a processor that
 * executes the kernels, MPI). */
#ifndef SHARDC_RUNTIME_H
#define SHARDC_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SHARDC_TENSOR_MAX_RANK = 15 };
#define SHARDC_NOT_FOUND UINT32_MAX

/* ---- executables ---- */

typedef struct shardc_executable shardc_executable;

/* Checks everything that can be checked; the object code in it is trusted, once its checksum is right. Nothing of `bytes` is kept. The
 * bytes are what shardc_compile gave, or a whole file that `shardc build` wrote, whose checksum covers all of it. */
SHARDC_API shardc_status shardc_executable_read(const void *bytes, size_t size, shardc_executable **out, shardc_error *error);
SHARDC_API shardc_status shardc_executable_open(const char *path, shardc_executable **out, shardc_error *error);
SHARDC_API void shardc_executable_free(shardc_executable *program); /* NULL is allowed; after its sessions */

SHARDC_API uint64_t shardc_executable_ranks(const shardc_executable *program);
SHARDC_API int64_t shardc_executable_arena_bytes(const shardc_executable *program); /* of one rank: all it needs */
SHARDC_API uint64_t shardc_executable_hash(const shardc_executable *program);       /* of everything but the object code */
SHARDC_API const char *shardc_executable_target(const shardc_executable *program);  /* cpu, cuda:sm_90a, .. */
SHARDC_API const char *shardc_executable_facts(const shardc_executable *program);   /* JSON; the executable's */

/* A state, an input or an output. Texts are the executable's. */
typedef struct shardc_tensor_info {
    const char *name;  /* of a state its path, layers[0].attn.wq; an output may have none: "" */
    const char *kind;  /* of a state: param, cache, grad, opt, scalar, gathered, sum; else input, output */
    const char *dtype; /* f32, f64, bf16, f16, i32, i64, u8, bool */
    uint32_t rank;
    struct {
        const char *name;
        int64_t size;  /* of the whole */
        int64_t local; /* of a rank's shard, with padding */
    } dims[SHARDC_TENSOR_MAX_RANK];
    int64_t count, local_count; /* elements: of the whole, of a rank */
    int32_t batch_dim;          /* of an input: the dim that micro-batches split, or -1 */
    int64_t below;              /* of an input of ids: each is at least 0 and less than this; 0: nothing is known of its values */
    bool may_ignore;            /* or the id is `ignore`, which stands for none */
    int64_t ignore;
    bool is_pending;    /* ranks hold terms of a reduction; values cross the interface reduced */
    const void *tensor; /* for shardc_tensor_shard */
} shardc_tensor_info;

SHARDC_API uint32_t shardc_executable_state_count(const shardc_executable *program);
SHARDC_API uint32_t shardc_executable_find_state(const shardc_executable *program, const char *path); /* SHARDC_NOT_FOUND */
SHARDC_API void shardc_executable_state(const shardc_executable *program, uint32_t state, shardc_tensor_info *out);

SHARDC_API uint32_t shardc_executable_func_count(const shardc_executable *program);
SHARDC_API uint32_t shardc_executable_find_func(const shardc_executable *program, const char *name); /* SHARDC_NOT_FOUND */
SHARDC_API const char *shardc_executable_func(const shardc_executable *program, uint32_t func);
SHARDC_API uint32_t shardc_executable_input_count(const shardc_executable *program, uint32_t func);
SHARDC_API uint32_t shardc_executable_output_count(const shardc_executable *program, uint32_t func);
SHARDC_API void shardc_executable_input(const shardc_executable *program, uint32_t func, uint32_t input, shardc_tensor_info *out);
SHARDC_API void shardc_executable_output(const shardc_executable *program, uint32_t func, uint32_t output, shardc_tensor_info *out);

/* The calls of a step, in order: the function and its micro-batch, or -1. */
SHARDC_API uint32_t shardc_executable_call_count(const shardc_executable *program);
SHARDC_API uint32_t shardc_executable_call(const shardc_executable *program, uint32_t call, int32_t *out_micro_batch);
SHARDC_API uint32_t shardc_executable_micro_batches(const shardc_executable *program); /* of a step; 1 when nothing is split */

/* Where the rank's shard begins, by dim: element i of the shard is element first + i of the whole, as far as there is one. Returns whether
 * this rank is the first of those that hold the same shard. */
SHARDC_API bool shardc_tensor_shard(const shardc_tensor_info *info, uint64_t rank, int64_t first[SHARDC_TENSOR_MAX_RANK]);

/* ---- sessions ---- */

typedef struct shardc_session shardc_session;

typedef enum shardc_world {
    SHARDC_WORLD_LOCAL,    /* all ranks are threads of this process */
    SHARDC_WORLD_MPI,      /* this process is one rank of the MPI job in which it was started */
    SHARDC_WORLD_TCP,      /* one of those that torchrun, Slurm or RANK and WORLD_SIZE started, which find each other over TCP */
    SHARDC_WORLD_PROCESSES /* TCP, or MPI where mpirun started them, or Slurm without MASTER_PORT */
} shardc_world;

typedef struct shardc_session_options {
    shardc_world world;
    uint32_t threads;     /* that compute, in this process, for all its ranks; 0: OMP_NUM_THREADS, else one a core */
    uint32_t deadline_ms; /* of one collective; 0: none, but processes of which nothing is heard for five minutes are lost */
    bool profile;         /* measure instructions, for shardc_session_profile */
    const char *products; /* cards: a file with what cuBLASLt says of the products, which is read, and written where more was asked;
                             several processes may use it at once. NULL: none */
    const char *started_with; /* processes: lines "NAME VALUE" that must be the same on all ranks; at the start the first that is not is named
                                 in an error of all. NULL: none */
    bool tune;            /* cards: measure several algorithms of each product, and take the fastest; of several processes the first
                             writes the file */
} shardc_session_options;

/* `options` NULL: all zero. State begins as zeros. Fails with SHARDC_ERROR_ARGUMENT when the job has another number of ranks, or another
 * program. */
SHARDC_API shardc_status shardc_session_new(const shardc_executable *program, const shardc_session_options *options, shardc_session **out,
                                            shardc_error *error);
SHARDC_API void shardc_session_free(shardc_session *session); /* NULL is allowed */

/* How the products of a program for cards are computed: by the algorithms that cuBLASLt chooses, which it is asked for once a program, kind
 * of card and version of the library where options.products names a file. */
typedef struct shardc_products {
    uint32_t count;                   /* of the program; 0: it is not for cards */
    uint32_t kept, asked, measured;   /* answers: from the file; of the library; of these, those that were measured. Of all cards here */
    uint32_t faster;                  /* measured: not the library's first choice */
    double first, least;              /* measured: seconds of one call of each, by the library's first choices and by those taken */
    bool is_written;                  /* the file */
    char unread[400], unwritten[400]; /* why the file was not used, or not written; "": nothing went wrong */
} shardc_products;

SHARDC_API void shardc_session_products(const shardc_session *session, shardc_products *out);

/* Ranks of this process: all of them, or one. */
SHARDC_API uint32_t shardc_session_local_ranks(const shardc_session *session, uint32_t *out_first);

/* What random numbers depend on: parameters on the seed; dropout on all three. A step sets the micro-batch itself. Zeros before. */
SHARDC_API void shardc_session_set_random(shardc_session *session, uint64_t seed, uint64_t step, uint32_t micro_batch);

/* ---- state ----
 * `dtype`: of the elements at `data`; NULL: as the state's. `bytes`: of all that is at `data`, exactly the whole value's where it is read,
 * at least that where it is written; else SHARDC_ERROR_ARGUMENT. Integers that the state's dtype does not hold are SHARDC_ERROR_DATA;
 * floats round to nearest even. Among processes every rank makes the same calls, and gives and gets whole values. */

/* Initial values, by the seed: the same bits on every mesh. A master copy gets its parameter's, in its own precision. */
SHARDC_API shardc_status shardc_session_initialise(shardc_session *session, shardc_error *error);
/* A parameter's master copy is set with it. */
SHARDC_API shardc_status shardc_session_set_state(shardc_session *session, uint32_t state, const void *data, size_t bytes,
                                                  const char *dtype, shardc_error *error);
SHARDC_API shardc_status shardc_session_get_state(shardc_session *session, uint32_t state, void *data, size_t bytes, const char *dtype,
                                                  shardc_error *error);
/* A rank's shard as it lies in memory; the rank is one of this process. The pointer lives as long as the session, and may be written to
 * while nothing runs. NULL: no such rank or state, or the memory is a card's. */
SHARDC_API void *shardc_session_local_state(shardc_session *session, uint32_t state, uint32_t rank);

/* Parameters from a safetensors file or folder, through the weights map that the program carries; without one its tensors are called like
 * the parameters. With `all`, every parameter and all optimizer state, called by their paths, as shardc_session_save wrote them. All or
 * nothing: what is missing, or of another shape, is an error before anything changes. */
SHARDC_API shardc_status shardc_session_load(shardc_session *session, const char *path, bool all, shardc_error *error);
/* Parameters, through the program's weights map as for loading; with `all` parameters and optimizer state by their paths; in their dtypes.
 * Among processes rank 0 writes. */
SHARDC_API shardc_status shardc_session_save(shardc_session *session, const char *path, bool all, shardc_error *error);

/* ---- running ---- */

typedef struct shardc_feed_value {
    const char *name;  /* of the input */
    const void *data;  /* whole; for a step, of all micro-batches: the batch dim is as many times larger */
    size_t bytes;      /* of all that is at data: exactly the whole value's */
    const char *dtype; /* of the elements at data; NULL: as the input's */
} shardc_feed_value;

typedef struct shardc_fetch_value {
    uint32_t output;   /* of the function; for a step, of the last call's */
    void *data;        /* whole */
    size_t bytes;      /* of the room at data: at least the whole value's */
    const char *dtype; /* wanted; NULL: as the output's */
} shardc_fetch_value;

/* Runs one function: its inputs, each once, in any order; as many outputs as are wanted. Inputs are checked before anything runs, sizes,
 * dtypes and ids out of range (`below`) of all micro-batches: after SHARDC_ERROR_ARGUMENT, or SHARDC_ERROR_DATA that names an element of
 * an input and its row, all state is as it was. What the model computes itself is checked where it is used: such a check that fails is
 * SHARDC_ERROR_DATA, with the check, the place in the model and the rank; the function still runs to its end everywhere, so state that it
 * changes is undefined, and the session can go on. */
SHARDC_API shardc_status shardc_session_run(shardc_session *session, uint32_t func, const shardc_feed_value *feeds, size_t feed_count,
                                            const shardc_fetch_value *fetches, size_t fetch_count, shardc_error *error);
/* Runs a step: every call of the schedule. Stops after a call that fails. */
SHARDC_API shardc_status shardc_session_step(shardc_session *session, const shardc_feed_value *feeds, size_t feed_count,
                                             const shardc_fetch_value *fetches, size_t fetch_count, shardc_error *error);

/* ---- training ---- */

/* The optimizers of a train step: their rates and what else changes from step to step, as the model's `minimize` says. */
typedef struct shardc_stepper shardc_stepper;

/* The program outlives it. SHARDC_ERROR_ARGUMENT: it is no train step, or an image without facts. */
SHARDC_API shardc_status shardc_stepper_new(const shardc_executable *program, shardc_stepper **out, shardc_error *error);
SHARDC_API void shardc_stepper_free(shardc_stepper *stepper); /* NULL is allowed */

/* Before shardc_session_step: makes the session ready for step number `step`, from 1: learning rates, bias corrections, random numbers. */
SHARDC_API shardc_status shardc_stepper_begin(shardc_stepper *stepper, shardc_session *session, uint64_t seed, uint64_t step,
                                              shardc_error *error);

/* ---- measuring ---- */

typedef enum shardc_work {
    SHARDC_WORK_KERNEL,
    SHARDC_WORK_ATTENTION,
    SHARDC_WORK_GEMM,
    SHARDC_WORK_COMM,
    SHARDC_WORK_WAIT,
    SHARDC_WORK_COPY,
    SHARDC_WORK_KINDS
} shardc_work;

/* What one rank of this process did in calls of a function since the last reset. */
typedef struct shardc_func_profile {
    uint64_t calls;
    double seconds;                 /* of whole calls */
    double work[SHARDC_WORK_KINDS]; /* seconds; zeros unless options.profile. COMM: starting collectives, WAIT: waiting for their end */
    uint64_t collectives[8];        /* calls, by kind: all_gather, reduce_scatter, all_reduce, all_to_all, permute, broadcast, send, recv */
    double sent[8];                 /* bytes that the rank sends, as `shardc comm` counts them */
} shardc_func_profile;

SHARDC_API void shardc_session_profile(const shardc_session *session, uint32_t func, uint32_t rank, shardc_func_profile *out);
SHARDC_API void shardc_session_reset_profile(shardc_session *session);

/* One instruction, as it ends. Texts are the executable's. */
typedef struct shardc_trace_event {
    uint32_t rank, func, instr;
    shardc_work work;
    const char *title; /* what it computes, or the collective's kind */
    const char *where, *phase;
    double begin, end; /* seconds of a monotonic clock */
} shardc_trace_event;

/* Calls `trace` from the ranks' threads, several at once; NULL: no more. Not while something runs. */
SHARDC_API void shardc_session_set_trace(shardc_session *session, void (*trace)(void *user, const shardc_trace_event *event), void *user);

#ifdef __cplusplus
}
#endif

#endif
