/* ring-dots: overlaps the collectives of tensor parallelism with the products next to them, where a
 * line `form PATHS: ring over AXES;` asks for it. Two rewrites, over a group of n members.
 *
 * The input of products is gathered along S, by members that each hold a piece P of it:
 *
 *   %x = all_gather %own along S                  %p0 = piece %own
 *   %y = dot %x, %w                        ->     %p1 = rotate %p0 {shift = 1}
 *   %z = dot %x, %v                               %y0 = dot %p0, %w
 *                                                 %z0 = dot %p0, %v
 *                                                 %p2 = rotate %p1 {shift = 1} ..
 *                                                 %y = join_pieces %y0, %y1, ..
 *
 * A piece is sent on before the products of it, which hide its way. What reads %x otherwise (the
 * products that contract S, of gradients of weights) reads join_pieces of the pieces, so their sums
 * stay in one order.
 *
 * The result of products is reduced and scattered along S:
 *
 *   %y = dot %h, %w : {sum:tp}                    %h1 = take_piece %h {shift = 1}
 *   %z = reduce_scatter %y along S         ->     %y1 = dot %h1, %w   %r1 = rotate %y1 {shift = 1}
 *                                                 ..
 *                                                 %y0 = dot (take_piece %h {shift = 0}), %w
 *                                                 %z = piece (add_pieces %y0, %r1, ..)
 *
 * Each member sends each other one its term of that one's piece, and the rank's own piece comes
 * last, behind the last rotation. A sum that grows on its way round would need a buffer less, but
 * would be added up in another order for each piece: the terms travel as they are, with as many
 * bytes, and add_pieces adds them in the order of members, as reduce_scatter does. So both rewrites
 * keep all bits of products whose elements do not depend on how many rows there are.
 *
 * Elementwise ops between the products and the reduce_scatter (sums of several products) are done
 * piece by piece too. Requires RESHARDS_EXPLICIT. Every rewrite removes a collective that was there
 * before the pass, and adds none of the kind. */
#include "passes/pass.h"
#include "passes/uses.h"

#include <string.h>

enum {
    MAX_MEMBERS = 32, /* a kernel reads as many pieces */
    MAX_DEPTH = 12    /* of ops that are looked through */
};

typedef struct ringing {
    sc_module *m;
    const sc_pass_env *env;
    sc_readers readers; /* of values, before the pass */
    uint32_t *position; /* per op, before the pass; of one that moves: where it is now */
    uint32_t op_count, value_count;
    sc_value *map;
    bool *gone; /* per op: replaced */
} ringing;

/* One rewrite. */
typedef struct ring {
    ringing *all;
    sc_op_id at; /* the collective; ops are inserted before it */
    sc_sub_axis_list over;
    int64_t members;
    sc_dim whole, part; /* S, P */
    int64_t part_size;
    uint32_t rule; /* the form line; SC_NONE: unknown */
} ring;

/* ---- what the lines ask for ---- */
static sc_sub_axis_list group_of(const sc_op *op)
{
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    sc_sub_axis_list list = {0};
    if (over == NULL)
        return list;
    list.count = (uint8_t)over->count;
    memcpy(list.sub_axes, over->sub_axes, over->count);
    return list;
}

/* True if the op is a product with a mark of all these sub-axes. */
static bool is_marked(const ringing *all, sc_op_id id, const sc_sub_axis_list *over)
{
    const sc_op *op = sc_op_at(all->m, id);
    const sc_attr *mark = sc_op_attr(op, SC_ATTR_ring);
    bool found = sc_ops[op->kind].bound == SC_BOUND_contracted && mark != NULL;
    for (uint32_t a = 0; a < over->count && found; a++)
        found = memchr(mark->sub_axes, over->sub_axes[a], mark->count) != NULL;
    return found;
}

