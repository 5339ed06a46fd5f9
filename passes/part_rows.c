/* part-rows: between routed products, keeps rows on the ranks that have their experts.
 *
 *   %4 = routed_dot[D -> X] %x, %w1, %ids {split = [X@ep]} : f32[B, F]        (a partial sum)
 *   %5 = silu %4 : f32[B, F]
 *   %6 = routed_dot[F -> X] %5, %w2, %ids {split = [X@ep]} : f32[B, D]
 *     ->
 *   %4 = routed_dot[D -> X] %x, %w1, %ids {parts = [P], split = [X@ep]} : f32[P@ep, B, F]
 *   %5 = silu %4 {split = [P@ep]} : f32[P@ep, B, F]
 *   %6 = routed_dot[F -> X] %5, %w2, %ids {parts = [P], split = [X@ep]} : f32[B, D]
 *
 * A product whose experts are split over ranks is a partial sum: a rank has the rows of its own
 * experts, and zeros. Another product with the same ids reads only these. So elementwise ops
 * between such products, forward and backward, are computed on the rows of each part of the experts
 * apart, along a dim P of which each rank has one element, and nothing is reduced before the last
 * product. A value that other ops read as well is for them the sum over its parts of the rows that
 * they have:
 *
 *   %7 = where %own, %5, 0      (own: the ids are of this part)
 *   %8 = sum[P] %7 {split = [P@ep]}
 *
 * Lookups by the same ids, of a bias say, are made where the rows are. Reads and keeps `split`;
 * each op is visited three times. */
#include "ir/ops/build.h"
#include "passes/assign.h"
#include "passes/parts.h"
#include "passes/pass.h"
#include "passes/uses.h"

enum { ROWS, OTHERS, IDS };

/* What products must have in common for one to read rows that another keeps apart. */
typedef struct part_group {
    sc_value ids;
    sc_dim experts;
    sc_sub_axis_list over;
    sc_dim parts;        /* SC_NONE until rows are kept apart */
    int64_t count, each; /* parts, and experts of a part */
    uint32_t before;     /* another group with these ids, or SC_NONE */
} part_group;

typedef struct parting {
    sc_module *m;
    const sc_train_step *step; /* NULL: none */
    sc_func_id func;
    uint32_t count; /* number of values at the start */
    SC_VEC(part_group) groups;
    sc_map by_ids; /* the last group with these ids */
    /* by value: the group of a product that reads its rows, and of the rows that are apart;
     * SC_NONE: none */
    uint32_t *wanted, *group;
    sc_value *apart; /* by value: the same with its rows apart, or SC_NONE */
    /* by value: the same for rows that are apart, a lookup by the ids of `group` or made of such,
     * or SC_NONE */
    sc_value *lookup;
    uint32_t *uses;
} parting;

/* ---- groups ---- */
static sc_sub_axis_list split_of(const sc_module *m, sc_op_id op, sc_dim dim)
{
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(m, sc_op_at(m, op), &factors);
    sc_assignment_load(m, op, &factors, &assignment);
    for (uint32_t f = 0; f < factors.count; f++) {
        if (factors.list[f].dim == dim)
            return assignment.split[f];
    }
    return (sc_sub_axis_list){0};
}

static sc_value named(const parting *p, sc_value ids)
{
    return sc_behind_names(p->m, p->step, ids);
}

