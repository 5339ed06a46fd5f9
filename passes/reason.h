/* Reasons of reshards in words, from how placements were decided. */
#ifndef SHARDC_PASSES_REASON_H
#define SHARDC_PASSES_REASON_H

#include "passes/assign.h"

typedef struct sc_reason {
    uint32_t rule; /* the plan line at the root, or SC_NONE */
    sc_sym why;
} sc_reason;

/* Why a value that comes out as `made` is brought to `wanted` right after its op. */
sc_reason sc_reason_of_result(sc_module *m, const sc_placing *placing, sc_value value, const sc_placement *made,
                              const sc_placement *wanted);
/* Why an operand that stands as `has` is brought to `needed` for a reader. */
sc_reason sc_reason_of_operand(sc_module *m, const sc_placing *placing, sc_op_id reader, uint32_t operand, const sc_placement *has,
                               const sc_placement *needed);
/* Why a placed value is a partial reduction over this sub-axis: of the op that leaves it so. `why` is 0 where a state does. */
sc_reason sc_reason_of_partial(sc_module *m, const sc_placing *placing, sc_value value, uint32_t sub_axis);
/* What a reshard of `value` says of itself: the line, why, what it moves. Returns their number; `attrs` has room for three. */
uint32_t sc_reason_attrs(const sc_module *m, sc_value value, const sc_reason *reason, sc_attr *attrs);
/* The name people know a value by: its path, that of a view of it, or of the state it reads; 0 without. */
sc_sym sc_value_path(const sc_module *m, sc_value value);

#endif
