/* The role functions of ops.def. */
#ifndef SHARDC_IR_OPS_ROLES_H
#define SHARDC_IR_OPS_ROLES_H

#include "ir/ops/ops.h"

typedef void sc_roles_fn(const sc_module *m, const sc_op *op, sc_factors *factors);

/* One for each function in the column; roles_none is no function, but the word for none. */
#define OP(name, in, roles, ...) sc_roles_fn roles_##roles;
#include "ir/ops/ops.def"
#undef OP

#endif
