/* dispatch-rows: sends rows to the ranks of their experts and results back, for routed products of
 * which the plan says so.
 *
 *   %2 = reshard %1 : f32[B, D]                   (from B@ep)
 *   %3 = reshard %i : i32[B, Q]
 *   %4 = routed_dot[D -> X] %2, %w, %3 {exchange = [ep]} : f32[B, Q, F]{sum:ep}
 *   %5 = sum[Q] %4 : f32[B, F]{sum:ep}
 *   %6 = reshard %5 : f32[B@ep, F]
 *     ->
 *   %s, %p = row_slots[B -> M, P, C] %i : i32[M@ep, P, C], i32[B@ep, P]
 *   %2 = reshard (pack_rows %1, %s) : f32[M, P@ep, C, D]        (from f32[M@ep, P, C, D])
 *   %3 = reshard (pack_rows %i, %s) : i32[M, P@ep, C, Q]
 *   %4 = routed_dot[D -> X] %2, %w, %3 {parts = [P]} : f32[P@ep, M, C, Q, F]
 *   %5 = sum[Q] %4 : f32[P@ep, M, C, F]
 *   %6 = unpack_rows (reshard %5 : f32[M@ep, P, C, F]), %p : f32[B@ep, F]
 *
 * Before this pass every rank has all rows of its group, and results are partial sums: the rows of
 * a rank's own experts, and zeros. What is computed between is computed on rows in slots instead:
 * M is the rank that has the row, P the part of the experts, C the slot. A row goes once to each
 * part that one of its choices is in, and what comes back is added up by unpack_rows, so that any
 * op that is linear in a partial sum may stand between. Rows are those dims of the ids that the
 * first products' x has; the others are a row's choices.
 *
 * `tune capacity` says how many slots there are, in even shares. Requires PLACED; one walk. */
#include <math.h>

#include "ir/ops/build.h"
#include "ir/ops/capacity.h"
#include "passes/exchanges.h"
#include "passes/parts.h"
#include "passes/pass.h"
#include "passes/uses.h"

enum { ROWS, OTHERS, IDS };

static const double default_capacity = 2;

/* Products with the same ids and experts. */
typedef struct row_group {
    sc_value ids; /* behind names and reshards */
    sc_dim experts;
    sc_sub_axis_list over;
    uint32_t rule;   /* the plan line, or SC_NONE */
    uint32_t before; /* another group with these ids, or SC_NONE */
    sc_type read;    /* of the ids, where products read them */
    int64_t each;    /* experts of a part */
    uint32_t row_dim_count;
    sc_dim row_dims[SC_MAX_RANK];
    sc_sub_axis_list
        home[SC_MAX_RANK]; /* by dim of rows: what splits it on the ranks that have rows */
    /* made when the first product is met: */
    bool is_begun;
    sc_dim member, part, slot;
    int64_t members, parts, room;
    double share;         /* slots of a part that are full under even routing */
    sc_sub_axis_list all; /* ranks with rows, those of a group last */
    sc_value wide, slots, places, counts, arrived;
} row_group;

typedef struct sending {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    double capacity;
    uint32_t count; /* number of values at the start */
    SC_VEC(row_group) groups;
    sc_map by_ids;              /* the last group with these ids */
    sc_map packed;              /* value << 16 | group -> the value in slots */
    sc_map clipped;             /* the same -> ids in slots, 0 where there is no row */
    sc_value *sent;             /* by value: what is computed in slots instead, or SC_NONE */
    uint32_t *group;            /* by value: of `sent` */
    sc_value *back;             /* by value: `sent`, back on the ranks that have rows, or SC_NONE */
    bool *is_live;              /* by op */
    sc_exchange_list exchanges; /* of the function */
    bool failed;
} sending;

/* ---- groups ---- */
static bool in_list(const sc_sub_axis_list *list, uint8_t sub_axis)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->sub_axes[i] == sub_axis)
            return true;
    }
    return false;
}

static sc_sub_axis_list list_of(const sc_type_info *type, sc_dim dim)
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

/* The ids as the ranks have them that have the rows; SC_NONE: all ranks have all. */
static sc_value ids_at_home(const sending *s, sc_value ids, const sc_sub_axis_list *over)
{
    while (!is_split_over(sc_type_of(s->m, ids), over)) {
        const sc_op *op = sc_op_at(s->m, sc_def(s->m, ids));
        if (!sc_op_has(op, SC_VIEW | SC_RESHARD) || op->operand_count != 1)
            return SC_NONE;
        ids = op->operands[0];
    }
    return ids;
}

