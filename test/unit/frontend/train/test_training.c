/* What minimize and the training lines of a plan say of a built entry: optimizers by parameter,
 * decay, dtypes, micro-batches, regions that are recomputed, how long gathered parameters live; and
 * which lines speak of gradients and optimizer state. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "frontend/plan/plan.h"
#include "frontend/read_program.h"
#include "passes/train_step.h"
#include "support/strbuf.h"

/* ---- the model ---- */
static const char model[] =
    "lang 1;\n"
    "dim B = 8, S = 8, T = alias S, D = 16, F = 32, V = 48, L = 3, K = 2, G = 2, H = (K, G), E = "
    "4, A = 16;\n"
    "block rmsnorm[N](x[.., N]) -> [.., N] { param g[N] = ones(); return x * rsqrt(mean[N](x * x) "
    "+ 1e-5) * g; }\n"
    "block ffn(x[B, S, D]) -> [B, S, D] {\n"
    "  param w1[D, F], b1[F] = zeros(), w2[F, D];\n"
    "  h = silu(dot[D](x, w1) + b1);\n"
    "  return dot[F](h, w2);\n"
    "}\n"
    "block attention(x[B, S, D]) -> [B, S, D] {\n"
    "  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];\n"
    "  o[B, S, H, E] = attend[T, E](dot[D](x, wq), rename[S -> T](dot[D](x, wk)), rename[S -> "
    "T](dot[D](x, wv)), mask = causal);\n"
    "  return dot[H, E](o, wo);\n"
    "}\n"
    "block layer(x[B, S, D]) -> [B, S, D] {\n"
    "  sub n: rmsnorm[D], attn: attention, ffn: ffn;\n"
    "  h = x + attn(n(x));\n"
    "  return h + ffn(h);\n"
    "}\n"
    "model m {\n"
    "  param tok[V, D], pos[S, D], odd[A, F], spare[D];\n"
    "  sub layers: layer * L, norm: rmsnorm[D];\n"
    "  fn trunk(t: i32[B, S]) -> [B, S, D] { x = gather[V](tok, t) + pos; repeat L { x = "
    "layers(x); } return norm(x); }\n"
    "  entry loss(t: i32[B, S], y: i32[B, S]) -> f32[] {\n"
    "    x = trunk(t);\n"
    "    z = xent[V](dot[D](x, tok), y);\n"
    "    r = sum[D, F](rename[A -> D](odd) * 2.0);\n"
    "    q = dot[D](x, rename[A -> D](odd));\n"
    "    return mean[B, S](z) + r * 0.0 + mean[B, S, F](q);\n"
    "  }\n"
    "  entry other(t: i32[B, S]) -> [B, S, D] { return trunk(t) * spare; }\n"
    "}\n";

/* ---- one compile ---- */
typedef struct fixture {
    const char *minimize, *plan, *bind; /* bind: a dim that the command line sets to 6 */
    void (*check)(struct fixture *f);
    sc_context *context;
    sc_resolved_plan *resolved;
    sc_module *m;
    sc_build_result built;
    sc_training training;
    bool bound, trained;
    char error[4096];   /* messages */
    const char *wanted; /* of a table */
    bool seeded;        /* the train step was made and seeded; asked for by setting it */
    sc_train_step step;
    sc_seeds seeds;
    int exit_code;
} fixture;

static const sc_minimize *minimize_of(sc_declarations *program, sc_sym entry)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(program, 0, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (entries.data[i].entry == entry)
            return entries.data[i].minimize;
    }
    return NULL;
}

static void train(fixture *f, sc_declarations *program)
{
    sc_context *context = f->context;
    sc_sym entry = sc_intern_text(&context->names, "loss");
    sc_binding_list bindings = {0};
    f->bound = sc_plan_train_bindings(f->resolved, entry, &bindings);
    if (!f->bound)
        return;
    sc_build_request request = {.model = sc_intern_text(&context->names, "m"),
                                .entry = entry,
                                .bindings = &bindings,
                                .dtype_of = sc_plan_dtype_of,
                                .user = f->resolved,
                                .training = true};
    f->m = sc_module_new(context);
    if (sc_build_entry(program, &request, f->m, &f->built))
        f->trained = sc_plan_training(f->resolved, minimize_of(program, entry), f->m, &f->built,
                                      &f->training);
    if (f->trained && f->seeded)
        f->seeded = sc_train_step_build(f->m, f->built.func, &f->training, &f->step) &&
                    sc_plan_seed(f->resolved, f->m, &f->built, NULL, &f->seeds);
}

