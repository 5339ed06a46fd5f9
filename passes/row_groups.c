#include "passes/row_groups.h"

#include "passes/parts.h"

enum { ROWS, OTHERS, IDS };

/* ---- groups ---- */
sc_sub_axis_list sc_split_of(const sc_type_info *type, sc_dim dim)
{
    int at = sc_type_find_dim(type, dim);
    return at < 0 ? (sc_sub_axis_list){0} : sc_placement_dim(&type->placement, (uint32_t)at);
}

/* True if the type's dims of rows are split over the group's ranks. */
static bool is_split_over(const sc_type_info *type, const sc_sub_axis_list *over)
{
    for (uint32_t a = 0; a < over->count; a++) {
        if (type->placement.on[over->sub_axes[a]] >= type->rank)
            return false;
    }
    return true;
}

sc_value sc_before_gather(const sc_sending *s, sc_value value, const sc_sub_axis_list *over)
{
    while (!is_split_over(sc_type_of(s->m, value), over)) {
        const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
        if (!sc_op_has(op, SC_VIEW | SC_RESHARD) || op->operand_count != 1)
            return SC_NONE;
        value = op->operands[0];
    }
    return value;
}

uint32_t sc_row_group_of(sc_sending *s, sc_op_id id)
{
    sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, id);
    if (!sc_is_routed(op))
        return SC_NONE;
    bool is_gradient = sc_is_weight_gradient(m, op);
    sc_value with = is_gradient ? op->first_result : op->operands[OTHERS],
             ids = sc_ids_root(m, s->env->step, op->operands[IDS]);
    sc_dim experts = sc_op_attr(op, SC_ATTR_to)->dims[0];
    const sc_sub_axis_list over = sc_split_of(sc_type_of(m, with), experts);
    if (over.count == 0)
        return SC_NONE;
    uint32_t *last = sc_map_insert(&s->by_ids, ids, SC_NONE, NULL);
    for (uint32_t g = *last; g != SC_NONE; g = s->groups.data[g].before) {
        const sc_row_group *known = &s->groups.data[g];
        if (known->experts == experts && sc_sub_axis_list_equal(&known->over, &over))
            return g;
    }
    int64_t parts = (int64_t)sc_sub_axis_list_size(&m->mesh, &over);
    *sc_vec_push(&m->context->arena, &s->groups) =
        (sc_row_group){.ids = ids,
                       .experts = experts,
                       .over = over,
                       .rule = SC_NONE,
                       .before = *last,
                       .parts = parts,
                       .read = m->values.data[op->operands[IDS]].type,
                       .each = sc_part_size(m, with, experts, parts)};
    *last = s->groups.count - 1;
    return *last;
}

/* Keeps those dims of the group's rows that the product's x has. */
static void keep_rows(const sc_sending *s, sc_row_group *group, const sc_op *op)
{
    const sc_type_info *x = sc_type_of(s->m, op->operands[ROWS]);
    uint32_t kept = 0;
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        if (sc_type_find_dim(x, group->row_dims[d]) >= 0)
            group->row_dims[kept++] = group->row_dims[d];
    }
    group->row_dim_count = kept;
}

void sc_find_row_groups(sc_sending *s)
{
    sc_for_each_op (s->m, s->func, id) {
        const sc_op *op = sc_op_at(s->m, id);
        uint32_t number = sc_row_group_of(s, id);
        if (number == SC_NONE || sc_op_attr(op, SC_ATTR_exchange) == NULL)
            continue;
        sc_row_group *group = &s->groups.data[number];
        const sc_type_info *ids = &s->m->types.data[group->read];
        const uint32_t more = group->sends ? 0 : ids->rank;
        for (uint32_t i = 0; i < more; i++)
            group->row_dims[group->row_dim_count++] = ids->dims[i].dim;
        group->sends = true;
        for (uint32_t a = 0; a < group->over.count; a++) {
            uint32_t rule = sc_form_rule(s->env->placing, id, group->over.sub_axes[a]);
            group->rule = group->rule == SC_NONE ? rule : group->rule;
        }
        keep_rows(s, group, op);
    }
}

