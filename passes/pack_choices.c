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
 * other ops read rows as they were. Broadcasts and copies to slots are made again in each phase: no
 * copy is kept for the backward pass.
 *
 * `tune capacity` says how many slots there are, in even shares. Requires PLACED; one walk. */
#include "ir/ops/build.h"
#include "passes/choice_groups.h"
#include "passes/parts.h"
#include "passes/send_rows.h"
#include "passes/uses.h"

enum { ROWS, OTHERS, IDS };
enum { PHASES = 4, MAX_DEPTH = 6 /* of ops that grow to choices */ };

typedef struct packing {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    uint32_t count; /* number of values at the start */
    sc_choice_groups groups;
    sc_map by_ids;   /* the last group with these ids */
    sc_map packed;   /* value, group and phase -> the value in slots */
    sc_value *sent;  /* by value: what is computed in slots instead, or SC_NONE */
    uint32_t *group; /* by value: of `sent` */
    sc_value *back;  /* by value: `sent` as it was, or SC_NONE */
    sc_sym phases[PHASES];
    uint32_t phase_count;
} packing;

static bool is_sent(const packing *p, sc_value value)
{
    return value < p->count && p->sent[value] != SC_NONE;
}

static bool is_in(const packing *p, sc_value value, uint32_t number)
{
    return is_sent(p, value) && p->group[value] == number;
}

/* The value's key in `packed` for a reader in this phase. */
static uint64_t key_of(packing *p, sc_value value, uint32_t number, sc_op_id reader)
{
    const sc_sym phase = sc_op_word(sc_op_at(p->m, reader), SC_ATTR_phase);
    uint32_t at = 0;
    while (at < p->phase_count && p->phases[at] != phase)
        at++;
    if (at == p->phase_count && at + 1 < PHASES)
        p->phases[p->phase_count++] = phase;
    return (uint64_t)value << 32 | (uint64_t)number * PHASES | at;
}

static bool reads_ids_of(const packing *p, const sc_choice_group *group, const sc_op *op,
                         uint32_t operand)
{
    return sc_op_takes_ids((sc_op_kind)op->kind, operand) &&
           sc_ids_root(p->m, p->env->step, op->operands[operand]) == group->ids &&
           sc_count_choice_dims(group, sc_type_of(p->m, op->operands[operand])) == group->dim_count;
}

/* ---- values that are not in slots yet ---- */
/* True for a lookup by the ids, in a table that is the same for all rows and parts. */
static bool is_lookup(const packing *p, const sc_choice_group *group, const sc_op *op)
{
    if (!sc_op_is_table((sc_op_kind)op->kind, 0) || !reads_ids_of(p, group, op, 1))
        return false;
    const sc_type_info *table = sc_type_of(p->m, op->operands[0]);
    const sc_sub_axis_set split = sc_placement_split(&table->placement);
    bool is_shared = sc_count_choice_dims(group, table) == 0 && !sc_is_pending(group, table);
    for (uint32_t a = 0; a < group->over.count; a++)
        is_shared = is_shared && (split >> group->over.sub_axes[a] & 1) == 0;
    return is_shared;
}

/* True if the value has an element for each choice, and more dims. */
static bool is_wide(const packing *p, const sc_choice_group *group, sc_value value)
{
    const sc_type_info *type = sc_type_of(p->m, value);
    bool has_parts = sc_type_find_dim(type, group->part) >= 0;
    return sc_count_choice_dims(group, type) == group->dim_count &&
           type->rank > group->dim_count + has_parts && !sc_is_pending(group, type);
}

/* True if elementwise ops make the value of what has fewer dims of choices, or of lookups: it is
 * computed in slots, and is never there for all choices. */
static bool grows(const packing *p, uint32_t number, sc_value value, int depth)
{
    const sc_choice_group *group = &p->groups.data[number];
    const sc_op *op = sc_op_at(p->m, sc_def(p->m, value));
    if (is_in(p, value, number))
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
static sc_value spread(packing *p, sc_emitter *e, const sc_choice_group *group, sc_value value)
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

static sc_value compute(packing *p, sc_emitter *e, uint32_t number, sc_op_id id);
static sc_value back(packing *p, sc_emitter *e, sc_value value);

/* The value in slots; itself if all choices share it. */
static sc_value in_slots(packing *p, sc_emitter *e, uint32_t number, sc_value value)
{
    const sc_choice_group *group = &p->groups.data[number];
    if (is_in(p, value, number))
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
        sc_value rows = is_sent(p, value) ? back(p, e, value) : value;
        made = sc_pack_choices(e, group, spread(p, e, group, rows), 0);
    }
    *sc_map_insert(&p->packed, key, SC_NONE, NULL) = made;
    return made;
}

