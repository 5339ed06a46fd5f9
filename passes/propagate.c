/* propagate: derives a placement for every value and a split for every op from the plan's seeds.
 *
 *   %1 = param "w1": f32[D=32, F=64]         ->  f32[D=32, F=64@tp]
 *   %2 = dot[D] %x, %1 : f32[B=4, F=64]      ->  dot[D] %x, %1 {split = [F@tp]}
 *                                                : f32[B=4, F=64@tp]
 *   %4 = dot[F] %2, %3 : f32[B=4, D=32]      ->  dot[F] %2, %3 {split = [F@tp]}
 *                                                : f32[B=4, D=32] (a partial sum, reduced next)
 *
 * Strong lines and pins run first, to a fixpoint; then every op's choice is locked; then `if free`
 * lines run to a fixpoint. Propagation works in rounds: all ops next to a change propose
 * placements, then all proposals are applied at once, so the order of statements and ops does not
 * matter. If two ops propose different dims for one axis of a value, cost decides. A value's
 * sub-axis is set once and kept, so the number of rounds is at most values times sub-axes. Entry
 * inputs are placed at the end, only as far as that adds no collective; constants take what each
 * reader wants when reshards are inserted.
 *
 * Requires SHAPES. Stores placements in the values' types and the ops' choices in `split`
 * attributes. */
#include "passes/propagate.h"

#include "ir/ops/forms.h"
#include "passes/uses.h"

#include <string.h>

/* After the strong lines, locks the factor that every op has chosen for each sub-axis. */
static void lock_choices(sc_propagation *p, sc_func_id func)
{
    sc_for_each_op (p->m, func, op) {
        sc_factors factors;
        sc_assignment assignment;
        sc_op_factors(p->m, sc_op_at(p->m, op), &factors);
        if (factors.count == 0 || p->stage_of[op] != p->stage)
            continue;
        sc_assign(&p->assigner, op, &factors, &assignment);
        for (uint32_t f = 0; f < factors.count; f++) {
            for (uint32_t i = 0; i < assignment.split[f].count; i++)
                sc_lock_sub_axis(p, op, assignment.split[f].sub_axes[i], factors.list[f].dim, i);
        }
        sc_lock_out_rest(p, op);
    }
}

/* Extends the splits of a stored parameter through its copies, up to its uses. */
static void carry_storage(sc_propagation *p, sc_func_id func)
{
    sc_module *m = p->m;
    sc_for_each_op (m, func, op) {
        if (!sc_is_stored_copy(m, op))
            continue;
        sc_value source = m->ops.data[op].operands[0], result = sc_result(m, op, 0);
        p->placing->at[result] = p->placing->at[source];
        memcpy(sc_cause_of(p->placing, result, 0), sc_cause_of(p->placing, source, 0),
               p->placing->sub_axis_count * sizeof(sc_cause));
    }
}

static void lay_locks(sc_propagation *p, const sc_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->locks.count; i++) {
        const sc_lock *lock = &seeds->locks.data[i];
        size_t slot = (size_t)lock->op * p->placing->sub_axis_count + lock->sub_axis;
        p->placing->locks[slot] = lock->dim;
        p->placing->lock_rules[slot] = lock->rule;
        p->placing->acted[lock->rule] = true;
    }
}

/* ---- forms ---- */
/* The sub-axes that split the value along dims that the op's attributes name. */
static sc_sub_axis_set sub_axes_of(const sc_propagation *p, const sc_op *op, sc_value value)
{
    const sc_type_info *type = sc_type_of(p->m, value);
    const sc_placement *at = &p->placing->at[value];
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        if (at->on[a] < type->rank &&
            (sc_attr_has_dim(sc_op_attr(op, SC_ATTR_dims), type->dims[at->on[a]].dim) ||
             sc_attr_has_dim(sc_op_attr(op, SC_ATTR_to), type->dims[at->on[a]].dim)))
            set |= (sc_sub_axis_set)1 << a;
    }
    return set;
}