static void compile(sc_context *context, void *user)
{
    fixture *f = user;
    sc_plan_options options = {0};
    f->context = context;
    char *text = sc_arena_printf(&context->arena, "%sminimize m.loss %s;\nplan p for m {\n%s\n}\n",
                                 model, f->minimize == NULL ? "with sgd(lr = 1)" : f->minimize,
                                 f->plan == NULL ? "" : f->plan);
    sc_file *file = sc_parse_text(context, "t.shard", text, strlen(text));
    sc_declarations *program = sc_declarations_new(context, file);
    sc_plan_list plans = {0};
    sc_declarations_plans(program, &plans);
    if (f->bind != NULL)
        *sc_vec_push(&context->arena, &options.binds) =
            (sc_binding){sc_intern_text(&context->names, f->bind), 6, {0}};
    if (context->diag.errors == 0)
        f->resolved = sc_plan_resolve(program, plans.data[0], &options);
    if (f->resolved != NULL && context->diag.errors == 0)
        train(f, program);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_diag_render_text(&context->diag, &context->sources, &out);
    snprintf(f->error, sizeof f->error, "%s", out.data);
    f->check(f);
}

static void run(const fixture *of)
{
    fixture f = *of;
    sc_context context;
    assert_true(sc_context_run(&context, 0, compile, &f));
    sc_context_free(&context);
}

static void expect_trained(const fixture *f)
{
    if (!f->trained)
        fail_msg("%s\n%s\n%s", f->minimize, f->plan, f->error);
}

static uint32_t state_at(const fixture *f, const char *path)
{
    uint32_t state = sc_module_find_state(f->m, sc_intern_text(&f->context->names, path));
    if (state == SC_NONE)
        fail_msg("no state %s", path);
    return state;
}

static const sc_trained_param *param_at(const fixture *f, const char *path)
{
    uint32_t state = state_at(f, path);
    for (uint32_t i = 0; i < f->training.params.count; i++) {
        if (f->training.params.data[i].state == state)
            return &f->training.params.data[i];
    }
    return NULL;
}

/* ---- optimizers ---- */
static void check_defaults(fixture *f)
{
    expect_trained(f);
    assert_int_equal(f->training.groups.count, 1);
    const sc_optimizer_settings *g = f->training.groups.data;
    assert_int_equal(g->kind, SC_ADAMW);
    assert_int_equal(g->lr.kind, SC_RATE_COSINE);
    assert_true(g->lr.peak == 0.125 && g->lr.warmup == 16 && g->lr.total == 100 &&
                g->lr.floor == 0);
    assert_true(g->hyper[SC_HYPER_BETA1] == 0.9 && g->hyper[SC_HYPER_BETA2] == 0.95 &&
                g->hyper[SC_HYPER_EPS] == 1e-8);
    assert_true(g->hyper[SC_HYPER_DECAY] == 0.01 && g->hyper[SC_HYPER_CLIP] == 1.5 &&
                g->hyper[SC_HYPER_DECAY_ALL] == 0);
    assert_int_equal(f->training.micro_batches, 1);
    assert_int_equal(f->training.batch_dim, SC_NONE);
    assert_null(f->training.region);
    assert_null(f->training.saved);
    assert_null(f->training.reshard);
    /* what the entry reads, in the order of the state, and nothing else */
    assert_int_equal(f->training.params.count, f->m->state.count);
    for (uint32_t i = 0; i < f->training.params.count; i++) {
        const sc_trained_param *p = &f->training.params.data[i];
        assert_int_equal(p->state, i);
        assert_true(p->group == 0 && p->grad == SC_DTYPE_f32 && p->opt == SC_DTYPE_f32 &&
                    p->reduce == SC_DTYPE_f32);
    }
    assert_int_equal(sc_module_find_state(f->m, sc_intern_text(&f->context->names, "spare")),
                     SC_NONE);
}

static void arguments_are_folded_and_the_rest_has_defaults(void **state)
{
    (void)state;
    run(&(fixture){.minimize = "with adamw(lr = cosine(1/B, warmup = 2 * S, total = 100), beta2 = "
                               "0.95, clip = sqrt(2.25))",
                   .check = check_defaults});
}

