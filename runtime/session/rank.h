/* What a session and its ranks are made of, for devices and for the files of sessions. */
#ifndef SHARDC_RUNTIME_SESSION_RANK_H
#define SHARDC_RUNTIME_SESSION_RANK_H

#include "runtime/comm/comm.h"
#include "runtime/session/executable.h"
#include "runtime/session/shard.h"
#include "runtime/session/workers.h"

/* An instruction with its addresses on one rank. */
typedef struct sc_bound {
    const sc_image_instr *instr;
    bool is_idle;             /* passed over: a stub, where the device computes the product, or a product that it does not */
    void **args;              /* addresses of the device */
    const void **steps;       /* GEMM: by step of the descriptor */
    void *scratch;            /* GEMM */
    sc_comm_call call;        /* COLLECTIVE */
    sc_comm_group *group;     /* COLLECTIVE */
    sc_comm_part *parts;      /* COLLECTIVE */
    sc_comm_request *request; /* COLLECTIVE, from start to finish */
    int64_t bytes;            /* COPY */
    void *device;             /* of the device: see there */
} sc_bound;

typedef struct sc_device sc_device; /* runtime/session/device.h */

typedef struct sc_rank {
    shardc_session *session;
    uint32_t rank; /* of the mesh */
    char *arena;   /* arena_bytes of the device, aligned to SC_IMAGE_ALIGN */
    void *device_state;
    sc_comm *comm;                /* of the ranks' threads or processes */
    sc_comm_group **groups;       /* by group of the image */
    sc_bound **funcs;             /* by function: its instructions */
    void *bound_memory;           /* of all bound instructions */
    int64_t *params;              /* room for those of one kernel */
    uint32_t in_flight;           /* collectives that were started and not waited for */
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
    sc_rank *ranks; /* those of this process */
    uint32_t rank_count, first_rank;
    bool is_world_lost; /* collectives no longer work */
    bool owns_world;    /* closes it */
    uint64_t seed, step;
    uint32_t micro_batch;
    void (*trace)(void *user, const shardc_trace_event *event);
    void *trace_user;
    bool gemms_only; /* measuring: every other instruction is passed over, so that results mean nothing */
    bool no_graphs;  /* measuring: GPUs get a function's launches one by one, as on its first run */
};

/* A buffer's address, of the device. */
static inline void *sc_rank_buffer(const sc_rank *rank, uint32_t buffer)
{
    return rank->arena + rank->session->image->buffers[buffer].offset;
}

#endif
