/* pack-choices: gives values between routed products room for the choices of rows that a rank
 * computes, not for all.
 *
 *   %3 = routed_dot[D -> X] %x, %w, %i {parts = [P]} : f32[P@ep, B, Q, F]
 *   %4 = silu %3 : f32[P@ep, B, Q, F]
 *   %5 = routed_dot[F -> X] %4, %v, %i {parts = [P]} : f32[B, Q, D]{sum:ep}
 *   %6 = dot[Q] %5, %p : f32[B, D]{sum:ep}
 *     ->
 *   %s, %n, %c = row_slots[B, Q -> M, P, K] %i : i32[M, P@ep, K], i32[B, Q, P@ep], i32[M, P@ep]
 *   %j = pack_rows[B, Q -> M, P, K] %i, %s : i32[M, P@ep, K]
 *   %b = broadcast %x : f32[B, D, Q]
 *   %y = pack_rows[B, Q -> M, P, K] %b, %s : f32[M, P@ep, K, D]
 *   %3 = routed_dot[D -> X] %y, %w, %j {parts = [P]} : f32[P@ep, M, K, F]
 *   %4 = silu %3 : f32[P@ep, M, K, F]
 *   %5 = routed_dot[F -> X] %4, %v, %j {parts = [P]} : f32[P@ep, M, K, D]
 *   %q = pack_rows[B, Q -> M, P, K] %p, %s : f32[M, P@ep, K]
 *   %7 = mul %5, %q : f32[P@ep, M, K, D]
 *   %6 = unpack_rows[M, P, K -> B] %7, %n : f32[B, D]{sum:ep}
 *
 * Before this pass a rank has a place for each choice of each row that it has, and fills those of
 * its own experts. A choice is an element of the ids. A slot of K has one that is this rank's (P,
 * its part of the experts), M is what splits rows over other ranks. What is computed of products
 * and of values of their rows is computed in slots: products, elementwise ops, lookups by the ids
 * and contractions that keep choices apart. A sum over choices of a row is part of unpack_rows. All
 * other ops read rows as they were. Copies of rows in slots are recomputed in each phase: none is
 * kept for the backward pass.
 *
 * `tune capacity` says how many slots there are, in even shares. Requires PLACED; one walk. */
#include "ir/ops/build.h"
#include "passes/packing.h"
#include "passes/parts.h"
#include "passes/send_rows.h"
#include "passes/uses.h"

enum { ROWS, OTHERS, IDS };
enum { MAX_DEPTH = 6 /* of ops that grow to choices */ };

/* The value's key in `packed` for a reader in this phase. */
static uint64_t key_of(sc_packing *p, sc_value value, uint32_t number, sc_op_id reader)
{
    const sc_sym phase = sc_op_word(sc_op_at(p->m, reader), SC_ATTR_phase);
    uint32_t at = 0;
    while (at < p->phase_count && p->phases[at] != phase)
        at++;
    if (at == p->phase_count && at + 1 < SC_PACKING_PHASES)
        p->phases[p->phase_count++] = phase;
    return (uint64_t)value << 32 | (uint64_t)number * SC_PACKING_PHASES | at;
}

/* ---- values that are not in slots yet ---- */
/* True for a lookup by an id for each choice, in a table that is the same for all rows and parts.
 */
static bool is_lookup(const sc_packing *p, const sc_choice_group *group, const sc_op *op)
{
    if (!sc_op_is_table((sc_op_kind)op->kind, 0) || !sc_has_id_of_choices(p, group, op))
        return false;
    const sc_type_info *table = sc_type_of(p->m, op->operands[0]);
    const sc_sub_axis_set split = sc_placement_split(&table->placement);
    bool is_shared = sc_count_choice_dims(group, table) == 0 && !sc_is_pending(group, table);
    for (uint32_t a = 0; a < group->over.count; a++)
        is_shared = is_shared && (split >> group->over.sub_axes[a] & 1) == 0;
    return is_shared;
}

/* True if the value has an element for each choice, and more dims. */
static bool is_wide(const sc_packing *p, const sc_choice_group *group, sc_value value)
{
    const sc_type_info *type = sc_type_of(p->m, value);
    bool has_parts = sc_type_find_dim(type, group->part) >= 0;
    return sc_count_choice_dims(group, type) == group->dim_count &&
           type->rank > group->dim_count + has_parts && !sc_is_pending(group, type);
}

/* True if elementwise ops make the value of what has fewer dims of choices, or of lookups: it is
 * computed in slots, and is never there for all choices. */