static void check_groups(fixture *f)
{
    static const struct {
        const char *path;
        uint32_t group;
    } cases[] = {{"tok", 0},
                 {"layers[0].attn.wq", 1},
                 {"layers[1].attn.wq", 3},
                 {"layers[2].attn.wo", 3},
                 {"layers[0].ffn.w1", 2},
                 {"layers[2].ffn.w2", 0},
                 {"layers[1].n.g", 0},
                 {"norm.g", 0}};
    expect_trained(f);
    assert_int_equal(f->training.groups.count, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(param_at(f, cases[i].path)->group, cases[i].group);
    assert_int_equal(f->training.groups.data[2].lr.kind, SC_RATE_LINEAR);
    assert_int_equal(f->training.groups.data[3].kind, SC_LION);
}

static void the_last_optimizer_for_a_parameter_holds(void **state)
{
    (void)state;
    run(&(fixture){
        .minimize =
            "with adam(lr = 1) with sgd(lr = 2) in layers.attn"
            " with sgd(lr = linear(1, warmup = 0, total = 9)) in layers.ffn.w1, layers.ffn.b1"
            " with lion(lr = 3) in layers[1..2].attn",
        .check = check_groups});
}

static void check_over(fixture *f)
{
    expect_trained(f);
    assert_int_equal(f->training.params.count, 4);
    assert_non_null(param_at(f, "tok"));
    assert_non_null(param_at(f, "layers[0].ffn.w1"));
    assert_null(param_at(f, "layers[1].ffn.w1"));
    assert_null(param_at(f, "layers[0].attn.wq"));
}

static void over_freezes_the_rest(void **state)
{
    (void)state;
    run(&(fixture){.minimize = "over tok, layers[0].ffn with sgd(lr = 1)", .check = check_over});
    run(&(fixture){
        .minimize =
            "over tok, layers[0].ffn with sgd(lr = 1) in tok with sgd(lr = 2) in layers.ffn",
        .check = check_over});
}

static void check_decay(fixture *f)
{
    static const struct {
        const char *path;
        bool decays;
    } cases[] = {{"tok", true},
                 {"pos", false},
                 {"odd", true},
                 {"layers[0].attn.wq", true},
                 {"layers[2].attn.wo", true},
                 {"layers[0].ffn.w1", true},
                 {"layers[0].ffn.b1", false},
                 {"layers[0].n.g", false},
                 {"norm.g", false}};
    expect_trained(f);
    bool all = strstr(f->minimize, "decay_all") != NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (param_at(f, cases[i].path)->decays != (cases[i].decays || all))
            fail_msg("%s", cases[i].path);
    }
}

static void decay_is_for_what_is_contracted_or_gathered(void **state)
{
    (void)state;
    run(&(fixture){.minimize = "with adamw(lr = 1)", .check = check_decay});
    run(&(fixture){
        .minimize = "with adamw(lr = 1)", .plan = "precision act = bf16;", .check = check_decay});
    run(&(fixture){.minimize = "with adamw(lr = 1, decay_all = 1)", .check = check_decay});
}

static void check_dtypes(fixture *f)
{
    expect_trained(f);
    const sc_trained_param *tok = param_at(f, "tok"), *w1 = param_at(f, "layers[1].ffn.w1"),
                           *wq = param_at(f, "layers[1].attn.wq");
    assert_true(tok->grad == SC_DTYPE_bf16 && tok->reduce == SC_DTYPE_bf16 &&
                tok->opt == SC_DTYPE_f32);
    assert_true(w1->grad == SC_DTYPE_f32 && w1->reduce == SC_DTYPE_f32 && w1->opt == SC_DTYPE_f64);
    assert_true(wq->grad == SC_DTYPE_bf16 && wq->reduce == SC_DTYPE_f64 && wq->opt == SC_DTYPE_f32);
}

static void dtypes_are_those_of_the_precision_lines(void **state)
{
    (void)state;
    run(&(fixture){.plan = "precision param = bf16, act = bf16, grad = bf16; precision grad = f32, "
                           "opt = f64 in layers.ffn;"
                           "precision reduce = f64 in layers.attn;",
                   .check = check_dtypes});
}

/* ---- micro-batches ---- */
static int64_t input_rows(const fixture *f)
{
    sc_for_each_op (f->m, f->built.func, id) {
        const sc_op *op = sc_op_at(f->m, id);
        if (op->kind == SC_OP_input)
            return sc_type_of(f->m, op->first_result)->dims[0].size;
    }
    return 0;
}

