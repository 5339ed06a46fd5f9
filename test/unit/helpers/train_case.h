/* A function written as IR text made into a train step, for the tests of derivatives: its
 * parameters get random values, one call of `micro` leaves gradients in `<name>.grad` and the
 * objective in `total`. */
#ifndef SHARDC_TEST_TRAIN_CASE_H
#define SHARDC_TEST_TRAIN_CASE_H

#include "test/unit/helpers/interp_case.h"

#include "ir/ops/verify.h"
#include "passes/train_step.h"
#include "support/rng.h"

typedef struct train_options {
    const char *state; /* declarations of state; NULL: none */
    /* names of parameters that are not trained, one blank around each; NULL: none */
    const char *frozen;
    /* a character an op of the text: the region's digit, or '.'; NULL: no regions */
    const char *regions;
    const char *saved;     /* likewise, 's': the op's results are kept; NULL: none */
    int64_t micro_batches; /* 0: 1 */
    bool decays;           /* every parameter */
    bool round;
    sc_dtype grad; /* of gradients; SC_DTYPE_COUNT: the parameters' own */
    sc_optimizer_settings optimizer;
} train_options;

/* sgd with rate 1: what a gradient is, is seen in the parameter too. */
#define TRAIN_DEFAULTS                                                                             \
    .grad = SC_DTYPE_COUNT, .optimizer = {.kind = SC_SGD, .lr = {SC_RATE_CONSTANT, 1, 0, 0, 0}}

typedef struct train_case {
    sc_case *c;
    sc_training training;
    sc_train_step step;
} train_case;

static inline bool train_lists(const char *names, const char *name)
{
    char word[128];
    snprintf(word, sizeof word, " %s ", name);
    return names != NULL && strstr(names, word) != NULL;
}

static inline void train_set_regions(train_case *t, const train_options *options)
{
    sc_module *m = t->c->m;
    sc_arena *arena = &t->c->context.arena;
    uint32_t at = 0;
    if (options->regions == NULL)
        return;
    t->training.region = sc_arena_array(arena, m->ops.count, sizeof *t->training.region);
    t->training.saved = sc_arena_array(arena, m->values.count, sizeof *t->training.saved);
    sc_for_each_op (m, 0, id) {
        const sc_op *op = sc_op_at(m, id);
        t->training.region[id] =
            options->regions[at] == '.' ? 0 : (uint32_t)(options->regions[at] - '0');
        for (uint32_t r = 0; r < op->result_count; r++)
            t->training.saved[op->first_result + r] =
                options->saved != NULL && options->saved[at] == 's';
        at++;
    }
    assert_int_equal(at, strlen(options->regions));
}

static inline void train_set_params(train_case *t, const train_options *options)
{
    sc_module *m = t->c->m;
    *sc_vec_push(&t->c->context.arena, &t->training.groups) = options->optimizer;
    for (uint32_t s = 0; s < m->state.count; s++) {
        sc_dtype dtype = sc_state_type(m, s)->dtype;
        if (m->state.data[s].kind != SC_STATE_PARAM ||
            train_lists(options->frozen, sc_text(m->context, m->state.data[s].path)))
            continue;
        sc_dtype grad = options->grad == SC_DTYPE_COUNT ? dtype : options->grad;
        *sc_vec_push(&t->c->context.arena, &t->training.params) =
            (sc_trained_param){.state = s,
                               .decays = options->decays,
                               .grad = grad,
                               .reduce = grad,
                               .opt = dtype == SC_DTYPE_f64 ? dtype : SC_DTYPE_f32};
    }
}

static inline void train_fail(const sc_case *c, const char *what)
{
    sc_strbuf out;
    sc_context *context = c->m->context;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    fail_msg("%s\n%s\n%s", what, c->text, out.data);
}

/* A parsed function becomes a verified train step, ready to run. */
static inline void train_build(train_case *t, const train_options *options)
{
    sc_case *c = t->c;
    c->m->states = SC_SHAPES;
    if (!sc_verify_module(c->m, "parsing"))
        train_fail(c, "not a valid function");
    t->training.micro_batches = options->micro_batches == 0 ? 1 : options->micro_batches;
    t->training.batch_dim = SC_NONE;
    train_set_params(t, options);
    train_set_regions(t, options);
    if (!sc_train_step_build(c->m, 0, &t->training, &t->step) ||
        !sc_verify_module(c->m, "differentiation"))
        train_fail(c, "no train step");
    case_start(c, &(sc_interp_options){.round = options->round});
}

static inline train_case train_open(const char *body, train_options options)
{
    train_case t = {.c = case_read("", options.state == NULL ? "" : options.state, body)};
    train_build(&t, &options);
    return t;
}

static inline void train_close(train_case *t)
{
    case_close(t->c);
}

/* A word of an op's phase; "" when it has none. */
static inline const char *train_phase(const sc_module *m, const sc_op *op)
{
    return sc_text(m->context, sc_op_word(op, SC_ATTR_phase));
}

/* How many ops of the kind (SC_OP_COUNT: of any) `func` has in this phase. */
static inline uint32_t train_count(const train_case *t, sc_func_id func, sc_op_kind kind,
                                   const char *phase)
{
    const sc_module *m = t->c->m;
    uint32_t count = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        count +=
            (kind == SC_OP_COUNT || op->kind == kind) && strcmp(train_phase(m, op), phase) == 0;
    }
    return count;
}

