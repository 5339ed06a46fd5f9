/* Whole steps through sc_trainer against optimizers written out here from their papers, on
 * quadratic objectives whose gradients are known: every optimizer, decay by a parameter's role,
 * clipping, schedules, micro-batches, and what narrow dtypes keep. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/read_program.h"
#include "runtime/drive/trainer.h"
#include "support/rng.h"
#include "tools/driver/driver.h"
#include "tools/run/facts.h"
#include "tools/run/run.h"

/* ---- a compiled program ---- */

typedef struct fixture {
    const char *model, *minimize, *plan;
    const void *rules; /* of a test: what the reference does */
    void *out;         /* of a test: what it found */
    void (*check)(struct fixture *f);
    bool evaluates; /* the forward entry is there, too */
    sc_context *context;
    sc_options options;
    sc_compiled compiled, forward;
    sc_facts facts;
    sc_trainer *trainer;
} fixture;

static bool add_forward(fixture *f, sc_local_run *local)
{
    if (!f->evaluates)
        return true;
    if (!sc_compile_forward(f->context, &f->compiled, &f->options, sc_last_pass(&f->options),
                            &f->forward))
        return false;
    local->second = &f->forward;
    f->facts.entry.func = f->compiled.local->funcs.count + f->forward.func;
    return true;
}

static void compile(sc_context *context, void *user)
{
    fixture *f = user;
    sc_plan_list plans = {0};
    f->context = context;
    f->options.run.seed = 11;
    char *text =
        sc_arena_printf(&context->arena, "lang 1;\n%sminimize m.loss %s;\nplan one for m { %s }\n",
                        f->model, f->minimize, f->plan);
    sc_declarations *program =
        sc_declarations_new(context, sc_parse_text(context, "t.shard", text, strlen(text)));
    sc_declarations_plans(program, &plans);
    sc_compiled whole;
    sc_local_run local = {.context = context, .options = &f->options, .c = &f->compiled};
    if (context->diag.errors == 0 &&
        sc_driver_compile(context, program, plans.data[0], &f->options, NULL, NULL,
                          sc_last_pass(&f->options), &f->compiled) &&
        sc_build_whole(&f->compiled, &whole) &&
        sc_find_facts(&f->compiled, &whole, false, NULL, &f->facts) && add_forward(f, &local) &&
        sc_local_run_open(&local) != NULL)
        f->trainer = sc_trainer_new(context, &f->facts, &f->options.run, local.executor);
    if (f->trainer == NULL) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        fail_msg("%s\n%s", text, out.data);
    }
    f->check(f);
    sc_trainer_free(f->trainer);
    sc_local_run_close(&local);
}

static void run(const fixture *of)
{
    fixture f = *of;
    sc_context context;
    assert_true(sc_context_run(&context, 0, compile, &f));
    sc_context_free(&context);
}

static sc_array state_called(const fixture *f, const char *name)
{
    for (uint32_t i = 0; i < sc_trainer_states(f->trainer)->count; i++) {
        if (strcmp(sc_state_info(sc_trainer_states(f->trainer), i)->name, name) == 0)
            return sc_trainer_get_state(f->trainer, i);
    }
    fail_msg("no state %s", name);
    return (sc_array){0};
}

static bool has_state(const fixture *f, const char *name)
{
    for (uint32_t i = 0; i < sc_trainer_states(f->trainer)->count; i++) {
        if (strcmp(sc_state_info(sc_trainer_states(f->trainer), i)->name, name) == 0)
            return true;
    }
    return false;
}

static void expect_close(const char *what, int64_t step, double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12 * fmax(1, fabs(wanted))))
        fail_msg("%s after step %lld: %.17g, wanted %.17g", what, (long long)step, got, wanted);
}

/* ---- the references ---- */

enum { LARGEST = 16 };

typedef struct update_rule {
    sc_optimizer_kind kind;
    double lr, momentum, beta1, beta2, decay, clip; /* clip 0: none */
    bool nesterov, decay_all;
} update_rule;

/* One parameter and what its optimizer keeps. */
typedef struct reference {
    const char *name;
    bool is_weight; /* contracted or gathered: decays */
    int64_t count;
    double x[LARGEST], g[LARGEST], m[LARGEST], v[LARGEST];
} reference;

