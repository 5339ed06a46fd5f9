/* part-rows: between routed products, keeps rows on the ranks that have their experts.
 *
 *   %4 = routed_dot[D -> X] %x, %w1, %ids {split = [X@ep]} : f32[B, Q, F]      (a partial sum)
 *   %5 = silu %4 : f32[B, Q, F]
 *   %6 = routed_dot[F -> X] %5, %w2, %ids {split = [X@ep]} : f32[B, Q, D]
 *     ->
 *   %4 = routed_dot[D -> X] %x, %w1, %ids {parts = [X.by2], split = [X@ep]} : f32[X.by2@ep, B, Q,
 * F] %5 = silu %4 {split = [X.by2@ep]} : f32[X.by2@ep, B, Q, F] %6 = routed_dot[F -> X] %5, %w2,
 * %ids {parts = [X.by2], split = [X@ep]} : f32[B, Q, D]
 *
 * A product whose experts are split over ranks is a partial sum: a rank has the rows of its own
 * experts, and zeros. Another product with the same ids reads only these. So elementwise ops
 * between such products, forward and backward, are computed on the rows of each part of the experts
 * apart, along a dim of which each rank has one element, and nothing is reduced before the last
 * product. A value that other ops read as well is the sum of its parts for them, if a product made
 * it; an elementwise one is computed twice. Reads and keeps `split`; each op is visited twice. */
#include "ir/ops/build.h"
#include "passes/assign.h"
#include "passes/pass.h"
#include "passes/uses.h"

enum { ROWS, OTHERS, IDS };

/* What products must have in common for one to read rows that another keeps apart. */
typedef struct part_group {
    sc_value ids;
    sc_dim experts;
    sc_sub_axis_list over;
    sc_dim parts;  /* SC_NONE until rows are kept apart */
    int64_t count; /* of parts */
} part_group;

typedef struct parting {
    sc_module *m;
    sc_func_id func;
    uint32_t count; /* number of values at the start */
    SC_VEC(part_group) groups;
    /* by value: the group of a product that reads its rows, and of the rows that are apart;
     * SC_NONE: none */
    uint32_t *wanted, *group;
    sc_value *apart; /* by value: the same with its rows apart, or SC_NONE */
    uint32_t *uses;
} parting;

/* ---- groups ---- */
/* True for routed products and their gradients. */
static bool is_routed(const sc_op *op)
{
    return sc_op_takes_ids((sc_op_kind)op->kind, IDS);
}

static bool is_gradient(const sc_module *m, const sc_op *op)
{
    sc_dim experts = sc_op_attr(op, SC_ATTR_to)->dims[0];
    return sc_type_find_dim(sc_type_of(m, op->first_result), experts) >= 0;
}

/* The value behind names. */
static sc_value named(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    while (sc_op_is_operand(op) && sc_op_has(op, SC_VIEW)) {
        value = op->operands[0];
        op = sc_op_at(m, sc_def(m, value));
    }
    return value;
}

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

/* Returns the group of a product, SC_NONE if its experts are not split. */
static uint32_t group_of(parting *p, sc_op_id id)
{
    sc_module *m = p->m;
    const sc_op *op = sc_op_at(m, id);
    if (!is_routed(op))
        return SC_NONE;
    const part_group own = {.ids = named(m, op->operands[IDS]),
                            .experts = sc_op_attr(op, SC_ATTR_to)->dims[0],
                            .over = split_of(m, id, sc_op_attr(op, SC_ATTR_to)->dims[0]),
                            .parts = SC_NONE};
    if (sc_sub_axis_list_size(&m->mesh, &own.over) < 2)
        return SC_NONE;
    for (uint32_t g = p->groups.count; g-- > 0;) {
        const part_group *known = &p->groups.data[g];
        if (known->ids == own.ids && known->experts == own.experts &&
            sc_sub_axis_list_equal(&known->over, &own.over))
            return g;
    }
    *sc_vec_push(&m->context->arena, &p->groups) = own;
    return p->groups.count - 1;
}

/* The dim of the group's parts: one for each number of them, as a dim has one size in a function.
 */
static const part_group *numbered(parting *p, uint32_t group)
{
    sc_module *m = p->m;
    part_group *own = &p->groups.data[group];
    if (own->parts != SC_NONE)
        return own;
    own->count = (int64_t)sc_sub_axis_list_size(&m->mesh, &own->over);
    sc_sym name = sc_intern_printf(&m->context->names, "%s.by%lld",
                                   sc_text(m->context, m->dims.data[own->experts].name),
                                   (long long)own->count);
    sc_dim known = sc_module_find_dim(m, name);
    own->parts = known != SC_NONE ? known : sc_module_add_dim(m, name);
    return own;
}

/* ---- which values ---- */
/* True if the op can be computed on rows that are apart. The elements of random ones depend on all
 * dims. */
static bool is_elementwise(const sc_op *op)
{
    return sc_op_has(op, SC_ELEMENTWISE) && !sc_op_has(op, SC_CONSTANT | SC_RANDOM) &&
           op->result_count == 1;
}

static void want(parting *p, sc_value value, uint32_t group)
{
    if (p->wanted[value] == SC_NONE)
        p->wanted[value] = group;
}