bool sc_dispatch_fails(sc_sending *s, const sc_row_group *group, const char *text)
{
    sc_loc loc = group->rule == SC_NONE ? (sc_loc){0} : s->m->rules.data[group->rule].loc;
    if (!s->failed)
        sc_report(&s->m->context->diag, SC_D_bad_form, loc, text, NULL);
    s->failed = true;
    return false;
}

/* ---- types ---- */
bool sc_is_row_dim(const sc_row_group *group, sc_dim dim)
{
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        if (group->row_dims[d] == dim)
            return true;
    }
    return false;
}

/* How many of the dims of rows the type has. */
uint32_t sc_count_row_dims(const sc_row_group *group, const sc_type_info *type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        count += sc_is_row_dim(group, type->dims[i].dim);
    return count;
}

/* The sums over ranks of the group are no longer pending. */
static void copy_partial(const sc_row_group *group, const sc_type_info *like, sc_type_info *type)
{
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (sc_is_partial(like->placement.on[a]) && !sc_sub_axis_list_has(&group->over, a))
            type->placement.on[a] = like->placement.on[a];
    }
}

/* The type with rows as the ranks have them. */
sc_type_info sc_type_at_home(const sc_row_group *group, const sc_type_info *like)
{
    sc_type_info type = *like;
    type.placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type.rank; i++) {
        sc_sub_axis_list list = sc_placement_dim(&like->placement, i);
        for (uint32_t d = 0; d < group->row_dim_count; d++) {
            if (group->row_dims[d] == type.dims[i].dim)
                list = group->home[d];
        }
        sc_placement_set_dim(&type.placement, i, &list);
    }
    copy_partial(group, like, &type);
    return type;
}

/* The members of a slot on a rank that has it: those of the rank's group. */
static sc_sub_axis_list other_members(const sc_row_group *group)
{
    sc_sub_axis_list list = group->all;
    list.count = (uint8_t)(list.count - group->over.count);
    return list;
}

/* Places a type in slots: split as `like` is. `is_sent`: on the ranks of the experts. */
void sc_place_in_slots(const sc_row_group *group, const sc_type_info *like, bool is_sent,
                       sc_type_info *type)
{
    type->placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_dim dim = type->dims[i].dim;
        sc_sub_axis_list list = sc_split_of(like, dim);
        if (dim == group->member)
            list = is_sent ? other_members(group) : group->all;
        else if (dim == group->part)
            list = is_sent ? group->over : (sc_sub_axis_list){0};
        sc_placement_set_dim(&type->placement, i, &list);
    }
    copy_partial(group, like, type);
}

/* The type with slots in place of rows: their dims first. */
sc_type_info sc_type_in_slots(const sc_row_group *group, const sc_type_info *like, bool is_sent)
{
    sc_type_info type = {.dtype = like->dtype};
    type.dims[type.rank++] = (sc_type_dim){group->member, SC_NONE, group->members};
    type.dims[type.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
    type.dims[type.rank++] = (sc_type_dim){group->slot, SC_NONE, group->room};
    for (uint32_t i = 0; i < like->rank; i++) {
        if (!sc_is_row_dim(group, like->dims[i].dim) && like->dims[i].dim != group->part)
            type.dims[type.rank++] = like->dims[i];
    }
    sc_place_in_slots(group, like, is_sent, &type);
    return type;
}

uint32_t sc_slot_attrs(sc_module *m, const sc_row_group *group, bool is_back, sc_attr *attrs)
{
    const sc_dim slots[] = {group->member, group->part, group->slot};
    attrs[0] =
        sc_attr_dims(m, is_back ? SC_ATTR_to : SC_ATTR_dims, group->row_dims, group->row_dim_count);
    attrs[1] = sc_attr_dims(m, is_back ? SC_ATTR_dims : SC_ATTR_to, slots, 3);
    return 2;
}