/* The ids that all copies of them are made from. */
static sc_value root_of(const sending *s, sc_value ids)
{
    for (;;) {
        ids = sc_behind_names(s->m, s->env->step, ids);
        const sc_op *op = sc_op_at(s->m, sc_def(s->m, ids));
        if (!sc_op_has(op, SC_RESHARD) || op->operand_count != 1)
            return ids;
        ids = op->operands[0];
    }
}

static uint32_t group_of(sending *s, sc_op_id id)
{
    sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, id);
    if (!sc_is_routed(op))
        return SC_NONE;
    bool is_gradient = sc_is_weight_gradient(m, op);
    sc_value with = is_gradient ? op->first_result : op->operands[OTHERS],
             ids = root_of(s, op->operands[IDS]);
    sc_dim experts = sc_op_attr(op, SC_ATTR_to)->dims[0];
    const sc_sub_axis_list over = list_of(sc_type_of(m, with), experts);
    if (over.count == 0)
        return SC_NONE;
    uint32_t *last = sc_map_insert(&s->by_ids, ids, SC_NONE, NULL);
    for (uint32_t g = *last; g != SC_NONE; g = s->groups.data[g].before) {
        const row_group *known = &s->groups.data[g];
        if (known->experts == experts && sc_sub_axis_list_equal(&known->over, &over))
            return g;
    }
    int64_t parts = (int64_t)sc_sub_axis_list_size(&m->mesh, &over);
    *sc_vec_push(&m->context->arena, &s->groups) =
        (row_group){.ids = ids,
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
static void keep_rows(const sending *s, row_group *group, const sc_op *op)
{
    const sc_type_info *x = sc_type_of(s->m, op->operands[ROWS]);
    uint32_t kept = 0;
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        if (sc_type_find_dim(x, group->row_dims[d]) >= 0)
            group->row_dims[kept++] = group->row_dims[d];
    }
    group->row_dim_count = kept;
}

/* The groups of which a product is to send its rows have dims of rows, the others have none. */
static void find_groups(sending *s)
{
    sc_for_each_op (s->m, s->func, id) {
        const sc_op *op = sc_op_at(s->m, id);
        uint32_t number = s->is_live[id] ? group_of(s, id) : SC_NONE;
        if (number == SC_NONE || sc_op_attr(op, SC_ATTR_exchange) == NULL)
            continue;
        row_group *group = &s->groups.data[number];
        const sc_type_info *ids = &s->m->types.data[group->read];
        if (group->row_dim_count == 0) {
            for (uint32_t i = 0; i < ids->rank; i++)
                group->row_dims[group->row_dim_count++] = ids->dims[i].dim;
        }
        for (uint32_t a = 0; a < group->over.count && group->rule == SC_NONE; a++)
            group->rule = sc_form_rule(s->env->placing, id, group->over.sub_axes[a]);
        keep_rows(s, group, op);
    }
}

static bool fail(sending *s, const row_group *group, const char *text)
{
    sc_loc loc = group->rule == SC_NONE ? (sc_loc){0} : s->m->rules.data[group->rule].loc;
    if (!s->failed)
        sc_report(&s->m->context->diag, SC_D_bad_form, loc, text, NULL);
    s->failed = true;
    return false;
}

/* ---- emitting ---- */
/* What an op is emitted for: `like` gives its location and phase. */
static void give_phase(sc_emitter *e, sc_op_id made)
{
    const sc_attr *phase = sc_op_attr(sc_op_at(e->m, e->like), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(e->m, made, *phase);
}

static sc_emitter emitter(sending *s, sc_op_id before)
{
    return (sc_emitter){
        .m = s->m, .func = s->func, .before = before, .like = before, .made = give_phase};
}

static sc_value emit(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                     const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type)
{
    sc_type result = sc_type_intern(e->m, type);
    sc_op_id made = sc_op_new(e->m, e->func, e->before, kind, operands, count, attrs, attr_count,
                              &result, 1, e->like);
    give_phase(e, made);
    return sc_result(e->m, made, 0);
}

static sc_sym name_of(sc_module *m, sc_op_id id)
{
    const sc_op *op = sc_op_at(m, id);
    return sc_intern_printf(&m->context->names, "%s in %s", sc_ops[op->kind].name,
                            sc_text(m->context, op->scope));
}

enum { REASONS = 3 };

static uint32_t reasons(sc_emitter *e, const row_group *group, const char *why, sc_attr *attrs)
{
    sc_module *m = e->m;
    uint32_t count = 0;
    if (group->rule != SC_NONE)
        attrs[count++] = sc_attr_int(SC_ATTR_rule, group->rule);
    attrs[count++] = sc_attr_text(SC_ATTR_why, sc_intern_printf(&m->context->names, "%s", why));
    attrs[count++] = sc_attr_text(SC_ATTR_consumer, name_of(m, e->like));
    return count;
}

/* A reshard by the group's line. */
static sc_value reshard(sc_emitter *e, const row_group *group, sc_value value, const char *why,
                        const sc_type_info *type)
{
    sc_attr attrs[REASONS];
    uint32_t count = reasons(e, group, why, attrs);
    return emit(e, SC_OP_reshard, &value, 1, attrs, count, type);
}

/* ---- types ---- */
static bool is_row_dim(const row_group *group, sc_dim dim)
{
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        if (group->row_dims[d] == dim)
            return true;
    }
    return false;
}

