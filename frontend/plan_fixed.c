/* State that an earlier entry of the plan has placed stays where it is. The other module has its own dims and atoms: dims are found by
 * name, atoms as ranges of their axis. What this plan only stores (`shard param D over fsdp`) is not part of it: the parameter is
 * gathered where it is used, here as there. */
#include "frontend/plan_internal.h"

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
        s->is_fixed[s->view->values.data[i]] = fixed_state(s, fixed, s->view->values.data[i]) != NULL;
}

/* An atom of the other module's mesh as a range of its axis. */
static sc_axis_range range_of(const sc_mesh *mesh, uint8_t atom)
{
    sc_axis_range range = {mesh->atoms[atom].axis, 1, 1};
    for (uint8_t a = mesh->axes[range.axis].first_atom; a < atom; a++)
        range.from *= mesh->atoms[a].size;
    range.to = range.from * mesh->atoms[atom].size;
    return range;
}

void sc_seeding_cut_for_fixed(sc_seeding *s, const sc_module *fixed)
{
    for (uint8_t a = 0; fixed != NULL && a < fixed->mesh.atom_count; a++) {
        sc_axis_range range = range_of(&fixed->mesh, a);
        sc_seeding_add_cut(s, range.axis, range.from, s->plan->axis_locs[range.axis]);
        sc_seeding_add_cut(s, range.axis, range.to, s->plan->axis_locs[range.axis]);
    }
}

/* By value: the atoms that storage rules put on each leaf, as seeds in the list say. */
static sc_atom_set stored_atoms(const sc_seeds *seeds, const sc_map *stored, sc_value value, sc_dim dim)
{
    const uint32_t *at = sc_map_find(stored, ((uint64_t)value << 32) | dim);
    if (at == NULL)
        return 0;
    sc_atom_set set = 0;
    const sc_seed *seed = &seeds->list.data[*at];
    for (uint32_t i = 0; i < seed->split_count; i++) {
        for (uint32_t k = 0; seed->splits[i].dim == dim && k < seed->splits[i].atoms.count; k++)
            set |= (sc_atom_set)1 << seed->splits[i].atoms.atoms[k];
    }
    return set;
}

/* The atoms of this mesh for one dim of the placed state, without those that are only storage. */
static sc_atom_list translate(const sc_seeding *s, const sc_module *fixed, const sc_atom_list *atoms, sc_atom_set without)
{
    sc_atom_list all = {0}, kept = {0};
    for (uint32_t i = 0; i < atoms->count; i++)
        sc_seeding_add_range(s, range_of(&fixed->mesh, atoms->atoms[i]), &all);
    for (uint32_t i = 0; i < all.count; i++) {
        if ((without >> all.atoms[i] & 1) == 0)
            kept.atoms[kept.count++] = all.atoms[i];
    }
    return kept;
}

static void add_seed(sc_seeding *s, const sc_module *fixed, const sc_state *state, sc_value value, uint32_t rule, const sc_map *stored,
                     sc_seeds *seeds)
{
    const sc_type_info *type = sc_type_of(s->m, value), *placed = &fixed->types.data[state->type];
    sc_split *splits = sc_arena_array(&s->context->arena, SC_MAX_RANK, sizeof *splits);
    uint32_t count = 0;
    sc_atom_set only_stored = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_sym name = s->m->dims.data[type->dims[i].dim].name;
        for (uint32_t k = 0; k < placed->rank; k++) {
            if (fixed->dims.data[placed->dims[k].dim].name != name)
                continue;
            sc_atom_list atoms = sc_placement_dim(&placed->placement, k);
            sc_atom_set without = stored_atoms(seeds, stored, value, type->dims[i].dim);
            only_stored |= without;
            sc_atom_list kept = translate(s, fixed, &atoms, without);
            if (kept.count > 0)
                splits[count++] = (sc_split){type->dims[i].dim, kept};
        }
    }
    sc_atom_set all = (sc_atom_set)((1u << s->m->mesh.atom_count) - 1);
    *sc_vec_push(&s->context->arena, &seeds->list) = (sc_seed){
        .value = value, .strength = SC_SEED_FIXED, .rule = rule, .closed = all & ~only_stored, .split_count = count, .splits = splits};
}

void sc_seeding_fixed_seeds(sc_seeding *s, const sc_module *fixed, sc_seeds *seeds)
{
    if (fixed == NULL || s->m->mesh.atom_count == 0)
        return;
    sc_map stored = {.arena = &s->context->arena};
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        for (uint32_t k = 0; seed->strength == SC_SEED_STORAGE && k < seed->split_count; k++)
            sc_map_insert(&stored, ((uint64_t)seed->value << 32) | seed->splits[k].dim, i, NULL);
    }
    const char *text = "placed by the plan's default entry";
    uint32_t line = sc_seeding_add_line(s, text, s->plan->plan == NULL ? (sc_loc){0} : s->plan->plan->loc);
    for (uint32_t i = 0; i < s->view->values.count; i++) {
        sc_value value = s->view->values.data[i];
        const sc_state *state = fixed_state(s, fixed, value);
        if (state != NULL)
            add_seed(s, fixed, state, value, s->lines.data[line].rule, &stored, seeds);
    }
}
