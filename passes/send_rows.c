#include "passes/send_rows.h"

#include <math.h>

#include "ir/ops/build.h"
#include "ir/ops/capacity.h"
#include "passes/parts.h"

enum { ROWS, OTHERS, IDS };

/* ---- emitting ---- */
/* What an op is emitted for: `like` gives its location and phase. */
static void give_phase(sc_emitter *e, sc_op_id made)
{
    const sc_attr *phase = sc_op_attr(sc_op_at(e->m, e->like), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(e->m, made, *phase);
}

sc_emitter sc_phase_emitter(sc_module *m, sc_func_id func, sc_op_id before)
{
    return (sc_emitter){.m = m, .func = func, .before = before, .like = before, .made = give_phase};
}

sc_value sc_emit_placed(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                        const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type)
{
    sc_type result = sc_type_intern(e->m, type);
    sc_op_id made = sc_op_new(e->m, e->func, e->before, kind, operands, count, attrs, attr_count,
                              &result, 1, e->like);
    give_phase(e, made);
    return sc_result(e->m, made, 0);
}

sc_sym sc_op_place_name(sc_module *m, sc_op_id id)
{
    const sc_op *op = sc_op_at(m, id);
    return sc_intern_printf(&m->context->names, "%s in %s", sc_ops[op->kind].name,
                            sc_text(m->context, op->scope));
}

enum { REASONS = 3 };

static uint32_t reasons(sc_emitter *e, const sc_row_group *group, const char *why, sc_attr *attrs)
{
    sc_module *m = e->m;
    uint32_t count = 0;
    if (group->rule != SC_NONE)
        attrs[count++] = sc_attr_int(SC_ATTR_rule, group->rule);
    attrs[count++] = sc_attr_text(SC_ATTR_why, sc_intern_printf(&m->context->names, "%s", why));
    attrs[count++] = sc_attr_text(SC_ATTR_consumer, sc_op_place_name(m, e->like));
    return count;
}

/* A reshard by the group's line. */
static sc_value reshard(sc_emitter *e, const sc_row_group *group, sc_value value, const char *why,
                        const sc_type_info *type)
{
    sc_attr attrs[REASONS];
    uint32_t count = reasons(e, group, why, attrs);
    return sc_emit_placed(e, SC_OP_reshard, &value, 1, attrs, count, type);
}

/* ---- the beginning of a group ---- */
/* Which sub-axes split rows on the ranks that have them: those that split what products read, and
 * those of the group. False, with an error, if these split no dim of rows. */
static bool find_home(sc_sending *s, sc_row_group *group, const sc_type_info *split)
{
    const sc_type_info *read = &s->m->types.data[group->read];
    uint32_t found = 0;
    for (uint32_t d = 0; d < group->row_dim_count; d++) {
        const sc_sub_axis_list has = sc_split_of(split, group->row_dims[d]),
                               needed = sc_split_of(read, group->row_dims[d]);
        sc_sub_axis_list *home = &group->home[d];
        *home = (sc_sub_axis_list){0};
        for (uint32_t a = 0; a < has.count; a++) {
            bool is_own = sc_sub_axis_list_has(&group->over, has.sub_axes[a]);
            found += is_own;
            if (is_own || sc_sub_axis_list_has(&needed, has.sub_axes[a]))
                home->sub_axes[home->count++] = has.sub_axes[a];
            if (!is_own && sc_sub_axis_list_has(&needed, has.sub_axes[a]))
                group->all.sub_axes[group->all.count++] = has.sub_axes[a];
        }
    }
    for (uint32_t a = 0; a < group->over.count; a++)
        group->all.sub_axes[group->all.count++] = group->over.sub_axes[a];
    return found == group->over.count ||
           sc_dispatch_fails(
               s, group,
               "dispatch sends each row from the one rank that has it, but all ranks that split "
               "the experts have all rows; shard the batch over these axes too, or ask for gather");
}

sc_value sc_mark_padding(sc_emitter *e, sc_value ids, const sc_dim *row_dims, uint32_t row_count)
{
    const sc_type_info type = *sc_type_of(e->m, ids);
    sc_dim dims[SC_MAX_RANK] = {0};
    uint32_t count = 0;
    for (uint32_t d = 0; d < row_count; d++) {
        int at = sc_type_find_dim(&type, row_dims[d]);
        if (at >= 0 && sc_type_is_uneven(e->m, &type, (uint32_t)at))
            dims[count++] = row_dims[d];
    }
    const sc_attr attrs[] = {sc_attr_dims(e->m, SC_ATTR_dims, dims, count),
                             sc_attr_number(SC_ATTR_value, SC_NO_ID)};
    return count == 0 ? ids : sc_emit_placed(e, SC_OP_mask, &ids, 1, attrs, 2, &type);
}

/* Rows of one rank, and choices of a row. */
static void count_rows(const sc_module *m, const sc_row_group *group, const sc_type_info *ids,
                       int64_t *rows, int64_t *choices)
{
    *rows = *choices = 1;
    for (uint32_t i = 0; i < ids->rank; i++)
        *(sc_is_row_dim(group, ids->dims[i].dim) ? rows : choices) *= sc_type_local_size(m, ids, i);
}

static void name_dims(sc_module *m, sc_row_group *group)
{
    group->members = (int64_t)sc_sub_axis_list_size(&m->mesh, &group->all);
    group->member = sc_numbered_dim(m, group->row_dims[0], "from", group->members);
    group->part = sc_parts_dim(m, group->experts, group->parts);
    group->slot = sc_numbered_dim(m, group->row_dims[0], "slots", group->room);
}

/* Emits the slots of the group's rows where the ids are known. */
bool sc_begin_rows(sc_sending *s, sc_emitter *e, sc_row_group *group)
{
    sc_module *m = s->m;
    const sc_op first = *sc_op_at(m, e->like);
    sc_value ids = first.operands[IDS], split = sc_before_gather(s, ids, &group->over);
    group->is_begun = true;
    group->wide = SC_NONE;
    if (split == SC_NONE) /* each rank has all ids; it may have other rows */
        split = sc_before_gather(s, first.operands[ROWS], &group->over);
    if (!find_home(s, group, sc_type_of(m, split == SC_NONE ? ids : split)))
        return false;
    ids = sc_rows_at_home(s, e, group, ids);
    ids = sc_make_wide_ids(e, ids);
    sc_type_info type = sc_type_at_home(group, sc_type_of(m, ids));
    m->values.data[ids].type = sc_type_intern(m, &type);
    int64_t rows, choices, below;
    count_rows(m, group, &type, &rows, &choices);
    if (choices > SC_MOST_CHOICES)
        return sc_dispatch_fails(
            s, group,
            sc_arena_printf(
                &m->context->arena,
                "dispatch finds the ranks of at most %d choices of a row, and these rows "
                "have %lld; ask for gather",
                SC_MOST_CHOICES, (long long)choices));
    if (rows >= SC_SPOILT_ROW)
        return sc_dispatch_fails(s, group, "dispatch numbers fewer than 2^30 rows of a rank");
    const sc_type_info *with = sc_type_of(
        m, sc_is_weight_gradient(m, &first) ? first.first_result : first.operands[OTHERS]);
    below = with->dims[sc_type_find_dim(with, group->experts)].size;
    group->share = (double)rows * sc_part_share(below, group->each, choices);
    group->room = sc_capacity_rows(s->capacity, group->share, rows);
    group->even = fmin(1, (double)rows / ((double)group->room * (double)group->parts));
    name_dims(m, group);
    group->wide = sc_mark_padding(e, ids, group->row_dims, group->row_dim_count);
    sc_attr attrs[5];
    uint32_t count = sc_slot_attrs(m, group, false, attrs);
    attrs[count++] = sc_attr_int(SC_ATTR_each, group->each);
    attrs[count++] = sc_attr_number(SC_ATTR_share, group->share);
    attrs[count++] = sc_attr_int(SC_ATTR_below, below);
    sc_type_info slots = {.dtype = type.dtype}, places = slots;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (sc_is_row_dim(group, type.dims[i].dim))
            slots.dims[slots.rank++] = places.dims[places.rank++] = type.dims[i];
    }
    slots = sc_type_in_slots(group, &slots, false);
    places.dims[places.rank++] = (sc_type_dim){group->part, SC_NONE, group->parts};
    places = sc_type_at_home(group, &places);
    sc_type_info counts = slots;
    counts.rank = 2; /* members and parts */
    sc_place_in_slots(group, &counts, false, &counts);
    const sc_type types[] = {sc_type_intern(m, &slots), sc_type_intern(m, &places),
                             sc_type_intern(m, &counts)};
    sc_op_id made = sc_op_new(m, s->func, e->before, SC_OP_row_slots, &group->wide, 1, attrs, count,
                              types, 3, e->like);
    give_phase(e, made);
    group->slots = sc_result(m, made, 0);
    group->places = sc_result(m, made, 1);
    group->counts = sc_result(m, made, 2);
    sc_place_in_slots(group, &counts, true, &counts);
    group->arrived =
        reshard(e, group, group->counts, "dispatch tells how many rows it sends", &counts);
    sc_op_set_attr(m, sc_def(m, group->arrived), sc_attr_int(SC_ATTR_control, 1));
    return true;
}

