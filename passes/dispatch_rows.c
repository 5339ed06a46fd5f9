/* dispatch-rows: sends rows to the ranks of their experts and results back, for routed products
 * that have this form.
 *
 *   %2 = reshard %1 : f32[B, D]                   (from B@ep)
 *   %3 = reshard %i : i32[B, Q]
 *   %4 = routed_dot[D -> X] %2, %w, %3 {exchange = [ep]} : f32[B, Q, F]{sum:ep}
 *   %5 = sum[Q] %4 : f32[B, F]{sum:ep}
 *   %6 = reshard %5 : f32[B@ep, F]
 *     ->
 *   %s, %p, %n = row_slots[B -> M, P, C] %i : i32[M@ep, P, C], i32[B@ep, P], i32[M@ep, P]
 *   %a = reshard %n : i32[M, P@ep]
 *   %x = pack_rows %1, %s : f32[M@ep, P, C, D]
 *   %j = pack_rows %i, %s : i32[M@ep, P, C, Q]
 *   %2, %3 = exchange_rows %x, %j, %n, %a : f32[M, P@ep, C, D], i32[M, P@ep, C, Q]
 *   %4 = routed_dot[D -> X] %2, %w, %3 {parts = [P]} : f32[P@ep, M, C, Q, F]
 *   %5 = sum[Q] %4 : f32[P@ep, M, C, F]
 *   %y = exchange_rows %5, %a, %n : f32[P, M@ep, C, F]
 *   %6 = unpack_rows %y, %p : f32[B@ep, F]
 *
 * Before this pass every rank has all rows of its group, and results are partial sums: the rows of
 * a rank's own experts, and zeros. What is computed between is computed on rows in slots instead:
 * M is the rank that has the row, P the part of the experts, C the slot. A row goes once to each
 * part that one of its choices is in, and what comes back is added up by unpack_rows, so that any
 * op that is linear in a partial sum may stand between. Rows are those dims of the ids that the
 * first products' x has; the others are a row's choices.
 *
 * `tune capacity` says how many slots there are, in even shares. Requires PLACED; one walk. */
#include "ir/ops/build.h"
#include "ir/ops/capacity.h"
#include "passes/parts.h"
#include "passes/send_rows.h"
#include "passes/uses.h"

typedef struct sending {
    sc_sending to;
    uint32_t count;  /* number of values at the start */
    sc_map packed;   /* value << 16 | group -> the value in slots */
    sc_map clipped;  /* the same -> ids in slots, 0 where there is no row */
    sc_value *sent;  /* by value: what is computed in slots instead, or SC_NONE */
    uint32_t *group; /* by value: of `sent` */
    sc_value *back;  /* by value: `sent`, back on the ranks that have rows, or SC_NONE */
} sending;

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
    const sc_type_info type = *sc_type_of(s->to.m, sent);
    sc_value zero = sc_make_constant(e, 0, type.dtype);
    sc_value made = sc_emit_placed(e, SC_OP_maximum, (sc_value[]){sent, zero}, 2, NULL, 0, &type);
    *sc_map_insert(&s->clipped, key_of(ids, number), SC_NONE, NULL) = made;
    return made;
}

/* ---- ops on slots ---- */
/* True for a lookup by ids of rows in a table that rows share. */
static bool is_lookup(const sending *s, const sc_row_group *group, const sc_op *op)
{
    return sc_op_is_table((sc_op_kind)op->kind, 0) &&
           sc_count_row_dims(group, sc_type_of(s->to.m, op->operands[0])) == 0;
}

/* The operands in slots. */
static void send_operands(sending *s, sc_emitter *e, uint32_t number, const sc_op *op,
                          sc_value *operands)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        bool is_id =
            !sc_is_routed(op) && sc_op_takes_ids((sc_op_kind)op->kind, o) &&
            sc_count_row_dims(&s->to.groups.data[number], sc_type_of(s->to.m, op->operands[o])) > 0;
        operands[o] = is_id ? clipped_ids(s, e, number, op->operands[o])
                            : in_slots(s, e, number, op->operands[o]);
    }
}

/* The attributes of an op on slots: `dims` of rows become those of slots. */
static uint32_t slot_op_attrs(sc_module *m, const sc_row_group *group, const sc_op *op,
                              sc_attr *attrs)
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
            bool is_row = sc_is_row_dim(group, attr->dims[d]);
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
    if (sc_is_routed(op)) {
        attrs[count++] = sc_attr_dims(m, SC_ATTR_parts, &group->part, 1);
        attrs[count++] = sc_attr_number(SC_ATTR_even, group->even);
    }
    return count;
}

