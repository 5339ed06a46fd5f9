/* Ops whose results are complete only in memory; each builds its whole kernel. Operands are lowered
 * on demand as elsewhere. */
#include "codegen/lower/rows.h"

#include <math.h>
#include <string.h>

static sc_loop_dim loop_of(const sc_lowering *l, sc_value value, sc_dim dim)
{
    const sc_type_info *type = sc_lower_type(l, value);
    return (sc_loop_dim){dim, sc_type_local_size(l->m, type, sc_lower_at(type, dim))};
}

/* Makes all dims of the value except one outer. */
static void outer_but(sc_lowering *l, sc_value value, sc_dim but)
{
    sc_loop_dims dims = sc_loops_of(l->m, value);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (dims.dims[i].dim != but)
            sc_lower_add_dim(l, dims.dims[i]);
    }
    sc_lower_end_outer(l);
}

/* The indices of the loops along the value's dims, `there` along `dim`. */
static void own_index(sc_lowering *l, sc_value value, sc_dim dim, sc_knode there, sc_knode *out)
{
    sc_loop_dims dims = sc_loops_of(l->m, value);
    for (uint32_t i = 0; i < dims.count; i++)
        out[i] = dims.dims[i].dim == dim ? there : sc_lower_loop(l, dims.dims[i]);
}

static void phase_over(sc_lowering *l, const sc_loop_dim *dims, uint32_t count)
{
    sc_loop_dims inner = {.count = count};
    if (count > 0)
        memcpy(inner.dims, dims, count * sizeof *dims);
    sc_lower_phase(l, &inner);
}

void root_cumsum(sc_lowering *l, const sc_op *op)
{
    sc_value result = op->first_result, x = op->operands[0];
    sc_loop_dim s = loop_of(l, result, sc_op_attr(op, SC_ATTR_dims)->dims[0]);
    outer_but(l, result, s.dim);
    sc_knode at = sc_lower_loop(l, s), index[SC_MAX_RANK], from[SC_MAX_RANK];
    if (sc_op_int(op, SC_ATTR_reverse, 0) != 0)
        at = sc_lower_2(l, SC_NODE_sub, sc_lower_integer(l, s.size - 1), at);
    own_index(l, result, s.dim, at, index);
    own_index(l, x, s.dim, at, from);
    sc_knode value = sc_kernel_convert(l->k, sc_lower_value(l, x, from), sc_lower_dtype(l, result));
    phase_over(l, &s, 1);
    uint32_t sum = sc_kernel_add_reduction(l->k, SC_ITEM_SUM, value);
    sc_lower_store(l, SC_ITEM_STORE, sc_lower_out(l, result, SC_ARG_OUT, SC_NONE), index,
                   sc_kernel_reduced(l->k, sum, true), SC_NONE);
}

/* Where an id points: the place in this rank's range, and whether it is in it (SC_NONE: always). */
typedef struct id_place {
    sc_knode there, here;
} id_place;

/* Where `id`, an element of `ids`, points: `of` has the dim that the ids index. `may_lack`: an id
 * of -1 points nowhere. */
static id_place find_place_of(sc_lowering *l, const sc_op *op, sc_value ids, sc_knode id,
                              bool may_lack, sc_value of, sc_dim dim)
{
    const sc_type_info *type = sc_lower_type(l, of);
    sc_loop_dim v = loop_of(l, of, dim);
    uint32_t at = sc_lower_at(type, v.dim);
    int64_t size = type->dims[at].size;
    id = sc_kernel_convert(l->k, id, SC_DTYPE_i64);
    sc_knode is_valid = sc_lower_within(l, id, size);
    if (may_lack)
        is_valid = sc_lower_2(l, SC_NODE_or, is_valid, sc_lower_with(l, SC_NODE_eq, id, -1));
    else
        sc_lower_ids(l, ids, size);
    sc_lower_check(l, op, is_valid, id, "id {value} is outside 0 <= id < %s = %lld",
                   sc_lower_dim_name(l, v.dim), (long long)size);
    sc_knode there = sc_lower_place(l, op, v.dim, v.size, id);
    bool is_split = may_lack || sc_type_shards(&l->m->mesh, type, at) > 1;
    return (id_place){there, is_split ? sc_lower_within(l, there, v.size) : SC_NONE};
}

static id_place find_place(sc_lowering *l, const sc_op *op, sc_value ids, sc_value of, sc_dim dim)
{
    return find_place_of(l, op, ids, sc_lower_here(l, ids), false, of, dim);
}

/* Stores zeros, then adds row after row. Dims of x or of the ids that the result lacks are summed
 * over. */