/* How many of the dims of rows the type has. */
static uint32_t count_row_dims(const row_group *group, const sc_type_info *type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        count += is_row_dim(group, type->dims[i].dim);
    return count;
}

/* The sums over ranks of the group are no longer pending. */
static void copy_partial(const row_group *group, const sc_type_info *like, sc_type_info *type)
{
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if (sc_is_partial(like->placement.on[a]) && !in_list(&group->over, (uint8_t)a))
            type->placement.on[a] = like->placement.on[a];
    }
}

/* The type with rows as the ranks have them. */
static sc_type_info type_at_home(const row_group *group, const sc_type_info *like)
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
static sc_sub_axis_list other_members(const row_group *group)
{
    sc_sub_axis_list list = group->all;
    list.count = (uint8_t)(list.count - group->over.count);
    return list;
}

/* Places a type in slots: split as `like` is. `is_sent`: on the ranks of the experts. */
static void place_in_slots(const row_group *group, const sc_type_info *like, bool is_sent,
                           sc_type_info *type)
{
    type->placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_dim dim = type->dims[i].dim;
        sc_sub_axis_list list = list_of(like, dim);
        if (dim == group->member)
            list = is_sent ? other_members(group) : group->all;
        else if (dim == group->part)
            list = is_sent ? group->over : (sc_sub_axis_list){0};
        sc_placement_set_dim(&type->placement, i, &list);
    }
    copy_partial(group, like, type);
}

/* The type with slots in place of rows: their dims first. */
static sc_type_info type_in_slots(const row_group *group, const sc_type_info *like, bool is_sent)
{
    sc_type_info type = {.dtype = like->dtype};
    type.dims[type.rank++] = (sc_type_dim){group->member, SC_NONE, group->members};
    type.dims[type.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
    type.dims[type.rank++] = (sc_type_dim){group->slot, SC_NONE, group->room};
    for (uint32_t i = 0; i < like->rank; i++) {
        if (!is_row_dim(group, like->dims[i].dim) && like->dims[i].dim != group->part)
            type.dims[type.rank++] = like->dims[i];
    }
    place_in_slots(group, like, is_sent, &type);
    return type;
}

static uint32_t slot_attrs(sc_module *m, const row_group *group, bool is_back, sc_attr *attrs)
{
    const sc_dim slots[] = {group->member, group->part, group->slot};
    attrs[0] =
        sc_attr_dims(m, is_back ? SC_ATTR_to : SC_ATTR_dims, group->row_dims, group->row_dim_count);
    attrs[1] = sc_attr_dims(m, is_back ? SC_ATTR_dims : SC_ATTR_to, slots, 3);
    return 2;
}

/* ---- the beginning of a group ---- */
/* Which sub-axes split rows on the ranks that have them: those that split what products read, and
 * those of the group. False, with an error, if these split no dim of rows. */
static bool find_home(sending *s, row_group *group, const sc_type_info *ids)
{
    const sc_type_info *read = &s->m->types.data[group->read];
    uint32_t found = 0;
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        const sc_sub_axis_list has = list_of(ids, group->row_dims[d]),
                               needed = list_of(read, group->row_dims[d]);
        sc_sub_axis_list *home = &group->home[d];
        *home = (sc_sub_axis_list){0};
        for (uint32_t a = 0; a < has.count; a++) {
            bool is_own = in_list(&group->over, has.sub_axes[a]);
            found += is_own;
            if (is_own || in_list(&needed, has.sub_axes[a]))
                home->sub_axes[home->count++] = has.sub_axes[a];
            if (!is_own && in_list(&needed, has.sub_axes[a]))
                group->all.sub_axes[group->all.count++] = has.sub_axes[a];
        }
    }
    for (uint32_t a = 0; a < group->over.count; a++)
        group->all.sub_axes[group->all.count++] = group->over.sub_axes[a];
    return found == group->over.count ||
           fail(
               s, group,
               "dispatch sends each row from the one rank that has it, but all ranks that split "
               "the experts have all rows; shard the batch over these axes too, or ask for gather");
}

