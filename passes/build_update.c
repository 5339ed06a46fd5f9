/* update: the part of a train step that runs once per step, on the global program.
 *
 *   weight   = the divisor of the objective, over all micro-batches; 0 makes loss and gradients 0
 *   norm     = sqrt(sum of squares of all gradients), each element once
 *   p, state = one step of the parameter's optimizer with gradient
 *              x min(1, clip / (norm + 1e-6)) / weight if loss and norm are finite;
 *              otherwise unchanged
 *
 * Everything that changes from step to step is a scalar state (optimizer0.lr ..). Formulas: Kingma
 * and Ba, "Adam", ICLR 2015, algorithm 1; Loshchilov and Hutter, "Decoupled weight decay
 * regularization", ICLR 2019, algorithm 2; Chen et al., "Symbolic discovery of optimization
 * algorithms", 2023, algorithm 2 (Lion); momentum and Nesterov as in Sutskever et al., ICML 2013,
 * in the form of torch.optim.SGD's documentation; clipping as in that of
 * torch.nn.utils.clip_grad_norm_. */
#include <assert.h>
#include <string.h>

#include "ir/ops/build.h"
#include "passes/train_step.h"

/* Scalars of a group that are derived from others, computed once. */
enum { FACTOR_REST1 = SC_SCALAR_COUNT, FACTOR_REST2, FACTOR_KEPT, FACTOR_GRADIENT, FACTOR_COUNT };

enum { MAX_READ = 4 }; /* a parameter, its master copy and two moments */

typedef struct update {
    sc_emitter e;
    sc_train_step *step;
    const sc_training *training;
    const sc_trained_param *param;   /* the parameter being updated */
    const sc_trained_param *read_of; /* the parameter whose values are in `read` */
    struct {
        sc_sym name;
        sc_value value;
    } read[MAX_READ]; /* its values and its state: each is read once */
    uint32_t read_count;
    /* by group and scalar or factor, in f32 and f64; SC_NONE until created */
    sc_value (*scalars)[FACTOR_COUNT][2];
    /* by trained parameter: its new value; written last, so that they can share a collective */
    sc_value *written;
    /* the factor of gradients; their norm before clipping, after scaling */
    sc_value scale, norm;
    sc_value taken; /* a bool scalar: the step is applied */
    sc_sym phases[2];
    uint32_t phase; /* of emitted ops: 0 update, 1 backward (the reductions of gradients) */
} update;

static void mark_phase(sc_emitter *e, sc_op_id made)
{
    const update *u = e->user;
    sc_op_set_attr(e->m, made, sc_attr_text(SC_ATTR_phase, u->phases[u->phase]));
}

/* ---- state ---- */

static sc_value read_state(update *u, sc_sym name, const sc_type_info *type)
{
    sc_attr attr = sc_attr_text(SC_ATTR_name, name);
    return sc_make_as(&u->e, SC_OP_state_read, NULL, 0, &attr, 1, type);
}

static void write_state(update *u, sc_sym name, sc_value value)
{
    sc_attr attr = sc_attr_text(SC_ATTR_name, name);
    u->e.made(&u->e, sc_op_new(u->e.m, u->e.func, SC_NONE, SC_OP_state_write, &value, 1, &attr, 1,
                               NULL, 0, SC_NONE));
}

/* The value already read under this name for the current parameter; SC_NONE: not yet. */
static sc_value *known_read(update *u, sc_sym name)
{
    if (u->read_of != u->param)
        u->read_count = 0;
    u->read_of = u->param;
    for (uint32_t i = 0; i < u->read_count; i++) {
        if (u->read[i].name == name)
            return &u->read[i].value;
    }
    assert(u->read_count < MAX_READ);
    u->read[u->read_count].name = name;
    u->read[u->read_count].value = SC_NONE;
    return &u->read[u->read_count++].value;
}

