/* Shared by the files of sink-reductions. sink_reductions.c walks the ops and adds up siblings;
 * sink_below.c moves the reduction of a partial sum below its readers. */
#ifndef SHARDC_PASSES_SINKING_H
#define SHARDC_PASSES_SINKING_H

#include "passes/pass.h"
#include "passes/reshard_path.h"
#include "passes/uses.h"

enum { SC_MAX_SINK = 4 }; /* maximum number of consecutive ops that a reduction moves below */

typedef struct sc_sinking {
    sc_module *m;
    uint32_t *uses; /* by value at the start: its current number of readers */
    /* value created here -> number of readers, if it took over all of them; otherwise it has one */
    sc_map inherited;
    sc_value *current;       /* per value at the start: its replacement, or SC_NONE */
    uint32_t count;          /* number of values at the start */
    sc_map moved;            /* value << 32 | type -> the reshard created by this pass */
    sc_value passing[2];     /* the sum being moved, partial and reduced */
    sc_sub_axis_set *pinned; /* by value: sub-axes on which a pin fixes its placement */
    const sc_map *brought;   /* the same for reshards created by insert-reshards */
    sc_planner *planner;
    const sc_placing *placing;
    sc_readers readers; /* as of the start */
} sc_sinking;

/* ---- sinking.c ---- */
/* Reshards `value` to `type` before op `before`, with the attributes of `like`. */
sc_value sc_sink_reshard(sc_sinking *s, sc_op_id before, sc_op_id like, sc_value value,
                         sc_type type);
/* Casts a value to another dtype. */
sc_value sc_sink_converted(sc_sinking *s, sc_op_id before, sc_value value, sc_dtype dtype);
/* Makes the op produce `made`, partial like its operands and perhaps narrower than its readers
 * expect; a reshard like `like` follows it. */
void sc_sink_reduce_as(sc_sinking *s, sc_op_id op, sc_op_id like, sc_type made);
/* Makes the op partial as given by `raw` (as its operands are) and redirects its readers to a
 * reshard of its result, like `like`. */
void sc_sink_reduce_after(sc_sinking *s, sc_op_id op, sc_op_id like, const sc_placement *raw);

/* Makes a value a partial sum over more sub-axes, for op `before`. */
sc_value sc_sink_spread(sc_sinking *s, sc_op_id before, sc_value value, sc_sub_axis_set more);

/* ---- sink_below.c ---- */
/* Narrows sums whose operands were widened for them and whose results are rounded back, so that a
 * partial sum can pass through. */
void sc_sink_narrow_sums(sc_module *m);
/* `op` is a reshard. If it reduces (or reduce-scatters) a partial sum whose readers can use the
 * partial sum, and reducing their results costs less, moves the reduction below them. */
void sc_sink_below(sc_sinking *s, sc_op_id op);

#endif