/* torch.optim.SGD: b = mu b + g; with nesterov g + mu b, else b. Its decay is an L2 term. */
static void sgd(const update_rule *rule, reference *p, int64_t i, double g, double decay)
{
    g += decay * p->x[i];
    p->m[i] = rule->momentum * p->m[i] + g;
    double direction = rule->momentum == 0 ? g
                       : rule->nesterov    ? g + rule->momentum * p->m[i]
                                           : p->m[i];
    p->x[i] -= rule->lr * direction;
}

/* Kingma and Ba, ICLR 2015, algorithm 1, decay as an L2 term; Loshchilov and Hutter, ICLR 2019,
 * algorithm 2, decoupled. */
static void adam(const update_rule *rule, reference *p, int64_t i, double g, double decay,
                 int64_t t)
{
    double l2 = rule->kind == SC_ADAM ? decay : 0, decoupled = rule->kind == SC_ADAM ? 0 : decay;
    g += l2 * p->x[i];
    p->m[i] = rule->beta1 * p->m[i] + (1 - rule->beta1) * g;
    p->v[i] = rule->beta2 * p->v[i] + (1 - rule->beta2) * g * g;
    double mean = p->m[i] / (1 - pow(rule->beta1, (double)t)),
           square = p->v[i] / (1 - pow(rule->beta2, (double)t));
    p->x[i] = p->x[i] - rule->lr * (mean / (sqrt(square) + 1e-8) + decoupled * p->x[i]);
}

/* Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2. */
static void lion(const update_rule *rule, reference *p, int64_t i, double g, double decay)
{
    double c = rule->beta1 * p->m[i] + (1 - rule->beta1) * g;
    p->x[i] -= rule->lr * ((c > 0) - (c < 0) + decay * p->x[i]);
    p->m[i] = rule->beta2 * p->m[i] + (1 - rule->beta2) * g;
}

static double norm_of(const reference *params, int count)
{
    double squares = 0;
    for (int p = 0; p < count; p++) {
        for (int64_t i = 0; i < params[p].count; i++)
            squares += params[p].g[i] * params[p].g[i];
    }
    return sqrt(squares);
}

static void reference_step(const update_rule *rule, reference *p, double norm, int64_t t)
{
    double decay = p->is_weight || rule->decay_all ? rule->decay : 0;
    double scale = rule->clip == 0 ? 1 : fmin(1, rule->clip / (norm + 1e-6));
    for (int64_t i = 0; i < p->count; i++) {
        double g = p->g[i] * scale;
        if (rule->kind == SC_SGD)
            sgd(rule, p, i, g, decay);
        else if (rule->kind == SC_LION)
            lion(rule, p, i, g, decay);
        else
            adam(rule, p, i, g, decay, t);
    }
}

static void load_reference(const fixture *f, reference *p)
{
    sc_array array = state_called(f, p->name);
    assert_true(array.count <= LARGEST);
    p->count = array.count;
    memcpy(p->x, array.data, (size_t)array.count * sizeof *p->x);
    sc_array_free(&array);
}

static void compare(const fixture *f, const reference *p, int64_t step)
{
    sc_array array = state_called(f, p->name);
    for (int64_t i = 0; i < array.count; i++)
        expect_close(p->name, step, array.data[i], p->x[i]);
    sc_array_free(&array);
}

/* ---- a quadratic in three parameters: a gain, a weight that is contracted, a table ---- */

enum { A = 3, C = 2, S = 4, V = 3, INPUTS = 6, PARAMS = 3 };

static const char quadratic[] =
    "dim A = 3, C = 2, S = 4, V = 3;\n"
    "model m {\n"
    "  param p[A] = uniform(-1, 1), q[A, C] = uniform(-1, 1), r[V, A] = uniform(-1, 1);\n"
    "  entry loss(a: f64[A], t: f64[A], u: f64[C], z: f64[A], i: i32[S], y: f64[S, A]) -> f64[] {\n"
    "    e = dot[C](q, u) - z;\n"
    "    d = gather[V](r, i) - y;\n"
    "    return 0.5 * (sum[A](a * (p - t) * (p - t)) + sum[A](e * e) + sum[S, A](d * d));\n"
    "  }\n"
    "}\n";
static const char f64_plan[] = "precision param = f64, act = f64, grad = f64, opt = f64;";

