/* Derivatives of contractions, reductions, indexing and attention. Statistics are computed in f32
 * or wider, like the ops themselves. */
#include "ir/ops/derive.h"

#include <float.h>

#include "ir/ops/build.h"
#include "ir/ops/sinks.h"

static sc_value in(sc_derive *d, uint32_t i)
{
    return d->read(d, sc_op_at(d->e.m, d->op)->operands[i]);
}

static sc_value out(sc_derive *d, uint32_t i)
{
    return d->read(d, sc_result(d->e.m, d->op, i));
}

static sc_attr attr_of(const sc_derive *d, sc_attr_key key)
{
    return *sc_op_attr(sc_op_at(d->e.m, d->op), key);
}

static const sc_type_info *operand_type(const sc_derive *d, uint32_t i)
{
    return sc_type_of(d->e.m, sc_op_at(d->e.m, d->op)->operands[i]);
}

static sc_value mul(sc_derive *d, sc_value x, sc_value y)
{
    return sc_make2(&d->e, SC_OP_mul, x, y);
}

static sc_value sub(sc_derive *d, sc_value x, sc_value y)
{
    return sc_make2(&d->e, SC_OP_sub, x, y);
}

static sc_value sum(sc_derive *d, sc_value x, const sc_attr *dims)
{
    return sc_make_value(&d->e, SC_OP_sum, &x, 1, dims, 1);
}

static sc_value apart(sc_derive *d, sc_value x)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    return sc_make_apart(&d->e, x, &dims);
}

static sc_value zero_like(sc_derive *d, sc_value x)
{
    return sc_make_constant(&d->e, 0, sc_type_of(d->e.m, x)->dtype);
}

/* ---- contractions ---- */

/* Contracts the other operand with the cotangent over the dims that this operand lacks. */
void derive_dot(sc_derive *d)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!d->wanted[i])
            continue;
        const sc_type_info type = *operand_type(d, i), other = *operand_type(d, 1 - i);
        sc_dim dims[SC_MAX_RANK];
        uint32_t count = 0;
        for (uint32_t k = 0; k < other.rank; k++) {
            if (sc_type_find_dim(&type, other.dims[k].dim) < 0)
                dims[count++] = other.dims[k].dim;
        }
        sc_value x = apart(d, in(d, 1 - i)), y = d->cotangents[0];
        /* this order gives the result the operand's dim order */
        sc_value operands[2] = {i == 0 ? y : x, i == 0 ? x : y};
        if (count == 0) {
            d->gradients[i] = mul(d, operands[0], operands[1]);
            continue;
        }
        sc_attr attrs[2] = {sc_attr_dims(d->e.m, SC_ATTR_dims, dims, count),
                            sc_attr_int(SC_ATTR_wide, 1)};
        bool wide = d->widened[i] && type.dtype != sc_wide(type.dtype);
        d->gradients[i] = sc_make_value(&d->e, SC_OP_dot, operands, 2, attrs, wide ? 2 : 1);
    }
}

/* ---- reductions ---- */

/* Lists the attribute's dims in the operand's order. */
static uint32_t dims_in_order(const sc_type_info *type, const sc_attr *listed, sc_dim *dims)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        for (uint32_t k = 0; k < listed->count; k++) {
            if (listed->dims[k] == type->dims[i].dim)
                dims[count++] = type->dims[i].dim;
        }
    }
    return count;
}

/* Routes the cotangent to the first extreme element, dim by dim from the last; for several dims
 * that is the first in row-major order. */
static void to_extreme(sc_derive *d, bool smallest)
{
    const sc_type_info type = *operand_type(d, 0);
    const sc_attr listed = attr_of(d, SC_ATTR_dims);
    sc_attr one[SC_MAX_RANK];
    sc_dim dims[SC_MAX_RANK];
    sc_value levels[SC_MAX_RANK];
    uint32_t count = dims_in_order(&type, &listed, dims);
    sc_value x = apart(d, in(d, 0));
    levels[count - 1] = smallest ? sc_make1(&d->e, SC_OP_neg, x) : x;
    for (uint32_t i = count; i-- > 0;) {
        one[i] = sc_attr_dims(d->e.m, SC_ATTR_dims, &dims[i], 1);
        if (i > 0)
            levels[i - 1] = sc_make_value(&d->e, SC_OP_max, &levels[i], 1, &one[i], 1);
    }
    sc_value y = d->cotangents[0];
    for (uint32_t i = 0; i < count; i++) {
        sc_value best = sc_make_value(&d->e, SC_OP_argmax, &levels[i], 1, &one[i], 1);
        sc_value index = sc_make_index(&d->e, &type, dims[i]);
        sc_value chosen = sc_make2(&d->e, SC_OP_eq, best, index);
        y = sc_make_where(&d->e, chosen, y, zero_like(d, y));
    }
    d->gradients[0] = y;
}