/* Ids that are no row's, in the padding of an uneven dim. */
static sc_value mark_padding(sc_emitter *e, const row_group *group, sc_value ids)
{
    const sc_type_info type = *sc_type_of(e->m, ids);
    sc_dim dims[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (is_row_dim(group, type.dims[i].dim) && sc_type_is_uneven(e->m, &type, i))
            dims[count++] = type.dims[i].dim;
    }
    const sc_attr attrs[] = {sc_attr_dims(e->m, SC_ATTR_dims, dims, count),
                             sc_attr_number(SC_ATTR_value, SC_NO_ID)};
    return count == 0 ? ids : emit(e, SC_OP_mask, &ids, 1, attrs, 2, &type);
}

/* Rows of one rank, and choices of a row. */
static void count_rows(const sc_module *m, const row_group *group, const sc_type_info *ids,
                       int64_t *rows, int64_t *choices)
{
    *rows = *choices = 1;
    for (uint32_t i = 0; i < ids->rank; i++)
        *(is_row_dim(group, ids->dims[i].dim) ? rows : choices) *= sc_type_local_size(m, ids, i);
}

static void name_dims(sc_module *m, row_group *group)
{
    group->members = (int64_t)sc_sub_axis_list_size(&m->mesh, &group->all);
    group->member = sc_numbered_dim(m, group->row_dims[0], "from", group->members);
    group->part = sc_parts_dim(m, group->experts, group->parts);
    group->slot = sc_numbered_dim(m, group->row_dims[0], "slots", group->room);
}

static sc_value at_home(sending *s, sc_emitter *e, row_group *group, sc_value value);

/* Emits the slots of the group's rows where the ids are known. */
static bool begin(sending *s, sc_emitter *e, row_group *group)
{
    sc_module *m = s->m;
    sc_value ids = ids_at_home(s, sc_op_at(m, e->like)->operands[IDS], &group->over);
    group->is_begun = true;
    group->wide = SC_NONE;
    if (ids == SC_NONE)
        ids = group->ids;
    if (!find_home(s, group, sc_type_of(m, ids)))
        return false;
    ids = at_home(s, e, group, ids);
    ids = sc_make_wide_ids(e, ids);
    sc_type_info type = type_at_home(group, sc_type_of(m, ids));
    m->values.data[ids].type = sc_type_intern(m, &type);
    int64_t rows, choices, below;
    count_rows(m, group, &type, &rows, &choices);
    const sc_op *product = sc_op_at(m, e->like);
    const sc_type_info *with = sc_type_of(
        m, sc_is_weight_gradient(m, product) ? product->first_result : product->operands[OTHERS]);
    below = with->dims[sc_type_find_dim(with, group->experts)].size;
    group->share = (double)rows * sc_part_share(below, group->each, choices);
    group->room = sc_capacity_rows(s->capacity, group->share, rows);
    name_dims(m, group);
    group->wide = mark_padding(e, group, ids);
    sc_attr attrs[5];
    uint32_t count = slot_attrs(m, group, false, attrs);
    attrs[count++] = sc_attr_int(SC_ATTR_each, group->each);
    attrs[count++] = sc_attr_number(SC_ATTR_share, group->share);
    attrs[count++] = sc_attr_int(SC_ATTR_below, below);
    sc_type_info slots = {.dtype = type.dtype}, places = slots;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (is_row_dim(group, type.dims[i].dim))
            slots.dims[slots.rank++] = places.dims[places.rank++] = type.dims[i];
    }
    slots = type_in_slots(group, &slots, false);
    places.dims[places.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
    places = type_at_home(group, &places);
    sc_type_info counts = slots;
    counts.rank = 2; /* members and parts */
    place_in_slots(group, &counts, false, &counts);
    const sc_type types[] = {sc_type_intern(m, &slots), sc_type_intern(m, &places),
                             sc_type_intern(m, &counts)};
    sc_op_id made = sc_op_new(m, s->func, e->before, SC_OP_row_slots, &group->wide, 1, attrs, count,
                              types, 3, e->like);
    give_phase(e, made);
    group->slots = sc_result(m, made, 0);
    group->places = sc_result(m, made, 1);
    group->counts = sc_result(m, made, 2);
    place_in_slots(group, &counts, true, &counts);
    group->arrived =
        reshard(e, group, group->counts, "dispatch tells how many rows it sends", &counts);
    sc_op_set_attr(m, sc_def(m, group->arrived), sc_attr_int(SC_ATTR_control, 1));
    return true;
}

