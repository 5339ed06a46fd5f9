/* store-params: gathers parameters at their uses if rules shard only their storage.
 *
 *   %w = param "layers[0].ffn.w1"            %w = param "layers[0].ffn.w1"
 *   %h = dot[D] %x, %w                 ->    %u = use %w {unit = 1}
 *                                            %h = dot[D] %x, %u
 *
 * The `use` is the boundary of the stored placement. Propagation places %u as its readers want it,
 * %w gets that plus the storage splits, and the reshard between them is the gather. There is one
 * `use` per FSDP unit (a stacked instance; what is before, between and after stacks), before the
 * unit's first reader, so that all gathers of a unit can share a call; with `reshard after use` one
 * per reader. The cast to the act dtype stays before it: a parameter is cast once, before it is
 * gathered. One walk over the readers; idempotent on a module without storage rules. */
#include <string.h>

#include "passes/pass.h"
#include "passes/uses.h"

typedef struct storage {
    sc_module *m;
    bool *stored;                /* per value: a stored parameter, or its cast */
    sc_value *in_unit;           /* per value: its `use` in the current unit */
    uint32_t *unit_of;           /* per value: the unit of in_unit */
    const sc_training *training; /* NULL: forward only */
    uint32_t count;
} storage;

/* Length of the stacked instance in a scope: `layers[3]` in layers[3].attn; 0 outside stacks. */
static size_t instance_length(const char *scope)
{
    const char *bracket = strchr(scope, ']');
    return bracket == NULL ? 0 : (size_t)(bracket - scope) + 1;
}

static bool same_unit(const sc_module *m, sc_sym a, sc_sym b)
{
    if (a == b)
        return true;
    const char *x = sc_text(m->context, a), *y = sc_text(m->context, b);
    size_t length = instance_length(x);
    return length == instance_length(y) && memcmp(x, y, length) == 0;
}

/* Returns when the gathered copy is dropped. */
static sc_reshard_after dropped_after(const storage *s, sc_value value)
{
    if (s->training == NULL)
        return SC_RESHARD_AFTER_FORWARD;
    if (s->training->reshard == NULL)
        return s->training->reshard_otherwise;
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    while ((sc_op_traits(op) & SC_STATE_READ) == 0)
        op = sc_op_at(s->m, sc_def(s->m, op->operands[0]));
    return (sc_reshard_after)
        s->training->reshard[sc_module_find_state(s->m, sc_op_word(op, SC_ATTR_name))];
}

static sc_value use_in_unit(storage *s, sc_op_id reader, sc_value value, uint32_t unit)
{
    sc_module *m = s->m;
    sc_reshard_after after = dropped_after(s, value);
    if (after != SC_RESHARD_AFTER_USE && s->unit_of[value] != SC_NONE &&
        (s->unit_of[value] == unit || after == SC_RESHARD_AFTER_STEP))
        return s->in_unit[value];
    sc_attr attr = sc_attr_int(SC_ATTR_unit, unit);
    sc_type type = m->values.data[value].type;
    /* gathered for this reader, not for the whole unit */
    bool alone = after == SC_RESHARD_AFTER_USE;
    sc_op_id use = sc_op_new(m, m->ops.data[reader].func, reader, SC_OP_use, &value, 1, &attr,
                             alone ? 0 : 1, &type, 1, reader);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, reader), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, use, *phase);
    if (after == SC_RESHARD_AFTER_STEP)
        sc_op_set_attr(m, use, sc_attr_int(SC_ATTR_per_step, 1));
    s->unit_of[value] = unit;
    return s->in_unit[value] = sc_result(m, use, 0);
}

static void mark_stored(storage *s, const sc_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        sc_value value = seeds->list.data[i].value;
        uint32_t state = sc_module_find_state(
            s->m, sc_op_word(sc_op_at(s->m, sc_def(s->m, value)), SC_ATTR_name));
        if (seeds->list.data[i].strength == SC_SEED_STORAGE && state != SC_NONE &&
            s->m->state.data[state].kind == SC_STATE_PARAM)
            s->stored[value] = true;
    }
}

static void store_function(storage *s, sc_func_id func)
{
    sc_module *m = s->m;
    uint32_t unit = 0;
    sc_sym scope = 0;
    bool first = true;
    sc_for_each_op (m, func, op) {
        if (sc_is_stored_copy(m, op)) {
            s->stored[sc_result(m, op, 0)] = s->stored[m->ops.data[op].operands[0]];
            continue;
        }
        if ((sc_op_traits(sc_op_at(m, op)) &
             (SC_STATE_READ | SC_STATE_WRITE | SC_CONSTANT | SC_FROM_OUTSIDE)) != 0)
            continue; /* their position does not determine a unit */
        if (!first && !same_unit(m, scope, m->ops.data[op].scope))
            unit++;
        first = false;
        scope = m->ops.data[op].scope;
        /* gradients of a unit are reduced together */
        if (sc_op_attr(sc_op_at(m, op), SC_ATTR_gradient) != NULL)
            sc_op_set_attr(m, op, sc_attr_int(SC_ATTR_unit, unit));
        for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++) {
            sc_value value = m->ops.data[op].operands[i];
            if (value < s->count && s->stored[value]) {
                sc_value use = use_in_unit(s, op, value, unit);
                m->ops.data[op].operands[i] = use;
            }
        }
    }
}

bool sc_run_store_params(sc_module *m, sc_pass_env *env)
{
    if (env->seeds == NULL)
        return true;
    sc_arena *arena = &m->context->arena;
    storage s = {.m = m,
                 .count = m->values.count,
                 .training = env->step == NULL ? NULL : env->step->training};
    s.stored = sc_arena_array(arena, s.count, sizeof *s.stored);
    s.in_unit = sc_arena_array(arena, s.count, sizeof *s.in_unit);
    s.unit_of = sc_arena_array(arena, s.count, sizeof *s.unit_of);
    memset(s.unit_of, 0xff, s.count * sizeof *s.unit_of);
    mark_stored(&s, env->seeds);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        if (env->step == NULL || f != env->step->update) /* the optimizer reads stored parameters */
            store_function(&s, f);
    }
    return true;
}
