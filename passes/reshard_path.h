/* Finds the cheapest path from one placement of a value to another; defines the cost function of
 * all placement decisions.
 *
 * A path is a sequence of all_slice, reduce_scatter, all_reduce, collective_permute, all_to_all,
 * all_gather. Its cost is the bytes that one rank sends (times 8 over a group that spans an inter
 * axis) plus call_cost per call. Ties: fewer calls, then the order above. Costs are those of
 * shortest paths, so they satisfy the triangle inequality. */
#ifndef SHARDC_PASSES_RESHARD_PATH_H
#define SHARDC_PASSES_RESHARD_PATH_H

#include "ir/ops/ops.h"

enum { SC_MAX_RESHARD_STEPS = 12 };

typedef struct sc_cost {
    double bytes; /* weighted */
    uint32_t calls, order;
} sc_cost;

typedef struct sc_reshard_step {
    sc_op_kind kind;
    sc_placement to;
    sc_sub_axis_list group; /* major first */
    /* 1 + index of the dim that is gathered or, by all_slice and reduce_scatter, split; 0: none */
    uint8_t gather;
    uint8_t scatter; /* 1 + index of the dim that is split instead of the one gathered; 0: none */
    uint8_t reduce;  /* reductions: SC_PARTIAL_.. */
} sc_reshard_step;

typedef struct sc_reshard_plan {
    sc_cost cost;
    uint32_t step_count;
    sc_reshard_step steps[SC_MAX_RESHARD_STEPS];
} sc_reshard_plan;

typedef struct sc_planner sc_planner;

sc_planner *sc_planner_new(sc_module *m, double call_cost);
/* Returns the path from a type to the same type with another placement. Never NULL: gathering
 * everything and slicing is always possible. Cached by the planner. */
const sc_reshard_plan *sc_reshard_find(sc_planner *planner, sc_type from, const sc_placement *to);

/* Returns < 0, 0 or > 0. Bytes that differ only by rounding are equal. */
int sc_cost_compare(const sc_cost *a, const sc_cost *b);
static inline void sc_cost_add(sc_cost *sum, const sc_cost *more)
{
    sum->bytes += more->bytes;
    sum->calls += more->calls;
    sum->order += more->order;
}

/* Returns the weight of a byte that is sent over these axes, a bit each: 8 if one of them crosses
 * nodes, else 1. */
double sc_axes_weight(const sc_mesh *mesh, uint32_t axes);
/* Returns the cost of sending a local value to the next rank along an axis. */
sc_cost sc_send_cost(const sc_planner *planner, sc_type type, uint32_t axis);

/* Returns the bytes that one rank sends in one call: SHARDING, "Sent bytes". `buffer` is the full
 * buffer of one group (all_to_all and permute: the local one), `group` its number of ranks. */
double sc_sent_bytes(sc_op_kind kind, double buffer, double group);

#endif
