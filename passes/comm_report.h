/* The collectives of a placed program as a table: what moves, how many bytes, in which phase, and why. */
#ifndef SHARDC_PASSES_COMM_REPORT_H
#define SHARDC_PASSES_COMM_REPORT_H

#include "ir/ops/ops.h"

typedef struct sc_comm_row {
    sc_op_id op;
    const char *name;            /* all_gather, .. */
    const char *reduce;          /* sum, max, min; NULL for what does not reduce */
    sc_sub_axis_list group;      /* major first */
    uint32_t axes;               /* bit per mesh axis */
    bool whole_axes;             /* every axis of the group with all its sub-axes; else `sub` names the parts */
    uint64_t ranks;              /* in one group */
    const char *phase;           /* forward, recompute, backward, update, init */
    const char *scope;           /* instance path without indices */
    SC_VEC(int64_t) layers;      /* the indices that were taken out, outermost first */
    SC_VEC(const char *) values; /* what moves, seen from its scope */
    const char *dim;             /* gathered, scattered or exchanged; NULL */
    const char *dtype;
    double bytes, sent; /* SHARDING, "Sent bytes"; of all values together */
    uint32_t count;     /* times executed in the schedule: per step, or per call of the entry */
    bool control;       /* moves only scalars */
    uint32_t rule;      /* index in module->rules, or SC_NONE */
    const char *why;
} sc_comm_row;

typedef SC_VEC(sc_comm_row) sc_comm_rows;

/* Rows of every function of the schedule, each once, in program order; memory is the context's. */
void sc_comm_report(sc_module *m, sc_comm_rows *out);
/* tp, or tp.1 for a part of an axis, joined with +. */
const char *sc_comm_group_text(const sc_module *m, const sc_comm_row *row);

#endif