static sc_value named_state(update *u, const char *suffix, sc_dtype dtype)
{
    sc_module *m = u->e.m;
    sc_type_info type = *sc_state_type(m, u->param->state);
    type.dtype = dtype;
    sc_sym name = sc_state_name_of(m, u->param->state, suffix);
    sc_value *known = known_read(u, name);
    if (*known != SC_NONE)
        return *known;
    uint32_t state = sc_step_state(m, u->step, name, SC_STATE_OPT, &type, u->param->state);
    m->state.data[state].host = u->param->opt_host;
    m->state.data[state].host_rule = u->param->opt_rule;
    return *known = read_state(u, name, &type);
}

/* Selects the new value, or the old one if the step is skipped. */
static sc_value if_taken(update *u, sc_value value, sc_value old)
{
    return sc_make_where(&u->e, u->taken, value, old);
}

/* Returns the value written. */
static sc_value write_named(update *u, const char *suffix, sc_value value)
{
    sc_value rounded = sc_make_cast(&u->e, value, u->param->opt);
    rounded = if_taken(u, rounded, named_state(u, suffix, u->param->opt));
    write_state(u, sc_state_name_of(u->e.m, u->param->state, suffix), rounded);
    return rounded;
}

/* Reads a scalar of the parameter's group. */
static sc_value scalar(update *u, sc_scalar which, sc_dtype dtype)
{
    sc_module *m = u->e.m;
    uint32_t group = u->param->group;
    sc_value *known = &u->scalars[group][which][dtype == SC_DTYPE_f64];
    if (*known != SC_NONE)
        return *known;
    sc_type_info type = {.dtype = SC_DTYPE_f64};
    sc_sym name =
        sc_intern_printf(&m->context->names, "optimizer%u.%s", group, sc_scalar_names[which]);
    sc_step_state(m, u->step, name, SC_STATE_SCALAR, &type, SC_NONE);
    sc_value read = read_state(u, name, &type);
    return *known = sc_make_cast(&u->e, read, dtype);
}

/* ---- arithmetic ---- */

static sc_value add(update *u, sc_value x, sc_value y)
{
    return sc_make2(&u->e, SC_OP_add, x, y);
}

static sc_value sub(update *u, sc_value x, sc_value y)
{
    return sc_make2(&u->e, SC_OP_sub, x, y);
}

static sc_value mul(update *u, sc_value x, sc_value y)
{
    return sc_make2(&u->e, SC_OP_mul, x, y);
}

static sc_value quotient(update *u, sc_value x, sc_value y)
{
    return sc_make2(&u->e, SC_OP_div, x, y);
}

static sc_value one_minus(update *u, sc_value x)
{
    sc_value one = sc_make_constant(&u->e, 1, sc_type_of(u->e.m, x)->dtype);
    return sub(u, one, x);
}

/* Computes a factor from the group's scalars: 1 - beta1, 1 - beta2, 1 - lr decay, and min(1, clip /
 * (norm + 1e-6)) / weight. */
static sc_value factor(update *u, uint32_t which, sc_dtype dtype)
{
    sc_value *known = &u->scalars[u->param->group][which][dtype == SC_DTYPE_f64], x = SC_NONE, y;
    if (*known != SC_NONE)
        return *known;
    if (which == FACTOR_REST1 || which == FACTOR_REST2) {
        x = one_minus(u,
                      scalar(u, which == FACTOR_REST1 ? SC_SCALAR_BETA1 : SC_SCALAR_BETA2, dtype));
    } else if (which == FACTOR_KEPT) {
        x = scalar(u, SC_SCALAR_LR, dtype);
        y = scalar(u, SC_SCALAR_DECAY, dtype);
        x = one_minus(u, mul(u, x, y));
    } else {
        sc_dtype exact = sc_type_of(u->e.m, u->norm)->dtype;
        x = scalar(u, SC_SCALAR_CLIP, exact);
        y = sc_make_plus(&u->e, u->norm, 1e-6);
        x = quotient(u, x, y);
        y = sc_make_constant(&u->e, 1, exact);
        x = mul(u, u->scale, sc_make2(&u->e, SC_OP_minimum, x, y));
        x = sc_make_cast(&u->e, x, dtype);
    }
    return *known = x;
}

