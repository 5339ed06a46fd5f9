/* Claims of lines on values. Records what each line takes of a value, for the lines that depend on
 * it. */
#include "frontend/plan/internal.h"

static sc_axis_set without_unit_axes(const sc_seeding *s, sc_axis_set axes)
{
    uint32_t set = axes;
    for (uint32_t i = 0; i < s->plan->mesh.axis_count; i++) {
        if (s->plan->mesh.axes[i].size == 1)
            set &= ~(1u << i);
    }
    return (sc_axis_set)set;
}

uint32_t sc_seeding_add_line(sc_seeding *s, const char *text, sc_loc loc)
{
    uint32_t line = s->lines.count;
    *sc_vec_push(&s->context->arena, &s->lines) =
        (sc_line_claims){.rule = sc_module_add_rule(s->m, text, loc)};
    return line;
}

sc_loc sc_seeding_line_loc(const sc_seeding *s, uint32_t line)
{
    return s->m->rules.data[s->lines.data[line].rule].loc;
}

const char *sc_seeding_value_text(const sc_seeding *s, sc_value value)
{
    sc_sym path = sc_plan_value_path(s->m, value);
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    const char *shape = sc_plan_shape_text(s->m, sc_type_of(s->m, value));
    if (path != 0)
        return sc_arena_printf(&s->context->arena, "%s %s", sc_text(s->context, path), shape);
    return sc_arena_printf(&s->context->arena, "the %s in %s, %s,", sc_ops[op->kind].name,
                           sc_text(s->context, op->scope), shape);
}

static void mark_used(sc_seeding *s, uint32_t line, const sc_claim_split *split)
{
    if (split->dim == SC_NONE || s->m->dims.data[split->dim].part_count == 0)
        return;
    sc_composite_split *composite = sc_seeding_composite(s, split->dim, &split->axes);
    if (!composite->used) {
        composite->used = true;
        composite->loc = sc_seeding_line_loc(s, line);
    }
}

static uint32_t claimed_bits(const sc_seeding *s, const sc_type_info *type, sc_dim dim)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->dims[i].dim == dim || sc_dim_has_part(s->m, dim, type->dims[i].dim))
            bits |= 1u << i;
    }
    return bits;
}

void sc_seeding_find_followers(sc_seeding *s)
{
    const sc_plan_view *view = s->view;
    s->first_follower =
        sc_arena_array(&s->context->arena, view->place_paths.count, sizeof *s->first_follower);
    s->next_follower =
        sc_arena_array(&s->context->arena, view->value_count, sizeof *s->next_follower);
    for (uint32_t i = 0; i < view->place_paths.count; i++)
        s->first_follower[i] = SC_NONE;
    for (uint32_t i = 0; i < view->values.count; i++) {
        sc_value value = view->values.data[i];
        if ((view->kinds[value] & SC_KINDS_FOLLOWING) == 0)
            continue;
        s->next_follower[value] = s->first_follower[view->places[value]];
        s->first_follower[view->places[value]] = value;
    }
}

/* Records that a line takes this split of the value. */
static void note_split(sc_seeding *s, sc_value value, const sc_claim_split *split)
{
    s->claimed[value] =
        (uint16_t)(s->claimed[value] | claimed_bits(s, sc_type_of(s->m, value), split->dim));
    *sc_vec_push(&s->context->arena, &s->taken) = (sc_taken_split){split, s->last_taken[value]};
    s->last_taken[value] = s->taken.count;
}

/* Records a claim on a parameter for its gradients and optimizer state too, because they follow its
 * placement. Storage claims are not shared. */
static void note_followers(sc_seeding *s, const sc_claim *claim, const sc_claim_split *split,
                           sc_axis_set used)
{
    if (s->view->kinds[claim->value] != 1u << SC_KIND_PARAM || claim->strength == SC_SEED_STORAGE)
        return;
    for (uint32_t v = s->first_follower[s->view->places[claim->value]]; v != SC_NONE;
         v = s->next_follower[v]) {
        if (split != NULL)
            note_split(s, v, split);
        if (claim->strength != SC_SEED_WEAK)
            s->used_axes[v] = (sc_axis_set)(s->used_axes[v] | used);
    }
}

/* Records what the line takes of the value, for `*` and `if free`. Returns false if the claim has
 * no effect. */
static bool note_claim(sc_seeding *s, uint32_t line, const sc_claim *claim)
{
    bool known = claim->value < s->view->value_count, effect = claim->closed != 0;
    sc_axis_set used = claim->closed;
    if (known && effect)
        note_followers(s, claim, NULL, claim->closed);
    for (uint32_t i = 0; i < claim->split_count; i++) {
        sc_axis_set axes = without_unit_axes(s, sc_axis_list_set(&claim->splits[i].axes));
        if (axes == 0)
            continue;
        effect = true;
        used = (sc_axis_set)(used | axes);
        mark_used(s, line, &claim->splits[i]);
        if (known)
            note_followers(s, claim, &claim->splits[i], axes);
        if (known)
            note_split(s, claim->value, &claim->splits[i]);
    }
    if (known && claim->strength != SC_SEED_WEAK)
        s->used_axes[claim->value] = (sc_axis_set)(s->used_axes[claim->value] | used);
    return effect;
}

void sc_seeding_claim(sc_seeding *s, uint32_t line, sc_value value, sc_seed_strength strength,
                      sc_axis_set closed, const sc_claim_split *splits, uint32_t split_count)
{
    const sc_claim claim = {.value = value,
                            .strength = strength,
                            .closed = without_unit_axes(s, closed),
                            .split_count = split_count,
                            .splits = splits};
    bool settled =
        value < s->view->value_count && s->is_fixed[value] && strength != SC_SEED_STORAGE;
    if (note_claim(s, line, &claim) && !settled)
        *sc_vec_push(&s->context->arena, &s->lines.data[line].list) = claim;
}

void sc_seeding_lock(sc_seeding *s, uint32_t line, sc_op_id op, sc_dim dim,
                     const sc_axis_list *axes)
{
    const sc_claim_split split = {dim, *axes};
    mark_used(s, line, &split);
    *sc_vec_push(&s->context->arena, &s->lines.data[line].locks) = (sc_lock_claim){op, split};
}

void sc_seeding_give_form(sc_seeding *s, uint32_t line, const sc_form_claim *claim)
{
    mark_used(s, line, &claim->split);
    *sc_vec_push(&s->context->arena, &s->lines.data[line].forms) = *claim;
}
