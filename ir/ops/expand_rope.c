/* rope by its definition: tables of cosines and sines, which depend only on positions, and one
 * rotation of x. See eval_rope.c and rope_scaling.c for the sources.
 *
 *   rope[S, E] x  ->  angle = position * theta^(-2i/E)
 *                     [S, E], or [B, S, E] if rows have their own positions
 *                     out = x * cos(angle) + partner(x) * (-+ sin(angle))
 *                     partner: the other element of the pair
 *
 * Angles are computed in f64 and rounded to the dtype of the rotation, as the reference models
 * do. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "ir/ops/build.h"
#include "ir/ops/expand.h"
#include "ir/ops/rope_scaling.h"

typedef struct rope {
    sc_expand *e;
    sc_value x, pos, len; /* pos: SC_NONE if rows count from 0 */
    sc_dim s, d;          /* the position dim, and the dim whose elements are paired */
    int64_t pairs;        /* half of d's size */
    sc_rope_scaling scaling;
    bool interleaved, back;
    sc_dtype wide; /* dtype of the rotation */
} rope;

static sc_value fresh_constant(rope *r, double value, sc_dtype dtype)
{
    return sc_make_constant(&r->e->e, value, dtype);
}

/* x op factor * size(d) ^ exponent, in f64. */
static sc_value with_size(rope *r, sc_op_kind kind, sc_value x, double factor, double exponent)
{
    const sc_type_info type = *sc_type_of(r->e->e.m, r->x);
    sc_dtype dtype = sc_type_of(r->e->e.m, x)->dtype;
    sc_value y = sc_make_sized_constant(
        &r->e->e, &(sc_sized_number){&type, r->d, factor, exponent, 0}, dtype);
    return sc_make2(&r->e->e, kind, x, y);
}

/* x op number, in the dtype of x. */
static sc_value with(rope *r, sc_op_kind kind, sc_value x, double number)
{
    sc_value y = fresh_constant(r, number, sc_type_of(r->e->e.m, x)->dtype);
    return sc_make2(&r->e->e, kind, x, y);
}

static sc_value index_along(rope *r, sc_dim dim)
{
    const sc_type_info type = *sc_type_of(r->e->e.m, r->x);
    sc_value index = sc_make_index(&r->e->e, &type, dim);
    return sc_make_cast(&r->e->e, index, SC_DTYPE_f64);
}

/* Returns the index of each element's pair. */
static sc_value pair_of(rope *r, sc_value element)
{
    if (!r->interleaved)
        return with_size(r, SC_OP_mod, element, 0.5, 1);
    sc_value half = with(r, SC_OP_mul, element, 0.5);
    return sc_make1(&r->e->e, SC_OP_floor, half);
}

static sc_value scale_llama3(rope *r, sc_value frequency)
{
    sc_emitter *e = &r->e->e;
    const double *args = r->scaling.args;
    const double factor = args[0], low = args[1], high = args[2], original = args[3];
    const double turn = 2 * 3.14159265358979323846;
    sc_value is_short = with(r, SC_OP_gt, frequency, turn * high / original);
    sc_value is_long = with(r, SC_OP_lt, frequency, turn * low / original);
    sc_value stretched = with(r, SC_OP_div, frequency, factor);
    sc_value waves = with(r, SC_OP_mul, frequency, original / turn);
    sc_value smooth = with(r, SC_OP_div, with(r, SC_OP_sub, waves, low), high - low);
    sc_value rest = sc_make2(e, SC_OP_sub, fresh_constant(r, 1, SC_DTYPE_f64), smooth);
    sc_value a = sc_make2(e, SC_OP_mul, rest, stretched);
    sc_value b = sc_make2(e, SC_OP_mul, smooth, frequency);
    sc_value between = sc_make2(e, SC_OP_add, a, b);
    sc_value others = sc_make_where(e, is_long, stretched, between);
    return sc_make_where(e, is_short, frequency, others);
}

static sc_value scale_yarn(rope *r, sc_value frequency, sc_value pair)
{
    sc_emitter *e = &r->e->e;
    const double first = r->scaling.first, past = r->scaling.past;
    sc_value ramp = with(r, SC_OP_div, with(r, SC_OP_sub, pair, first), past - first);
    ramp = with(r, SC_OP_minimum, with(r, SC_OP_maximum, ramp, 0), 1);
    sc_value kept = sc_make2(e, SC_OP_sub, fresh_constant(r, 1, SC_DTYPE_f64), ramp);
    sc_value stretched = with(r, SC_OP_div, frequency, r->scaling.args[0]);
    sc_value a = sc_make2(e, SC_OP_mul, stretched, ramp);
    sc_value b = sc_make2(e, SC_OP_mul, frequency, kept);
    return sc_make2(e, SC_OP_add, a, b);
}

