/* Mutations of rings: of which blocks of keys meet, where they go, and how partial results are
 * merged; of zigzags, and of sinks. */
#include "test/mutation/edit.h"
#include "test/mutation/mutation.h"

/* The attend or attend_grad of this block; SC_NONE: none. */
static sc_op_id find_block(const sc_module *m, sc_func_id func, sc_op_kind kind, int64_t block)
{
    sc_for_each_op (m, func, op) {
        if (sc_op_at(m, op)->kind == kind && sc_op_int(sc_op_at(m, op), SC_ATTR_block, -1) == block)
            return op;
    }
    return SC_NONE;
}

static bool set_int(sc_module *m, sc_op_id op, sc_attr_key key, int64_t number)
{
    if (op != SC_NONE)
        sc_op_set_attr(m, op, sc_attr_int(key, number));
    return op != SC_NONE;
}

bool ring_block_skipped(sc_module *m, sc_func_id func)
{
    /* what is merged of block 2 is block 1 again */
    sc_op_id one = find_block(m, func, SC_OP_attend, 1), two = find_block(m, func, SC_OP_attend, 2);
    return one != SC_NONE && two != SC_NONE &&
           read_instead(m, func, sc_result(m, two, 0), sc_result(m, one, 0), SC_NONE) &&
           read_instead(m, func, sc_result(m, two, 1), sc_result(m, one, 1), SC_NONE);
}

bool ring_block_misnumbered(sc_module *m, sc_func_id func)
{
    return set_int(m, find_block(m, func, SC_OP_attend, 1), SC_ATTR_block, 2);
}

bool ring_gradient_misnumbered(sc_module *m, sc_func_id func)
{
    return set_int(m, find_block(m, func, SC_OP_attend_grad, 1), SC_ATTR_block, 2);
}

bool ring_log_sum_of_another_block(sc_module *m, sc_func_id func)
{
    sc_op_id one = find_block(m, func, SC_OP_attend, 1), two = find_block(m, func, SC_OP_attend, 2);
    return one != SC_NONE && two != SC_NONE &&
           read_instead(m, func, sc_result(m, two, 1), sc_result(m, one, 1), SC_NONE);
}

bool ring_turned_backwards(sc_module *m, sc_func_id func)
{
    return set_int(m, find_op(m, func, SC_OP_rotate, NULL), SC_ATTR_shift, 3);
}

bool ring_block_not_sent_on(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_rotate, NULL);
    return op != SC_NONE && bypass(m, func, op, 0) && bypass(m, func, op, 1);
}

/* The last rotation before the gradient of keys is used: with it the sums come home. */
bool ring_gradient_left_abroad(sc_module *m, sc_func_id func)
{
    sc_op_id last = SC_NONE;
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        bool is_sum =
            o->kind == SC_OP_rotate && sc_op_at(m, sc_def(m, o->operands[0]))->kind == SC_OP_add;
        last = is_sum ? op : last;
    }
    return last != SC_NONE && bypass(m, func, last, 0) && bypass(m, func, last, 1);
}

bool ring_keys_without_values(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_rotate, NULL);
    return op != SC_NONE && bypass(m, func, op, 1);
}

bool ring_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_block(m, func, SC_OP_attend, 1), SC_ATTR_offset);
}

/* Keys are taken for contiguous where they have been dealt zigzag. */
bool zigzag_undone_on_one_side(sc_module *m, sc_func_id func)
{
    (void)func;
    bool found = false;
    for (sc_dim d = 0; d < m->dims.count; d++) {
        sc_dim_info *info = &m->dims.data[d];
        if (info->alias_of == SC_NONE || info->zigzag.count == 0)
            continue;
        info->zigzag.count = 0;
        found = true;
    }
    return found;
}

/* ---- sinks ---- */

bool sinks_are_bias(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_attend, "attn");
    const sc_sym word = sc_intern_text(&m->context->names, "bias");
    if (op == SC_NONE || sc_op_operand_called(m, sc_op_at(m, op), "sinks", 3) < 0)
        return false;
    sc_op_set_attr(m, op, sc_attr_words(m, SC_ATTR_with, &word, 1));
    return true;
}

/* The share of keys beside a sink is that of the first block, not of all. */
bool sinks_after_one_block(sc_module *m, sc_func_id func)
{
    sc_op_id own = find_block(m, func, SC_OP_attend, 0),
             share = find_op(m, func, SC_OP_sigmoid, "attn");
    return own != SC_NONE && share != SC_NONE &&
           read_as_operand(m, def_of(m, operand_of(m, share, 0)), 0, sc_result(m, own, 1));
}

bool sinks_gradient_upside_down(sc_module *m, sc_func_id func)
{
    sc_op_id write = find_write(m, func, "attn.s.grad"),
             sign = write == SC_NONE ? SC_NONE : find_maker(m, operand_of(m, write, 0), SC_OP_neg);
    return sign != SC_NONE && bypass(m, func, sign, 0);
}
