/* Plans against built functions: which seeds and locks each kind of line gives, how axes are cut,
 * which paths match, which entry and which sizes and dtypes a plan means. What plans are refused
 * for is in test/frontend/plan. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/plan/plan.h"
#include "frontend/read_program.h"
#include "support/strbuf.h"

/* ---- models ---- */
static const char mlp[] =
    "lang 1;\n"
    "dim B = 8, S = 16, D = 32, F = 64;\n"
    "block mlp(x[B, S, D]) -> [B, S, D] {\n"
    "  param w1[D, F], b1[F] = zeros(), w2[F, D], b2[D] = zeros();\n"
    "  h = dot[D](x, w1) + b1;\n"
    "  return dot[F](gelu(h), w2) + b2;\n"
    "}\n"
    "model m { sub f: mlp; entry fwd(x: f32[B, S, D]) -> [B, S, D] { y = f(x); return y; } }\n";

static const char llama[] = "lang 1;\n"
                            "dim B = 4, S = 8, T = alias S;\n"
                            "dim D = 64, F = 128, V = 96, L = 3;\n"
                            "dim K = 2, G = 4, H = (K, G), E = 16;\n"
                            "block rmsnorm[N](x[.., N]) -> [.., N] { param g[N] = ones(); return x "
                            "* rsqrt(mean[N](x * x) + 1e-5) * g; }\n"
                            "block attention(x[B, S, D]) -> [B, S, D] {\n"
                            "  param wq[D, H, E], wk[D, K, E], wv[D, K, E], wo[H, E, D];\n"
                            "  cache ck[B, T, K, E], cv[B, T, K, E];\n"
                            "  q = rope[S, E](dot[D](x, wq), theta = 1e4);\n"
                            "  k = append[S -> T](ck, rope[S, E](dot[D](x, wk), theta = 1e4));\n"
                            "  v = append[S -> T](cv, dot[D](x, wv));\n"
                            "  o[B, S, H, E] = attend[T, E](q, k, v, mask = causal);\n"
                            "  return dot[H, E](o, wo);\n"
                            "}\n"
                            "block layer(x[B, S, D]) -> [B, S, D] { sub n: rmsnorm[D], attn: "
                            "attention; h = x + attn(n(x)); return h; }\n"
                            "model m {\n"
                            "  param tok[V, D], head[D, V];\n"
                            "  sub layers: layer * L, norm: rmsnorm[D];\n"
                            "  fn trunk(t: i32[B, S]) -> [B, S, D] { x = gather[V](tok, t); repeat "
                            "L { x = layers(x); } return norm(x); }\n"
                            "  entry loss(t: i32[B, S], y: i32[B, S]) -> f32[] { z = "
                            "xent[V](dot[D](trunk(t), head), y); return mean[B, S](z); }\n"
                            "  entry decode(t: i32[B, S]) at pos[B] along S -> [B, V] { return "
                            "dot[D](last[S](trunk(t)), head); }\n"
                            "}\n"
                            "minimize m.loss with sgd(lr = 0.1);\n";

/* ---- one compile ---- */
typedef struct fixture {
    const char *model, *plan, *entry;
    sc_plan_options options;
    const char *bind; /* a dim that the command line sets to 5 */
    void (*check)(struct fixture *f);
    sc_context *context;
    sc_declarations *program;
    sc_resolved_plan *resolved;
    sc_module *m;
    sc_build_result built;
    sc_seeds seeds;
    bool seeded;
    char error[4096]; /* messages */
    /* of a table */
    const char *path, *wanted;
} fixture;

static void render(fixture *f)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    sc_diag_render_text(&f->context->diag, &f->context->sources, &out);
    snprintf(f->error, sizeof f->error, "%s", out.data);
}

static void seed_entry(fixture *f, const sc_module *fixed)
{
    sc_sym entry = sc_intern_text(&f->context->names, f->entry);
    sc_binding_list bindings = {0};
    sc_plan_bindings(f->resolved, entry, &bindings);
    sc_build_request request = {.model = sc_intern_text(&f->context->names, "m"),
                                .entry = entry,
                                .bindings = &bindings,
                                .dtype_of = sc_plan_dtype_of,
                                .user = f->resolved};
    f->m = sc_module_new(f->context);
    f->built = (sc_build_result){0};
    f->seeded = sc_build_entry(f->program, &request, f->m, &f->built) &&
                sc_plan_seed(f->resolved, f->m, &f->built, fixed, &f->seeds);
}

static void compile(sc_context *context, void *user)
{
    fixture *f = user;
    f->context = context;
    char *text = sc_arena_printf(&context->arena, "%splan p for m {\n%s\n}\n", f->model, f->plan);
    sc_file *file = sc_parse_text(context, "t.shard", text, strlen(text));
    f->program = sc_declarations_new(context, file);
    sc_plan_list plans = {0};
    sc_declarations_plans(f->program, &plans);
    if (f->bind != NULL)
        *sc_vec_push(&context->arena, &f->options.binds) =
            (sc_binding){sc_intern_text(&context->names, f->bind), 5, {0}};
    if (context->diag.errors == 0 && plans.count == 1)
        f->resolved = sc_plan_resolve(f->program, plans.data[0], &f->options);
    if (f->resolved != NULL && context->diag.errors == 0 && f->entry != NULL)
        seed_entry(f, NULL);
    render(f);
    f->check(f);
}