/* ---- rows to slots ---- */
/* The value as the ranks have it that have its rows. */
static sc_value at_home(sending *s, sc_emitter *e, row_group *group, sc_value value)
{
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    const sc_type_info target = type_at_home(group, sc_type_of(s->m, value));
    sc_type wanted = sc_type_intern(s->m, &target);
    if (s->m->values.data[value].type == wanted)
        return value;
    while (sc_op_has(op, SC_RESHARD) && op->operand_count == 1 &&
           sc_placement_partial(&sc_type_of(s->m, op->operands[0])->placement, 0) ==
               sc_placement_partial(&target.placement, 0)) {
        value = op->operands[0];
        if (s->m->values.data[value].type == wanted)
            return value;
        op = sc_op_at(s->m, sc_def(s->m, value));
    }
    return reshard(e, group, value, "dispatch sends rows from the ranks that have them", &target);
}

/* The value with all dims of rows. */
static sc_value with_row_dims(sending *s, sc_emitter *e, const row_group *group, sc_value value)
{
    sc_type_info type = *sc_type_of(s->m, value);
    const sc_type_info *ids = sc_type_of(s->m, group->wide);
    if (count_row_dims(group, &type) == group->row_dim_count)
        return value;
    for (uint32_t i = 0; i < ids->rank; i++) {
        if (is_row_dim(group, ids->dims[i].dim) && sc_type_find_dim(&type, ids->dims[i].dim) < 0)
            type.dims[type.rank++] = ids->dims[i];
    }
    type = type_at_home(group, &type);
    return emit(e, SC_OP_broadcast, &value, 1, NULL, 0, &type);
}

/* Sends slots from the ranks that have the rows to those of the experts, or back. */
static sc_value exchange(sending *s, sc_emitter *e, const row_group *group, sc_value value,
                         bool is_back, double fill)
{
    const sc_type_info *like = sc_type_of(s->m, value);
    sc_type_info type = *like;
    place_in_slots(group, like, !is_back, &type);
    sc_module *m = s->m;
    const sc_dim *gather = is_back ? &group->part : &group->member,
                 *scatter = is_back ? &group->member : &group->part;
    const sc_value operands[] = {value, is_back ? group->arrived : group->counts,
                                 is_back ? group->counts : group->arrived};
    const char *why = sc_arena_printf(
        &m->context->arena, "dispatch sends %s; an even share is %.4g rows a part, %lld fit",
        is_back ? "results back to the ranks of their rows" : "rows to the ranks of their experts",
        group->share, (long long)group->room);
    sc_attr attrs[REASONS + 6];
    uint32_t count = reasons(e, group, why, attrs);
    attrs[count++] = sc_attr_sub_axes(m, SC_ATTR_over, group->over.sub_axes, group->over.count);
    attrs[count++] = sc_attr_dims(m, SC_ATTR_gather, gather, 1);
    attrs[count++] = sc_attr_dims(m, SC_ATTR_scatter, scatter, 1);
    attrs[count++] = sc_attr_dims(m, SC_ATTR_dims, &group->slot, 1);
    attrs[count++] = sc_attr_numbers(m, SC_ATTR_fills, &fill, 1);
    attrs[count++] = sc_attr_number(SC_ATTR_even, fmin(1, group->share / (double)group->room));
    sc_value sent = emit(e, SC_OP_exchange_rows, operands, 3, attrs, count, &type);
    *sc_vec_push(&m->context->arena, &s->exchanges) =
        (sc_exchange){sc_def(m, sent), (uint32_t)(group - s->groups.data), is_back};
    return sent;
}