/* The index in the op of its only operand with the dim, which the result has too; -1: none. */
static int operand_with(const sc_module *m, const sc_op *op, sc_dim dim)
{
    int found = -1;
    uint32_t count = 0;
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (sc_type_find_dim(sc_type_of(m, op->operands[o]), dim) >= 0) {
            found = (int)o;
            count++;
        }
    }
    return count == 1 && sc_type_find_dim(sc_type_of(m, op->first_result), dim) >= 0 ? found : -1;
}

/* ---- a ring ---- */
/* Adjacent sub-axes of one axis are one digit of a rank. */
static bool is_one_digit(const sc_module *m, const sc_sub_axis_list *over)
{
    for (uint32_t a = 1; a < over->count; a++) {
        if (over->sub_axes[a] != over->sub_axes[a - 1] + 1 ||
            m->mesh.sub_axes[over->sub_axes[a]].axis != m->mesh.sub_axes[over->sub_axes[0]].axis)
            return false;
    }
    return over->count > 0;
}

/* Finds the group, S and P of a collective of one operand; false if it can be no ring. */
static bool begin(ringing *all, sc_op_id at, ring *out)
{
    sc_module *m = all->m;
    const sc_op *op = sc_op_at(m, at);
    const sc_attr *gather = sc_op_attr(op, SC_ATTR_gather);
    *out = (ring){.all = all, .at = at, .over = group_of(op), .rule = SC_NONE};
    if (op->operand_count != 1 || gather == NULL || !is_one_digit(m, &out->over))
        return false;
    bool gathers = sc_op_attr(op, SC_ATTR_reduce) == NULL;
    sc_value own = gathers ? op->operands[0] : op->first_result;
    const sc_type_info *type = sc_type_of(m, own);
    int i = sc_type_find_dim(type, gather->dims[0]);
    out->members = (int64_t)sc_sub_axis_list_size(&m->mesh, &out->over);
    out->whole = gather->dims[0];
    if (out->members < 2 || out->members > MAX_MEMBERS || i < 0 || type->dims[i].group != SC_NONE ||
        sc_shard_order_of(m, out->whole, &out->over).members > 1)
        return false;
    out->part_size = sc_type_local_size(m, type, (uint32_t)i);
    return true;
}

/* The line that asks for the ring; SC_NONE: unknown. */
static uint32_t line_of(const ring *r, sc_op_id marked)
{
    const sc_module *m = r->all->m;
    const sc_attr *mark = sc_op_attr(sc_op_at(m, marked), SC_ATTR_ring),
                  *lines = sc_op_attr(sc_op_at(m, marked), SC_ATTR_lines);
    const uint8_t *at = memchr(mark->sub_axes, r->over.sub_axes[0], mark->count);
    if (lines == NULL || lines->count != mark->count)
        return SC_NONE;
    int64_t line = lines->ints[at - mark->sub_axes];
    return line >= 0 && line < (int64_t)m->rules.count ? (uint32_t)line : SC_NONE;
}

/* Once something is to be rewritten: makes P, named after S and the number of its pieces. */
static void name_part(ring *r, sc_op_id marked)
{
    sc_module *m = r->all->m;
    r->rule = line_of(r, marked);
    sc_sym name =
        sc_intern_printf(&m->context->names, "%s.piece%lld",
                         sc_text(m->context, m->dims.data[r->whole].name), (long long)r->members);
    sc_dim known = sc_module_find_dim(m, name);
    r->part = known != SC_NONE ? known : sc_module_add_dim(m, name);
    if (r->rule != SC_NONE && r->all->env->placing != NULL)
        r->all->env->placing->acted[r->rule] = true;
}

/* The type with P for S. */
static sc_type part_type(const ring *r, sc_type of)
{
    sc_module *m = r->all->m;
    sc_type_info type = m->types.data[of];
    int i = sc_type_find_dim(&type, r->whole);
    const sc_sub_axis_list none = {0};
    sc_placement_set_dim(&type.placement, (uint32_t)i, &none);
    type.dims[i] = (sc_type_dim){r->part, SC_NONE, r->part_size};
    return sc_type_intern(m, &type);
}

