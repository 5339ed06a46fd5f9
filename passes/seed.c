/* Seeding: applies each plan line to the values that it constrains. Detects conflicting lines: two
 * that place one axis of a value on different dims. */
#include "passes/propagate.h"

#include "ir/print_type.h"

static const char *value_name(const sc_module *m, sc_value value)
{
    sc_sym path = m->values.data[value].path;
    if (path == 0 && (sc_op_traits(sc_op_at(m, sc_def(m, value))) & SC_STATE_READ) != 0)
        path = sc_op_word(sc_op_at(m, sc_def(m, value)), SC_ATTR_name);
    if (path != 0)
        return sc_text(m->context, path);
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    return sc_arena_printf(&m->context->arena, "a result of %s in %s", sc_ops[op->kind].name,
                           sc_text(m->context, op->scope));
}

/* Returns the name of the composite that the leaf is printed as part of, or of the leaf. */
static const char *shown_dim(const sc_module *m, sc_value value, uint32_t index)
{
    const sc_type_dim *dim = &sc_type_of(m, value)->dims[index];
    return sc_text(m->context, m->dims.data[dim->group != SC_NONE ? dim->group : dim->dim].name);
}

/* Lines that conflict on one value usually conflict on many; one of these is reported, the first
 * with a name. */
static void note_conflict(sc_propagation *p, const sc_seed *seed, uint32_t sub_axis, uint32_t dim)
{
    const sc_value_info *values = p->m->values.data;
    uint32_t other = sc_cause_of(p->placing, seed->value, sub_axis)->rule,
             axis = p->m->mesh.sub_axes[sub_axis].axis;
    sc_conflict conflict = {
        .seed = seed, .sub_axis = sub_axis, .dim = dim, .other = other, .last = seed->value};
    for (uint32_t i = 0; i < p->conflicts.count; i++) {
        sc_conflict *known = &p->conflicts.data[i];
        if (known->seed->rule != seed->rule || known->other != other ||
            p->m->mesh.sub_axes[known->sub_axis].axis != axis)
            continue;
        conflict.more = known->more + (known->last != seed->value);
        if (values[known->seed->value].path != 0 || values[seed->value].path == 0)
            conflict = (sc_conflict){known->seed, known->sub_axis, known->dim,
                                     other,       seed->value,     conflict.more};
        *known = conflict;
        return;
    }
    *sc_vec_push(&p->m->context->arena, &p->conflicts) = conflict;
}

static void report_conflict(const sc_propagation *p, const sc_conflict *conflict)
{
    sc_module *m = p->m;
    const sc_seed *seed = conflict->seed;
    const sc_rule_ref *mine = &m->rules.data[seed->rule];
    sc_diag *diag = &m->context->diag;
    sc_report(diag, SC_D_two_dims_one_axis, mine->loc, value_name(m, seed->value),
              sc_text(m->context, m->mesh.axes[m->mesh.sub_axes[conflict->sub_axis].axis].name),
              shown_dim(m, seed->value, p->placing->at[seed->value].on[conflict->sub_axis]),
              shown_dim(m, seed->value, conflict->dim), NULL);
    if (conflict->other != SC_NONE) {
        const sc_rule_ref *other = &m->rules.data[conflict->other];
        sc_report_note(diag, other->loc, "the other line is here: %s",
                       sc_text(m->context, other->text));
    }
    sc_loc place = m->ops.data[sc_def(m, seed->value)].loc;
    sc_report_note(diag, place, "the value: %s", sc_type_text(m, m->values.data[seed->value].type));
    if (conflict->more > 0)
        sc_report_note(diag, (sc_loc){0}, "the same two lines conflict on %u more value%s",
                       conflict->more, conflict->more == 1 ? "" : "s");
}

/* Reports all conflicts; true if there are none. */
static bool report_conflicts(sc_propagation *p)
{
    bool fine = p->conflicts.count == 0;
    for (uint32_t i = 0; i < p->conflicts.count; i++)
        report_conflict(p, &p->conflicts.data[i]);
    p->conflicts.count = 0;
    return fine;
}

/* Marks the line as having an effect; placements of another entry are not due to a line of this
 * one. */
static void note_effect(sc_propagation *p, const sc_seed *seed)
{
    if (seed->strength != SC_SEED_FIXED)
        p->placing->acted[seed->rule] = true;
}

