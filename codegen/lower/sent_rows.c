/* Rows on their way to the ranks of their experts, and back. A rank is one member M; the number of
 * a row is row-major over the dims of rows. */
#include "codegen/lower/rows.h"

#include <math.h>

#include "ir/ops/capacity.h"

enum { MEMBER, PART, SLOT };

static sc_loop_dim loop_of(const sc_lowering *l, sc_value value, sc_dim dim)
{
    const sc_type_info *type = sc_lower_type(l, value);
    return (sc_loop_dim){dim, sc_type_local_size(l->m, type, sc_lower_at(type, dim))};
}

/* Loops over the dims of an attribute, of which the value has all. */
static sc_loop_dims loops_of(const sc_lowering *l, const sc_attr *dims, sc_value value)
{
    sc_loop_dims loops = {0};
    for (uint32_t d = 0; d < dims->count; d++)
        loops.dims[loops.count++] = loop_of(l, value, dims->dims[d]);
    return loops;
}

static void outer(sc_lowering *l, const sc_loop_dims *loops)
{
    for (uint32_t i = 0; i < loops->count; i++)
        sc_lower_add_dim(l, loops->dims[i]);
    sc_lower_end_outer(l);
}

static sc_knode row_number(sc_lowering *l, const sc_loop_dims *rows)
{
    sc_knode number = sc_lower_integer(l, 0);
    for (uint32_t d = 0; d < rows->count; d++) {
        sc_knode major =
            sc_lower_2(l, SC_NODE_mul, number, sc_lower_integer(l, rows->dims[d].size));
        number = sc_lower_2(l, SC_NODE_add, major, sc_lower_loop(l, rows->dims[d]));
    }
    return number;
}

/* The indices of slot `slot` of part `part` in a value with the dims of slots, 0 along its others.
 */
static void index_slot(sc_lowering *l, const sc_type_info *type, const sc_attr *slots,
                       sc_knode part, sc_knode slot, sc_knode *out)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_dim dim = type->dims[i].dim;
        if (dim == slots->dims[PART])
            out[i] = part;
        else if (dim == slots->dims[SLOT])
            out[i] = slot;
        else if (dim == slots->dims[MEMBER])
            out[i] = sc_lower_integer(l, 0);
    }
}

/* The number of a part of the rank among those of all that share them. */
static sc_knode number_part(sc_lowering *l, const sc_op *op, sc_loop_dim parts, sc_knode own)
{
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    sc_sub_axis_list list = {0};
    const uint32_t count = over == NULL ? 0 : over->count;
    for (uint32_t a = 0; a < count; a++)
        list.sub_axes[list.count++] = over->sub_axes[a];
    return count == 0 ? own : sc_lower_in_shard(l, parts.dim, &list, parts.size, own);
}

/* Whether one of the choices of the row at hand is in the part at hand. The choices of a row are
 * few (SC_MOST_CHOICES): they are not a loop. Ids may be those of the part only, and then -1 is one
 * of no row. */
static sc_knode is_chosen(sc_lowering *l, const sc_op *op, sc_loop_dim parts)
{
    const sc_attr *rows = sc_op_attr(op, SC_ATTR_dims);
    sc_knode own_part = sc_lower_loop(l, parts), part = number_part(l, op, parts, own_part);
    const sc_type_info *ids = sc_lower_type(l, op->operands[0]);
    const int64_t below = sc_op_int(op, SC_ATTR_below, 1), each = sc_op_int(op, SC_ATTR_each, 1);
    sc_knode index[SC_MAX_RANK], any = SC_NONE;
    int64_t choices = 1;
    for (uint32_t i = 0; i < ids->rank; i++)
        choices *= sc_attr_has_dim(rows, ids->dims[i].dim) || ids->dims[i].dim == parts.dim
                       ? 1
                       : ids->dims[i].size;
    bool may_lack = sc_type_find_dim(ids, parts.dim) >= 0;
    for (int64_t q = 0; q < choices; q++) {
        int64_t left = q;
        for (uint32_t i = ids->rank; i-- > 0;) {
            bool is_part = ids->dims[i].dim == parts.dim,
                 is_row = sc_attr_has_dim(rows, ids->dims[i].dim);
            index[i] = is_part  ? own_part
                       : is_row ? sc_lower_loop(l, loop_of(l, op->operands[0], ids->dims[i].dim))
                                : sc_lower_integer(l, left % ids->dims[i].size);
            left /= is_row || is_part ? 1 : ids->dims[i].size;
        }
        sc_knode id =
            sc_kernel_convert(l->k, sc_lower_value(l, op->operands[0], index), SC_DTYPE_i64);
        sc_knode none = sc_lower_with(l, SC_NODE_eq, id, SC_NO_ID);
        if (may_lack)
            none = sc_lower_2(l, SC_NODE_or, none, sc_lower_with(l, SC_NODE_eq, id, -1));
        sc_knode valid = sc_lower_2(l, SC_NODE_or, none, sc_lower_within(l, id, below));
        sc_lower_check(l, op, valid, id, "id {value} is outside 0 <= id < %lld", (long long)below);
        sc_knode first = sc_lower_2(l, SC_NODE_mul, part, sc_lower_integer(l, each));
        sc_knode from = sc_lower_2(l, SC_NODE_sub, id, first);
        sc_knode own = sc_lower_within(l, from, each);
        any = any == SC_NONE ? own : sc_lower_2(l, SC_NODE_or, any, own);
    }
    return any;
}

