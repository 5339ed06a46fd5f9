/* How one op is computed: which sub-axes split each of its factors. */
#ifndef SHARDC_PASSES_ASSIGN_H
#define SHARDC_PASSES_ASSIGN_H

#include "passes/placing.h"
#include "passes/reshard_path.h"

typedef struct sc_assignment {
    sc_sub_axis_list split[SC_MAX_FACTORS]; /* indexed by factor */
} sc_assignment;

typedef struct sc_assigner {
    sc_module *m;
    sc_placing *placing;
    sc_planner *planner;
    /* placements are final; otherwise a sub-axis not yet used by a value can follow the op at no
     * cost */
    bool final;
} sc_assigner;

/* Finds the cheapest assignment that uses every sub-axis offered by operands or results. If two
 * factors compete for a sub-axis, locks decide first, then cost; ties go to the left. */
void sc_assign(sc_assigner *assigner, sc_op_id id, const sc_factors *factors, sc_assignment *out);
/* Returns the cost of resharding the operands to what the op then needs and the results to their
 * placements. */
sc_cost sc_assignment_cost(sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                           const sc_assignment *assignment);

/* Returns the placement that an operand must have, and the one that a result has when computed
 * (including partial reductions). */
sc_placement sc_assigned_operand(const sc_module *m, const sc_factors *factors,
                                 const sc_assignment *assignment, const sc_op *op,
                                 uint32_t operand);
sc_placement sc_assigned_result(const sc_module *m, const sc_factors *factors,
                                const sc_assignment *assignment, const sc_op *op, uint32_t result);

/* Stores the assignment in the op's `split` attribute, or loads it. An op without the attribute is
 * not split. */
void sc_assignment_store(sc_module *m, sc_op_id op, const sc_factors *factors,
                         const sc_assignment *assignment);
void sc_assignment_load(const sc_module *m, sc_op_id op, const sc_factors *factors,
                        sc_assignment *out);

#endif