/* Backwards: a product wants its rows apart, an elementwise op what its result is made of. */
static void find_wanted(parting *p)
{
    sc_for_each_op_reverse (p->m, p->func, id) {
        const sc_op *op = sc_op_at(p->m, id);
        uint32_t group = group_of(p, id);
        if (group != SC_NONE) {
            want(p, op->operands[ROWS], group);
            if (is_gradient(p->m, op))
                want(p, op->operands[OTHERS], group);
        } else if (is_elementwise(op) && p->wanted[op->first_result] != SC_NONE) {
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
    sc_op_factors(p->m, sc_op_at(p->m, made), &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        sc_dim dim = factors.list[f].dim;
        sc_sub_axis_list list = split_of(p->m, like, dim);
        assignment.split[f] =
            dim == group->parts || dim == group->experts ? group->over : without(&list, group);
    }
    sc_op_drop_attr(p->m, made, SC_ATTR_split);
    sc_assignment_store(p->m, made, &factors, &assignment);
}

/* Emits the op before itself on rows that are apart. */
static void part(parting *p, sc_op_id id, uint32_t number)
{
    sc_module *m = p->m;
    const sc_op op = *sc_op_at(m, id);
    const part_group group = *numbered(p, number);
    const sc_type_info like = *sc_type_of(m, op.first_result);
    sc_emitter e = {.m = m, .func = p->func, .before = id, .like = id};
    sc_value operands[SC_MAX_FIXED_OPERANDS], made;
    for (uint32_t o = 0; o < op.operand_count; o++) {
        bool has_parts = is_apart(p, op.operands[o], number);
        operands[o] = has_parts ? p->apart[op.operands[o]] : op.operands[o];
        p->uses[op.operands[o]] += has_parts ? 0 : 1;
    }
    sc_attr attrs[SC_ATTR_COUNT];
    uint32_t count = 0;
    for (uint32_t a = 0; a < op.attr_count; a++) {
        if (op.attrs[a].key != SC_ATTR_split)
            attrs[count++] = op.attrs[a];
    }
    if (is_routed(&op))
        attrs[count++] = sc_attr_dims(m, SC_ATTR_parts, &group.parts, 1);
    if (sc_op_is_inferred((sc_op_kind)op.kind)) {
        made = sc_result(m,
                         sc_make_sized(&e, (sc_op_kind)op.kind, operands, op.operand_count, attrs,
                                       count, group.count),
                         0);
    } else {
        const sc_type_info type = with_parts(&group, &like);
        made = sc_make_as(&e, (sc_op_kind)op.kind, operands, op.operand_count, attrs, count, &type);
    }
    split_like(p, sc_def(m, made), id, &group);
    sc_type_info placed = *sc_type_of(m, made);
    place(m, &group, &like, &placed);
    m->values.data[made].type = sc_type_intern(m, &placed);
    p->apart[op.first_result] = made;
    p->group[op.first_result] = number;
}

static bool reads_apart(const parting *p, const sc_op *op, uint32_t group)
{
    bool reads = false;
    for (uint32_t o = 0; o < op->operand_count; o++)
        reads = reads || is_apart(p, op->operands[o], group);
    return reads;
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
    uint32_t group = group_of(p, id);
    if (op->result_count != 1)
        return;
    uint32_t wanted = p->wanted[op->first_result];
    bool has_room = sc_type_of(p->m, op->first_result)->rank < SC_MAX_RANK;
    if (group != SC_NONE && !is_gradient(p->m, op) && wanted == group && has_room)
        part(p, id, group);
    else if (group != SC_NONE && reads_apart(p, op, group))
        read_apart(p, id, group);
    else if (is_elementwise(op) && wanted != SC_NONE && reads_apart(p, op, wanted) && has_room)
        part(p, id, wanted);
}

/* ---- the values that were ---- */
/* Makes the product the sum of the parts of its result, which others read. */
static void add_parts(parting *p, sc_op_id id)
{
    sc_module *m = p->m;
    sc_op *op = sc_op_at(m, id);
    const part_group group = p->groups.data[p->group[op->first_result]];
    const sc_attr *phase = sc_op_attr(op, SC_ATTR_phase);
    sc_attr attrs[] = {sc_attr_dims(m, SC_ATTR_dims, &group.parts, 1),
                       phase == NULL ? (sc_attr){0} : *phase};
    sc_type type = m->values.data[op->first_result].type;
    sc_value apart = p->apart[op->first_result];
    sc_op_id made =
        sc_op_new(m, p->func, id, SC_OP_sum, &apart, 1, attrs, phase == NULL ? 1 : 2, &type, 1, id);
    split_like(p, made, id, &group);
    const sc_op sum = *sc_op_at(m, made);
    op = sc_op_at(m, id);
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
        if (op->result_count != 1 || op->first_result >= p->count ||
            p->apart[op->first_result] == SC_NONE)
            continue;
        bool is_read = p->uses[op->first_result] > 0;
        if (is_read && !is_routed(op))
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
    (void)env;
    parting p = {.m = m, .uses = sc_count_uses(m)};
    p.wanted = sc_new_value_map(m, &p.count);
    p.group = sc_new_value_map(m, &p.count);
    p.apart = sc_new_value_map(m, &p.count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        p.func = f;
        find_wanted(&p);
        sc_for_each_op (m, p.func, id)
            visit(&p, id);
        settle(&p);
    }
    return true;
}