static void run(fixture *f)
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, compile, f));
    sc_context_free(&context);
}

/* ---- seeds as text ---- */
static void add_sub_axes(const sc_module *m, sc_strbuf *out, const sc_sub_axis_list *sub_axes)
{
    sc_strbuf_add(out, sub_axes->count > 1 ? "(" : "");
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        const sc_sub_axis *sub_axis = &m->mesh.sub_axes[sub_axes->sub_axes[i]];
        const sc_axis *axis = &m->mesh.axes[sub_axis->axis];
        sc_strbuf_printf(out, "%s%s", i > 0 ? "," : "", sc_text(m->context, axis->name));
        if (axis->sub_axis_count > 1)
            sc_strbuf_printf(out, ".%u", (unsigned)sub_axis->index);
    }
    sc_strbuf_add(out, sub_axes->count > 1 ? ")" : "");
}

static sc_sym path_of(const sc_module *m, sc_value value)
{
    const sc_value_info *info = &m->values.data[value];
    const sc_op *op = sc_op_at(m, info->def);
    return info->path != 0 || (sc_op_traits(op) & SC_STATE_READ) == 0
               ? info->path
               : sc_op_attr(op, SC_ATTR_name)->text;
}

/* "STRONG K@tp.0 G@tp.1; PIN closed:3" of everything that is said of the values of a path. */
static const char *seeds_of(const fixture *f, const char *path)
{
    static const char *const strengths[] = {"FIXED", "PIN", "OUTPUT", "STRONG", "WEAK", "STORAGE"};
    sc_sym name = sc_intern_text(&f->context->names, path);
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    for (uint32_t i = 0; i < f->seeds.list.count; i++) {
        const sc_seed *seed = &f->seeds.list.data[i];
        if (path_of(f->m, seed->value) != name)
            continue;
        sc_strbuf_printf(&out, "%s%s", out.length > 0 ? "; " : "", strengths[seed->strength]);
        for (uint32_t s = 0; s < seed->split_count; s++) {
            sc_strbuf_printf(&out, " %s@",
                             sc_text(f->context, f->m->dims.data[seed->splits[s].dim].name));
            add_sub_axes(f->m, &out, &seed->splits[s].sub_axes);
        }
        if (seed->closed != 0)
            sc_strbuf_printf(&out, " closed:%x", (unsigned)seed->closed);
    }
    return out.data;
}

static void check_seeds(fixture *f)
{
    if (!f->seeded)
        fail_msg("%s\n%s", f->plan, f->error);
    const char *got = seeds_of(f, f->path);
    if (strcmp(got, f->wanted) != 0)
        fail_msg("%s\n  %s\n  wanted: %s\n  got:    %s", f->plan, f->path, f->wanted, got);
}