/* Emits the op on slots; its result has rows. */
static sc_value compute(sending *s, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = s->to.m;
    const sc_op op = *sc_op_at(m, id);
    sc_value operands[SC_MAX_FIXED_OPERANDS] = {0};
    send_operands(s, e, number, &op, operands);
    const sc_row_group *group = &s->to.groups.data[number];
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_attr attrs[SC_ATTR_COUNT];
    uint32_t count = slot_op_attrs(m, group, &op, attrs);
    sc_type_info type;
    if (!sc_op_is_inferred((sc_op_kind)op.kind)) {
        type = sc_type_in_slots(group, &like, true);
        if (sc_op_has(&op, SC_RESHARD)) { /* dims stay in order */
            type = *sc_type_of(m, operands[0]);
            sc_place_in_slots(group, &like, true, &type);
        }
        return sc_emit_placed(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count,
                              &type);
    }
    sc_op_id made = sc_make_sized(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count,
                                  sc_is_routed(&op) ? group->parts : 0);
    sc_value result = sc_result(m, made, 0);
    type = *sc_type_of(m, result);
    sc_place_in_slots(group, &like, true, &type);
    m->values.data[result].type = sc_type_intern(m, &type);
    return result;
}

/* The value with slots in place of rows, on the ranks of their experts; itself if it has no rows.
 */
