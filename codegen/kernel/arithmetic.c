/* Arithmetic of nodes and reductions in f64. */
#include <assert.h>
#include <math.h>

#include "codegen/kernel/internal.h"
#include "ir/interp/interp.h"

/* ---- the reference's arithmetic ---- */

static double reference_mod(double x, double y)
{
    return x - floor(x / y) * y;
}

/* NaN in either operand yields NaN, unlike fmin. */
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
#define NODE(name, operands, type, cost, f32, f64, integer, text)                                  \
    case SC_NODE_##name:                                                                           \
        return (double)(text);
#include "codegen/kernel/nodes.def"
    case SC_NODE_COUNT:
        break;
    }
    return NAN;
}

/* fmod is exact; x / y need not be. */
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
        return dtype == SC_DTYPE_bool && kind == SC_NODE_convert ? x != 0
                                                                 : reference(kind, x, y, z);
    double value = kind == SC_NODE_mod   ? integer_mod(x, y)
                   : kind == SC_NODE_div ? integer_div(x, y)
                                         : reference(kind, x, y, z);
    bool fits = value > -0x1p31 && value < 0x1p31 && value == (double)(int32_t)value;
    return fits ? value + 0.0 : sc_round_to(dtype, value);
}

double sc_item_combine(sc_item_kind kind, sc_dtype dtype, double so_far, double value)
{
    sc_node_kind node = kind == SC_ITEM_MAX   ? SC_NODE_maximum
                        : kind == SC_ITEM_MIN ? SC_NODE_minimum
                                              : SC_NODE_add;
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
    return sc_kernel_is_constant(k, node, &value) && value == number &&
           signbit(value) == signbit(number);
}
