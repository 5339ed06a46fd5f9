/* The mutations themselves, by the graph API. Each finds its place by op kind and scope, so that it
 * keeps meaning the same when programs change around it, and says so when it finds none. */
#include <string.h>

#include "edit.h"
#include "mutation.h"

/* ---- collectives ---- */
bool dropped_all_reduce(sc_module *m, sc_func_id func)
{
    return bypass(m, func, find_op(m, func, SC_OP_all_reduce, "layers[0].attn"), 0);
}

bool doubled_all_reduce(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_all_reduce, "layers[0].attn");
    if (op == SC_NONE)
        return false;
    const sc_value once = sc_result(m, op, 0);
    const sc_placement at = sc_type_of(m, once)->placement;
    sc_value twice = add_after(m, func, op, SC_OP_all_reduce, once, &at);
    return read_instead(m, func, once, twice, sc_def(m, twice));
}

bool all_reduce_claimed(sc_module *m, sc_func_id func)
{
    return claim(m, func, find_op(m, func, SC_OP_all_reduce, "layers[0].ffn"));
}

bool reduced_by_max(sc_module *m, sc_func_id func)
{
    return set_word(m, find_op(m, func, SC_OP_all_reduce, "layers[0].attn"), SC_ATTR_reduce, "max");
}

bool reduced_over_another_axis(sc_module *m, sc_func_id func)
{
    const uint8_t dp = 0;
    return set_group(m, find_op(m, func, SC_OP_all_reduce, "layers[0].attn"), &dp, 1);
}

bool gathered_in_another_order(sc_module *m, sc_func_id func)
{
    const uint8_t reversed[] = {1, 0};
    return set_group(m, find_op(m, func, SC_OP_all_gather, NULL), reversed, 2);
}

bool gathered_along_another_dim(sc_module *m, sc_func_id func)
{
    return set_dim(m, find_op(m, func, SC_OP_all_gather, NULL), SC_ATTR_gather, "B");
}

bool scattered_along_another_dim(sc_module *m, sc_func_id func)
{
    return set_dim(m, find_op(m, func, SC_OP_reduce_scatter, "layers[0].attn"), SC_ATTR_gather,
                   "B");
}

bool sliced_along_another_dim(sc_module *m, sc_func_id func)
{
    sc_op_id scatter = find_op(m, func, SC_OP_reduce_scatter, "layers[0].attn");
    if (scatter == SC_NONE)
        return false;
    sc_value partial = operand_of(m, scatter, 0);
    sc_placement whole = sc_placement_replicated(), sliced = whole;
    sc_placement_append(&sliced, 0, 0);
    sc_value sum = add_after(m, func, scatter, SC_OP_all_reduce, partial, &whole);
    sc_op_drop_attr(m, sc_def(m, sum), SC_ATTR_gather);
    sc_value slice = add_after(m, func, sc_def(m, sum), SC_OP_all_slice, sum, &sliced);
    sc_op_drop_attr(m, sc_def(m, slice), SC_ATTR_reduce);
    return set_dim(m, sc_def(m, slice), SC_ATTR_gather, "B") &&
           read_instead(m, func, sc_result(m, scatter, 0), slice, SC_NONE);
}

bool exchanged_backwards(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_all_to_all, NULL);
    return set_dim(m, op, SC_ATTR_gather, "J") && set_dim(m, op, SC_ATTR_scatter, "I");
}

bool permute_claimed(sc_module *m, sc_func_id func)
{
    return claim(m, func, find_op(m, func, SC_OP_collective_permute, NULL));
}

bool permuted_in_part(sc_module *m, sc_func_id func)
{
    const uint8_t x = 0;
    return set_group(m, find_op(m, func, SC_OP_collective_permute, NULL), &x, 1);
}

bool collective_too_early(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_all_reduce, "layers[0].attn");
    if (op == SC_NONE)
        return false;
    sc_op_move(m, op, sc_def(m, operand_of(m, op, 0)));
    return true;
}

bool one_of_a_fused_call_dropped(sc_module *m, sc_func_id func)
{
    sc_for_each_op (m, func, op) {
        if (sc_op_at(m, op)->kind == SC_OP_all_reduce && sc_op_at(m, op)->operand_count == 2)
            return bypass(m, func, op, 1);
    }
    return false;
}

/* Which results of the unit's gather are w1 and w3: the two operands of the dots of [B, S, F]. */
bool gathered_parameters_exchanged(sc_module *m, sc_func_id func)
{
    sc_op_id first = find_op(m, func, SC_OP_dot, "layers[0].ffn");
    sc_op_id second = first;
    while (second != SC_NONE && (second == first || sc_op_at(m, second)->kind != SC_OP_dot))
        second = sc_op_at(m, second)->next;
    if (first == SC_NONE || second == SC_NONE ||
        m->values.data[operand_of(m, first, 1)].type !=
            m->values.data[operand_of(m, second, 1)].type)
        return false;
    sc_value w1 = operand_of(m, first, 1);
    m->ops.data[first].operands[1] = operand_of(m, second, 1);
    m->ops.data[second].operands[1] = w1;
    return sc_def(m, w1) == sc_def(m, operand_of(m, first, 1)); /* they came in one call */
}