static void place_sub_axis(sc_propagation *p, const sc_seed *seed, uint32_t dim, uint32_t sub_axis)
{
    sc_placement_append(&p->placing->at[seed->value], dim, sub_axis);
    *sc_cause_of(p->placing, seed->value, sub_axis) = (sc_cause){seed->rule, SC_NONE, SC_NONE};
    note_effect(p, seed);
}

/* True if a stronger line has decided the sub-axis: pins override rules, output rules override act
 * rules. */
static bool is_settled(const sc_propagation *p, const sc_seed *seed, uint32_t sub_axis,
                       const uint8_t *strength_of)
{
    const uint8_t on = p->placing->at[seed->value].on[sub_axis];
    if ((p->placing->closed[seed->value] >> sub_axis & 1) != 0)
        return true;
    return on != SC_ON_NOTHING && strength_of != NULL &&
           strength_of[(size_t)seed->value * p->placing->sub_axis_count + sub_axis] <
               seed->strength;
}

static void lay_seed(sc_propagation *p, const sc_seed *seed, uint8_t *strength_of)
{
    sc_placement *at = &p->placing->at[seed->value];
    for (uint32_t s = 0; s < seed->split_count; s++) {
        int dim = sc_type_find_dim(sc_type_of(p->m, seed->value), seed->splits[s].dim);
        if (dim < 0)
            continue;
        for (uint32_t i = 0; i < seed->splits[s].sub_axes.count; i++) {
            uint32_t sub_axis = seed->splits[s].sub_axes.sub_axes[i];
            if (at->on[sub_axis] == dim || is_settled(p, seed, sub_axis, strength_of))
                continue;
            if (at->on[sub_axis] != SC_ON_NOTHING) {
                note_conflict(p, seed, sub_axis, (uint32_t)dim);
                continue;
            }
            sc_type_info type = *sc_type_of(p->m, seed->value);
            type.placement = *at;
            uint64_t shards = sc_type_shards(&p->m->mesh, &type, (uint32_t)dim) *
                              p->m->mesh.sub_axes[sub_axis].size;
            if (seed->strength == SC_SEED_WEAK &&
                !sc_dim_divides(p->m, type.dims[dim].dim, type.dims[dim].size, shards))
                continue; /* an earlier free line, in mesh order, left too little of the dim */
            place_sub_axis(p, seed, (uint32_t)dim, sub_axis);
            strength_of[(size_t)seed->value * p->placing->sub_axis_count + sub_axis] =
                (uint8_t)seed->strength;
        }
    }
    sc_propagation_touch(p, seed->value);
}

/* Closes the sub-axes that a pin leaves out. */
static void close_sub_axes(sc_propagation *p, const sc_seed *seed)
{
    if ((seed->closed & ~p->placing->closed[seed->value]) != 0)
        note_effect(p, seed);
    p->placing->closed[seed->value] |= seed->closed;
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        sc_cause *cause = sc_cause_of(p->placing, seed->value, a);
        if ((seed->closed >> a & 1) != 0 && cause->rule == SC_NONE)
            *cause = (sc_cause){seed->rule, SC_NONE, SC_NONE};
    }
}

/* Orders the sub-axes of a dim: within a line as written, across lines in mesh order. */
static void sort_across_lines(sc_propagation *p, sc_value value)
{
    sc_placement *at = &p->placing->at[value];
    for (uint32_t d = 0; d < sc_type_of(p->m, value)->rank; d++) {
        sc_sub_axis_list list = sc_placement_dim(at, d);
        for (uint32_t i = 1; i < list.count; i++) {
            for (uint32_t j = i; j > 0 && list.sub_axes[j - 1] > list.sub_axes[j] &&
                                 sc_cause_of(p->placing, value, list.sub_axes[j - 1])->rule !=
                                     sc_cause_of(p->placing, value, list.sub_axes[j])->rule;
                 j--) {
                uint8_t swap = list.sub_axes[j];
                list.sub_axes[j] = list.sub_axes[j - 1];
                list.sub_axes[j - 1] = swap;
            }
        }
        if (list.count > 1)
            sc_placement_set_dim(at, d, &list);
    }
}

bool sc_lay_strong_seeds(sc_propagation *p, const sc_seeds *seeds)
{
    uint8_t *strength_of = sc_arena_array(
        &p->m->context->arena, (size_t)p->placing->value_count * p->placing->sub_axis_count, 1);
    for (int strength = SC_SEED_FIXED; strength <= SC_SEED_STRONG; strength++) {
        for (uint32_t i = 0; i < seeds->list.count; i++) {
            const sc_seed *seed = &seeds->list.data[i];
            if ((int)seed->strength == strength)
                lay_seed(p, seed, strength_of);
        }
        for (uint32_t i = 0; i < seeds->list.count; i++) {
            const sc_seed *seed = &seeds->list.data[i];
            if ((int)seed->strength == strength && seed->closed != 0)
                close_sub_axes(p, seed);
        }
    }
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        if (seeds->list.data[i].strength == SC_SEED_STRONG)
            sort_across_lines(p, seeds->list.data[i].value);
    }
    return report_conflicts(p);
}

