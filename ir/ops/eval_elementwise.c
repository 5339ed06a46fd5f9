/* Constants, copies and elementwise ops. Each op is one scalar function; the loop is shared. */
#include <math.h>
#include <string.h>

#include "ir/ops/eval_walk.h"

bool eval_constant(sc_eval *eval)
{
    double value = sc_op_number(eval->op, SC_ATTR_value, 0);
    for (int64_t i = 0; i < eval->results[0].count; i++)
        eval->results[0].data[i] = value;
    return true;
}

bool eval_index(sc_eval *eval)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    if (dims == NULL || dims->count != 1 || eval->result_types[0]->rank != 1 ||
        eval->result_types[0]->dims[0].dim != dims->dims[0])
        return sc_eval_fail(eval, "its result needs to be its dim");
    const sc_eval_shard shard = sc_eval_shard_of(eval, dims->dims[0]);
    for (int64_t i = 0; i < eval->results[0].count; i++)
        eval->results[0].data[i] = (double)sc_eval_position(&shard, i);
    return true;
}

/* Views keep the order of elements; names and groups are in the type. */
bool eval_copy(sc_eval *eval)
{
    const sc_array *x = eval->operands[0];
    if (x->count != eval->results[0].count)
        return sc_eval_fail(eval, "%lld elements become %lld", (long long)x->count,
                            (long long)eval->results[0].count);
    memcpy(eval->results[0].data, x->data, (size_t)x->count * sizeof *x->data);
    return true;
}

/* Starts a walk over the result and the operands. No operand may have a dim that the result
 * lacks. */
static bool start_walk(sc_eval *eval, sc_walk *walk)
{
    sc_walk_init(walk);
    if (!sc_walk_add_result(eval, walk, 0))
        return false;
    for (uint32_t i = 0; i < eval->op->operand_count; i++) {
        if (!sc_walk_add_operand(eval, walk, i))
            return false;
    }
    if (walk->rank != eval->results[0].rank)
        return sc_eval_fail(eval, "an operand has a dim that the result lacks");
    return true;
}

static bool unary(sc_eval *eval, double (*f)(double))
{
    sc_walk walk;
    if (!start_walk(eval, &walk))
        return false;
    sc_walk_dim row = sc_walk_take_row(&walk);
    sc_walk_start(&walk);
    do {
        double *out = eval->results[0].data + walk.at[0];
        const double *x = eval->operands[0]->data + walk.at[1];
        for (int64_t i = 0; i < row.size; i++)
            out[i * row.strides[0]] = f(x[i * row.strides[1]]);
    } while (sc_walk_next(&walk));
    return true;
}

static double itself(double x)
{
    return x;
}

/* Dims align by name in any order. */
bool eval_transpose(sc_eval *eval)
{
    return unary(eval, itself);
}

/* The walk has stride 0 along dims that the operand lacks. */
bool eval_broadcast(sc_eval *eval)
{
    return unary(eval, itself);
}