/* beta x + (1 - beta) y */
static sc_value blend(update *u, sc_scalar beta, uint32_t rest, sc_value x, sc_value y)
{
    sc_dtype dtype = sc_type_of(u->e.m, x)->dtype;
    sc_value kept = mul(u, x, scalar(u, beta, dtype));
    sc_value more = mul(u, y, factor(u, rest, dtype));
    return add(u, kept, more);
}

/* ---- the objective ---- */

static sc_value read_scalar(update *u, const char *name)
{
    sc_module *m = u->e.m;
    sc_sym symbol = sc_intern_text(&m->context->names, name);
    const sc_type_info type = *sc_state_type(m, sc_module_find_state(m, symbol));
    sc_value read = read_state(u, symbol, &type);
    return sc_make1(&u->e, SC_OP_use, read);
}

/* 1 / weight, or 0 if the weight is 0. With a single scalar result: its mean over micro-batches. */
static sc_value reciprocal_weight(update *u, uint32_t result_count, sc_dtype dtype)
{
    if (result_count < 2)
        return sc_make_constant(&u->e, 1.0 / (double)u->training->micro_batches, dtype);
    sc_value weight = sc_make_cast(&u->e, read_scalar(u, "weight"), dtype),
             zero = sc_make_constant(&u->e, 0, dtype), one = sc_make_constant(&u->e, 1, dtype);
    sc_value empty = sc_make2(&u->e, SC_OP_eq, weight, zero),
             safe = sc_make_where(&u->e, empty, one, weight);
    sc_value reciprocal = quotient(u, one, safe);
    return sc_make_where(&u->e, empty, zero, reciprocal);
}

/* ---- gradients ---- */

/* A reduced gradient, in the optimizer's dtype or f32. The reduction belongs to the backward
 * pass. */
static sc_value read_gradient(update *u, sc_sym name)
{
    sc_module *m = u->e.m;
    sc_type_info type = *sc_state_type(m, u->param->state);
    type.dtype = u->param->grad;
    u->phase = 1;
    sc_attr attrs[2] = {sc_attr_text(SC_ATTR_name, name), sc_attr_int(SC_ATTR_bucket, 0)};
    sc_value read = sc_make_as(&u->e, SC_OP_state_read, NULL, 0, attrs, 2, &type);
    attrs[0] = attrs[1];
    attrs[1] = sc_attr_text(SC_ATTR_travels,
                            sc_intern_text(&m->context->names, sc_dtypes[u->param->reduce].name));
    sc_value whole = sc_make_value(&u->e, SC_OP_use, &read, 1, attrs,
                                   u->param->reduce != u->param->grad ? 2 : 1);
    u->phase = 0;
    return sc_make_cast(&u->e, whole, sc_wide(type.dtype));
}

/* The sum of a parameter's gradients, of the chunks in order. SC_NONE: it has none. *chunk: the
 * last one, which counts it in the norm. */
static sc_value sum_gradients(update *u, const sc_gradients *gradients, uint16_t *chunk)
{
    sc_value sum = SC_NONE;
    for (uint32_t g = gradients->first[u->param->state]; g != SC_NONE;
         g = gradients->list.data[g].next) {
        sc_value one = read_gradient(u, gradients->list.data[g].name);
        sum = sum == SC_NONE ? one : add(u, sum, one);
        *chunk = gradients->list.data[g].chunk;
    }
    return sum;
}