/* Puts rows in slots and sends them. Empty slots get `fill`. */
static sc_value send(sending *s, sc_emitter *e, row_group *group, sc_value value, double fill)
{
    value = with_row_dims(s, e, group, value);
    const sc_type_info here = type_in_slots(group, sc_type_of(s->m, value), false);
    sc_attr attrs[3];
    uint32_t count = slot_attrs(s->m, group, false, attrs);
    if (fill != 0)
        attrs[count++] = sc_attr_number(SC_ATTR_value, fill);
    value = emit(e, SC_OP_pack_rows, (sc_value[]){value, group->slots}, 2, attrs, count, &here);
    return exchange(s, e, group, value, false, fill);
}

static uint64_t key_of(sc_value value, uint32_t group)
{
    return (uint64_t)value << 16 | group;
}

static sc_value in_slots(sending *s, sc_emitter *e, uint32_t number, sc_value value);

/* The ids of rows in slots, for lookups: 0 where there is none. */
static sc_value clipped_ids(sending *s, sc_emitter *e, uint32_t number, sc_value ids)
{
    uint32_t *slot = sc_map_insert(&s->clipped, key_of(ids, number), SC_NONE, NULL);
    if (*slot != SC_NONE)
        return *slot;
    sc_value sent = in_slots(s, e, number, ids);
    const sc_type_info type = *sc_type_of(s->m, sent);
    sc_value zero = sc_make_constant(e, 0, type.dtype);
    sc_value made = emit(e, SC_OP_maximum, (sc_value[]){sent, zero}, 2, NULL, 0, &type);
    *sc_map_insert(&s->clipped, key_of(ids, number), SC_NONE, NULL) = made;
    return made;
}

/* ---- ops on slots ---- */
static bool is_elementwise(const sc_op *op)
{
    return sc_op_has(op, SC_ELEMENTWISE) && !sc_op_has(op, SC_CONSTANT | SC_RANDOM) &&
           op->result_count == 1;
}

/* True for a lookup by ids of rows in a table that rows share. */
static bool is_lookup(const sending *s, const row_group *group, const sc_op *op)
{
    return sc_op_is_table((sc_op_kind)op->kind, 0) &&
           count_row_dims(group, sc_type_of(s->m, op->operands[0])) == 0;
}

/* The operands in slots. */
static void send_operands(sending *s, sc_emitter *e, uint32_t number, const sc_op *op,
                          sc_value *operands)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        bool is_id = !sc_is_routed(op) && sc_op_takes_ids((sc_op_kind)op->kind, o) &&
                     count_row_dims(&s->groups.data[number], sc_type_of(s->m, op->operands[o])) > 0;
        operands[o] = is_id ? clipped_ids(s, e, number, op->operands[o])
                            : in_slots(s, e, number, op->operands[o]);
    }
}

/* The attributes of an op on slots: `dims` of rows become those of slots. */
static uint32_t slot_op_attrs(sc_module *m, const row_group *group, const sc_op *op, sc_attr *attrs)
{
    uint32_t count = 0;
    for (uint32_t a = 0; a < op->attr_count; a++) {
        const sc_attr *attr = &op->attrs[a];
        sc_dim dims[SC_MAX_RANK];
        uint32_t kept = 0;
        bool has_rows = false;
        if (attr->key == SC_ATTR_exchange || attr->key == SC_ATTR_parts)
            continue;
        attrs[count++] = *attr;
        if (attr->key != SC_ATTR_dims)
            continue;
        for (uint32_t d = 0; d < attr->count; d++) {
            bool is_row = is_row_dim(group, attr->dims[d]);
            if (is_row && !has_rows) {
                dims[kept++] = group->member;
                if (!sc_is_routed(op))
                    dims[kept++] = group->part;
                dims[kept++] = group->slot;
            } else if (!is_row) {
                dims[kept++] = attr->dims[d];
            }
            has_rows = has_rows || is_row;
        }
        if (has_rows)
            attrs[count - 1] = sc_attr_dims(m, SC_ATTR_dims, dims, kept);
    }
    if (sc_is_routed(op))
        attrs[count++] = sc_attr_dims(m, SC_ATTR_parts, &group->part, 1);
    return count;
}

/* Emits the op on slots; its result has rows. */
static sc_value compute(sending *s, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = s->m;
    const sc_op op = *sc_op_at(m, id);
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    send_operands(s, e, number, &op, operands);
    const row_group *group = &s->groups.data[number];
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_attr attrs[SC_ATTR_COUNT];
    uint32_t count = slot_op_attrs(m, group, &op, attrs);
    sc_type_info type;
    if (!sc_op_is_inferred((sc_op_kind)op.kind)) {
        type = type_in_slots(group, &like, true);
        if (sc_op_has(&op, SC_RESHARD)) { /* dims stay in order */
            type = *sc_type_of(m, operands[0]);
            place_in_slots(group, &like, true, &type);
        }
        return emit(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count, &type);
    }
    sc_op_id made = sc_make_sized(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count,
                                  sc_is_routed(&op) ? group->parts : 0);
    sc_value result = sc_result(m, made, 0);
    type = *sc_type_of(m, result);
    place_in_slots(group, &like, true, &type);
    m->values.data[result].type = sc_type_intern(m, &type);
    return result;
}