static void draw_inputs(sc_array *inputs, int64_t step)
{
    static const int64_t sizes[INPUTS][2] = {{A}, {A}, {C}, {A}, {S}, {S, A}};
    for (uint32_t n = 0; n < INPUTS; n++) {
        inputs[n] = sc_array_new(n == 5 ? 2 : 1, sizes[n]);
        assert_non_null(inputs[n].data);
        for (int64_t i = 0; i < inputs[n].count; i++) {
            double x = sc_rng_uniform((uint64_t)step, n, (uint64_t)i);
            inputs[n].data[i] = n == 4 ? floor(x * V) : 2 * x - 0.5;
        }
    }
}

static void free_arrays(sc_array *arrays, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sc_array_free(&arrays[i]);
}

/* Sets the gradients; the loss. */
static double quadratic_gradients(const sc_array *in, reference *params)
{
    reference *p = &params[0], *q = &params[1], *r = &params[2];
    double loss = 0;
    memset(r->g, 0, sizeof r->g);
    for (int i = 0; i < A; i++) {
        double away = p->x[i] - in[1].data[i], e = -in[3].data[i];
        loss += 0.5 * in[0].data[i] * away * away;
        p->g[i] = in[0].data[i] * away;
        for (int c = 0; c < C; c++)
            e += q->x[i * C + c] * in[2].data[c];
        loss += 0.5 * e * e;
        for (int c = 0; c < C; c++)
            q->g[i * C + c] = e * in[2].data[c];
    }
    for (int s = 0; s < S; s++) {
        for (int i = 0; i < A; i++) {
            int at = (int)in[4].data[s] * A + i;
            double d = r->x[at] - in[5].data[s * A + i];
            loss += 0.5 * d * d;
            r->g[at] += d;
        }
    }
    return loss;
}

/* Five steps; f->rules has a rule for each of p, q, r. */
static void check_steps(fixture *f)
{
    const update_rule *rules = f->rules;
    reference params[PARAMS] = {
        {.name = "p"}, {.name = "q", .is_weight = true}, {.name = "r", .is_weight = true}};
    for (int p = 0; p < PARAMS; p++)
        load_reference(f, &params[p]);
    for (int64_t t = 1; t <= 5; t++) {
        sc_array inputs[INPUTS];
        sc_step_result result;
        draw_inputs(inputs, t);
        assert_true(sc_trainer_step(f->trainer, inputs, INPUTS, &result));
        double loss = quadratic_gradients(inputs, params), norm = norm_of(params, PARAMS);
        expect_close("loss", t, result.loss, loss);
        expect_close("norm", t, result.grad_norm, norm);
        expect_close("lr", t, result.lr, rules[0].lr);
        for (int p = 0; p < PARAMS; p++) {
            reference_step(&rules[p], &params[p], norm, t);
            compare(f, &params[p], t);
        }
        free_arrays(inputs, INPUTS);
    }
}

static void check_optimizer(const char *minimize, update_rule p, update_rule q, update_rule r)
{
    const update_rule rules[PARAMS] = {p, q, r};
    run(&(fixture){.model = quadratic,
                   .minimize = minimize,
                   .plan = f64_plan,
                   .rules = rules,
                   .check = check_steps});
}

static void check_one_optimizer(const char *minimize, update_rule rule)
{
    check_optimizer(minimize, rule, rule, rule);
}

/* ---- optimizers ---- */

#define ADAM_BETAS .beta1 = 0.9, .beta2 = 0.999
#define LION_BETAS .beta1 = 0.9, .beta2 = 0.99

static void sgd_is_its_formula(void **state)
{
    (void)state;
    check_one_optimizer("with sgd(lr = 0.1)", (update_rule){SC_SGD, .lr = 0.1});
    check_one_optimizer("with sgd(lr = 0.1, decay = 0.3)",
                        (update_rule){SC_SGD, .lr = 0.1, .decay = 0.3});
    check_one_optimizer("with sgd(lr = 0.1, momentum = 0.9)",
                        (update_rule){SC_SGD, .lr = 0.1, .momentum = 0.9});
    check_one_optimizer("with sgd(lr = 0.1, momentum = 0.8, decay = 0.2)",
                        (update_rule){SC_SGD, .lr = 0.1, .momentum = 0.8, .decay = 0.2});
    check_one_optimizer(
        "with sgd(lr = 0.1, momentum = 0.9, nesterov = 1, decay = 0.1)",
        (update_rule){SC_SGD, .lr = 0.1, .momentum = 0.9, .nesterov = true, .decay = 0.1});
}

