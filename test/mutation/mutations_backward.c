/* Mutations of a micro-batch's backward pass and of the reductions of its gradients. */
#include <string.h>

#include "edit.h"
#include "mutation.h"

/* ---- reductions of gradients ---- */
/* What `update` reduces: a collective of this kind over a gradient, and which of its operands that
 * is. */
typedef struct reduction {
    sc_op_id op;
    uint32_t i;
} reduction;

static reduction reduction_of(const sc_module *m, const char *gradient, sc_op_kind kind)
{
    sc_value read = result_of(m, find_read(m, update_of(m), gradient));
    sc_op_id op = find_reader(m, update_of(m), read, kind);
    return (reduction){op, operand_index(m, op, read)};
}

/* In the micro-batch: the collective that makes a gradient. */
static reduction maker_of(const sc_module *m, sc_func_id func, const char *gradient,
                          sc_op_kind kind)
{
    sc_value value = find_value(m, func, gradient);
    sc_op_id op = def_of(m, value);
    bool fits = op != SC_NONE && (sc_op_kind)sc_op_at(m, op)->kind == kind;
    return fits ? (reduction){op, m->values.data[value].index} : (reduction){SC_NONE, 0};
}

bool gradient_not_reduced(sc_module *m, sc_func_id func)
{
    (void)func;
    reduction r = reduction_of(m, "head.grad", SC_OP_all_reduce);
    return bypass(m, update_of(m), r.op, r.i);
}

bool gradient_claimed_whole(sc_module *m, sc_func_id func)
{
    reduction r = reduction_of(m, "head.grad", SC_OP_all_reduce);
    sc_value gradient = find_value(m, func, "head.grad");
    if (r.op == SC_NONE || gradient == SC_NONE)
        return false;
    const sc_type whole = m->values.data[sc_result(m, r.op, r.i)].type;
    m->values.data[gradient].type = m->values.data[operand_of(m, r.op, r.i)].type = whole;
    m->state.data[sc_module_find_state(m, sc_intern_text(&m->context->names, "head.grad"))].type =
        whole;
    return bypass(m, update_of(m), r.op, r.i);
}

bool gradient_reduced_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    reduction r = reduction_of(m, "head.grad", SC_OP_all_reduce);
    return reduce_twice(m, update_of(m), r.op, r.i);
}

bool gradients_reduced_over_another_axis(sc_module *m, sc_func_id func)
{
    (void)func;
    const uint8_t tp = 1;
    return set_group(m, reduction_of(m, "head.grad", SC_OP_all_reduce).op, &tp, 1);
}

bool gradients_reduced_by_max(sc_module *m, sc_func_id func)
{
    (void)func;
    return set_word(m, reduction_of(m, "head.grad", SC_OP_all_reduce).op, SC_ATTR_reduce, "max");
}

bool gradients_of_one_call_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    reduction a = reduction_of(m, "layers[0].n1.g.grad", SC_OP_all_reduce),
              b = reduction_of(m, "layers[0].n2.g.grad", SC_OP_all_reduce);
    return a.op != SC_NONE && a.op == b.op &&
           exchange_values(m, update_of(m), sc_result(m, a.op, a.i), sc_result(m, b.op, b.i));
}

bool gradient_reduced_before_and_after(sc_module *m, sc_func_id func)
{
    reduction r = reduction_of(m, "head.grad", SC_OP_all_reduce);
    sc_value gradient = find_value(m, func, "head.grad");
    sc_op_id add = gradient == SC_NONE ? SC_NONE : find_reader(m, func, gradient, SC_OP_add);
    if (r.op == SC_NONE || add == SC_NONE)
        return false;
    sc_value sum = make_before(m, add, SC_OP_all_reduce, gradient, SC_NONE,
                               m->values.data[sc_result(m, r.op, r.i)].type);
    sc_op_set_attr(m, sc_def(m, sum), *sc_op_attr(sc_op_at(m, r.op), SC_ATTR_over));
    sc_op_set_attr(m, sc_def(m, sum), *sc_op_attr(sc_op_at(m, r.op), SC_ATTR_reduce));
    return read_as_operand(m, add, operand_index(m, add, gradient), sum);
}

