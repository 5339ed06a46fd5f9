/* Derivatives of the elementwise ops. Cotangents, and everything computed here, have the dtype of
 * the primal. */
#include <math.h>

#include "ir/ops/build.h"
#include "ir/ops/derive.h"

static const double pi = 3.14159265358979323846;

static sc_value in(sc_derive *d, uint32_t i)
{
    return d->read(d, sc_op_at(d->e.m, d->op)->operands[i]);
}

static sc_value out(sc_derive *d)
{
    return d->read(d, sc_result(d->e.m, d->op, 0));
}

static sc_value dy(const sc_derive *d)
{
    return d->cotangents[0];
}

static sc_value mul(sc_derive *d, sc_value x, sc_value y)
{
    return sc_make2(&d->e, SC_OP_mul, x, y);
}

static sc_value zero_like(sc_derive *d, sc_value x)
{
    return sc_make_constant(&d->e, 0, sc_type_of(d->e.m, x)->dtype);
}

/* Multiplies the cotangent by the local derivative. */
static void by_slope(sc_derive *d, sc_value slope)
{
    d->gradients[0] = mul(d, dy(d), slope);
}

void derive_same(sc_derive *d)
{
    d->gradients[0] = dy(d);
}

void derive_add(sc_derive *d)
{
    d->gradients[0] = d->gradients[1] = dy(d);
}

void derive_sub(sc_derive *d)
{
    d->gradients[0] = dy(d);
    if (d->wanted[1])
        d->gradients[1] = sc_make1(&d->e, SC_OP_neg, dy(d));
}

void derive_mul(sc_derive *d)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (d->wanted[i])
            d->gradients[i] = mul(d, dy(d), in(d, 1 - i));
    }
}

/* y = a / b: da = dy / b, db = -dy y / b. */
void derive_div(sc_derive *d)
{
    sc_value b = in(d, 1);
    sc_value da = sc_make2(&d->e, SC_OP_div, dy(d), b);
    d->gradients[0] = da;
    if (d->wanted[1]) {
        sc_value product = mul(d, da, out(d));
        d->gradients[1] = sc_make1(&d->e, SC_OP_neg, product);
    }
}

/* y = a - b floor(a / b). */
void derive_mod(sc_derive *d)
{
    d->gradients[0] = dy(d);
    if (!d->wanted[1])
        return;
    sc_value a = in(d, 0), b = in(d, 1);
    sc_value whole = sc_make1(&d->e, SC_OP_floor, sc_make2(&d->e, SC_OP_div, a, b));
    sc_value product = mul(d, dy(d), whole);
    d->gradients[1] = sc_make1(&d->e, SC_OP_neg, product);
}

/* The cotangent goes to the operand that was selected; on a tie, to the first. */
static void choose(sc_derive *d, sc_op_kind first_is_chosen)
{
    sc_value a = in(d, 0), b = in(d, 1);
    sc_value first = sc_make2(&d->e, first_is_chosen, a, b), zero = zero_like(d, dy(d));
    if (d->wanted[0])
        d->gradients[0] = sc_make_where(&d->e, first, dy(d), zero);
    if (d->wanted[1])
        d->gradients[1] = sc_make_where(&d->e, first, zero, dy(d));
}

void derive_minimum(sc_derive *d)
{
    choose(d, SC_OP_le);
}

void derive_maximum(sc_derive *d)
{
    choose(d, SC_OP_ge);
}

void derive_neg(sc_derive *d)
{
    d->gradients[0] = sc_make1(&d->e, SC_OP_neg, dy(d));
}

void derive_abs(sc_derive *d)
{
    by_slope(d, sc_make1(&d->e, SC_OP_sign, in(d, 0)));
}

void derive_exp(sc_derive *d)
{
    by_slope(d, out(d));
}

void derive_log(sc_derive *d)
{
    d->gradients[0] = sc_make2(&d->e, SC_OP_div, dy(d), in(d, 0));
}

