/* Internals of the CUDA device: the state of a session and its ranks on GPUs. Driver functions come
 * from runtime/cuda/libcuda.h; every result is checked, and errors name the call. */
#ifndef SHARDC_RUNTIME_CUDA_RANK_H
#define SHARDC_RUNTIME_CUDA_RANK_H

#include <pthread.h>

#include "runtime/cuda/algorithm_cache.h"
#include "runtime/cuda/libcublaslt.h"
#include "runtime/cuda/libcuda.h"
#include "runtime/cuda/libnccl.h"
#include "runtime/session/device.h"

/* The loaded code of one image on a GPU. */
typedef struct sc_cuda_loaded_code {
    /* by kernel of the image, then the module of reductions; NULL: not loaded */
    sc_cu_module *modules;
    sc_cu_function (*functions)[SC_IMAGE_MAX_STAGES];            /* by kernel and launch */
    sc_cu_function reductions[SC_DTYPE_COUNT][SC_IMAGE_REDUCES]; /* if ranks share the GPU */
} sc_cuda_loaded_code;

/* A GPU used by ranks of this process, with their code loaded. */
typedef struct sc_cuda_gpu {
    int ordinal;
    char name[64];
    uint32_t capability; /* 90 for 9.0 */
    sc_cu_device device;
    sc_cu_context context;
    /* index of its kind in the algorithm cache */
    uint32_t kind;
    sc_cuda_loaded_code *codes; /* by stage of the program; empty if no rank on the GPU is of it */
} sc_cuda_gpu;

typedef struct sc_cuda_session {
    sc_cuda api;
    sc_cublaslt lt;                /* library NULL: the program has no GEMMs */
    sc_nccl nccl;                  /* library NULL: ranks share a GPU, or there is only one rank */
    sc_algorithm_cache algorithms; /* if the program has GEMMs */
    bool is_nccl_alone;            /* $SHARDC_NCCL_ALONE: the only rank uses NCCL */
    uint32_t gpu_count;
    sc_cuda_gpu *gpus;
    pthread_mutex_t
        messages; /* protects what ranks that share a GPU see of each other's messages */
} sc_cuda_session;

typedef struct sc_cuda_matmul sc_cuda_matmul;   /* runtime/cuda/gemm.c */
typedef struct sc_cuda_message sc_cuda_message; /* runtime/cuda/messages.h */

/* How a rank's collectives run on the streams of their groups, and messages on their boundaries'
 * streams: between ranks that share a GPU, or by NCCL. Work that `start` puts on the stream is
 * ordered after everything on the members' streams 0 at that time; `finish` makes stream 0 wait for
 * it. */
typedef struct sc_cuda_comm {
    const char *name;
    /* its calls can be captured in a graph */
    bool is_captured;
    /* called again after the world was lost */
    shardc_status (*open)(sc_rank *rank, shardc_error *error);
    /* close and `abort`: by then no graph contains its calls */
    void (*close)(sc_rank *rank);
    shardc_status (*start)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*finish)(sc_rank *rank, sc_bound *started, shardc_error *error);
    /* Puts a message on its boundary's stream, and the event `done` behind it, without waiting for
     * the other end. */
    shardc_status (*transmit)(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                              shardc_error *error);
    /* Called before anything waits for `done`. NULL: not needed. */
    shardc_status (*meet)(sc_rank *rank, uint32_t boundary, sc_cuda_message *message,
                          shardc_error *error);
    /* Checks for errors elsewhere while the host waits. NULL: not needed, because members meet
     * before anything waits for them. */
    shardc_status (*poll)(sc_rank *rank, shardc_error *error);
    void (*abort)(sc_rank *rank, const char *why);
} sc_cuda_comm;

extern const sc_cuda_comm sc_cuda_comm_local, sc_cuda_comm_nccl;

/* A function captured as a graph, after it ran once without. */
typedef struct sc_cuda_graph {
    sc_cu_graph_exec exec; /* NULL: none yet */
    uint32_t runs;
    uint32_t micro_batch;
    uint64_t seed;
    bool is_refused; /* recording it has failed, and is not tried again */
} sc_cuda_graph;

/* Device data of a bound instruction. */
typedef struct sc_cuda_bound {
    /* KERNEL: addresses of the parameters' values, for cuLaunchKernel */
    void **launch;
    uint64_t *values;              /* KERNEL: arguments, params, sc_call, sc_failure */
    uint32_t slot;                 /* KERNEL: index in `failures`; 0: it cannot fail */
    sc_cu_event ready, half, done; /* COLLECTIVE, TRANSFER; half: only of an all_reduce */
    sc_cu_stream stream;           /* COLLECTIVE: that of its group */
} sc_cuda_bound;

typedef struct sc_cuda_times sc_cuda_times; /* runtime/cuda/timing.c */

