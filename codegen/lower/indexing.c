/* Ops that read their operands at other indices than the result's. What is outside a rank's shard
 * reads as 0, as in the interpreter. */
#include "codegen/lower/rows.h"

#include <string.h>

static sc_knode zero_like(sc_lowering *l, sc_value value)
{
    return sc_kernel_constant(l->k, sc_lower_dtype(l, value), 0);
}

/* Operand i at the result's indices, except `there` along its dim `at`; 0 where `condition` is
 * false (SC_NONE: always true). */
static sc_knode read_at(sc_lowering *l, const sc_op *op, uint32_t i, const sc_knode *index,
                        uint32_t at, sc_knode there, sc_knode condition)
{
    sc_knode own[SC_MAX_RANK];
    sc_value operand = op->operands[i];
    sc_lower_map_index(l, sc_lower_type(l, operand), sc_lower_type(l, op->first_result), index,
                       sc_lower_integer(l, 0), own);
    own[at] = there;
    if (condition == SC_NONE)
        return sc_lower_value(l, operand, own);
    return sc_lower_where(l, condition, sc_lower_guarded(l, operand, own, condition),
                          zero_like(l, operand));
}

/* The operand at the result's indices, 0 along dims that the result lacks. */
static sc_knode integer_operand(sc_lowering *l, const sc_op *op, sc_value value,
                                const sc_knode *index)
{
    sc_knode own[SC_MAX_RANK];
    sc_lower_map_index(l, sc_lower_type(l, value), sc_lower_type(l, op->first_result), index,
                       sc_lower_integer(l, 0), own);
    return sc_kernel_convert(l->k, sc_lower_value(l, value, own), SC_DTYPE_i64);
}

sc_knode lower_gather(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *table = sc_lower_type(l, op->operands[0]);
    sc_dim dim = sc_op_attr(op, SC_ATTR_dims)->dims[0];
    uint32_t at = sc_lower_at(table, dim);
    int64_t size = table->dims[at].size, local = sc_type_local_size(l->m, table, at);
    sc_knode id = integer_operand(l, op, op->operands[1], index);
    sc_lower_check(l, op, sc_lower_within(l, id, size), id,
                   "id {value} is outside 0 <= id < %s = %lld", sc_lower_dim_name(l, dim),
                   (long long)size);
    sc_lower_ids(l, op->operands[1], size);
    bool split = sc_type_shards(&l->m->mesh, table, at) > 1;
    sc_knode there = sc_lower_place(l, op, dim, local, id);
    return read_at(l, op, 0, index, at, there, split ? sc_lower_within(l, there, local) : SC_NONE);
}

sc_knode lower_onehot(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->first_result);
    sc_dim dim = sc_op_attr(op, SC_ATTR_dims)->dims[0];
    uint32_t at = sc_lower_at(type, dim);
    sc_knode id = integer_operand(l, op, op->operands[0], index);
    sc_knode global = sc_lower_position(l, op, dim, sc_type_local_size(l->m, type, at), index[at]);
    return sc_kernel_convert(l->k, sc_lower_2(l, SC_NODE_eq, id, global),
                             sc_lower_dtype(l, op->first_result));
}

/* A row of length 0 has no last element and yields 0. */
sc_knode lower_last(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->operands[0]);
    sc_dim dim = sc_op_attr(op, SC_ATTR_dims)->dims[0];
    sc_value len = sc_lower_called(l, op, "len");
    uint32_t at = sc_lower_at(type, dim);
    int64_t size = type->dims[at].size, local = sc_type_local_size(l->m, type, at);
    sc_knode length =
        len == SC_NONE ? sc_lower_integer(l, size) : integer_operand(l, op, len, index);
    sc_lower_check(l, op, sc_lower_within(l, length, size + 1), length,
                   "length {value} is outside 0 <= length <= %s = %lld", sc_lower_dim_name(l, dim),
                   (long long)size);
    if (len != SC_NONE)
        sc_lower_ids(l, len, size + 1);
    sc_knode there = sc_lower_place(l, op, dim, local, sc_lower_with(l, SC_NODE_sub, length, 1));
    return read_at(l, op, 0, index, at, there, sc_lower_within(l, there, local));
}

sc_knode lower_slice(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    uint32_t at =
        sc_lower_at(sc_lower_type(l, op->operands[0]), sc_op_attr(op, SC_ATTR_dims)->dims[0]);
    uint32_t to =
        sc_lower_at(sc_lower_type(l, op->first_result), sc_op_attr(op, SC_ATTR_to)->dims[0]);
    sc_knode there =
        sc_lower_with(l, SC_NODE_add, index[to], (double)sc_op_int(op, SC_ATTR_from, 0));
    return read_at(l, op, 0, index, at, there, SC_NONE);
}