/* ---- ops of a ring ---- */
typedef struct place {
    sc_op_id before, like;
} place;

/* Emits an op with one result. `brackets`: S and P are named in its brackets. */
static sc_value emit(const ring *r, const place *p, sc_op_kind kind, const sc_value *operands,
                     uint32_t count, sc_dim from, sc_dim to, int64_t shift, sc_type type)
{
    sc_module *m = r->all->m;
    const sc_op like = *sc_op_at(m, p->like);
    const sc_attr *phase = sc_op_attr(&like, SC_ATTR_phase);
    sc_attr attrs[5];
    uint32_t attr_count = 0;
    attrs[attr_count++] = sc_attr_sub_axes(m, SC_ATTR_over, r->over.sub_axes, r->over.count);
    if (from != SC_NONE) {
        attrs[attr_count++] = sc_attr_dims(m, SC_ATTR_dims, &from, 1);
        attrs[attr_count++] = sc_attr_dims(m, SC_ATTR_to, &to, 1);
    }
    if (shift > 0)
        attrs[attr_count++] = sc_attr_int(SC_ATTR_shift, shift);
    if (phase != NULL)
        attrs[attr_count++] = *phase;
    return sc_result(m,
                     sc_op_new(m, like.func, p->before, kind, operands, count, attrs, attr_count,
                               &type, 1, p->like),
                     0);
}

/* A rotation of a member's piece, with the reason of the collective that it replaces a part of. */
static sc_value rotate(const ring *r, sc_value value, int64_t shift, const char *what)
{
    sc_module *m = r->all->m;
    static const sc_attr_key kept[] = {SC_ATTR_phase, SC_ATTR_moves, SC_ATTR_consumer};
    const sc_op like = *sc_op_at(m, r->at);
    sc_attr attrs[sizeof kept / sizeof *kept + 4];
    uint32_t count = 0;
    attrs[count++] = sc_attr_sub_axes(m, SC_ATTR_over, r->over.sub_axes, r->over.count);
    attrs[count++] = sc_attr_int(SC_ATTR_shift, shift);
    for (uint32_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        if (sc_op_attr(&like, kept[i]) != NULL)
            attrs[count++] = *sc_op_attr(&like, kept[i]);
    }
    const char *line = r->rule == SC_NONE ? "" : sc_text(m->context, m->rules.data[r->rule].text);
    if (r->rule != SC_NONE)
        attrs[count++] = sc_attr_int(SC_ATTR_rule, r->rule);
    attrs[count++] =
        sc_attr_text(SC_ATTR_why, sc_intern_printf(&m->context->names, "%s%s%s", line,
                                                   r->rule == SC_NONE ? "" : "; ", what));
    const sc_type type = m->values.data[value].type;
    sc_op_id op =
        sc_op_new(m, like.func, r->at, SC_OP_rotate, &value, 1, attrs, count, &type, 1, r->at);
    return sc_result(m, op, 0);
}

/* The op again, of pieces instead of what has S. */
static sc_value again(const ring *r, sc_op_id before, sc_op_id id, const sc_value *operands)
{
    sc_module *m = r->all->m;
    const sc_op op = *sc_op_at(m, id);
    sc_type type = part_type(r, m->values.data[op.first_result].type);
    sc_op_id made = sc_op_new(m, op.func, before, (sc_op_kind)op.kind, operands, op.operand_count,
                              op.attrs, op.attr_count, &type, 1, id);
    if (sc_ops[op.kind].bound == SC_BOUND_contracted) {
        sc_op_set_attr(m, made, sc_attr_sub_axes(m, SC_ATTR_ring, r->over.sub_axes, r->over.count));
        sc_op_set_attr(m, made, sc_attr_dims(m, SC_ATTR_piece, &r->part, 1));
    }
    return sc_result(m, made, 0);
}

