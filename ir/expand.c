/* Ops by their definitions. Each is what the op means; with its dim split over ranks, the sums and maxima below become pending
 * reductions, which is the sharded form: all_reduce max, then one all_reduce of the sums. Everything is computed in the result's dtype
 * or f32, whichever is wider. */
#include "ir/expand.h"

#include <float.h>

static sc_value emit(sc_expand *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs, uint32_t attr_count)
{
    sc_shape_request request = {
        .m = e->m, .kind = kind, .operands = operands, .operand_count = count, .attrs = attrs, .attr_count = attr_count};
    sc_op_id made = sc_op_build(&request, sc_op_at(e->m, e->op)->func, e->op, e->op);
    if (e->made != NULL)
        e->made(e, made, e->user);
    return sc_result(e->m, made, 0);
}

static sc_value emit1(sc_expand *e, sc_op_kind kind, sc_value x)
{
    return emit(e, kind, &x, 1, NULL, 0);
}

static sc_value emit2(sc_expand *e, sc_op_kind kind, sc_value x, sc_value y)
{
    return emit(e, kind, (sc_value[]){x, y}, 2, NULL, 0);
}

static sc_value reduce(sc_expand *e, sc_op_kind kind, sc_value x, const sc_attr *dims)
{
    return emit(e, kind, &x, 1, dims, 1);
}

/* An op whose result type is given. */
static sc_value emit_typed(sc_expand *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs,
                           uint32_t attr_count, const sc_type_info *type)
{
    sc_type result = sc_type_intern(e->m, type);
    sc_op_id made = sc_op_new(e->m, sc_op_at(e->m, e->op)->func, e->op, kind, operands, count, attrs, attr_count, &result, 1, e->op);
    if (e->made != NULL)
        e->made(e, made, e->user);
    return sc_result(e->m, made, 0);
}

static sc_value cast(sc_expand *e, sc_value x, sc_dtype dtype)
{
    sc_type_info type = *sc_type_of(e->m, x);
    if (type.dtype == dtype)
        return x;
    type.dtype = dtype;
    type.placement = sc_placement_replicated();
    return emit_typed(e, SC_OP_cast, &x, 1, NULL, 0, &type);
}

static sc_value constant(sc_expand *e, double value, sc_dtype dtype)
{
    sc_type_info type = {.dtype = dtype, .placement = sc_placement_replicated()};
    sc_attr attr = sc_attr_number(SC_ATTR_value, value);
    return emit_typed(e, SC_OP_constant, NULL, 0, &attr, 1, &type);
}

static sc_value operand(const sc_expand *e, uint32_t i)
{
    return sc_op_at(e->m, e->op)->operands[i];
}

static sc_attr dims_of(const sc_expand *e)
{
    return *sc_op_attr(sc_op_at(e->m, e->op), SC_ATTR_dims);
}

