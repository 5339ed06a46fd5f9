/* The arithmetic of nodes and reductions in f64, and what of it can be done before there is a kernel. */
#include <assert.h>
#include <math.h>

#include "codegen/kernel/internal.h"
#include "ir/interp/interp.h"

/* ---- the reference's arithmetic ---- */

static double reference_mod(double x, double y)
{
    return x - floor(x / y) * y;
}

/* A NaN in either operand gives NaN, unlike fmin. */
static double reference_minimum(double x, double y)
{
    return x < y || isnan(x) ? x : y;
}

static double reference_maximum(double x, double y)
{
    return x > y || isnan(x) ? x : y;
}

static double reference_sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double reference(sc_node_kind kind, double x, double y, double z)
{
    switch (kind) {
#define NODE(name, operands, type, f32, f64, integer, text)                                                                                \
    case SC_NODE_##name:                                                                                                                   \
        return (double)(text);
#include "codegen/kernel/nodes.def"
#undef NODE
    default:
        return 0;
    }
}

/* fmod is exact, x / y need not be. */
static double integer_mod(double x, double y)
{
    double rest = y == 0 ? 0 : fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

static double integer_div(double x, double y)
{
    return y == 0 ? 0 : (x - fmod(x, y)) / y;
}

double sc_node_evaluate(sc_node_kind kind, sc_dtype dtype, double x, double y, double z)
{
    if (sc_dtypes[dtype].kind != SC_DTYPE_INT)
        return dtype == SC_DTYPE_bool && kind == SC_NODE_convert ? x != 0 : reference(kind, x, y, z);
    double value = kind == SC_NODE_mod ? integer_mod(x, y) : kind == SC_NODE_div ? integer_div(x, y) : reference(kind, x, y, z);
    bool fits = value > -0x1p31 && value < 0x1p31 && value == (double)(int32_t)value;
    return fits ? value + 0.0 : sc_round_to(dtype, value);
}

double sc_item_combine(sc_item_kind kind, sc_dtype dtype, double so_far, double value)
{
    sc_node_kind node = kind == SC_ITEM_MAX ? SC_NODE_maximum : kind == SC_ITEM_MIN ? SC_NODE_minimum : SC_NODE_add;
    return sc_node_evaluate(node, dtype, so_far, value, 0);
}

double sc_item_nothing(sc_item_kind kind, sc_dtype dtype)
{
    const sc_dtype_row *row = &sc_dtypes[dtype];
    if (kind == SC_ITEM_SUM)
        return 0;
    if (row->kind == SC_DTYPE_BOOL)
        return kind == SC_ITEM_MIN;
    double most = row->kind == SC_DTYPE_FLOAT ? INFINITY : ldexp(1, row->significand);
    return kind == SC_ITEM_MIN ? most - (row->kind == SC_DTYPE_INT) : -most;
}

/* ---- constants ---- */

bool sc_kernel_is_constant(const sc_kernel *k, sc_knode node, double *out_number)
{
    if (k->nodes.data[node].kind != SC_NODE_constant)
        return false;
    *out_number = k->nodes.data[node].number;
    return true;
}

bool sc_kernel_is_number(const sc_kernel *k, sc_knode node, double number)
{
    double value;
    return sc_kernel_is_constant(k, node, &value) && value == number && signbit(value) == signbit(number);
}

/* ---- folding: each gives the node that stands for it, or SC_IMAGE_NONE ---- */

static sc_knode fold_constants(sc_kernel *k, sc_node_kind kind, const sc_knode *operands, uint32_t count)
{
    double values[3] = {0};
    for (uint32_t i = 0; i < count; i++) {
        if (!sc_kernel_is_constant(k, operands[i], &values[i]))
            return SC_IMAGE_NONE;
    }
    sc_dtype dtype = sc_kernel_result_dtype(k, kind, operands);
    return sc_kernel_constant(k, dtype, sc_node_evaluate(kind, dtype, values[0], values[1], values[2]));
}

/* -(-x), not not x, | -x |, | |x| |; what is whole stays under floor; max(max(x, 0), 0). */
static sc_knode fold_unary(sc_kernel *k, sc_node_kind kind, sc_knode x)
{
    const sc_kernel_node *inner = &k->nodes.data[x];
    bool integer = !sc_dtype_is_float((sc_dtype)inner->dtype);
    if ((kind == SC_NODE_neg || kind == SC_NODE_not) && inner->kind == kind)
        return *sc_kernel_operands(k, x);
    if (kind == SC_NODE_abs && inner->kind == SC_NODE_neg)
        return sc_kernel_node_new(k, SC_NODE_abs, sc_kernel_operands(k, x), 1);
    bool twice = (kind == SC_NODE_abs || kind == SC_NODE_floor || kind == SC_NODE_relu) && inner->kind == kind;
    return twice || (kind == SC_NODE_floor && integer) ? x : SC_IMAGE_NONE;
}

/* x + 0 is x unless x is -0; x - 0 and x + -0 are x; x * 1, x / 1, x ^ 1. */
static sc_knode fold_float(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    bool one = sc_kernel_is_number(k, y, 1);
    if ((kind == SC_NODE_add && sc_kernel_is_number(k, y, -0.0)) || (kind == SC_NODE_sub && sc_kernel_is_number(k, y, 0)))
        return x;
    if ((kind == SC_NODE_mul || kind == SC_NODE_div || kind == SC_NODE_pow) && one)
        return x;
    if (kind == SC_NODE_pow && sc_kernel_is_number(k, y, 2))
        return sc_kernel_node_new(k, SC_NODE_mul, (sc_knode[]){x, x}, 2);
    if ((kind == SC_NODE_minimum || kind == SC_NODE_maximum) && x == y)
        return x;
    return SC_IMAGE_NONE;
}

static sc_knode fold_integer(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    sc_dtype dtype = (sc_dtype)k->nodes.data[x].dtype;
    bool zero = sc_kernel_is_number(k, y, 0), one = sc_kernel_is_number(k, y, 1);
    switch (kind) {
    case SC_NODE_add:
        return zero ? x : SC_IMAGE_NONE;
    case SC_NODE_sub:
        return zero ? x : x == y ? sc_kernel_constant(k, dtype, 0) : SC_IMAGE_NONE;
    case SC_NODE_mul:
    case SC_NODE_div:
        return zero ? y : one ? x : SC_IMAGE_NONE;
    case SC_NODE_mod:
        return zero ? y : one ? sc_kernel_constant(k, dtype, 0) : SC_IMAGE_NONE;
    case SC_NODE_minimum:
    case SC_NODE_maximum:
        return x == y ? x : SC_IMAGE_NONE;
    case SC_NODE_le:
    case SC_NODE_ge:
    case SC_NODE_eq:
    case SC_NODE_lt:
    case SC_NODE_gt:
    case SC_NODE_ne:
        return x == y ? sc_kernel_constant(k, SC_DTYPE_bool, kind == SC_NODE_le || kind == SC_NODE_ge || kind == SC_NODE_eq)
                      : SC_IMAGE_NONE;
    case SC_NODE_and:
        return zero || x == y ? y : one ? x : SC_IMAGE_NONE;
    case SC_NODE_or:
        return one || x == y ? y : zero ? x : SC_IMAGE_NONE;
    default:
        return SC_IMAGE_NONE;
    }
}

sc_knode sc_kernel_fold(sc_kernel *k, sc_node_kind kind, const sc_knode *operands, uint32_t count)
{
    sc_knode constant = fold_constants(k, kind, operands, count);
    if (constant != SC_IMAGE_NONE)
        return constant;
    if (kind == SC_NODE_where) {
        double chosen;
        if (operands[1] == operands[2])
            return operands[1];
        return sc_kernel_is_constant(k, operands[0], &chosen) ? operands[chosen != 0 ? 1 : 2] : SC_IMAGE_NONE;
    }
    if (count == 1)
        return fold_unary(k, kind, operands[0]);
    bool floats = sc_dtype_is_float((sc_dtype)k->nodes.data[operands[0]].dtype);
    return floats ? fold_float(k, kind, operands[0], operands[1]) : fold_integer(k, kind, operands[0], operands[1]);
}