/* The ids in slots: for products -1 in empty ones, for others 0. */
static sc_value ids_in_slots(packing *p, sc_emitter *e, uint32_t number, bool is_product)
{
    sc_choice_group *group = &p->groups.data[number];
    if (is_product)
        return group->packed;
    if (group->clipped == SC_NONE) {
        const sc_type_info type = *sc_type_of(p->m, group->packed);
        sc_value zero = sc_make_constant(e, 0, type.dtype);
        group->clipped =
            sc_emit_placed(e, SC_OP_maximum, (sc_value[]){group->packed, zero}, 2, NULL, 0, &type);
    }
    return group->clipped;
}

/* ---- ops in slots ---- */
static void pack_operands(packing *p, sc_emitter *e, uint32_t number, const sc_op *op,
                          sc_value *operands)
{
    for (uint32_t o = 0; o < op->operand_count; o++)
        operands[o] = reads_ids_of(p, &p->groups.data[number], op, o)
                          ? ids_in_slots(p, e, number, sc_is_routed(op))
                          : in_slots(p, e, number, op->operands[o]);
}

/* The attributes of an op in slots: `dims` of choices become those of slots. */
static uint32_t slot_attrs(packing *p, const sc_choice_group *group, const sc_op *op, sc_attr *attrs)
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
static sc_value compute(packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
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

static sc_value back(packing *p, sc_emitter *e, sc_value value)
{
    if (p->back[value] == SC_NONE) {
        const sc_type_info type = *sc_type_of(p->m, value);
        p->back[value] = unpack(e, &p->groups.data[p->group[value]], p->sent[value], &type);
    }
    return p->back[value];
}

/* Makes an op that cannot be computed in slots read rows, as they were without them. */
static void read_back(packing *p, sc_emitter *e, sc_op_id id)
{
    for (uint32_t o = 0; o < sc_op_at(p->m, id)->operand_count; o++) {
        sc_value value = sc_op_at(p->m, id)->operands[o];
        if (!is_sent(p, value))
            continue;
        sc_value rows = back(p, e, value);
        sc_op_at(p->m, id)->operands[o] = rows;
    }
}

/* Zero in empty slots: what was computed there need not be a number. */
static sc_value clear_empty(packing *p, sc_emitter *e, const sc_choice_group *group, sc_value value)
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
static void read_slots(packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
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

/* Makes a sum over choices of rows, or a contraction of them, rows from slots. */
static void combine(packing *p, sc_emitter *e, uint32_t number, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_value terms[2];
    sc_type_info type = like;
    if (op.operand_count > 1)
        type.dtype = sc_wide(like.dtype);
    for (uint32_t o = 0; o < op.operand_count; o++) {
        terms[o] = in_slots(p, e, number, op.operands[o]);
        sc_type_info wide = *sc_type_of(m, terms[o]);
        bool is_narrow = wide.dtype != type.dtype;
        wide.dtype = type.dtype;
        if (is_narrow)
            terms[o] = sc_emit_placed(e, SC_OP_cast, &terms[o], 1, NULL, 0, &wide);
    }
    const sc_choice_group *group = &p->groups.data[number];
    sc_value value = terms[0];
    if (op.operand_count > 1) {
        value = sc_make2(e, SC_OP_mul, terms[0], terms[1]);
        sc_type_info placed = *sc_type_of(m, value);
        sc_place_packed(group, &like, &placed);
        m->values.data[value].type = sc_type_intern(m, &placed);
    }
    value = unpack(e, group, value, &type);
    if (type.dtype != like.dtype)
        value = sc_emit_placed(e, SC_OP_cast, &value, 1, NULL, 0, &like);
    const sc_op last = *sc_op_at(m, sc_def(m, value));
    sc_op_unlink(m, sc_def(m, value));
    sc_op *changed = sc_op_at(m, id);
    changed->kind = last.kind;
    changed->operands = last.operands;
    changed->operand_count = last.operand_count;
    changed->attrs = last.attrs;
    changed->attr_count = last.attr_count;
}

/* ---- the walk ---- */
/* The group in whose slots an operand is, or SC_NONE. */
static uint32_t sent_group(const packing *p, const sc_op *op)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (is_sent(p, op->operands[o]))
            return p->group[op->operands[o]];
    }
    return SC_NONE;
}

/* True if an operand is a sum that is pending over ranks of the group and is not in its slots. */
static bool reads_other_terms(const packing *p, uint32_t number, const sc_op *op)
{
    bool found = false;
    for (uint32_t o = 0; o < op->operand_count; o++)
        found = found ||
                (!is_in(p, op->operands[o], number) &&
                 sc_is_pending(&p->groups.data[number], sc_type_of(p->m, op->operands[o])));
    return found;
}