static sc_dtype wide(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

static int64_t size_along(const sc_expand *e, sc_value x, const sc_attr *dims)
{
    const sc_type_info *type = sc_type_of(e->m, x);
    int64_t size = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        size *= type->dims[sc_type_find_dim(type, dims->dims[i])].size;
    return size;
}

/* The same dims in the order that the replaced result has them. */
static sc_value in_order_of(sc_expand *e, sc_value x, sc_value result)
{
    sc_type_info type = *sc_type_of(e->m, result);
    type.placement = sc_placement_replicated();
    bool same = true;
    for (uint32_t i = 0; i < type.rank; i++)
        same = same && sc_type_of(e->m, x)->dims[i].dim == type.dims[i].dim;
    return same ? x : emit_typed(e, SC_OP_transpose, &x, 1, NULL, 0, &type);
}

/* x - max(x), along dims. A row without a finite element (every key masked) is shifted by the lowest finite number, so that its weights
 * are 0 and not NaN. */
static sc_value shifted(sc_expand *e, sc_value x, const sc_attr *dims, sc_value *maximum)
{
    sc_dtype dtype = sc_type_of(e->m, x)->dtype;
    double lowest = dtype == SC_DTYPE_f64 ? -DBL_MAX : -(double)FLT_MAX;
    *maximum = emit2(e, SC_OP_maximum, reduce(e, SC_OP_max, x, dims), constant(e, lowest, dtype));
    return emit2(e, SC_OP_sub, x, *maximum);
}

/* The sum of shifted weights is at least 1, its largest term, unless the row has no finite element: then 1 stands in for 0. */
static sc_value at_least_one(sc_expand *e, sc_value total)
{
    return emit2(e, SC_OP_maximum, total, constant(e, 1, sc_type_of(e->m, total)->dtype));
}

/* The lowest index whose element equals the maximum. */
void expand_argmax(sc_expand *e)
{
    sc_value x = operand(e, 0);
    sc_attr dims = dims_of(e);
    const sc_type_info *type = sc_type_of(e->m, x);
    sc_type_info index_type = {.dtype = SC_DTYPE_i32, .rank = 1, .placement = sc_placement_replicated()};
    index_type.dims[0] = type->dims[sc_type_find_dim(type, dims.dims[0])];
    double beyond = (double)index_type.dims[0].size;
    sc_value maximum = reduce(e, SC_OP_max, x, &dims);
    sc_value is_maximum = emit2(e, SC_OP_eq, x, maximum);
    sc_value index = emit_typed(e, SC_OP_index, NULL, 0, &dims, 1, &index_type);
    sc_value candidate = emit(e, SC_OP_where, (sc_value[]){is_maximum, index, constant(e, beyond, SC_DTYPE_i32)}, 3, NULL, 0);
    e->results[0] = reduce(e, SC_OP_min, candidate, &dims);
}

void expand_softmax(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand(e, 0), wide(dtype)), maximum;
    sc_value weights = emit1(e, SC_OP_exp, shifted(e, x, &dims, &maximum));
    sc_value total = at_least_one(e, reduce(e, SC_OP_sum, weights, &dims));
    e->results[0] = cast(e, emit2(e, SC_OP_div, weights, total), dtype);
}

void expand_log_softmax(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand(e, 0), wide(dtype)), maximum;
    sc_value low = shifted(e, x, &dims, &maximum);
    sc_value total = at_least_one(e, reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, low), &dims));
    e->results[0] = cast(e, emit2(e, SC_OP_sub, low, emit1(e, SC_OP_log, total)), dtype);
}

void expand_logsumexp(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand(e, 0), wide(dtype)), maximum;
    sc_value total = reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, shifted(e, x, &dims, &maximum)), &dims);
    e->results[0] = cast(e, emit2(e, SC_OP_add, emit1(e, SC_OP_log, total), maximum), dtype);
}

/* With z = logits - max: nll = log(sum exp z) - z[target]; smoothing s mixes in the mean over V of -log p = log(sum exp z) - mean z.
 * Both sums of a row (and of smoothing's third) are siblings: one reduction. Ignored positions read entry 0 and give 0. */
void expand_xent(sc_expand *e)
{
    const sc_op *op = sc_op_at(e->m, e->op);
    double ignore = (double)sc_op_int(op, SC_ATTR_ignore, -100), smoothing = sc_op_number(op, SC_ATTR_smoothing, 0);
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->m, op->first_result)->dtype;
    sc_value target = operand(e, 1), maximum;
    sc_dtype id_dtype = sc_type_of(e->m, target)->dtype;
    sc_value low = shifted(e, cast(e, operand(e, 0), dtype), &dims, &maximum);
    sc_value ignored = emit2(e, SC_OP_eq, target, constant(e, ignore, id_dtype));
    sc_value id = emit(e, SC_OP_where, (sc_value[]){ignored, constant(e, 0, id_dtype), target}, 3, NULL, 0);
    sc_value total = reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, low), &dims);
    sc_value picked = emit(e, SC_OP_gather, (sc_value[]){low, id}, 2, &dims, 1);
    sc_value mean = SC_NONE;
    if (smoothing != 0)
        mean = emit2(e, SC_OP_mul, reduce(e, SC_OP_sum, low, &dims), constant(e, smoothing / (double)size_along(e, low, &dims), dtype));
    if (smoothing != 0)
        picked = emit2(e, SC_OP_add, emit2(e, SC_OP_mul, picked, constant(e, 1 - smoothing, dtype)), mean);
    sc_value loss = emit2(e, SC_OP_sub, emit1(e, SC_OP_log, total), picked);
    sc_value masked = emit(e, SC_OP_where, (sc_value[]){ignored, constant(e, 0, dtype), loss}, 3, NULL, 0);
    e->results[0] = in_order_of(e, masked, sc_op_at(e->m, e->op)->first_result);
}
