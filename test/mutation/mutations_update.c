/* Mutations of what a train step adds up over its micro-batches and of what happens once a step:
 * the objective, the norm, the optimizer, the written parameters; and of the schedule. */
#include "edit.h"
#include "mutation.h"

/* ---- accumulators ---- */
bool accumulator_overwritten(sc_module *m, sc_func_id func)
{
    return read_as_operand(m, find_write(m, func, "head.grad"), 0,
                           find_value(m, func, "head.grad"));
}

bool accumulator_added_twice(sc_module *m, sc_func_id func)
{
    sc_op_id add = def_of(m, operand_of(m, find_write(m, func, "head.grad"), 0));
    return scale_operand(m, add, operand_index(m, add, find_value(m, func, "head.grad")), 2);
}

bool accumulator_of_another_parameter(sc_module *m, sc_func_id func)
{
    return exchange_words(m, find_read(m, func, "layers[0].ffn.w1.grad"),
                          find_read(m, func, "layers[1].ffn.w1.grad"), SC_ATTR_name);
}

static bool drop_op(sc_module *m, sc_op_id op)
{
    if (op == SC_NONE)
        return false;
    sc_op_unlink(m, op);
    return true;
}

bool accumulator_not_set_back(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop_op(m, find_write(m, update_of(m), "head.grad"));
}

bool weight_not_set_back(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop_op(m, find_write(m, update_of(m), "weight"));
}

bool accumulator_set_back_in_micro_batch(sc_module *m, sc_func_id func)
{
    sc_op_id write = find_write(m, func, "head.grad");
    if (write == SC_NONE)
        return false;
    return read_as_operand(m, write, 0,
                           make_number(m, write, 0, m->values.data[operand_of(m, write, 0)].type));
}

/* ---- the schedule ---- */
bool micro_batch_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    if (m->schedule.count != 3)
        return false;
    m->schedule.data[1] = m->schedule.data[2];
    m->schedule.count = 2;
    return true;
}

bool micro_batch_run_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    bool found = m->schedule.count == 3;
    m->schedule.data[m->schedule.count - 2].microbatch = 0;
    return found;
}

bool update_too_early(sc_module *m, sc_func_id func)
{
    (void)func;
    if (m->schedule.count != 3)
        return false;
    const sc_call update = m->schedule.data[2];
    m->schedule.data[2] = m->schedule.data[1];
    m->schedule.data[1] = update;
    return true;
}

bool begin_not_called(sc_module *m, sc_func_id func)
{
    if (m->schedule.count != 4 || m->schedule.data[0].func == func)
        return false;
    m->schedule.count = 3;
    for (uint32_t i = 0; i < 3; i++)
        m->schedule.data[i] = m->schedule.data[i + 1];
    return true;
}

bool begin_too_late(sc_module *m, sc_func_id func)
{
    if (m->schedule.count != 4 || m->schedule.data[0].func == func)
        return false;
    const sc_call begin = m->schedule.data[0];
    m->schedule.data[0] = m->schedule.data[1];
    m->schedule.data[1] = begin;
    return true;
}

bool gathered_copies_exchanged(sc_module *m, sc_func_id func)
{
    const sc_func_id begin = m->schedule.data[0].func;
    return begin != func &&
           exchange_words(m, find_write(m, begin, "layers[0].ffn.w1.gathered"),
                          find_write(m, begin, "layers[0].ffn.w3.gathered"), SC_ATTR_name);
}

/* ---- the objective ---- */
/* The op that makes the weight's reciprocal 0 where the weight is, and the product of the loss and
 * that. */
static sc_op_id reciprocal_of(const sc_module *m)
{
    sc_op_id loss = def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 0));
    return def_of(m, operand_of(m, loss, 1));
}

/* The all_reduce of the weight in update. */
static sc_op_id reduced_weight(const sc_module *m)
{
    sc_op_id read = find_read(m, update_of(m), "weight");
    return read == SC_NONE ? SC_NONE
                           : find_reader(m, update_of(m), sc_result(m, read, 0), SC_OP_all_reduce);
}

bool divided_by_local_weight(sc_module *m, sc_func_id func)
{
    (void)func;
    return bypass(m, update_of(m), reduced_weight(m), 0);
}

