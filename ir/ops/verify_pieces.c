/* Two rules. Types: P is as large as a member's piece of S, and nothing splits it. Origins: where
 * pieces are joined, operand k is the piece that member i - k has; where they are added, it is the
 * term that member i - k has of the piece of member i. So a piece that is joined or added twice, or
 * that is its neighbour's, is an error of the program, not of its numbers. */
#include "ir/ops/verify_pieces.h"

#include <string.h>

#include "ir/ops/ops.h"

typedef struct piece_check {
    sc_pieces *pieces;
    const sc_module *m;
    sc_op_id id;
    const sc_op *op;
    sc_sub_axis_list over;
    int64_t members;
    sc_piece_report *report;
    void *user;
} piece_check;

#define wrong(c, ...)                                                                              \
    (c)->report((c)->user, (c)->id, sc_arena_printf(&(c)->m->context->arena, __VA_ARGS__))

sc_pieces sc_pieces_of(sc_module *m)
{
    return (sc_pieces){
        m, sc_arena_array(&m->context->arena, m->values.count, sizeof(sc_piece_origin))};
}

/* ---- types ---- */
static bool ends_with(const sc_sub_axis_list *list, const sc_sub_axis_list *over)
{
    return list->count >= over->count &&
           memcmp(list->sub_axes + list->count - over->count, over->sub_axes, over->count) == 0;
}

/* The local size of dim i when the members split it, which they do already if `split`. */
static int64_t size_of_piece(const piece_check *c, const sc_type_info *type, uint32_t i, bool split)
{
    sc_type_info cut = *type;
    for (uint32_t a = 0; a < c->over.count; a++) {
        if (!split)
            sc_placement_append(&cut.placement, i, c->over.sub_axes[a]);
    }
    return sc_type_local_size(c->m, &cut, i);
}

/* Checks that S and P, dims of two types, are what they should be. `split`: S is split over the
 * members. */
static void check_pair(const piece_check *c, const sc_type_info *whole, sc_dim s,
                       const sc_type_info *part, sc_dim p, bool split)
{
    int at = sc_type_find_dim(whole, s), to = sc_type_find_dim(part, p);
    if (at < 0 || at != to || whole->rank != part->rank || whole->dtype != part->dtype) {
        wrong(c, "it changes more than one dim to another");
        return;
    }
    for (uint32_t i = 0; i < whole->rank; i++) {
        sc_sub_axis_list a = sc_placement_dim(&whole->placement, i),
                         b = sc_placement_dim(&part->placement, i);
        if (i == (uint32_t)at) {
            if (split && !ends_with(&a, &c->over))
                wrong(c, "its members do not have the shards of a dim");
            else if (b.count > 0 || part->dims[i].size != size_of_piece(c, whole, i, split))
                wrong(c, "its pieces are not of the size of a member's");
        } else if (whole->dims[i].dim != part->dims[i].dim ||
                   whole->dims[i].size != part->dims[i].size || !sc_sub_axis_list_equal(&a, &b)) {
            wrong(c, "it changes more than one dim to another");
        }
    }
}

/* The dims of a piece are those of the op's brackets, in either order. */
static void check_types(const piece_check *c, bool split, bool is_part_first)
{
    const sc_attr *dims = sc_op_attr(c->op, SC_ATTR_dims), *to = sc_op_attr(c->op, SC_ATTR_to);
    const sc_type_info *result = sc_type_of(c->m, c->op->first_result);
    if (dims == NULL || to == NULL || dims->count != 1 || to->count != 1) {
        wrong(c, "it names no dim of pieces");
        return;
    }
    for (uint32_t i = 0; i < c->op->operand_count; i++) {
        const sc_type_info *operand = sc_type_of(c->m, c->op->operands[i]);
        if (is_part_first)
            check_pair(c, result, to->dims[0], operand, dims->dims[0], split);
        else
            check_pair(c, operand, dims->dims[0], result, to->dims[0], split);
    }
}

/* ---- origins ---- */
static bool is_multiple(const piece_check *c, int64_t number)
{
    return number % c->members == 0;
}

static sc_piece_origin *origin_of(const piece_check *c, sc_value value)
{
    return &c->pieces->origin[value];
}

/* Operand k comes from member i - k, and has piece number i - k + `piece` of k. */
static void check_origins(const piece_check *c, const char *what, bool adds)
{
    if (c->op->operand_count != c->members) {
        wrong(c, "it has %u operands of %lld members", c->op->operand_count, (long long)c->members);
        return;
    }
    for (uint32_t k = 0; k < c->op->operand_count; k++) {
        const sc_piece_origin *origin = origin_of(c, c->op->operands[k]);
        if (!is_multiple(c, origin->of - k))
            wrong(c, "operand %u is the %s of the member %lld before, not %u before", k + 1, what,
                  (long long)origin->of, k);
        else if (!is_multiple(c, origin->piece - (adds ? k : 0)))
            wrong(c, "operand %u is the %s of another member", k + 1, adds ? "term" : "piece");
    }
}

/* Of products, elementwise ops, rotations and parts of reshards: what one of the operands is. */
static sc_piece_origin passed_on(const sc_pieces *pieces, const sc_op *op)
{
    sc_piece_origin origin = {0};
    if (!sc_op_has(op, SC_ELEMENTWISE | SC_VIEW | SC_COLLECTIVE | SC_RESHARD) &&
        sc_ops[op->kind].bound != SC_BOUND_contracted)
        return origin;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_piece_origin one = pieces->origin[op->operands[i]];
        bool is_piece = origin.is_piece || one.is_piece;
        if (one.of != 0 || one.piece != 0)
            origin = one;
        origin.is_piece = is_piece;
    }
    return origin;
}

