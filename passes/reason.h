/* Text of the reasons for reshards, derived from how placements were decided. */
#ifndef SHARDC_PASSES_REASON_H
#define SHARDC_PASSES_REASON_H

#include "passes/assign.h"

typedef struct sc_reason {
    uint32_t rule; /* the plan line at the root, or SC_NONE */
    sc_sym why;
} sc_reason;

/* Why a value computed as `made` is resharded to `wanted` right after its op. */
sc_reason sc_reason_of_result(sc_module *m, const sc_placing *placing, sc_value value,
                              const sc_placement *made, const sc_placement *wanted);
/* Why an operand placed as `has` is resharded to `needed` for a reader. */
sc_reason sc_reason_of_operand(sc_module *m, const sc_placing *placing, sc_op_id reader,
                               uint32_t operand, const sc_placement *has,
                               const sc_placement *needed);
/* Why a placed value is a partial reduction over this sub-axis, from the op that produces it. `why`
 * is 0 if the partial value is read from state. */
sc_reason sc_reason_of_partial(sc_module *m, const sc_placing *placing, sc_value value,
                               uint32_t sub_axis);
/* Fills in the attributes that describe a reshard of `value`: the rule, the reason, the tensor.
 * Returns their number; `attrs` has room for three. */
uint32_t sc_reason_attrs(const sc_module *m, sc_value value, const sc_reason *reason,
                         sc_attr *attrs);
/* Returns the user-visible name of a value: its path, that of a view of it, or of the state it
 * reads; 0: none. */
sc_sym sc_value_path(const sc_module *m, sc_value value);

#endif