bool gradient_averaged_over_ranks(sc_module *m, sc_func_id func)
{
    return scale_operand(m, find_write(m, func, "head.grad"), 0,
                         1.0 / (double)sc_mesh_ranks(&m->mesh));
}

bool gain_gradient_not_summed(sc_module *m, sc_func_id func)
{
    (void)func;
    reduction r = reduction_of(m, "layers[0].n1.g.grad", SC_OP_all_reduce);
    return bypass(m, update_of(m), r.op, r.i);
}

bool gradient_scattered_along_another_dim(sc_module *m, sc_func_id func)
{
    reduction r = maker_of(m, func, "head.grad", SC_OP_reduce_scatter);
    const sc_attr *gather = r.op == SC_NONE ? NULL : sc_op_attr(sc_op_at(m, r.op), SC_ATTR_gather);
    if (gather == NULL)
        return false;
    sc_dim *dims = sc_arena_array(&m->context->arena, gather->count, sizeof *dims);
    memcpy(dims, gather->dims, gather->count * sizeof *dims);
    dims[r.i] = sc_module_find_dim(m, sc_intern_text(&m->context->names, "V"));
    sc_op_set_attr(m, r.op, sc_attr_dims(m, SC_ATTR_gather, dims, gather->count));
    return true;
}

bool scattered_gradients_exchanged(sc_module *m, sc_func_id func)
{
    return exchange_values(m, func, find_value(m, func, "layers[0].ffn.w1.grad"),
                           find_value(m, func, "layers[0].ffn.w3.grad"));
}

bool outer_reduction_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    reduction r = reduction_of(m, "head.grad", SC_OP_all_reduce);
    return bypass(m, update_of(m), r.op, r.i);
}

bool outer_reduction_over_shards(sc_module *m, sc_func_id func)
{
    (void)func;
    const uint8_t fsdp = 1;
    return set_group(m, reduction_of(m, "head.grad", SC_OP_all_reduce).op, &fsdp, 1);
}

bool cotangent_not_reduced(sc_module *m, sc_func_id func)
{
    return bypass(m, func, find_in_phase(m, func, SC_OP_all_reduce, "layers[0].ffn", "backward"),
                  0);
}

bool cotangent_claimed_whole(sc_module *m, sc_func_id func)
{
    return claim(m, func, find_in_phase(m, func, SC_OP_all_reduce, "layers[0].ffn", "backward"));
}

/* The all_reduce over tp.1 of the keys' cotangent. */
static sc_op_id reduction_of_keys(const sc_module *m, sc_func_id func)
{
    sc_op_id grad = find_in_phase(m, func, SC_OP_attend_grad, "layers[0].attn", "backward");
    return grad == SC_NONE ? SC_NONE
                           : find_reader(m, func, sc_result(m, grad, 1), SC_OP_all_reduce);
}

bool key_gradient_not_summed_in_group(sc_module *m, sc_func_id func)
{
    return bypass(m, func, reduction_of_keys(m, func), 0);
}

bool key_gradient_claimed_whole(sc_module *m, sc_func_id func)
{
    return claim(m, func, reduction_of_keys(m, func));
}

bool key_gradient_summed_over_all(sc_module *m, sc_func_id func)
{
    const uint8_t tp[] = {0, 1};
    return set_group(m, reduction_of_keys(m, func), tp, 2);
}

bool key_gradient_summed_across_groups(sc_module *m, sc_func_id func)
{
    const uint8_t major = 0;
    return set_group(m, reduction_of_keys(m, func), &major, 1);
}

/* ---- contributions ---- */
bool contribution_of_tied_weight_dropped(sc_module *m, sc_func_id func)
{
    sc_op_id add = def_of(m, find_value(m, func, "wte.grad"));
    return add != SC_NONE && sc_op_at(m, add)->kind == SC_OP_add &&
           read_as_operand(m, add, 0, operand_of(m, add, 1)) &&
           sc_op_at(m, sc_def(m, operand_of(m, add, 0)))->kind == SC_OP_scatter_add;
}