/* Returns the group of a product, SC_NONE if its experts are not split. */
static uint32_t group_of(parting *p, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op *op = sc_op_at(m, id);
    if (!sc_is_routed(op))
        return SC_NONE;
    part_group own = {.ids = named(p, op->operands[IDS]),
                      .experts = sc_op_attr(op, SC_ATTR_to)->dims[0],
                      .over = split_of(m, id, sc_op_attr(op, SC_ATTR_to)->dims[0]),
                      .parts = SC_NONE};
    own.count = (int64_t)sc_sub_axis_list_size(&m->mesh, &own.over);
    if (own.count < 2)
        return SC_NONE;
    uint32_t *last = sc_map_insert(&p->by_ids, own.ids, SC_NONE, NULL);
    for (uint32_t g = *last; g != SC_NONE; g = p->groups.data[g].before) {
        const part_group *known = &p->groups.data[g];
        if (known->experts == own.experts && sc_sub_axis_list_equal(&known->over, &own.over))
            return g;
    }
    own.before = *last;
    *last = p->groups.count;
    own.each =
        sc_part_size(m, sc_is_weight_gradient(m, op) ? op->first_result : op->operands[OTHERS],
                     own.experts, own.count);
    *sc_vec_push(&m->context->arena, &p->groups) = own;
    return p->groups.count - 1;
}

/* The group with its dim of parts. */
static const part_group *numbered(parting *p, uint32_t group)
{
    part_group *own = &p->groups.data[group];
    if (own->parts == SC_NONE)
        own->parts = sc_parts_dim(p->m, own->experts, own->count);
    return own;
}

/* ---- which values ---- */
static void want(parting *p, sc_value value, uint32_t group)
{
    if (p->wanted[value] == SC_NONE)
        p->wanted[value] = group;
}

/* True for a lookup by the ids of the group. */
static bool looks_up(const parting *p, const sc_op *op, uint32_t group)
{
    return group != SC_NONE && sc_op_is_table((sc_op_kind)op->kind, 0) &&
           named(p, op->operands[1]) == p->groups.data[group].ids;
}

/* True for a sum of rows by ids: the derivative of a lookup. */
static bool adds_by_ids(const sc_op *op)
{
    return sc_op_takes_ids((sc_op_kind)op->kind, 1) && sc_op_has(op, SC_LINEAR_FIRST);
}

/* Backwards: a product wants its rows apart, and so does the derivative of a lookup; an elementwise
 * op wants what its result is made of. */
static void find_wanted(parting *p)
{
    sc_for_each_op (p->m, p->func, id)
        group_of(p, id); /* makes it known */
    sc_for_each_op_reverse (p->m, p->func, id) {
        const sc_op *op = sc_op_at(p->m, id);
        uint32_t group = group_of(p, id);
        if (group != SC_NONE) {
            want(p, op->operands[ROWS], group);
            if (sc_is_weight_gradient(p->m, op))
                want(p, op->operands[OTHERS], group);
        } else if (adds_by_ids(op)) {
            const uint32_t *known = sc_map_find(&p->by_ids, named(p, op->operands[1]));
            want(p, op->operands[ROWS], known == NULL ? SC_NONE : *known);
        } else if (sc_is_rowwise(op) && p->wanted[op->first_result] != SC_NONE) {
            for (uint32_t o = 0; o < op->operand_count; o++)
                want(p, op->operands[o], p->wanted[op->first_result]);
        }
    }
}

/* ---- rows apart ---- */
static bool is_apart(const parting *p, sc_value value, uint32_t group)
{
    return value < p->count && p->apart[value] != SC_NONE && p->group[value] == group;
}

static bool is_lookup(const parting *p, sc_value value, uint32_t group)
{
    return value < p->count && p->lookup[value] != SC_NONE && p->group[value] == group;
}

/* The list without the sub-axes of the group. */
static sc_sub_axis_list without(const sc_sub_axis_list *list, const part_group *group)
{
    sc_sub_axis_list left = {0};
    for (uint32_t i = 0; i < list->count; i++) {
        bool is_taken = false;
        for (uint32_t a = 0; a < group->over.count; a++)
            is_taken = is_taken || group->over.sub_axes[a] == list->sub_axes[i];
        if (!is_taken)
            left.sub_axes[left.count++] = list->sub_axes[i];
    }
    return left;
}

/* The placement of a value whose rows are apart: that of the value, but its parts are on the ranks
 * of the group. */
