/* Making ops one after another at one place: what expansions, derivatives and train steps are written with. Calls that emit never stand
 * side by side as arguments: C leaves their order open, and a program's text would depend on who compiled us. */
#ifndef SHARDC_IR_OPS_BUILD_H
#define SHARDC_IR_OPS_BUILD_H

#include "ir/ops/ops.h"

/* Result types inferred by the op's row. */
sc_op_id sc_make_op(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs, uint32_t attr_count);
/* The same for an op that makes a dim of its own size. */
sc_op_id sc_make_sized(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs, uint32_t attr_count,
                       int64_t new_size);
/* The first result of one. */
sc_value sc_make_value(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs, uint32_t attr_count);
sc_value sc_make1(sc_emitter *e, sc_op_kind kind, sc_value x);
sc_value sc_make2(sc_emitter *e, sc_op_kind kind, sc_value x, sc_value y);
/* Result type given (its placement is ignored). */
sc_value sc_make_as(sc_emitter *e, sc_op_kind kind, const sc_value *operands, uint32_t count, const sc_attr *attrs, uint32_t attr_count,
                    const sc_type_info *type);
/* x itself if it is of the dtype already. */
sc_value sc_make_cast(sc_emitter *e, sc_value x, sc_dtype dtype);
sc_value sc_make_constant(sc_emitter *e, double value, sc_dtype dtype);
/* factor * size(dim) ^ exponent + plus, where `like` says how large dim is. The constant says so itself: other sizes may be put in its
 * place. */
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
/* Integers as i32 or wider, so that they compare with every index and with numbers that stand for "none". */
sc_value sc_make_wide_ids(sc_emitter *e, sc_value ids);
sc_value sc_make_where(sc_emitter *e, sc_value condition, sc_value yes, sc_value no);
/* x with the composites taken apart of which any leaf is in `dims`: as ops that reduce them one by one leave the rest. */
sc_value sc_make_apart(sc_emitter *e, sc_value x, const sc_attr *dims);
/* x with the dims of `type` in its order: summed over those that it has beyond them, broadcast along those that it lacks. Keeps x's
 * dtype. */
sc_value sc_make_fit(sc_emitter *e, sc_value x, const sc_type_info *type);

/* f64 stays, everything narrower is computed in f32. */
static inline sc_dtype sc_wide(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

#endif
