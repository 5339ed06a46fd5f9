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
    if (!sc_lay_forms(&p, seeds, env->step != NULL))
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