static void check_micro_batches(fixture *f)
{
    expect_trained(f);
    sc_sym dim;
    assert_int_equal(sc_plan_micro_batches(f->resolved, &dim), 4);
    assert_string_equal(sc_text(f->context, dim), "B");
    assert_int_equal(f->training.micro_batches, 4);
    assert_string_equal(sc_text(f->context, f->m->dims.data[f->training.batch_dim].name), "B");
    assert_string_equal(f->wanted, sc_arena_printf(&f->context->arena, "%d", (int)input_rows(f)));
    /* sizes that numbers are made of are those of the whole batch */
    assert_true(f->training.groups.data[0].lr.peak == 4.0 * (double)input_rows(f));
}

static void a_micro_batch_is_a_part_of_the_batch(void **state)
{
    (void)state;
    run(&(fixture){.minimize = "with sgd(lr = B)",
                   .plan = "accumulate 4 over B;",
                   .wanted = "2",
                   .check = check_micro_batches});
    run(&(fixture){.minimize = "with sgd(lr = B)",
                   .plan = "accumulate 4 over B; bind B = 12;",
                   .wanted = "3",
                   .check = check_micro_batches});
    run(&(fixture){.minimize = "with sgd(lr = B)",
                   .plan = "bind B = 20 in loss; accumulate 4 over B;",
                   .wanted = "5",
                   .check = check_micro_batches});
}

/* ---- recomputation ---- */
/* "layers[0].ffn.x layers[0].ffn.h* | ..": the named values of each region, saved ones with a star.
 */
static const char *regions_text(const fixture *f)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    uint32_t last = 0;
    for (uint32_t region = 1; f->training.region != NULL && region <= f->m->ops.count; region++) {
        sc_for_each_op (f->m, f->built.func, id) {
            const sc_op *op = sc_op_at(f->m, id);
            if (f->training.region[id] != region)
                continue;
            for (uint32_t i = 0; i < op->result_count; i++) {
                sc_sym path = f->m->values.data[op->first_result + i].path;
                bool saved = f->training.saved[op->first_result + i];
                if (path == 0 && !saved)
                    continue;
                sc_strbuf_printf(&out, "%s%s%s",
                                 region != last && last != 0 ? " | "
                                 : out.length > 0            ? " "
                                                             : "",
                                 sc_text(f->context, path), saved ? "*" : "");
                last = region;
            }
        }
    }
    return out.data;
}

static void check_regions(fixture *f)
{
    expect_trained(f);
    const char *got = regions_text(f);
    if (strcmp(got, f->wanted) != 0)
        fail_msg("%s\n  wanted: %s\n  got:    %s", f->plan, f->wanted, got);
    /* what is there without computing is never recomputed */
    sc_for_each_op (f->m, f->built.func, id) {
        const sc_op *op = sc_op_at(f->m, id);
        bool cast_of_param = op->kind == SC_OP_cast &&
                             sc_op_at(f->m, sc_def(f->m, op->operands[0]))->kind == SC_OP_param;
        if (f->training.region != NULL && f->training.region[id] != 0 &&
            (op->kind == SC_OP_param || op->kind == SC_OP_input || op->kind == SC_OP_constant ||
             op->kind == SC_OP_return || cast_of_param))
            fail_msg("%s is in a region", sc_ops[op->kind].name);
    }
}

#define FFN(i) "layers[" #i "].ffn.x layers[" #i "].ffn.h layers[" #i "].ffn.out"