void derive_max(sc_derive *d)
{
    to_extreme(d, false);
}

void derive_min(sc_derive *d)
{
    to_extreme(d, true);
}

/* y (dy - sum(y dy)) */
void derive_softmax(sc_derive *d)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    sc_dtype wide = sc_wide(operand_type(d, 0)->dtype);
    sc_value y = apart(d, sc_make_cast(&d->e, out(d, 0), wide)),
             dy = apart(d, sc_make_cast(&d->e, d->cotangents[0], wide));
    sc_value mean = sum(d, mul(d, dy, y), &dims);
    sc_value centred = sub(d, dy, mean);
    d->gradients[0] = mul(d, centred, y);
}

/* dy - exp(y) sum(dy) */
void derive_log_softmax(sc_derive *d)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    sc_dtype wide = sc_wide(operand_type(d, 0)->dtype);
    sc_value y = apart(d, sc_make_cast(&d->e, out(d, 0), wide)),
             dy = apart(d, sc_make_cast(&d->e, d->cotangents[0], wide));
    sc_value weights = sc_make1(&d->e, SC_OP_exp, y), total = sum(d, dy, &dims);
    sc_value share = mul(d, weights, total);
    d->gradients[0] = sub(d, dy, share);
}

/* exp(x - lse). A row without a finite element gets weights of 0 instead of NaN. */
static sc_value weights_of(sc_derive *d, sc_value x, sc_value lse)
{
    sc_dtype dtype = sc_type_of(d->e.m, lse)->dtype;
    sc_value lowest =
        sc_make_constant(&d->e, dtype == SC_DTYPE_f64 ? -DBL_MAX : -(double)FLT_MAX, dtype);
    sc_value finite = sc_make2(&d->e, SC_OP_maximum, lse, lowest),
             wide = sc_make_cast(&d->e, apart(d, x), dtype);
    return sc_make1(&d->e, SC_OP_exp, sub(d, wide, finite));
}

void derive_logsumexp(sc_derive *d)
{
    sc_dtype wide = sc_wide(operand_type(d, 0)->dtype);
    sc_value lse = sc_make_cast(&d->e, out(d, 0), wide),
             dy = sc_make_cast(&d->e, d->cotangents[0], wide);
    sc_value weights = weights_of(d, in(d, 0), lse);
    d->gradients[0] = mul(d, weights, dy);
}

/* (softmax - (1 - s) onehot - s / V) dy; 0 where the target is ignored. */
void derive_xent(sc_derive *d)
{
    const sc_op *op = sc_op_at(d->e.m, d->op);
    double ignore = (double)sc_op_int(op, SC_ATTR_ignore, -100),
           smoothing = sc_op_number(op, SC_ATTR_smoothing, 0);
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    const sc_type_info logits = *operand_type(d, 0);
    sc_value target = sc_make_wide_ids(&d->e, in(d, 1)),
             weights = weights_of(d, in(d, 0), out(d, 1));
    sc_dtype dtype = sc_type_of(d->e.m, weights)->dtype,
             id_dtype = sc_type_of(d->e.m, target)->dtype;
    sc_value index = sc_make_index(&d->e, &logits, dims.dims[0]);
    sc_value hit = sc_make2(&d->e, SC_OP_eq, target, sc_make_cast(&d->e, index, id_dtype));
    sc_value onehot = sc_make_scaled(&d->e, sc_make_cast(&d->e, hit, dtype), 1 - smoothing);
    sc_value slope = sub(d, weights, onehot);
    if (smoothing != 0)
        slope = sc_make2(
            &d->e, SC_OP_add, slope,
            sc_make_sized_constant(
                &d->e, &(sc_sized_number){&logits, dims.dims[0], -smoothing, -1, 0}, dtype));
    sc_value ignored = sc_make2(&d->e, SC_OP_eq, target, sc_make_constant(&d->e, ignore, id_dtype));
    sc_value zero = zero_like(d, d->cotangents[0]);
    sc_value dy = sc_make_where(&d->e, ignored, zero, d->cotangents[0]);
    d->gradients[0] = mul(d, slope, dy);
}

void derive_cumsum(sc_derive *d)
{
    const sc_op *op = sc_op_at(d->e.m, d->op);
    bool reverse = sc_op_int(op, SC_ATTR_reverse, 0) == 0;
    sc_attr attrs[2] = {attr_of(d, SC_ATTR_dims), sc_attr_int(SC_ATTR_reverse, 1)};
    sc_value y = d->cotangents[0];
    d->gradients[0] = sc_make_value(&d->e, SC_OP_cumsum, &y, 1, attrs, reverse ? 2 : 1);
}

/* ---- indexing ---- */

