/* How one op is computed: which sub-axes split which of its factors. */
#ifndef SHARDC_PASSES_ASSIGN_H
#define SHARDC_PASSES_ASSIGN_H

#include "passes/placing.h"
#include "passes/reshard_path.h"

typedef struct sc_assignment {
    sc_sub_axis_list split[SC_MAX_FACTORS]; /* by index of the factor */
} sc_assignment;

typedef struct sc_assigner {
    sc_module *m;
    sc_placing *placing;
    sc_planner *planner;
    bool final; /* placements are final; else a sub-axis that a value does not use yet will follow the op for free */
} sc_assigner;

/* The cheapest assignment that uses every sub-axis that operands or results offer; sub-axes that two factors want are decided by cost,
 * locks first, ties to the left. */
void sc_assign(sc_assigner *assigner, sc_op_id id, const sc_factors *factors, sc_assignment *out);
/* Moving the operands to what the op then needs and the results to where they belong. */
sc_cost sc_assignment_cost(sc_assigner *assigner, sc_op_id id, const sc_factors *factors, const sc_assignment *assignment);

/* Placement an operand must have, and the placement a result comes out with (partial reductions included). */
sc_placement sc_assigned_operand(const sc_module *m, const sc_factors *factors, const sc_assignment *assignment, const sc_op *op,
                                 uint32_t operand);
sc_placement sc_assigned_result(const sc_module *m, const sc_factors *factors, const sc_assignment *assignment, const sc_op *op,
                                uint32_t result);

/* The assignment as the op's `split` attribute, and back. An op without the attribute is not split. */
void sc_assignment_store(sc_module *m, sc_op_id op, const sc_factors *factors, const sc_assignment *assignment);
void sc_assignment_load(const sc_module *m, sc_op_id op, const sc_factors *factors, sc_assignment *out);

#endif