static void regions_are_instances_of_paths(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *wanted;
    } cases[] = {
        {"", ""},
        {"remat layers.ffn;", FFN(0) " | " FFN(1) " | " FFN(2)},
        {"remat layers[1..2].ffn;", FFN(1) " | " FFN(2)},
        {"remat layers[1].ffn; precision act = bf16;", FFN(1)},
        {"remat layers[0].ffn save layers.ffn.h;",
         "layers[0].ffn.x layers[0].ffn.h* layers[0].ffn.out"},
        {"remat layers[0].ffn save layers.ffn;",
         "layers[0].ffn.x* layers[0].ffn.h* layers[0].ffn.out*"},
        {"remat layers[0].ffn; remat layers[1].ffn save layers.ffn.h;",
         FFN(0) " | layers[1].ffn.x layers[1].ffn.h* layers[1].ffn.out"},
        {"remat layers.ffn.h;", "layers[0].ffn.h | layers[1].ffn.h | layers[2].ffn.h"},
        {"remat loss.z, norm;", "norm.x norm.out | loss.z"},
        {"remat norm; remat norm save norm.out;", "norm.x norm.out"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(&(fixture){.plan = cases[i].plan, .wanted = cases[i].wanted, .check = check_regions});
}

static void check_nested(fixture *f)
{
    expect_trained(f);
    uint32_t regions[8] = {0};
    sc_for_each_op (f->m, f->built.func, id) {
        const char *scope = sc_text(f->context, sc_op_at(f->m, id)->scope);
        uint32_t region = f->training.region[id];
        uint32_t at = strcmp(scope, "layers[0]") == 0        ? 0
                      : strcmp(scope, "layers[0].attn") == 0 ? 1
                      : strcmp(scope, "layers[0].ffn") == 0  ? 2
                      : strcmp(scope, "layers[1]") == 0      ? 3
                      : strcmp(scope, "layers[1].ffn") == 0  ? 4
                      : strcmp(scope, "trunk") == 0          ? 5
                                                             : 6;
        if (region == 0)
            continue;
        assert_true(at == 6 || regions[at] == 0 || regions[at] == region);
        regions[at] = region;
    }
    bool whole = strncmp(f->plan, "remat layers;", 13) == 0;
    assert_true(regions[0] != 0 && regions[0] == regions[1] && regions[3] != 0 &&
                regions[3] != regions[0]);
    assert_true((regions[2] == regions[0]) == whole && (regions[4] == regions[3]) == whole &&
                regions[2] != regions[4]);
    assert_int_equal(regions[5], 0);
}

static void the_first_line_wins(void **state)
{
    (void)state;
    run(&(fixture){.plan = "remat layers; remat layers.ffn;", .check = check_nested});
    run(&(fixture){.plan = "remat layers.ffn; remat layers;", .check = check_nested});
}

static void check_entry_region(fixture *f)
{
    expect_trained(f);
    for (uint32_t id = 0; id < f->m->ops.count; id++)
        assert_true(f->training.region[id] <= 1);
    sc_for_each_op (f->m, f->built.func, id) {
        if (sc_op_at(f->m, id)->kind == SC_OP_dot)
            assert_int_equal(f->training.region[id], 1);
    }
}

static void an_entry_is_one_region(void **state)
{
    (void)state;
    run(&(fixture){.plan = "remat loss;", .check = check_entry_region});
}

/* ---- gathered parameters ---- */
static void check_reshard(fixture *f)
{
    expect_trained(f);
    assert_int_equal(f->training.reshard[state_at(f, "tok")], SC_RESHARD_AFTER_STEP);
    assert_int_equal(f->training.reshard[state_at(f, "layers[0].attn.wq")], SC_RESHARD_AFTER_USE);
    assert_int_equal(f->training.reshard[state_at(f, "layers[1].attn.wq")],
                     SC_RESHARD_AFTER_FORWARD);
    assert_int_equal(f->training.reshard[state_at(f, "layers[1].ffn.w1")], SC_RESHARD_AFTER_STEP);
}

static void later_reshard_lines_win(void **state)
{
    (void)state;
    run(&(fixture){
        .plan = "reshard after use in tok; reshard after step; reshard after use in layers.attn;"
                "reshard after forward in layers[1..2].attn;",
        .check = check_reshard});
}

/* ---- lines on a train step ---- */
static const char *function_of(const fixture *f, const sc_op *op)
{
    return sc_text(f->context, f->m->funcs.data[op->func].name);
}

static void add_splits(const fixture *f, sc_strbuf *out, const sc_seed *seed)
{
    for (uint32_t s = 0; s < seed->split_count; s++) {
        sc_strbuf_printf(out, " %s@",
                         sc_text(f->context, f->m->dims.data[seed->splits[s].dim].name));
        for (uint32_t a = 0; a < seed->splits[s].sub_axes.count; a++) {
            const sc_sub_axis *sub_axis =
                &f->m->mesh.sub_axes[seed->splits[s].sub_axes.sub_axes[a]];
            sc_strbuf_printf(out, "%s%s", a > 0 ? "," : "",
                             sc_text(f->context, f->m->mesh.axes[sub_axis->axis].name));
        }
    }
}

/* "micro STORAGE D@dp; update STRONG F@tp" of what is said of the values that read a state, or that
 * have a path, but formals. */
static const char *seeds_of(const fixture *f, const char *path)
{
    static const char *const strengths[] = {"FIXED", "PIN", "OUTPUT", "STRONG", "WEAK", "STORAGE"};
    sc_sym name = sc_intern_text(&f->context->names, path);
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    for (uint32_t i = 0; i < f->seeds.list.count; i++) {
        const sc_seed *seed = &f->seeds.list.data[i];
        const sc_op *op = sc_op_at(f->m, sc_def(f->m, seed->value));
        bool reads = (sc_op_traits(op) & SC_STATE_READ) != 0;
        if ((reads ? sc_op_word(op, SC_ATTR_name) : f->m->values.data[seed->value].path) != name)
            continue;
        sc_sym phase = reads ? 0 : sc_op_word(op, SC_ATTR_phase);
        sc_strbuf_printf(&out, "%s%s%s %s", out.length > 0 ? "; " : "", function_of(f, op),
                         sc_text(f->context, phase), strengths[seed->strength]);
        add_splits(f, &out, seed);
        sc_strbuf_add(&out, seed->closed != 0 ? " closed" : "");
    }
    return out.data;
}

static void check_seeds(fixture *f)
{
    expect_trained(f);
    if (!f->seeded)
        fail_msg("%s\n%s", f->plan, f->error);
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s", f->wanted);
    char *seeds = strchr(wanted, ':');
    *seeds = 0;
    const char *got = seeds_of(f, wanted);
    if (strcmp(got, seeds + 2) != 0)
        fail_msg("%s\n  %s\n  wanted: %s\n  got:    %s", f->plan, wanted, seeds + 2, got);
}

static void lines_speak_of_gradients_and_optimizer_state(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *wanted;
    } cases[] = {
        /* kinds are stored apart */
        {"mesh dp = 2; shard param D over dp;",
         "layers[0].ffn.w1: micro STORAGE D@dp; update STORAGE D@dp"},
        {"mesh dp = 2; shard param D over dp;", "layers[0].ffn.w1.grad: "},
        {"mesh dp = 2; shard grad D over dp;", "layers[0].ffn.w1.grad: update STORAGE D@dp"},
        {"mesh dp = 2; shard grad D over dp;", "layers[0].ffn.w1: "},
        {"mesh dp = 2; shard grad D over dp;", "layers[0].ffn.w1.m: "},
        {"mesh dp = 2; shard opt D over dp;", "layers[0].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp;", "layers[0].ffn.w1.v: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp; precision param = bf16;",
         "layers[0].ffn.w1.master: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp;", "layers[0].ffn.w1.grad: "},
        {"mesh dp = 2; shard grad, opt D over dp; accumulate 2 over B;",
         "layers[0].ffn.w1.grad: micro STORAGE D@dp; update STORAGE D@dp"},
        /* a rule without kinds is for all */
        {"mesh tp = 2; shard F over tp;",
         "layers[0].ffn.w1: micro STRONG F@tp; update STRONG F@tp"},
        {"mesh tp = 2; shard F over tp;", "layers[0].ffn.w1.grad: update STRONG F@tp"},
        {"mesh tp = 2; shard F over tp;", "layers[0].ffn.w1.v: update STRONG F@tp"},
        {"mesh tp = 2; shard act F over tp;", "layers[0].ffn.w1.v: "},
        {"mesh dp = 2, tp = 2; shard F over tp; shard opt D over dp;",
         "layers[0].ffn.w1.m: update STRONG F@tp; update STORAGE D@dp"},
        /* places are those of the parameters */
        {"mesh dp = 2; shard opt D over dp in layers[1].ffn.w1;",
         "layers[1].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp in layers[1].ffn.w1;", "layers[0].ffn.w1.m: "},
        {"mesh dp = 2; shard opt D over dp in layers.ffn;",
         "layers[2].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp in loss.layers;",
         "layers[2].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2; shard opt D over dp in other;", "layers[2].ffn.w1.m: "},
        /* each chooses for itself, among what its parameter leaves */
        {"mesh dp = 2; shard grad, opt * over dp;", "layers[0].ffn.w1.m: update STORAGE F@dp"},
        {"mesh dp = 2; shard grad, opt * over dp;", "layers[0].ffn.w2.grad: update STORAGE F@dp"},
        {"mesh dp = 2, tp = 2; shard F over tp; shard opt * over dp;",
         "layers[0].ffn.w1.m: update STRONG F@tp; update STORAGE D@dp"},
        {"mesh dp = 2, tp = 2; style layers.ffn.w1: colwise over tp; shard opt * over dp;",
         "layers[0].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2, tp = 2; pin layers.ffn.w1: [D, F@tp]; shard opt * over dp;",
         "layers[0].ffn.w1.m: update STORAGE D@dp"},
        {"mesh dp = 2; shard param D over dp; shard opt * over dp;",
         "layers[0].ffn.w1.m: update STORAGE F@dp"},
        {"mesh tp = 2; pin layers.ffn.w1: [D, F@tp]; shard opt * over tp if free;",
         "layers[0].ffn.w1.m: "},
        /* pins and styles are for the parameter, wherever it is read, and for no gradient */
        {"mesh tp = 2; pin layers.ffn.w1: [D, F@tp];",
         "layers[0].ffn.w1: micro PIN F@tp closed; update PIN F@tp closed"},
        {"mesh tp = 2; pin layers.ffn.w1: [D, F@tp];", "layers[0].ffn.w1.grad: "},
        {"mesh tp = 2; style layers.ffn.w1: colwise over tp;",
         "layers[0].ffn.w1: micro STRONG F@tp; update STRONG F@tp"},
        {"mesh tp = 2; style layers.ffn.w2: rowwise over tp;",
         "layers[0].ffn.w2: micro STRONG F@tp; update STRONG F@tp"},
        {"mesh tp = 2; style layers.attn.wq: colwise over tp;",
         "layers[0].attn.wq: micro STRONG K@tp; update STRONG K@tp"},
        {"mesh tp = 2; style layers.n: replicate over tp;", "layers[0].n.g.m: "},
        {"mesh tp = 2; style layers.n: replicate over tp;",
         "layers[0].n.g: micro PIN closed; update PIN closed"},
        /* of what is computed, lines speak of the forward pass only */
        {"mesh dp = 2; shard B over dp; remat layers;", "layers[0].ffn.h: micro STRONG B@dp"},
        {"mesh dp = 2; pin layers.ffn.h: [B@dp, S, F]; remat layers;",
         "layers[0].ffn.h: micro PIN B@dp closed"},
        {"mesh dp = 2; shard D over dp; remat layers;", "layers[0].h: micro STRONG D@dp"},
        {"mesh dp = 2; shard act B over dp;", "loss.x: micro STRONG B@dp"},
        {"mesh dp = 2; shard input B over dp; accumulate 2 over B;", "loss.t: micro STRONG B@dp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(&(fixture){.minimize = "with adamw(lr = 1)",
                       .plan = cases[i].plan,
                       .wanted = cases[i].wanted,
                       .seeded = true,
                       .check = check_seeds});
}

