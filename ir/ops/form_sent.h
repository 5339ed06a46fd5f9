/* The `sent` functions of forms.def: what a rank sends because of a form. */
#ifndef SHARDC_IR_OPS_FORM_SENT_H
#define SHARDC_IR_OPS_FORM_SENT_H

#include "ir/ops/forms.h"

sc_form_sent_fn sent_gather, sent_ring, sent_heads, sent_rows_gather, sent_rows_dispatch;

/* Divides ranks over the dims of the type, major first: what is left of a dim after other axes
 * takes as many as divide it. Returns false if the dims do not take all of them. */
bool sc_form_divide(const sc_module *m, const sc_type_info *type, const sc_form_dims *dims,
                    uint32_t ranks, uint32_t *parts);

#endif
