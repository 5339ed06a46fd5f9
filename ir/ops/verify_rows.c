/* Two rules. Types: a rank is one member of M, slots have the dims and placements of rows but for
 * those of the rows. Origins: what is computed together, and what goes back to its rows, is in the
 * slots of one row_slots: a row among those of another layer is an error of the program, not of its
 * numbers. */
#include "ir/ops/verify_rows.h"

#include "ir/ops/ops.h"

typedef struct row_check {
    sc_sent_rows *rows;
    const sc_module *m;
    sc_op_id id;
    const sc_op *op;
    sc_piece_report *report;
    void *user;
} row_check;

#define wrong(c, ...)                                                                              \
    (c)->report((c)->user, (c)->id, sc_arena_printf(&(c)->m->context->arena, __VA_ARGS__))

sc_sent_rows sc_sent_rows_of(sc_module *m)
{
    sc_sent_rows rows = {m, sc_arena_array(&m->context->arena, m->values.count, sizeof(sc_op_id))};
    for (uint32_t v = 0; v < m->values.count; v++)
        rows.slots[v] = SC_NONE;
    return rows;
}

/* ---- types ---- */
static const sc_type_info *type_of(const row_check *c, sc_value value)
{
    return sc_type_of(c->m, value);
}

/* The sub-axes of these dims in the type. False, with an error, if it lacks one. */
static bool splits_of(const row_check *c, const sc_type_info *type, const sc_dim *dims,
                      uint32_t count, sc_sub_axis_set *out)
{
    *out = 0;
    for (uint32_t d = 0; d < count; d++) {
        int at = sc_type_find_dim(type, dims[d]);
        if (at < 0) {
            wrong(c, "a type lacks dim %s", sc_text(c->m->context, c->m->dims.data[dims[d]].name));
            return false;
        }
        const sc_sub_axis_list list = sc_placement_dim(&type->placement, (uint32_t)at);
        for (uint32_t a = 0; a < list.count; a++)
            *out |= (sc_sub_axis_set)1 << list.sub_axes[a];
    }
    return true;
}

enum { MEMBER, PART, SLOT }; /* the dims of slots */

/* Checks the dims of slots: a member for each rank that splits rows. */
static void check_members(const row_check *c, const sc_type_info *rows, const sc_attr *row_dims,
                          const sc_type_info *slots, const sc_attr *slot_dims)
{
    const sc_dim own[] = {slot_dims->dims[MEMBER], slot_dims->dims[SLOT]};
    sc_sub_axis_set of_rows, of_slots, of_parts;
    if (!splits_of(c, rows, row_dims->dims, row_dims->count, &of_rows) ||
        !splits_of(c, slots, own, 2, &of_slots) ||
        !splits_of(c, slots, &slot_dims->dims[PART], 1, &of_parts))
        return;
    int at = sc_type_find_dim(slots, slot_dims->dims[MEMBER]);
    if (of_rows != of_slots || (of_rows & of_parts) != 0 ||
        sc_type_local_size(c->m, slots, (uint32_t)at) != 1)
        wrong(c, "a rank has the rows of several members, or the slots of others");
}

/* Checks that the types of rows and of slots are the same but for these dims. Rows may have the dim
 * of parts, too; the sum over parts that ranks have is pending over these. Sums are rounded to the
 * dtype of rows. */
static void check_others(const row_check *c, const sc_type_info *rows, const sc_attr *row_dims,
                         const sc_type_info *slots, const sc_attr *slot_dims, bool adds)
{
    bool is_apart = sc_type_find_dim(rows, slot_dims->dims[PART]) >= 0,
         is_rounded = adds && sc_dtype_is_float(rows->dtype) && sc_dtype_is_float(slots->dtype),
         same = (rows->dtype == slots->dtype || is_rounded) &&
                rows->rank - row_dims->count - is_apart == slots->rank - slot_dims->count;
    sc_sub_axis_set parts = 0, partial = sc_placement_partial(&slots->placement, SC_PARTIAL_SUM);
    for (uint32_t i = 0; same && i < rows->rank; i++) {
        if (sc_attr_has_dim(row_dims, rows->dims[i].dim))
            continue;
        int at = sc_type_find_dim(slots, rows->dims[i].dim);
        sc_sub_axis_list a = sc_placement_dim(&rows->placement, i), b = {0};
        if (at >= 0)
            b = sc_placement_dim(&slots->placement, (uint32_t)at);
        same =
            at >= 0 && rows->dims[i].size == slots->dims[at].size && sc_sub_axis_list_equal(&a, &b);
    }
    if (same && adds && !is_apart)
        same = splits_of(c, slots, &slot_dims->dims[PART], 1, &parts);
    if (!same || sc_placement_partial(&rows->placement, SC_PARTIAL_SUM) != (partial | parts))
        wrong(c, "it changes more than the dims of rows");
}