bool weight_claimed_whole(sc_module *m, sc_func_id func)
{
    sc_op_id reduction = reduced_weight(m), write = find_write(m, func, "weight");
    if (reduction == SC_NONE || write == SC_NONE)
        return false;
    const sc_type whole = m->values.data[sc_result(m, reduction, 0)].type;
    m->state.data[sc_module_find_state(m, sc_intern_text(&m->context->names, "weight"))].type =
        whole;
    m->values.data[operand_of(m, write, 0)].type = whole;
    return claim(m, update_of(m), reduction);
}

bool weight_averaged_over_ranks(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id division = find_maker(m, result_of(m, reciprocal_of(m)), SC_OP_div);
    return scale_operand(m, division, 1, 1.0 / (double)sc_mesh_ranks(&m->mesh));
}

bool weight_of_one_micro_batch(sc_module *m, sc_func_id func)
{
    sc_op_id add = def_of(m, operand_of(m, find_write(m, func, "weight"), 0));
    return add != SC_NONE && sc_op_at(m, add)->kind == SC_OP_add &&
           read_as_operand(m, find_write(m, func, "weight"), 0, operand_of(m, add, 1));
}

bool micro_batch_share_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id share = reciprocal_of(m);
    if (share == SC_NONE || sc_op_at(m, share)->kind != SC_OP_constant ||
        sc_op_number(sc_op_at(m, share), SC_ATTR_value, 1) != 0.5)
        return false;
    sc_op_set_attr(m, share, sc_attr_number(SC_ATTR_value, 1));
    return true;
}

/* where(weight = 0, 0, 1 / weight) is read as 1 / weight, with where(weight = 0, 1, weight) for the
 * weight. */
bool weight_of_zero_divides(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id where = reciprocal_of(m), division = def_of(m, operand_of(m, where, 2)),
             safe = def_of(m, operand_of(m, division, 1));
    return safe != SC_NONE && bypass(m, update_of(m), safe, 0) &&
           read_as_operand(m, division, 1, operand_of(m, safe, 2)) &&
           read_instead(m, update_of(m), sc_result(m, where, 0), sc_result(m, division, 0),
                        SC_NONE);
}

/* eq(weight, 0) becomes eq(total, 0). */
bool emptiness_of_the_total(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id where = reciprocal_of(m), is_empty = def_of(m, operand_of(m, where, 0));
    sc_op_id loss = def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 0));
    return is_empty != SC_NONE && sc_op_at(m, is_empty)->kind == SC_OP_eq &&
           read_as_operand(m, is_empty, 0, operand_of(m, loss, 0));
}

bool loss_and_norm_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return swap_operands(m, m->funcs.data[update_of(m)].last, 0, 1);
}

/* ---- norm and clipping ---- */
/* The square root of all squares. */
static sc_op_id root_of(const sc_module *m)
{
    return def_of(m,
                  operand_of(m, def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 1)), 0));
}

/* What a gradient is multiplied by: the scale times min(clip / norm, 1). */
static sc_op_id factor_of(const sc_module *m)
{
    sc_op_id minimum = find_op(m, update_of(m), SC_OP_minimum, NULL);
    return minimum == SC_NONE ? SC_NONE
                              : find_reader(m, update_of(m), sc_result(m, minimum, 0), SC_OP_mul);
}

bool scale_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id factor = factor_of(m);
    return factor != SC_NONE && read_instead(m, update_of(m), sc_result(m, factor, 0),
                                             operand_of(m, factor, 1), SC_NONE);
}

bool scale_applied_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id factor = factor_of(m);
    if (factor == SC_NONE)
        return false;
    const sc_value scale = operand_of(m, factor, 0);
    return read_as_operand(
        m, factor, 0, make_before(m, factor, SC_OP_mul, scale, scale, m->values.data[scale].type));
}

bool norm_not_scaled(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id norm = def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 1));
    return bypass(m, update_of(m), norm, 0);
}

bool norm_misses_a_shard(sc_module *m, sc_func_id func)
{
    (void)func;
    return bypass(m, update_of(m), def_of(m, operand_of(m, root_of(m), 0)), 0);
}