static bool find_members(piece_check *c)
{
    const sc_attr *over = sc_op_attr(c->op, SC_ATTR_over);
    if (over == NULL || over->count == 0)
        return false;
    c->over.count = (uint8_t)over->count;
    memcpy(c->over.sub_axes, over->sub_axes, over->count);
    c->members = (int64_t)sc_sub_axis_list_size(&c->m->mesh, &c->over);
    return true;
}

/* ---- ops ---- */
/* Checks an op of pieces; the origin of its result is that of its operands so far. */
typedef void check_op(const piece_check *c, sc_piece_origin *origin);

static void check_piece(const piece_check *c, sc_piece_origin *origin)
{
    const sc_attr *dims = sc_op_attr(c->op, SC_ATTR_dims);
    const sc_type_info *operand = sc_type_of(c->m, c->op->operands[0]);
    int at = dims == NULL || dims->count != 1 ? -1 : sc_type_find_dim(operand, dims->dims[0]);
    bool is_part = at < 0 || sc_placement_dim(&operand->placement, (uint32_t)at).count == 0;
    check_types(c, true, is_part);
    if (is_part && (!is_multiple(c, origin->of) || !is_multiple(c, origin->piece)))
        wrong(c, "it is the piece of another member");
    *origin = (sc_piece_origin){.is_piece = !is_part};
}

static void check_taken(const piece_check *c, sc_piece_origin *origin)
{
    check_types(c, false, false);
    origin->piece += sc_op_int(c->op, SC_ATTR_shift, 0);
    origin->is_piece = true;
}

static void check_joined(const piece_check *c, sc_piece_origin *origin)
{
    check_types(c, false, true);
    check_origins(c, "piece", false);
    *origin = (sc_piece_origin){0};
}

/* The terms are partial sums over the members, or each rank's own. */
static void check_sum(const piece_check *c, sc_piece_origin *origin)
{
    const sc_type_info *result = sc_type_of(c->m, c->op->first_result);
    for (uint32_t i = 0; i < c->op->operand_count; i++) {
        sc_type_info term = *sc_type_of(c->m, c->op->operands[i]);
        sc_sub_axis_set over = 0;
        for (uint32_t a = 0; a < c->over.count; a++)
            over |= (sc_sub_axis_set)1 << c->over.sub_axes[a];
        if ((sc_placement_partial(&term.placement, SC_PARTIAL_SUM) & over) == over)
            term.placement = sc_placement_with(&term.placement, over, SC_ON_NOTHING);
        if (sc_type_intern(c->pieces->m, &term) != sc_type_intern(c->pieces->m, result))
            wrong(c, "operand %u is no term of the result", i + 1);
    }
    check_origins(c, "term", true);
    *origin = (sc_piece_origin){.is_piece = origin->is_piece};
}

static bool is_split_over(const sc_type_info *type, const sc_sub_axis_list *over)
{
    for (uint32_t d = 0; d < type->rank; d++) {
        sc_sub_axis_list list = sc_placement_dim(&type->placement, d);
        if (sc_sub_axis_list_equal(&list, over))
            return true;
    }
    return false;
}

/* Each operand is another one on every member, or it would be copied and not rotated; before values
 * are placed, a reshard may still come between. */
static void check_rotation(const piece_check *c, sc_piece_origin *origin)
{
    const bool is_placed = (c->m->states & SC_PLACED) != 0;
    for (uint32_t i = 0; i < c->op->operand_count; i++) {
        if (is_placed && !is_split_over(sc_type_of(c->m, c->op->operands[i]), &c->over) &&
            !origin_of(c, c->op->operands[i])->is_piece)
            wrong(c, "its members do not have the shards of operand %u", i + 1);
    }
    if (origin->is_piece)
        origin->of += sc_op_int(c->op, SC_ATTR_shift, 0);
}

static check_op *const checks[SC_OP_COUNT] = {[SC_OP_piece] = check_piece,
                                              [SC_OP_take_piece] = check_taken,
                                              [SC_OP_join_pieces] = check_joined,
                                              [SC_OP_add_pieces] = check_sum};

bool sc_verify_pieces(sc_pieces *pieces, sc_op_id id, sc_piece_report *report, void *user)
{
    const sc_op *op = sc_op_at(pieces->m, id);
    piece_check c = {
        .pieces = pieces, .m = pieces->m, .id = id, .op = op, .report = report, .user = user};
    check_op *check = checks[op->kind];
    bool has_members = find_members(&c);
    sc_piece_origin origin = passed_on(pieces, op);
    if (check == NULL) {
        if (sc_op_has(op, SC_COLLECTIVE) && !sc_op_has(op, SC_RESHARD) && has_members &&
            sc_op_attr(op, SC_ATTR_fills) == NULL)
            check_rotation(&c, &origin);
    } else if (!has_members || op->result_count != 1 || op->operand_count == 0) {
        wrong(&c, "it has no members, no operand or several results");
    } else {
        check(&c, &origin);
    }
    for (uint32_t r = 0; r < op->result_count; r++)
        pieces->origin[op->first_result + r] = origin;
    return check != NULL;
}
