/* The inside of the device `cuda`: what a session and its ranks have on GPUs. The driver's functions come from runtime/cuda/libcuda.h;
 * every result is checked and named. */
#ifndef SHARDC_RUNTIME_CUDA_RANK_H
#define SHARDC_RUNTIME_CUDA_RANK_H

#include "runtime/cuda/algorithm_cache.h"
#include "runtime/cuda/libcublaslt.h"
#include "runtime/cuda/libcuda.h"
#include "runtime/cuda/libnccl.h"
#include "runtime/session/device.h"

/* A GPU that ranks of this process use, with the program's code on it. */
typedef struct sc_cuda_gpu {
    int ordinal;
    char name[64];
    uint32_t capability; /* 90 is 9.0 */
    sc_cu_device device;
    sc_cu_context context;
    uint32_t kind;                                               /* of the session's choices */
    sc_cu_module *modules;                                       /* by kernel of the image, then that of reductions */
    sc_cu_function (*functions)[SC_IMAGE_MAX_STAGES];            /* by kernel and stage */
    sc_cu_function reductions[SC_DTYPE_COUNT][SC_IMAGE_REDUCES]; /* where ranks share the GPU */
} sc_cuda_gpu;

typedef struct sc_cuda_session {
    sc_cuda api;
    sc_cublaslt lt;          /* library NULL: the program has no products */
    sc_nccl nccl;            /* library NULL: ranks share a GPU, or there is one */
    sc_cuda_choices choices; /* where there are products */
    uint32_t gpu_count;
    sc_cuda_gpu *gpus;
} sc_cuda_session;

typedef struct sc_cuda_matmul sc_cuda_matmul; /* runtime/cuda/gemm.c */

/* How collectives of a rank's stream 1 run: among ranks that share a GPU, or by NCCL. What `start` puts on the stream stands behind all
 * that the members' streams 0 held when they started; `finish` has stream 0 wait for it. */
typedef struct sc_cuda_comm {
    const char *name;
    bool is_captured;                                          /* its calls may be part of a graph */
    shardc_status (*open)(sc_rank *rank, shardc_error *error); /* again after the world was lost */
    void (*close)(sc_rank *rank);                              /* this and `abort`: no graph has its calls any more */
    shardc_status (*start)(sc_rank *rank, sc_bound *bound, shardc_error *error);
    shardc_status (*finish)(sc_rank *rank, sc_bound *started, shardc_error *error);
    /* Whether all is well while the host waits: SHARDC_OK, or what went wrong elsewhere. NULL: members meet before anything waits for them.
     */
    shardc_status (*poll)(sc_rank *rank, shardc_error *error);
    void (*abort)(sc_rank *rank);
} sc_cuda_comm;

extern const sc_cuda_comm sc_cuda_comm_local, sc_cuda_comm_nccl;

/* A function as a graph: after it ran once as it is. */
typedef struct sc_cuda_graph {
    sc_cu_graph_exec exec; /* NULL: none yet */
    uint32_t runs;
    uint32_t micro_batch;
    uint64_t seed;
    bool is_refused;
} sc_cuda_graph;

/* Of an instruction. */
typedef struct sc_cuda_bound {
    void **launch;                 /* KERNEL: addresses of the parameters' values */
    uint64_t *values;              /* KERNEL: arguments, params, sc_call, sc_failure */
    uint32_t slot;                 /* KERNEL: of its failure; 0: it cannot fail */
    sc_cu_event ready, half, done; /* COLLECTIVE */
} sc_cuda_bound;

typedef struct sc_cuda_times sc_cuda_times; /* runtime/cuda/timing.c */

