/* A pipeline: what a plan's `stage` line says of one elaborated entry. Filled by the frontend,
 * read by the passes that cut a program into stages and by reports. */
#ifndef SHARDC_IR_PIPELINE_PIPELINE_H
#define SHARDC_IR_PIPELINE_PIPELINE_H

#include "ir/graph.h"

/* One unit of a rank's work. B is the whole backward pass of a chunk for one micro-batch; I is the
 * part whose gradients earlier chunks need, W the rest. B, or I and then W. */
typedef enum sc_action_kind { SC_ACTION_F, SC_ACTION_B, SC_ACTION_I, SC_ACTION_W } sc_action_kind;

typedef struct sc_action {
    sc_action_kind kind;
    uint32_t chunk, micro_batch;
} sc_action;

/* The actions of one rank along the stage axis, in order. */
typedef struct sc_actions {
    SC_VEC(sc_action) list;
} sc_actions;

/* Who does what, and in which order. It does not depend on the program, so it can be proved, priced
 * and compared on its own. */
typedef struct sc_pipeline_schedule {
    uint32_t ranks, chunks, micro_batches;
    uint32_t *rank_of;   /* by chunk: the rank that holds it */
    sc_actions *actions; /* by rank */
} sc_pipeline_schedule;

/* What a chunk holds, for reports. */
typedef struct sc_pipeline_chunk {
    double flops; /* forward matmul FLOPs of the entry as built */
    SC_VEC(const char *)
    paths; /* in program order: params and subs of the model, and instances of
              the staged stacks: tok, layers[0..7] */
} sc_pipeline_chunk;

/* A schedule that `auto` does not take, because a rank would need more memory than the plan
 * expects. */
typedef struct sc_refused_schedule {
    const char *name;
    int64_t bytes;
} sc_refused_schedule;
typedef SC_VEC(sc_refused_schedule) sc_refused_schedules;

typedef struct sc_pipeline {
    uint8_t axis;       /* of the mesh; its size is schedule->ranks */
    sc_dim batch_dim;   /* the dim that micro-batches split */
    uint32_t *chunk_of; /* by op of the entry: its chunk, by where it stands in the model */
    const sc_pipeline_schedule *schedule; /* NULL: no stages, and the rest is not set */
    sc_loc loc;                           /* of the `stage` line */
    sc_sym axis_name;
    sc_pipeline_chunk *chunks; /* by chunk */
    uint32_t *lengths;         /* by chunk: instances of the staged stacks */
    const char *name;          /* of the schedule: one_f_one_b, interleaved(2), or its file's */
    const sc_refused_schedules *refused; /* faster ones; NULL: none was tried for its memory */
} sc_pipeline;

#endif