bool norm_claimed_whole(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id reduction = def_of(m, operand_of(m, root_of(m), 0));
    return reduction != SC_NONE && sc_op_at(m, reduction)->kind == SC_OP_all_reduce &&
           claim(m, update_of(m), reduction);
}

bool norm_over_one_axis(sc_module *m, sc_func_id func)
{
    (void)func;
    const uint8_t first = 0;
    return set_group(m, def_of(m, operand_of(m, root_of(m), 0)), &first, 1);
}

bool norm_misses_a_parameter(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id add = find_maker(m, operand_of(m, root_of(m), 0), SC_OP_add);
    return add != SC_NONE &&
           read_instead(m, update_of(m), sc_result(m, add, 0), operand_of(m, add, 0), SC_NONE);
}

bool norm_counts_a_parameter_twice(sc_module *m, sc_func_id func)
{
    (void)func;
    return scale_operand(m, find_maker(m, operand_of(m, root_of(m), 0), SC_OP_add), 1, 2);
}

/* Squares that every rank has whole are added by every rank. */
bool norm_counts_replicas(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id once = find_maker(m, operand_of(m, root_of(m), 0), SC_OP_to_partial);
    if (once == SC_NONE)
        return false;
    sc_op_at(m, once)->kind = SC_OP_use;
    sc_op_drop_attr(m, once, SC_ATTR_over);
    return true;
}

bool norm_of_every_rank(sc_module *m, sc_func_id func)
{
    (void)func;
    return scale_operand(m, root_of(m), 0, (double)sc_mesh_ranks(&m->mesh));
}

bool norm_of_partial_gradient(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_value read = result_of(m, find_read(m, update_of(m), "head.grad"));
    sc_op_id reduction = find_reader(m, update_of(m), read, SC_OP_all_reduce);
    if (reduction == SC_NONE)
        return false;
    sc_op_id square = find_reader(
        m, update_of(m), sc_result(m, reduction, operand_index(m, reduction, read)), SC_OP_mul);
    return read_as_operand(m, square, 0, read) && read_as_operand(m, square, 1, read);
}

bool padding_in_the_norm(sc_module *m, sc_func_id func)
{
    (void)func;
    return bypass(m, update_of(m), find_maker(m, operand_of(m, root_of(m), 0), SC_OP_mask), 0);
}

bool clip_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    return bypass(m, update_of(m), factor_of(m), 0);
}

bool clip_inverted(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id minimum = find_op(m, update_of(m), SC_OP_minimum, NULL);
    return swap_operands(m, def_of(m, operand_of(m, minimum, 0)), 0, 1);
}

/* min(clip / norm, 1) is read as clip / norm. */
bool clip_without_minimum(sc_module *m, sc_func_id func)
{
    (void)func;
    return bypass(m, update_of(m), find_op(m, update_of(m), SC_OP_minimum, NULL), 0);
}

bool clip_raises(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id minimum = find_op(m, update_of(m), SC_OP_minimum, NULL);
    if (minimum == SC_NONE)
        return false;
    m->ops.data[minimum].kind = SC_OP_maximum;
    return true;
}

bool clip_of_unscaled_norm(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id minimum = find_op(m, update_of(m), SC_OP_minimum, NULL),
             plus = def_of(m, operand_of(m, def_of(m, operand_of(m, minimum, 0)), 1));
    return read_as_operand(m, plus, 0, result_of(m, root_of(m)));
}

/* ---- the optimizer ---- */
/* The value that a parameter's new one is made of: x - rate direction. */
static sc_op_id descent_of(const sc_module *m, const char *param)
{
    return find_maker(m, operand_of(m, find_write(m, update_of(m), param), 0), SC_OP_sub);
}

bool gradient_read_before_reduction(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_value read = result_of(m, find_read(m, update_of(m), "head.grad"));
    sc_op_id moment = find_write(m, update_of(m), "head.m"),
             reduction = find_reader(m, update_of(m), read, SC_OP_all_reduce);
    sc_op_id scaled = find_reader(
        m, update_of(m), sc_result(m, reduction, operand_index(m, reduction, read)), SC_OP_mul);
    /* its square comes first */
    while (scaled != SC_NONE && operand_of(m, scaled, 0) == operand_of(m, scaled, 1)) {
        for (scaled = sc_op_at(m, scaled)->next; scaled != SC_NONE;
             scaled = sc_op_at(m, scaled)->next) {
            if (operand_index(m, scaled,
                              sc_result(m, reduction, operand_index(m, reduction, read))) <
                sc_op_at(m, scaled)->operand_count)
                break;
        }
    }
    return moment != SC_NONE && read_as_operand(m, scaled, 0, read);
}

