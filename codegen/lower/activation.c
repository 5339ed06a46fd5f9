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

static sc_knode erf_of_normal(sc_kernel *k, sc_knode x)
{
    return one(k, SC_NODE_erf, times(k, x, 0.70710678118654752440));
}

/* ---- f(x) ---- */

static sc_knode node_relu(sc_kernel *k, sc_knode x)
{
    return one(k, SC_NODE_relu, x);
}

/* Hendrycks and Gimpel, "Gaussian Error Linear Units", section 2; also for gelu_tanh. */
static sc_knode node_gelu(sc_kernel *k, sc_knode x)
{
    sc_knode erf = erf_of_normal(k, x);
    return two(k, SC_NODE_mul, times(k, x, 0.5), plus(k, erf, 1));
}

static sc_knode node_gelu_tanh(sc_kernel *k, sc_knode x)
{
    sc_knode cube = two(k, SC_NODE_mul, two(k, SC_NODE_mul, times(k, x, 0.044715), x), x);
    sc_knode inner = times(k, two(k, SC_NODE_add, x, cube), 0.79788456080286535588);
    sc_knode tanh = one(k, SC_NODE_tanh, inner);
    return two(k, SC_NODE_mul, times(k, x, 0.5), plus(k, tanh, 1));
}

static sc_knode node_silu(sc_kernel *k, sc_knode x)
{
    return two(k, SC_NODE_div, x, one_plus_exp_of_minus(k, x));
}

static sc_knode node_tanh(sc_kernel *k, sc_knode x)
{
    return one(k, SC_NODE_tanh, x);
}

static sc_knode node_sigmoid(sc_kernel *k, sc_knode x)
{
    return two(k, SC_NODE_div, number_like(k, x, 1), one_plus_exp_of_minus(k, x));
}

static sc_knode (*const activations[SC_GEMM_STEP_KINDS])(sc_kernel *k, sc_knode x) = {
#define ACTIVATION(name, NAME, ...) [SC_GEMM_##NAME] = node_##name,
#include "program/activations.def"
};

sc_knode sc_activation_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode x)
{
    return activations[kind](k, x);
}

/* ---- dy times f'(x), as in ir/ops/eval_elementwise.c ---- */

static sc_knode node_relu_grad(sc_kernel *k, sc_knode dy, sc_knode x)
{
    sc_knode zero = number_like(k, x, 0), positive = two(k, SC_NODE_gt, x, zero);
    return sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){positive, dy, zero}, 3);
}

static sc_knode node_gelu_grad(sc_kernel *k, sc_knode dy, sc_knode x)
{
    sc_knode erf = erf_of_normal(k, x);
    sc_knode cdf = times(k, plus(k, erf, 1), 0.5);
    sc_knode square = two(k, SC_NODE_mul, times(k, x, -0.5), x);
    sc_knode density = times(k, one(k, SC_NODE_exp, square), 0.39894228040143267794);
    sc_knode slope = two(k, SC_NODE_add, cdf, two(k, SC_NODE_mul, x, density));
    return two(k, SC_NODE_mul, dy, slope);
}

static sc_knode node_gelu_tanh_grad(sc_kernel *k, sc_knode dy, sc_knode x)
{
    const double c = 0.79788456080286535588, cubic = 0.044715;
    sc_knode square = two(k, SC_NODE_mul, x, x);
    sc_knode inner = two(k, SC_NODE_mul, x, plus(k, times(k, square, c * cubic), c));
    sc_knode t = one(k, SC_NODE_tanh, inner);
    sc_knode half = times(k, plus(k, t, 1), 0.5);
    sc_knode bend = two(k, SC_NODE_mul, x, one_minus(k, two(k, SC_NODE_mul, t, t)));
    sc_knode steep = plus(k, times(k, square, 1.5 * c * cubic), 0.5 * c);
    sc_knode slope = two(k, SC_NODE_add, half, two(k, SC_NODE_mul, bend, steep));
    return two(k, SC_NODE_mul, dy, slope);
}

static sc_knode node_silu_grad(sc_kernel *k, sc_knode dy, sc_knode x)
{
    sc_knode s = node_sigmoid(k, x);
    sc_knode bend = plus(k, two(k, SC_NODE_mul, x, one_minus(k, s)), 1);
    sc_knode slope = two(k, SC_NODE_mul, s, bend);
    return two(k, SC_NODE_mul, dy, slope);
}

static sc_knode (*const slopes[SC_GEMM_STEP_KINDS])(sc_kernel *k, sc_knode dy, sc_knode x) = {
#define ACTIVATION(...)
#define ACTIVATION_SLOPE(name, NAME, ...) [SC_GEMM_##NAME] = node_##name##_grad,
#include "program/activations.def"
};

sc_knode sc_slope_node(sc_kernel *k, sc_gemm_step_kind kind, sc_knode dy, sc_knode x)
{
    return slopes[kind](k, dy, x);
}
