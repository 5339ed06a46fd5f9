/* An entry on its way to a pipeline, for the files that cut it. Private to frontend/plan. */
#ifndef SHARDC_FRONTEND_PLAN_STAGE_H
#define SHARDC_FRONTEND_PLAN_STAGE_H

#include "frontend/plan/internal.h"

typedef struct sc_stages {
    sc_resolved_plan *plan;
    sc_context *context;
    const sc_stage_line *line;
    sc_module *m;
    const sc_build_result *built;
    sc_map instances; /* path of an instance -> its number, in program order */
    SC_VEC(const char *) instance_paths;
    sc_map known;                /* scope or path -> 1 + instance, or 0 */
    uint32_t *instance_of;       /* by op: the instance it is in, or SC_NONE */
    uint32_t *after;             /* by op: the instance at or before it, 0 if there is none */
    const sc_plan_stmt **placed; /* by op: the `stage PATH = ..` line that places it, or NULL */
    double *work;                /* by instance: FLOPs of what is attributed to it */
    uint32_t chunks;             /* 0 until the schedule is chosen */
    uint32_t *chunk_of_instance;
    uint32_t *chunk_of; /* by op */
} sc_stages;

/* ---- stage_schedule.c ---- */
/* Returns the forward FLOPs of an op. */
double sc_stages_flops(const sc_stages *c, const sc_op *op);
/* Returns the chunk that a `stage PATH = ..` line names; SC_NONE if there is no such chunk. */
uint32_t sc_stages_named_chunk(const sc_stages *c, const sc_plan_stmt *stmt, uint32_t chunks);
/* Cuts the instances into chunks: ends[k] is the first instance after chunk k. `work` receives the
 * FLOPs by chunk. */
void sc_stages_cut(const sc_stages *c, uint32_t chunks, uint32_t *ends, double *work);
/* Returns how many chunks the line asks for, as far as it does; `auto` needs one a rank. */
uint32_t sc_stages_wanted(const sc_stages *c);
/* Returns the line's schedule and sets out->name; NULL if `auto` finds none, or refused all. */
const sc_pipeline_schedule *sc_stages_schedule(const sc_stages *c, sc_pipeline *out);
/* True if split(7, 8, ..) fits the chunks and the instances; otherwise reports it. */
bool sc_stages_check_lengths(const sc_stages *c, uint32_t chunks);
/* Report and return false. */
bool sc_stages_report_misfit(const sc_stages *c, uint32_t chunks);
bool sc_stages_report_no_schedule(const sc_stages *c);

/* ---- stage_chunks.c ---- */
/* Sets out->chunks and out->lengths. */
void sc_stages_describe(const sc_stages *c, sc_pipeline *out);

#endif