/* Fails if more rows, or choices, than there are slots go to the part at hand. */
static void check_room(sc_lowering *l, const sc_op *op, sc_knode count, int64_t room)
{
    const char *capacity =
        sc_arena_printf(l->k->arena, "{value/%.17g}", sc_op_number(op, SC_ATTR_share, 1));
    sc_knode fits = sc_lower_2(l, SC_NODE_le, count, sc_lower_integer(l, room));
    bool is_split = sc_op_attr(op, SC_ATTR_over) != NULL;
    sc_lower_check(l, op, fits, count, SC_TOO_MANY_ROWS, "{value}",
                   is_split ? SC_CHOICES_WITHOUT_ROOM : SC_ROWS_WITHOUT_ROOM, (long long)room,
                   capacity);
}

/* A running count gives the rows of a part their slots, in order. */
void root_row_slots(sc_lowering *l, const sc_op *op)
{
    const sc_attr *to = sc_op_attr(op, SC_ATTR_to);
    const sc_value slots = op->first_result, places = slots + 1, counts = slots + 2;
    const sc_loop_dims parts = {.count = 1, .dims = {loop_of(l, slots, to->dims[PART])}},
                       room = {.count = 1, .dims = {loop_of(l, slots, to->dims[SLOT])}},
                       rows = loops_of(l, sc_op_attr(op, SC_ATTR_dims), op->operands[0]);
    sc_knode index[SC_MAX_RANK];
    outer(l, &parts);
    sc_knode part = sc_lower_loop(l, parts.dims[0]), minus = sc_lower_integer(l, -1);
    uint32_t slots_arg = sc_lower_out(l, slots, SC_ARG_OUT, SC_NONE),
             places_arg = sc_lower_out(l, places, SC_ARG_OUT, SC_NONE),
             counts_arg = sc_lower_out(l, counts, SC_ARG_OUT, SC_NONE);
    index_slot(l, sc_lower_type(l, slots), to, part, sc_lower_loop(l, room.dims[0]), index);
    sc_lower_phase(l, &room);
    sc_lower_store(l, SC_ITEM_STORE, slots_arg, index, minus, SC_NONE);

    sc_knode row = row_number(l, &rows), chosen = is_chosen(l, op, parts.dims[0]);
    sc_lower_phase(l, &rows);
    uint32_t sum =
        sc_kernel_add_reduction(l->k, SC_ITEM_SUM, sc_kernel_convert(l->k, chosen, SC_DTYPE_i64));
    sc_knode slot = sc_lower_2(l, SC_NODE_add, sc_kernel_reduced(l->k, sum, true), minus);
    sc_knode fits = sc_lower_both(l, sc_lower_within(l, slot, room.dims[0].size), chosen);
    index_slot(l, sc_lower_type(l, slots), to, part, slot, index);
    sc_knode more = sc_lower_2(l, SC_NODE_sub, row, minus); /* than an empty slot has */
    sc_lower_store(l, SC_ITEM_ADD, slots_arg, index, more, fits);
    sc_knode last = sc_lower_integer(l, room.dims[0].size - 1),
             first_left = sc_lower_2(l, SC_NODE_eq, slot, sc_lower_integer(l, room.dims[0].size));
    index_slot(l, sc_lower_type(l, slots), to, part, last, index);
    sc_lower_store(l, SC_ITEM_ADD, slots_arg, index, sc_lower_integer(l, SC_SPOILT_ROW),
                   sc_lower_both(l, first_left, chosen));
    const sc_type_info *type = sc_lower_type(l, places);
    for (uint32_t i = 0; i < type->rank; i++)
        index[i] = sc_lower_loop(l, loop_of(l, places, type->dims[i].dim));
    sc_knode none = sc_lower_where(l, chosen, sc_lower_integer(l, (int64_t)SC_NO_ROOM), minus);
    sc_lower_store(l, SC_ITEM_STORE, places_arg, index, sc_lower_where(l, fits, slot, none),
                   SC_NONE);
    sc_knode total = sc_kernel_reduced(l->k, sum, false);
    check_room(l, op, total, room.dims[0].size);
    sc_lower_phase(l, &(sc_loop_dims){0});
    index_slot(l, sc_lower_type(l, counts), to, part, minus, index);
    sc_knode most = sc_lower_integer(l, room.dims[0].size);
    sc_lower_store(l, SC_ITEM_STORE, counts_arg, index, sc_lower_2(l, SC_NODE_minimum, total, most),
                   SC_NONE);
}