static sc_value scatter(sc_derive *d, sc_value y, sc_value ids)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    sc_type_info type = *operand_type(d, 0);
    type.dtype = d->widened[0] ? sc_wide(type.dtype) : type.dtype;
    return sc_make_as(&d->e, SC_OP_scatter_add, (sc_value[]){y, ids}, 2, &dims, 1, &type);
}

void derive_gather(sc_derive *d)
{
    if (d->wanted[0])
        d->gradients[0] = scatter(d, d->cotangents[0], in(d, 1));
}

/* Lists the dims of x, and of the others, that w lacks: those of rows. */
static uint32_t dims_of_rows(const sc_derive *d, const sc_type_info *dy, sc_dim *dims)
{
    const sc_type_info *w = operand_type(d, 1), *of[] = {operand_type(d, 0), dy};
    uint32_t count = 0;
    for (uint32_t t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < of[t]->rank; i++) {
            sc_dim dim = of[t]->dims[i].dim;
            bool known = sc_type_find_dim(w, dim) >= 0;
            for (uint32_t k = 0; k < count; k++)
                known = known || dims[k] == dim;
            if (!known)
                dims[count++] = dim;
        }
    }
    return count;
}

/* Each row of the cotangent meets the weights that its row of x met: dx contracts the dims that are
 * new in the result, dw the rows of one id. dw is f32 or wider. */
void derive_routed_dot(sc_derive *d)
{
    enum { X, W, IDS };
    const sc_type_info x = *operand_type(d, X), w = *operand_type(d, W);
    const sc_attr to = attr_of(d, SC_ATTR_to);
    sc_value ids = in(d, IDS), dy = d->cotangents[0];
    sc_dim dims[2 * SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < w.rank; i++) {
        if (w.dims[i].dim != to.dims[0] && sc_type_find_dim(&x, w.dims[i].dim) < 0)
            dims[count++] = w.dims[i].dim;
    }
    if (d->wanted[X]) {
        const sc_attr attrs[] = {sc_attr_dims(d->e.m, SC_ATTR_dims, dims, count), to};
        sc_value weights = apart(d, in(d, W));
        d->gradients[X] =
            sc_make_value(&d->e, SC_OP_routed_dot, (sc_value[]){dy, weights, ids}, 3, attrs, 2);
    }
    if (d->wanted[W]) {
        count = dims_of_rows(d, sc_type_of(d->e.m, dy), dims);
        const sc_attr attrs[] = {sc_attr_dims(d->e.m, SC_ATTR_dims, dims, count), to};
        sc_type_info type = w;
        type.dtype = sc_wide(w.dtype);
        d->gradients[W] = sc_make_as(&d->e, SC_OP_routed_dot_grad, (sc_value[]){in(d, X), dy, ids},
                                     3, attrs, 2, &type);
    }
}

void derive_topk(sc_derive *d)
{
    if (d->cotangents[0] != SC_NONE)
        d->gradients[0] = scatter(d, d->cotangents[0], out(d, 1));
}

static uint32_t attrs_but(const sc_op *op, sc_attr_key key, sc_attr *attrs)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].key != key)
            attrs[count++] = op->attrs[i];
    }
    return count;
}

/* Rotates back. */
void derive_rope(sc_derive *d)
{
    const sc_op op = *sc_op_at(d->e.m, d->op);
    sc_attr attrs[SC_ATTR_COUNT];
    uint32_t count = attrs_but(&op, SC_ATTR_inverse, attrs);
    if (sc_op_int(&op, SC_ATTR_inverse, 0) == 0)
        attrs[count++] = sc_attr_int(SC_ATTR_inverse, 1);
    sc_value operands[SC_MAX_FIXED_OPERANDS] = {d->cotangents[0]};
    for (uint32_t i = 1; i < op.operand_count; i++)
        operands[i] = in(d, i);
    d->gradients[0] = sc_make_value(&d->e, SC_OP_rope, operands, op.operand_count, attrs, count);
}

void derive_last(sc_derive *d)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims);
    const sc_type_info type = *operand_type(d, 0);
    int length = sc_op_operand_called(d->e.m, sc_op_at(d->e.m, d->op), "len", 1);
    sc_value index = sc_make_index(&d->e, &type, dims.dims[0]), at;
    if (length >= 0)
        at = sc_make_plus(&d->e, in(d, (uint32_t)length), -1);
    else
        at = sc_make_sized_constant(&d->e, &(sc_sized_number){&type, dims.dims[0], 1, 1, -1},
                                    SC_DTYPE_i32);
    sc_value is_last = sc_make2(&d->e, SC_OP_eq, at, index), zero = zero_like(d, d->cotangents[0]);
    d->gradients[0] = sc_make_where(&d->e, is_last, d->cotangents[0], zero);
}