static bool grows(const sc_packing *p, uint32_t number, sc_value value, int depth)
{
    const sc_choice_group *group = &p->groups.data[number];
    const sc_op *op = sc_op_at(p->m, sc_def(p->m, value));
    if (sc_is_packed_in(p, value, number))
        return true;
    if (depth == 0 || !is_wide(p, group, value))
        return false;
    if (is_lookup(p, group, op))
        return true;
    if (!sc_is_rowwise(op))
        return false;
    bool found = false;
    for (uint32_t o = 0; o < op->operand_count && !found; o++) {
        const uint32_t dims = sc_count_choice_dims(group, sc_type_of(p->m, op->operands[o]));
        found = (dims < group->dim_count && (dims > 0 || sc_op_has(op, SC_SPREADS))) ||
                grows(p, number, op->operands[o], depth - 1);
    }
    return found;
}

/* The value with all dims of choices. */
static sc_value spread(sc_packing *p, sc_emitter *e, const sc_choice_group *group, sc_value value)
{
    sc_type_info type = *sc_type_of(p->m, value);
    const sc_type_info places = *sc_type_of(p->m, group->places);
    if (sc_count_choice_dims(group, &type) == group->dim_count)
        return value;
    for (uint32_t i = 0; i < places.rank; i++) {
        const sc_type_dim *dim = &places.dims[i];
        if (!sc_is_choice_dim(group, dim->dim) || sc_type_find_dim(&type, dim->dim) >= 0)
            continue;
        const sc_sub_axis_list split = sc_placement_dim(&places.placement, i);
        type.dims[type.rank++] = *dim;
        sc_placement_set_dim(&type.placement, type.rank - 1, &split);
    }
    return sc_emit_placed(e, SC_OP_broadcast, &value, 1, NULL, 0, &type);
}

static sc_value compute(sc_packing *p, sc_emitter *e, uint32_t number, sc_op_id id);
static sc_value back(sc_packing *p, sc_emitter *e, sc_value value);

/* The value in slots; itself if all choices share it. */
static sc_value in_slots(sc_packing *p, sc_emitter *e, uint32_t number, sc_value value)
{
    const sc_choice_group *group = &p->groups.data[number];
    if (sc_is_packed_in(p, value, number))
        return p->sent[value];
    if (sc_count_choice_dims(group, sc_type_of(p->m, value)) == 0)
        return value;
    const uint64_t key = key_of(p, value, number, e->like);
    const uint32_t *known = sc_map_find(&p->packed, key);
    if (known != NULL)
        return *known;
    sc_value made;
    if (grows(p, number, value, MAX_DEPTH)) {
        made = compute(p, e, number, sc_def(p->m, value));
    } else {
        sc_value rows = sc_is_packed(p, value) ? back(p, e, value) : value;
        made = sc_pack_choices(e, group, spread(p, e, group, rows), 0);
    }
    *sc_map_insert(&p->packed, key, SC_NONE, NULL) = made;
    return made;
}

/* ---- ops in slots ---- */
static void pack_operands(sc_packing *p, sc_emitter *e, uint32_t number, const sc_op *op,
                          sc_value *operands)
{
    for (uint32_t o = 0; o < op->operand_count; o++)
        operands[o] = sc_is_routed(op) && o == IDS ? p->groups.data[number].packed
                                                   : in_slots(p, e, number, op->operands[o]);
}

/* The attributes of an op in slots: `dims` of choices become those of slots. */
static uint32_t slot_attrs(sc_packing *p, const sc_choice_group *group, const sc_op *op,
                           sc_attr *attrs)
{
    uint32_t count = 0;
    bool is_product = sc_is_routed(op);
    for (uint32_t a = 0; a < op->attr_count; a++) {
        const sc_attr *attr = &op->attrs[a];
        sc_dim dims[SC_MAX_RANK];
        uint32_t kept = 0;
        if (is_product && (attr->key == SC_ATTR_parts || attr->key == SC_ATTR_even))
            continue;
        attrs[count++] = *attr;
        if (attr->key != SC_ATTR_dims || !is_product)
            continue;
        for (uint32_t d = 0; d < attr->count; d++) {
            if (!sc_is_choice_dim(group, attr->dims[d]))
                dims[kept++] = attr->dims[d];
        }
        if (kept < attr->count) {
            dims[kept++] = group->member;
            dims[kept++] = group->slot;
            attrs[count - 1] = sc_attr_dims(p->m, SC_ATTR_dims, dims, kept);
        }
    }
    if (is_product) {
        attrs[count++] = sc_attr_dims(p->m, SC_ATTR_parts, &group->part, 1);
        attrs[count++] = sc_attr_number(SC_ATTR_even, group->share / (double)group->room);
    }
    return count;
}

