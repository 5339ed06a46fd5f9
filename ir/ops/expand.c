/* Expansions: ops by their definitions. When the op's dim is split over ranks, the sums and maxima
 * below become partial reductions, which gives the sharded form: an all_reduce of the max, then one
 * all_reduce of the sums. Everything is computed in the wider of the result's dtype and f32.
 *
 * Never nest emitting calls in one argument list: C leaves the order of evaluation open, so the
 * emitted program would depend on the compiler that built shardc. */
#include "ir/ops/expand.h"

#include "ir/ops/build.h"

#include <float.h>
#include <math.h>

static sc_value emit(sc_expand *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                     const sc_attr *attrs, uint32_t attr_count)
{
    return sc_make_value(&e->e, kind, operands, count, attrs, attr_count);
}

static sc_value emit1(sc_expand *e, sc_op_kind kind, sc_value x)
{
    return sc_make1(&e->e, kind, x);
}

static sc_value emit2(sc_expand *e, sc_op_kind kind, sc_value x, sc_value y)
{
    return sc_make2(&e->e, kind, x, y);
}

static sc_value reduce(sc_expand *e, sc_op_kind kind, sc_value x, const sc_attr *dims)
{
    return emit(e, kind, &x, 1, dims, 1);
}

static sc_value emit_typed(sc_expand *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                           const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type)
{
    return sc_make_as(&e->e, kind, operands, count, attrs, attr_count, type);
}

static sc_value cast(sc_expand *e, sc_value x, sc_dtype dtype)
{
    return sc_make_cast(&e->e, x, dtype);
}

static sc_value constant(sc_expand *e, double value, sc_dtype dtype)
{
    return sc_make_constant(&e->e, value, dtype);
}

/* factor * size ^ exponent, for a dim of x. */
static sc_value sized_constant(sc_expand *e, sc_value x, sc_dim dim, double factor, double exponent,
                               sc_dtype dtype)
{
    const sc_type_info type = *sc_type_of(e->e.m, x);
    return sc_make_sized_constant(&e->e, &(sc_sized_number){&type, dim, factor, exponent, 0},
                                  dtype);
}

static sc_value operand(const sc_expand *e, uint32_t i)
{
    return sc_op_at(e->e.m, e->e.before)->operands[i];
}

static sc_attr dims_of(const sc_expand *e)
{
    return *sc_op_attr(sc_op_at(e->e.m, e->e.before), SC_ATTR_dims);
}

static int64_t size_along(const sc_expand *e, sc_value x, const sc_attr *dims)
{
    const sc_type_info *type = sc_type_of(e->e.m, x);
    int64_t size = 1;
    for (uint32_t i = 0; i < dims->count; i++)
        size *= type->dims[sc_type_find_dim(type, dims->dims[i])].size;
    return size;
}

/* x with the dims, order and groups of the replaced result. */
static sc_value in_order_of(sc_expand *e, sc_value x, sc_value result)
{
    const sc_type_info type = *sc_type_of(e->e.m, result);
    return sc_make_fit(&e->e, x, &type);
}

/* The operand, with composites split into leaves if only some of these are in dims. */
static sc_value operand_along(sc_expand *e, const sc_attr *dims)
{
    return sc_make_apart(&e->e, operand(e, 0), dims);
}

/* x - max(x) along dims. A row without a finite element (every key masked) is shifted by the lowest
 * finite number, so that its weights are 0 and not NaN. */
static sc_value shifted(sc_expand *e, sc_value x, const sc_attr *dims, sc_value *maximum)
{
    sc_dtype dtype = sc_type_of(e->e.m, x)->dtype;
    double lowest = dtype == SC_DTYPE_f64 ? -DBL_MAX : -(double)FLT_MAX;
    sc_value floor = constant(e, lowest, dtype);
    sc_value largest = reduce(e, SC_OP_max, x, dims);
    *maximum = emit2(e, SC_OP_maximum, largest, floor);
    return emit2(e, SC_OP_sub, x, *maximum);
}

