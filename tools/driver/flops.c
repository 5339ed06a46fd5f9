#include "tools/driver/flops.h"

/* The size of a dim to count: over all ranks, or of one rank's shard. */
typedef int64_t size_of(const sc_module *m, const sc_type_info *type, uint32_t i);

static int64_t whole_size(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    (void)m;
    return type->dims[i].size;
}

static double elements(const sc_module *m, sc_value value, size_of *size)
{
    const sc_type_info *type = sc_type_of(m, value);
    double product = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        product *= (double)size(m, type, i);
    return product;
}

/* Product of the sizes of the op's named dims, as in the operand. */
static double named_sizes(const sc_module *m, const sc_op *op, uint32_t operand, size_of *size)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *type = sc_type_of(m, op->operands[operand]);
    double product = 1;
    for (uint32_t i = 0; dims != NULL && i < dims->count; i++) {
        int at = sc_type_find_dim(type, dims->dims[i]);
        product *= at < 0 ? 1 : (double)size(m, type, (uint32_t)at);
    }
    return product;
}

/* Number of keys per query of attend[T, E]. */
static double key_count(const sc_module *m, const sc_op *op, size_of *size)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *keys = sc_type_of(m, op->operands[1]);
    int at = dims == NULL || dims->count == 0 ? -1 : sc_type_find_dim(keys, dims->dims[0]);
    return at < 0 ? 1 : (double)size(m, keys, (uint32_t)at);
}

static double op_flops(const sc_module *m, const sc_op *op, size_of *size)
{
    if (op->kind == SC_OP_dot)
        return 2 * elements(m, op->first_result, size) * named_sizes(m, op, 0, size);
    if (op->kind != SC_OP_attend && op->kind != SC_OP_attend_grad)
        return 0;
    bool is_forward = op->kind == SC_OP_attend;
    sc_value result = is_forward ? op->first_result : op->operands[3];
    double keys = 2 * key_count(m, op, size), scores = elements(m, op->operands[0], size) * keys,
           sums = elements(m, result, size) * keys;
    return is_forward ? scores + sums : 3 * scores + 2 * sums;
}

/* True if each rank along these sub-axes computes a different part: each dim of an operand or a
 * result is a dim of the op's loop. */
static bool splits_op(const sc_module *m, const sc_op *op, sc_sub_axis_set sub_axes)
{
    sc_sub_axis_set split = 0;
    for (uint32_t i = 0; i < op->operand_count; i++)
        split |= sc_placement_split(&sc_type_of(m, op->operands[i])->placement);
    for (uint32_t i = 0; i < op->result_count; i++)
        split |= sc_placement_split(&sc_type_of(m, op->first_result + i)->placement);
    return (split & sub_axes) != 0;
}

/* Counts the FLOPs of ops that are not split over `unsplit`. */
static double func_flops(const sc_module *m, sc_func_id func, size_of *size,
                         sc_sub_axis_set unsplit)
{
    double flops = 0;
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        double of_op = op_flops(m, o, size);
        flops += of_op > 0 && unsplit != 0 && splits_op(m, o, unsplit) ? 0 : of_op;
    }
    return flops;
}

static double schedule_flops(const sc_module *m, size_of *size, sc_sub_axis_set unsplit)
{
    double flops = 0, one = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_func_id func = m->schedule.data[i].func;
        one = i > 0 && func == m->schedule.data[i - 1].func ? one
                                                            : func_flops(m, func, size, unsplit);
        flops += one;
    }
    return flops;
}

double sc_func_flops(const sc_module *m, sc_func_id func)
{
    return func_flops(m, func, whole_size, 0);
}

double sc_schedule_flops(const sc_module *m)
{
    return schedule_flops(m, whole_size, 0);
}

double sc_rank_flops(const sc_module *m)
{
    return schedule_flops(m, sc_type_local_size, 0);
}

double sc_rank_flops_repeated(const sc_module *m, uint32_t axis)
{
    const sc_axis *of = &m->mesh.axes[axis];
    return schedule_flops(m, sc_type_local_size,
                          (((sc_sub_axis_set)1 << of->sub_axis_count) - 1) << of->first_sub_axis);
}
