/* Emits ops one after another at one insertion point; used by expansions, derivatives and train
 * steps.
 *
 * Never nest emitting calls in one argument list: C leaves the order of evaluation open, so the
 * emitted program would depend on the compiler that built shardc. */
#ifndef SHARDC_IR_OPS_BUILD_H
#define SHARDC_IR_OPS_BUILD_H

#include "ir/ops/ops.h"

/* Result types are inferred by the op's row. */
sc_op_id sc_make_op(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                    const sc_attr *attrs, uint32_t attr_count);
/* The same for an op that creates a dim, of size new_size. */
sc_op_id sc_make_sized(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                       const sc_attr *attrs, uint32_t attr_count, int64_t new_size);
/* The same, returning the first result. */
sc_value sc_make_value(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                       const sc_attr *attrs, uint32_t attr_count);
sc_value sc_make1(sc_emitter *e, sc_op_kind kind, sc_value x);
sc_value sc_make2(sc_emitter *e, sc_op_kind kind, sc_value x, sc_value y);
/* The result type is given; its placement is ignored. */
sc_value sc_make_as(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count,
                    const sc_attr *attrs, uint32_t attr_count, const sc_type_info *type);
/* Returns x itself if it already has the dtype. */
sc_value sc_make_cast(sc_emitter *e, sc_value x, sc_dtype dtype);
sc_value sc_make_constant(sc_emitter *e, double value, sc_dtype dtype);
/* factor * size(dim) ^ exponent + plus, with dim's size taken from `like`. The constant's
 * attributes record the formula, so it can be recomputed for other sizes. */
typedef struct sc_sized_number {
    const sc_type_info *like;
    sc_dim dim;
    double factor, exponent, plus;
} sc_sized_number;
sc_value sc_make_sized_constant(sc_emitter *e, const sc_sized_number *number, sc_dtype dtype);
/* x times or plus a number, in x's dtype. */
sc_value sc_make_scaled(sc_emitter *e, sc_value x, double factor);
sc_value sc_make_plus(sc_emitter *e, sc_value x, double term);
/* i32 indices along one dim of a type. */
sc_value sc_make_index(sc_emitter *e, const sc_type_info *type, sc_dim dim);
/* Casts integers to i32 or wider, so that they can be compared with any index and any ignore
 * value. */
sc_value sc_make_wide_ids(sc_emitter *e, sc_value ids);
sc_value sc_make_where(sc_emitter *e, sc_value condition, sc_value yes, sc_value no);
/* x with those composites split into leaves that have a leaf in `dims`, as for ops that reduce some
 * leaves and keep the others. */
sc_value sc_make_apart(sc_emitter *e, sc_value x, const sc_attr *dims);
/* x with exactly the dims of `type` in its order: summed over x's other dims, broadcast along the
 * missing ones. Keeps x's dtype. */
sc_value sc_make_fit(sc_emitter *e, sc_value x, const sc_type_info *type);

/* The dtype to compute in: f64 for f64, f32 for anything narrower. */
static inline sc_dtype sc_wide(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

#endif
