/* Mutations of routed products: of where experts are, which ids and weights meet, and where rows
 * go. */
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

/* ---- rows that are sent ---- */
bool slots_of_another_layer(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_pack_rows, 1);
}

bool places_of_another_layer(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_unpack_rows, 1);
}

static sc_op_id first_exchange(const sc_module *m, sc_func_id func, const char *layer)
{
    return find_op(m, func, SC_OP_exchange_rows, layer);
}

bool counts_of_another_layer(sc_module *m, sc_func_id func)
{
    sc_op_id there = first_exchange(m, func, "layers[0]"),
             here = first_exchange(m, func, "layers[1]");
    if (there == SC_NONE || here == SC_NONE)
        return false;
    const uint32_t counts = sc_op_at(m, here)->result_count,
                   others = sc_op_at(m, there)->result_count;
    return read_as_operand(m, here, counts, operand_of(m, there, others)) &&
           read_as_operand(m, here, counts + 1, operand_of(m, there, others + 1));
}

bool counts_exchanged(sc_module *m, sc_func_id func)
{
    sc_op_id here = first_exchange(m, func, "layers[1]");
    return here != SC_NONE && swap_operands(m, here, sc_op_at(m, here)->result_count,
                                            sc_op_at(m, here)->result_count + 1);
}

bool row_sent_to_a_neighbour(sc_module *m, sc_func_id func)
{
    sc_op_id slots = find_op(m, func, SC_OP_row_slots, "layers[1]");
    if (slots == SC_NONE)
        return false;
    int64_t each = sc_op_int(sc_op_at(m, slots), SC_ATTR_each, 1);
    sc_op_set_attr(m, slots, sc_attr_int(SC_ATTR_each, each / 2));
    return each > 1;
}

/* Of the values of one exchange, the one that a reader of this kind has as this operand. */
static bool read_unsent(sc_module *m, sc_func_id func, sc_op_kind kind, uint32_t operand)
{
    sc_op_id reader = find_op(m, func, kind, "layers[1]");
    if (reader == SC_NONE)
        return false;
    sc_value value = operand_of(m, reader, operand);
    sc_op_id maker = def_of(m, value);
    return sc_op_at(m, maker)->kind == SC_OP_exchange_rows &&
           read_as_operand(m, reader, operand,
                           operand_of(m, maker, value - sc_op_at(m, maker)->first_result));
}

bool rows_not_sent(sc_module *m, sc_func_id func)
{
    return read_unsent(m, func, SC_OP_routed_dot, 0);
}

bool results_not_sent_back(sc_module *m, sc_func_id func)
{
    return read_unsent(m, func, SC_OP_unpack_rows, 0);
}

bool ids_not_sent(sc_module *m, sc_func_id func)
{
    return read_unsent(m, func, SC_OP_routed_dot, IDS);
}

/* ---- choices that are packed ---- */
bool choices_of_another_layer(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_pack_rows, 1);
}

bool choices_back_in_other_rows(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_unpack_rows, 1);
}

bool part_of_choices_forgotten(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_row_slots, "layers[1]"), SC_ATTR_over);
}

bool choices_of_half_the_experts(sc_module *m, sc_func_id func)
{
    return row_sent_to_a_neighbour(m, func);
}

/* The first copy to slots is that of the ids. */
bool ids_packed_in_other_slots(sc_module *m, sc_func_id func)
{
    return read_of_layer_0(m, func, SC_OP_pack_rows, 0);
}