static void place(const sc_module *m, const part_group *group, const sc_type_info *like,
                  sc_type_info *type)
{
    type->placement = sc_placement_with(&like->placement, ~(sc_sub_axis_set)0, SC_ON_NOTHING);
    sc_sub_axis_set partial = sc_placement_partial(&like->placement, SC_PARTIAL_SUM);
    for (uint32_t i = 0; i < type->rank; i++) {
        int at = sc_type_find_dim(like, type->dims[i].dim);
        sc_sub_axis_list list = group->over;
        if (at >= 0) {
            list = sc_placement_dim(&like->placement, (uint32_t)at);
            list = without(&list, group);
        }
        sc_placement_set_dim(&type->placement, i, &list);
    }
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if ((partial >> a & 1) != 0 && type->placement.on[a] == SC_ON_NOTHING)
            type->placement.on[a] = SC_PARTIAL_SUM;
    }
}

/* The type with its parts first. */
static sc_type_info with_parts(const part_group *group, const sc_type_info *type)
{
    sc_type_info apart = {.dtype = type->dtype, .placement = sc_placement_replicated()};
    apart.dims[apart.rank++] = (sc_type_dim){group->parts, SC_NONE, group->count};
    for (uint32_t i = 0; i < type->rank; i++)
        apart.dims[apart.rank++] = type->dims[i];
    return apart;
}

/* Splits an op as `like` is split, but for the ranks of the group, which split parts. */
static void split_like(parting *p, sc_op_id made, sc_op_id like, const part_group *group)
{
    sc_factors factors;
    sc_assignment assignment = {0};
    bool is_product = sc_op_attr(sc_op_at(p->m, made), SC_ATTR_parts) != NULL;
    sc_op_factors(p->m, sc_op_at(p->m, made), &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        sc_dim dim = factors.list[f].dim;
        sc_sub_axis_list list = split_of(p->m, like, dim);
        bool is_group = dim == group->parts || (is_product && dim == group->experts);
        assignment.split[f] = is_group ? group->over : without(&list, group);
    }
    sc_op_drop_attr(p->m, made, SC_ATTR_split);
    sc_assignment_store(p->m, made, &factors, &assignment);
}

/* What ops are like that an emitter makes: split as the op, placed as its result, but for the ranks
 * of the group. */
typedef struct likeness {
    parting *p;
    sc_op_id op;
    part_group group;
    sc_type_info type;
} likeness;

static void be_like(sc_emitter *e, sc_op_id made)
{
    const likeness *like = e->user;
    sc_module *m = e->m;
    sc_value value = sc_result(m, made, 0);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, like->op), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, made, *phase);
    split_like(like->p, made, like->op, &like->group);
    sc_type_info placed = *sc_type_of(m, value);
    place(m, &like->group, &like->type, &placed);
    m->values.data[value].type = sc_type_intern(m, &placed);
}

static likeness likeness_of(parting *p, sc_op_id id, uint32_t group)
{
    const sc_type_info *type = sc_type_of(p->m, sc_result(p->m, id, 0));
    return (likeness){.p = p, .op = id, .group = *numbered(p, group), .type = *type};
}

static sc_emitter emitter(likeness *like)
{
    return (sc_emitter){.m = like->p->m,
                        .func = like->p->func,
                        .before = like->op,
                        .like = like->op,
                        .made = be_like,
                        .user = like};
}

/* The attributes of the op without its split, and with the parts of a product. */
static uint32_t take_attrs(sc_module *m, const sc_op *op, const part_group *group, sc_attr *attrs)
{
    uint32_t count = 0;
    for (uint32_t a = 0; a < op->attr_count; a++) {
        if (op->attrs[a].key != SC_ATTR_split)
            attrs[count++] = op->attrs[a];
    }
    if (sc_is_routed(op))
        attrs[count++] = sc_attr_dims(m, SC_ATTR_parts, &group->parts, 1);
    return count;
}

/* The number of operands with rows of the group that are apart. */
static uint32_t count_apart(const parting *p, const sc_op *op, uint32_t group)
{
    uint32_t count = 0;
    for (uint32_t o = 0; o < op->operand_count; o++)
        count += is_apart(p, op->operands[o], group);
    return count;
}