static const struct seed_case {
    const char *model, *plan, *entry, *path, *wanted;
} seed_cases[] = {
    /* kinds */
    {mlp, "mesh tp = 4; shard F over tp;", "fwd", "f.w1", "STRONG F@tp"},
    {mlp, "mesh tp = 4; shard F over tp;", "fwd", "f.h", "STRONG F@tp"},
    {mlp, "mesh tp = 4; shard F over tp;", "fwd", "f.x", ""},
    {mlp, "mesh dp = 2; shard B over dp;", "fwd", "fwd.x", "STRONG B@dp"},
    {mlp, "mesh dp = 2; shard B over dp;", "fwd", "f.x", ""},
    {mlp, "mesh dp = 2; shard B over dp;", "fwd", "fwd.out", "STRONG B@dp"},
    {mlp, "mesh dp = 2; shard act B over dp;", "fwd", "fwd.x", ""},
    {mlp, "mesh dp = 2; shard act B over dp;", "fwd", "fwd.out", "STRONG B@dp"},
    {mlp, "mesh dp = 2; shard input B over dp;", "fwd", "fwd.x", "STRONG B@dp"},
    {mlp, "mesh dp = 2; shard input B over dp;", "fwd", "fwd.out", ""},
    {mlp, "mesh dp = 2; shard output B over dp;", "fwd", "fwd.out", "OUTPUT B@dp"},
    {mlp, "mesh dp = 2; shard output B over dp;", "fwd", "f.h", ""},
    {mlp, "mesh dp = 2; shard act, output B over dp;", "fwd", "f.h", "STRONG B@dp"},
    {mlp, "mesh dp = 2; shard param D over dp;", "fwd", "f.w1", "STORAGE D@dp"},
    {mlp, "mesh dp = 2; shard param, grad D over dp;", "fwd", "f.h", ""},
    {mlp, "mesh dp = 2; shard grad, opt D over dp;", "fwd", "f.w1", ""},
    {mlp, "mesh dp = 2; shard param, act D over dp;", "fwd", "f.w1", "STRONG D@dp"},
    {mlp, "mesh tp = 4; shard act S over tp if free;", "fwd", "f.h", "WEAK S@tp"},
    {mlp, "mesh tp = 5; shard act S over tp if free;", "fwd", "f.h", ""},
    {llama, "mesh tp = 2; shard K over tp; bind T = 16 in decode;", "decode", "layers[0].attn.ck",
     "STRONG K@tp"},
    {llama, "mesh tp = 2; shard cache K over tp; bind T = 16 in decode;", "decode",
     "layers[1].attn.k", "STRONG K@tp"},
    {llama, "mesh tp = 2; shard cache K over tp; bind T = 16 in decode;", "decode",
     "layers[1].attn.wk", ""},
    /* axes */
    {mlp, "mesh a = 2, b = 4; shard F over a, b;", "fwd", "f.w1", "STRONG F@(a,b)"},
    {mlp, "mesh a = 2, b = 4; shard F over b, a;", "fwd", "f.w1", "STRONG F@(b,a)"},
    {mlp, "mesh a = 1, b = 4; shard F over a, b;", "fwd", "f.w1", "STRONG F@b"},
    {mlp, "mesh a = 1; shard F over a;", "fwd", "f.w1", ""},
    {mlp, "mesh a = 2, b = 4; shard F over a; shard D over b;", "fwd", "f.w1",
     "STRONG F@a; STRONG D@b"},
    {mlp, "mesh a = 2, b = 2 * 2; shard D over b;", "fwd", "f.b2", "STRONG D@b"},
    /* composites */
    {llama, "mesh tp = 2; shard H over tp;", "loss", "layers[0].attn.wq", "STRONG K@tp"},
    {llama, "mesh tp = 2; shard H over tp;", "loss", "layers[2].attn.wk", "STRONG K@tp"},
    {llama, "mesh tp = 8; shard H over tp;", "loss", "layers[0].attn.wq", "STRONG K@tp.0 G@tp.1"},
    {llama, "mesh tp = 8; shard H over tp;", "loss", "layers[0].attn.wk", "STRONG K@tp.0"},
    {llama, "mesh tp = 8; shard H, V over tp;", "loss", "head", "STRONG V@(tp.0,tp.1)"},
    {llama, "mesh a = 2, b = 4; shard H over a, b;", "loss", "layers[0].attn.wq", "STRONG K@a G@b"},
    {llama, "mesh a = 4, b = 2; shard H over a, b;", "loss", "layers[0].attn.wq",
     "STRONG K@a.0 G@(a.1,b)"},
    {llama, "mesh a = 2, b = 2; shard H over b, a;", "loss", "layers[0].attn.wq", "STRONG K@b G@a"},
    {llama, "mesh tp = 2; shard K over tp;", "loss", "layers[0].attn.wq", "STRONG K@tp"},
    {llama, "mesh tp = 4; shard G over tp;", "loss", "layers[0].attn.wo", "STRONG G@tp"},
    {llama, "mesh tp = 8; shard H over tp; shard S over tp in loss.z;", "loss", "layers[0].attn.wk",
     "STRONG K@tp.0"},
    /* scopes */
    {llama, "mesh tp = 2; shard D over tp in layers.attn;", "loss", "layers[1].attn.wq",
     "STRONG D@tp"},
    {llama, "mesh tp = 2; shard D over tp in layers.attn;", "loss", "layers[1].n.g", ""},
    {llama, "mesh tp = 2; shard D over tp in layers[1..2];", "loss", "layers[0].n.g", ""},
    {llama, "mesh tp = 2; shard D over tp in layers[1..2];", "loss", "layers[2].n.g",
     "STRONG D@tp"},
    {llama, "mesh tp = 2; shard D over tp in layers[1];", "loss", "layers[2].n.g", ""},
    {llama, "mesh tp = 2; shard D over tp in layers.*.g;", "loss", "layers[0].n.g", "STRONG D@tp"},
    {llama, "mesh tp = 2; shard D over tp in layers.*.g;", "loss", "norm.g", ""},
    {llama, "mesh tp = 2; shard D over tp in loss;", "loss", "norm.g", "STRONG D@tp"},
    {llama, "mesh tp = 2; shard D over tp in decode;", "loss", "norm.g", ""},
    {llama, "mesh tp = 2; shard D over tp in decode.layers.n; bind T = 16 in decode;", "decode",
     "layers[0].n.g", "STRONG D@tp"},
    {llama, "mesh tp = 2; shard D over tp in decode.layers.n; bind T = 16 in decode;", "decode",
     "norm.g", ""},
    {llama, "mesh tp = 2; shard B over tp in loss.z;", "loss", "loss.z", "STRONG B@tp"},
    {llama, "mesh tp = 2; shard B over tp in loss.z;", "loss", "loss.t", ""},
    /* aliases are dims of their own */
    {llama, "mesh tp = 2; shard S over tp;", "loss", "layers[0].attn.k", ""},
    {llama, "mesh tp = 2; shard T over tp;", "loss", "layers[0].attn.k", "STRONG T@tp"},
    /* each tensor's own choice */
    {mlp, "mesh dp = 4; shard param * over dp;", "fwd", "f.w1", "STORAGE F@dp"},
    {mlp, "mesh dp = 4; shard param * over dp;", "fwd", "f.w2", "STORAGE F@dp"},
    {mlp, "mesh dp = 4; shard param * over dp;", "fwd", "f.b2", "STORAGE D@dp"},
    {mlp, "mesh dp = 4, tp = 2; shard F over tp; shard param * over dp;", "fwd", "f.w1",
     "STRONG F@tp; STORAGE D@dp"},
    {mlp, "mesh dp = 4, tp = 2; shard param * over dp; shard F over tp;", "fwd", "f.w1",
     "STORAGE D@dp; STRONG F@tp"},
    {mlp, "mesh dp = 4, tp = 2; shard param * over dp; shard F over tp;", "fwd", "f.b1",
     "STORAGE F@dp; STRONG F@tp"},
    {llama, "mesh dp = 3; shard param * over dp in tok;", "loss", "tok", "STORAGE V@dp"},
    {llama, "mesh dp = 8; shard param * over dp in layers.attn;", "loss", "layers[0].attn.wq",
     "STORAGE D@dp"},
    {llama,
     "mesh tp = 2, dp = 8; bind G = 16; shard D over tp; shard param * over dp in layers.attn;",
     "loss", "layers[0].attn.wq", "STRONG D@tp; STORAGE K@dp.0 G@dp.1"},
    {llama, "mesh dp = 8; shard param * over dp in layers.attn; shard D over dp in norm;", "loss",
     "norm.g", "STRONG D@dp"},
    {mlp, "mesh dp = 2; shard * over dp in f.h;", "fwd", "f.h", "STRONG F@dp"},
    {mlp, "mesh dp = 2; shard param D over dp; shard param F over dp if free;", "fwd", "f.w1",
     "STORAGE D@dp"},
    {mlp, "mesh dp = 2; shard param D over dp; shard param F over dp if free;", "fwd", "f.b1",
     "STORAGE F@dp"},
    /* pins */
    {mlp, "mesh dp = 2, tp = 4; pin f.x: [B, S@tp, D];", "fwd", "f.x", "PIN S@tp closed:3"},
    {mlp, "mesh dp = 2, tp = 4; pin f.x: [B, S@tp, D] over tp;", "fwd", "f.x", "PIN S@tp closed:2"},
    {mlp, "mesh dp = 2, tp = 4; pin f.x: [B, S, D] over dp;", "fwd", "f.x", "PIN closed:1"},
    {mlp, "mesh dp = 2, tp = 4; pin f.x: [.., D@(dp, tp)];", "fwd", "f.x",
     "PIN D@(dp,tp) closed:3"},
    {mlp, "mesh dp = 2, tp = 4; pin f.w1: [D, F@tp];", "fwd", "f.w1", "PIN F@tp closed:3"},
    {mlp, "mesh dp = 2; pin fwd.x: [B@dp, S, D];", "fwd", "fwd.x", "PIN B@dp closed:1"},
    {mlp, "mesh dp = 2; pin fwd.y: [B@dp, S, D]; pin fwd.out: [B, S@dp, D];", "fwd", "fwd.out",
     "PIN S@dp closed:1"},
    {llama, "mesh tp = 8; pin layers.attn.wq: [D, H@tp, E];", "loss", "layers[2].attn.wq",
     "PIN K@tp.0 G@tp.1 closed:3"},
    {llama, "mesh tp = 2; pin layers[1].attn.x: [B, S, D];", "loss", "layers[1].attn.x",
     "PIN closed:1"},
    {llama, "mesh tp = 2; pin layers[1].attn.x: [B, S, D];", "loss", "layers[0].attn.x", ""},
    {llama, "mesh tp = 2; pin layers.attn.ck: [B, T, K@tp, E]; bind T = 16 in decode;", "decode",
     "layers[0].attn.ck", "PIN K@tp closed:1"},
    {llama, "mesh tp = 2; pin layers.attn.ck: [B, T, K@tp, E];", "loss", "layers[0].attn.wk", ""},
    /* styles */
    {mlp, "mesh tp = 4; style f.w1: colwise over tp;", "fwd", "f.w1", "STRONG F@tp"},
    {mlp, "mesh tp = 4; style f.w2: rowwise over tp;", "fwd", "f.w2", "STRONG F@tp"},
    {mlp, "mesh tp = 4; style f.w2: colwise over tp;", "fwd", "f.w2", "STRONG D@tp"},
    {mlp, "mesh tp = 4; style f.b1: colwise over tp;", "fwd", "f.b1", "STRONG F@tp"},
    {mlp, "mesh tp = 4; style f.b2: rowwise over tp;", "fwd", "f.b2", "PIN closed:1"},
    {mlp, "mesh tp = 4; style f: sequence(S) over tp;", "fwd", "f.x", "STRONG S@tp"},
    {mlp, "mesh tp = 4; style f: sequence(S) over tp;", "fwd", "f.out", "STRONG S@tp"},
    {mlp, "mesh tp = 4; style f: sequence(S) over tp;", "fwd", "f.h", "STRONG S@tp"},
    {mlp, "mesh tp = 4; style f: sequence(S) over tp;", "fwd", "f.w1", ""},
    {mlp, "mesh dp = 2, tp = 4; style f.w1: replicate over tp;", "fwd", "f.w1", "PIN closed:2"},
    {mlp, "mesh dp = 2, tp = 4; style f: replicate over tp;", "fwd", "f.h", "PIN closed:2"},
    {llama, "mesh tp = 8; style layers.attn.wq: colwise over tp;", "loss", "layers[0].attn.wq",
     "STRONG K@tp.0 G@tp.1"},
    {llama, "mesh tp = 8; style layers.attn.wo: rowwise over tp;", "loss", "layers[0].attn.wo",
     "STRONG K@tp.0 G@tp.1"},
    {llama, "mesh tp = 2; style tok: rowwise over tp;", "loss", "tok", "STRONG V@tp"},
    {llama, "mesh tp = 2; style tok: colwise over tp;", "loss", "tok", "STRONG D@tp"},
    {llama, "mesh tp = 2; style layers.n, norm: sequence(S) over tp;", "loss", "norm.x",
     "STRONG S@tp"},
    {llama, "mesh tp = 2; style layers.n, norm: sequence(S) over tp;", "loss", "layers[0].attn.o",
     ""},
};