static void adam_is_its_formula(void **state)
{
    (void)state;
    check_one_optimizer("with adam(lr = 0.1)", (update_rule){SC_ADAM, .lr = 0.1, ADAM_BETAS});
    check_one_optimizer(
        "with adam(lr = 0.1, beta1 = 0.8, beta2 = 0.95, decay = 0.3)",
        (update_rule){SC_ADAM, .lr = 0.1, .beta1 = 0.8, .beta2 = 0.95, .decay = 0.3});
    check_one_optimizer("with adamw(lr = 0.1)",
                        (update_rule){SC_ADAMW, .lr = 0.1, ADAM_BETAS, .decay = 0.01});
    check_one_optimizer(
        "with adamw(lr = 0.1, beta1 = 0.7, beta2 = 0.9, decay = 0.5)",
        (update_rule){SC_ADAMW, .lr = 0.1, .beta1 = 0.7, .beta2 = 0.9, .decay = 0.5});
}

static void lion_is_its_formula(void **state)
{
    (void)state;
    check_one_optimizer("with lion(lr = 0.1)", (update_rule){SC_LION, .lr = 0.1, LION_BETAS});
    check_one_optimizer(
        "with lion(lr = 0.1, beta1 = 0.5, beta2 = 0.8, decay = 0.4)",
        (update_rule){SC_LION, .lr = 0.1, .beta1 = 0.5, .beta2 = 0.8, .decay = 0.4});
}

static void groups_have_their_own_optimizers(void **state)
{
    (void)state;
    check_optimizer("with adamw(lr = 0.1) with sgd(lr = 0.2, momentum = 0.8) in q with lion(lr = "
                    "0.05, decay = 0.1) in r",
                    (update_rule){SC_ADAMW, .lr = 0.1, ADAM_BETAS, .decay = 0.01},
                    (update_rule){SC_SGD, .lr = 0.2, .momentum = 0.8},
                    (update_rule){SC_LION, .lr = 0.05, LION_BETAS, .decay = 0.1});
    check_optimizer("with sgd(lr = 0.1) with sgd(lr = 0.2) in q, r",
                    (update_rule){SC_SGD, .lr = 0.1}, (update_rule){SC_SGD, .lr = 0.2},
                    (update_rule){SC_SGD, .lr = 0.2});
}

static void decay_all_is_for_gains_too(void **state)
{
    (void)state;
    check_one_optimizer(
        "with adamw(lr = 0.1, decay = 0.5, decay_all = 1)",
        (update_rule){SC_ADAMW, .lr = 0.1, ADAM_BETAS, .decay = 0.5, .decay_all = true});
    check_one_optimizer("with sgd(lr = 0.1, decay = 0.5, decay_all = 1)",
                        (update_rule){SC_SGD, .lr = 0.1, .decay = 0.5, .decay_all = true});
    check_one_optimizer(
        "with lion(lr = 0.1, decay = 0.5, decay_all = 1)",
        (update_rule){SC_LION, .lr = 0.1, LION_BETAS, .decay = 0.5, .decay_all = true});
}

/* The norm is that of all gradients, whatever group clips by it; the groups' own limits differ. */
static void clipping_is_by_the_global_norm(void **state)
{
    (void)state;
    check_one_optimizer("with sgd(lr = 0.1, clip = 0.25)",
                        (update_rule){SC_SGD, .lr = 0.1, .clip = 0.25});
    check_one_optimizer("with sgd(lr = 0.1, clip = 100)",
                        (update_rule){SC_SGD, .lr = 0.1, .clip = 100});
    check_one_optimizer("with sgd(lr = 0.1, decay = 0.2, clip = 0.25)",
                        (update_rule){SC_SGD, .lr = 0.1, .decay = 0.2, .clip = 0.25});
    check_one_optimizer("with adam(lr = 0.1, clip = 0.5)",
                        (update_rule){SC_ADAM, .lr = 0.1, ADAM_BETAS, .clip = 0.5});
    check_optimizer("with sgd(lr = 0.1, clip = 1.5) with sgd(lr = 0.1, clip = 0.5) in q with "
                    "sgd(lr = 0.1) in r",
                    (update_rule){SC_SGD, .lr = 0.1, .clip = 1.5},
                    (update_rule){SC_SGD, .lr = 0.1, .clip = 0.5},
                    (update_rule){SC_SGD, .lr = 0.1});
}