/* The sub-axes over which operands or results of the op are split by position: attention that is
 * split by heads or batch only needs no form. */
static sc_sub_axis_set sub_axes_at(const sc_propagation *p, const sc_op *op)
{
    sc_sub_axis_set at = 0;
    for (uint32_t o = 0; o < op->operand_count; o++)
        at |= sub_axes_of(p, op, op->operands[o]);
    for (uint32_t r = 0; r < op->result_count; r++)
        at |= sub_axes_of(p, op, op->first_result + r);
    return at;
}

/* Marks the op of a form that splits nothing: whether it has an effect is seen where collectives
 * are. */
static void mark_only(sc_propagation *p, const sc_form_seed *seed)
{
    const sc_sub_axis_list *list = &seed->splits[0].sub_axes;
    const sc_attr_key key = (sc_attr_key)sc_forms[seed->form].mark;
    const sc_op *op = sc_op_at(p->m, seed->op);
    const sc_attr *marked = sc_op_attr(op, key), *by = sc_op_attr(op, SC_ATTR_lines);
    uint8_t sub_axes[SC_MAX_SUB_AXES];
    int64_t lines[SC_MAX_SUB_AXES];
    uint32_t count = marked == NULL || by == NULL ? 0 : marked->count;
    for (uint32_t i = 0; i < count; i++) {
        sub_axes[i] = marked->sub_axes[i];
        lines[i] = by->ints[i];
    }
    for (uint32_t i = 0; i < list->count; i++) { /* no two lines name an axis */
        sub_axes[count] = list->sub_axes[i];
        lines[count++] = seed->rule;
    }
    sc_op_set_attr(p->m, seed->op, sc_attr_sub_axes(p->m, key, sub_axes, count));
    sc_op_set_attr(p->m, seed->op, sc_attr_ints(p->m, SC_ATTR_lines, lines, count));
}

static void give_form(sc_propagation *p, const sc_form_seed *seed)
{
    sc_placing *placing = p->placing;
    sc_sub_axis_list marked = {0};
    placing->is_form[seed->rule] = true;
    if (sc_forms[seed->form].dims == NULL) {
        mark_only(p, seed);
        return;
    }
    sc_sub_axis_set at = sub_axes_at(p, sc_op_at(p->m, seed->op));
    for (uint32_t i = 0; i < seed->split_count; i++) {
        const sc_sub_axis_list *list = &seed->splits[i].sub_axes;
        for (uint32_t a = 0; a < list->count; a++) {
            uint32_t sub_axis = list->sub_axes[a];
            if ((at >> sub_axis & 1) == 0)
                continue;
            sc_lock_sub_axis(p, seed->op, sub_axis, seed->splits[i].dim, a);
            placing->lock_rules[(size_t)seed->op * placing->sub_axis_count + sub_axis] = seed->rule;
            placing->acted[seed->rule] = true;
            marked.sub_axes[marked.count++] = (uint8_t)sub_axis;
        }
    }
    if (marked.count > 0 && sc_forms[seed->form].mark >= 0)
        sc_op_set_attr(p->m, seed->op,
                       sc_attr_sub_axes(p->m, (sc_attr_key)sc_forms[seed->form].mark,
                                        marked.sub_axes, marked.count));
}

static bool has_sub_axis(const sc_sub_axis_list *list, uint32_t sub_axis)
{
    for (uint32_t a = 0; a < list->count; a++) {
        if (list->sub_axes[a] == sub_axis)
            return true;
    }
    return false;
}