/* The sum of shifted weights is at least 1, its largest term, unless the row has no finite element:
 * then 0 is replaced by 1. */
static sc_value at_least_one(sc_expand *e, sc_value total)
{
    return emit2(e, SC_OP_maximum, total, constant(e, 1, sc_type_of(e->e.m, total)->dtype));
}

/* The lowest index of an element equal to the maximum. */
void expand_argmax(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_value x = operand_along(e, &dims);
    const sc_type_info *type = sc_type_of(e->e.m, x);
    sc_type_info index_type = {
        .dtype = SC_DTYPE_i32, .rank = 1, .placement = sc_placement_replicated()};
    index_type.dims[0] = type->dims[sc_type_find_dim(type, dims.dims[0])];
    sc_value maximum = reduce(e, SC_OP_max, x, &dims);
    sc_value is_maximum = emit2(e, SC_OP_eq, x, maximum);
    sc_value index = emit_typed(e, SC_OP_index, NULL, 0, &dims, 1, &index_type);
    sc_value beyond = sized_constant(e, x, dims.dims[0], 1, 1, SC_DTYPE_i32);
    sc_value candidate = emit(e, SC_OP_where, (sc_value[]){is_maximum, index, beyond}, 3, NULL, 0);
    e->results[0] = reduce(e, SC_OP_min, candidate, &dims);
}

void expand_softmax(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->e.m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand_along(e, &dims), sc_wide(dtype)), maximum;
    sc_value weights = emit1(e, SC_OP_exp, shifted(e, x, &dims, &maximum));
    sc_value total = at_least_one(e, reduce(e, SC_OP_sum, weights, &dims));
    sc_value result = cast(e, emit2(e, SC_OP_div, weights, total), dtype);
    e->results[0] = in_order_of(e, result, sc_op_at(e->e.m, e->e.before)->first_result);
}

void expand_log_softmax(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->e.m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand_along(e, &dims), sc_wide(dtype)), maximum;
    sc_value low = shifted(e, x, &dims, &maximum);
    sc_value total = at_least_one(e, reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, low), &dims));
    sc_value result = cast(e, emit2(e, SC_OP_sub, low, emit1(e, SC_OP_log, total)), dtype);
    e->results[0] = in_order_of(e, result, sc_op_at(e->e.m, e->e.before)->first_result);
}

void expand_logsumexp(sc_expand *e)
{
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->e.m, operand(e, 0))->dtype;
    sc_value x = cast(e, operand_along(e, &dims), sc_wide(dtype)), maximum;
    sc_value total =
        reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, shifted(e, x, &dims, &maximum)), &dims);
    e->results[0] = cast(e, emit2(e, SC_OP_add, emit1(e, SC_OP_log, total), maximum), dtype);
}

/* With z = logits - max: nll = log(sum exp z) - z[target]; smoothing s mixes in the mean over V of
 * -log p = log(sum exp z) - mean z. The sums of a row (two, or three with smoothing) are siblings
 * and share one reduction. Ignored positions read entry 0 and give 0. */