void root_scatter_add(sc_lowering *l, const sc_op *op)
{
    sc_value result = op->first_result, x = op->operands[0], ids = op->operands[1];
    const sc_type_info *type = sc_lower_type(l, result);
    sc_loop_dim v = loop_of(l, result, sc_op_attr(op, SC_ATTR_dims)->dims[0]);
    outer_but(l, result, v.dim);
    sc_loop_dims parts[] = {sc_loops_of(l->m, ids), sc_loops_of(l->m, x)}, rows = {0};
    for (uint32_t p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < parts[p].count; i++) {
            bool known = sc_type_find_dim(type, parts[p].dims[i].dim) >= 0;
            for (uint32_t r = 0; r < rows.count; r++)
                known = known || rows.dims[r].dim == parts[p].dims[i].dim;
            if (!known)
                rows.dims[rows.count++] = parts[p].dims[i];
        }
    }
    uint32_t arg = sc_lower_out(l, result, SC_ARG_OUT, SC_NONE);
    sc_knode index[SC_MAX_RANK];
    own_index(l, result, v.dim, sc_lower_loop(l, v), index);
    phase_over(l, &v, 1);
    sc_lower_store(l, SC_ITEM_STORE, arg, index,
                   sc_kernel_constant(l->k, sc_lower_dtype(l, result), 0), SC_NONE);

    id_place place = find_place(l, op, ids, result, v.dim);
    sc_knode value = sc_lower_here(l, x);
    own_index(l, result, v.dim, place.there, index);
    sc_lower_phase(l, &rows);
    sc_lower_store(l, SC_ITEM_ADD, arg, index, value, place.here);
}

/* Selects one by one: the largest value after the previous one; ties go to the lowest index. NaN
 * counts as the least. */
void root_topk(sc_lowering *l, const sc_op *op)
{
    sc_value x = op->operands[0], values = op->first_result, ids = op->first_result + 1;
    sc_loop_dim from = loop_of(l, x, sc_op_attr(op, SC_ATTR_dims)->dims[0]),
                to = loop_of(l, values, sc_op_attr(op, SC_ATTR_to)->dims[0]);
    sc_dtype dtype = sc_lower_dtype(l, x);
    outer_but(l, x, from.dim);
    sc_knode i = sc_lower_loop(l, from), raw = sc_lower_here(l, x), index[SC_MAX_RANK];
    sc_knode least = sc_kernel_constant(
        l->k, dtype, sc_dtype_is_float(dtype) ? -(double)INFINITY : -2147483648.0);
    sc_knode value = sc_dtype_is_float(dtype)
                         ? sc_lower_where(l, sc_lower_2(l, SC_NODE_eq, raw, raw), raw, least)
                         : raw;
    uint32_t value_arg = l->escapes[values] ? sc_lower_out(l, values, SC_ARG_OUT, SC_NONE) : 0;
    uint32_t id_arg = l->escapes[ids] ? sc_lower_out(l, ids, SC_ARG_OUT, SC_NONE) : 0;
    sc_knode left = SC_NONE;
    for (int64_t q = 0; q < to.size; q++) {
        phase_over(l, &from, 1);
        sc_knode candidate = left == SC_NONE ? value : sc_lower_where(l, left, value, least);
        sc_knode best =
            sc_kernel_reduced(l->k, sc_kernel_add_reduction(l->k, SC_ITEM_MAX, candidate), false);
        phase_over(l, &from, 1);
        sc_knode is_best = sc_lower_both(l, left, sc_lower_2(l, SC_NODE_eq, value, best));
        sc_knode place = sc_lower_where(l, is_best, i, sc_lower_integer(l, from.size - 1));
        sc_knode pick =
            sc_kernel_reduced(l->k, sc_kernel_add_reduction(l->k, SC_ITEM_MIN, place), false);
        own_index(l, x, from.dim, pick, index);
        sc_knode picked = sc_lower_value(l, x, index);
        phase_over(l, NULL, 0);
        own_index(l, values, to.dim, sc_lower_integer(l, q), index);
        if (l->escapes[values])
            sc_lower_store(l, SC_ITEM_STORE, value_arg, index, picked, SC_NONE);
        if (l->escapes[ids])
            sc_lower_store(l, SC_ITEM_STORE, id_arg, index,
                           sc_lower_position(l, op, from.dim, from.size, pick), SC_NONE);
        sc_knode after = sc_lower_2(l, SC_NODE_and, sc_lower_2(l, SC_NODE_eq, value, best),
                                    sc_lower_2(l, SC_NODE_gt, i, pick));
        left = sc_lower_2(l, SC_NODE_or, sc_lower_2(l, SC_NODE_lt, value, best), after);
    }
}