/* The number of `list` at the pair's index, as a chain of choices. */
static sc_value number_of_pair(rope *r, sc_value pair, const double *list)
{
    sc_value number = fresh_constant(r, list[r->pairs - 1], SC_DTYPE_f64);
    for (int64_t i = r->pairs - 1; i-- > 0;) {
        if (list[i] == list[i + 1])
            continue;
        sc_value is_before = with(r, SC_OP_lt, pair, (double)(i + 1));
        sc_value here = fresh_constant(r, list[i], SC_DTYPE_f64);
        number = sc_make_where(&r->e->e, is_before, here, number);
    }
    return number;
}

/* A row that uses more positions than the original length takes the long factors, each row by
 * itself. Without a cache all positions are used, so the choice is one of the compiler. */
static sc_value scale_longrope(rope *r, sc_value frequency, sc_value pair)
{
    sc_emitter *e = &r->e->e;
    const sc_type_info type = *sc_type_of(e->m, r->x);
    const int64_t positions = type.dims[sc_type_find_dim(&type, r->s)].size;
    const double *near = r->scaling.args, *far = near + r->pairs;
    sc_value factor;
    if (r->pos == SC_NONE) {
        factor = number_of_pair(r, pair, (double)positions > r->scaling.original ? far : near);
    } else {
        sc_value total = sc_make_cast(e, r->pos, SC_DTYPE_f64);
        if (r->len == SC_NONE)
            total = with(r, SC_OP_add, total, (double)positions);
        else
            total = sc_make2(e, SC_OP_add, total, sc_make_cast(e, r->len, SC_DTYPE_f64));
        sc_value is_long = with(r, SC_OP_gt, total, r->scaling.original);
        sc_value long_factor = number_of_pair(r, pair, far);
        factor = sc_make_where(e, is_long, long_factor, number_of_pair(r, pair, near));
    }
    return sc_make2(e, SC_OP_div, frequency, factor);
}

static sc_value scaled(rope *r, sc_value frequency, sc_value pair)
{
    switch (r->scaling.kind) {
    case SC_ROPE_linear:
        return with(r, SC_OP_div, frequency, r->scaling.args[0]);
    case SC_ROPE_llama3:
        return scale_llama3(r, frequency);
    case SC_ROPE_yarn:
        return scale_yarn(r, frequency, pair);
    case SC_ROPE_longrope:
        return scale_longrope(r, frequency, pair);
    case SC_ROPE_none:
    case SC_ROPE_KINDS:
        break;
    }
    return frequency;
}

static sc_value angles(rope *r, sc_value element)
{
    sc_emitter *e = &r->e->e;
    sc_value pair = pair_of(r, element);
    sc_value exponent = with_size(r, SC_OP_mul, pair, -2 * log(r->scaling.theta), -1);
    sc_value frequency = sc_make1(e, SC_OP_exp, exponent);
    frequency = scaled(r, frequency, pair);
    sc_value position = index_along(r, r->s);
    if (r->pos != SC_NONE) {
        sc_value first = sc_make_cast(e, r->pos, SC_DTYPE_f64);
        position = sc_make2(e, SC_OP_add, first, position);
    }
    sc_value angle = sc_make2(e, SC_OP_mul, position, frequency);
    return sc_make_cast(e, angle, r->wide);
}

static sc_dim part_of(rope *r, const char *suffix)
{
    sc_module *m = r->e->e.m;
    sc_sym name = sc_intern_printf(&m->context->names, "%s.%s",
                                   sc_text(m->context, m->dims.data[r->d].name), suffix);
    sc_dim known = sc_module_find_dim(m, name);
    return known != SC_NONE ? known : sc_module_add_dim(m, name);
}

static sc_value half_of(rope *r, sc_value x, sc_dim dim, sc_dim to, int64_t from, int64_t size)
{
    sc_module *m = r->e->e.m;
    sc_attr attrs[] = {sc_attr_dims(m, SC_ATTR_dims, &dim, 1), sc_attr_dims(m, SC_ATTR_to, &to, 1),
                       sc_attr_int(SC_ATTR_from, from)};
    return sc_result(m, sc_make_sized(&r->e->e, SC_OP_slice, &x, 1, attrs, 3, size), 0);
}

/* Swaps the two halves of a dim. */
static sc_value swapped(rope *r, sc_value x, sc_dim dim, int64_t size)
{
    sc_module *m = r->e->e.m;
    sc_dim half = part_of(r, "half");
    sc_value second = half_of(r, x, dim, half, size / 2, size / 2);
    sc_value first = half_of(r, x, dim, half, 0, size / 2);
    sc_attr attrs[] = {sc_attr_dims(m, SC_ATTR_dims, &half, 1),
                       sc_attr_dims(m, SC_ATTR_from_dims, &half, 1),
                       sc_attr_dims(m, SC_ATTR_to, &dim, 1)};
    return sc_make_value(&r->e->e, SC_OP_concat, (sc_value[]){second, first}, 2, attrs, 3);
}

