#include "tools/driver/flops.h"

#include <string.h>

static int64_t whole_size(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    (void)m;
    return type->dims[i].size;
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
static double func_flops(const sc_module *m, sc_func_id func, sc_size_of *size,
                         sc_sub_axis_set unsplit)
{
    double flops = 0;
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        double of_op = sc_op_flops(m, o, size);
        flops += of_op > 0 && unsplit != 0 && splits_op(m, o, unsplit) ? 0 : of_op;
    }
    return flops;
}

static double schedule_flops(const sc_module *m, sc_size_of *size, sc_sub_axis_set unsplit)
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

double sc_schedule_flops_recomputed(const sc_module *m)
{
    double flops = 0;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_for_each_op (m, m->schedule.data[i].func, op) {
            const sc_op *o = sc_op_at(m, op);
            if (strcmp(sc_text(m->context, sc_op_word(o, SC_ATTR_phase)), "recompute") == 0)
                flops += sc_op_flops(m, o, whole_size);
        }
    }
    return flops;
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
