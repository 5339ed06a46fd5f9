/* Activations and their derivatives as nodes of kernel IR. */
#include "codegen/lower/activation.h"

static sc_knode one(sc_kernel *k, sc_node_kind kind, sc_knode a)
{
    return sc_kernel_node_new(k, kind, &a, 1);
}

static sc_knode two(sc_kernel *k, sc_node_kind kind, sc_knode a, sc_knode b)
{
    return sc_kernel_node_new(k, kind, (sc_knode[]){a, b}, 2);
}

static sc_knode number_like(sc_kernel *k, sc_knode x, double number)
{
    return sc_kernel_constant(k, (sc_dtype)k->nodes.data[x].dtype, number);
}

static sc_knode plus(sc_kernel *k, sc_knode a, double number)
{
    return two(k, SC_NODE_add, a, number_like(k, a, number));
}

static sc_knode times(sc_kernel *k, sc_knode a, double number)
{
    return two(k, SC_NODE_mul, a, number_like(k, a, number));
}

static sc_knode one_minus(sc_kernel *k, sc_knode x)
{
    return plus(k, one(k, SC_NODE_neg, x), 1);
}

static sc_knode one_plus_exp_of_minus(sc_kernel *k, sc_knode x)
{
    return plus(k, one(k, SC_NODE_exp, one(k, SC_NODE_neg, x)), 1);
}

static sc_knode sigmoid(sc_kernel *k, sc_knode x)
{
    return two(k, SC_NODE_div, number_like(k, x, 1), one_plus_exp_of_minus(k, x));
}

static sc_knode erf_of_normal(sc_kernel *k, sc_knode x)
{
    return one(k, SC_NODE_erf, times(k, x, 0.70710678118654752440));
}

/* Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2; also for gelu_tanh. */
static sc_knode gelu(sc_kernel *k, sc_knode x)
{
    sc_knode erf = erf_of_normal(k, x);
    return two(k, SC_NODE_mul, times(k, x, 0.5), plus(k, erf, 1));
}

static sc_knode gelu_tanh(sc_kernel *k, sc_knode x)
{
    sc_knode cube = two(k, SC_NODE_mul, two(k, SC_NODE_mul, times(k, x, 0.044715), x), x);
    sc_knode inner = times(k, two(k, SC_NODE_add, x, cube), 0.79788456080286535588);
    sc_knode tanh = one(k, SC_NODE_tanh, inner);
    return two(k, SC_NODE_mul, times(k, x, 0.5), plus(k, tanh, 1));
}

sc_knode sc_activation_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode x)
{
    switch (kind) {
    case SC_GEMM_RELU:
        return one(k, SC_NODE_relu, x);
    case SC_GEMM_GELU:
        return gelu(k, x);
    case SC_GEMM_GELU_TANH:
        return gelu_tanh(k, x);
    case SC_GEMM_SILU:
        return two(k, SC_NODE_div, x, one_plus_exp_of_minus(k, x));
    case SC_GEMM_TANH:
        return one(k, SC_NODE_tanh, x);
    default:
        return sigmoid(k, x);
    }
}

/* Derivatives as in ir/ops/eval_elementwise.c. */
static sc_knode silu_slope(sc_kernel *k, sc_knode x)
{
    sc_knode s = sigmoid(k, x);
    sc_knode bend = plus(k, two(k, SC_NODE_mul, x, one_minus(k, s)), 1);
    return two(k, SC_NODE_mul, s, bend);
}

static sc_knode gelu_slope(sc_kernel *k, sc_knode x)
{
    sc_knode erf = erf_of_normal(k, x);
    sc_knode cdf = times(k, plus(k, erf, 1), 0.5);
    sc_knode square = two(k, SC_NODE_mul, times(k, x, -0.5), x);
    sc_knode density = times(k, one(k, SC_NODE_exp, square), 0.39894228040143267794);
    return two(k, SC_NODE_add, cdf, two(k, SC_NODE_mul, x, density));
}

static sc_knode gelu_tanh_slope(sc_kernel *k, sc_knode x)
{
    const double c = 0.79788456080286535588, cubic = 0.044715;
    sc_knode square = two(k, SC_NODE_mul, x, x);
    sc_knode inner = two(k, SC_NODE_mul, x, plus(k, times(k, square, c * cubic), c));
    sc_knode t = one(k, SC_NODE_tanh, inner);
    sc_knode half = times(k, plus(k, t, 1), 0.5);
    sc_knode bend = two(k, SC_NODE_mul, x, one_minus(k, two(k, SC_NODE_mul, t, t)));
    sc_knode steep = plus(k, times(k, square, 1.5 * c * cubic), 0.5 * c);
    return two(k, SC_NODE_add, half, two(k, SC_NODE_mul, bend, steep));
}

sc_knode sc_slope_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode dy, sc_knode x)
{
    switch (kind) {
    case SC_GEMM_RELU: {
        sc_knode zero = number_like(k, x, 0), positive = two(k, SC_NODE_gt, x, zero);
        return sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){positive, dy, zero}, 3);
    }
    case SC_GEMM_GELU:
        return two(k, SC_NODE_mul, dy, gelu_slope(k, x));
    case SC_GEMM_GELU_TANH:
        return two(k, SC_NODE_mul, dy, gelu_tanh_slope(k, x));
    default:
        return two(k, SC_NODE_mul, dy, silu_slope(k, x));
    }
}
