/* lower-reshards: replaces each reshard by the cheapest path of collectives.
 *
 *   %5 = reshard %4 : f32[B=8, S=16@tp] <- f32[B=8, S=16]{sum:tp}
 *     ->  %5 = reduce_scatter %4 {reduce = sum, over = [tp], gather = [S]}
 *
 * A reshard whose only reader is another reshard is merged with it. Requires PLACED; establishes
 * RESHARDS_EXPLICIT. */
#include "passes/lower_reshards.h"

#include "passes/pass.h"
#include "passes/reason.h"
#include "passes/uses.h"

static sc_sym reduce_word(sc_module *m, uint8_t kind)
{
    return sc_intern_text(&m->context->names, kind == SC_PARTIAL_SUM   ? "sum"
                                              : kind == SC_PARTIAL_MAX ? "max"
                                                                       : "min");
}

/* A value that is partial over several axes may have become so at different ops. Each collective
 * that reduces some of them gets the reason for those. */
static void explain_part(sc_module *m, const sc_pass_env *env, sc_sub_axis_set partial,
                         const sc_reshard_step *step, sc_op_id op)
{
    sc_sub_axis_set part = 0;
    uint32_t first = SC_MAX_SUB_AXES;
    for (uint32_t i = step->group.count; i-- > 0;) {
        uint32_t sub_axis = step->group.sub_axes[i];
        part |= (sc_sub_axis_set)1 << sub_axis;
        first = (partial >> sub_axis & 1) != 0 ? sub_axis : first;
    }
    if (step->reduce == 0 || first == SC_MAX_SUB_AXES || (part & partial) == partial)
        return;
    sc_reason reason = sc_reason_of_partial(m, env->placing, m->ops.data[op].operands[0], first);
    if (reason.why == 0)
        return;
    sc_op_drop_attr(m, op, SC_ATTR_rule);
    if (reason.rule != SC_NONE)
        sc_op_set_attr(m, op, sc_attr_int(SC_ATTR_rule, reason.rule));
    sc_op_set_attr(m, op, sc_attr_text(SC_ATTR_why, reason.why));
}

sc_op_id sc_add_reshard_step(sc_module *m, sc_op_id before, const sc_reshard_step *step,
                             sc_value value, const sc_attr *attrs, uint32_t attr_count,
                             sc_op_id like)
{
    enum { OWN = 4 };
    sc_attr *all = sc_arena_array(&m->context->arena, attr_count + OWN, sizeof *all);
    const sc_type_info from = *sc_type_of(m, value);
    uint32_t count = 0;
    sc_type type = sc_type_with_placement(m, m->values.data[value].type, &step->to);
    for (uint32_t i = 0; i < attr_count; i++)
        all[count++] = attrs[i];
    all[count++] = sc_attr_sub_axes(m, SC_ATTR_over, step->group.sub_axes, step->group.count);
    if (step->reduce != 0)
        all[count++] = sc_attr_text(SC_ATTR_reduce, reduce_word(m, step->reduce));
    if (step->gather != 0)
        all[count++] = sc_attr_dims(m, SC_ATTR_gather, &from.dims[step->gather - 1].dim, 1);
    if (step->scatter != 0)
        all[count++] = sc_attr_dims(m, SC_ATTR_scatter, &from.dims[step->scatter - 1].dim, 1);
    return sc_op_new(m, sc_op_at(m, like)->func, before, step->kind, &value, 1, all, count, &type,
                     1, like);
}

static sc_value lower(sc_module *m, const sc_pass_env *env, sc_op_id id)
{
    sc_value value = m->ops.data[id].operands[0], target = sc_result(m, id, 0);
    const sc_placement to = sc_type_of(m, target)->placement;
    const sc_reshard_plan *plan = sc_reshard_find(env->planner, m->values.data[value].type, &to);
    const sc_sub_axis_set partial = sc_placement_partial(&sc_type_of(m, value)->placement, 0);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        const sc_op reshard = *sc_op_at(m, id);
        sc_op_id op = sc_add_reshard_step(m, id, &plan->steps[i], value, reshard.attrs,
                                          reshard.attr_count, id);
        explain_part(m, env, partial, &plan->steps[i], op);
        value = sc_result(m, op, 0);
    }
    if (m->values.data[value].path == 0)
        m->values.data[value].path = m->values.data[target].path;
    return value;
}

/* Merges reshard(reshard x) if the inner one has no other reader. */
static void join_chains(sc_module *m, sc_func_id func, uint32_t *uses)
{
    sc_for_each_op (m, func, op) {
        if (m->ops.data[op].kind != SC_OP_reshard)
            continue;
        sc_op_id inner = sc_def(m, m->ops.data[op].operands[0]);
        if (m->ops.data[inner].kind != SC_OP_reshard || uses[sc_result(m, inner, 0)] != 1)
            continue;
        m->ops.data[op].operands[0] = m->ops.data[inner].operands[0];
        sc_op_unlink(m, inner);
    }
}

bool sc_run_lower_reshards(sc_module *m, sc_pass_env *env)
{
    if (env->planner == NULL)
        env->planner = sc_planner_new(m, env->seeds == NULL ? 0 : env->seeds->call_cost);
    uint32_t count, *uses = sc_count_uses(m);
    sc_value *map = sc_new_value_map(m, &count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        join_chains(m, f, uses);
        sc_for_each_op (m, f, op) {
            if (m->ops.data[op].kind != SC_OP_reshard)
                continue;
            sc_value source = m->ops.data[op].operands[0];
            if (source < count && map[source] != SC_NONE)
                m->ops.data[op].operands[0] = map[source];
            map[sc_result(m, op, 0)] = lower(m, env, op);
            sc_op_unlink(m, op);
        }
        sc_func_replace_uses(m, f, map, count);
    }
    return true;
}