void expand_xent(sc_expand *e)
{
    const sc_op *op = sc_op_at(e->e.m, e->e.before);
    double ignore = (double)sc_op_int(op, SC_ATTR_ignore, -100),
           smoothing = sc_op_number(op, SC_ATTR_smoothing, 0);
    sc_attr dims = dims_of(e);
    sc_dtype dtype = sc_type_of(e->e.m, op->first_result)->dtype;
    sc_value target = sc_make_wide_ids(&e->e, operand(e, 1)), maximum;
    sc_dtype id_dtype = sc_type_of(e->e.m, target)->dtype;
    sc_value low = shifted(e, cast(e, operand_along(e, &dims), dtype), &dims, &maximum);
    sc_value ignored = emit2(e, SC_OP_eq, target, constant(e, ignore, id_dtype));
    sc_value id =
        emit(e, SC_OP_where, (sc_value[]){ignored, constant(e, 0, id_dtype), target}, 3, NULL, 0);
    sc_value total = reduce(e, SC_OP_sum, emit1(e, SC_OP_exp, low), &dims);
    sc_value picked = emit(e, SC_OP_gather, (sc_value[]){low, id}, 2, &dims, 1);
    if (smoothing != 0) {
        sc_value share = sized_constant(e, low, dims.dims[0], smoothing, -1, dtype);
        sc_value mean = emit2(e, SC_OP_mul, reduce(e, SC_OP_sum, low, &dims), share);
        sc_value kept = emit2(e, SC_OP_mul, picked, constant(e, 1 - smoothing, dtype));
        picked = emit2(e, SC_OP_add, kept, mean);
    }
    sc_value log_total = emit1(e, SC_OP_log, total);
    sc_value loss = emit2(e, SC_OP_sub, log_total, picked);
    sc_value masked =
        emit(e, SC_OP_where, (sc_value[]){ignored, constant(e, 0, dtype), loss}, 3, NULL, 0);
    e->results[0] = in_order_of(e, masked, sc_op_at(e->e.m, e->e.before)->first_result);
    if (sc_op_at(e->e.m, e->e.before)->result_count > 1)
        e->results[1] = in_order_of(e, emit2(e, SC_OP_add, log_total, maximum),
                                    sc_result(e->e.m, e->e.before, 1));
}

bool sc_is_ignoring(const sc_module *m, const sc_op *op, sc_value *x, double *ignore)
{
    if (op->kind != SC_OP_where)
        return false;
    const sc_op *condition = sc_op_at(m, sc_def(m, op->operands[0])),
                *instead = sc_op_at(m, sc_def(m, op->operands[1]));
    if (condition->kind != SC_OP_eq || instead->kind != SC_OP_constant ||
        sc_op_number(instead, SC_ATTR_value, -1) != 0)
        return false;
    const sc_op *second = sc_op_at(m, sc_def(m, condition->operands[1]));
    if (second->kind != SC_OP_constant || condition->operands[0] != op->operands[2])
        return false;
    *x = op->operands[2];
    *ignore = sc_op_number(second, SC_ATTR_value, 0);
    return true;
}

/* Returns a dim of the expansion, named after the one it derives from. */
static sc_dim fresh_dim(sc_expand *e, sc_dim like, const char *suffix)
{
    sc_sym name = sc_intern_printf(&e->e.m->context->names, "%s.%s",
                                   sc_text(e->e.m->context, e->e.m->dims.data[like].name), suffix);
    sc_dim known = sc_module_find_dim(e->e.m, name);
    return known != SC_NONE ? known : sc_module_add_dim(e->e.m, name);
}

/* `type` with `removed` dims at index `at` replaced by `dims`. */
static sc_type_info with_dims(const sc_type_info *type, uint32_t at, uint32_t removed,
                              const sc_type_dim *dims, uint32_t count)
{
    sc_type_info result = *type;
    result.rank = 0;
    result.placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type->rank; i++) {
        if (i == at) {
            for (uint32_t d = 0; d < count; d++)
                result.dims[result.rank++] = dims[d];
        }
        if (i < at || i >= at + removed)
            result.dims[result.rank++] = type->dims[i];
    }
    return result;
}

/* Splits X into shards of parts, takes the best of each part with their indices in X, then the best
 * of all candidates. Candidates are in the order of X, so the lowest index still wins a tie. Only
 * candidates are communicated; if they and their indices are no fewer bytes than X itself, the op
 * declines and X is gathered. */