/* Emits the op before itself on rows that are apart, or for them. */
static void part(parting *p, sc_op_id id, uint32_t number)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    likeness like = likeness_of(p, id, number);
    sc_emitter e = emitter(&like);
    sc_value operands[SC_MAX_FIXED_OPERANDS], made;
    sc_attr attrs[SC_ATTR_COUNT];
    uint32_t count = take_attrs(m, &op, &like.group, attrs);
    for (uint32_t o = 0; o < op.operand_count; o++) {
        sc_value is = op.operands[o];
        bool is_here = is_apart(p, is, number), is_found = is_lookup(p, is, number);
        operands[o] = is_here ? p->apart[is] : is_found ? p->lookup[is] : is;
        p->uses[is] += is_here || is_found ? 0 : 1;
    }
    bool has_parts = sc_is_routed(&op) || count_apart(p, &op, number) > 0;
    if (sc_op_is_inferred((sc_op_kind)op.kind)) {
        sc_op_id at = sc_make_sized(&e, (sc_op_kind)op.kind, operands, op.operand_count, attrs,
                                    count, like.group.count);
        made = sc_result(m, at, 0);
    } else {
        const sc_type_info type = has_parts ? with_parts(&like.group, &like.type) : like.type;
        made = sc_make_as(&e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count, &type);
    }
    p->group[op.first_result] = number;
    *(has_parts ? &p->apart[op.first_result] : &p->lookup[op.first_result]) = made;
}

/* The group for which an elementwise op is computed: that of a product to come, or of several
 * operands whose rows are apart. */
static uint32_t group_for(const parting *p, const sc_op *op)
{
    uint32_t wanted = p->wanted[op->first_result];
    if (!sc_is_rowwise(op))
        return SC_NONE;
    for (uint32_t o = 0; o < op->operand_count; o++) {
        sc_value is = op->operands[o];
        uint32_t group = p->group[is];
        if (group != SC_NONE && (group == wanted || count_apart(p, op, group) > 1))
            return group;
    }
    return SC_NONE;
}

/* Whether the experts of a row are of the part, by part and row. */
static sc_value own_rows(sc_emitter *e, const part_group *group, const sc_type_info *apart)
{
    sc_value ids = sc_make_wide_ids(e, group->ids);
    sc_value index = sc_make_index(e, apart, group->parts);
    sc_value part = sc_make_cast(e, index, sc_type_of(e->m, ids)->dtype);
    sc_value first = sc_make_scaled(e, part, (double)group->each);
    sc_value end = sc_make_plus(e, first, (double)group->each);
    sc_value from = sc_make2(e, SC_OP_le, first, ids);
    sc_value until = sc_make2(e, SC_OP_gt, end, ids);
    return sc_make2(e, SC_OP_and, from, until);
}

/* The rows of a value that are apart, 0 where they are of other parts; its dims stay in order. */
static sc_value own_part(parting *p, sc_emitter *e, sc_value value)
{
    const likeness *like = e->user;
    sc_value rows = p->apart[value];
    const sc_type_info apart = *sc_type_of(p->m, rows);
    if (sc_is_routed(sc_op_at(p->m, sc_def(p->m, rows)))) /* a product has zeros there */
        return rows;
    sc_value own = own_rows(e, &like->group, &apart);
    sc_value zero = sc_make_constant(e, 0, apart.dtype);
    rows = sc_make_where(e, own, rows, zero);
    return sc_make_fit(e, rows, &apart);
}

/* Makes the derivative of a lookup add rows that are apart. */
static void add_apart(parting *p, sc_op_id id, uint32_t number)
{
    sc_module *m = p->m;
    sc_value value = sc_op_at(m, id)->operands[ROWS];
    likeness like = likeness_of(p, sc_def(m, value), number);
    sc_emitter e = emitter(&like);
    e.before = e.like = id;
    sc_value rows = own_part(p, &e, value);
    p->uses[value]--;
    sc_op_at(m, id)->operands[ROWS] = rows;
    split_like(p, id, id, &like.group);
}