/* How far the collectives of a call are (waiting.c). */
typedef struct sc_cuda_progress {
    sc_cu_stream stream;
    sc_cu_event end;
    sc_cu_address numbers; /* uint32_t: 1, 2, 3, .. */
    uint32_t *word;        /* pinned: the steps that a graph has done */
    uint32_t marked;       /* in the current capture */
    uint32_t steps, at;    /* that the host has seen done, and the instruction of the next */
} sc_cuda_progress;

enum { SC_CUDA_COLLECTIVES = 1 /* stream of an instruction (program/format.h) */ };

typedef struct sc_cuda_rank {
    sc_cuda_session *session;
    sc_cuda_gpu *gpu;
    const sc_cuda_loaded_code *code; /* of the rank's stage */
    const sc_cuda_comm *comm;        /* NULL: not yet open */
    void *comm_state;
    /* Of instructions but collectives: `streams` has none at their index. Each group of ranks has a
     * stream for its collectives, so that none waits for one of another group that is not needed
     * yet. */
    sc_cu_stream streams[SC_IMAGE_STREAMS], *group_streams;
    sc_cu_event finished;
    sc_cu_address memory;    /* the allocation that contains the arena */
    sc_cu_address call;      /* int64_t: the train step number; the second half is scratch */
    sc_cu_address failures;  /* uint64_t: by slot */
    uint32_t slot_count;     /* slot 0 is unused */
    uint64_t *host_failures; /* pinned: slot_count failures, then the step */
    void *staging;           /* pinned */
    sc_lt_handle lt;
    sc_cuda_matmul **matmuls; /* by GEMM of the image */
    uint32_t first_gemm;   /* number in the algorithm cache: GEMMs of earlier stages come first */
    uint32_t batches;      /* micro-batches per step: each has its own graphs */
    sc_cuda_graph *graphs; /* by function and micro-batch */
    sc_cuda_graph *graph;  /* of the current call; NULL: between calls */
    bool is_capturing, is_graph;       /* the current call is recorded; is one graph */
    shardc_graph_report report;        /* of this rank */
    sc_cuda_times *times;              /* NULL: nothing measured yet */
    sc_cuda_progress *progress;        /* NULL: no collective of the rank's may hang */
    struct sc_cuda_messages *messages; /* NULL: the rank's stage has no boundaries */
    uint32_t next_wait;                /* of a measured call: index after the last WAIT */
} sc_cuda_rank;

enum {
    SC_CUDA_STAGING = 16 << 20,
    SC_CUDA_CALL_BYTES = 64,
    SC_CUDA_MAX_SHARING = 16 /* ranks per GPU; codegen/cuda/reduce_ranks.h has as many sources */
};

/* ---- context.c ---- */
/* Restores the context that an application's thread had. Returns `status`, or the failure to
 * restore. */
shardc_status sc_cuda_give_back(const sc_cuda *api, sc_cu_context context, shardc_status status,
                                shardc_error *error);
shardc_status sc_cuda_check_machine(const shardc_session *session, shardc_error *error);
shardc_status sc_cuda_open_gpus(shardc_session *session, shardc_error *error);
void sc_cuda_close_gpus(shardc_session *session);
/* Returns the GPU of a rank of this process. */
sc_cuda_gpu *sc_cuda_gpu_of(const sc_rank *rank);

/* ---- calls.c ---- */
/* `out_done`: a graph did the call; its instructions are not run one by one. */
shardc_status sc_cuda_begin_call(sc_rank *rank, uint32_t func, uint32_t micro_batch, bool *out_done,
                                 shardc_error *error);
shardc_status sc_cuda_end_call(sc_rank *rank, uint32_t func, bool failed, shardc_error *error);
/* Ends a capture and launches the graph. If it was refused, the call goes on without. */
shardc_status sc_cuda_settle_call(sc_rank *rank, uint32_t func, shardc_status status,
                                  bool *out_again, shardc_error *error);
void sc_cuda_drop_graphs(sc_rank *rank);
void sc_cuda_graphs(const shardc_session *session, shardc_graph_report *out);
/* After an error: waits until nothing of the rank's is in flight, so that its work does not run
 * into the next call or outlive the buffers. */
void sc_cuda_give_up(sc_rank *rank, const char *why);

/* ---- waiting.c ---- */
uint32_t sc_cuda_current_func(const sc_cuda_rank *own); /* of the current call */
/* Waits for an event on the host. `may_hang`: other ranks may be missing; then it polls them and
 * applies the session's deadline, and an error names what the rank waits for. */
shardc_status sc_cuda_wait(sc_rank *rank, sc_cu_event event, bool may_hang, shardc_error *error);
/* How far the collectives of a call are. Close it after a failure too. */
shardc_status sc_cuda_progress_open(sc_rank *rank, shardc_error *error);
void sc_cuda_progress_close(sc_rank *rank);
/* In a capture: after `event`, which its stream has just recorded, the next step is done. Outside a
 * no-op. */
