#include "tools/flops.h"

static double elements(const sc_module *m, sc_value value)
{
    return (double)sc_type_elements(sc_type_of(m, value));
}

/* Sizes of the op's named dims, as the operand has them. */
static double named_sizes(const sc_module *m, const sc_op *op, uint32_t operand)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *type = sc_type_of(m, op->operands[operand]);
    double product = 1;
    for (uint32_t i = 0; dims != NULL && i < dims->count; i++) {
        int at = sc_type_find_dim(type, dims->dims[i]);
        product *= at < 0 ? 1 : (double)type->dims[at].size;
    }
    return product;
}

/* attend[T, E]: keys for each query. */
static double key_count(const sc_module *m, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *keys = sc_type_of(m, op->operands[1]);
    int at = dims == NULL || dims->count == 0 ? -1 : sc_type_find_dim(keys, dims->dims[0]);
    return at < 0 ? 1 : (double)keys->dims[at].size;
}

static double op_flops(const sc_module *m, const sc_op *op)
{
    if (op->kind == SC_OP_dot)
        return 2 * elements(m, op->first_result) * named_sizes(m, op, 0);
    if (op->kind != SC_OP_attend && op->kind != SC_OP_attend_grad)
        return 0;
    bool is_forward = op->kind == SC_OP_attend;
    sc_value result = is_forward ? op->first_result : op->operands[3];
    double scores = 2 * elements(m, op->operands[0]) * key_count(m, op), sums = 2 * elements(m, result) * key_count(m, op);
    return is_forward ? scores + sums : 3 * scores + 2 * sums;
}

double sc_func_flops(const sc_module *m, sc_func_id func)
{
    double flops = 0;
    sc_for_each_op (m, func, op)
        flops += op_flops(m, sc_op_at(m, op));
    return flops;
}

double sc_schedule_flops(const sc_module *m)
{
    double flops = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++)
        flops += sc_func_flops(m, m->schedule.data[i].func);
    return flops;
}