/* x becomes x (1 - lr decay), as for parameters that decay. */
bool gain_decays(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id descent = descent_of(m, "norm.g"),
             decayed = def_of(m, operand_of(m, descent_of(m, "head"), 0));
    if (descent == SC_NONE || decayed == SC_NONE || sc_op_at(m, decayed)->kind != SC_OP_mul)
        return false;
    const sc_value x = operand_of(m, descent, 0);
    return read_as_operand(
        m, descent, 0,
        make_before(m, descent, SC_OP_mul, x, operand_of(m, decayed, 1), m->values.data[x].type));
}

bool decay_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id decayed = def_of(m, operand_of(m, descent_of(m, "head"), 0));
    return decayed != SC_NONE && sc_op_at(m, decayed)->kind == SC_OP_mul &&
           bypass(m, update_of(m), decayed, 0);
}

/* The direction has decay x added; x is left as it is. */
bool decay_divided_by_the_root(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id descent = descent_of(m, "head"), decayed = def_of(m, operand_of(m, descent, 0));
    sc_op_id direction = find_maker(m, operand_of(m, descent, 1), SC_OP_div),
             mean = def_of(m, operand_of(m, direction, 0));
    sc_op_id decay = find_reader(
        m, update_of(m), result_of(m, find_read(m, update_of(m), "optimizer0.decay")), SC_OP_cast);
    if (mean == SC_NONE || decay == SC_NONE || sc_op_at(m, decayed)->kind != SC_OP_mul ||
        sc_op_at(m, mean)->kind != SC_OP_div)
        return false;
    const sc_type type = m->values.data[sc_result(m, mean, 0)].type;
    sc_value more = make_before(m, direction, SC_OP_mul, operand_of(m, decayed, 0),
                                sc_result(m, decay, 0), type);
    sc_value sum = make_before(m, direction, SC_OP_add, sc_result(m, mean, 0), more, type);
    return read_as_operand(m, direction, 0, sum) &&
           read_as_operand(m, descent, 0, operand_of(m, decayed, 0));
}

bool corrections_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_read(m, update_of(m), "optimizer0.correction1"),
                          find_read(m, update_of(m), "optimizer0.correction2"), SC_ATTR_name);
}

bool betas_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_read(m, update_of(m), "optimizer0.beta1"),
                          find_read(m, update_of(m), "optimizer0.beta2"), SC_ATTR_name);
}

bool correction_dropped(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id direction = find_maker(m, operand_of(m, descent_of(m, "head"), 1), SC_OP_div);
    return bypass(m, update_of(m), def_of(m, operand_of(m, direction, 0)), 0);
}

/* sqrt(v) + eps becomes sqrt(v + eps). */
bool epsilon_under_the_root(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id direction = find_maker(m, operand_of(m, descent_of(m, "head"), 1), SC_OP_div),
             plus = def_of(m, operand_of(m, direction, 1));
    sc_op_id root = def_of(m, operand_of(m, plus, 0));
    if (root == SC_NONE || sc_op_at(m, root)->kind != SC_OP_sqrt)
        return false;
    const sc_value square = operand_of(m, root, 0);
    m->ops.data[root].operands[0] = make_before(m, root, SC_OP_add, square, operand_of(m, plus, 1),
                                                m->values.data[square].type);
    return bypass(m, update_of(m), plus, 0);
}

bool moments_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_write(m, update_of(m), "head.m"),
                          find_write(m, update_of(m), "head.v"), SC_ATTR_name);
}

bool moment_of_another_parameter(sc_module *m, sc_func_id func)
{
    (void)func;
    return set_word(m, find_read(m, update_of(m), "layers[0].ffn.w1.m"), SC_ATTR_name,
                    "layers[0].ffn.w3.m");
}