bool shard_for_gathered_parameter(sc_module *m, sc_func_id func)
{
    sc_op_id dot = find_op(m, func, SC_OP_dot, "layers[0].attn");
    if (dot == SC_NONE || sc_op_at(m, sc_def(m, operand_of(m, dot, 1)))->kind != SC_OP_all_gather)
        return false;
    sc_value weight = operand_of(m, dot, 1);
    return bypass(m, func, sc_def(m, weight), m->values.data[weight].index);
}

/* ---- pieces that go round a ring ---- */
bool piece_joined_twice(sc_module *m, sc_func_id func)
{
    sc_op_id join = find_op(m, func, SC_OP_join_pieces, "layers[0].ffn");
    return join != SC_NONE && read_as_operand(m, join, 1, operand_of(m, join, 0));
}

static bool set_shift(sc_module *m, sc_op_id op, int64_t shift)
{
    if (op == SC_NONE)
        return false;
    sc_op_set_attr(m, op, sc_attr_int(SC_ATTR_shift, shift));
    return true;
}

bool piece_of_a_neighbour(sc_module *m, sc_func_id func)
{
    return set_shift(m, find_op(m, func, SC_OP_take_piece, "layers[0].ffn"), 2);
}

bool term_added_twice(sc_module *m, sc_func_id func)
{
    sc_op_id add = find_op(m, func, SC_OP_add_pieces, "layers[0].attn");
    return add != SC_NONE && read_as_operand(m, add, 1, operand_of(m, add, 2));
}

bool pieces_go_backwards(sc_module *m, sc_func_id func)
{
    return set_shift(m, find_op(m, func, SC_OP_rotate, "layers[0].ffn"), 3);
}

bool terms_in_another_order(sc_module *m, sc_func_id func)
{
    return swap_operands(m, find_op(m, func, SC_OP_add_pieces, "layers[0].ffn"), 1, 2);
}

/* ---- global indices ---- */
bool vocabulary_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_gather, "trunk"), SC_ATTR_offset);
}

bool vocabulary_offset_reordered(sc_module *m, sc_func_id func)
{
    return reverse_offset(m, find_op(m, func, SC_OP_gather, "trunk"));
}

bool target_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_gather, "loss"), SC_ATTR_offset);
}

bool target_offset_reordered(sc_module *m, sc_func_id func)
{
    return reverse_offset(m, find_op(m, func, SC_OP_gather, "loss"));
}

bool rope_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_rope, "layers[0].attn"), SC_ATTR_offset);
}

bool mask_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_attend, "layers[0].attn"), SC_ATTR_offset);
}

bool append_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_append, "layers[0].attn"), SC_ATTR_offset);
}

bool last_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_last, NULL), SC_ATTR_offset);
}

/* ---- partial reductions and placements ---- */
bool partial_through_silu(sc_module *m, sc_func_id func)
{
    sc_op_id silu = find_op(m, func, SC_OP_silu, "layers[0].ffn");
    sc_op_id reduction = silu == SC_NONE ? SC_NONE : sc_def(m, operand_of(m, silu, 0));
    return reduction != SC_NONE && sc_op_at(m, reduction)->kind == SC_OP_all_reduce &&
           reduce_behind(m, func, reduction, silu);
}

bool bias_before_reduction(sc_module *m, sc_func_id func)
{
    sc_op_id reduction = find_op(m, func, SC_OP_all_reduce, "f");
    return reduction != SC_NONE &&
           reduce_behind(m, func, reduction,
                         find_reader(m, func, sc_result(m, reduction, 0), SC_OP_add));
}

bool maximum_not_reduced(sc_module *m, sc_func_id func)
{
    sc_op_id maximum = find_op(m, func, SC_OP_max, "loss");
    return maximum != SC_NONE &&
           claim(m, func, find_reader(m, func, sc_result(m, maximum, 0), SC_OP_all_reduce));
}

/* Every value of a scope, and the state it reads, that has K without G: K split over these
 * sub-axes. */
static bool place_keys(sc_module *m, sc_func_id func, const char *scope,
                       const sc_sub_axis_list *sub_axes)
{
    bool found = false;
    sc_dim keys = sc_module_find_dim(m, sc_intern_text(&m->context->names, "K")),
           groups = sc_module_find_dim(m, sc_intern_text(&m->context->names, "G"));
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        const sc_type_info *type = o->result_count == 0 ? NULL : sc_type_of(m, o->first_result);
        int dim = type == NULL || strcmp(sc_text(m->context, o->scope), scope) != 0
                      ? -1
                      : sc_type_find_dim(type, keys);
        if (dim < 0 || sc_type_find_dim(type, groups) >= 0)
            continue;
        sc_placement at = sc_placement_replicated();
        sc_placement_set_dim(&at, (uint32_t)dim, sub_axes);
        m->values.data[o->first_result].type =
            sc_type_with_placement(m, m->values.data[o->first_result].type, &at);
        if (sc_op_at(m, op)->kind == SC_OP_param)
            m->state.data[sc_module_find_state(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name))].type =
                m->values.data[sc_result(m, op, 0)].type;
        found = true;
    }
    return found;
}

