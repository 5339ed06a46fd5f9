#include "ir/ops/build.h"

#include <math.h>

static void note(sc_emitter *e, sc_op_id made)
{
    if (e->made != NULL)
        e->made(e, made);
}

sc_op_id sc_make_sized(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                       const sc_attr *attrs, uint32_t attr_count, int64_t new_size)
{
    sc_shape_request request = {.m = e->m,
                                .kind = kind,
                                .operands = operands,
                                .operand_count = count,
                                .attrs = attrs,
                                .attr_count = attr_count,
                                .new_size = new_size};
    sc_op_id made = sc_op_build(&request, e->func, e->before, e->like);
    note(e, made);
    return made;
}

sc_op_id sc_make_op(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                    const sc_attr *attrs, uint32_t attr_count)
{
    return sc_make_sized(e, kind, operands, count, attrs, attr_count, 0);
}

sc_value sc_make_value(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                       const sc_attr *attrs, uint32_t attr_count)
{
    return sc_result(e->m, sc_make_op(e, kind, operands, count, attrs, attr_count), 0);
}

sc_value sc_make1(sc_emitter *e, sc_op_kind kind, sc_value x)
{
    return sc_make_value(e, kind, &x, 1, NULL, 0);
}

sc_value sc_make2(sc_emitter *e, sc_op_kind kind, sc_value x, sc_value y)
{
    return sc_make_value(e, kind, (sc_value[]){x, y}, 2, NULL, 0);
}

sc_value sc_make_as(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                    const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type)
{
    sc_type_info whole = *type;
    whole.placement = sc_placement_replicated();
    sc_type result = sc_type_intern(e->m, &whole);
    sc_op_id made = sc_op_new(e->m, e->func, e->before, kind, operands, count, attrs, attr_count,
                              &result, 1, e->like);
    note(e, made);
    return sc_result(e->m, made, 0);
}

sc_value sc_make_cast(sc_emitter *e, sc_value x, sc_dtype dtype)
{
    sc_type_info type = *sc_type_of(e->m, x);
    if (type.dtype == dtype)
        return x;
    /* narrowing a widened value gives back the original */
    const sc_op *op = sc_op_at(e->m, sc_def(e->m, x));
    if (op->kind == SC_OP_cast && sc_type_of(e->m, op->operands[0])->dtype == dtype &&
        sc_dtype_is_float(dtype) && sc_dtypes[type.dtype].bytes > sc_dtypes[dtype].bytes)
        return op->operands[0];
    type.dtype = dtype;
    return sc_make_as(e, SC_OP_cast, &x, 1, NULL, 0, &type);
}

sc_value sc_make_constant(sc_emitter *e, double value, sc_dtype dtype)
{
    sc_type_info type = {.dtype = dtype};
    sc_attr attr = sc_attr_number(SC_ATTR_value, value);
    return sc_make_as(e, SC_OP_constant, NULL, 0, &attr, 1, &type);
}

sc_value sc_make_sized_constant(sc_emitter *e, const sc_sized_number *number, sc_dtype dtype)
{
    double size = (double)number->like->dims[sc_type_find_dim(number->like, number->dim)].size;
    double value = number->exponent < 0 ? number->factor / pow(size, -number->exponent)
                                        : number->factor * pow(size, number->exponent);
    sc_type_info type = {.dtype = dtype};
    sc_attr attrs[4] = {sc_attr_number(SC_ATTR_value, value + number->plus),
                        sc_attr_dims(e->m, SC_ATTR_sizes, &number->dim, 1)};
    uint32_t count = 2;
    if (number->exponent != 1)
        attrs[count++] = sc_attr_number(SC_ATTR_exponent, number->exponent);
    if (number->plus != 0)
        attrs[count++] = sc_attr_number(SC_ATTR_plus, number->plus);
    return sc_make_as(e, SC_OP_constant, NULL, 0, attrs, count, &type);
}

sc_value sc_make_scaled(sc_emitter *e, sc_value x, double factor)
{
    if (factor == 1)
        return x;
    sc_value constant = sc_make_constant(e, factor, sc_type_of(e->m, x)->dtype);
    return sc_make2(e, SC_OP_mul, x, constant);
}

sc_value sc_make_plus(sc_emitter *e, sc_value x, double term)
{
    sc_value constant = sc_make_constant(e, term, sc_type_of(e->m, x)->dtype);
    return sc_make2(e, SC_OP_add, x, constant);
}

sc_value sc_make_index(sc_emitter *e, const sc_type_info *type, sc_dim dim)
{
    sc_type_info index = {.dtype = SC_DTYPE_i32, .rank = 1};
    index.dims[0] = type->dims[sc_type_find_dim(type, dim)];
    index.dims[0].group = SC_NONE;
    sc_attr attr = sc_attr_dims(e->m, SC_ATTR_dims, &dim, 1);
    return sc_make_as(e, SC_OP_index, NULL, 0, &attr, 1, &index);
}

sc_value sc_make_wide_ids(sc_emitter *e, sc_value ids)
{
    return sc_dtypes[sc_type_of(e->m, ids)->dtype].bytes < 4 ? sc_make_cast(e, ids, SC_DTYPE_i32)
                                                             : ids;
}

sc_value sc_make_where(sc_emitter *e, sc_value condition, sc_value yes, sc_value no)
{
    return sc_make_value(e, SC_OP_where, (sc_value[]){condition, yes, no}, 3, NULL, 0);
}

/* Reorders or regroups the dims of x to match `to`. */
static sc_value reorder(sc_emitter *e, sc_value x, const sc_type_info *to)
{
    const sc_type_info *from = sc_type_of(e->m, x);
    bool same_order = true, same_groups = true;
    for (uint32_t i = 0; i < to->rank; i++) {
        same_order = same_order && from->dims[i].dim == to->dims[i].dim;
        same_groups = same_groups && from->dims[i].group == to->dims[i].group;
    }
    if (same_order && same_groups)
        return x;
    return sc_make_as(e, same_order ? SC_OP_regroup : SC_OP_transpose, &x, 1, NULL, 0, to);
}

sc_value sc_make_apart(sc_emitter *e, sc_value x, const sc_attr *dims)
{
    const sc_type_info from = *sc_type_of(e->m, x);
    sc_type_info to = from;
    for (uint32_t i = 0; i < from.rank; i++) {
        for (uint32_t k = 0; k < from.rank; k++) {
            if (from.dims[i].group == from.dims[k].group && sc_attr_has_dim(dims, from.dims[k].dim))
                to.dims[i].group = SC_NONE;
        }
    }
    return reorder(e, x, &to);
}

sc_value sc_make_fit(sc_emitter *e, sc_value x, const sc_type_info *type)
{
    const sc_type_info from = *sc_type_of(e->m, x);
    sc_type_info to = *type;
    to.dtype = from.dtype;
    sc_dim extra[SC_MAX_RANK];
    uint32_t count = 0, missing = 0;
    for (uint32_t i = 0; i < from.rank; i++) {
        if (sc_type_find_dim(&to, from.dims[i].dim) < 0)
            extra[count++] = from.dims[i].dim;
    }
    for (uint32_t i = 0; i < to.rank; i++)
        missing += sc_type_find_dim(&from, to.dims[i].dim) < 0;
    if (count > 0) {
        sc_attr dims = sc_attr_dims(e->m, SC_ATTR_dims, extra, count);
        x = sc_make_value(e, SC_OP_sum, &x, 1, &dims, 1);
    }
    if (missing > 0)
        return sc_make_as(e, SC_OP_broadcast, &x, 1, NULL, 0, &to);
    return reorder(e, x, &to);
}