/* Whatever the backward pass computes is read by somebody. */
static inline void train_check_live(const train_case *t)
{
    const sc_module *m = t->c->m;
    bool *is_read = calloc(m->values.count, sizeof *is_read);
    assert_non_null(is_read);
    sc_for_each_op_reverse (m, t->step.micro, id) {
        const sc_op *op = sc_op_at(m, id);
        bool live = (sc_op_traits(op) & SC_EFFECT) != 0;
        for (uint32_t r = 0; r < op->result_count; r++)
            live = live || is_read[op->first_result + r];
        if (!live && train_phase(m, op)[0] != 0)
            fail_msg("nobody reads the %s '%s'\n%s", train_phase(m, op), sc_ops[op->kind].name,
                     t->c->text);
        for (uint32_t i = 0; i < op->operand_count && live; i++)
            is_read[op->operands[i]] = true;
    }
    free(is_read);
}

/* SC_NONE when there is none. */
static inline uint32_t train_find(const train_case *t, const char *name)
{
    return sc_module_find_state(t->c->m, sc_intern_text(&t->c->context.names, name));
}

static inline sc_array train_get(const train_case *t, const char *name)
{
    uint32_t state = train_find(t, name);
    if (state == SC_NONE)
        fail_msg("no state %s\n%s", name, t->c->text);
    sc_array array = sc_interp_get_state(t->c->interp, state, NULL);
    assert_non_null(array.data);
    return array;
}

static inline double train_number(const train_case *t, const char *name)
{
    sc_array array = train_get(t, name);
    double number = array.data[0];
    sc_array_free(&array);
    return number;
}

static inline void train_set(train_case *t, const char *name, const double *values)
{
    assert_true(sc_interp_set_state(t->c->interp, train_find(t, name), values));
}

static inline void train_run(train_case *t, sc_func_id func, sc_array *outputs,
                             uint32_t output_count)
{
    sc_case *c = t->c;
    bool is_micro = func == t->step.micro;
    if (!sc_interp_run(c->interp, func, c->inputs, is_micro ? c->input_count : 0, outputs,
                       output_count, c->error, sizeof c->error))
        fail_msg("%s\n%s", c->error, c->text);
}

static inline void train_run_micro(train_case *t)
{
    train_run(t, t->step.micro, NULL, 0);
}

/* One step, the number `step` from 1 on: loss and norm, then metrics into `outputs`, which the
 * caller frees. */
static inline void train_run_step(train_case *t, int64_t step, sc_array *outputs)
{
    double scalars[SC_SCALAR_COUNT];
    sc_optimizer_scalars(&t->training.groups.data[0], step, scalars);
    for (uint32_t i = 0; i < SC_SCALAR_COUNT; i++) {
        char name[64];
        snprintf(name, sizeof name, "optimizer0.%s", sc_scalar_names[i]);
        if (train_find(t, name) != SC_NONE)
            train_set(t, name, &scalars[i]);
    }
    for (int64_t i = 0; i < t->training.micro_batches; i++)
        train_run_micro(t);
    train_run(t, t->step.update, outputs, 2 + t->step.metric_count);
}

/* Uniform in (low, high), by seed, place and index. */
static inline void train_draw(double *data, int64_t count, uint64_t seed, uint64_t stream,
                              double low, double high)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = low + (high - low) * sc_rng_uniform(seed, stream, (uint64_t)i);
}

static inline void train_draw_state(train_case *t, uint32_t state, uint64_t seed, double low,
                                    double high)
{
    sc_array array = sc_interp_get_state(t->c->interp, state, NULL);
    assert_non_null(array.data);
    train_draw(array.data, array.count, seed, 100 + state, low, high);
    assert_true(sc_interp_set_state(t->c->interp, state, array.data));
    sc_array_free(&array);
}

/* Floats in (low, high), integers in [0, limit), bools. */
static inline void train_draw_inputs(train_case *t, uint64_t seed, double low, double high,
                                     int64_t limit)
{
    uint32_t at = 0;
    sc_for_each_op (t->c->m, 0, op) {
        if (sc_op_at(t->c->m, op)->kind != SC_OP_input)
            continue;
        sc_dtype dtype = sc_type_of(t->c->m, sc_result(t->c->m, op, 0))->dtype;
        sc_array *input = &t->c->inputs[at];
        if (sc_dtype_is_float(dtype))
            train_draw(input->data, input->count, seed, at, low, high);
        else
            train_draw(input->data, input->count, seed, at, 0,
                       dtype == SC_DTYPE_bool ? 2 : (double)limit);
        for (int64_t i = 0; i < input->count && !sc_dtype_is_float(dtype); i++)
            input->data[i] = floor(input->data[i]);
        at++;
    }
}

static inline void train_draw_all(train_case *t, uint64_t seed, double low, double high,
                                  int64_t limit)
{
    train_draw_inputs(t, seed, low, high, limit);
    for (uint32_t s = 0; s < t->c->m->state.count; s++) {
        if (t->c->m->state.data[s].kind == SC_STATE_PARAM)
            train_draw_state(t, s, seed, low, high);
    }
}

#endif