/* The value with slots in place of rows, on the ranks of their experts; itself if it has no rows.
 */
static sc_value in_slots(sending *s, sc_emitter *e, uint32_t number, sc_value value)
{
    row_group *group = &s->groups.data[number];
    if (value < s->count && s->sent[value] != SC_NONE && s->group[value] == number)
        return s->sent[value];
    if (count_row_dims(group, sc_type_of(s->m, value)) == 0)
        return value;
    const uint32_t *known = sc_map_find(&s->packed, key_of(value, number));
    if (known != NULL)
        return *known;
    sc_value made;
    sc_op_id def = sc_def(s->m, value);
    const sc_op *op = sc_op_at(s->m, def);
    if (is_elementwise(op) || is_lookup(s, group, op)) {
        made = compute(s, e, number, def);
    } else {
        bool is_ids = root_of(s, value) == group->ids;
        sc_value home = is_ids ? group->wide : at_home(s, e, group, value);
        const uint32_t *sent = sc_map_find(&s->packed, key_of(home, number));
        made = sent != NULL ? *sent : send(s, e, group, home, is_ids ? -1 : 0);
        *sc_map_insert(&s->packed, key_of(home, number), SC_NONE, NULL) = made;
    }
    *sc_map_insert(&s->packed, key_of(value, number), SC_NONE, NULL) = made;
    return made;
}

/* ---- back to rows ---- */
static sc_value back(sending *s, sc_emitter *e, uint32_t number, sc_value value)
{
    if (s->back[value] != SC_NONE)
        return s->back[value];
    const row_group *group = &s->groups.data[number];
    const sc_type_info home = type_at_home(group, sc_type_of(s->m, value));
    sc_value y = exchange(s, e, group, s->sent[value], true, 0);
    sc_attr attrs[2];
    uint32_t count = slot_attrs(s->m, group, true, attrs);
    s->back[value] =
        emit(e, SC_OP_unpack_rows, (sc_value[]){y, group->places}, 2, attrs, count, &home);
    return s->back[value];
}

/* ---- the walk ---- */
/* The group in whose slots an operand is, or SC_NONE. */
static uint32_t sent_group(const sending *s, const sc_op *op)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (op->operands[o] < s->count && s->sent[op->operands[o]] != SC_NONE)
            return s->group[op->operands[o]];
    }
    return SC_NONE;
}

static bool sums_parts(const row_group *group, const sc_op *op)
{
    return sc_attr_has_dim(sc_op_attr(op, SC_ATTR_dims), group->part) && !sc_is_routed(op);
}

/* How many of the op's `dims` are of rows. */
static uint32_t count_summed(const row_group *group, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    uint32_t count = 0;
    for (uint32_t d = 0; dims != NULL && d < dims->count; d++)
        count += is_row_dim(group, dims->dims[d]);
    return count;
}

/* Makes an op whose result has no rows read those in slots. */
static void read_slots(sending *s, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = s->m;
    const sc_op op = *sc_op_at(m, id);
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    sc_attr attrs[SC_ATTR_COUNT];
    send_operands(s, e, number, &op, operands);
    uint32_t count = slot_op_attrs(m, &s->groups.data[number], &op, attrs);
    for (uint32_t o = 0; o < op.operand_count; o++)
        sc_op_at(m, id)->operands[o] = operands[o];
    for (uint32_t a = 0; a < op.attr_count; a++)
        sc_op_drop_attr(m, id, op.attrs[a].key);
    for (uint32_t a = 0; a < count; a++)
        sc_op_set_attr(m, id, attrs[a]);
}

/* True if the result of a reshard is in slots too: it has parts, or is a sum that is still pending
 * over the ranks of the group. */
static bool stays(const row_group *group, const sc_module *m, const sc_op *op)
{
    const sc_type_info *type = sc_type_of(m, op->first_result);
    const sc_sub_axis_set partial = sc_placement_partial(&type->placement, SC_PARTIAL_SUM);
    bool is_pending = true;
    for (uint32_t a = 0; a < group->over.count; a++)
        is_pending = is_pending && (partial >> group->over.sub_axes[a] & 1) != 0;
    return is_pending || sc_type_find_dim(type, group->part) >= 0;
}

