/* Running compiled programs.
 *
 * An executable is a compiled program, read and checked. A session holds one in memory, ready to
 * run: its ranks (threads of this process, or this process as one rank of several processes), their
 * arenas with all state, and their threads. Once a session has started, running it allocates
 * nothing.
 *
 * Tensors are passed as full (unsharded) arrays, row-major, in the order of the tensor's dims, in
 * the dtype that the caller names; sharding and padding are handled internally. A rank's own shard
 * can be read as well (shardc_session_local_state).
 *
 *     #include <shardc/runtime.h>
 *
 *     shardc_status train_step(const int32_t tokens[8], uint64_t step, float *loss,
 *                              shardc_error *error)
 *     {
 *         shardc_executable *program = NULL;
 *         shardc_session *session = NULL;
 *         shardc_feed_value feed = {"tokens", tokens, 8 * sizeof *tokens, "i32"};
 *         shardc_fetch_value fetch = {.output = 0, loss, sizeof *loss, "f32"};
 *
 *         shardc_status status = shardc_executable_open("step.shardx", &program, error);
 *         if (status == SHARDC_OK)
 *             status = shardc_session_new(program, NULL, &session, error);
 *         if (status == SHARDC_OK)
 *             status = shardc_session_initialise(session, error);
 *         if (status == SHARDC_OK) {
 *             shardc_session_set_random(session, 1, step, 0);
 *             status = shardc_session_step(session, &feed, 1, &fetch, 1, error);
 *         }
 *         shardc_session_free(session);
 *         shardc_executable_free(program);
 *         return status;
 *     }
 *
 * Ownership: whoever creates an object frees it; arguments are not kept after the call returns,
 * unless said otherwise. Threads: an executable may be used by many threads at once, a session by
 * one at a time; sessions are independent of each other. Errors: a call that fails returns its
 * status and fills `error` (which may be NULL); outputs are then undefined. Statuses:
 * SHARDC_ERROR_MEMORY; SHARDC_ERROR_ARGUMENT, the call is invalid; SHARDC_ERROR_DATA, a file or a
 * value is invalid; SHARDC_ERROR_COMM and SHARDC_ERROR_TIMEOUT, a rank was lost;
 * SHARDC_ERROR_DEVICE, the kernels cannot be loaded or failed; SHARDC_ERROR_UNAVAILABLE, this
 * machine lacks something (a CPU that executes the kernels, a GPU, MPI). */
#ifndef SHARDC_RUNTIME_H
#define SHARDC_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/executable.h"
#include "shardc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- sessions ---- */

typedef struct shardc_session shardc_session;

typedef enum shardc_world {
    SHARDC_WORLD_LOCAL, /* all ranks are threads of this process */
    SHARDC_WORLD_MPI,   /* this process is one rank of the MPI job in which it was started */
    /* one of those that torchrun, Slurm or RANK and WORLD_SIZE started, which find each other over
       TCP */
    SHARDC_WORLD_TCP,
    /* MPI when mpirun, or Slurm without MASTER_PORT, started this process; else TCP */
    SHARDC_WORLD_PROCESSES
} shardc_world;

typedef struct shardc_session_options {
    shardc_world world;
    /* of this process, for all its ranks; 0: OMP_NUM_THREADS, else one a core */
    uint32_t threads;
    /* of one collective; 0: none, but a process that is silent for five minutes counts as lost */
    uint32_t deadline_ms;
    bool profile; /* measure instructions, for shardc_session_profile */
    /* GPUs: the file of the GEMM algorithms that cuBLASLt chose. It is read first, and rewritten
     * when more were queried; several processes may share it. NULL: none */
    const char *gemm_cache;
    /* processes: lines "NAME VALUE" that must be the same on all ranks; the first that differs is
     * named in an error on all of them. NULL: none */
    const char *started_with;
    /* GPUs: measure several algorithms of each GEMM and take the fastest; of several processes the
     * first writes the file */
    bool tune_gemms;
    /* CPUs: the folder in which a file of each rank is its host memory, for `offload`; the file has
     * no name and ends with the session. NULL: memory */
    const char *host_memory;
} shardc_session_options;