bool contribution_reduced_early(sc_module *m, sc_func_id func)
{
    sc_op_id add = def_of(m, find_value(m, func, "wte.grad")),
             like = reduction_of(m, "wte.grad", SC_OP_all_reduce).op;
    if (add == SC_NONE || like == SC_NONE || sc_op_at(m, add)->kind != SC_OP_add)
        return false;
    const sc_value part = operand_of(m, add, 1);
    const sc_placement whole = sc_placement_replicated();
    sc_value sum = make_before(m, add, SC_OP_all_reduce, part, SC_NONE,
                               sc_type_with_placement(m, m->values.data[part].type, &whole));
    sc_op_set_attr(m, sc_def(m, sum), *sc_op_attr(sc_op_at(m, like), SC_ATTR_over));
    sc_op_set_attr(m, sc_def(m, sum), *sc_op_attr(sc_op_at(m, like), SC_ATTR_reduce));
    return read_as_operand(m, add, 1, sum);
}

bool residual_cotangent_dropped(sc_module *m, sc_func_id func)
{
    sc_op_id add = find_in_phase(m, func, SC_OP_add, "layers[0].n2", "backward");
    return read_as_operand(m, add, 0, operand_of(m, add, 1));
}

bool gradient_of_another_parameter(sc_module *m, sc_func_id func)
{
    return exchange_words(m, find_write(m, func, "layers[0].ffn.w1.grad"),
                          find_write(m, func, "layers[0].ffn.w3.grad"), SC_ATTR_name);
}

bool gradients_of_keys_and_values_exchanged(sc_module *m, sc_func_id func)
{
    sc_op_id grad = find_in_phase(m, func, SC_OP_attend_grad, "layers[0].attn", "backward");
    return grad != SC_NONE &&
           exchange_values(m, func, sc_result(m, grad, 1), sc_result(m, grad, 2));
}

bool rope_gradient_turns_forward(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_in_phase(m, func, SC_OP_rope, "layers[0].attn", "backward"),
                     SC_ATTR_inverse);
}

bool mask_dropped_in_backward(sc_module *m, sc_func_id func)
{
    return set_word(m, find_in_phase(m, func, SC_OP_attend_grad, "layers[0].attn", "backward"),
                    SC_ATTR_mask, "none");
}

/* where(y = ignore, 0, dy) is read as dy. */
bool ignored_target_has_gradient(sc_module *m, sc_func_id func)
{
    sc_op_id where = find_in_phase(m, func, SC_OP_where, "loss", "backward");
    return where != SC_NONE &&
           read_instead(m, func, sc_result(m, where, 0), operand_of(m, where, 2), SC_NONE);
}

/* eq(argmax, index) becomes eq(max, x). */
bool every_maximum_takes_the_cotangent(sc_module *m, sc_func_id func)
{
    sc_op_id argmax = find_in_phase(m, func, SC_OP_argmax, NULL, "backward"),
             maximum = find_op(m, func, SC_OP_max, NULL);
    sc_op_id eq =
        argmax == SC_NONE ? SC_NONE : find_reader(m, func, sc_result(m, argmax, 0), SC_OP_eq);
    return read_as_operand(m, eq, 1, operand_of(m, maximum, 0)) &&
           read_as_operand(m, eq, 0, result_of(m, maximum));
}

static bool set_kind(sc_module *m, sc_op_id op, sc_op_kind kind)
{
    if (op == SC_NONE)
        return false;
    m->ops.data[op].kind = (uint16_t)kind;
    return true;
}

/* The slope is taken at x + 1/2, which differs at 0 alone where x is whole. */
bool relu_passes_at_zero(sc_module *m, sc_func_id func)
{
    sc_op_id slope = find_in_phase(m, func, SC_OP_relu_grad, NULL, "backward");
    if (slope == SC_NONE)
        return false;
    sc_value x = operand_of(m, slope, 1);
    sc_type type = m->values.data[x].type;
    return read_as_operand(
        m, slope, 1, make_before(m, slope, SC_OP_add, x, make_number(m, slope, 0.5, type), type));
}

bool tie_goes_to_the_second(sc_module *m, sc_func_id func)
{
    return set_kind(m, find_in_phase(m, func, SC_OP_ge, NULL, "backward"), SC_OP_gt);
}

