/* Rows to slots and back: the ops that dispatch-rows emits. */
#ifndef SHARDC_PASSES_SEND_ROWS_H
#define SHARDC_PASSES_SEND_ROWS_H

#include "passes/row_groups.h"

/* Emits before an op, with its location and phase. */
sc_emitter sc_phase_emitter(sc_module *m, sc_func_id func, sc_op_id before);
/* An op with one result, of this type and placement. */
sc_value sc_emit_placed(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                        const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type);
/* As messages name the op: its kind and scope. */
sc_sym sc_op_place_name(sc_module *m, sc_op_id id);

/* Ids that are no row's, in the padding of those uneven dims that they have. */
sc_value sc_mark_padding(sc_emitter *e, sc_value ids, const sc_dim *row_dims, uint32_t row_count);

/* Emits the slots of the group's rows, for the product that the emitter is before. False after an
 * error. */
bool sc_begin_rows(sc_sending *s, sc_emitter *e, sc_row_group *group);
/* The value as the ranks have it that have its rows. */
sc_value sc_rows_at_home(sc_sending *s, sc_emitter *e, sc_row_group *group, sc_value value);
/* Puts rows, as the ranks have them, in slots and sends them. Empty slots get `fill`. */
sc_value sc_send_rows(sc_sending *s, sc_emitter *e, sc_row_group *group, sc_value value,
                      double fill);
/* Sends slots from the ranks that have the rows to those of the experts, or back. */
sc_value sc_exchange_slots(sc_sending *s, sc_emitter *e, const sc_row_group *group, sc_value value,
                           bool is_back, double fill);
/* The rows as the ranks have them, as a partial sum of this type: one rank has the term. For ops
 * that read rows of several ranks together. */
sc_value sc_rows_as_term(sc_emitter *e, const sc_row_group *group, sc_value rows,
                         const sc_type_info *term);

#endif
