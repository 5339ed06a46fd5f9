#include "passes/choice_groups.h"

#include <math.h>

#include "ir/ops/build.h"
#include "ir/ops/capacity.h"
#include "passes/parts.h"
#include "passes/send_rows.h"

enum { ROWS, OTHERS, IDS };

/* ---- groups ---- */
/* The choices of a rank: how many there are, and how many are of its experts under even routing. */
static void count_choices(const sc_module *m, const sc_op *op, sc_choice_group *group)
{
    const sc_type_info *ids = sc_type_of(m, op->operands[IDS]);
    group->choices = 1;
    for (uint32_t i = 0; i < ids->rank; i++) {
        const sc_sub_axis_list split = sc_split_of(ids, ids->dims[i].dim);
        if (ids->dims[i].dim == group->part)
            continue;
        group->dims[group->dim_count++] = ids->dims[i].dim;
        group->choices *= sc_type_local_size(m, ids, i);
        for (uint32_t a = 0; a < split.count; a++)
            group->all.sub_axes[group->all.count++] = split.sub_axes[a];
    }
    const double part = fmin(1, (double)group->each / (double)group->below);
    group->share = (double)group->choices * sc_op_number(op, SC_ATTR_even, part);
    group->members = (int64_t)sc_sub_axis_list_size(&m->mesh, &group->all);
}

/* Whether choices of the group are packed, and in how many slots. */
static void find_room(sc_module *m, const sc_pass_env *env, sc_choice_group *group)
{
    double capacity = env->seeds == NULL ? 0 : env->seeds->capacity;
    bool is_given = capacity > 0;
    group->room =
        sc_capacity_rows(is_given ? capacity : SC_DEFAULT_CAPACITY, group->share, group->choices);
    group->packs = group->dim_count > 0 && group->room < group->choices &&
                   group->choices < SC_SPOILT_ROW && (is_given || group->share >= SC_FEW_CHOICES);
    if (!group->packs)
        return;
    group->member = sc_numbered_dim(m, group->dims[0], "of", group->members);
    group->slot = sc_numbered_dim(m, group->experts, "choices", group->room);
}

uint32_t sc_choice_group_of(sc_module *m, const sc_pass_env *env, sc_choice_groups *groups,
                            sc_map *by_ids, sc_op_id id)
{
    const sc_op *op = sc_op_at(m, id);
    if (!sc_is_routed(op))
        return SC_NONE;
    sc_value with = sc_is_weight_gradient(m, op) ? op->first_result : op->operands[OTHERS];
    sc_choice_group own = {.ids = sc_ids_root(m, env->step, op->operands[IDS]),
                           .experts = sc_op_attr(op, SC_ATTR_to)->dims[0]};
    own.over = sc_split_of(sc_type_of(m, with), own.experts);
    if (own.over.count == 0)
        return SC_NONE;
    uint32_t *last = sc_map_insert(by_ids, own.ids, SC_NONE, NULL);
    for (uint32_t g = *last; g != SC_NONE; g = groups->data[g].before) {
        const sc_choice_group *known = &groups->data[g];
        if (known->experts == own.experts && sc_sub_axis_list_equal(&known->over, &own.over))
            return g;
    }
    own.before = *last;
    own.parts = (int64_t)sc_sub_axis_list_size(&m->mesh, &own.over);
    own.part = sc_parts_dim(m, own.experts, own.parts);
    own.each = sc_part_size(m, with, own.experts, own.parts);
    own.below = sc_type_of(m, with)->dims[sc_type_find_dim(sc_type_of(m, with), own.experts)].size;
    count_choices(m, op, &own);
    find_room(m, env, &own);
    *last = groups->count;
    *sc_vec_push(&m->context->arena, groups) = own;
    return *last;
}

/* ---- types ---- */
bool sc_is_choice_dim(const sc_choice_group *group, sc_dim dim)
{
    for (uint32_t d = 0; d < group->dim_count; d++) {
        if (group->dims[d] == dim)
            return true;
    }
    return false;
}

uint32_t sc_count_choice_dims(const sc_choice_group *group, const sc_type_info *type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        count += sc_is_choice_dim(group, type->dims[i].dim);
    return count;
}

