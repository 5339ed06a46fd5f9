/* The function columns of the table. They are in a separate file because the functions they point
 * to use the other columns (ops.c, infer.c). */
#include "ir/ops/derive.h"
#include "ir/ops/eval.h"
#include "ir/ops/expand.h"
#include "ir/ops/flops.h"
#include "ir/ops/roles.h"

/* The word for no function in ops.def. */
#define roles_none  NULL
#define eval_none   NULL
#define expand_none NULL
#define derive_none NULL
#define flops_none  NULL

const sc_op_function_row sc_op_functions[SC_OP_COUNT] = {
#define OP(name, in, roles, shape, eval, expand, derive, flops, ...)                               \
    {roles_##roles, eval_##eval, expand_##expand, derive_##derive, flops_##flops},
#include "ir/ops/ops.def"
#undef OP
};

void sc_op_factors(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    factors->count = 0;
    if (sc_op_functions[op->kind].roles != NULL)
        sc_op_functions[op->kind].roles(m, op, factors);
}

double sc_op_flops(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    sc_flops_fn *flops = sc_op_functions[op->kind].flops;
    return flops == NULL ? 0 : flops(m, op, size);
}

static sc_sub_axis_list factor_sub_axes(const sc_module *m, const sc_op *op,
                                        const sc_factor *factor)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (factor->operand[o] >= 0)
            return sc_placement_dim(&sc_type_of(m, op->operands[o])->placement,
                                    (uint32_t)factor->operand[o]);
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (factor->result[r] >= 0)
            return sc_placement_dim(&sc_type_of(m, op->first_result + r)->placement,
                                    (uint32_t)factor->result[r]);
    }
    return (sc_sub_axis_list){0};
}

uint32_t sc_op_offsets(const sc_module *m, sc_op_id op, sc_split *splits)
{
    sc_factors factors;
    uint32_t count = 0;
    sc_op_factors(m, sc_op_at(m, op), &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        sc_sub_axis_list sub_axes = factor_sub_axes(m, sc_op_at(m, op), &factors.list[f]);
        if (factors.list[f].offset && sub_axes.count > 0)
            splits[count++] = (sc_split){factors.list[f].dim, sub_axes};
    }
    return count;
}