/* Emits the op in slots; its result has choices. */
static sc_value compute(sc_packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_value operands[SC_MAX_FIXED_OPERANDS] = {0};
    sc_attr attrs[SC_ATTR_COUNT];
    pack_operands(p, e, number, &op, operands);
    const sc_choice_group *group = &p->groups.data[number];
    uint32_t count = slot_attrs(p, group, &op, attrs);
    if (!sc_op_is_inferred((sc_op_kind)op.kind)) {
        sc_type_info type = sc_type_packed(group, &like);
        if (sc_op_has(&op, SC_RESHARD)) { /* dims stay in order */
            type = *sc_type_of(m, operands[0]);
            sc_place_packed(group, &like, &type);
        }
        return sc_emit_placed(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count,
                              &type);
    }
    sc_op_id made = sc_make_sized(e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count,
                                  sc_is_routed(&op) ? group->parts : 0);
    sc_value result = sc_result(m, made, 0);
    sc_type_info type = *sc_type_of(m, result);
    sc_place_packed(group, &like, &type);
    m->values.data[result].type = sc_type_intern(m, &type);
    return result;
}

/* ---- back to rows ---- */
/* Rows of this type from choices: a row is the sum of those dims of choices that it lacks. */
static sc_value unpack(sc_emitter *e, const sc_choice_group *group, sc_value value,
                       const sc_type_info *type)
{
    sc_dim kept[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t d = 0; d < group->dim_count; d++) {
        if (sc_type_find_dim(type, group->dims[d]) >= 0)
            kept[count++] = group->dims[d];
    }
    const sc_attr attrs[] = {sc_choice_slots(e->m, group, SC_ATTR_dims),
                             sc_attr_dims(e->m, SC_ATTR_to, kept, count)};
    return sc_emit_placed(e, SC_OP_unpack_rows, (sc_value[]){value, group->places}, 2, attrs, 2,
                          type);
}

static sc_value back(sc_packing *p, sc_emitter *e, sc_value value)
{
    if (p->back[value] == SC_NONE) {
        const sc_type_info type = *sc_type_of(p->m, value);
        p->back[value] = unpack(e, &p->groups.data[p->group[value]], p->sent[value], &type);
    }
    return p->back[value];
}

/* Makes an op that cannot be computed in slots read rows, as they were without them. */
static void read_back(sc_packing *p, sc_emitter *e, sc_op_id id)
{
    for (uint32_t o = 0; o < sc_op_at(p->m, id)->operand_count; o++) {
        sc_value value = sc_op_at(p->m, id)->operands[o];
        if (!sc_is_packed(p, value))
            continue;
        sc_value rows = back(p, e, value);
        sc_op_at(p->m, id)->operands[o] = rows;
    }
}

/* Zero in empty slots: what was computed there need not be a number. */
static sc_value clear_empty(sc_packing *p, sc_emitter *e, const sc_choice_group *group,
                            sc_value value)
{
    const sc_type_info type = *sc_type_of(p->m, value);
    sc_type_info is_full = *sc_type_of(p->m, group->packed);
    sc_value none = sc_make_constant(e, 0, is_full.dtype);
    is_full.dtype = SC_DTYPE_bool;
    sc_value full =
        sc_emit_placed(e, SC_OP_ge, (sc_value[]){group->packed, none}, 2, NULL, 0, &is_full);
    sc_value zero = sc_make_constant(e, 0, type.dtype);
    sc_op_id made = sc_make_op(e, SC_OP_where, (sc_value[]){full, value, zero}, 3, NULL, 0);
    sc_value result = sc_result(p->m, made, 0);
    sc_type_info placed = *sc_type_of(p->m, result);
    sc_place_packed(group, &type, &placed);
    p->m->values.data[result].type = sc_type_intern(p->m, &placed);
    return result;
}

/* Makes a sum over all choices, of a product's weights or of a table, read those in slots. */
static void read_slots(sc_packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    sc_value operands[SC_MAX_FIXED_OPERANDS] = {0};
    sc_attr attrs[SC_ATTR_COUNT];
    pack_operands(p, e, number, &op, operands);
    if (!sc_is_routed(&op))
        operands[ROWS] = clear_empty(p, e, &p->groups.data[number], operands[ROWS]);
    uint32_t count = slot_attrs(p, &p->groups.data[number], &op, attrs);
    for (uint32_t o = 0; o < op.operand_count; o++)
        sc_op_at(m, id)->operands[o] = operands[o];
    for (uint32_t a = 0; a < count; a++)
        sc_op_set_attr(m, id, attrs[a]);
}