bool sc_is_pending(const sc_choice_group *group, const sc_type_info *type)
{
    bool is_pending = false;
    for (uint32_t a = 0; a < group->over.count; a++)
        is_pending = is_pending || sc_is_partial(type->placement.on[group->over.sub_axes[a]]);
    return is_pending;
}

void sc_place_packed(const sc_choice_group *group, const sc_type_info *like, sc_type_info *type)
{
    type->placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_dim dim = type->dims[i].dim;
        sc_sub_axis_list list = dim == group->member ? group->all
                                : dim == group->part ? group->over
                                                     : sc_split_of(like, dim);
        sc_placement_set_dim(&type->placement, i, &list);
    }
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (sc_is_partial(like->placement.on[a]) && !sc_sub_axis_list_has(&group->over, a))
            type->placement.on[a] = like->placement.on[a];
    }
}

sc_type_info sc_type_packed(const sc_choice_group *group, const sc_type_info *like)
{
    sc_type_info type = {.dtype = like->dtype};
    type.dims[type.rank++] = (sc_type_dim){group->member, SC_NONE, group->members};
    type.dims[type.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
    type.dims[type.rank++] = (sc_type_dim){group->slot, SC_NONE, group->room};
    for (uint32_t i = 0; i < like->rank; i++) {
        if (!sc_is_choice_dim(group, like->dims[i].dim) && like->dims[i].dim != group->part)
            type.dims[type.rank++] = like->dims[i];
    }
    sc_place_packed(group, like, &type);
    return type;
}

/* ---- slots ---- */
sc_attr sc_choice_slots(sc_module *m, const sc_choice_group *group, sc_attr_key key)
{
    const sc_dim slots[] = {group->member, group->part, group->slot};
    return sc_attr_dims(m, key, slots, 3);
}

sc_value sc_pack_choices(sc_emitter *e, const sc_choice_group *group, sc_value value, double fill)
{
    const sc_type_info type = sc_type_packed(group, sc_type_of(e->m, value));
    const sc_attr attrs[] = {sc_attr_dims(e->m, SC_ATTR_dims, group->dims, group->dim_count),
                             sc_choice_slots(e->m, group, SC_ATTR_to),
                             sc_attr_number(SC_ATTR_value, fill)};
    return sc_emit_placed(e, SC_OP_pack_rows, (sc_value[]){value, group->slots}, 2, attrs,
                          fill != 0 ? 3 : 2, &type);
}

void sc_begin_choices(sc_emitter *e, sc_choice_group *group, sc_op_id product)
{
    sc_module *m = e->m;
    sc_value ids = sc_op_at(m, product)->operands[IDS];
    const sc_type_info like = *sc_type_of(m, ids);
    sc_value wide = sc_make_wide_ids(e, ids);
    sc_type_info type = *sc_type_of(m, wide);
    type.placement = like.placement;
    m->values.data[wide].type = sc_type_intern(m, &type);
    wide = sc_mark_padding(e, wide, group->dims, group->dim_count);
    sc_type_info slots = sc_type_packed(group, &type), counts = slots, places = type;
    slots.rank = 3;
    counts.rank = 2; /* members and parts */
    sc_place_packed(group, &type, &counts);
    if (sc_type_find_dim(&places, group->part) < 0) {
        places.dims[places.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
        sc_placement_set_dim(&places.placement, places.rank - 1, &group->over);
    }
    const sc_attr attrs[] = {
        sc_attr_dims(m, SC_ATTR_dims, group->dims, group->dim_count),
        sc_choice_slots(m, group, SC_ATTR_to),
        sc_attr_int(SC_ATTR_each, group->each),
        sc_attr_number(SC_ATTR_share, group->share),
        sc_attr_int(SC_ATTR_below, group->below),
        sc_attr_sub_axes(m, SC_ATTR_over, group->over.sub_axes, group->over.count)};
    const sc_type types[] = {sc_type_intern(m, &slots), sc_type_intern(m, &places),
                             sc_type_intern(m, &counts)};
    sc_op_id made =
        sc_op_new(m, e->func, e->before, SC_OP_row_slots, &wide, 1, attrs, 6, types, 3, e->like);
    e->made(e, made);
    group->slots = sc_result(m, made, 0);
    group->places = sc_result(m, made, 1);
    group->packed = sc_pack_choices(e, group, wide, -1);
    group->is_begun = true;
}
