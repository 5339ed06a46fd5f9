/* Numbers and operators. Constants are folded in f64; integers exactly while they fit. Operators on
 * tensors become ops. */
#include <math.h>

#include "frontend/elaborate/internal.h"
#include "ir/ops/fold.h"

static const sc_bval nothing = {.kind = SC_BVAL_NONE};

sc_bval sc_build_integer(int64_t value)
{
    return (sc_bval){
        .kind = SC_BVAL_NUMBER, .is_integer = true, .integer = value, .number = (double)value};
}

sc_bval sc_build_number(double value)
{
    return (sc_bval){.kind = SC_BVAL_NUMBER, .number = value};
}

static sc_bval negate_number(sc_bval a)
{
    a.number = -a.number;
    if (a.is_integer && __builtin_sub_overflow((int64_t)0, a.integer, &a.integer))
        a.is_integer = false;
    return a;
}

static sc_bval fold(sc_frame *f, sc_loc loc, sc_op_kind kind, const sc_bval *a, const sc_bval *b)
{
    int64_t integer;
    sc_bval result;
    bool unknown = a->unknown || b->unknown;
    if (a->is_integer && b->is_integer &&
        sc_op_fold_integers(kind, a->integer, b->integer, &integer))
        result = sc_build_integer(integer);
    else
        result = sc_build_number(sc_op_fold(kind, (double[]){a->number, b->number}, 2, NULL, 0));
    result.unknown = unknown;
    if (!unknown && !isfinite(result.number)) {
        sc_build_error(
            f->b, SC_D_bad_operand, loc,
            sc_build_text(f->b, "this constant expression evaluates to %g, which is not finite",
                          result.number));
        return nothing;
    }
    return result;
}

sc_bval sc_build_binary(sc_frame *f, sc_loc loc, sc_op_kind kind, sc_bval a, sc_bval b)
{
    if (a.kind == SC_BVAL_NONE || b.kind == SC_BVAL_NONE)
        return nothing;
    if (a.kind == SC_BVAL_NUMBER && b.kind == SC_BVAL_NUMBER &&
        (sc_ops[kind].traits & SC_COMPARES) == 0)
        return fold(f, loc, kind, &a, &b);
    sc_bval both[2] = {a, b};
    bool needs_float = (sc_ops[kind].traits & SC_EXACT) == 0;
    sc_dtype dtype = sc_build_compute_dtype(f, loc, both, 2, needs_float);
    if (dtype == SC_DTYPE_COUNT)
        return nothing;
    sc_value operands[2] = {sc_build_as(f, loc, &a, dtype), SC_NONE};
    operands[1] = sc_build_as(f, loc, &b, dtype);
    return sc_bval_tensor(sc_emit(f, loc, kind, operands, 2, NULL, 0, 0));
}

sc_bval sc_build_negative(sc_frame *f, sc_loc loc, sc_bval value)
{
    if (value.kind == SC_BVAL_NUMBER)
        return negate_number(value);
    if (value.kind == SC_BVAL_NONE)
        return nothing;
    sc_dtype dtype = sc_build_compute_dtype(f, loc, &value, 1, false);
    if (dtype == SC_DTYPE_bool) {
        sc_build_error(f->b, SC_D_dtype_mismatch, loc, "the operand of -", "bool", "a number");
        return nothing;
    }
    sc_value operand = dtype == SC_DTYPE_COUNT ? SC_NONE : sc_build_as(f, loc, &value, dtype);
    return sc_bval_tensor(sc_emit(f, loc, SC_OP_neg, &operand, 1, NULL, 0, 0));
}
