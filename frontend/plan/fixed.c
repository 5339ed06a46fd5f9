/* Keeps state where an earlier entry of the plan placed it. The other module has its own dims and
 * sub-axes: dims are matched by name, sub-axes as ranges of their axis. Splits that this plan makes
 * only for storage (`shard param D over fsdp`) are excluded: in both entries the parameter is
 * gathered where it is used. */
#include "frontend/plan/internal.h"

static const sc_state *fixed_state(const sc_seeding *s, const sc_module *fixed, sc_value value)
{
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    if (fixed == NULL || (sc_op_traits(op) & SC_STATE_READ) == 0)
        return NULL;
    const sc_attr *name = sc_op_attr(op, SC_ATTR_name);
    uint32_t state = name == NULL ? SC_NONE : sc_module_find_state(fixed, name->text);
    return state == SC_NONE ? NULL : &fixed->state.data[state];
}

void sc_seeding_mark_fixed(sc_seeding *s, const sc_module *fixed)
{
    for (uint32_t i = 0; i < s->view->values.count; i++)
        s->is_fixed[s->view->values.data[i]] =
            fixed_state(s, fixed, s->view->values.data[i]) != NULL;
}

/* Returns a sub-axis of the other module's mesh as a range of its axis. */
static sc_axis_range range_of(const sc_mesh *mesh, uint8_t sub_axis)
{
    sc_axis_range range = {mesh->sub_axes[sub_axis].axis, 1, 1};
    for (uint8_t a = mesh->axes[range.axis].first_sub_axis; a < sub_axis; a++)
        range.from *= mesh->sub_axes[a].size;
    range.to = range.from * mesh->sub_axes[sub_axis].size;
    return range;
}

void sc_seeding_cut_for_fixed(sc_seeding *s, const sc_module *fixed)
{
    if (fixed == NULL)
        return;
    for (uint8_t a = 0; a < fixed->mesh.sub_axis_count; a++) {
        sc_axis_range range = range_of(&fixed->mesh, a);
        sc_seeding_add_cut(s, range.axis, range.from, s->plan->axis_locs[range.axis]);
        sc_seeding_add_cut(s, range.axis, range.to, s->plan->axis_locs[range.axis]);
    }
}

/* ---- storage ---- */
/* For placed state: the sub-axes that this entry's storage lines name, and those of them that the
 * placement uses. */
typedef struct stored_value {
    sc_sub_axis_set named, placed;
    sc_split minor[SC_MAX_RANK]; /* of the placed sub-axes, by dim */
    uint32_t minor_count;
    bool has_minor; /* a storage seed already has the minor splits */
} stored_value;

static sc_sub_axis_set split_sub_axes(const sc_split *split)
{
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < split->sub_axes.count; a++)
        set |= (sc_sub_axis_set)1 << split->sub_axes.sub_axes[a];
    return set;
}

static bool is_stored_state(const sc_seeding *s, const sc_seed *seed)
{
    return seed->strength == SC_SEED_STORAGE && seed->value < s->view->value_count &&
           s->is_fixed[seed->value];
}

/* Indexed by value. */
static stored_value **find_stored(const sc_seeding *s, const sc_seeds *seeds)
{
    stored_value **stored =
        sc_arena_array(&s->context->arena, s->view->value_count, sizeof *stored);
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        if (!is_stored_state(s, seed))
            continue;
        if (stored[seed->value] == NULL)
            stored[seed->value] = sc_arena_alloc(&s->context->arena, sizeof **stored);
        for (uint32_t k = 0; k < seed->split_count; k++)
            stored[seed->value]->named |= split_sub_axes(&seed->splits[k]);
    }
    return stored;
}

/* Replaces the splits of a storage seed by those of the placed state, whatever dim this entry's
 * lines would choose. */
static void move_stored(const sc_seeding *s, stored_value *of, sc_seed *seed)
{
    sc_split *splits = sc_arena_array(&s->context->arena, 2 * SC_MAX_RANK, sizeof *splits);
    uint32_t count = 0;
    if (!of->has_minor) {
        for (uint32_t k = 0; k < of->minor_count; k++)
            splits[count++] = of->minor[k];
    }
    of->has_minor = true;
    for (uint32_t k = 0; k < seed->split_count; k++) {
        sc_split kept = {.dim = seed->splits[k].dim};
        for (uint32_t a = 0; a < seed->splits[k].sub_axes.count; a++) {
            if ((of->placed >> seed->splits[k].sub_axes.sub_axes[a] & 1) == 0)
                kept.sub_axes.sub_axes[kept.sub_axes.count++] =
                    seed->splits[k].sub_axes.sub_axes[a];
        }
        if (kept.sub_axes.count > 0)
            splits[count++] = kept;
    }
    seed->splits = splits;
    seed->split_count = count;
}