static void replace(ringing *all, sc_op_id op, sc_value by)
{
    sc_module *m = all->m;
    sc_value old = sc_result(m, op, 0);
    if (m->values.data[by].path == 0)
        m->values.data[by].path = m->values.data[old].path;
    all->map[old] = by;
    all->gone[op] = true;
    sc_op_unlink(m, op);
}

/* ---- gathered inputs ---- */
typedef struct product {
    sc_op_id op;
    uint32_t operand; /* which is gathered */
    bool is_ready;    /* the others are there when the ring begins */
    sc_value *pieces;
} product;

typedef SC_VEC(product) product_list;

/* Makes a value available at the op, if what computes it only reads state or views it; returns
 * whether it is. */
static bool bring_up(ringing *all, sc_value value, sc_op_id before, uint32_t depth)
{
    sc_module *m = all->m;
    sc_op_id def = sc_def(m, value);
    if (def >= all->op_count || all->gone[def])
        return false;
    if (all->position[def] <= all->position[before])
        return true;
    const sc_op *op = sc_op_at(m, def);
    bool is_state = sc_op_has(op, SC_STATE_READ);
    if (!is_state && (depth == MAX_DEPTH || op->operand_count != 1 || !sc_op_is_operand(op) ||
                      !bring_up(all, op->operands[0], before, depth + 1)))
        return false;
    sc_op_move(m, def, before);
    all->position[def] = all->position[before];
    return true;
}

static product_list find_products(const ring *r, sc_value gathered)
{
    ringing *all = r->all;
    sc_module *m = all->m;
    product_list list = {0};
    for (uint32_t i = all->readers.first[gathered]; i < all->readers.first[gathered + 1]; i++) {
        sc_op_id id = all->readers.list[i];
        const sc_op *op = sc_op_at(m, id);
        if (all->gone[id] || !is_marked(all, id, &r->over))
            continue;
        int operand = operand_with(m, op, r->whole);
        if (operand < 0 || op->operands[operand] != gathered)
            continue;
        product one = {.op = id, .operand = (uint32_t)operand, .is_ready = true};
        one.pieces = sc_arena_array(&m->context->arena, (size_t)r->members, sizeof *one.pieces);
        for (uint32_t o = 0; o < op->operand_count; o++)
            one.is_ready = one.is_ready && (o == one.operand ||
                                            bring_up(all, sc_op_at(m, id)->operands[o], r->at, 0));
        *sc_vec_push(&m->context->arena, &list) = one;
    }
    return list;
}

static void multiply(const ring *r, const product *one, sc_op_id before, int64_t k, sc_value piece)
{
    const sc_op *op = sc_op_at(r->all->m, one->op);
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    memcpy(operands, op->operands, op->operand_count * sizeof *operands);
    operands[one->operand] = piece;
    one->pieces[k] = again(r, before, one->op, operands);
}

/* True if something but the products reads the gathered value. */
static bool is_read_whole(const ring *r, sc_value gathered, const product_list *products)
{
    const sc_readers *readers = &r->all->readers;
    return readers->first[gathered + 1] - readers->first[gathered] > products->count;
}

