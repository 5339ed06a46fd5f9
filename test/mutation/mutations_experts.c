/* Mutations of routed products: of where experts are, and of which ids and weights meet. */
#include "test/mutation/edit.h"
#include "test/mutation/mutation.h"

enum { WEIGHTS = 1, IDS = 2 };

bool experts_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_routed_dot, "layers[1]"), SC_ATTR_offset);
}

bool expert_gradient_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_routed_dot_grad, "layers[1]"), SC_ATTR_offset);
}

/* The op of layer 1 reads what that of layer 0 does. */
static bool read_of_layer_0(sc_module *m, sc_func_id func, sc_op_kind kind, uint32_t operand)
{
    sc_op_id there = find_op(m, func, kind, "layers[0]"),
             here = find_op(m, func, kind, "layers[1]");
    return there != SC_NONE && here != SC_NONE &&
           read_as_operand(m, here, operand, operand_of(m, there, operand));
}

bool experts_of_another_layer(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_routed_dot, WEIGHTS);
}

bool rows_of_other_experts(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_routed_dot, IDS);
}

bool gradient_of_other_experts(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_routed_dot_grad, IDS);
}

/* Of layer 1, the last product or its gradient: the one whose rows are apart. */
static bool forget_parts(sc_module *m, sc_func_id func, sc_op_kind kind)
{
    sc_op_id last = SC_NONE;
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (o->kind == kind && sc_op_attr(o, SC_ATTR_parts) != NULL)
            last = op;
    }
    return drop_attr(m, last, SC_ATTR_parts);
}

bool parts_forgotten(sc_module *m, sc_func_id func)
{
    return forget_parts(m, func, SC_OP_routed_dot);
}

bool parts_of_gradient_forgotten(sc_module *m, sc_func_id func)
{
    return forget_parts(m, func, SC_OP_routed_dot_grad);
}
