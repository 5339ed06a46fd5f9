/* The collectives of a placed program, what its stages send and receive, and its copies between
 * host and device memory, as tables: tensors, bytes, phase and reason. */
#ifndef SHARDC_PASSES_COMM_REPORT_H
#define SHARDC_PASSES_COMM_REPORT_H

#include "ir/ops/ops.h"

typedef struct sc_comm_row {
    sc_op_id op;
    const char *name;       /* all_gather, .. */
    const char *reduce;     /* sum, max, min; NULL if it does not reduce */
    sc_sub_axis_list group; /* major first; none for a send or receive */
    uint32_t axes;          /* one bit per mesh axis */
    /* true: every axis of the group with all its sub-axes; false: `sub` names the parts */
    bool whole_axes;
    uint64_t ranks; /* per group; 2 for a send or receive */
    /* the stage whose ranks run it; SC_ALL_STAGES_RUN without stages */
    uint32_t stage;
    const char *phase;           /* forward, recompute, backward, update, init */
    const char *scope;           /* instance path without indices */
    SC_VEC(int64_t) layers;      /* the indices removed from scope, outermost first */
    SC_VEC(const char *) values; /* the tensors communicated, relative to the scope */
    const char *dim;             /* dim that is gathered, scattered or exchanged; NULL: none */
    const char *dtype;
    double bytes, sent; /* see SHARDING, "Sent bytes"; for all values together */
    double most;    /* of `sent`: more than that where rows are counted, of which `sent` has an even
                       share */
    double cost;    /* what placement compares: `sent`, weighted by its axes */
    uint32_t count; /* executions in the schedule: per step, or per call of the entry */
    bool per_step;  /* not in each micro-batch: it is in the update */
    bool control;   /* communicates only scalars, or counts of rows */
    uint32_t rule;  /* index in module->rules, or SC_NONE */
    const char *why;
} sc_comm_row;

typedef SC_VEC(sc_comm_row) sc_comm_rows;

/* Reports every function of the schedule once, in program order. Memory is the context's. */
void sc_comm_report(sc_module *m, sc_comm_rows *out);
/* Reports the copies of `offload` lines likewise. A row's scope is the instance whose unit it is;
 * its values are states, or activations. Nothing is sent: it has no group, and `ranks` is 1. */
void sc_copy_report(sc_module *m, sc_comm_rows *out);
/* tp, or tp.1 for part of an axis, joined with +. */
const char *sc_comm_group_text(const sc_module *m, const sc_comm_row *row);

#endif