/* Writes row s to position pos + s of the cache, in place, up to the row's length. */
void root_append(sc_lowering *l, const sc_op *op)
{
    sc_value result = op->first_result, cache = op->operands[0], x = op->operands[1];
    sc_value pos = sc_lower_called(l, op, "pos"), len = sc_lower_called(l, op, "len");
    const sc_type_info *type = sc_lower_type(l, result);
    sc_loop_dim s = loop_of(l, x, sc_op_attr(op, SC_ATTR_dims)->dims[0]),
                t = loop_of(l, result, sc_op_attr(op, SC_ATTR_to)->dims[0]);
    int64_t size = type->dims[sc_lower_at(type, t.dim)].size;
    outer_but(l, x, s.dim);
    sc_knode row = sc_lower_position(l, op, s.dim, s.size, sc_lower_loop(l, s)), position = row;
    sc_knode written = SC_NONE;
    if (pos != SC_NONE)
        position = sc_lower_2(l, SC_NODE_add,
                              sc_kernel_convert(l->k, sc_lower_here(l, pos), SC_DTYPE_i64), row);
    if (len != SC_NONE)
        written = sc_lower_2(l, SC_NODE_lt, row,
                             sc_kernel_convert(l->k, sc_lower_here(l, len), SC_DTYPE_i64));
    sc_knode fits = sc_lower_within(l, position, size);
    if (written != SC_NONE)
        fits = sc_lower_2(l, SC_NODE_or, sc_lower_1(l, SC_NODE_not, written), fits);
    sc_lower_check(l, op, fits, position,
                   "a row is at position {value}, outside its capacity %s = %lld",
                   sc_lower_dim_name(l, t.dim), (long long)size);
    const sc_type_info *rows = sc_lower_type(l, x);
    if (pos != SC_NONE && len == SC_NONE) /* with lengths the bound depends on both */
        sc_lower_ids(l, pos, size - rows->dims[sc_lower_at(rows, s.dim)].size + 1);
    sc_knode there = sc_lower_place(l, op, t.dim, t.size, position);
    bool split = sc_type_shards(&l->m->mesh, type, sc_lower_at(type, t.dim)) > 1;
    sc_knode here = split || written != SC_NONE ? sc_lower_within(l, there, t.size) : SC_NONE,
             value = sc_lower_here(l, x), index[SC_MAX_RANK];
    uint32_t arg = sc_lower_out(l, result, SC_ARG_INOUT, cache);
    own_index(l, result, t.dim, there, index);
    phase_over(l, &s, 1);
    sc_lower_store(l, SC_ITEM_STORE, arg, index, value, sc_lower_both(l, written, here));
}

/* ---- routed products: by definition, an element after the other ---- */

/* The weights of a row. `weights` has the op's indexed dim. Ids that are apart are those of this
 * rank's only part. */
static id_place find_weights(sc_lowering *l, const sc_op *op, sc_value weights)
{
    const sc_attr *parts = sc_op_attr(op, SC_ATTR_parts);
    const sc_value ids = op->operands[2];
    const sc_dim experts = sc_op_attr(op, SC_ATTR_to)->dims[0];
    sc_knode index[SC_MAX_RANK];
    if (parts == NULL || sc_type_find_dim(sc_lower_type(l, ids), parts->dims[0]) < 0)
        return find_place(l, op, ids, weights, experts);
    own_index(l, ids, parts->dims[0], sc_lower_integer(l, 0), index);
    return find_place_of(l, op, ids, sc_lower_value(l, ids, index), true, weights, experts);
}

/* The part in which the row's weights are; SC_NONE: there are no parts. */
static sc_knode part_of(sc_lowering *l, const sc_op *op, sc_value weights, const id_place *row)
{
    const sc_attr *parts = sc_op_attr(op, SC_ATTR_parts);
    const sc_value with[] = {op->operands[0], op->operands[1], op->first_result};
    int64_t count = 0, experts = loop_of(l, weights, sc_op_attr(op, SC_ATTR_to)->dims[0]).size;
    for (uint32_t o = 0; o < sizeof with / sizeof *with; o++) {
        if (parts != NULL && sc_type_find_dim(sc_lower_type(l, with[o]), parts->dims[0]) >= 0)
            count = loop_of(l, with[o], parts->dims[0]).size;
    }
    return count == 0
               ? SC_NONE
               : sc_lower_2(l, SC_NODE_div, row->there, sc_lower_integer(l, experts / count));
}