static void rules_pins_and_styles_give_seeds(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof seed_cases / sizeof *seed_cases; i++) {
        const struct seed_case *c = &seed_cases[i];
        fixture f = {.model = c->model,
                     .plan = c->plan,
                     .entry = c->entry,
                     .path = c->path,
                     .wanted = c->wanted,
                     .check = check_seeds};
        run(&f);
    }
}

/* ---- sub-axes ---- */
static void check_mesh(fixture *f)
{
    if (!f->seeded)
        fail_msg("%s\n%s", f->plan, f->error);
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    for (uint32_t a = 0; a < f->m->mesh.sub_axis_count; a++) {
        const sc_sub_axis *sub_axis = &f->m->mesh.sub_axes[a];
        sc_strbuf_printf(&out, "%s%s.%u=%u", a > 0 ? " " : "",
                         sc_text(f->context, f->m->mesh.axes[sub_axis->axis].name),
                         (unsigned)sub_axis->index, (unsigned)sub_axis->size);
    }
    assert_string_equal(out.data, f->wanted);
}

static void composites_cut_axes(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *wanted;
    } cases[] = {
        {"mesh a = 2, tp = 8; shard V over tp;", "a.0=2 tp.0=8"},
        {"mesh a = 2, tp = 8; shard H over tp;", "a.0=2 tp.0=2 tp.1=4"},
        {"mesh a = 2, tp = 2; shard H over tp;", "a.0=2 tp.0=2"},
        {"mesh a = 2, tp = 4; shard H over a, tp;", "a.0=2 tp.0=4"},
        {"mesh a = 1, tp = 4; shard H over a, tp;", "a.0=1 tp.0=2 tp.1=2"},
        {"mesh tp = 8; pin layers.attn.wq: [D, H@tp, E];", "tp.0=2 tp.1=4"},
        {"mesh tp = 8; style layers.attn.wo: rowwise over tp;", "tp.0=2 tp.1=4"},
        {"mesh tp = 8; shard param * over tp in layers.attn.wq;", "tp.0=8"},
        {"mesh tp = 16; shard act H over tp if free;", "tp.0=16"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = {.model = llama,
                     .plan = cases[i].plan,
                     .wanted = cases[i].wanted,
                     .entry = "loss",
                     .check = check_mesh};
        run(&f);
    }
}