static void ring_gather(ringing *all, sc_op_id at)
{
    sc_module *m = all->m;
    ring r;
    if (!begin(all, at, &r))
        return;
    sc_value gathered = sc_result(m, at, 0), own = m->ops.data[at].operands[0];
    product_list products = find_products(&r, gathered);
    if (products.count == 0)
        return;
    name_part(&r, products.data[0].op);
    const place here = {at, at};
    const uint32_t count = (uint32_t)r.members;
    sc_value *parts = sc_arena_array(&m->context->arena, count, sizeof *parts);
    parts[0] = emit(&r, &here, SC_OP_piece, &own, 1, r.whole, r.part, 0,
                    part_type(&r, m->values.data[own].type));
    for (uint32_t k = 0; k < count; k++) {
        if (k + 1 < count)
            parts[k + 1] =
                rotate(&r, parts[k], 1, "the next piece of a product's input goes round");
        for (uint32_t p = 0; p < products.count; p++) {
            if (products.data[p].is_ready)
                multiply(&r, &products.data[p], at, k, parts[k]);
        }
    }
    for (uint32_t p = 0; p < products.count; p++) {
        const product *one = &products.data[p];
        for (uint32_t k = 0; k < count; k++) {
            if (!one->is_ready)
                multiply(&r, one, one->op, k, parts[k]);
        }
        const place there = {one->op, one->op};
        sc_value joined = emit(&r, &there, SC_OP_join_pieces, one->pieces, count, r.part, r.whole,
                               0, m->values.data[sc_result(m, one->op, 0)].type);
        replace(all, one->op, joined);
    }
    if (is_read_whole(&r, gathered, &products)) {
        sc_value joined = emit(&r, &here, SC_OP_join_pieces, parts, count, r.part, r.whole, 0,
                               m->values.data[gathered].type);
        replace(all, at, joined);
    } else {
        all->gone[at] = true;
        sc_op_unlink(m, at);
    }
}

/* ---- scattered results ---- */
static bool is_read_once(const ringing *all, sc_value value)
{
    return value < all->value_count &&
           all->readers.first[value + 1] - all->readers.first[value] == 1;
}

/* True if an element of the result depends on elements of operands with the same index along S, and
 * not on that index. */
static bool is_by_pieces(const ringing *all, const sc_op *op, sc_dim dim)
{
    sc_factors factors;
    if (!sc_op_has(op, SC_ELEMENTWISE) || op->result_count != 1 || op->operand_count == 0)
        return false;
    sc_op_factors(all->m, op, &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        if (factors.list[f].dim == dim && (factors.list[f].offset || factors.list[f].result[0] < 0))
            return false;
    }
    return true;
}

/* The op that makes the value, if it can make it piece by piece; SC_NONE if not. */
static sc_op_id maker(const ring *r, sc_value value)
{
    const ringing *all = r->all;
    sc_op_id def = sc_def(all->m, value);
    if (def >= all->op_count || all->gone[def] || !is_read_once(all, value))
        return SC_NONE;
    const sc_op *op = sc_op_at(all->m, def);
    bool is_product = is_marked(all, def, &r->over) && operand_with(all->m, op, r->whole) >= 0;
    return is_product || is_by_pieces(all, op, r->whole) ? def : SC_NONE;
}

/* Returns a product among the ops that make the value piece by piece; SC_NONE: there is none. */
static sc_op_id find_product(const ring *r, sc_value value, uint32_t depth)
{
    sc_op_id def = maker(r, value);
    if (def == SC_NONE || is_marked(r->all, def, &r->over))
        return def;
    if (depth == MAX_DEPTH)
        return SC_NONE;
    sc_op_id found = SC_NONE;
    const sc_op *op = sc_op_at(r->all->m, def);
    for (uint32_t o = 0; o < op->operand_count && found == SC_NONE; o++) {
        if (sc_type_find_dim(sc_type_of(r->all->m, op->operands[o]), r->whole) >= 0)
            found = find_product(r, op->operands[o], depth + 1);
    }
    return found;
}

/* The piece of the member `shift` after the rank's. */
static sc_value make_piece(const ring *r, sc_value value, int64_t shift, uint32_t depth)
{
    sc_module *m = r->all->m;
    const place here = {r->at, r->at};
    sc_op_id def = maker(r, value);
    if (def == SC_NONE || find_product(r, value, depth) == SC_NONE)
        return emit(r, &here, SC_OP_take_piece, &value, 1, r->whole, r->part, shift,
                    part_type(r, m->values.data[value].type));
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    const bool is_product = is_marked(r->all, def, &r->over);
    const uint32_t count = sc_op_at(m, def)->operand_count;
    for (uint32_t o = 0; o < count; o++) {
        operands[o] = sc_op_at(m, def)->operands[o];
        if (sc_type_find_dim(sc_type_of(m, operands[o]), r->whole) < 0)
            continue;
        operands[o] = is_product
                          ? emit(r, &here, SC_OP_take_piece, &operands[o], 1, r->whole, r->part,
                                 shift, part_type(r, m->values.data[operands[o]].type))
                          : make_piece(r, operands[o], shift, depth + 1);
    }
    return again(r, r->at, def, operands);
}