/* `rows` and `slots`: the attributes that name the dims of either. */
static bool has_dims(const row_check *c, const sc_attr *rows, const sc_attr *slots)
{
    if (rows != NULL && rows->count > 0 && slots != NULL && slots->count == 3)
        return true;
    wrong(c, "it names no dims of rows or of slots");
    return false;
}

/* Checks that `over` is what splits the parts of ids, slots, places and counts. */
static void check_own_parts(const row_check *c, sc_dim part)
{
    const sc_attr *over = sc_op_attr(c->op, SC_ATTR_over);
    const uint32_t count = over == NULL ? 0 : over->count;
    bool same = true;
    for (uint32_t v = 0; v <= c->op->result_count; v++) {
        const sc_type_info *type =
            type_of(c, v == 0 ? c->op->operands[0] : c->op->first_result + v - 1);
        int at = sc_type_find_dim(type, part);
        sc_sub_axis_list list = {0};
        if (v == 0 && at < 0)
            continue;
        if (at >= 0)
            list = sc_placement_dim(&type->placement, (uint32_t)at);
        same = same && at >= 0 && list.count == count;
        for (uint32_t a = 0; same && a < count; a++)
            same = list.sub_axes[a] == over->sub_axes[a];
    }
    if (!same)
        wrong(c, "its parts are not split as it says");
}

static void check_slots(const row_check *c)
{
    const sc_attr *rows = sc_op_attr(c->op, SC_ATTR_dims), *slots = sc_op_attr(c->op, SC_ATTR_to);
    const sc_type_info *ids = type_of(c, c->op->operands[0]);
    if (!has_dims(c, rows, slots) || c->op->result_count != 3)
        return;
    const sc_type_info *of_slots = type_of(c, c->op->first_result),
                       *of_rows = type_of(c, c->op->first_result + 1);
    check_members(c, ids, rows, of_slots, slots);
    if (of_slots->rank != 3 || of_rows->rank != rows->count + 1 ||
        sc_type_find_dim(of_rows, slots->dims[1]) < 0)
        wrong(c, "its results do not have the dims of slots, and of rows and parts");
    if (sc_op_int(c->op, SC_ATTR_each, 0) < 1 || sc_op_int(c->op, SC_ATTR_below, 0) < 1 ||
        !(sc_op_number(c->op, SC_ATTR_share, 0) > 0))
        wrong(c, "it lacks the sizes of parts and of their share");
    check_own_parts(c, slots->dims[PART]);
    for (uint32_t r = 0; r < c->op->result_count; r++)
        c->rows->slots[c->op->first_result + r] = c->id;
}

/* The slots in which the rows are that these slots are of: of choices of rows that were sent. */
static sc_op_id outer_slots(const row_check *c, sc_op_id slots)
{
    return slots == SC_NONE ? SC_NONE : c->rows->slots[sc_op_at(c->m, slots)->operands[0]];
}

static sc_op_id slots_of(const row_check *c, uint32_t operand)
{
    return c->rows->slots[c->op->operands[operand]];
}

static void check_packed(const row_check *c)
{
    const sc_attr *rows = sc_op_attr(c->op, SC_ATTR_dims), *slots = sc_op_attr(c->op, SC_ATTR_to);
    const sc_type_info *x = type_of(c, c->op->operands[0]), *y = type_of(c, c->op->first_result);
    if (!has_dims(c, rows, slots))
        return;
    check_members(c, x, rows, y, slots);
    check_others(c, x, rows, y, slots, false);
    if (slots_of(c, 0) != SC_NONE && slots_of(c, 0) != outer_slots(c, slots_of(c, 1)))
        wrong(c, "it packs what is in the slots of other rows");
    c->rows->slots[c->op->first_result] = slots_of(c, 1);
}

static void check_unpacked(const row_check *c)
{
    const sc_attr *rows = sc_op_attr(c->op, SC_ATTR_to), *slots = sc_op_attr(c->op, SC_ATTR_dims);
    const sc_type_info *y = type_of(c, c->op->operands[0]), *x = type_of(c, c->op->first_result);
    if (!has_dims(c, rows, slots))
        return;
    check_members(c, x, rows, y, slots);
    check_others(c, x, rows, y, slots, true);
    if (slots_of(c, 0) != slots_of(c, 1))
        wrong(c, "its operands are in the slots of different rows");
    c->rows->slots[c->op->first_result] = outer_slots(c, slots_of(c, 1));
}

static void give(const row_check *c, uint32_t result, sc_op_id slots)
{
    const sc_dim member = sc_op_attr(sc_op_at(c->m, slots), SC_ATTR_to)->dims[0];
    sc_value value = c->op->first_result + result;
    if (sc_type_find_dim(type_of(c, value), member) >= 0)
        c->rows->slots[value] = slots;
}