void expand_topk(sc_expand *e)
{
    sc_attr dims = dims_of(e), to = *sc_op_attr(sc_op_at(e->e.m, e->e.before), SC_ATTR_to);
    sc_value x = operand(e, 0);
    const sc_type_info type = *sc_type_of(e->e.m, x);
    uint32_t at = (uint32_t)sc_type_find_dim(&type, dims.dims[0]);
    int64_t shards = (int64_t)e->shards,
            part = sc_dim_padded(e->e.m, type.dims[at].dim, type.dims[at].size) / shards,
            wanted = size_along(e, sc_op_at(e->e.m, e->e.before)->first_result, &to);
    int64_t travels = shards * (wanted < part ? wanted : part);
    uint32_t each = sc_dtypes[type.dtype].bytes;
    bool is_expensive =
             travels * (each + sc_dtypes[SC_DTYPE_i32].bytes) >= type.dims[at].size * each,
         is_full = type.rank == SC_MAX_RANK;
    /* full: no room for shards and parts as dims */
    if (e->may_decline && (is_expensive || is_full)) {
        e->results[0] = SC_NONE;
        return;
    }
    sc_dim shard = fresh_dim(e, dims.dims[0], "shard"), inner = fresh_dim(e, dims.dims[0], "part"),
           best = fresh_dim(e, dims.dims[0], "best"),
           candidate = fresh_dim(e, dims.dims[0], "candidate");
    e->made_dim = shard;
    /* parts are treated as complete: padding must lose against every element */
    if (part * shards != type.dims[at].size) {
        double least = sc_dtype_is_float(type.dtype) ? -(double)INFINITY : -2147483648.0;
        sc_attr padding[] = {dims, sc_attr_number(SC_ATTR_value, least)};
        x = emit(e, SC_OP_mask, &x, 1, padding, 2);
    }
    sc_type_dim halves[] = {{shard, SC_NONE, shards}, {inner, SC_NONE, part}};
    sc_type_info unfolded = with_dims(&type, at, 1, halves, 2);
    sc_attr unfold[] = {dims, sc_attr_dims(e->e.m, SC_ATTR_to, (sc_dim[]){shard, inner}, 2)};
    x = emit_typed(e, SC_OP_unfold, &x, 1, unfold, 2, &unfolded);

    sc_attr local[] = {sc_attr_dims(e->e.m, SC_ATTR_dims, &inner, 1),
                       sc_attr_dims(e->e.m, SC_ATTR_to, &best, 1)};
    sc_op_id made =
        sc_make_sized(&e->e, SC_OP_topk, &x, 1, local, 2, wanted < part ? wanted : part);
    sc_type_info index_type = {.dtype = SC_DTYPE_i32,
                               .rank = 1,
                               .dims = {{shard, SC_NONE, shards}},
                               .placement = sc_placement_replicated()};
    sc_attr shard_dims = sc_attr_dims(e->e.m, SC_ATTR_dims, &shard, 1);
    sc_value factor = sized_constant(e, x, inner, 1, 1, SC_DTYPE_i32);
    sc_value index = emit_typed(e, SC_OP_index, NULL, 0, &shard_dims, 1, &index_type);
    sc_value first = emit2(e, SC_OP_mul, index, factor);
    sc_value values = sc_result(e->e.m, made, 0),
             ids = emit2(e, SC_OP_add, sc_result(e->e.m, made, 1), first);

    sc_attr fold[] = {sc_attr_dims(e->e.m, SC_ATTR_dims, (sc_dim[]){shard, best}, 2),
                      sc_attr_dims(e->e.m, SC_ATTR_to, &candidate, 1)};
    values = emit(e, SC_OP_rename, &values, 1, fold, 2);
    ids = emit(e, SC_OP_rename, &ids, 1, fold, 2);
    sc_attr last[] = {sc_attr_dims(e->e.m, SC_ATTR_dims, &candidate, 1), to};
    made = sc_make_sized(&e->e, SC_OP_topk, &values, 1, last, 2, wanted);
    sc_attr candidates = sc_attr_dims(e->e.m, SC_ATTR_dims, &candidate, 1);
    e->results[0] = sc_result(e->e.m, made, 0);
    e->results[1] =
        emit(e, SC_OP_gather, (sc_value[]){ids, sc_result(e->e.m, made, 1)}, 2, &candidates, 1);
}