/* `options` NULL: all zero. State begins as zeros. Fails with SHARDC_ERROR_ARGUMENT when the job
 * has another number of ranks, or another program. */
SHARDC_API shardc_status shardc_session_new(const shardc_executable *program,
                                            const shardc_session_options *options,
                                            shardc_session **out, shardc_error *error);
SHARDC_API void shardc_session_free(shardc_session *session); /* NULL is allowed */

/* How the GEMMs of a program for GPUs got their algorithms. cuBLASLt is queried once a program,
 * kind of GPU and version of the library, when options.gemm_cache names a file
 * (cublasLtMatmulAlgoGetHeuristic). Counts cover all GPUs of this process. */
typedef struct shardc_gemm_tuning {
    uint32_t gemms;               /* of the program; 0: it is not for GPUs */
    uint32_t from_cache, queried; /* algorithms from the file, and from the library */
    /* of the queried ones: measured, and then not the library's first choice */
    uint32_t measured, improved;
    uint32_t apart; /* whose epilogue is faster apart from them: kernels, and a matmul without it */
    /* of one call of each measured GEMM: by the library's first choice, and by the one taken */
    double first_seconds, best_seconds;
    bool is_saved; /* the file was written */
    /* why the file was not used, or not written; "": no failure */
    char read_error[400], write_error[400];
} shardc_gemm_tuning;

SHARDC_API void shardc_session_gemm_tuning(const shardc_session *session, shardc_gemm_tuning *out);

/* On GPUs a function is recorded as a graph when it runs for the second time. One that cannot be is
 * launched kernel by kernel, in that call and all later ones, with the same results. */
typedef struct shardc_graph_report {
    uint32_t refused; /* functions of this process's ranks that could not be recorded */
    char reason[400]; /* of one of them: the rank, the function and why; "": there is none */
} shardc_graph_report;

/* Must not be called while something runs. */
SHARDC_API void shardc_session_graphs(const shardc_session *session, shardc_graph_report *out);

/* Ranks of this process: all of them, or one. */
SHARDC_API uint32_t shardc_session_local_ranks(const shardc_session *session, uint32_t *out_first);

/* Seeds random numbers: initial parameters depend on the seed, dropout on all three. A step sets
 * the micro-batch itself. All are 0 at first. */
SHARDC_API void shardc_session_set_random(shardc_session *session, uint64_t seed, uint64_t step,
                                          uint32_t micro_batch);

/* ---- state ----
 * `dtype` is that of the elements at `data`; NULL: the state's own. `bytes` is the size of the
 * array at `data`: exactly the full tensor's where it is read, at least that where it is written;
 * else SHARDC_ERROR_ARGUMENT. Integers that the state's dtype cannot represent are
 * SHARDC_ERROR_DATA; floats round to nearest even. With several processes every rank makes the same
 * calls, with full tensors. */

/* Sets initial values from the seed: the same bits on every mesh. A master copy gets its
 * parameter's, in its own precision. */
SHARDC_API shardc_status shardc_session_initialise(shardc_session *session, shardc_error *error);
/* A parameter's master copy is set as well. */
SHARDC_API shardc_status shardc_session_set_state(shardc_session *session, uint32_t state,
                                                  const void *data, size_t bytes, const char *dtype,
                                                  shardc_error *error);
SHARDC_API shardc_status shardc_session_get_state(shardc_session *session, uint32_t state,
                                                  void *data, size_t bytes, const char *dtype,
                                                  shardc_error *error);
/* A rank's shard in place; the rank is one of this process. The pointer is valid as long as the
 * session, and may be written through while nothing runs. NULL: no such rank or state, or the
 * memory is a GPU's. */
SHARDC_API void *shardc_session_local_state(shardc_session *session, uint32_t state, uint32_t rank);

/* Loads parameters from a safetensors file or folder through the program's weights map; without a
 * map, tensors are named as the parameters. With `all`, loads every parameter and all optimizer
 * state by their paths, as shardc_session_save wrote them. All or nothing: a missing tensor or one
 * of another shape is an error before anything changes. */
SHARDC_API shardc_status shardc_session_load(shardc_session *session, const char *path, bool all,
                                             shardc_error *error);