bool keys_of_another_group(sc_module *m, sc_func_id func)
{
    return m->mesh.sub_axis_count == 2 &&
           place_keys(m, func, "layers[0].attn", &(sc_sub_axis_list){1, {1}});
}

bool keys_split_too_far(sc_module *m, sc_func_id func)
{
    return m->mesh.sub_axis_count == 2 &&
           place_keys(m, func, "layers[0].attn", &(sc_sub_axis_list){2, {0, 1}});
}

/* ---- numbers only ---- */
bool operands_of_sub_swapped(sc_module *m, sc_func_id func)
{
    return swap_operands(m, find_op(m, func, SC_OP_sub, "f"), 0, 1);
}

bool mean_over_local_size(sc_module *m, sc_func_id func)
{
    sc_op_id last = m->funcs.data[func].last, mean = sc_def(m, operand_of(m, last, 0));
    sc_op_id constant =
        sc_op_at(m, mean)->kind == SC_OP_mul ? sc_def(m, operand_of(m, mean, 1)) : SC_NONE;
    if (constant == SC_NONE || sc_op_at(m, constant)->kind != SC_OP_constant)
        return false;
    double value =
        sc_op_number(sc_op_at(m, constant), SC_ATTR_value, 0) * (double)sc_mesh_ranks(&m->mesh);
    sc_op_set_attr(m, constant, sc_attr_number(SC_ATTR_value, value));
    return true;
}

bool stale_value(sc_module *m, sc_func_id func)
{
    sc_value x = find_value(m, func, "layers[0].h"),
             normed = find_value(m, func, "layers[0].n2.out");
    return x != SC_NONE && normed != SC_NONE && read_instead(m, func, normed, x, SC_NONE);
}

bool residual_dropped(sc_module *m, sc_func_id func)
{
    sc_value sum = find_value(m, func, "layers[0].out");
    if (sum == SC_NONE || sc_op_at(m, sc_def(m, sum))->kind != SC_OP_add)
        return false;
    sc_value *operands = m->ops.data[sc_def(m, sum)].operands;
    operands[0] = operands[1];
    return true;
}

bool keys_and_values_exchanged(sc_module *m, sc_func_id func)
{
    return swap_operands(m, find_op(m, func, SC_OP_attend, "layers[0].attn"), 1, 2);
}

bool mask_dropped(sc_module *m, sc_func_id func)
{
    return set_word(m, find_op(m, func, SC_OP_attend, "layers[0].attn"), SC_ATTR_mask, "none");
}

bool weights_of_another_layer(sc_module *m, sc_func_id func)
{
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (o->kind == SC_OP_param &&
            strcmp(sc_text(m->context, sc_op_word(o, SC_ATTR_name)), "layers[1].ffn.w1") == 0)
            return set_word(m, op, SC_ATTR_name, "layers[0].ffn.w1");
    }
    return false;
}

/* where(ignored, 0, nll) is read as nll. */
bool ignored_target_counted(sc_module *m, sc_func_id func)
{
    sc_op_id total = find_op(m, func, SC_OP_return, NULL);
    sc_op_id sum = total == SC_NONE ? SC_NONE : sc_def(m, operand_of(m, total, 0));
    sc_op_id where = sum == SC_NONE || sc_op_at(m, sum)->kind != SC_OP_sum
                         ? SC_NONE
                         : sc_def(m, operand_of(m, sum, 0));
    if (where == SC_NONE || sc_op_at(m, where)->kind != SC_OP_where)
        return false;
    m->ops.data[sum].operands[0] = operand_of(m, where, 2);
    return true;
}

bool total_and_weight_exchanged(sc_module *m, sc_func_id func)
{
    return swap_operands(m, m->funcs.data[func].last, 0, 1);
}

bool lengths_for_positions(sc_module *m, sc_func_id func)
{
    return swap_operands(m, find_op(m, func, SC_OP_attend, "layers[0].attn"), 3, 4);
}

bool cache_not_written(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_op(m, func, SC_OP_cache_write, NULL);
    if (op == SC_NONE)
        return false;
    sc_op_unlink(m, op);
    return true;
}

bool cache_written_stale(sc_module *m, sc_func_id func)
{
    sc_op_id write = find_op(m, func, SC_OP_cache_write, NULL),
             read = find_op(m, func, SC_OP_cache_read, NULL);
    if (write == SC_NONE || read == SC_NONE ||
        sc_op_word(sc_op_at(m, write), SC_ATTR_name) != sc_op_word(sc_op_at(m, read), SC_ATTR_name))
        return false;
    m->ops.data[write].operands[0] = sc_result(m, read, 0);
    return true;
}