static void visit(sending *s, sc_op_id id)
{
    sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, id);
    uint32_t number = group_of(s, id);
    if (number == SC_NONE || s->groups.data[number].row_dim_count == 0)
        number = sent_group(s, op);
    if (number == SC_NONE)
        return;
    row_group *group = &s->groups.data[number];
    sc_emitter e = emitter(s, id);
    if (!group->is_begun && !begin(s, &e, group))
        return;
    op = sc_op_at(m, id);
    if (sc_op_has(op, SC_RESHARD) && op->operand_count == 1 && !stays(group, m, op)) {
        sc_value value = op->operands[0];
        sc_value rows = back(s, &e, number, value);
        sc_op_at(m, id)->operands[0] = rows;
        return;
    }
    const uint32_t summed = count_summed(group, op);
    const sc_type_info *type = op->result_count == 1 ? sc_type_of(m, op->first_result) : NULL;
    bool has_rows = type != NULL && count_row_dims(group, type) == group->row_dim_count;
    if (type == NULL || sc_op_has(op, SC_EFFECT) || (has_rows && summed > 0) ||
        (!has_rows && count_row_dims(group, type) > 0)) {
        fail(s, group,
             sc_arena_printf(&m->context->arena,
                             "dispatch cannot send rows that %s reads; ask for gather",
                             sc_text(m->context, name_of(m, id))));
    } else if (!has_rows) {
        read_slots(s, &e, number, id);
    } else if (sums_parts(group, op)) {
        s->sent[op->first_result] = s->sent[op->operands[0]];
        s->group[op->first_result] = number;
    } else {
        sc_value made = compute(s, &e, number, id);
        sc_value result = sc_op_at(m, id)->first_result;
        s->sent[result] = made;
        s->group[result] = number;
    }
}

/* An op is live if an effect depends on it. */
static void find_live(sending *s)
{
    bool *is_read = sc_arena_array(&s->m->context->arena, s->m->values.count, sizeof *is_read);
    s->is_live = sc_arena_array(&s->m->context->arena, s->m->ops.count, sizeof *s->is_live);
    for (sc_func_id f = 0; f < s->m->funcs.count; f++) {
        sc_for_each_op_reverse (s->m, f, id) {
            const sc_op *op = sc_op_at(s->m, id);
            s->is_live[id] = sc_op_has(op, SC_EFFECT);
            for (uint32_t r = 0; r < op->result_count; r++)
                s->is_live[id] = s->is_live[id] || is_read[op->first_result + r];
            for (uint32_t o = 0; o < op->operand_count && s->is_live[id]; o++)
                is_read[op->operands[o]] = true;
        }
    }
}

/* Removes the ops that no effect depends on, now that others are computed instead. */
static void remove_dead(sending *s)
{
    find_live(s);
    for (sc_func_id f = 0; f < s->m->funcs.count; f++) {
        sc_for_each_op_reverse (s->m, f, id) {
            if (!s->is_live[id])
                sc_op_unlink(s->m, id);
        }
    }
}

static bool has_exchange(const sending *s)
{
    for (uint32_t g = 0; g < s->groups.count; g++) {
        if (s->groups.data[g].row_dim_count > 0)
            return true;
    }
    return false;
}

bool sc_run_dispatch_rows(sc_module *m, sc_pass_env *env)
{
    double capacity = env->seeds == NULL ? 0 : env->seeds->capacity;
    sending s = {.m = m, .env = env, .capacity = capacity > 0 ? capacity : default_capacity};
    bool any = false;
    s.by_ids.arena = s.packed.arena = s.clipped.arena = &m->context->arena;
    s.sent = sc_new_value_map(m, &s.count);
    s.group = sc_new_value_map(m, &s.count);
    s.back = sc_new_value_map(m, &s.count);
    find_live(&s);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        s.func = f;
        find_groups(&s);
        if (!has_exchange(&s))
            continue;
        any = true;
        sc_for_each_op (m, f, id) {
            if (s.is_live[id] && !s.failed)
                visit(&s, id);
        }
        sc_join_exchanges(m, f, &s.exchanges);
        s.exchanges.count = 0;
    }
    if (any && !s.failed)
        remove_dead(&s);
    return !s.failed;
}