/* Pads the cotangent with zeros. */
void derive_slice(sc_derive *d)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims), to = attr_of(d, SC_ATTR_to);
    const sc_type_info type = *operand_type(d, 0);
    sc_attr attrs[3] = {
        sc_attr_dims(d->e.m, SC_ATTR_dims, to.dims, 1),
        sc_attr_dims(d->e.m, SC_ATTR_to, dims.dims, 1),
        sc_attr_int(SC_ATTR_from, sc_op_int(sc_op_at(d->e.m, d->op), SC_ATTR_from, 0))};
    d->gradients[0] = sc_make_as(&d->e, SC_OP_unslice, &d->cotangents[0], 1, attrs, 3, &type);
}

/* Each operand gets its slice of the cotangent. */
void derive_concat(sc_derive *d)
{
    const sc_attr to = attr_of(d, SC_ATTR_to),
                  dims[2] = {attr_of(d, SC_ATTR_dims), attr_of(d, SC_ATTR_from_dims)};
    int64_t from = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const sc_type_info *part = operand_type(d, i);
        const sc_type_dim dim = part->dims[sc_type_find_dim(part, dims[i].dims[0])];
        sc_attr attrs[3] = {sc_attr_dims(d->e.m, SC_ATTR_dims, to.dims, 1),
                            sc_attr_dims(d->e.m, SC_ATTR_to, &dim.dim, 1),
                            sc_attr_int(SC_ATTR_from, from)};
        sc_type_info type = *sc_type_of(d->e.m, d->cotangents[0]);
        type.dims[sc_type_find_dim(&type, to.dims[0])] = (sc_type_dim){dim.dim, SC_NONE, dim.size};
        if (d->wanted[i])
            d->gradients[i] = sc_make_as(&d->e, SC_OP_slice, &d->cotangents[0], 1, attrs,
                                         from == 0 ? 2 : 3, &type);
        from += dim.size;
    }
}

/* Renames back; several dims folded into one are unfolded. */
void derive_rename(sc_derive *d)
{
    const sc_attr dims = attr_of(d, SC_ATTR_dims), to = attr_of(d, SC_ATTR_to);
    const sc_type_info type = *operand_type(d, 0);
    sc_attr attrs[2] = {sc_attr_dims(d->e.m, SC_ATTR_dims, to.dims, to.count),
                        sc_attr_dims(d->e.m, SC_ATTR_to, dims.dims, dims.count)};
    if (dims.count > to.count)
        d->gradients[0] = sc_make_as(&d->e, SC_OP_unfold, &d->cotangents[0], 1, attrs, 2, &type);
    else
        d->gradients[0] = sc_make_value(&d->e, SC_OP_rename, &d->cotangents[0], 1, attrs, 2);
}

/* ---- attention ---- */

void derive_attend(sc_derive *d)
{
    const sc_op op = *sc_op_at(d->e.m, d->op);
    enum { Q, K, V, FIXED };
    sc_value operands[SC_MAX_FIXED_OPERANDS];
    sc_attr attrs[SC_ATTR_COUNT];
    const sc_sinkless sinkless = sc_without_sinks(d->e.m, &op);
    const int sinks = sc_op_operand_called(d->e.m, &op, "sinks", FIXED);
    uint32_t count = 0, attr_count = 0;
    for (uint32_t i = 0; i < sinkless.attr_count; i++) {
        if (sinkless.attrs[i].key != SC_ATTR_lse)
            attrs[attr_count++] = sinkless.attrs[i];
    }
    for (uint32_t i = Q; i < FIXED; i++)
        operands[count++] = in(d, i);
    operands[count++] = out(d, 0);
    operands[count++] = out(d, 1);
    operands[count++] = d->cotangents[0];
    for (uint32_t i = FIXED; i < op.operand_count; i++) {
        if ((int)i != sinks)
            operands[count++] = in(d, i);
    }
    if (sinks >= 0 && d->wanted[sinks])
        d->gradients[sinks] =
            sc_sinks_cotangent(&d->e, (sc_attended){operands[FIXED], operands[FIXED + 1]},
                               d->cotangents[0], in(d, (uint32_t)sinks));
    const int bias = sc_op_operand_called(d->e.m, &op, "bias", FIXED);
    if (!d->wanted[Q] && !d->wanted[K] && !d->wanted[V] && (bias < 0 || !d->wanted[bias]))
        return; /* only the sinks' */
    sc_op_id made = sc_make_op(&d->e, SC_OP_attend_grad, operands, count, attrs, attr_count);
    for (uint32_t i = Q; i < FIXED; i++)
        d->gradients[i] = sc_result(d->e.m, made, i);
    if (bias >= 0 && sc_op_at(d->e.m, made)->result_count > FIXED)
        d->gradients[bias] = sc_result(d->e.m, made, FIXED);
}
