/* Lowers the ops of a kernel (grouped by the fuse pass) to kernel IR.
 *
 * Lowering is demand-driven: each stored value requests the expression of its op at its indices,
 * which requests its operands at the indices where it reads them; a value that the kernel does not
 * compute becomes a load. So a transpose, slice or gather inside a kernel only changes indices.
 * Reductions are complete at the end of their phase; each value goes into the earliest phase that
 * the reductions it reads allow. */
#ifndef SHARDC_CODEGEN_LOWER_LOWER_H
#define SHARDC_CODEGEN_LOWER_LOWER_H

#include "codegen/kernel/kernel.h"
#include "ir/ops/ops.h"

/* What an argument of the kernel holds. */
typedef struct sc_lowered_arg {
    sc_value value;
    sc_value in_place; /* INOUT: the value in the buffer before the call; SC_NONE: none */
} sc_lowered_arg;

/* Every element of the value is in 0 .. below - 1, or a check of the kernel fails. */
typedef struct sc_lowered_ids {
    sc_value value;
    int64_t below;
} sc_lowered_ids;

typedef struct sc_lowered {
    sc_kernel *kernel;
    SC_VEC(sc_lowered_ids) ids;
    SC_VEC(sc_lowered_arg) args; /* as kernel->args */
} sc_lowered;

/* Per value of a function: true if an op of another kernel reads it. */
bool *sc_find_escaping(const sc_module *m, sc_func_id func);

/* Lowers ops[0..count), which are adjacent and in order, to a kernel in the context's scratch
 * arena. False after a diagnostic: no row of lowering.def fits (a compiler bug). */
bool sc_lower_kernel(const sc_module *m, const sc_op_id *ops, uint32_t count, const bool *escapes,
                     sc_lowered *out);

/* Where a shard of a zigzag lies (sc_shard_order). Index i of a shard is index j = within + i of
 * what its member holds, and index first + j of the dim if j < chunk, else second + plus + j. */
typedef struct sc_shard_places {
    sc_image_terms first, second, within;
    int64_t plus, chunk;
} sc_shard_places;
/* Counts from the member `back` before the rank's own, of the ring that the sub-axes make. */
sc_shard_places sc_shard_places_of(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes,
                                   int64_t local, uint64_t back);
/* Terms that sum to the shard's number times `local`, of the member `back` before. */
sc_image_terms sc_terms_from(const sc_module *m, const sc_sub_axis_list *sub_axes, int64_t local,
                             uint64_t back);

/* Terms in a rank's digits that sum to the rank's offset along the sub-axes: its shard index times
 * `local`. */
sc_image_terms sc_terms_of(const sc_module *m, const uint8_t *sub_axes, uint32_t count,
                           int64_t local);

#endif