/* The operand surrounded by zeros. */
sc_knode lower_unslice(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->operands[0]);
    uint32_t at = sc_lower_at(type, sc_op_attr(op, SC_ATTR_dims)->dims[0]);
    uint32_t to =
        sc_lower_at(sc_lower_type(l, op->first_result), sc_op_attr(op, SC_ATTR_to)->dims[0]);
    sc_knode there =
        sc_lower_with(l, SC_NODE_sub, index[to], (double)sc_op_int(op, SC_ATTR_from, 0));
    return read_at(l, op, 0, index, at, there,
                   sc_lower_within(l, there, sc_type_local_size(l->m, type, at)));
}

sc_knode lower_concat(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *first = sc_lower_type(l, op->operands[0]),
                       *second = sc_lower_type(l, op->operands[1]);
    uint32_t at = sc_lower_at(first, sc_op_attr(op, SC_ATTR_dims)->dims[0]);
    uint32_t second_at = sc_lower_at(second, sc_op_attr(op, SC_ATTR_from_dims)->dims[0]);
    uint32_t to =
        sc_lower_at(sc_lower_type(l, op->first_result), sc_op_attr(op, SC_ATTR_to)->dims[0]);
    int64_t size = sc_type_local_size(l->m, first, at);
    sc_knode is_first = sc_lower_2(l, SC_NODE_lt, index[to], sc_lower_integer(l, size));
    sc_knode a = read_at(l, op, 0, index, at, index[to], is_first);
    sc_knode rest = sc_lower_with(l, SC_NODE_sub, index[to], (double)size);
    sc_knode b = read_at(l, op, 1, index, second_at, rest, sc_lower_1(l, SC_NODE_not, is_first));
    sc_dtype dtype = sc_lower_dtype(l, op->first_result);
    return sc_lower_where(l, is_first, sc_kernel_convert(l->k, a, dtype),
                          sc_kernel_convert(l->k, b, dtype));
}

/* This rank's piece of a replicated value; if the dim does not divide evenly, the last pieces are
 * padded. */
sc_knode lower_all_slice(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *from = sc_lower_type(l, op->operands[0]),
                       *to = sc_lower_type(l, op->first_result);
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    uint32_t at = sc_lower_at(from, sc_op_attr(op, SC_ATTR_gather)->dims[0]);
    int64_t whole = sc_type_local_size(l->m, from, at), piece = sc_type_local_size(l->m, to, at),
            pieces = 1;
    for (uint32_t a = 0; a < over->count; a++)
        pieces *= (int64_t)l->m->mesh.sub_axes[over->sub_axes[a]].size;
    sc_sub_axis_list pieces_of = {.count = (uint8_t)over->count};
    memcpy(pieces_of.sub_axes, over->sub_axes, over->count);
    sc_knode there = sc_lower_in_shard(l, from->dims[at].dim, &pieces_of, piece, index[at]);
    sc_knode real = piece * pieces > whole
                        ? sc_lower_2(l, SC_NODE_lt, there, sc_lower_integer(l, whole))
                        : SC_NONE;
    return read_at(l, op, 0, index, at, there, real);
}

/* ---- pieces of a ring ---- */
static sc_sub_axis_list members_of(const sc_op *op)
{
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    sc_sub_axis_list members = {.count = (uint8_t)over->count};
    memcpy(members.sub_axes, over->sub_axes, over->count);
    return members;
}

/* The first element of the piece of the member `back` before the rank's, all around the ring. */
static sc_knode first_of_piece(sc_lowering *l, const sc_op *op, int64_t piece, uint64_t back)
{
    const sc_sub_axis_list members = members_of(op);
    return sc_lower_rank_param(l, sc_terms_from(l->m, &members, piece, back));
}

/* Index of the first of the op's `dims`, or of `to`, in a value. */
static uint32_t at_named(const sc_lowering *l, const sc_op *op, sc_attr_key key, sc_value value)
{
    return sc_lower_at(sc_lower_type(l, value), sc_op_attr(op, key)->dims[0]);
}