/* True if the value uses no sub-axis of the seed's axes and the rest of its dims divides. */
static bool is_free(const sc_propagation *p, const sc_seed *seed)
{
    const sc_mesh *mesh = &p->m->mesh;
    const sc_placement *at = &p->placing->at[seed->value];
    for (uint32_t s = 0; s < seed->split_count; s++) {
        for (uint32_t i = 0; i < seed->splits[s].sub_axes.count; i++) {
            const sc_axis *axis =
                &mesh->axes[mesh->sub_axes[seed->splits[s].sub_axes.sub_axes[i]].axis];
            for (uint32_t a = axis->first_sub_axis;
                 a < (uint32_t)axis->first_sub_axis + axis->sub_axis_count; a++) {
                if (at->on[a] != SC_ON_NOTHING || (p->placing->closed[seed->value] >> a & 1) != 0)
                    return false;
            }
        }
        sc_type_info type = *sc_type_of(p->m, seed->value);
        type.placement = *at;
        int dim = sc_type_find_dim(&type, seed->splits[s].dim);
        if (dim < 0 || !sc_dim_divides(p->m, type.dims[dim].dim, type.dims[dim].size,
                                       sc_type_shards(mesh, &type, (uint32_t)dim) *
                                           sc_sub_axis_list_size(mesh, &seed->splits[s].sub_axes)))
            return false;
    }
    return true;
}

bool sc_lay_weak_seeds(sc_propagation *p, const sc_seeds *seeds)
{
    sc_arena *arena = &p->m->context->arena;
    /* before any is applied, so order is irrelevant */
    bool *eligible = sc_arena_array(arena, seeds->list.count, sizeof *eligible);
    uint8_t *strength_of =
        sc_arena_array(arena, (size_t)p->placing->value_count * p->placing->sub_axis_count, 1);
    for (uint32_t i = 0; i < seeds->list.count; i++)
        eligible[i] =
            seeds->list.data[i].strength == SC_SEED_WEAK && is_free(p, &seeds->list.data[i]);
    /* in mesh order, independent of the order of lines */
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        for (uint32_t i = 0; i < seeds->list.count; i++) {
            const sc_seed *seed = &seeds->list.data[i];
            if (eligible[i] && seed->split_count > 0 && seed->splits[0].sub_axes.sub_axes[0] == a)
                lay_seed(p, seed, strength_of);
        }
    }
    return report_conflicts(p);
}

/* Storage splits are minor to those that uses want. An axis that propagation has placed on the
 * parameter is not used again. */
bool sc_lay_storage(sc_propagation *p, const sc_seeds *seeds)
{
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        sc_placement *at = &p->placing->at[seed->value];
        if (seed->strength != SC_SEED_STORAGE)
            continue;
        for (uint32_t s = 0; s < seed->split_count; s++) {
            sc_type_info type = *sc_type_of(p->m, seed->value);
            int dim = sc_type_find_dim(&type, seed->splits[s].dim);
            if (dim < 0)
                continue;
            for (uint32_t k = 0; k < seed->splits[s].sub_axes.count; k++) {
                uint32_t sub_axis = seed->splits[s].sub_axes.sub_axes[k];
                const sc_cause *cause = sc_cause_of(p->placing, seed->value, sub_axis);
                type.placement = *at;
                uint64_t shards = sc_type_shards(&p->m->mesh, &type, (uint32_t)dim) *
                                  p->m->mesh.sub_axes[sub_axis].size;
                if (at->on[sub_axis] == SC_ON_NOTHING &&
                    sc_dim_divides(p->m, type.dims[dim].dim, type.dims[dim].size, shards))
                    place_sub_axis(p, seed, (uint32_t)dim, sub_axis);
                else if (at->on[sub_axis] != SC_ON_NOTHING && at->on[sub_axis] != dim &&
                         cause->op == SC_NONE && cause->rule != SC_NONE)
                    note_conflict(p, seed, sub_axis, (uint32_t)dim);
            }
        }
    }
    return report_conflicts(p);
}