static sc_value partner_of(rope *r, sc_value x)
{
    sc_module *m = r->e->e.m;
    if (!r->interleaved)
        return swapped(r, x, r->d, 2 * r->pairs);
    sc_dim pair = part_of(r, "pair"), two = part_of(r, "two");
    const sc_type_info type = *sc_type_of(m, x);
    sc_type_info unfolded = type;
    uint32_t at = (uint32_t)sc_type_find_dim(&type, r->d);
    unfolded.rank = 0;
    unfolded.placement = sc_placement_replicated();
    for (uint32_t i = 0; i < type.rank; i++) {
        if (i == at) {
            unfolded.dims[unfolded.rank++] = (sc_type_dim){pair, SC_NONE, r->pairs};
            unfolded.dims[unfolded.rank++] = (sc_type_dim){two, SC_NONE, 2};
        } else {
            unfolded.dims[unfolded.rank++] = type.dims[i];
        }
    }
    sc_dim both[] = {pair, two};
    sc_attr unfold[] = {sc_attr_dims(m, SC_ATTR_dims, &r->d, 1),
                        sc_attr_dims(m, SC_ATTR_to, both, 2)};
    x = sc_make_as(&r->e->e, SC_OP_unfold, &x, 1, unfold, 2, &unfolded);
    x = swapped(r, x, two, 2);
    sc_attr fold[] = {sc_attr_dims(m, SC_ATTR_dims, both, 2),
                      sc_attr_dims(m, SC_ATTR_to, &r->d, 1)};
    return sc_make_value(&r->e->e, SC_OP_rename, &x, 1, fold, 2);
}

void expand_rope(sc_expand *expand)
{
    sc_emitter *e = &expand->e;
    const sc_op *op = sc_op_at(e->m, e->before);
    const sc_attr dims = *sc_op_attr(op, SC_ATTR_dims);
    const sc_value result = op->first_result;
    const sc_dtype dtype = sc_type_of(e->m, result)->dtype;
    int pos = sc_op_operand_called(e->m, op, "pos", 1),
        len = sc_op_operand_called(e->m, op, "len", 1);
    sc_attr paired = sc_attr_dims(e->m, SC_ATTR_dims, &dims.dims[1], 1);
    rope r = {.e = expand,
              .pos = pos < 0 ? SC_NONE : op->operands[pos],
              .len = len < 0 ? SC_NONE : op->operands[len],
              .s = dims.dims[0],
              .d = dims.dims[1],
              .wide = sc_wide(dtype)};
    r.interleaved =
        strcmp(sc_text(e->m->context, sc_op_word(op, SC_ATTR_pairs)), "interleaved") == 0;
    r.back = sc_op_int(op, SC_ATTR_inverse, 0) != 0;
    const sc_type_info whole = *sc_type_of(e->m, op->operands[0]);
    r.pairs = whole.dims[sc_type_find_dim(&whole, r.d)].size / 2;
    const char *wrong = sc_rope_scaling_of(e->m, op->attrs, op->attr_count, r.pairs, &r.scaling);
    assert(wrong == NULL); /* the verifier has seen the op */
    (void)wrong;
    r.x = sc_make_apart(e, op->operands[0], &paired);
    const sc_type_info type = *sc_type_of(e->m, r.x);

    sc_value element = index_along(&r, r.d);
    sc_value angle = angles(&r, element);
    sc_value cosine = sc_make_scaled(e, sc_make1(e, SC_OP_cos, angle), r.scaling.attention);
    sc_value sine = sc_make_scaled(e, sc_make1(e, SC_OP_sin, angle), r.scaling.attention);
    sc_value minus = sc_make1(e, SC_OP_neg, sine);
    sc_value place = sc_make_index(e, &type, r.d);
    sc_value is_first = r.interleaved ? with(&r, SC_OP_lt, with(&r, SC_OP_mod, place, 2), 1)
                                      : with_size(&r, SC_OP_lt, place, 0.5, 1);
    sine =
        r.back ? sc_make_where(e, is_first, sine, minus) : sc_make_where(e, is_first, minus, sine);

    sc_value x = sc_make_cast(e, r.x, r.wide);
    sc_value partner = sc_make_cast(e, partner_of(&r, r.x), r.wide);
    sc_value along = sc_make2(e, SC_OP_mul, x, cosine);
    sc_value across = sc_make2(e, SC_OP_mul, partner, sine);
    sc_value turned = sc_make_cast(e, sc_make2(e, SC_OP_add, along, across), dtype);
    const sc_type_info wanted = *sc_type_of(e->m, result);
    expand->results[0] = sc_make_fit(e, turned, &wanted);
}
