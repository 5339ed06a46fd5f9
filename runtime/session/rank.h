/* Structures of sessions and ranks, shared by devices and the files of this folder. */
#ifndef SHARDC_RUNTIME_SESSION_RANK_H
#define SHARDC_RUNTIME_SESSION_RANK_H

#include "runtime/comm/comm.h"
#include "runtime/session/executable.h"
#include "runtime/session/host_arena.h"
#include "runtime/session/shard.h"
#include "runtime/session/workers.h"

/* An instruction bound to the addresses of one rank. */
typedef struct sc_bound {
    const sc_image_instr *instr;
    /* skipped: a fallback for a matmul that the device executes, or a matmul replaced by its
     * fallback */
    bool is_idle;
    void **args;              /* device addresses */
    const void **steps;       /* GEMM: by epilogue step of the descriptor */
    void *scratch;            /* GEMM */
    sc_comm_call call;        /* COLLECTIVE */
    sc_comm_group *group;     /* COLLECTIVE */
    sc_comm_part *parts;      /* COLLECTIVE */
    sc_comm_request *request; /* COLLECTIVE; set from start to finish */
    int64_t bytes;            /* COPY */
    void *device;             /* owned by the device */
} sc_bound;

typedef struct sc_device sc_device; /* runtime/session/device.h */

typedef struct sc_rank {
    shardc_session *session;
    uint32_t rank;      /* in the mesh */
    char *arena;        /* arena_bytes of device memory, aligned to SC_IMAGE_ALIGN */
    sc_host_arena host; /* host_bytes of host memory */
    void *device_state;
    sc_comm *comm;                /* connects the ranks' threads or processes */
    sc_comm_group **groups;       /* by group of the program */
    sc_bound **funcs;             /* the bound instructions, by function */
    void *bound_memory;           /* memory of all bound instructions */
    int64_t *params;              /* scratch for the parameters of one kernel call */
    uint32_t in_flight;           /* collectives started and not yet waited for */
    shardc_func_profile *profile; /* by function */
    shardc_status status;         /* of the last job */
    shardc_error error;
    bool has_lost_world; /* a collective failed */
} sc_rank;

struct shardc_session {
    const shardc_executable *program;
    const sc_image *image;
    shardc_session_options options;
    const sc_device *device;
    void *device_state;
    sc_workers *workers;
    sc_rank *ranks; /* the ranks of this process */
    uint32_t rank_count, first_rank;
    bool is_world_lost; /* collectives no longer work */
    bool owns_world;    /* the session closes the communicator */
    uint64_t seed, step;
    uint32_t micro_batch;
    void (*trace)(void *user, const shardc_trace_event *event);
    void *trace_user;
    bool gemms_only; /* measuring: skips all instructions but GEMMs, so results are meaningless */
    /* measuring: the GPU launches a function's kernels one by one, as on its first run */
    bool no_graphs;
};

/* Returns the address of a buffer: of the device, or of host memory; NULL if that is a file. */
static inline void *sc_rank_buffer(const sc_rank *rank, uint32_t buffer)
{
    const sc_image_buffer *of = &rank->session->image->buffers[buffer];
    char *arena = of->host ? rank->host.memory : rank->arena;
    return arena == NULL ? NULL : arena + of->offset;
}

#endif