/* The element of rows at hand: of those that are apart in the row's part. */
static sc_knode read_row(sc_lowering *l, const sc_op *op, sc_value rows, const id_place *row,
                         sc_knode part)
{
    sc_knode index[SC_MAX_RANK] = {0};
    if (part == SC_NONE)
        return sc_lower_here(l, rows);
    own_index(l, rows, sc_op_attr(op, SC_ATTR_parts)->dims[0], part, index);
    return row->here == SC_NONE ? sc_lower_value(l, rows, index)
                                : sc_lower_guarded(l, rows, index, row->here);
}

/* In a result that holds parts apart, only one of them has the row. */
static void keep_part(sc_lowering *l, const sc_op *op, id_place *row, sc_knode part)
{
    const sc_attr *parts = sc_op_attr(op, SC_ATTR_parts);
    if (part == SC_NONE || sc_type_find_dim(sc_lower_type(l, op->first_result), parts->dims[0]) < 0)
        return;
    sc_knode own = sc_lower_loop(l, loop_of(l, op->first_result, parts->dims[0]));
    row->here = sc_lower_both(l, row->here, sc_lower_2(l, SC_NODE_eq, own, part));
}

static void phase_over_named(sc_lowering *l, const sc_op *op, const uint32_t *operands,
                             uint32_t count)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    sc_loop_dims inner = {0};
    for (uint32_t d = 0; d < dims->count; d++) {
        uint32_t o = 0;
        while (o + 1 < count &&
               sc_type_find_dim(sc_lower_type(l, op->operands[operands[o]]), dims->dims[d]) < 0)
            o++;
        inner.dims[inner.count++] = loop_of(l, op->operands[operands[o]], dims->dims[d]);
    }
    sc_lower_phase(l, &inner);
}

static sc_knode wide_product(sc_lowering *l, sc_knode x, sc_knode y, sc_dtype dtype)
{
    return sc_lower_2(l, SC_NODE_mul, sc_kernel_convert(l->k, x, dtype),
                      sc_kernel_convert(l->k, y, dtype));
}

void root_routed_dot(sc_lowering *l, const sc_op *op)
{
    sc_value result = op->first_result, x = op->operands[0], w = op->operands[1];
    outer_but(l, result, SC_NONE);
    id_place row = find_weights(l, op, w);
    sc_knode part = part_of(l, op, w, &row);
    keep_part(l, op, &row, part);
    sc_knode there[SC_MAX_RANK], index[SC_MAX_RANK];
    own_index(l, w, sc_op_attr(op, SC_ATTR_to)->dims[0], row.there, there);
    own_index(l, result, SC_NONE, SC_NONE, index);
    sc_dtype sum = sc_lower_dtype(l, x);
    sc_knode weight =
        row.here == SC_NONE ? sc_lower_value(l, w, there) : sc_lower_guarded(l, w, there, row.here);
    sc_knode product = wide_product(l, read_row(l, op, x, &row, part), weight, sum);
    if (row.here != SC_NONE)
        product = sc_lower_where(l, row.here, product, sc_kernel_constant(l->k, sum, 0));
    uint32_t arg = sc_lower_out(l, result, SC_ARG_OUT, SC_NONE);
    phase_over_named(l, op, (uint32_t[]){0}, 1);
    sc_knode total =
        sc_kernel_reduced(l->k, sc_kernel_add_reduction(l->k, SC_ITEM_SUM, product), false);
    phase_over(l, NULL, 0);
    sc_lower_store(l, SC_ITEM_STORE, arg, index,
                   sc_kernel_convert(l->k, total, sc_lower_dtype(l, result)), SC_NONE);
}

/* Stores zeros, then adds row after row. */
void root_routed_dot_grad(sc_lowering *l, const sc_op *op)
{
    sc_value result = op->first_result;
    sc_loop_dim experts = loop_of(l, result, sc_op_attr(op, SC_ATTR_to)->dims[0]);
    sc_dtype dtype = sc_lower_dtype(l, result);
    sc_knode index[SC_MAX_RANK];
    outer_but(l, result, experts.dim);
    uint32_t arg = sc_lower_out(l, result, SC_ARG_OUT, SC_NONE);
    own_index(l, result, experts.dim, sc_lower_loop(l, experts), index);
    phase_over(l, &experts, 1);
    sc_lower_store(l, SC_ITEM_STORE, arg, index, sc_kernel_constant(l->k, dtype, 0), SC_NONE);
    id_place row = find_weights(l, op, result);
    sc_knode part = part_of(l, op, result, &row), x = read_row(l, op, op->operands[0], &row, part),
             dy = read_row(l, op, op->operands[1], &row, part);
    sc_knode product = wide_product(l, x, dy, dtype);
    own_index(l, result, experts.dim, row.there, index);
    phase_over_named(l, op, (uint32_t[]){0, 1, 2}, 3);
    sc_lower_store(l, SC_ITEM_ADD, arg, index, product, row.here);
}
