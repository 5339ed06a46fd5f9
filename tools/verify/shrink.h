/* Makes a compiled program small enough to interpret without recompiling: replaces sizes of dims
 * and mesh axes throughout the global and the per-rank module. Ops, placements and collectives stay
 * as decided at full size. */
#ifndef SHARDC_TOOLS_VERIFY_SHRINK_H
#define SHARDC_TOOLS_VERIFY_SHRINK_H

#include "ir/ops/ops.h"

/* A replaced size. */
typedef struct sc_shrunk_size {
    sc_sym name;
    bool is_axis;
    int64_t from, to;
} sc_shrunk_size;
typedef SC_VEC(sc_shrunk_size) sc_shrunk_list;

/* An attribute that depends on a size: `from` of slice, `window` and `scale` of attend, the
 * reciprocal of a mean. */
typedef struct sc_changed_attr {
    sc_attr *attr;
    sc_attr old;
} sc_changed_attr;

typedef struct sc_shrink_side {
    sc_module *m;
    sc_type_info *types; /* the original types */
    uint32_t type_count;
    sc_mesh mesh;
    SC_VEC(sc_changed_attr) attrs;
} sc_shrink_side;

typedef struct sc_shrink {
    sc_shrunk_list list;
    sc_shrink_side sides[2]; /* global, local */
} sc_shrink;

/* Estimates the cost of interpreting both modules, in multiply-adds of the interpreter's inner
 * loops. */
double sc_interpret_cost(const sc_module *global, const sc_module *local);

/* Shrinks both modules until they cost at most `limit`, or as far as possible: dims first, then the
 * largest axes. A dim stays a multiple of every number of shards it is split into; dims related by
 * ops (rename, slice, concat, topk, ids into a table) stay consistent. Nothing may be added to the
 * modules until sc_shrink_undo. Both modules share one context, whose arena is used. */
void sc_shrink_modules(sc_module *global, sc_module *local, double limit, sc_shrink *out);
/* Restores all sizes. */
void sc_shrink_undo(sc_shrink *shrink);

#endif