/* Saves parameters through the program's weights map; with `all`, parameters and optimizer state by
 * their paths; in their own dtypes. Of several processes rank 0 writes. */
SHARDC_API shardc_status shardc_session_save(shardc_session *session, const char *path, bool all,
                                             shardc_error *error);

/* ---- running ---- */

typedef struct shardc_feed_value {
    const char *name; /* of the input */
    /* the full tensor; for a step, of all micro-batches: the batch dim is that many times larger */
    const void *data;
    size_t bytes;      /* of the array at data: exactly the full tensor's */
    const char *dtype; /* of the elements at data; NULL: as the input's */
} shardc_feed_value;

typedef struct shardc_fetch_value {
    uint32_t output;   /* of the function; for a step, of the last call's */
    void *data;        /* the full tensor */
    size_t bytes;      /* of the array at data: at least the full tensor's */
    const char *dtype; /* wanted; NULL: as the output's */
} shardc_fetch_value;

/* Runs one function. Feeds: each input once, in any order. Fetches: any outputs. Inputs are checked
 * before anything runs (sizes, dtypes, ids out of range, of all micro-batches): after
 * SHARDC_ERROR_ARGUMENT, or SHARDC_ERROR_DATA that names an element of an input, all state is
 * unchanged. Values that the model computes are checked where they are used: a check that fails is
 * SHARDC_ERROR_DATA with the check, the place in the model and the rank. The function then still
 * runs to its end on all ranks, the state that it changes is undefined, and the session stays
 * usable. */
SHARDC_API shardc_status shardc_session_run(shardc_session *session, uint32_t func,
                                            const shardc_feed_value *feeds, size_t feed_count,
                                            const shardc_fetch_value *fetches, size_t fetch_count,
                                            shardc_error *error);
/* Runs a step: every call of the schedule. Stops after a call that fails. */
SHARDC_API shardc_status shardc_session_step(shardc_session *session,
                                             const shardc_feed_value *feeds, size_t feed_count,
                                             const shardc_fetch_value *fetches, size_t fetch_count,
                                             shardc_error *error);

/* ---- training ---- */

/* The optimizers' scalars of a train step, as the model's `minimize` says: learning rates, bias
 * corrections. */
typedef struct shardc_stepper shardc_stepper;

/* `program` must outlive the stepper. SHARDC_ERROR_ARGUMENT: the program is not a train step. */
SHARDC_API shardc_status shardc_stepper_new(const shardc_executable *program, shardc_stepper **out,
                                            shardc_error *error);
SHARDC_API void shardc_stepper_free(shardc_stepper *stepper); /* NULL is allowed */

/* Sets what step number `step` (from 1) needs, before shardc_session_step: learning rates, bias
 * corrections, random numbers. */
SHARDC_API shardc_status shardc_stepper_begin(shardc_stepper *stepper, shardc_session *session,
                                              uint64_t seed, uint64_t step, shardc_error *error);

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
    double seconds; /* of calls from begin to end */
    /* seconds; zeros unless options.profile. COMM: starting collectives; WAIT: waiting for them */
    double work[SHARDC_WORK_KINDS];
    /* calls, by kind: all_gather, reduce_scatter, all_reduce, all_to_all, permute, broadcast, send,
     * recv */
    uint64_t collectives[8];
    double sent[8]; /* bytes that the rank sends, as `shardc comm` counts them */
} shardc_func_profile;

SHARDC_API void shardc_session_profile(const shardc_session *session, uint32_t func, uint32_t rank,
                                       shardc_func_profile *out);
SHARDC_API void shardc_session_reset_profile(shardc_session *session);

/* One instruction, when it ends. The strings belong to the executable. */
typedef struct shardc_trace_event {
    uint32_t rank, func, instr;
    shardc_work work;
    const char *title; /* what it computes, or the collective's kind */
    const char *where, *phase;
    double begin, end; /* seconds of a monotonic clock */
} shardc_trace_event;

/* `trace` is called from the ranks' threads, several at once; NULL turns it off. Must not be called
 * while something runs. */
SHARDC_API void shardc_session_set_trace(shardc_session *session,
                                         void (*trace)(void *user, const shardc_trace_event *event),
                                         void *user);

#ifdef __cplusplus
}
#endif

#endif