typedef struct sc_cuda_rank {
    sc_cuda_session *session;
    sc_cuda_gpu *gpu;
    const sc_cuda_comm *comm; /* NULL: not yet open */
    void *comm_state;
    sc_cu_stream streams[SC_IMAGE_STREAMS];
    sc_cu_event finished;
    sc_cu_address memory;    /* what the arena is in */
    sc_cu_address call;      /* int64_t: the step */
    sc_cu_address failures;  /* uint64_t: by slot */
    uint32_t slot_count;     /* the first is nobody's */
    uint64_t *host_failures; /* pinned: slot_count, then the step */
    void *staging;           /* pinned */
    sc_lt_handle lt;
    sc_cuda_matmul **matmuls; /* by gemm of the image */
    uint32_t batches;         /* micro-batches of a step: each has graphs of its own */
    sc_cuda_graph *graphs;    /* by function and micro-batch */
    sc_cuda_graph *graph;     /* of the call under way */
    bool is_capturing;
    sc_cuda_times *times; /* NULL: nothing was measured yet */
} sc_cuda_rank;

enum { SC_CUDA_STAGING = 16 << 20, SC_CUDA_MAX_SHARING = 16 /* ranks on a GPU; codegen/cuda/reduce_ranks.h takes as many sources */ };

/* ---- context.c ---- */
/* At the end of what an application's thread does: it has the context again that it had. `status`, or that this failed. */
shardc_status sc_cuda_give_back(const sc_cuda *api, sc_cu_context context, shardc_status status, shardc_error *error);
shardc_status sc_cuda_check_machine(const sc_image *image, uint32_t ranks, shardc_error *error);
shardc_status sc_cuda_open_gpus(shardc_session *session, shardc_error *error);
void sc_cuda_close_gpus(shardc_session *session);
/* The GPU that a rank of this process uses. */
sc_cuda_gpu *sc_cuda_gpu_of(const sc_rank *rank);

/* ---- gemm.c ---- */
/* For all calls of the image's product `gemm`, whose addresses are bound. */
shardc_status sc_cuda_matmul_new(sc_rank *rank, uint32_t gemm, sc_cuda_matmul **out, shardc_error *error);
void sc_cuda_matmul_free(const sc_cublaslt *lt, sc_cuda_matmul *matmul);
shardc_status sc_cuda_matmul_run(sc_rank *rank, sc_bound *bound, const sc_cuda_matmul *matmul, shardc_error *error);

/* ---- gemm_plans.c ---- */
/* Where the program has products: cuBLASLt, what it is known to say of them. Closed after one that failed, too, and where there is none. */
shardc_status sc_cuda_products_open(shardc_session *session, shardc_error *error);
void sc_cuda_products_close(sc_cuda_session *session);
void sc_cuda_products_of(const shardc_session *session, shardc_gemm_tuning *out);
/* A rank's, whose instructions are bound. */
shardc_status sc_cuda_products_make(sc_rank *rank, shardc_error *error);
void sc_cuda_products_free(sc_rank *rank);

/* ---- timing.c ---- */
/* Two for what an instruction does, two for what its FINISH waits. */
typedef enum sc_cuda_moment { SC_CUDA_RUNS, SC_CUDA_RAN, SC_CUDA_WAITS, SC_CUDA_WAITED, SC_CUDA_MOMENTS } sc_cuda_moment;

/* Whether instructions are measured. Only then: a call begins; its instructions are marked (else that does nothing); when all of them are
 * on the streams, or the call is given up, it opens; after its end the times are there. */
bool sc_cuda_times_wanted(const sc_rank *rank);
shardc_status sc_cuda_times_begin(sc_rank *rank, uint32_t func, bool ran_before, shardc_error *error);
shardc_status sc_cuda_times_mark(sc_rank *rank, const sc_bound *bound, sc_cuda_moment moment, uint32_t stream, shardc_error *error);
void sc_cuda_times_open(sc_rank *rank);
shardc_status sc_cuda_times_of(sc_rank *rank, uint32_t func, uint32_t instr, bool *out_ran, double *out_begin, double *out_end,
                               shardc_error *error);
void sc_cuda_times_free(sc_rank *rank); /* there may be none */

#endif