shardc_status sc_cuda_progress_mark(sc_rank *rank, sc_cu_event event, const char *where,
                                    shardc_error *error);
shardc_status sc_cuda_progress_join(sc_rank *rank, shardc_error *error); /* before its end */
void sc_cuda_progress_begin(sc_rank *rank);                              /* of a call */

/* ---- transfers.c ---- */
/* Allocates rank->host, pinned and zeroed; close it after a failure too. */
shardc_status sc_cuda_host_open(sc_rank *rank, shardc_error *error);
void sc_cuda_host_close(sc_rank *rank);
shardc_status sc_cuda_transfer(sc_rank *rank, sc_bound *bound, shardc_error *error);

/* ---- gemm.c ---- */
/* Creates the plan for all calls of GEMM `gemm`, whose addresses are bound. */
shardc_status sc_cuda_matmul_new(sc_rank *rank, uint32_t gemm, bool counts, sc_cuda_matmul **out,
                                 shardc_error *error);
/* True if a rank with the same kind of GPU has compared the matmul with what stands for it. */
bool sc_cuda_matmul_is_compared(sc_rank *rank, uint32_t gemm, const sc_cuda_matmul *matmul);
/* Notes the outcome, for other ranks and in the file. `is_apart`: what stands for the matmul runs
 * from now on; frees *matmul. */
shardc_status sc_cuda_matmul_compared(sc_rank *rank, uint32_t gemm, bool is_apart,
                                      sc_cuda_matmul **matmul, shardc_error *error);
void sc_cuda_matmul_free(const sc_cublaslt *lt, sc_cuda_matmul *matmul);
shardc_status sc_cuda_matmul_run(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *matmul,
                                 shardc_error *error);

/* ---- gemm_plans.c ---- */
/* If the program has GEMMs, opens cuBLASLt and reads the algorithm cache. Close it after a failure
 * too, and when there are no GEMMs. */
shardc_status sc_cuda_gemm_plans_open(shardc_session *session, shardc_error *error);
void sc_cuda_gemm_plans_close(sc_cuda_session *session);
void sc_cuda_gemm_tuning(const shardc_session *session, shardc_gemm_tuning *out);
/* Creates the GEMM plans of a rank whose instructions are bound. */
shardc_status sc_cuda_gemm_plans_make(sc_rank *rank, shardc_error *error);
void sc_cuda_gemm_plans_free(sc_rank *rank);

/* ---- timing.c ---- */
/* Two for the instruction itself, two for the wait of its FINISH. */
typedef enum sc_cuda_moment {
    SC_CUDA_RUNS,
    SC_CUDA_RAN,
    SC_CUDA_WAITS,
    SC_CUDA_WAITED,
    SC_CUDA_MOMENTS
} sc_cuda_moment;

/* Returns whether instructions are measured. If so, for each call: sc_cuda_times_begin;
 * sc_cuda_times_mark around each instruction (otherwise a no-op); sc_cuda_times_open once all are
 * on the streams or the call is abandoned; the times are available after the call. */
bool sc_cuda_times_wanted(const sc_rank *rank);
shardc_status sc_cuda_times_begin(sc_rank *rank, uint32_t func, bool ran_before,
                                  shardc_error *error);
shardc_status sc_cuda_times_mark(sc_rank *rank, const sc_bound *bound, sc_cuda_moment moment,
                                 uint32_t stream, shardc_error *error);
void sc_cuda_times_open(sc_rank *rank);
shardc_status sc_cuda_times_of(sc_rank *rank, uint32_t func, uint32_t instr, bool *out_ran,
                               double *out_begin, double *out_end, shardc_error *error);
void sc_cuda_times_free(sc_rank *rank); /* NULL is allowed */

/* ---- group_streams.c ---- */
/* Creates the streams of the rank's groups. */
shardc_status sc_cuda_group_streams_open(sc_rank *rank, shardc_error *error);
void sc_cuda_group_streams_wait(const sc_rank *rank); /* errors come later */
void sc_cuda_group_streams_close(sc_rank *rank);
/* The stream that the instruction runs on. */
sc_cu_stream sc_cuda_stream_of(const sc_rank *rank, const sc_bound *bound);

/* ---- launch.c ---- */
/* Enqueues the stages of a kernel. */
shardc_status sc_cuda_launch(sc_rank *rank, sc_bound *bound, uint32_t micro_batch,
                             shardc_error *error);

/* ---- timing.c ---- */
/* Work that is enqueued on stream 0, for measuring. */
typedef shardc_status sc_cuda_work(sc_rank *rank, void *user, shardc_error *error);
/* Measures the seconds of one call of the work on an idle GPU: the minimum of several rounds, each
 * long enough for the clock's resolution. */
shardc_status sc_cuda_seconds_of(sc_rank *rank, sc_cuda_work *work, void *user, double *out,
                                 shardc_error *error);

#endif