static sc_value sum_of_squares(update *u, sc_value gradient)
{
    const sc_type_info *type = sc_type_of(u->e.m, gradient);
    sc_dim dims[SC_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        dims[i] = type->dims[i].dim;
    sc_attr attr = sc_attr_dims(u->e.m, SC_ATTR_dims, dims, type->rank);
    sc_value square = mul(u, gradient, gradient);
    return attr.count == 0 ? square : sc_make_value(&u->e, SC_OP_sum, &square, 1, &attr, 1);
}

/* ---- optimizers: the new value of x from its gradient g ---- */

static sc_value with_decay(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    return u->param->decays ? add(u, g, mul(u, x, scalar(u, SC_SCALAR_DECAY, dtype))) : g;
}

/* x (1 - lr decay) */
static sc_value decayed(update *u, sc_value x, sc_dtype dtype)
{
    if (!u->param->decays)
        return x;
    return mul(u, x, factor(u, FACTOR_KEPT, dtype));
}

static sc_value descend(update *u, sc_value x, sc_value direction, sc_dtype dtype)
{
    sc_value rate = scalar(u, SC_SCALAR_LR, dtype);
    return sub(u, x, mul(u, direction, rate));
}

static sc_value step_sgd(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    const double *hyper = u->training->groups.data[u->param->group].hyper;
    g = with_decay(u, x, g, dtype);
    if (hyper[SC_HYPER_MOMENTUM] == 0)
        return descend(u, x, g, dtype);
    sc_value momentum = scalar(u, SC_SCALAR_MOMENTUM, dtype);
    sc_value old = sc_make_cast(&u->e, named_state(u, "m", u->param->opt), dtype);
    sc_value velocity = add(u, mul(u, old, momentum), g);
    write_named(u, "m", velocity);
    if (hyper[SC_HYPER_NESTEROV] != 0)
        velocity = add(u, g, mul(u, velocity, momentum));
    return descend(u, x, velocity, dtype);
}

/* The direction of Adam for gradient g. */
static sc_value adam_direction(update *u, sc_value g, sc_dtype dtype)
{
    sc_value m = sc_make_cast(&u->e, named_state(u, "m", u->param->opt), dtype);
    sc_value v = sc_make_cast(&u->e, named_state(u, "v", u->param->opt), dtype);
    m = blend(u, SC_SCALAR_BETA1, FACTOR_REST1, m, g);
    v = blend(u, SC_SCALAR_BETA2, FACTOR_REST2, v, mul(u, g, g));
    write_named(u, "m", m);
    write_named(u, "v", v);
    sc_value mean = quotient(u, m, scalar(u, SC_SCALAR_CORRECTION1, dtype));
    sc_value square = quotient(u, v, scalar(u, SC_SCALAR_CORRECTION2, dtype));
    sc_value root = sc_make1(&u->e, SC_OP_sqrt, square);
    return quotient(u, mean, add(u, root, scalar(u, SC_SCALAR_EPS, dtype)));
}

static sc_value step_adam(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    g = with_decay(u, x, g, dtype);
    return descend(u, x, adam_direction(u, g, dtype), dtype);
}

static sc_value step_adamw(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    sc_value direction = adam_direction(u, g, dtype);
    return descend(u, decayed(u, x, dtype), direction, dtype);
}

static sc_value step_lion(update *u, sc_value x, sc_value g, sc_dtype dtype)
{
    sc_value m = sc_make_cast(&u->e, named_state(u, "m", u->param->opt), dtype);
    sc_value direction = sc_make1(&u->e, SC_OP_sign, blend(u, SC_SCALAR_BETA1, FACTOR_REST1, m, g));
    write_named(u, "m", blend(u, SC_SCALAR_BETA2, FACTOR_REST2, m, g));
    x = decayed(u, x, dtype);
    return descend(u, x, direction, dtype);
}

static sc_value (*const steps[SC_OPTIMIZER_COUNT])(update *u, sc_value x, sc_value g,
                                                   sc_dtype dtype) = {
#define OPTIMIZER(name, NAME, ...) [SC_##NAME] = step_##name,
#include "program/optimizers.def"
};

/* ---- one parameter ---- */

static sc_value read_stored(update *u)
{
    sc_module *m = u->e.m;
    const sc_type_info type = *sc_state_type(m, u->param->state);
    sc_sym name = m->state.data[u->param->state].path;
    sc_attr attr = sc_attr_text(SC_ATTR_name, name);
    sc_value *known = known_read(u, name);
    return *known != SC_NONE ? *known
                             : (*known = sc_make_as(&u->e, SC_OP_param, NULL, 0, &attr, 1, &type));
}

/* The value to update: the master copy if the optimizer keeps a wider one. */
static sc_value read_param(update *u, bool *master)
{
    sc_module *m = u->e.m;
    const sc_type_info type = *sc_state_type(m, u->param->state);
    *master = sc_dtypes[u->param->opt].bytes > sc_dtypes[type.dtype].bytes;
    if (*master)
        return named_state(u, "master", u->param->opt);
    return read_stored(u);
}

/* Writes the parameter. This is where the new value is gathered if the parameter is less sharded
 * than its optimizer state. With a master copy, x is the value written to it: if the step is
 * skipped that is the old value, and rounding it gives the old parameter. */
static void write_param(update *u, sc_value x, bool master)
{
    sc_module *m = u->e.m;
    const sc_state *state = &m->state.data[u->param->state];
    x = sc_make_cast(&u->e, x, m->types.data[state->type].dtype);
    if (!master)
        x = if_taken(u, x, read_stored(u));
    sc_attr bucket = sc_attr_int(SC_ATTR_bucket, 1);
    x = sc_make_value(&u->e, SC_OP_use, &x, 1, &bucket, 1);
    m->values.data[x].path = sc_state_name_of(m, u->param->state, "new");
    u->written[u->param - u->training->params.data] = x;
}

static void step_param(update *u, sc_value gradient)
{
    const sc_module *m = u->e.m;
    bool exact = sc_type_of(m, gradient)->dtype == SC_DTYPE_f64 || u->param->opt == SC_DTYPE_f64 ||
                 sc_state_type(m, u->param->state)->dtype == SC_DTYPE_f64,
         master;
    sc_dtype dtype = exact ? SC_DTYPE_f64 : SC_DTYPE_f32;
    sc_value wide = sc_make_cast(&u->e, gradient, dtype);
    sc_value g = mul(u, wide, factor(u, FACTOR_GRADIENT, dtype));
    sc_value x = sc_make_cast(&u->e, read_param(u, &master), dtype);
    x = steps[u->training->groups.data[u->param->group].kind](u, x, g, dtype);
    if (master)
        x = write_named(u, "master", x);
    write_param(u, x, master);
}

/* ---- the function ---- */

static void place_op(sc_emitter *e, sc_op_id made)
{
    const update *u = e->user;
    sc_op *op = sc_op_at(e->m, made);
    op->loc = u->param == NULL ? (sc_loc){0} : e->m->state.data[u->param->state].loc;
    op->scope = u->phases[0];
    mark_phase(e, made);
}

/* Resets accumulators to 0 for the next step. */
static void set_back(update *u)
{
    sc_module *m = u->e.m;
    for (uint32_t s = 0; s < m->state.count; s++) {
        if (m->state.data[s].kind != SC_STATE_GRAD && m->state.data[s].kind != SC_STATE_SUM)
            continue;
        const sc_type_info type = *sc_state_type(m, s);
        sc_attr zero = sc_attr_number(SC_ATTR_value, 0);
        write_state(u, m->state.data[s].path,
                    sc_make_as(&u->e, SC_OP_constant, NULL, 0, &zero, 1, &type));
    }
}

/* Adds numbers of which either may be f64; `sum` may be SC_NONE. */
static sc_value add_squares(update *u, sc_value sum, sc_value one)
{
    if (sum == SC_NONE)
        return one;
    if (sc_type_of(u->e.m, one)->dtype != sc_type_of(u->e.m, sum)->dtype) {
        one = sc_make_cast(&u->e, one, SC_DTYPE_f64);
        sum = sc_make_cast(&u->e, sum, SC_DTYPE_f64);
    }
    return add(u, sum, one);
}

/* Sum of squares of all gradients; in f64 if any gradient is. Summed by chunk and then over the
 * chunks, so that a pipeline sends one number a chunk, and so that the bits do not depend on which
 * stage holds which chunk. */
static sc_value all_squares(update *u, const sc_value *gradients, const uint16_t *chunks)
{
    sc_arena *arena = &u->e.m->context->arena;
    const sc_training *training = u->training;
    uint32_t count = 0;
    for (uint32_t i = 0; i < training->params.count; i++)
        count = gradients[i] != SC_NONE && chunks[i] != SC_NO_CHUNK && chunks[i] >= count
                    ? chunks[i] + 1u
                    : count;
    sc_value *of_chunk = sc_arena_array(arena, count + 1u, sizeof *of_chunk), squares = SC_NONE;
    memset(of_chunk, 0xff, (count + 1u) * sizeof *of_chunk);
    for (uint32_t i = training->params.count; i-- > 0;) {
        u->param = &training->params.data[i];
        if (gradients[i] == SC_NONE)
            continue;
        sc_value *sum = &of_chunk[chunks[i] == SC_NO_CHUNK ? count : chunks[i]];
        sc_value one = sum_of_squares(u, gradients[i]);
        *sum = add_squares(u, *sum, one);
    }
    u->param = NULL;
    for (uint32_t c = 0; c <= count; c++) {
        if (of_chunk[c] != SC_NONE)
            squares = add_squares(u, squares, of_chunk[c]);
    }
    return squares;
}

/* Computes loss, norm and the factor of gradients. */
static void finish_objective(update *u, sc_value squares, uint32_t result_count, sc_value *loss)
{
    sc_value total = read_scalar(u, "total");
    sc_dtype dtype = sc_type_of(u->e.m, total)->dtype;
    dtype = squares != SC_NONE && sc_type_of(u->e.m, squares)->dtype == SC_DTYPE_f64 ? SC_DTYPE_f64
                                                                                     : dtype;
    total = sc_make_cast(&u->e, total, dtype);
    squares = squares == SC_NONE ? sc_make_constant(&u->e, 0, dtype)
                                 : sc_make_cast(&u->e, squares, dtype);
    u->scale = reciprocal_weight(u, result_count, dtype);
    *loss = mul(u, total, u->scale);
    if (u->step->scales) { /* gradients include the loss scale */
        sc_value scale = sc_read_scaling(&u->e, u->step, SC_SCALE_STATE, SC_SCALE_INITIAL);
        u->scale = quotient(u, u->scale, sc_make_cast(&u->e, scale, dtype));
    }
    u->norm = mul(u, sc_make1(&u->e, SC_OP_sqrt, squares), u->scale);
}

/* A step is applied only if loss and norm are finite, so that a bad batch cannot corrupt
 * parameters. */
static void find_taken(update *u, sc_value loss)
{
    sc_emitter *e = &u->e;
    /* inf - inf and NaN - NaN are NaN */
    sc_value difference = add(u, sub(u, loss, loss), sub(u, u->norm, u->norm));
    u->taken = sc_make2(e, SC_OP_eq, difference,
                        sc_make_constant(e, 0, sc_type_of(e->m, difference)->dtype));
}

/* Halves the scale after an overflow, doubles it after SC_SCALE_INTERVAL steps without one. */
static void step_scaling(update *u)
{
    sc_emitter *e = &u->e;
    sc_module *m = e->m;
    sc_value zero = sc_make_constant(e, 0, SC_DTYPE_f64);
    sc_value scale = sc_read_scaling(e, u->step, SC_SCALE_STATE, SC_SCALE_INITIAL);
    sc_value good = sc_make_plus(e, sc_read_scaling(e, u->step, SC_SCALE_GOOD_STATE, 0), 1);
    sc_value count = sc_read_scaling(e, u->step, SC_SCALE_TAKEN_STATE, 0);
    sc_value grows =
        sc_make2(e, SC_OP_ge, good, sc_make_constant(e, SC_SCALE_INTERVAL, SC_DTYPE_f64));
    sc_value larger = sc_make_where(e, grows, sc_make_scaled(e, scale, 2), scale);
    sc_value next = sc_make_where(e, u->taken, larger, sc_make_scaled(e, scale, 0.5));
    good = sc_make_where(e, grows, zero, good);
    good = sc_make_where(e, u->taken, good, zero);
    count = sc_make_where(e, u->taken, sc_make_plus(e, count, 1), count);
    write_state(u, sc_intern_text(&m->context->names, SC_SCALE_STATE), next);
    write_state(u, sc_intern_text(&m->context->names, SC_SCALE_GOOD_STATE), good);
    write_state(u, sc_intern_text(&m->context->names, SC_SCALE_TAKEN_STATE), count);
}

static uint32_t read_metrics(update *u, uint32_t result_count, sc_value *out)
{
    sc_module *m = u->e.m;
    uint32_t count = 0;
    for (uint32_t i = 2; i < result_count; i++) {
        sc_sym name = sc_intern_printf(&m->context->names, "metric%u", i - 2);
        if (sc_module_find_state(m, name) != SC_NONE) {
            sc_value sum = read_scalar(u, sc_text(m->context, name));
            out[count++] = sc_make_scaled(&u->e, sum, 1.0 / (double)u->training->micro_batches);
        }
    }
    return count;
}

void sc_build_update(sc_module *m, const sc_training *training, sc_train_step *step,
                     const sc_gradients *found, uint32_t result_count)
{
    sc_arena *arena = &m->context->arena;
    update u = {.step = step, .training = training, .taken = SC_NONE};
    uint32_t count = 0;
    u.e = (sc_emitter){.m = m,
                       .func = step->update,
                       .before = SC_NONE,
                       .like = SC_NONE,
                       .made = place_op,
                       .user = &u};
    u.phases[0] = sc_intern_text(&m->context->names, "update");
    u.phases[1] = sc_intern_text(&m->context->names, "backward");
    u.scalars = sc_arena_array(arena, training->groups.count, sizeof *u.scalars);
    memset(u.scalars, 0xff, training->groups.count * sizeof *u.scalars);
    sc_value *gradients = sc_arena_array(arena, training->params.count + 1u, sizeof *gradients);
    uint16_t *chunks = sc_arena_array(arena, training->params.count + 1u, sizeof *chunks);
    u.written = sc_arena_array(arena, training->params.count + 1u, sizeof *u.written);
    sc_value *results = sc_arena_array(arena, result_count + 3u, sizeof *results);
    /* gradients of the last layer are ready first */
    for (uint32_t i = training->params.count; i-- > 0;) {
        u.param = &training->params.data[i];
        gradients[i] = sum_gradients(&u, found, &chunks[i]);
    }
    finish_objective(&u, all_squares(&u, gradients, chunks), result_count, &results[count++]);
    results[count++] = u.norm;
    find_taken(&u, results[0]);
    if (step->scales) {
        step_scaling(&u);
        results[count++] = u.taken;
    }
    for (uint32_t i = 0; i < training->params.count; i++) {
        u.param = &training->params.data[i];
        if (gradients[i] != SC_NONE)
            step_param(&u, gradients[i]);
    }
    for (uint32_t i = 0; i < training->params.count; i++) {
        u.param = &training->params.data[i];
        if (gradients[i] != SC_NONE)
            write_state(&u, m->state.data[u.param->state].path, u.written[i]);
    }
    u.param = NULL;
    step->metric_count = read_metrics(&u, result_count, &results[count]);
    if (training->micro_batches > 1)
        set_back(&u);
    sc_op_new(m, step->update, SC_NONE, SC_OP_return, results, count + step->metric_count, NULL, 0,
              NULL, 0, SC_NONE);
}