/* ---- locks ---- */
static void check_locks(fixture *f)
{
    if (!f->seeded)
        fail_msg("%s\n%s", f->plan, f->error);
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    for (uint32_t i = 0; i < f->seeds.locks.count; i++) {
        const sc_lock *lock = &f->seeds.locks.data[i];
        sc_sub_axis_list sub_axes = {1, {lock->sub_axis}};
        sc_strbuf_printf(&out, "%s%s %s@", i > 0 ? "; " : "",
                         sc_ops[sc_op_at(f->m, lock->op)->kind].name,
                         sc_text(f->context, f->m->dims.data[lock->dim].name));
        add_sub_axes(f->m, &out, &sub_axes);
    }
    assert_string_equal(out.data, f->wanted);
}

static void styles_lock_the_reading_op(void **state)
{
    (void)state;
    static const struct {
        const char *model, *plan, *entry, *wanted;
    } cases[] = {
        {mlp, "mesh tp = 4; style f.w1: colwise over tp;", "fwd", "dot F@tp"},
        {mlp, "mesh tp = 4; style f.w1: rowwise over tp;", "fwd", "dot D@tp"},
        {mlp, "mesh tp = 4; style f.b1: colwise over tp;", "fwd", ""},
        {mlp, "mesh tp = 1; style f.w1: colwise over tp;", "fwd", ""},
        {llama, "mesh tp = 8; style layers[0].attn.wo: rowwise over tp;", "loss",
         "dot K@tp.0; dot G@tp.1"},
        {llama, "mesh tp = 2; style tok: rowwise over tp;", "loss", "gather V@tp"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = {.model = cases[i].model,
                     .plan = cases[i].plan,
                     .wanted = cases[i].wanted,
                     .entry = cases[i].entry,
                     .check = check_locks};
        run(&f);
    }
}

/* The dot over F has its own copy of the input, which is split over S, and its result is split over
 * S. */
static void check_ends(fixture *f)
{
    assert_true(f->seeded);
    uint32_t inputs = 0, results = 0;
    for (uint32_t i = 0; i < f->seeds.list.count; i++) {
        const sc_seed *seed = &f->seeds.list.data[i];
        const sc_op *op = sc_op_at(f->m, sc_def(f->m, seed->value));
        bool splits = seed->split_count == 1;
        inputs += op->kind == SC_OP_use && sc_op_int(op, SC_ATTR_formal, 0) == 1 && splits;
        results += op->kind == SC_OP_dot && splits;
    }
    assert_int_equal(inputs, 1);
    assert_int_equal(results, 1);
}

static void style_ends_place_input_and_result(void **state)
{
    (void)state;
    fixture f = {.model = mlp,
                 .plan = "mesh tp = 4; style f.w2: rowwise(from = F, to = S) over tp;",
                 .entry = "fwd",
                 .check = check_ends};
    run(&f);
}

/* ---- @axis ---- */
static const char annotated[] =
    "lang 1;\n"
    "dim B = 8, D = 32, F = 64;\n"
    "block f(x[B@dp, D@tp]) -> [B, F] { param w[D, F@tp]; h[B, F@(dp, tp)] = dot[D](x, w); return "
    "h; }\n"
    "model m { sub a: f; entry fwd(x: f32[B, D]) -> [B, F] { return a(x); } }\n";

static void annotations_are_pins_of_their_axis(void **state)
{
    (void)state;
    static const struct {
        const char *plan, *path, *wanted;
    } cases[] = {
        {"mesh dp = 2, tp = 4;", "a.w", "PIN F@tp closed:2"},
        {"mesh dp = 2, tp = 4;", "a.x", "PIN B@dp closed:1; PIN D@tp closed:2"},
        {"mesh dp = 2, tp = 4;", "a.h", "PIN F@(dp,tp) closed:3"},
        {"mesh tp = 4;", "a.x", "PIN D@tp closed:1"},
        {"mesh tp = 4;", "a.h", "PIN F@tp closed:1"},
        {"", "a.h", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = {.model = annotated,
                     .plan = cases[i].plan,
                     .path = cases[i].path,
                     .wanted = cases[i].wanted,
                     .entry = "fwd",
                     .check = check_seeds};
        run(&f);
    }
}

static void check_ignored(fixture *f)
{
    assert_true(f->seeded);
    assert_non_null(
        strstr(f->error, "note: '@dp' is ignored: the plan has no such axis [axis_ignored]"));
    assert_null(strstr(f->error, "'@tp' is ignored"));
}

static void annotations_of_unknown_axes_are_noted(void **state)
{
    (void)state;
    fixture f = {
        .model = annotated, .plan = "mesh tp = 4;", .entry = "fwd", .check = check_ignored};
    run(&f);
}

/* ---- rules of the module ---- */
static void check_rules(fixture *f)
{
    assert_true(f->seeded);
    static const char *const wanted[] = {
        "act S over tp if free", "param, grad * over dp in f.w1, f.w2",
        "pin f.x: [B, S@tp, D] over tp", "style f.w2: rowwise(from = F, to = replicate) over tp"};
    assert_int_equal(f->m->rules.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(sc_text(f->context, f->m->rules.data[i].text), wanted[i]);
        assert_string_equal(sc_text(f->context, f->m->rules.data[i].file), "t.shard");
        assert_int_equal(f->m->rules.data[i].line, 10 + i);
    }
    for (uint32_t i = 1; i < f->seeds.list.count; i++)
        assert_true(f->seeds.list.data[i - 1].rule <= f->seeds.list.data[i].rule);
}

static void lines_are_kept_as_rules(void **state)
{
    (void)state;
    fixture f = {
        .model = mlp,
        .plan = "mesh dp = 2, tp = 4; shard   act S over tp if free ;\nshard param,grad * over dp "
                "in f.w1,f.w2;\n"
                "pin f.x:[B,S@tp,D] over tp;\nstyle f.w2: rowwise(from=F, to=replicate) over tp;",
        .entry = "fwd",
        .check = check_rules};
    run(&f);
}

/* ---- state placed before ---- */
static void check_fixed(fixture *f)
{
    assert_true(f->seeded);
    sc_module *first = f->m;
    for (uint32_t i = 0; i < first->state.count; i++) {
        sc_state *s = &first->state.data[i];
        sc_placement placement = sc_placement_replicated();
        if (s->path == sc_intern_text(&f->context->names, "layers[0].attn.wq")) {
            /* K over tp.0, G over tp.1, D over dp (stored) */
            sc_placement_append(&placement, 1, 1);
            sc_placement_append(&placement, 2, 2);
            sc_placement_append(&placement, 0, 0);
        }
        s->type = sc_type_with_placement(first, s->type, &placement);
    }
    f->entry = "decode";
    seed_entry(f, first);
    render(f);
    if (!f->seeded)
        fail_msg("%s", f->error);
    assert_string_equal(seeds_of(f, "layers[0].attn.wq"),
                        "STORAGE D@dp; FIXED K@tp.0 G@tp.1 closed:6");
    assert_string_equal(seeds_of(f, "layers[0].attn.wk"), "STORAGE D@dp; FIXED closed:6");
    assert_string_equal(seeds_of(f, "layers[0].attn.ck"), "STRONG K@tp.0");
}

/* What `*` chooses depends on the other lines, also where these have nothing more to say. */
static void check_fixed_star(fixture *f)
{
    assert_true(f->seeded);
    assert_string_equal(seeds_of(f, "tok"), "STRONG V@tp; STORAGE D@dp");
    sc_module *first = f->m;
    f->entry = "decode";
    seed_entry(f, first);
    assert_true(f->seeded);
    assert_string_equal(seeds_of(f, "tok"), "STORAGE D@dp; FIXED closed:2");
}

static void placed_state_stays(void **state)
{
    (void)state;
    run(&(fixture){
        .model = llama,
        .plan =
            "mesh dp = 2, tp = 2; bind T = 16 in decode; shard V over tp; shard param * over dp;",
        .entry = "loss",
        .check = check_fixed_star});
    fixture f = {
        .model = llama,
        .plan =
            "mesh dp = 2, tp = 8; bind T = 16 in decode; shard H over tp; shard param D over dp;",
        .entry = "loss",
        .check = check_fixed};
    run(&f);
}

/* ---- paths ---- */
static void check_paths(fixture *f)
{
    static const struct {
        const char *pattern, *entry, *path;
        sc_path_match wanted;
    } cases[] = {
        {"layers.attn", "loss", "layers[0].attn", SC_PATH_EXACT},
        {"layers.attn", "loss", "layers[0].attn.wq", SC_PATH_COVERS},
        {"layers.attn", "loss", "layers[0].attn2.wq", SC_PATH_NO},
        {"layers.attn.wq", "loss", "layers[0].attn", SC_PATH_NO},
        {"layers[2]", "loss", "layers[2].attn", SC_PATH_COVERS},
        {"layers[2]", "loss", "layers[12].attn", SC_PATH_NO},
        {"layers[2..4].attn", "loss", "layers[4].attn", SC_PATH_EXACT},
        {"layers[2..4].attn", "loss", "layers[5].attn", SC_PATH_NO},
        {"*.attn", "loss", "layers[5].attn", SC_PATH_EXACT},
        {"*", "loss", "layers[5].attn", SC_PATH_COVERS},
        {"loss", "loss", "layers[5].attn", SC_PATH_COVERS},
        {"loss", "decode", "layers[5].attn", SC_PATH_NO},
        {"loss.layers.attn", "loss", "layers[5].attn", SC_PATH_EXACT},
        {"loss.z", "loss", "loss.z", SC_PATH_EXACT},
        {"loss.z", "decode", "loss.z", SC_PATH_EXACT},
        {"a.b[1].c", "loss", "a[3].b[1].c", SC_PATH_EXACT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = sc_arena_printf(&f->context->arena, "lang 1; plan q for m { remat %s; }",
                                     cases[i].pattern);
        sc_file *file = sc_parse_text(f->context, "path", text, strlen(text));
        const sc_path *pattern = &file->items.data[0]->plan->body.data[0]->in.data[0];
        sc_path_match got =
            sc_path_matches(f->context, pattern, sc_intern_text(&f->context->names, cases[i].entry),
                            sc_intern_text(&f->context->names, cases[i].path));
        if (got != cases[i].wanted)
            fail_msg("%s against %s in %s: %d", cases[i].pattern, cases[i].path, cases[i].entry,
                     (int)got);
    }
}

static void paths_match_subtrees_instances_and_entries(void **state)
{
    (void)state;
    fixture f = {.model = mlp, .plan = "", .check = check_paths};
    run(&f);
}

/* ---- sizes, dtypes, entries, numbers ---- */
static int64_t bound(const fixture *f, const char *entry, const char *dim)
{
    sc_binding_list list = {0};
    sc_plan_bindings(f->resolved, sc_intern_text(&f->context->names, entry), &list);
    int64_t size = 0;
    for (uint32_t i = 0; i < list.count; i++)
        size =
            list.data[i].dim == sc_intern_text(&f->context->names, dim) ? list.data[i].size : size;
    return size;
}

static void check_binds(fixture *f)
{
    assert_non_null(f->resolved);
    assert_int_equal(bound(f, "loss", "B"), 6);
    assert_int_equal(bound(f, "decode", "B"), 12);
    assert_int_equal(bound(f, "loss", "S"), 5);
    assert_int_equal(bound(f, "decode", "S"), 5);
    assert_int_equal(bound(f, "decode", "T"), 24);
    assert_int_equal(bound(f, "loss", "T"), 0);
}

static void the_command_line_binds_last(void **state)
{
    (void)state;
    fixture f = {.model = llama,
                 .plan = "bind B = 6, S = 8; bind B = 12, T = 2 * B in decode;",
                 .bind = "S",
                 .check = check_binds};
    run(&f);
}

static void check_dtypes(fixture *f)
{
    assert_non_null(f->resolved);
    static const struct {
        sc_tensor_kind kind;
        const char *path;
        sc_dtype wanted;
    } cases[] = {
        {SC_KIND_PARAM, "tok", SC_DTYPE_f32},
        {SC_KIND_ACT, "layers[0].attn.o", SC_DTYPE_bf16},
        {SC_KIND_ACT, "layers[0].n.out", SC_DTYPE_f32},
        {SC_KIND_ACT, "layers[1].n.out", SC_DTYPE_f64},
        {SC_KIND_CACHE, "layers[1].attn.ck", SC_DTYPE_f16},
        {SC_KIND_OPT, "tok", SC_DTYPE_f32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sc_dtype got = sc_plan_dtype_of(f->resolved, cases[i].kind,
                                        sc_intern_text(&f->context->names, cases[i].path));
        if (got != cases[i].wanted)
            fail_msg("%s: %s", cases[i].path, sc_dtypes[got].name);
    }
}

static void specific_precision_wins(void **state)
{
    (void)state;
    fixture f = {.model = llama,
                 .plan = "precision act = f64 in layers[1].n; precision act = f32 in layers.n; "
                         "precision act = f64 in layers[1].n;"
                         "precision param = f32, act = bf16, cache = f16;",
                 .check = check_dtypes};
    run(&f);
}

static void check_entry(fixture *f)
{
    sc_sym entry = f->resolved == NULL
                       ? 0
                       : sc_plan_default_entry(f->program, f->resolved,
                                               sc_intern_text(&f->context->names, "m"));
    assert_string_equal(sc_text(f->context, entry), f->wanted);
    if (entry == 0)
        assert_int_equal(sc_diag_exit_code(&f->context->diag), 2);
}

static void the_default_entry_is_the_minimised_or_the_only_bound_one(void **state)
{
    (void)state;
    static const char two[] =
        "lang 1; dim A, B, C;\n model m { entry f(x: f32[A]) -> [A] { return x; } entry g(x: "
        "f32[B]) -> [B] { return x; }\n"
        " entry h(x: f32[C]) -> f32[] { return sum[C](x); } }\nminimize m.h with sgd(lr = 1);\n";
    static const struct {
        const char *plan, *wanted;
    } cases[] = {{"bind A = 1;", "f"},
                 {"bind B = 1;", "g"},
                 {"bind A = 1, B = 1;", ""},
                 {"bind A = 1, C = 1;", "h"},
                 {"", ""},
                 {"bind A = 1 in f;", "f"},
                 {"bind A = 1 in g;", ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fixture f = {
            .model = two, .plan = cases[i].plan, .wanted = cases[i].wanted, .check = check_entry};
        run(&f);
    }
}

static void check_expects(fixture *f)
{
    assert_non_null(f->resolved);
    sc_expect_list list = {0};
    sc_plan_expects(f->resolved, &list);
    assert_int_equal(list.count, 4);
    const sc_expect *e = list.data;
    assert_int_equal(e[0].kind, SC_EXPECTS_COUNT);
    assert_string_equal(sc_text(f->context, e[0].op), "all_gather");
    assert_int_equal(e[0].axes, 2);
    assert_string_equal(sc_text(f->context, e[0].phase), "forward");
    assert_true(e[0].exactly);
    assert_int_equal(e[0].count, 2);
    assert_int_equal(e[0].in->count, 1);
    assert_string_equal(e[0].text, "count(all_gather, tp, forward) == 2 in layers");
    assert_int_equal(e[1].axes, 3);
    assert_false(e[1].exactly);
    assert_int_equal(e[2].kind, SC_EXPECTS_BYTES);
    assert_true(e[2].any_axis);
    assert_true(e[2].bytes == 1.5 * 1024 * 1024);
    assert_int_equal(e[3].kind, SC_EXPECTS_MEMORY);
    assert_true(e[3].bytes == 76e9);
    sc_plan_tuning tuning = sc_plan_tune(f->resolved);
    assert_true(tuning.call_cost == 1e3 && tuning.bucket == 26214400 && tuning.prefetch == 2);
}

static void expects_and_tunings_are_read(void **state)
{
    (void)state;
    fixture f = {.model = llama,
                 .plan = "mesh dp = 2, tp = 2; expect count(all_gather, tp, forward) == 2 in "
                         "layers; expect count(all_reduce, (tp, dp)) <= 7;"
                         "expect bytes(any, backward) <= 1.5 MiB; expect memory() <= 76 GB; tune "
                         "call_cost = 1e3, prefetch = 2;",
                 .check = check_expects};
    run(&f);
}

static void check_auto(fixture *f)
{
    assert_true(f->seeded);
    assert_int_equal(f->m->mesh.axes[0].size, f->options.ranks == 0 ? 1 : 3);
    assert_true(f->m->mesh.axes[1].inter);
}

static void an_auto_axis_is_what_ranks_leave(void **state)
{
    (void)state;
    fixture f = {.model = mlp,
                 .plan = "mesh dp = auto, tp = 4 inter;",
                 .options = {.ranks = 12},
                 .entry = "fwd",
                 .check = check_auto};
    run(&f);
    f.options.ranks = 0;
    run(&(fixture){.model = mlp,
                   .plan = "mesh dp = auto, tp = 4 inter;",
                   .entry = "fwd",
                   .check = check_auto});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_pins_and_styles_give_seeds),
        cmocka_unit_test(composites_cut_axes),
        cmocka_unit_test(styles_lock_the_reading_op),
        cmocka_unit_test(style_ends_place_input_and_result),
        cmocka_unit_test(annotations_are_pins_of_their_axis),
        cmocka_unit_test(annotations_of_unknown_axes_are_noted),
        cmocka_unit_test(lines_are_kept_as_rules),
        cmocka_unit_test(placed_state_stays),
        cmocka_unit_test(paths_match_subtrees_instances_and_entries),
        cmocka_unit_test(the_command_line_binds_last),
        cmocka_unit_test(specific_precision_wins),
        cmocka_unit_test(the_default_entry_is_the_minimised_or_the_only_bound_one),
        cmocka_unit_test(expects_and_tunings_are_read),
        cmocka_unit_test(an_auto_axis_is_what_ranks_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
