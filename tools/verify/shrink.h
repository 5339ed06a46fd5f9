/* Making a compiled program small enough to interpret, without compiling again: sizes of dims and of mesh axes are replaced throughout
 * the global and the per-rank module; ops, placements and collectives stay as they were decided at full size. */
#ifndef SHARDC_TOOLS_VERIFY_SHRINK_H
#define SHARDC_TOOLS_VERIFY_SHRINK_H

#include "ir/ops/ops.h"

/* A size that was replaced. */
typedef struct sc_shrunk_size {
    sc_sym name;
    bool is_axis;
    int64_t from, to;
} sc_shrunk_size;
typedef SC_VEC(sc_shrunk_size) sc_shrunk_list;

/* An attribute that holds what depends on a size: slice's `from`, attend's `window` and `scale`, the reciprocal of a mean. */
typedef struct sc_changed_attr {
    sc_attr *attr;
    sc_attr old;
} sc_changed_attr;

typedef struct sc_shrink_side {
    sc_module *m;
    sc_type_info *types; /* as they were */
    uint32_t type_count;
    sc_mesh mesh;
    SC_VEC(sc_changed_attr) attrs;
} sc_shrink_side;

typedef struct sc_shrink {
    sc_shrunk_list list;
    sc_shrink_side sides[2]; /* global, local */
} sc_shrink;

/* What interpreting both modules costs, in multiply-adds of the interpreter's inner loops. */
double sc_interpret_cost(const sc_module *global, const sc_module *local);

/* Shrinks both until they cost no more than `limit`, or as far as it goes: dims first, then the largest axes. A dim stays a multiple of
 * the shards it is split into anywhere; dims that ops tie together (rename, slice, concat, topk, ids into a table) stay consistent.
 * Nothing may be added to the modules until sc_shrink_undo. Memory is the arena's of local's context; both modules share that context. */
void sc_shrink_modules(sc_module *global, sc_module *local, double limit, sc_shrink *out);
/* Puts every size back. */
void sc_shrink_undo(sc_shrink *shrink);

#endif