/* State is written as it was read. */
static bool write_stale(sc_module *m, const char *name)
{
    return read_as_operand(m, find_write(m, update_of(m), name), 0,
                           result_of(m, find_read(m, update_of(m), name)));
}

bool moment_written_stale(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_stale(m, "head.v");
}

/* A moment is kept in bf16, with the casts that this takes. */
bool moment_in_another_dtype(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id read = find_read(m, update_of(m), "head.m"),
             write = find_write(m, update_of(m), "head.m");
    uint32_t state = sc_module_find_state(m, sc_intern_text(&m->context->names, "head.m"));
    if (read == SC_NONE || write == SC_NONE)
        return false;
    const sc_type wide = m->values.data[sc_result(m, read, 0)].type,
                  narrow = sc_type_with_dtype(m, wide, SC_DTYPE_bf16);
    m->state.data[state].type = m->values.data[sc_result(m, read, 0)].type = narrow;
    sc_value widened =
        make_before(m, sc_op_at(m, read)->next, SC_OP_cast, sc_result(m, read, 0), SC_NONE, wide);
    return read_instead(m, update_of(m), sc_result(m, read, 0), widened, sc_def(m, widened)) &&
           read_as_operand(
               m, write, 0,
               make_before(m, write, SC_OP_cast, operand_of(m, write, 0), SC_NONE, narrow));
}

bool master_written_stale(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_stale(m, "head.master");
}

bool master_not_written(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop_op(m, find_write(m, update_of(m), "head.master"));
}

bool parameter_from_old_master(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id write = find_write(m, update_of(m), "head.master"),
             read = find_read(m, update_of(m), "head.master");
    sc_op_id cast = write == SC_NONE
                        ? SC_NONE
                        : find_reader(m, update_of(m), operand_of(m, write, 0), SC_OP_cast);
    return read_as_operand(m, cast, 0, result_of(m, read));
}

bool rate_of_another_group(sc_module *m, sc_func_id func)
{
    (void)func;
    return set_word(m, find_read(m, update_of(m), "optimizer1.lr"), SC_ATTR_name, "optimizer0.lr");
}

bool momentum_applied_to_the_step_before(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id descent = descent_of(m, "w"), step = def_of(m, operand_of(m, descent, 1));
    return read_as_operand(m, step, 0, result_of(m, find_read(m, update_of(m), "w.m")));
}

/* ---- loss scaling ---- */
/* where(taken, new, old) is written as new. */
static bool write_when_not_taken(sc_module *m, const char *name)
{
    sc_op_id write = find_write(m, update_of(m), name), where = def_of(m, operand_of(m, write, 0));
    return where != SC_NONE && sc_op_at(m, where)->kind == SC_OP_where &&
           read_as_operand(m, write, 0, operand_of(m, where, 1));
}

bool overflow_steps_a_parameter(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_when_not_taken(m, "head");
}

bool overflow_steps_a_moment(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_when_not_taken(m, "head.v");
}

bool scale_not_halved(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_when_not_taken(m, "scaling.scale");
}

bool overflow_counts_as_a_step(sc_module *m, sc_func_id func)
{
    (void)func;
    return write_when_not_taken(m, "scaling.taken");
}

bool scale_never_grows(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id where = def_of(m, operand_of(m, find_write(m, update_of(m), "scaling.scale"), 0)),
             larger = def_of(m, operand_of(m, where, 1));
    return larger != SC_NONE && sc_op_at(m, larger)->kind == SC_OP_where &&
           read_as_operand(m, where, 1, operand_of(m, larger, 2));
}

bool scale_stays_in_the_gradient(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id norm = def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 1)),
             quotient = def_of(m, operand_of(m, norm, 1));
    return quotient != SC_NONE && sc_op_at(m, quotient)->kind == SC_OP_div &&
           bypass(m, update_of(m), quotient, 0);
}

bool cotangent_not_scaled(sc_module *m, sc_func_id func)
{
    sc_op_id cast =
        find_reader(m, func, result_of(m, find_read(m, func, "scaling.scale")), SC_OP_cast);
    if (cast == SC_NONE)
        return false;
    const sc_value scale = sc_result(m, cast, 0);
    return read_instead(m, func, scale, make_number(m, cast, 1, m->values.data[scale].type),
                        SC_NONE);
}