/* ---- rows to slots ---- */
/* The value as the ranks have it that have its rows. */
sc_value sc_rows_at_home(sc_sending *s, sc_emitter *e, sc_row_group *group, sc_value value)
{
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    const sc_type_info target = sc_type_at_home(group, sc_type_of(s->m, value));
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
static sc_value with_row_dims(sc_sending *s, sc_emitter *e, const sc_row_group *group,
                              sc_value value)
{
    sc_type_info type = *sc_type_of(s->m, value);
    const sc_type_info *ids = sc_type_of(s->m, group->wide);
    if (sc_count_row_dims(group, &type) == group->row_dim_count)
        return value;
    for (uint32_t i = 0; i < ids->rank; i++) {
        if (sc_is_row_dim(group, ids->dims[i].dim) && sc_type_find_dim(&type, ids->dims[i].dim) < 0)
            type.dims[type.rank++] = ids->dims[i];
    }
    type = sc_type_at_home(group, &type);
    return sc_emit_placed(e, SC_OP_broadcast, &value, 1, NULL, 0, &type);
}

/* Sends slots from the ranks that have the rows to those of the experts, or back. */
sc_value sc_exchange_slots(sc_sending *s, sc_emitter *e, const sc_row_group *group, sc_value value,
                           bool is_back, double fill)
{
    const sc_type_info *like = sc_type_of(s->m, value);
    sc_type_info type = *like;
    sc_place_in_slots(group, like, !is_back, &type);
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
    sc_value sent = sc_emit_placed(e, SC_OP_exchange_rows, operands, 3, attrs, count, &type);
    *sc_vec_push(&m->context->arena, &s->exchanges) =
        (sc_exchange){sc_def(m, sent), (uint32_t)(group - s->groups.data), is_back};
    return sent;
}

/* Puts rows in slots and sends them. Empty slots get `fill`. */
sc_value sc_send_rows(sc_sending *s, sc_emitter *e, sc_row_group *group, sc_value value,
                      double fill)
{
    value = with_row_dims(s, e, group, value);
    const sc_type_info here = sc_type_in_slots(group, sc_type_of(s->m, value), false);
    sc_attr attrs[3];
    uint32_t count = sc_slot_attrs(s->m, group, false, attrs);
    if (fill != 0)
        attrs[count++] = sc_attr_number(SC_ATTR_value, fill);
    value = sc_emit_placed(e, SC_OP_pack_rows, (sc_value[]){value, group->slots}, 2, attrs, count,
                           &here);
    return sc_exchange_slots(s, e, group, value, false, fill);
}

sc_value sc_rows_as_term(sc_emitter *e, const sc_row_group *group, sc_value rows,
                         const sc_type_info *term)
{
    sc_module *m = e->m;
    sc_sub_axis_set over = 0;
    for (uint32_t a = 0; a < group->over.count; a++)
        over |= (sc_sub_axis_set)1 << group->over.sub_axes[a];
    sc_type_info whole = *term;
    whole.placement = sc_placement_with(&term->placement, over, SC_ON_NOTHING);
    rows = reshard(e, group, rows, "an op reads rows of several ranks together", &whole);
    const sc_attr attr = sc_attr_sub_axes(m, SC_ATTR_over, group->over.sub_axes, group->over.count);
    return sc_emit_placed(e, SC_OP_to_partial, &rows, 1, &attr, 1, term);
}