static sc_value in_slots(sending *s, sc_emitter *e, uint32_t number, sc_value value)
{
    sc_row_group *group = &s->to.groups.data[number];
    if (value < s->count && s->sent[value] != SC_NONE && s->group[value] == number)
        return s->sent[value];
    if (sc_count_row_dims(group, sc_type_of(s->to.m, value)) == 0)
        return value;
    const uint32_t *known = sc_map_find(&s->packed, key_of(value, number));
    if (known != NULL)
        return *known;
    sc_value made;
    sc_op_id def = sc_def(s->to.m, value);
    const sc_op *op = sc_op_at(s->to.m, def);
    if (sc_is_rowwise(op) || is_lookup(s, group, op)) {
        made = compute(s, e, number, def);
    } else {
        bool is_ids = sc_ids_root(s->to.m, s->to.env->step, value) == group->ids;
        sc_value home = is_ids ? group->wide : sc_rows_at_home(&s->to, e, group, value);
        const uint32_t *sent = sc_map_find(&s->packed, key_of(home, number));
        made = sent != NULL ? *sent : sc_send_rows(&s->to, e, group, home, is_ids ? -1 : 0);
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
    const sc_row_group *group = &s->to.groups.data[number];
    const sc_type_info home = sc_type_at_home(group, sc_type_of(s->to.m, value));
    sc_value y = sc_exchange_slots(&s->to, e, group, s->sent[value], true, 0);
    sc_attr attrs[2];
    uint32_t count = sc_slot_attrs(s->to.m, group, true, attrs);
    s->back[value] = sc_emit_placed(e, SC_OP_unpack_rows, (sc_value[]){y, group->places}, 2, attrs,
                                    count, &home);
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

static bool sums_parts(const sc_row_group *group, const sc_op *op)
{
    return sc_attr_has_dim(sc_op_attr(op, SC_ATTR_dims), group->part) && !sc_is_routed(op);
}

/* How many of the op's `dims` are of rows. */
static uint32_t count_summed(const sc_row_group *group, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const uint32_t end = dims == NULL ? 0 : dims->count;
    uint32_t count = 0;
    for (uint32_t d = 0; d < end; d++)
        count += sc_is_row_dim(group, dims->dims[d]);
    return count;
}

/* Makes an op whose result has no rows read those in slots. */
static void read_slots(sending *s, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = s->to.m;
    const sc_op op = *sc_op_at(m, id);
    sc_value operands[SC_MAX_FIXED_OPERANDS] = {0};
    sc_attr attrs[SC_ATTR_COUNT];
    send_operands(s, e, number, &op, operands);
    uint32_t count = slot_op_attrs(m, &s->to.groups.data[number], &op, attrs);
    for (uint32_t o = 0; o < op.operand_count; o++)
        sc_op_at(m, id)->operands[o] = operands[o];
    while (sc_op_at(m, id)->attr_count > 0)
        sc_op_drop_attr(m, id, (sc_attr_key)sc_op_at(m, id)->attrs[0].key);
    for (uint32_t a = 0; a < count; a++)
        sc_op_set_attr(m, id, attrs[a]);
}

/* Makes an op that cannot be computed on slots read the rows, as they were without them. */
static void read_back(sending *s, sc_emitter *e, sc_op_id id)
{
    for (uint32_t o = 0; o < sc_op_at(s->to.m, id)->operand_count; o++) {
        sc_value value = sc_op_at(s->to.m, id)->operands[o];
        if (value >= s->count || s->sent[value] == SC_NONE)
            continue;
        const sc_type_info term = *sc_type_of(s->to.m, value);
        const uint32_t number = s->group[value];
        sc_value rows = back(s, e, number, value);
        sc_op_at(s->to.m, id)->operands[o] =
            sc_rows_as_term(e, &s->to.groups.data[number], rows, &term);
    }
}

/* True if an operand is a sum that is pending over ranks of the group and is not in its slots: in
 * slots such a term would be added once for each part that a row meets. */
static bool reads_other_terms(const sending *s, uint32_t number, const sc_op *op)
{
    const sc_row_group *group = &s->to.groups.data[number];
    bool found = false;
    for (uint32_t o = 0; o < op->operand_count; o++) {
        const sc_value value = op->operands[o];
        const sc_type_info *type = sc_type_of(s->to.m, value);
        bool is_own = value < s->count && s->sent[value] != SC_NONE && s->group[value] == number;
        for (uint32_t a = 0; a < group->over.count; a++)
            found =
                found || (!is_own && sc_is_partial(type->placement.on[group->over.sub_axes[a]]));
    }
    return found;
}

/* True if the result of a reshard is in slots too: it has parts, or is a sum that is still pending
 * over the ranks of the group. */
static bool stays(const sc_row_group *group, const sc_module *m, const sc_op *op)
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
    sc_module *m = s->to.m;
    const sc_op *op = sc_op_at(m, id);
    uint32_t number = sc_row_group_of(&s->to, id);
    if (number == SC_NONE || !s->to.groups.data[number].sends)
        number = sent_group(s, op);
    if (number == SC_NONE)
        return;
    sc_row_group *group = &s->to.groups.data[number];
    sc_emitter e = sc_phase_emitter(m, s->to.func, id);
    if (!group->is_begun && !sc_begin_rows(&s->to, &e, group))
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
    bool has_rows = type != NULL && sc_count_row_dims(group, type) == group->row_dim_count;
    if (type == NULL || sc_op_has(op, SC_EFFECT) || reads_other_terms(s, number, op) ||
        (has_rows && summed > 0) || (!has_rows && sc_count_row_dims(group, type) > 0)) {
        read_back(s, &e, id);
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

static bool has_exchange(const sending *s)
{
    for (uint32_t g = 0; g < s->to.groups.count; g++) {
        if (s->to.groups.data[g].sends)
            return true;
    }
    return false;
}

static bool has_marks(const sc_module *m)
{
    sc_for_each_op_of_all(m, id)
    {
        if (sc_op_attr(sc_op_at(m, id), SC_ATTR_exchange) != NULL)
            return true;
    }
    return false;
}

bool sc_run_dispatch_rows(sc_module *m, sc_pass_env *env)
{
    double capacity = env->seeds == NULL ? 0 : env->seeds->capacity;
    sending s = {
        .to = {.m = m, .env = env, .capacity = capacity > 0 ? capacity : SC_DEFAULT_CAPACITY}};
    s.to.by_ids.arena = s.packed.arena = s.clipped.arena = &m->context->arena;
    if (!has_marks(m))
        return true;
    s.sent = sc_new_value_map(m, &s.count);
    s.group = sc_new_value_map(m, &s.count);
    s.back = sc_new_value_map(m, &s.count);
    sc_drop_dead(m); /* what nothing reads is not sent */
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        s.to.func = f;
        sc_find_row_groups(&s.to);
        if (!has_exchange(&s))
            continue;
        sc_for_each_op (m, f, id) {
            if (!s.to.failed)
                visit(&s, id);
        }
        sc_join_exchanges(m, f, &s.to.exchanges);
        s.to.exchanges.count = 0;
    }
    sc_drop_dead(m);
    return !s.to.failed;
}
