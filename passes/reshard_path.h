/* The cheapest way from one placement of a value to another, and the cost function that every placement decision uses.
 *
 * A path is a sequence of all_slice, reduce_scatter, all_reduce, permute, all_to_all, all_gather. It costs the bytes one rank sends (a
 * byte over a group that spans an inter axis counts 8) plus call_cost a call; then fewer calls; then the order above. Costs are those of
 * shortest paths, so they obey the triangle inequality. */
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
    uint8_t gather;         /* dim index that is gathered, sliced or scattered; all_to_all: that becomes whole */
    uint8_t scatter;        /* all_to_all: dim index that becomes split */
    uint8_t reduce;         /* SC_PARTIAL_.. of reductions */
} sc_reshard_step;

typedef struct sc_reshard_plan {
    sc_cost cost;
    uint32_t step_count;
    sc_reshard_step steps[SC_MAX_RESHARD_STEPS];
} sc_reshard_plan;

typedef struct sc_planner sc_planner;

sc_planner *sc_planner_new(sc_module *m, double call_cost);
/* The path from a type to the same type under another placement. Never NULL: gathering everything and slicing is always possible. Kept
 * by the planner, so asking again is a look-up. */
const sc_reshard_plan *sc_reshard_find(sc_planner *planner, sc_type from, const sc_placement *to);

/* < 0, 0, > 0; bytes that differ by rounding only are equal. */
int sc_cost_compare(const sc_cost *a, const sc_cost *b);
static inline void sc_cost_add(sc_cost *sum, const sc_cost *more)
{
    sum->bytes += more->bytes;
    sum->calls += more->calls;
    sum->order += more->order;
}

/* Bytes one rank sends in one call: SHARDING, "Sent bytes". `buffer` is the full buffer of one group, or for all_to_all and permute the
 * local one; `group` its ranks. */
double sc_sent_bytes(sc_op_kind kind, double buffer, double group);

#endif