/* True if a reshard changes neither which ranks have choices nor which have terms of sums. */
static bool stays(const packing *p, const sc_choice_group *group, const sc_op *op)
{
    const sc_type_info *from = sc_type_of(p->m, op->operands[0]),
                       *to = sc_type_of(p->m, op->first_result);
    bool same = true;
    for (uint32_t d = 0; d <= group->dim_count; d++) {
        sc_dim dim = d < group->dim_count ? group->dims[d] : group->part;
        const sc_sub_axis_list a = sc_split_of(from, dim), b = sc_split_of(to, dim);
        same = same && sc_sub_axis_list_equal(&a, &b);
    }
    for (uint32_t a = 0; a < group->over.count; a++)
        same = same && sc_is_partial(from->placement.on[group->over.sub_axes[a]]) ==
                           sc_is_partial(to->placement.on[group->over.sub_axes[a]]);
    return same;
}

/* The number of dims of choices that an op names, and whether one of them is split. */
static uint32_t count_named(const packing *p, const sc_choice_group *group, const sc_op *op,
                            bool *is_split)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const uint32_t end = dims == NULL ? 0 : dims->count;
    uint32_t count = 0;
    *is_split = false;
    for (uint32_t d = 0; d < end; d++) {
        if (!sc_is_choice_dim(group, dims->dims[d]))
            continue;
        count++;
        *is_split = *is_split ||
                    sc_split_of(sc_type_of(p->m, group->places), dims->dims[d]).count > 0;
    }
    return count;
}

typedef enum way { READ_BACK, COMPUTE, PASS_ON, READ_SLOTS, COMBINE } way;

/* Reductions and contractions, of dims that are no choices' or of some that are. */
static way way_of_sum(const packing *p, const sc_choice_group *group, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const uint32_t has = sc_count_choice_dims(group, sc_type_of(p->m, op->first_result)),
                   all = group->dim_count, count = dims == NULL ? 0 : dims->count;
    bool is_split, is_dot = (sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) != 0;
    const uint32_t named = count_named(p, group, op, &is_split);
    if (named == 0 && has == all)
        return COMPUTE;
    bool has_numbers = sc_dtype_is_float(sc_type_of(p->m, op->first_result)->dtype);
    return named > 0 && named == count && has == all - named && has > 0 && !is_split &&
                   (has_numbers || !is_dot)
               ? COMBINE
               : READ_BACK;
}

static way way_of(const packing *p, uint32_t number, const sc_op *op)
{
    const sc_choice_group *group = &p->groups.data[number];
    if (op->result_count != 1 || op->operand_count > SC_MAX_FIXED_OPERANDS ||
        sc_op_has(op, SC_EFFECT) || reads_other_terms(p, number, op))
        return READ_BACK;
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    if (sc_op_has(op, SC_RESHARD))
        return op->operand_count == 1 && stays(p, group, op) ? COMPUTE : READ_BACK;
    if (sc_is_routed(op))
        return sc_is_weight_gradient(p->m, op) ? READ_SLOTS : COMPUTE;
    if (sc_op_takes_ids((sc_op_kind)op->kind, 1) && sc_op_has(op, SC_LINEAR_FIRST))
        return reads_ids_of(p, group, op, 1) && is_in(p, op->operands[ROWS], number) ? READ_SLOTS
                                                                                     : READ_BACK;
    if (sc_op_is_sum((sc_op_kind)op->kind) && dims->count == 1 && dims->dims[0] == group->part)
        return PASS_ON;
    if (sc_op_is_sum((sc_op_kind)op->kind) || (sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) != 0)
        return way_of_sum(p, group, op);
    const sc_type_info *type = sc_type_of(p->m, op->first_result);
    return sc_is_rowwise(op) && sc_count_choice_dims(group, type) == group->dim_count ? COMPUTE
                                                                                      : READ_BACK;
}

static void visit(packing *p, sc_op_id id)
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
    switch (way_of(p, number, sc_op_at(m, id))) {
    case READ_BACK:
        read_back(p, &e, id);
        break;
    case READ_SLOTS:
        read_slots(p, &e, number, id);
        break;
    case COMBINE:
        combine(p, &e, number, id);
        break;
    case PASS_ON:
        p->sent[result] = p->sent[sc_op_at(m, id)->operands[0]];
        p->group[result] = number;
        break;
    case COMPUTE: {
        sc_value made = compute(p, &e, number, id);
        p->sent[result] = made;
        p->group[result] = number;
        break;
    }
    }
}

bool sc_run_pack_choices(sc_module *m, sc_pass_env *env)
{
    packing p = {.m = m, .env = env};
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