/* ---- global indices ---- */
bool gradient_mask_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_in_phase(m, func, SC_OP_attend_grad, "layers[0].attn", "backward"),
                     SC_ATTR_offset);
}

bool gradient_rope_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_in_phase(m, func, SC_OP_rope, "layers[0].attn", "backward"),
                     SC_ATTR_offset);
}

bool embedding_gradient_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_op(m, func, SC_OP_scatter_add, NULL), SC_ATTR_offset);
}

bool embedding_gradient_offset_reordered(sc_module *m, sc_func_id func)
{
    return reverse_offset(m, find_op(m, func, SC_OP_scatter_add, NULL));
}

bool target_gradient_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_in_phase(m, func, SC_OP_index, "loss", "backward"), SC_ATTR_offset);
}

bool dropout_gradient_offset_dropped(sc_module *m, sc_func_id func)
{
    return drop_attr(m, find_in_phase(m, func, SC_OP_dropout, NULL, "backward"), SC_ATTR_offset);
}

/* ---- dropout, recomputation, gathered parameters ---- */
bool dropout_gradient_of_another_seed(sc_module *m, sc_func_id func)
{
    return set_word(m, find_in_phase(m, func, SC_OP_dropout, "h[0]", "backward"), SC_ATTR_seed,
                    "h[1].dropout0");
}

bool dropout_gradient_of_another_rate(sc_module *m, sc_func_id func)
{
    sc_op_id op = find_in_phase(m, func, SC_OP_dropout, "h[0]", "backward");
    if (op == SC_NONE)
        return false;
    sc_op_set_attr(m, op, sc_attr_number(SC_ATTR_p, 0.5));
    return true;
}

bool recomputed_dropout_of_another_seed(sc_module *m, sc_func_id func)
{
    return set_word(m, find_in_phase(m, func, SC_OP_dropout, "h[0]", "recompute"), SC_ATTR_seed,
                    "h[0].dropout1");
}

bool recomputed_without_dropout(sc_module *m, sc_func_id func)
{
    return bypass(m, func, find_in_phase(m, func, SC_OP_dropout, "h[0]", "recompute"), 0);
}

/* The norm's result is x' g: the recomputed dot reads x'. */
bool recomputed_from_another_value(sc_module *m, sc_func_id func)
{
    sc_op_id dot = find_in_phase(m, func, SC_OP_dot, "layers[0].ffn", "recompute"),
             gain = def_of(m, operand_of(m, dot, 0));
    return gain != SC_NONE && sc_op_at(m, gain)->kind == SC_OP_mul &&
           read_as_operand(m, dot, 0, operand_of(m, gain, 0));
}

/* The gather of a parameter in a phase, and which of its operands that is. */
static reduction gather_of(const sc_module *m, sc_func_id func, const char *param,
                           const char *phase)
{
    sc_for_each_op (m, func, op) {
        const sc_op *o = sc_op_at(m, op);
        if (o->kind != SC_OP_all_gather ||
            strcmp(sc_text(m->context, sc_op_word(o, SC_ATTR_phase)), phase) != 0)
            continue;
        uint32_t i = operand_index(m, op, result_of(m, find_read(m, func, param)));
        if (i < o->operand_count)
            return (reduction){op, i};
    }
    return (reduction){SC_NONE, 0};
}

bool parameters_exchanged_in_backward(sc_module *m, sc_func_id func)
{
    reduction a = gather_of(m, func, "layers[0].ffn.w1", "backward"),
              b = gather_of(m, func, "layers[0].ffn.w3", "backward");
    return a.op != SC_NONE && b.op != SC_NONE &&
           exchange_values(m, func, sc_result(m, a.op, a.i), sc_result(m, b.op, b.i));
}

bool shard_for_parameter_in_backward(sc_module *m, sc_func_id func)
{
    reduction r = gather_of(m, func, "layers[0].ffn.w1", "backward");
    return bypass(m, func, r.op, r.i);
}

bool recomputed_with_another_layer(sc_module *m, sc_func_id func)
{
    reduction r = gather_of(m, func, "layers[1].ffn.w1", "backward");
    return read_as_operand(m, r.op, r.i, result_of(m, find_read(m, func, "layers[0].ffn.w1")));
}