void derive_sqrt(sc_derive *d)
{
    sc_value y = out(d), half = sc_make_scaled(&d->e, dy(d), 0.5);
    d->gradients[0] = sc_make2(&d->e, SC_OP_div, half, y);
}

/* -1/2 y^3 */
void derive_rsqrt(sc_derive *d)
{
    sc_value y = out(d);
    sc_value cube = mul(d, mul(d, y, y), y);
    by_slope(d, sc_make_scaled(&d->e, cube, -0.5));
}

void derive_sin(sc_derive *d)
{
    by_slope(d, sc_make1(&d->e, SC_OP_cos, in(d, 0)));
}

void derive_cos(sc_derive *d)
{
    sc_value slope = sc_make1(&d->e, SC_OP_sin, in(d, 0));
    by_slope(d, sc_make1(&d->e, SC_OP_neg, slope));
}

/* 1 - x */
static sc_value one_minus(sc_derive *d, sc_value x)
{
    sc_value one = sc_make_constant(&d->e, 1, sc_type_of(d->e.m, x)->dtype);
    sc_value negative = sc_make1(&d->e, SC_OP_neg, x);
    return sc_make2(&d->e, SC_OP_add, negative, one);
}

void derive_tanh(sc_derive *d)
{
    sc_value y = out(d);
    by_slope(d, one_minus(d, mul(d, y, y)));
}

void derive_sigmoid(sc_derive *d)
{
    sc_value y = out(d), rest = one_minus(d, y);
    by_slope(d, mul(d, y, rest));
}

/* These derivatives are single ops so that contractions can fuse them as epilogue steps. */
static void by_slope_at_input(sc_derive *d, sc_op_kind kind)
{
    d->gradients[0] = sc_make2(&d->e, kind, dy(d), in(d, 0));
}

void derive_relu(sc_derive *d)
{
    by_slope_at_input(d, SC_OP_relu_grad);
}

void derive_silu(sc_derive *d)
{
    by_slope_at_input(d, SC_OP_silu_grad);
}

void derive_gelu(sc_derive *d)
{
    by_slope_at_input(d, SC_OP_gelu_grad);
}

void derive_gelu_tanh(sc_derive *d)
{
    by_slope_at_input(d, SC_OP_gelu_tanh_grad);
}

void derive_erf(sc_derive *d)
{
    sc_value x = in(d, 0), square = mul(d, x, x);
    sc_value density = sc_make1(&d->e, SC_OP_exp, sc_make1(&d->e, SC_OP_neg, square));
    by_slope(d, sc_make_scaled(&d->e, density, 2 / sqrt(pi)));
}

/* c x^(c - 1) */
void derive_pow(sc_derive *d)
{
    double c = sc_op_number(sc_op_at(d->e.m, d->op), SC_ATTR_exponent, 1);
    if (c == 0)
        return;
    sc_value x = in(d, 0);
    sc_attr exponent = sc_attr_number(SC_ATTR_exponent, c - 1);
    sc_value power = sc_make_value(&d->e, SC_OP_pow, &x, 1, &exponent, 1);
    by_slope(d, sc_make_scaled(&d->e, power, c));
}

void derive_where(sc_derive *d)
{
    sc_value condition = in(d, 0), zero = zero_like(d, dy(d));
    if (d->wanted[1])
        d->gradients[1] = sc_make_where(&d->e, condition, dy(d), zero);
    if (d->wanted[2])
        d->gradients[2] = sc_make_where(&d->e, condition, zero, dy(d));
}

/* A linear map equal to its transpose: the same op applied to the cotangent (dropout: with the same
 * mask). */
void derive_again(sc_derive *d)
{
    const sc_op op = *sc_op_at(d->e.m, d->op);
    sc_value y = dy(d);
    d->gradients[0] = sc_make_value(&d->e, (sc_op_kind)op.kind, &y, 1, op.attrs, op.attr_count);
}