/* Makes a product read rows that are apart. Its result is what it was. */
static void read_apart(parting *p, sc_op_id id, uint32_t number)
{
    sc_module *m = p->m;
    for (uint32_t o = ROWS; o <= OTHERS; o++) {
        sc_value rows = sc_op_at(m, id)->operands[o];
        if (!is_apart(p, rows, number))
            continue;
        p->uses[rows]--;
        sc_op_at(m, id)->operands[o] = p->apart[rows];
    }
    sc_op_set_attr(m, id, sc_attr_dims(m, SC_ATTR_parts, &p->groups.data[number].parts, 1));
}

static void visit(parting *p, sc_op_id id)
{
    const sc_op *op = sc_op_at(p->m, id);
    if (op->result_count != 1)
        return;
    uint32_t group = group_of(p, id), wanted = p->wanted[op->first_result];
    bool has_room = sc_type_of(p->m, op->first_result)->rank < SC_MAX_RANK;
    if (group != SC_NONE) {
        if (!sc_is_weight_gradient(p->m, op) && wanted == group && has_room)
            part(p, id, group);
        else if (count_apart(p, op, group) > 0)
            read_apart(p, id, group);
        return;
    }
    if (adds_by_ids(op)) {
        group = p->group[op->operands[ROWS]];
        if (group != SC_NONE && is_apart(p, op->operands[ROWS], group) &&
            named(p, op->operands[1]) == p->groups.data[group].ids)
            add_apart(p, id, group);
        return;
    }
    group = looks_up(p, op, wanted) ? wanted : group_for(p, op);
    if (group != SC_NONE && has_room)
        part(p, id, group);
}

/* ---- the values that were ---- */
/* Makes an op that others read as well the sum over the parts of the rows that they have. */
static void add_parts(parting *p, sc_op_id id)
{
    sc_module *m = p->m;
    sc_value value = sc_result(m, id, 0);
    likeness like = likeness_of(p, id, p->group[value]);
    sc_emitter e = emitter(&like);
    sc_value rows = own_part(p, &e, value);
    const sc_attr dims = sc_attr_dims(m, SC_ATTR_dims, &like.group.parts, 1);
    sc_op_id made = sc_make_op(&e, SC_OP_sum, &rows, 1, &dims, 1);
    const sc_op sum = *sc_op_at(m, made);
    sc_op *op = sc_op_at(m, id);
    op->kind = sum.kind;
    op->operands = sum.operands;
    op->operand_count = sum.operand_count;
    op->attrs = sum.attrs;
    op->attr_count = sum.attr_count;
    sc_op_unlink(m, made);
}

/* Backwards: removes ops whose results are now read apart only. */
static void settle(parting *p)
{
    sc_for_each_op_reverse (p->m, p->func, id) {
        const sc_op *op = sc_op_at(p->m, id);
        sc_value value = op->first_result;
        if (op->result_count != 1 || value >= p->count)
            continue;
        bool is_read = p->uses[value] > 0, is_apart = p->apart[value] != SC_NONE;
        if (is_read ? !is_apart : !is_apart && p->lookup[value] == SC_NONE)
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++)
            p->uses[op->operands[o]]--;
        if (is_read)
            add_parts(p, id);
        else
            sc_op_unlink(p->m, id);
    }
}

bool sc_run_part_rows(sc_module *m, sc_pass_env *env)
{
    parting p = {.m = m, .step = env->step, .uses = sc_count_uses(m)};
    p.by_ids.arena = &m->context->arena;
    p.wanted = sc_new_value_map(m, &p.count);
    p.group = sc_new_value_map(m, &p.count);
    p.apart = sc_new_value_map(m, &p.count);
    p.lookup = sc_new_value_map(m, &p.count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        p.func = f;
        find_wanted(&p);
        sc_for_each_op (m, p.func, id)
            visit(&p, id);
        settle(&p);
    }
    return true;
}