/* Returns the sub-axes of this mesh for one dim of the placed state. */
static sc_sub_axis_list translate(const sc_seeding *s, const sc_module *fixed,
                                  const sc_sub_axis_list *sub_axes)
{
    sc_sub_axis_list all = {0};
    for (uint32_t i = 0; i < sub_axes->count; i++)
        sc_seeding_add_range(s, range_of(&fixed->mesh, sub_axes->sub_axes[i]), &all);
    return all;
}

/* Returns how many sub-axes at the end of the list are for storage only. */
static uint32_t stored_tail(const sc_sub_axis_list *list, sc_sub_axis_set stored)
{
    uint32_t count = 0;
    while (count < list->count && (stored >> list->sub_axes[list->count - 1 - count] & 1) != 0)
        count++;
    return count;
}

static void add_split(sc_split *splits, uint32_t *count, sc_dim dim, const sc_sub_axis_list *list,
                      uint32_t first, uint32_t end)
{
    sc_split split = {.dim = dim};
    for (uint32_t i = first; i < end; i++)
        split.sub_axes.sub_axes[split.sub_axes.count++] = list->sub_axes[i];
    if (split.sub_axes.count > 0)
        splits[(*count)++] = split;
}

static void add_seed(sc_seeding *s, const sc_module *fixed, const sc_state *state, sc_value value,
                     uint32_t rule, stored_value *stored, sc_seeds *seeds)
{
    const sc_type_info *type = sc_type_of(s->m, value), *placed = &fixed->types.data[state->type];
    sc_split *splits = sc_arena_array(&s->context->arena, SC_MAX_RANK, sizeof *splits);
    sc_sub_axis_set named = stored == NULL ? 0 : stored->named;
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_sym name = s->m->dims.data[type->dims[i].dim].name;
        for (uint32_t k = 0; k < placed->rank; k++) {
            if (fixed->dims.data[placed->dims[k].dim].name != name)
                continue;
            const sc_sub_axis_list at = sc_placement_dim(&placed->placement, k),
                                   sub_axes = translate(s, fixed, &at);
            uint32_t tail = stored_tail(&sub_axes, named);
            add_split(splits, &count, type->dims[i].dim, &sub_axes, 0, sub_axes.count - tail);
            if (stored != NULL)
                add_split(stored->minor, &stored->minor_count, type->dims[i].dim, &sub_axes,
                          sub_axes.count - tail, sub_axes.count);
            if (stored != NULL) {
                for (uint32_t a = 0; a < sub_axes.count; a++)
                    stored->placed |= (sc_sub_axis_set)1 << sub_axes.sub_axes[a];
            }
        }
    }
    sc_sub_axis_set all = (sc_sub_axis_set)((1u << s->m->mesh.sub_axis_count) - 1);
    *sc_vec_push(&s->context->arena, &seeds->list) = (sc_seed){.value = value,
                                                               .strength = SC_SEED_FIXED,
                                                               .rule = rule,
                                                               .closed = all & ~named,
                                                               .split_count = count,
                                                               .splits = splits};
}

void sc_seeding_fixed_seeds(sc_seeding *s, const sc_module *fixed, sc_seeds *seeds)
{
    if (fixed == NULL || s->m->mesh.sub_axis_count == 0)
        return;
    stored_value **stored = find_stored(s, seeds);
    const char *text = "placed by the plan's default entry";
    uint32_t line =
        sc_seeding_add_line(s, text, s->plan->plan == NULL ? (sc_loc){0} : s->plan->plan->loc);
    for (uint32_t i = 0; i < s->view->values.count; i++) {
        sc_value value = s->view->values.data[i];
        const sc_state *state = fixed_state(s, fixed, value);
        if (state != NULL)
            add_seed(s, fixed, state, value, s->lines.data[line].rule, stored[value], seeds);
    }
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        sc_seed *seed = &seeds->list.data[i];
        if (is_stored_state(s, seed))
            move_stored(s, stored[seed->value], seed);
    }
}