/* A style's lock and its ends are made once, however often the step reads the weight. */
static void check_locks(fixture *f)
{
    expect_trained(f);
    assert_true(f->seeded);
    assert_int_equal(f->seeds.locks.count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const sc_op *op = sc_op_at(f->m, f->seeds.locks.data[i].op);
        assert_true(op->kind == SC_OP_dot && sc_op_word(op, SC_ATTR_phase) == 0);
    }
}

static void styles_lock_the_forward_pass(void **state)
{
    (void)state;
    run(&(fixture){.minimize = "with adamw(lr = 1)",
                   .plan = "mesh tp = 2; style layers.ffn.w1: colwise(from = replicate, to = F) "
                           "over tp; remat layers;",
                   .seeded = true,
                   .check = check_locks});
}

static void check_padding(fixture *f)
{
    expect_trained(f);
    if (!f->seeded)
        fail_msg("%s\n%s", f->plan, f->error);
    assert_int_equal(
        f->m->dims.data[sc_module_find_dim(f->m, sc_intern_text(&f->context->names, "V"))].multiple,
        5);
    assert_string_equal(seeds_of(f, "tok.grad"),
                        strstr(f->plan, "grad") != NULL ? "update STORAGE V@dp" : "");
    assert_string_equal(seeds_of(f, "tok.m"),
                        strstr(f->plan, "opt") != NULL ? "update STORAGE V@dp" : "");
}

