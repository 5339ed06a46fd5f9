/* Structures of sessions and ranks, shared by devices and the files of this folder. */
#ifndef SHARDC_RUNTIME_SESSION_RANK_H
#define SHARDC_RUNTIME_SESSION_RANK_H

#include "program/lookup.h"
#include "runtime/comm/comm.h"
#include "runtime/session/executable.h"
#include "runtime/session/host_arena.h"
#include "runtime/session/shard.h"
#include "runtime/session/workers.h"

/* An instruction bound to the addresses of one rank. Below, a call is a COLLECTIVE or a MESSAGE. */
typedef struct sc_bound {
    const sc_image_instr *instr;
    /* skipped: a fallback for a matmul that the device executes, or a matmul replaced by its
     * fallback */
    bool is_idle;
    bool moves; /* its addresses depend on the micro-batch: they are those of `micro_batch` */
    uint32_t micro_batch;
    void **args;              /* device addresses */
    const void **steps;       /* GEMM: by epilogue step of the descriptor */
    void *scratch;            /* GEMM */
    sc_comm_call call;        /* of a call */
    sc_comm_group *group;     /* of a call; of a message, the boundary's two ranks, sender first */
    sc_comm_part *parts;      /* of a call */
    int64_t *counts;          /* of a call with rows: room for what parts give and get, by member */
    sc_comm_request *request; /* of a call; set from start to finish */
    int64_t bytes;            /* COPY */
    void *device;             /* owned by the device */
} sc_bound;

/* This rank's end of a boundary between stages. */
typedef struct sc_rank_boundary {
    sc_comm_group *group;
    /* ring of the messages that are started and not waited for, oldest first: copies of the bound
     * instructions, with parts of their own, because an instruction may be started again for
     * another micro-batch */
    sc_bound *started;
    uint32_t room, first, count;
} sc_rank_boundary;

typedef struct sc_device sc_device; /* runtime/session/device.h */

typedef struct sc_rank {
    shardc_session *session;
    uint32_t rank;         /* in the mesh */
    const sc_image *image; /* of the rank's stage: what it runs */
    char *arena;           /* arena_bytes of device memory, aligned to SC_IMAGE_ALIGN */
    sc_host_arena host;    /* host_bytes of host memory */
    void *device_state;
    sc_comm *comm;                /* connects the ranks' threads or processes */
    sc_comm_group **groups;       /* by group of the image */
    sc_rank_boundary *boundaries; /* by boundary of the image */
    sc_bound **funcs;             /* the bound instructions, by function of the image */
    uint32_t *func_numbers;       /* by function of the image: its number in the session's */
    void *bound_memory;           /* memory of all bound instructions */
    int64_t *params;              /* scratch for the parameters of one kernel call */
    uint32_t in_flight;           /* collectives started and not yet waited for */
    shardc_func_profile *profile; /* by function of the session's image */
    shardc_status status;         /* of the last job */
    shardc_error error;
    bool has_lost_world; /* a collective failed */
} sc_rank;

struct shardc_session {
    const shardc_executable *program;
    const sc_image *image; /* program->image: without instructions if there are several stages */
    shardc_session_options options;
    const sc_device *device;
    void *device_state;
    sc_workers *workers;
    sc_rank *ranks; /* the ranks of this process */
    uint32_t rank_count, first_rank;
    bool is_world_lost; /* collectives no longer work */
    bool owns_world;    /* the session closes the communicator */
    bool may_lack_room; /* rows may be more than their slots: an update waits for all ranks */
    uint64_t seed, step;
    uint32_t micro_batch;
    void (*trace)(void *user, const shardc_trace_event *event);
    void *trace_user;
    bool gemms_only; /* measuring: skips all instructions but GEMMs, so results are meaningless */
    /* measuring: the GPU launches a function's kernels one by one, as on its first run */
    bool no_graphs;
};

/* Returns the image that a rank runs: that of its stage. */
static inline const sc_image *sc_session_image_of(const shardc_session *session, uint32_t rank)
{
    return session->program->all.stages[sc_image_stage_of(session->image, rank)];
}

/* Returns the address of a buffer of the rank's image: of the device, or of host memory; NULL if
 * that is a file. */
static inline void *sc_rank_buffer(const sc_rank *rank, uint32_t buffer)
{
    const sc_image_buffer *of = &rank->image->buffers[buffer];
    char *arena = of->host ? rank->host.memory : rank->arena;
    return arena == NULL ? NULL : arena + of->offset;
}

#endif