sc_knode lower_pack_rows(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_attr *rows = sc_op_attr(op, SC_ATTR_dims), *to = sc_op_attr(op, SC_ATTR_to);
    const sc_type_info *x = sc_lower_type(l, op->operands[0]),
                       *result = sc_lower_type(l, op->first_result),
                       *slots = sc_lower_type(l, op->operands[1]);
    sc_knode own[SC_MAX_RANK];
    index_slot(l, slots, to, index[sc_lower_at(result, to->dims[PART])],
               index[sc_lower_at(result, to->dims[SLOT])], own);
    sc_knode row = sc_kernel_convert(l->k, sc_lower_value(l, op->operands[1], own), SC_DTYPE_i64);
    sc_knode spoilt = sc_lower_integer(l, SC_SPOILT_ROW),
             is_spoilt = sc_lower_2(l, SC_NODE_ge, row, spoilt);
    row = sc_lower_where(l, is_spoilt, sc_lower_2(l, SC_NODE_sub, row, spoilt), row);
    const sc_loop_dims loops = loops_of(l, rows, op->operands[0]);
    sc_knode is_full = sc_lower_within(l, row, sc_loops_elements(&loops)), left = row;
    sc_lower_map_index(l, x, result, index, sc_lower_integer(l, 0), own);
    for (uint32_t d = rows->count; d-- > 0;) {
        sc_knode size = sc_lower_integer(l, loops.dims[d].size);
        own[sc_lower_at(x, rows->dims[d])] = d == 0 ? left : sc_lower_2(l, SC_NODE_mod, left, size);
        left = d == 0 ? left : sc_lower_2(l, SC_NODE_div, left, size);
    }
    sc_knode fill = sc_kernel_constant(l->k, sc_lower_dtype(l, op->first_result),
                                       sc_op_number(op, SC_ATTR_value, 0));
    sc_knode packed = sc_lower_guarded(l, op->operands[0], own, is_full);
    if (sc_dtype_is_float(result->dtype))
        packed = sc_lower_where(l, is_spoilt,
                                sc_kernel_constant(l->k, sc_lower_dtype(l, op->first_result), NAN),
                                packed);
    return sc_lower_where(l, is_full, packed, fill);
}

/* The parts and choices that a row of the result is the sum of: the dims of places that it lacks.
 */
static sc_loop_dims summed_places(const sc_lowering *l, const sc_op *op)
{
    const sc_dim part = sc_op_attr(op, SC_ATTR_dims)->dims[PART];
    const sc_type_info *type = sc_lower_type(l, op->first_result),
                       *places = sc_lower_type(l, op->operands[1]);
    sc_loop_dims summed = {0};
    if (sc_type_find_dim(type, part) < 0)
        summed.dims[summed.count++] = loop_of(l, op->operands[1], part);
    for (uint32_t i = 0; i < places->rank; i++) {
        sc_dim dim = places->dims[i].dim;
        if (dim != part && sc_type_find_dim(type, dim) < 0)
            summed.dims[summed.count++] = loop_of(l, op->operands[1], dim);
    }
    return summed;
}

/* The slots of a row are added in the order of parts, and in a part of choices. */
void root_unpack_rows(sc_lowering *l, const sc_op *op)
{
    const sc_attr *slots = sc_op_attr(op, SC_ATTR_dims);
    const sc_value result = op->first_result, y = op->operands[0];
    const sc_type_info *type = sc_lower_type(l, result), *of_slots = sc_lower_type(l, y);
    const sc_loop_dims own = sc_loops_of(l->m, result), summed = summed_places(l, op);
    sc_knode index[SC_MAX_RANK];
    outer(l, &own);
    sc_knode part = sc_lower_loop(l, loop_of(l, op->operands[1], slots->dims[PART]));
    sc_knode slot = sc_kernel_convert(l->k, sc_lower_here(l, op->operands[1]), SC_DTYPE_i64);
    sc_knode has_one = sc_lower_within(l, slot, loop_of(l, y, slots->dims[SLOT]).size);
    for (uint32_t i = 0; i < type->rank; i++)
        index[i] = sc_lower_loop(l, own.dims[i]);
    sc_knode there[SC_MAX_RANK];
    sc_lower_map_index(l, of_slots, type, index, sc_lower_integer(l, 0), there);
    index_slot(l, of_slots, slots, part, slot, there);
    sc_knode lacks = sc_lower_with(l, SC_NODE_eq, slot, SC_NO_ROOM);
    sc_dtype dtype = sc_lower_dtype(l, y);
    sc_knode nan = sc_kernel_constant(l->k, dtype, (double)NAN),
             zero = sc_kernel_constant(l->k, dtype, 0);
    sc_knode other = sc_lower_where(l, lacks, nan, zero);
    sc_knode term = sc_lower_where(l, has_one, sc_lower_guarded(l, y, there, has_one), other);
    uint32_t arg = sc_lower_out(l, result, SC_ARG_OUT, SC_NONE);
    sc_knode sum = term;
    if (summed.count > 0) {
        sc_lower_phase(l, &summed);
        sum = sc_kernel_reduced(l->k, sc_kernel_add_reduction(l->k, SC_ITEM_SUM, term), false);
    }
    sc_lower_phase(l, &(sc_loop_dims){0});
    sc_lower_store(l, SC_ITEM_STORE, arg, index,
                   sc_kernel_convert(l->k, sum, sc_lower_dtype(l, result)), SC_NONE);
}