static bool binary(sc_eval *eval, double (*f)(double, double))
{
    sc_walk walk;
    if (!start_walk(eval, &walk))
        return false;
    sc_walk_dim row = sc_walk_take_row(&walk);
    sc_walk_start(&walk);
    do {
        double *out = eval->results[0].data + walk.at[0];
        const double *x = eval->operands[0]->data + walk.at[1],
                     *y = eval->operands[1]->data + walk.at[2];
        for (int64_t i = 0; i < row.size; i++)
            out[i * row.strides[0]] = f(x[i * row.strides[1]], y[i * row.strides[2]]);
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_where(sc_eval *eval)
{
    sc_walk walk;
    if (!start_walk(eval, &walk))
        return false;
    sc_walk_start(&walk);
    do {
        const sc_array *chosen = eval->operands[eval->operands[0]->data[walk.at[1]] != 0 ? 1 : 2];
        eval->results[0].data[walk.at[0]] =
            chosen->data[walk.at[chosen == eval->operands[1] ? 2 : 3]];
    } while (sc_walk_next(&walk));
    return true;
}

/* Floats are unchanged: the caller rounds every op's results to their dtype. */
bool eval_cast(sc_eval *eval)
{
    sc_dtype dtype = eval->result_types[0]->dtype;
    if (!eval_copy(eval))
        return false;
    if (sc_dtype_is_float(dtype))
        return true;
    for (int64_t i = 0; i < eval->results[0].count; i++)
        eval->results[0].data[i] = sc_round_to(dtype, eval->results[0].data[i]);
    return true;
}

bool eval_pow(sc_eval *eval)
{
    double exponent = sc_op_number(eval->op, SC_ATTR_exponent, 1);
    if (!eval_copy(eval))
        return false;
    for (int64_t i = 0; i < eval->results[0].count; i++)
        eval->results[0].data[i] = pow(eval->results[0].data[i], exponent);
    return true;
}

static double negated(double x)
{
    return -x;
}

static double rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* NaN stays NaN. */
static double relu(double x)
{
    return x <= 0 ? 0 : x;
}

static double silu(double x)
{
    return x / (1 + exp(-x));
}

static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}

/* Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2; the constant is sqrt(2 / pi). */
static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

static double relu_grad(double dy, double x)
{
    return x > 0 ? dy : 0;
}

/* s + x s (1 - s), s the sigmoid */
static double silu_grad(double dy, double x)
{
    double s = sigmoid(x);
    return dy * (s * (1 + x * (1 - s)));
}

/* Phi(x) + x phi(x), the normal distribution and its density */
static double gelu_grad(double dy, double x)
{
    double cdf = 0.5 * (1 + erf(x * 0.70710678118654752440));
    return dy * (cdf + x * (exp(-0.5 * x * x) * 0.39894228040143267794));
}

/* y = x/2 (1 + t), t = tanh(c (x + k x^3)): (1 + t)/2 + x/2 (1 - t^2) c (1 + 3 k x^2) */
static double gelu_tanh_grad(double dy, double x)
{
    const double c = 0.79788456080286535588, k = 0.044715;
    double t = tanh(c * (x + k * x * x * x));
    return dy * (0.5 * (1 + t) + 0.5 * c * (x * (1 - t * t) * (1 + 3 * k * x * x)));
}

static double sign(double x)
{
    return x > 0 ? 1 : x < 0 ? -1 : x;
}

static double logical_not(double x)
{
    return x == 0;
}

static double add(double x, double y)
{
    return x + y;
}

static double subtract(double x, double y)
{
    return x - y;
}

static double multiply(double x, double y)
{
    return x * y;
}

static double divide(double x, double y)
{
    return x / y;
}

/* The remainder has the divisor's sign. */
static double modulo(double x, double y)
{
    return x - floor(x / y) * y;
}

/* NaN in either operand gives NaN, unlike fmin. */
static double minimum(double x, double y)
{
    return x < y || isnan(x) ? x : y;
}

static double maximum(double x, double y)
{
    return x > y || isnan(x) ? x : y;
}

static double less(double x, double y)
{
    return x < y;
}

static double less_equal(double x, double y)
{
    return x <= y;
}

static double greater(double x, double y)
{
    return x > y;
}

static double greater_equal(double x, double y)
{
    return x >= y;
}

static double equal(double x, double y)
{
    return x == y;
}

static double not_equal(double x, double y)
{
    return x != y;
}

static double logical_and(double x, double y)
{
    return x != 0 && y != 0;
}

static double logical_or(double x, double y)
{
    return x != 0 || y != 0;
}

#define UNARY(name, function)                                                                      \
    bool eval_##name(sc_eval *eval)                                                                \
    {                                                                                              \
        return unary(eval, function);                                                              \
    }
#define BINARY(name, function)                                                                     \
    bool eval_##name(sc_eval *eval)                                                                \
    {                                                                                              \
        return binary(eval, function);                                                             \
    }

UNARY(neg, negated)
UNARY(abs, fabs)
UNARY(exp, exp)
UNARY(log, log)
UNARY(sqrt, sqrt)
UNARY(rsqrt, rsqrt)
UNARY(sin, sin)
UNARY(cos, cos)
UNARY(tanh, tanh)
UNARY(sigmoid, sigmoid)
UNARY(relu, relu)
UNARY(silu, silu)
UNARY(gelu, gelu)
UNARY(gelu_tanh, gelu_tanh)
UNARY(erf, erf)
UNARY(floor, floor)
UNARY(sign, sign)
UNARY(not, logical_not)
BINARY(add, add)
BINARY(sub, subtract)
BINARY(mul, multiply)
BINARY(div, divide)
BINARY(mod, modulo)
BINARY(minimum, minimum)
BINARY(maximum, maximum)
BINARY(relu_grad, relu_grad)
BINARY(silu_grad, silu_grad)
BINARY(gelu_grad, gelu_grad)
BINARY(gelu_tanh_grad, gelu_tanh_grad)
BINARY(lt, less)
BINARY(le, less_equal)
BINARY(gt, greater)
BINARY(ge, greater_equal)
BINARY(eq, equal)
BINARY(ne, not_equal)
BINARY(and, logical_and)
BINARY(or, logical_or)