/* Reports a dim that other lines split so far that nothing is left for the form's axes. */
static bool check_split(const sc_propagation *p, const sc_form_seed *seed,
                        const sc_factors *factors, const sc_assignment *assignment)
{
    sc_context *context = p->m->context;
    const sc_rule_ref *rule = &p->m->rules.data[seed->rule];
    sc_value value = sc_result(p->m, seed->op, 0);
    sc_sym path = p->m->values.data[value].path;
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        size_t slot = (size_t)seed->op * p->placing->sub_axis_count + a;
        bool is_split = p->placing->lock_rules[slot] != seed->rule;
        for (uint32_t f = 0; f < factors->count && !is_split; f++)
            is_split = has_sub_axis(&assignment->split[f], a);
        if (is_split)
            continue;
        const char *what =
            path != 0 ? sc_text(context, path) : sc_ops[sc_op_at(p->m, seed->op)->kind].name;
        sc_report(
            &context->diag, SC_D_bad_form, rule->loc,
            sc_arena_printf(&context->arena,
                            "'%s' cannot be computed by %s: other lines split %s so far that "
                            "'%s' does not divide the rest",
                            what, sc_forms[seed->form].name,
                            sc_text(context, p->m->dims.data[p->placing->locks[slot]].name),
                            sc_text(context, p->m->mesh.axes[p->m->mesh.sub_axes[a].axis].name)),
            NULL);
        return false;
    }
    return true;
}

/* Statistics for the backward pass are kept as they are computed. */
static bool settle_form(sc_propagation *p, const sc_form_seed *seed)
{
    const sc_op *op = sc_op_at(p->m, seed->op);
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(p->m, op, &factors);
    sc_assign(&p->assigner, seed->op, &factors, &assignment);
    for (uint32_t r = 1; r < op->result_count; r++)
        p->placing->at[op->first_result + r] =
            sc_assigned_result(p->m, &factors, &assignment, op, r);
    return check_split(p, seed, &factors, &assignment);
}

/* Forms decide last: they change how an op is computed, and no other placement. Returns false after
 * reporting one that does not fit. */
static bool lay_forms(sc_propagation *p, const sc_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->forms.count; i++)
        give_form(p, &seeds->forms.data[i]);
    for (uint32_t i = 0; i < seeds->forms.count; i++) {
        if (sc_forms[seeds->forms.data[i].form].dims != NULL &&
            !settle_form(p, &seeds->forms.data[i]))
            return false;
    }
    return true;
}

bool sc_run_propagate(sc_module *m, sc_pass_env *env)
{
    sc_propagation p = {.m = m};
    static const sc_seeds none;
    const sc_seeds *seeds = env->seeds == NULL ? &none : env->seeds;
    sc_propagation_init(&p, env);
    sc_propagation_begin(&p, SC_STAGE_FORWARD);
    lay_locks(&p, seeds);
    if (!sc_lay_strong_seeds(&p, seeds))
        return false;
    sc_propagation_run(&p);
    for (sc_func_id f = 0; f < m->funcs.count; f++)
        lock_choices(&p, f);
    sc_sub_axis_set *before =
        sc_arena_array(&m->context->arena, p.placing->value_count, sizeof *before);
    for (sc_value v = 0; v < p.placing->value_count; v++)
        before[v] = sc_placement_split(&p.placing->at[v]);
    if (!sc_lay_weak_seeds(&p, seeds))
        return false;
    sc_propagation_run(&p);
    sc_withdraw_weak_seeds(&p, before);
    if (!lay_forms(&p, seeds))
        return false;
    sc_place_inputs(&p);
    if (env->step != NULL) {
        sc_place_backward(&p, env->step);
        sc_propagation_begin(&p, SC_STAGE_BACKWARD);
        sc_propagation_run(&p);
        sc_place_state(&p, env->step);
    }
    if (!sc_lay_storage(&p, seeds))
        return false;
    for (sc_func_id f = 0; f < m->funcs.count; f++)
        carry_storage(&p, f);
    if (env->step != NULL)
        sc_settle_state(&p, env->step, seeds);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        if (env->step == NULL || f != env->step->update)
            sc_propagation_finish(&p, f);
    }
    return true;
}