/* The product of the terms of a contraction, which keeps its choices: in f32 or wider, unless a
 * term is itself a sum that is pending, which no cast may change. */
static sc_value multiply(sc_packing *p, sc_emitter *e, const sc_choice_group *group,
                         const sc_type_info *like, const sc_value *terms)
{
    sc_module *m = p->m;
    const sc_dtype wide = sc_wide(like->dtype);
    sc_value factors[2];
    bool is_pending = false;
    for (uint32_t o = 0; o < 2; o++)
        is_pending =
            is_pending || sc_placement_partial(&sc_type_of(m, terms[o])->placement, 0) != 0;
    for (uint32_t o = 0; o < 2; o++) {
        sc_type_info type = *sc_type_of(m, terms[o]);
        bool is_cast = type.dtype != wide && !is_pending;
        type.dtype = wide;
        factors[o] =
            is_cast ? sc_emit_placed(e, SC_OP_cast, &terms[o], 1, NULL, 0, &type) : terms[o];
    }
    sc_value value = sc_make2(e, SC_OP_mul, factors[0], factors[1]);
    sc_type_info placed = *sc_type_of(m, value);
    sc_place_packed(group, like, &placed);
    m->values.data[value].type = sc_type_intern(m, &placed);
    return value;
}

/* Makes a sum over choices of rows, or a contraction of them, rows from slots. */
static void combine(sc_packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_value terms[2] = {SC_NONE, SC_NONE};
    for (uint32_t o = 0; o < op.operand_count; o++)
        terms[o] = in_slots(p, e, number, op.operands[o]);
    const sc_choice_group *group = &p->groups.data[number];
    sc_value value = op.operand_count > 1 ? multiply(p, e, group, &like, terms) : terms[0];
    sc_op_id made = sc_def(m, unpack(e, group, value, &like));
    const sc_op unpacked = *sc_op_at(m, made);
    sc_op_unlink(m, made);
    sc_op *changed = sc_op_at(m, id);
    changed->kind = unpacked.kind;
    changed->operands = unpacked.operands;
    changed->operand_count = unpacked.operand_count;
    changed->attrs = unpacked.attrs;
    changed->attr_count = unpacked.attr_count;
}

/* ---- the walk ---- */
/* The group in whose slots an operand is, or SC_NONE. */
static uint32_t sent_group(const sc_packing *p, const sc_op *op)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (sc_is_packed(p, op->operands[o]))
            return p->group[op->operands[o]];
    }
    return SC_NONE;
}

static void visit(sc_packing *p, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op *op = sc_op_at(m, id);
    const sc_value result = op->first_result;
    uint32_t number = sc_choice_group_of(m, p->env, &p->groups, &p->by_ids, id);
    if (number == SC_NONE || !p->groups.data[number].packs)
        number = sent_group(p, op);
    if (number == SC_NONE)
        return;
    sc_emitter e = sc_phase_emitter(m, p->func, id);
    if (!p->groups.data[number].is_begun)
        sc_begin_choices(&e, &p->groups.data[number], id);
    switch (sc_way_of_packing(p, number, sc_op_at(m, id))) {
    case SC_PACK_READ_BACK:
        read_back(p, &e, id);
        break;
    case SC_PACK_READ_SLOTS:
        read_slots(p, &e, number, id);
        break;
    case SC_PACK_COMBINE:
        combine(p, &e, number, id);
        break;
    case SC_PACK_PASS_ON:
        p->sent[result] = p->sent[sc_op_at(m, id)->operands[0]];
        p->group[result] = number;
        break;
    case SC_PACK_COMPUTE: {
        sc_value made = compute(p, &e, number, id);
        p->sent[result] = made;
        p->group[result] = number;
        break;
    }
    }
}

bool sc_run_pack_choices(sc_module *m, sc_pass_env *env)
{
    sc_packing p = {.m = m, .env = env};
    p.by_ids.arena = p.packed.arena = &m->context->arena;
    p.sent = sc_new_value_map(m, &p.count);
    p.group = sc_new_value_map(m, &p.count);
    p.back = sc_new_value_map(m, &p.count);
    bool packs = false;
    for (p.func = 0; p.func < m->funcs.count; p.func++) {
        sc_for_each_op (m, p.func, id)
            visit(&p, id);
    }
    for (uint32_t g = 0; g < p.groups.count; g++)
        packs = packs || p.groups.data[g].packs;
    if (packs)
        sc_drop_dead(m);
    return true;
}