/* Squares of a rank's own shards decide whether this rank steps. */
bool overflow_of_own_shards(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id norm = def_of(m, operand_of(m, m->funcs.data[update_of(m)].last, 1)),
             reduction = def_of(m, operand_of(m, root_of(m), 0));
    sc_op_id difference =
        norm == SC_NONE ? SC_NONE : find_reader(m, update_of(m), sc_result(m, norm, 0), SC_OP_sub);
    if (difference == SC_NONE || reduction == SC_NONE ||
        sc_op_at(m, reduction)->kind != SC_OP_all_reduce)
        return false;
    const sc_value own = operand_of(m, reduction, 0);
    return read_as_operand(m, difference, 0, own) && read_as_operand(m, difference, 1, own);
}

/* ---- written parameters ---- */
bool parameter_not_written(sc_module *m, sc_func_id func)
{
    (void)func;
    return drop_op(m, find_write(m, update_of(m), "head"));
}

/* What the gather makes the written parameter of. */
static sc_value written_shard(const sc_module *m, const char *param)
{
    sc_value whole = operand_of(m, find_write(m, update_of(m), param), 0);
    bool is_gathered = whole != SC_NONE && sc_op_at(m, sc_def(m, whole))->kind == SC_OP_all_gather;
    return is_gathered ? operand_of(m, sc_def(m, whole), m->values.data[whole].index) : SC_NONE;
}

bool parameter_written_without_gather(sc_module *m, sc_func_id func)
{
    (void)func;
    return read_as_operand(m, find_write(m, update_of(m), "head"), 0, written_shard(m, "head"));
}

bool shard_claimed_to_be_the_parameter(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_value shard = written_shard(m, "head");
    if (shard == SC_NONE)
        return false;
    m->values.data[shard].type =
        m->values.data[operand_of(m, find_write(m, update_of(m), "head"), 0)].type;
    return parameter_written_without_gather(m, func);
}

bool parameters_gathered_in_another_order(sc_module *m, sc_func_id func)
{
    (void)func;
    const uint8_t reversed[] = {1, 0};
    return set_group(m, def_of(m, operand_of(m, find_write(m, update_of(m), "head"), 0)), reversed,
                     2);
}

bool parameters_exchanged(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_write(m, update_of(m), "layers[0].ffn.w1"),
                          find_write(m, update_of(m), "layers[0].ffn.w3"), SC_ATTR_name);
}

bool parameter_sliced_from_another(sc_module *m, sc_func_id func)
{
    (void)func;
    return exchange_words(m, find_read(m, update_of(m), "layers[0].ffn.w1"),
                          find_read(m, update_of(m), "layers[0].ffn.w3"), SC_ATTR_name);
}

/* A parameter that nothing trains is halved. */
bool frozen_parameter_written(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id end = m->funcs.data[update_of(m)].last;
    const sc_attr name = sc_attr_text(SC_ATTR_name, sc_intern_text(&m->context->names, "wpe"));
    uint32_t state = sc_module_find_state(m, name.text);
    if (state == SC_NONE || find_read(m, update_of(m), "wpe") != SC_NONE)
        return false;
    const sc_type type = m->state.data[state].type;
    sc_value read = sc_result(
        m, sc_op_new(m, update_of(m), end, SC_OP_param, NULL, 0, &name, 1, &type, 1, end), 0);
    return scale_operand(
        m, sc_op_new(m, update_of(m), end, SC_OP_state_write, &read, 1, &name, 1, NULL, 0, end), 0,
        0.5);
}

/* A second write, of the old value, behind the first. */
bool parameter_written_back(sc_module *m, sc_func_id func)
{
    (void)func;
    sc_op_id write = find_write(m, update_of(m), "head");
    sc_value old = result_of(m, find_read(m, update_of(m), "head"));
    if (write == SC_NONE || old == SC_NONE)
        return false;
    sc_op_new(m, update_of(m), sc_op_at(m, write)->next, SC_OP_state_write, &old, 1,
              sc_op_at(m, write)->attrs, 1, NULL, 0, write);
    return true;
}
