/* The role functions of ops.def. */
#ifndef SHARDC_IR_OPS_ROLES_H
#define SHARDC_IR_OPS_ROLES_H

#include "ir/ops/ops.h"

typedef void sc_roles_fn(const sc_module *m, const sc_op *op, sc_factors *factors);

sc_roles_fn roles_by_name, roles_index, roles_dropout, roles_dot, roles_sum, roles_max, roles_min,
    roles_form, roles_whole, roles_gather, roles_topk, roles_rope, roles_attend, roles_append,
    roles_last, roles_resize, roles_rename, roles_scatter, roles_attend_grad;

#endif