/* A result is in the slots of its operands if it has members. */
static void pass_on(const row_check *c)
{
    sc_op_id slots = SC_NONE;
    for (uint32_t o = 0; o < c->op->operand_count; o++) {
        if (slots_of(c, o) == SC_NONE)
            continue;
        if (slots != SC_NONE && slots != slots_of(c, o))
            wrong(c, "it reads the slots of different rows");
        slots = slots_of(c, o);
    }
    if (slots == SC_NONE)
        return;
    for (uint32_t r = 0; r < c->op->result_count; r++)
        give(c, r, slots);
}

/* A collective moves several values at once. */
static void pass_each_on(const row_check *c)
{
    for (uint32_t r = 0; r < c->op->result_count && r < c->op->operand_count; r++) {
        if (slots_of(c, r) != SC_NONE)
            give(c, r, slots_of(c, r));
    }
}

/* `to` is `from` with the split of one dim moved to another. */
static void check_exchanged(const row_check *c, const sc_type_info *from, const sc_type_info *to,
                            sc_dim gather, sc_dim scatter)
{
    bool same = from->dtype == to->dtype && from->rank == to->rank;
    for (uint32_t i = 0; same && i < from->rank; i++) {
        sc_dim dim = from->dims[i].dim;
        sc_sub_axis_list a = sc_placement_dim(&from->placement, i),
                         b = sc_placement_dim(&to->placement, i);
        same = dim == to->dims[i].dim && from->dims[i].size == to->dims[i].size &&
               (dim == gather || dim == scatter || sc_sub_axis_list_equal(&a, &b));
    }
    if (!same || gather == scatter)
        wrong(c, "it changes more than which ranks have the slots");
}

/* Counts are placed as what they count: those of what is sent as the operand, those of what arrives
 * as the result. */
static void check_count(const row_check *c, const sc_type_info *count, const sc_type_info *of,
                        sc_dim gather, sc_dim scatter)
{
    const sc_dim dims[] = {gather, scatter};
    bool same = count->rank == 2;
    for (uint32_t d = 0; same && d < 2; d++) {
        int at = sc_type_find_dim(count, dims[d]), there = sc_type_find_dim(of, dims[d]);
        same = at >= 0 && there >= 0;
        if (!same)
            break;
        sc_sub_axis_list a = sc_placement_dim(&count->placement, (uint32_t)at),
                         b = sc_placement_dim(&of->placement, (uint32_t)there);
        same = sc_sub_axis_list_equal(&a, &b);
    }
    if (!same)
        wrong(c, "its counts are not of the rows that it sends and gets");
}

static void check_exchange(const row_check *c)
{
    const sc_attr *gather = sc_op_attr(c->op, SC_ATTR_gather),
                  *scatter = sc_op_attr(c->op, SC_ATTR_scatter),
                  *fills = sc_op_attr(c->op, SC_ATTR_fills);
    const uint32_t count = c->op->result_count, counts = count + 2;
    if (c->op->operand_count != counts || gather == NULL || scatter == NULL || fills == NULL ||
        gather->count != count || scatter->count != count || fills->count != count) {
        wrong(c, "it does not have a dim, a split and a fill for each operand, and two counts");
        return;
    }
    for (uint32_t o = 0; o < counts; o++) {
        if (slots_of(c, o) != slots_of(c, count))
            wrong(c, "operand %u is in the slots of different rows than its count", o + 1);
        if (o >= count)
            continue;
        const sc_type_info *from = type_of(c, c->op->operands[o]),
                           *to = type_of(c, c->op->first_result + o);
        check_exchanged(c, from, to, gather->dims[o], scatter->dims[o]);
        check_count(c, type_of(c, c->op->operands[count]), from, gather->dims[o], scatter->dims[o]);
        check_count(c, type_of(c, c->op->operands[count + 1]), to, gather->dims[o],
                    scatter->dims[o]);
        if (slots_of(c, o) != SC_NONE)
            give(c, o, slots_of(c, o));
    }
}

static void (*const checks[SC_OP_COUNT])(const row_check *c) = {
    [SC_OP_row_slots] = check_slots,
    [SC_OP_pack_rows] = check_packed,
    [SC_OP_unpack_rows] = check_unpacked,
    [SC_OP_exchange_rows] = check_exchange,
};

void sc_verify_rows(sc_sent_rows *rows, sc_op_id id, sc_piece_report *report, void *user)
{
    const sc_op *op = sc_op_at(rows->m, id);
    row_check c = {.rows = rows, .m = rows->m, .id = id, .op = op, .report = report, .user = user};
    if (checks[op->kind] != NULL)
        checks[op->kind](&c);
    else if (sc_op_has(op, SC_RESHARD))
        pass_each_on(&c);
    else if (!sc_op_has(op, SC_EFFECT))
        pass_on(&c);
}