/* What is behind the end of the whole is padding: 0. */
sc_knode lower_take_piece(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *from = sc_lower_type(l, op->operands[0]);
    const sc_sub_axis_list over = members_of(op);
    uint32_t at = at_named(l, op, SC_ATTR_dims, op->operands[0]),
             to = at_named(l, op, SC_ATTR_to, op->first_result);
    uint64_t members = sc_sub_axis_list_size(&l->m->mesh, &over),
             shift = (uint64_t)sc_op_int(op, SC_ATTR_shift, 0);
    int64_t whole = sc_type_local_size(l->m, from, at),
            piece = sc_type_local_size(l->m, sc_lower_type(l, op->first_result), to);
    sc_knode first = first_of_piece(l, op, piece, (members - shift) % members);
    sc_knode there = sc_lower_2(l, SC_NODE_add, index[to], first);
    sc_knode real = piece * (int64_t)members > whole
                        ? sc_lower_2(l, SC_NODE_lt, there, sc_lower_integer(l, whole))
                        : SC_NONE;
    return read_at(l, op, 0, index, at, there, real);
}

sc_knode lower_join_pieces(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    uint32_t to = at_named(l, op, SC_ATTR_to, op->first_result);
    sc_knode joined = zero_like(l, op->first_result);
    for (uint32_t k = op->operand_count; k-- > 0;) {
        uint32_t at = at_named(l, op, SC_ATTR_dims, op->operands[k]);
        int64_t piece = sc_type_local_size(l->m, sc_lower_type(l, op->operands[k]), at);
        sc_knode first = first_of_piece(l, op, piece, k);
        sc_knode there = sc_lower_2(l, SC_NODE_sub, index[to], first);
        sc_knode is_there = sc_lower_within(l, there, piece);
        sc_knode one = read_at(l, op, k, index, at, there, is_there);
        joined = sc_lower_where(l, is_there, one, joined);
    }
    return joined;
}

/* Member i's own term is operand 0. In the order of members the terms are operands i, i - 1, .., 0
 * and then the last one, .., i + 1: all operands backwards, from number i on, and once more down to
 * number i + 1. */
sc_knode lower_add_pieces(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const uint32_t last = op->operand_count - 1;
    sc_knode member = first_of_piece(l, op, 1, 0), sum = sc_lower_operand(l, op, last, index);
    for (uint32_t k = last; k-- > 0;) {
        sc_knode term = sc_lower_operand(l, op, k, index);
        sc_knode more = sc_lower_2(l, SC_NODE_add, sum, term);
        sc_knode is_later = sc_lower_2(l, SC_NODE_lt, sc_lower_integer(l, k), member);
        sum = sc_lower_where(l, is_later, more, term);
    }
    for (uint32_t k = last; k > 0; k--) {
        sc_knode more = sc_lower_2(l, SC_NODE_add, sum, sc_lower_operand(l, op, k, index));
        sc_knode is_left = sc_lower_2(l, SC_NODE_lt, member, sc_lower_integer(l, k));
        sum = sc_lower_where(l, is_left, more, sum);
    }
    return sum;
}

/* ---- rename ---- */
static int64_t local_of(const sc_lowering *l, sc_value value, sc_dim dim)
{
    const sc_type_info *type = sc_lower_type(l, value);
    return sc_type_local_size(l->m, type, sc_lower_at(type, dim));
}

/* dims -> to: pairwise renamed dims, or one row-major range of elements with different dims. */
sc_knode lower_rename(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_attr *from = sc_op_attr(op, SC_ATTR_dims), *to = sc_op_attr(op, SC_ATTR_to);
    const sc_type_info *source = sc_lower_type(l, op->operands[0]),
                       *target = sc_lower_type(l, op->first_result);
    sc_knode own[SC_MAX_RANK], linear = sc_lower_integer(l, 0);
    sc_lower_map_index(l, source, target, index, linear, own);
    bool pairs = from->count == to->count;
    for (uint32_t d = 0; pairs && d < from->count; d++)
        pairs = local_of(l, op->operands[0], from->dims[d]) ==
                local_of(l, op->first_result, to->dims[d]);
    if (pairs) {
        for (uint32_t d = 0; d < from->count; d++)
            own[sc_lower_at(source, from->dims[d])] = index[sc_lower_at(target, to->dims[d])];
    } else {
        for (uint32_t d = 0; d < to->count; d++) {
            sc_knode size = sc_lower_integer(l, local_of(l, op->first_result, to->dims[d]));
            linear = sc_lower_2(l, SC_NODE_add, sc_lower_2(l, SC_NODE_mul, linear, size),
                                index[sc_lower_at(target, to->dims[d])]);
        }
        for (uint32_t d = from->count; d-- > 0;) {
            sc_knode size = sc_lower_integer(l, local_of(l, op->operands[0], from->dims[d]));
            own[sc_lower_at(source, from->dims[d])] =
                d == 0 ? linear : sc_lower_2(l, SC_NODE_mod, linear, size);
            linear = sc_lower_2(l, SC_NODE_div, linear, size);
        }
    }
    return sc_lower_value(l, op->operands[0], own);
}
