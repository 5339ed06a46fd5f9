/* Shared by the files of sink-reductions: sink_reductions.c walks the ops and adds siblings up, sink_below.c passes a sum on to all that
 * its readers make of it. */
#ifndef SHARDC_PASSES_SINKING_H
#define SHARDC_PASSES_SINKING_H

#include "passes/pass.h"
#include "passes/reshard_path.h"
#include "passes/uses.h"

enum { SC_MAX_SINK = 4 }; /* ops in a row that a sum passes */

typedef struct sc_sinking {
    sc_module *m;
    uint32_t *uses;          /* by value at the start: how many readers it has now */
    sc_map inherited;        /* value made here -> its readers, if it took them over; else it has the one that it was made for */
    sc_value *current;       /* per value at the start: what readers now read, or SC_NONE */
    uint32_t count;          /* values at the start */
    sc_map moved;            /* value << 32 | type -> the value brought there here */
    sc_value passing[2];     /* the sum that is passed on at present, partial and reduced */
    sc_sub_axis_set *pinned; /* by value: a pin says how it stands over these */
    const sc_map *brought;   /* likewise, by insert-reshards */
    sc_planner *planner;
    const sc_placing *placing;
    sc_readers readers; /* at the start */
} sc_sinking;

/* ---- sinking.c ---- */
/* `value` brought to `type` by a reshard like `like`, in front of `before`. */
sc_value sc_sink_reshard(sc_sinking *s, sc_op_id before, sc_op_id like, sc_value value, sc_type type);
/* A value in another dtype. */
sc_value sc_sink_converted(sc_sinking *s, sc_op_id before, sc_value value, sc_dtype dtype);
/* The op itself makes `made`, partial as its operands are and perhaps narrower than what its readers read: a reshard like `like`. */
void sc_sink_reduce_as(sc_sinking *s, sc_op_id op, sc_op_id like, sc_type made);
/* The op itself becomes partial as `raw` says (its operands are); its readers read a reshard like `like` of its result. */
void sc_sink_reduce_after(sc_sinking *s, sc_op_id op, sc_op_id like, const sc_placement *raw);

/* A value as a partial sum over more sub-axes, for the op `before`. */
sc_value sc_sink_spread(sc_sinking *s, sc_op_id before, sc_value value, sc_sub_axis_set more);

/* ---- sink_below.c ---- */
/* Sums of what was widened for them and that are rounded back are made in the narrower dtype, so that a partial sum may pass. */
void sc_sink_narrow_sums(sc_module *m);
/* `op` is a reshard. If it reduces a partial sum, perhaps scattering it, for readers that would do with the sum as it is, and that is less
 * to move, what they make of it is reduced in its place. */
void sc_sink_below(sc_sinking *s, sc_op_id op);

#endif