static void stored_gradients_may_be_uneven(void **state)
{
    (void)state;
    static const char *const plans[] = {"mesh dp = 5; shard grad V over dp;",
                                        "mesh dp = 5; shard opt V over dp;",
                                        "mesh dp = 5; shard grad, opt * over dp in tok;"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++)
        run(&(fixture){.minimize = "with adamw(lr = 1)",
                       .plan = plans[i],
                       .seeded = true,
                       .check = check_padding});
}

static void check_forward(fixture *f)
{
    if (f->error[0] != 0)
        fail_msg("%s", f->error);
}

static void rules_for_training_are_legal_without_it(void **state)
{
    (void)state;
    run(&(fixture){
        .plan = "mesh dp = 2; shard grad, opt D over dp; shard opt * over dp in layers.attn;",
        .check = check_forward});
}

/* ---- what is refused ---- */
static void check_refused(fixture *f)
{
    assert_false(f->trained);
    if (strstr(f->error, f->wanted) == NULL || sc_diag_exit_code(&f->context->diag) != f->exit_code)
        fail_msg("%s\n%s\n  wanted (exit %d): %s\n  got: %s", f->minimize, f->plan, f->exit_code,
                 f->wanted, f->error);
}

static void impossible_training_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *minimize, *plan, *bind;
        int exit_code;
        const char *wanted;
    } cases[] = {
        {NULL, "accumulate 3 over B;", NULL, 4,
         "error: B = 8 cannot be split into 3 micro-batches [micro_batches_do_not_divide]"},
        {NULL, "accumulate 3 over B;", NULL, 4, "note: 'accumulate' over B may have 1, 2, 4, 8"},
        {NULL, "accumulate 4 over B;", "B", 4, "note: 'accumulate' over B may have 1, 2, 3, 6"},
        {NULL, "accumulate 16 over B;", NULL, 4,
         "error: B = 8 cannot be split into 16 micro-batches"},
        {NULL, "accumulate 2 over T;", NULL, 1,
         "micro-batches split a dim with a size of its own, but 'T' is an alias of 'S'"},
        {NULL, "accumulate 2 over H;", NULL, 1,
         "micro-batches split a dim with a size of its own, but 'H' is a composite"},
        {NULL, "accumulate 2 over F;", NULL, 1,
         "no input of 'loss' has dim F: there is nothing to split into micro-batches"},
        {NULL, "offload act;", NULL, 1, "'offload act' is of the paths that it names"},
        {NULL, "offload grad, opt in layers;", NULL, 1,
         "t.shard:34:1: error: 'grad' is always in device memory"},
        {"with sgd(lr = 1) in layers", NULL, NULL, 1,
         "error: no optimizer covers the trained parameter 'tok' [bad_statement]"},
        {"over spare with sgd(lr = 1)", NULL, NULL, 1,
         "there is nothing to train: 'loss' reads no parameter that 'over' names"},
        {"over tok, layers[3..4].ffn with sgd(lr = 1)", NULL, NULL, 1,
         "error: 'layers[3..4].ffn' matches nothing [matches_nothing]"},
        {"with sgd(lr = 1) with sgd(lr = 2) in layers[3]", NULL, NULL, 1,
         "error: 'layers[3]' matches nothing [matches_nothing]"},
        {"with sgd(lr = linear(1, warmup = S, total = B))", NULL, NULL, 1,
         "the rate decays from step 'warmup' = 8 to step 'total' = 8"},
        {"with sgd(lr = 4 - B)", NULL, NULL, 1, "'lr' of sgd must be at least 0, not -4"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run(&(fixture){.minimize = cases[i].minimize,
                       .plan = cases[i].plan,
                       .bind = cases[i].bind,
                       .exit_code = cases[i].exit_code,
                       .wanted = cases[i].wanted,
                       .check = check_refused});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arguments_are_folded_and_the_rest_has_defaults),
        cmocka_unit_test(the_last_optimizer_for_a_parameter_holds),
        cmocka_unit_test(over_freezes_the_rest),
        cmocka_unit_test(decay_is_for_what_is_contracted_or_gathered),
        cmocka_unit_test(dtypes_are_those_of_the_precision_lines),
        cmocka_unit_test(a_micro_batch_is_a_part_of_the_batch),
        cmocka_unit_test(regions_are_instances_of_paths),
        cmocka_unit_test(the_first_line_wins),
        cmocka_unit_test(an_entry_is_one_region),
        cmocka_unit_test(later_reshard_lines_win),
        cmocka_unit_test(lines_speak_of_gradients_and_optimizer_state),
        cmocka_unit_test(styles_lock_the_forward_pass),
        cmocka_unit_test(stored_gradients_may_be_uneven),
        cmocka_unit_test(rules_for_training_are_legal_without_it),
        cmocka_unit_test(impossible_training_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