/* Removes the ops that pieces have replaced. */
static void forget(const ring *r, sc_value value, uint32_t depth)
{
    sc_op_id def = maker(r, value);
    if (def == SC_NONE || find_product(r, value, depth) == SC_NONE)
        return;
    const sc_op *op = sc_op_at(r->all->m, def);
    const bool is_product = is_marked(r->all, def, &r->over);
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (!is_product && sc_type_find_dim(sc_type_of(r->all->m, op->operands[o]), r->whole) >= 0)
            forget(r, op->operands[o], depth + 1);
    }
    r->all->gone[def] = true;
    sc_op_unlink(r->all->m, def);
}

static void ring_scatter(ringing *all, sc_op_id at)
{
    sc_module *m = all->m;
    ring r;
    if (!begin(all, at, &r))
        return;
    sc_value value = m->ops.data[at].operands[0];
    sc_op_id marked = find_product(&r, value, 0);
    if (marked == SC_NONE)
        return;
    name_part(&r, marked);
    const place here = {at, at};
    const uint32_t count = (uint32_t)r.members;
    sc_value *terms = sc_arena_array(&m->context->arena, count, sizeof *terms);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = (i + 1) % count; /* the rank's own piece last */
        terms[k] = make_piece(&r, value, k, 0);
        if (k > 0)
            terms[k] = rotate(&r, terms[k], k, "a term of a product's piece goes to its member");
    }
    const sc_type scattered = m->values.data[sc_result(m, at, 0)].type;
    sc_value sum = emit(&r, &here, SC_OP_add_pieces, terms, count, SC_NONE, SC_NONE, 0,
                        part_type(&r, scattered));
    sum = emit(&r, &here, SC_OP_piece, &sum, 1, r.part, r.whole, 0, scattered);
    forget(&r, value, 0);
    replace(all, at, sum);
}

/* ---- the pass ---- */
static void drop_marks(sc_module *m, sc_func_id f)
{
    sc_for_each_op (m, f, id) {
        if (sc_ops[sc_op_at(m, id)->kind].bound != SC_BOUND_contracted)
            continue;
        sc_op_drop_attr(m, id, SC_ATTR_lines);
        if (sc_op_attr(sc_op_at(m, id), SC_ATTR_piece) == NULL)
            sc_op_drop_attr(m, id, SC_ATTR_ring);
    }
}

bool sc_run_ring_dots(sc_module *m, sc_pass_env *env)
{
    ringing all = {.m = m, .env = env, .op_count = m->ops.count};
    all.readers = sc_find_readers(m);
    all.position = sc_number_ops(m);
    all.map = sc_new_value_map(m, &all.value_count);
    all.gone = sc_arena_array(&m->context->arena, m->ops.count, sizeof *all.gone);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        SC_VEC(sc_op_id) list = {0}; /* a rewrite takes ops away behind the collective */
        sc_for_each_op (m, f, op) {
            if (m->ops.data[op].kind == SC_OP_all_gather ||
                m->ops.data[op].kind == SC_OP_reduce_scatter)
                *sc_vec_push(&m->context->arena, &list) = op;
        }
        for (uint32_t i = 0; i < list.count; i++) {
            if (m->ops.data[list.data[i]].kind == SC_OP_all_gather)
                ring_gather(&all, list.data[i]);
            else
                ring_scatter(&all, list.data[i]);
        }
        sc_func_replace_uses(m, f, all.map, all.value_count);
        drop_marks(m, f);
    }
    return true;
}