/* ---- schedules ---- */

/* A parameter with gradient 1: it falls by the rate of the step, counted from 1. */
static const char slope[] = "dim A = 2;\nmodel m { param p[A] = zeros(); entry loss(x: f64[A]) -> "
                            "f64[] { return sum[A](p * x); } }\n";

typedef struct schedule {
    const char *minimize;
    double rates[7];
} schedule;

static void check_schedule(fixture *f)
{
    const schedule *wanted = f->rules;
    sc_array x = sc_array_new(1, (int64_t[]){2});
    double fallen = 0;
    x.data[0] = x.data[1] = 1;
    for (int64_t t = 1; t <= 7; t++) {
        sc_step_result result;
        assert_true(sc_trainer_step(f->trainer, &x, 1, &result));
        expect_close("lr", t, result.lr, wanted->rates[t - 1]);
        fallen += wanted->rates[t - 1];
        sc_array p = state_called(f, "p");
        expect_close("p", t, p.data[1], -fallen);
        sc_array_free(&p);
    }
    assert_int_equal(sc_trainer_steps(f->trainer), 7);
    sc_array_free(&x);
}

static void rates_are_those_of_the_step(void **state)
{
    (void)state;
    const double half = sqrt(0.5);
    const schedule cases[] = {
        {"with sgd(lr = 0.5)", {0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}},
        {"with sgd(lr = linear(1, warmup = 2, total = 6))", {0.5, 1, 0.75, 0.5, 0.25, 0, 0}},
        {"with sgd(lr = linear(1, warmup = 2, total = 6, floor = 0.2))",
         {0.5, 1, 0.8, 0.6, 0.4, 0.2, 0.2}},
        {"with sgd(lr = cosine(2, warmup = 2, total = 6))", {1, 2, 1 + half, 1, 1 - half, 0, 0}},
        {"with sgd(lr = cosine(2, warmup = 0, total = 4, floor = 1))",
         {1.5 + half / 2, 1.5, 1.5 - half / 2, 1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(&(fixture){.model = slope,
                       .minimize = cases[i].minimize,
                       .plan = f64_plan,
                       .rules = &cases[i],
                       .check = check_schedule});
}

/* A run that goes on counts on: rates and corrections are those of the step, not of the run. */
static void check_resumed(fixture *f)
{
    sc_array x = sc_array_new(1, (int64_t[]){2});
    sc_step_result result;
    x.data[0] = x.data[1] = 1;
    assert_true(sc_trainer_set_steps(f->trainer, 4, 0));
    assert_true(sc_trainer_step(f->trainer, &x, 1, &result));
    expect_close("lr", 5, result.lr, 0.25);
    sc_array p = state_called(f, "p");
    double mean = 0.1 / (1 - pow(0.9, 5)), square = 0.001 / (1 - pow(0.999, 5));
    expect_close("p", 5, p.data[0], -0.25 * mean / (sqrt(square) + 1e-8));
    sc_array_free(&p);
    sc_array_free(&x);
}

static void a_resumed_run_counts_on(void **state)
{
    (void)state;
    run(&(fixture){.model = slope,
                   .minimize = "with adam(lr = linear(1, warmup = 2, total = 6))",
                   .plan = f64_plan,
                   .check = check_resumed});
}

/* ---- micro-batches ---- */

enum { ROWS = 8, WIDTH = 3 };

#define ROW_LOSS "pow(dot[A](x, w) + b - t, 2)"
static const char mean_model[] =
    "dim B = 8, A = 3;\nmodel m { param w[A] = uniform(-1, 1), b[] = zeros();\n"
    "entry loss(x: f64[B, A], t: f64[B], k: f64[B]) -> f64[], f64[], f64[] { z = " ROW_LOSS
    "; e = z * k;\n"
    "return sum[B](e), sum[B](k), mean[B](e); } }\n";
static const char scalar_model[] =
    "dim B = 8, A = 3;\nmodel m { param w[A] = uniform(-1, 1), b[] = zeros();\n"
    "entry loss(x: f64[B, A], t: f64[B], k: f64[B]) -> f64[] { return mean[B](k * " ROW_LOSS
    "); } }\n";

static void draw_rows(sc_array *inputs)
{
    inputs[0] = sc_array_new(2, (int64_t[]){ROWS, WIDTH});
    inputs[1] = sc_array_new(1, (int64_t[]){ROWS});
    inputs[2] = sc_array_new(1, (int64_t[]){ROWS});
    for (uint32_t n = 0; n < 3; n++) {
        for (int64_t i = 0; i < inputs[n].count; i++)
            inputs[n].data[i] = sc_rng_uniform(4, n, (uint64_t)i);
    }
    /* the first two rows count nothing: with four micro-batches one has weight 0 */
    inputs[2].data[0] = inputs[2].data[1] = 0;
}

typedef struct outcome {
    double loss, norm, metric, w[WIDTH], b;
} outcome;

static void take_steps(fixture *f)
{
    outcome *out = f->out;
    sc_array inputs[3];
    sc_step_result result;
    draw_rows(inputs);
    for (int t = 0; t < 3; t++)
        assert_true(sc_trainer_step(f->trainer, inputs, 3, &result));
    sc_array w = state_called(f, "w"), b = state_called(f, "b");
    *out = (outcome){.loss = result.loss, .norm = result.grad_norm, .b = b.data[0]};
    out->metric = result.metric_count > 0 ? result.metrics[0] : result.loss;
    memcpy(out->w, w.data, sizeof out->w);
    sc_array_free(&w);
    sc_array_free(&b);
    free_arrays(inputs, 3);
}

static outcome outcome_of(const char *model, int micro_batches)
{
    outcome out;
    char plan[256];
    snprintf(plan, sizeof plan, "%s accumulate %d over B;", f64_plan, micro_batches);
    run(&(fixture){.model = model,
                   .minimize = "with adamw(lr = 0.1, clip = 0.5)",
                   .plan = plan,
                   .out = &out,
                   .check = take_steps});
    return out;
}

static void micro_batches_change_nothing(void **state)
{
    (void)state;
    static const char *const models[] = {mean_model, scalar_model};
    for (size_t i = 0; i < 2; i++) {
        outcome one = outcome_of(models[i], 1);
        assert_true(one.loss > 0 && one.norm > 0);
        for (int n = 2; n <= 4; n *= 2) {
            outcome out = outcome_of(models[i], n);
            expect_close("loss", 3, out.loss, one.loss);
            expect_close("norm", 3, out.norm, one.norm);
            expect_close("metric", 3, out.metric, one.metric);
            expect_close("b", 3, out.b, one.b);
            for (int k = 0; k < WIDTH; k++)
                expect_close("w", 3, out.w[k], one.w[k]);
        }
    }
}

/* ---- narrow dtypes ---- */

static const char gain[] = "dim A = 2;\nmodel m { param p[A] = ones(); entry loss(x: f32[A]) -> "
                           "f32[] { return sum[A](p * x); } }\n";

static void step_once(fixture *f, double x0, double x1, sc_step_result *result)
{
    sc_array x = sc_array_new(1, (int64_t[]){2});
    x.data[0] = x0;
    x.data[1] = x1;
    assert_true(sc_trainer_step(f->trainer, &x, 1, result));
    sc_array_free(&x);
}

static void expect_values(const fixture *f, const char *name, double first, double second)
{
    sc_array array = state_called(f, name);
    if (array.data[0] != first || array.data[1] != second)
        fail_msg("%s: %.17g, %.17g, wanted %.17g, %.17g", name, array.data[0], array.data[1], first,
                 second);
    sc_array_free(&array);
}

/* A run has many steps and held-out batches: neither keeps memory of the arena, which is given back
 * at its end only. */
static void check_memory(fixture *f)
{
    sc_step_result result;
    double total, weight;
    sc_array x = sc_array_new(1, (int64_t[]){2});
    uint64_t allocations = 0;
    for (int t = 0; t < 5; t++) {
        step_once(f, 1, -1, &result);
        assert_true(sc_trainer_evaluate(f->trainer, &x, 1, &total, &weight));
        if (t > 0)
            assert_int_equal(f->context->arena.allocations, allocations);
        allocations = f->context->arena.allocations;
    }
    sc_array_free(&x);
}

static void batches_keep_no_memory(void **state)
{
    (void)state;
    run(&(fixture){.model = gain,
                   .minimize = "with sgd(lr = 0.1)",
                   .plan = "",
                   .check = check_memory,
                   .evaluates = true});
}

/* What is not finite changes nothing, and counts for no correction. */
static void check_skipped(fixture *f)
{
    sc_step_result result;
    step_once(f, 1, -1, &result);
    sc_array before[3] = {state_called(f, "p"), state_called(f, "p.m"), state_called(f, "p.v")};
    step_once(f, INFINITY, 1, &result);
    assert_true(result.skipped && result.diverges);
    step_once(f, NAN, 1, &result);
    assert_true(result.skipped && result.diverges);
    expect_values(f, "p", before[0].data[0], before[0].data[1]);
    expect_values(f, "p.m", before[1].data[0], before[1].data[1]);
    expect_values(f, "p.v", before[2].data[0], before[2].data[1]);
    assert_true(sc_trainer_steps(f->trainer) == 3 && sc_trainer_skipped(f->trainer) == 2);
    /* by a constant gradient Adam moves lr a step, once its corrections are those of the second
     * step that counts */
    step_once(f, 1, -1, &result);
    assert_true(!result.skipped && !result.diverges);
    sc_array after = state_called(f, "p");
    assert_true(fabs(before[0].data[0] - after.data[0] - 0.125) < 1e-6);
    sc_array_free(&after);
    for (int i = 0; i < 3; i++)
        sc_array_free(&before[i]);
}

static void what_is_not_finite_is_not_applied(void **state)
{
    (void)state;
    run(&(fixture){
        .model = gain, .minimize = "with adam(lr = 0.125)", .plan = "", .check = check_skipped});
    run(&(fixture){.model = gain,
                   .minimize = "with adam(lr = 0.125)",
                   .plan = "",
                   .check = check_skipped,
                   .options.interpret = true});
}

/* Below 1, bf16 knows multiples of 2^-8: 2^-11 moves the master only, until four of them are more
 * than half of that. */
static void check_master(fixture *f)
{
    sc_step_result result;
    expect_values(f, "p.master", 1, 1);
    for (int t = 1; t <= 8; t++) {
        step_once(f, 1, -1, &result);
        double moved = t * ldexp(1, -11);
        expect_values(f, "p.master", 1 - moved, 1 + moved);
        expect_values(f, "p", t <= 4 ? 1 : 1 - ldexp(1, -8), t <= 8 ? 1 : 1 + ldexp(1, -7));
    }
}

static void a_master_copy_moves_by_less(void **state)
{
    (void)state;
    char minimize[64];
    snprintf(minimize, sizeof minimize, "with sgd(lr = %.17g)", ldexp(1, -11));
    run(&(fixture){.model = gain,
                   .minimize = minimize,
                   .plan = "precision param = bf16, act = f32, grad = f32, opt = f32;",
                   .check = check_master});
}

static void check_no_master(fixture *f)
{
    sc_step_result result;
    step_once(f, 1, 1, &result);
    assert_false(has_state(f, "p.master"));
    expect_values(f, "p", 1, 1);
}

static void without_a_wider_optimizer_there_is_none(void **state)
{
    (void)state;
    run(&(fixture){.model = gain,
                   .minimize = "with sgd(lr = 0.0005)",
                   .plan = "precision param = bf16, act = f32, grad = f32, opt = bf16;",
                   .check = check_no_master});
    run(&(fixture){.model = gain,
                   .minimize = "with sgd(lr = 0.00000001)",
                   .plan = "precision opt = f32;",
                   .check = check_no_master});
}

/* Three uses: 256 + 1 + 1 is 258, which bf16 has; one use after the other it would be 256. What
 * arrives is then stepped with as it is. */
static const char three_uses[] =
    "dim A = 2;\nmodel m { param p[A] = zeros(); entry loss(x: f32[A]) -> f32[] {\n"
    "h = p * 256.0; i = p * x; j = x * p;\n return sum[A](h) + sum[A](i) + sum[A](j); } }\n";

static void check_rounded_once(fixture *f)
{
    sc_step_result result;
    step_once(f, 1, 1.5, &result); /* 258 and 259: the latter is a tie, to even 260 */
    expect_values(f, "p", -258, -260);
    expect_close("norm", 1, result.grad_norm, (double)(float)sqrt(258.0 * 258 + 260.0 * 260));
}

static void a_gradient_is_rounded_once(void **state)
{
    (void)state;
    run(&(fixture){.model = three_uses,
                   .minimize = "with sgd(lr = 1)",
                   .plan = "precision act = bf16, grad = bf16;",
                   .check = check_rounded_once});
}

/* ---- the entry and its train step ---- */

static const char attention[] =
    "dim B = 2, S = 4, T = alias S, D = 4, F = 8, V = 6;\n"
    "model m {\n"
    "  param e[V, D], wq[D, F], wk[D, F], wo[F, D];\n"
    "  entry loss(t: i32[B, S], y: i32[B, S]) -> f32[], f32[] {\n"
    "    x = dropout(gather[V](e, t), p = 0.1);\n"
    "    k = rename[S -> T](dot[D](x, wk));\n"
    "    o = attend[T, F](dot[D](x, wq), k, k, mask = causal, dropout = 0.2);\n"
    "    h = x + dropout(dot[F](o, wo), p = 0.3);\n"
    "    return sum[B, S](xent[V](dot[D](h, e), y)), sum[B, S](ne(y, -100));\n"
    "  }\n"
    "}\n";

/* The next op that is there in both: no dropout, and nothing but the forward part. */
static sc_op_id next_forward(const sc_module *m, sc_op_id id)
{
    while (id != SC_NONE &&
           (sc_op_at(m, id)->kind == SC_OP_dropout ||
            sc_op_word(sc_op_at(m, id), SC_ATTR_phase) != 0 ||
            sc_op_at(m, id)->kind == SC_OP_return || sc_op_at(m, id)->kind == SC_OP_state_write))
        id = sc_op_at(m, id)->next;
    return id;
}

static void check_forward_ops(fixture *f)
{
    sc_compiled forward;
    sc_options options = f->options;
    options.forward = true;
    assert_true(sc_driver_compile(f->context, f->compiled.program, f->compiled.plan, &options, NULL,
                                  NULL, NULL, &forward));
    const sc_module *a = forward.global, *b = f->compiled.global;
    sc_op_id x = next_forward(a, a->funcs.data[forward.func].first),
             y = next_forward(b, b->funcs.data[f->compiled.func].first);
    uint32_t count = 0;
    for (; x != SC_NONE && y != SC_NONE; count++) {
        const sc_op *p = sc_op_at(a, x), *q = sc_op_at(b, y);
        bool has_statistic = sc_op_attr(q, SC_ATTR_lse) != NULL;
        assert_string_equal(sc_ops[p->kind].name, sc_ops[q->kind].name);
        assert_int_equal(p->operand_count, q->operand_count);
        assert_int_equal(p->result_count + has_statistic, q->result_count);
        assert_int_equal(has_statistic, (sc_op_traits(q) & SC_KEEPS_LSE) != 0);
        x = next_forward(a, p->next);
        y = next_forward(b, q->next);
    }
    assert_true(x == SC_NONE && count > 15);
    /* what is left scales nothing and derives nothing: total and weight as they leave */
    for (; y != SC_NONE; y = next_forward(b, sc_op_at(b, y)->next))
        assert_int_equal(sc_op_at(b, y)->kind, SC_OP_cast);
}

static void training_adds_to_the_entry_only(void **state)
{
    (void)state;
    static const char *const plans[] = {"", "remat loss;"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        run(&(fixture){.model = attention,
                       .minimize = "with adamw(lr = 0.1)",
                       .plan = plans[i],
                       .check = check_forward_ops});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_its_formula),
        cmocka_unit_test(adam_is_its_formula),
        cmocka_unit_test(lion_is_its_formula),
        cmocka_unit_test(groups_have_their_own_optimizers),
        cmocka_unit_test(decay_all_is_for_gains_too),
        cmocka_unit_test(clipping_is_by_the_global_norm),
        cmocka_unit_test(rates_are_those_of_the_step),
        cmocka_unit_test(a_resumed_run_counts_on),
        cmocka_unit_test(micro_batches_change_nothing),
        cmocka_unit_test(a_master_copy_moves_by_less),
        cmocka_unit_test(without_a_wider_optimizer_there_is_none),
        cmocka_unit_test(a_gradient_is_rounded_once),
        cmocka_unit_test(training_adds_to_the_entry_only),
        cmocka_unit_test(batches_keep_no_memory),
        cmocka_unit_test(what_is_not_finite_is_not_applied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
