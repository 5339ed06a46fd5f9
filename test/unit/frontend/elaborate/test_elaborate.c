/* Elaboration: what a program becomes in the IR. Each case is a model and lines that its function
 * must (or must not) hold; the text form is what a reader of a dump sees. What is refused is in
 * test/frontend/sema. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/elaborate/build.h"
#include "frontend/read_program.h"
#include "frontend/weights/map.h"
#include "ir/ops/verify.h"
#include "ir/text/text.h"

/* ---- one compile ---- */
typedef struct fixture {
    const char *text, *path;   /* the model, or a file with it */
    const char *entry, *binds; /* "B=2 S=4" */
    sc_dtype act, param, cache;
    bool training, expect_errors;
    void (*check)(struct fixture *f);
    sc_context *context;
    sc_declarations *program;
    sc_binding_list bindings;
    sc_module *m;
    sc_build_result built;
    bool ok;
    const char *ir, *messages;
} fixture;

static sc_dtype dtype_of(void *user, sc_tensor_kind kind, sc_sym path)
{
    const fixture *f = user;
    (void)path;
    return kind == SC_KIND_PARAM ? f->param : kind == SC_KIND_CACHE ? f->cache : f->act;
}

static sc_sym symbol(fixture *f, const char *text)
{
    return sc_intern_text(&f->context->names, text);
}

static void read_binds(fixture *f)
{
    for (const char *p = f->binds == NULL ? "" : f->binds; *p != 0;) {
        size_t length = strcspn(p, "=");
        char *end;
        sc_binding binding = {.dim = sc_intern(&f->context->names, p, length),
                              .size = strtoll(p + length + 1, &end, 10)};
        *sc_vec_push(&f->context->arena, &f->bindings) = binding;
        p = end + (*end == ' ');
    }
}

static void build(fixture *f)
{
    sc_build_request request = {.model = sc_declarations_only_model(f->program),
                                .entry = symbol(f, f->entry),
                                .bindings = &f->bindings,
                                .dtype_of = dtype_of,
                                .user = f,
                                .training = f->training};
    f->m = sc_module_new(f->context);
    f->ok = sc_build_entry(f->program, &request, f->m, &f->built);
    if (!f->ok)
        return;
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    sc_print_module(f->m, &(sc_print_options){0}, &out);
    f->ir = out.data;
    assert_true(sc_verify_module(f->m, "build"));
}

static void compile(sc_context *context, void *user)
{
    fixture *f = user;
    f->context = context;
    sc_file *file = f->path != NULL
                        ? sc_load_file(context, f->path, NULL)
                        : sc_parse_text(context, "model.shard", f->text, strlen(f->text));
    assert_non_null(file);
    f->program = sc_declarations_new(context, file);
    sc_declarations_check(f->program);
    read_binds(f);
    if (f->entry != NULL && context->diag.errors == 0)
        build(f);
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_add(&out, "");
    sc_diag_render_text(&context->diag, &context->sources, &out);
    f->messages = out.data;
    if (!f->expect_errors && context->diag.errors > 0)
        fail_msg("%s", out.data);
    f->check(f);
}

static void run(fixture f)
{
    sc_context context;
    assert_true(sc_context_run(&context, 0, compile, &f));
    sc_context_free(&context);
}

static void expect_line(const fixture *f, const char *line)
{
    if (strstr(f->ir, line) == NULL)
        fail_msg("'%s' is missing in\n%s", line, f->ir);
}

static void expect_no(const fixture *f, const char *text)
{
    if (strstr(f->ir, text) != NULL)
        fail_msg("'%s' should not be in\n%s", text, f->ir);
}

static uint32_t count_ops(const fixture *f, sc_op_kind kind)
{
    uint32_t count = 0;
    sc_for_each_op (f->m, f->built.func, op)
        count += sc_op_at(f->m, op)->kind == kind;
    return count;
}

static const sc_state *state(fixture *f, const char *path)
{
    uint32_t index = sc_module_find_state(f->m, symbol(f, path));
    assert_int_not_equal(index, SC_NONE);
    return &f->m->state.data[index];
}

/* ---- whole models ---- */
static void llama_counts(fixture *f)
{
    assert_int_equal(count_ops(f, SC_OP_dot), 126 * 7 + 1);
    assert_int_equal(count_ops(f, SC_OP_attend), 126);
    assert_int_equal(count_ops(f, SC_OP_param), 126 * 9 + 3);
    assert_int_equal(count_ops(f, SC_OP_xent), 1);
    assert_int_equal(f->m->state.count, 126 * 9 + 3);
    expect_line(f, "%0 \"loss.t\" = input {name = \"t\"} : i32[B=2, S=8]");
    expect_line(f, "\"layers[125].attn.o\" = attend[T, E -> S]");
}

static void test_llama_at_full_depth(void **unused)
{
    (void)unused;
    run((fixture){.path = SHARDC_SOURCE_DIR "/examples/llama.shard",
                  .entry = "loss",
                  .binds = "B=2 S=8 L=126",
                  .act = SC_DTYPE_bf16,
                  .check = llama_counts});
}

static void llama_decode(fixture *f)
{
    assert_int_equal(count_ops(f, SC_OP_append), 4);
    assert_int_equal(count_ops(f, SC_OP_cache_read), 4);
    assert_int_equal(count_ops(f, SC_OP_cache_write), 4);
    expect_line(f, "%1 \"decode.pos\" = input {name = \"pos\"} : i32[B=2]");
    expect_line(f, "%2 \"decode.pos_len\" = input {name = \"pos_len\"} : i32[B=2]");
    expect_line(f, "state cache \"layers[1].attn.cv\": bf16[B=2, T=64, K=8, E=128] = zeros");
    expect_line(f, "%1 {theta = 5e+05, pairs = halves, with = [pos]}");
    expect_line(f, "%1, %2 {mask = causal, scale = 0.08838834764831843, with = [pos, len]}");
    expect_line(f, "%2 {with = [len]} : f32[B=2, D=4096]");
    assert_string_equal(sc_text(f->context, f->m->dims.data[f->built.cache_dim].name), "T");
}

static void test_llama_with_caches(void **unused)
{
    (void)unused;
    run((fixture){.path = SHARDC_SOURCE_DIR "/examples/llama.shard",
                  .entry = "decode",
                  .binds = "B=2 S=1 T=64 L=2",
                  .cache = SC_DTYPE_bf16,
                  .check = llama_decode});
}

static void no_casts(fixture *f)
{
    assert_int_equal(count_ops(f, SC_OP_cast), 0);
    assert_int_equal(count_ops(f, SC_OP_dropout), 0);
    /* wte once, though it is used twice */
    assert_int_equal(count_ops(f, SC_OP_param), 12 * 16 + 4);
}

static void test_gpt2_in_f32_has_no_casts(void **unused)
{
    (void)unused;
    run((fixture){.path = SHARDC_SOURCE_DIR "/examples/gpt2.shard",
                  .entry = "loss",
                  .binds = "B=2 S=8",
                  .check = no_casts});
}

static void has_dropouts(fixture *f)
{
    assert_int_equal(count_ops(f, SC_OP_dropout), 24);
    expect_line(f, "{p = 0.1, seed = \"h[0].dropout0\"}");
    expect_line(f, "{p = 0.1, seed = \"h[11].dropout1\"}");
}

static void test_gpt2_keeps_dropout_in_training(void **unused)
{
    (void)unused;
    run((fixture){.path = SHARDC_SOURCE_DIR "/examples/gpt2.shard",
                  .entry = "loss",
                  .binds = "B=2 S=8",
                  .training = true,
                  .check = has_dropouts});
}

static const char attention_text[] =
    "lang 1; dim S = 4, T = alias S, E = 2;\n"
    "model m { entry f(q: f32[S, E], k: f32[T, E]) -> [S, E] {\n"
    "  a = attend[T, E](q, k, k, mask = causal, dropout = 0.25); return dropout(a, p = 0.5); } }\n";

static void drops_weights(fixture *f)
{
    expect_line(f, "= attend[T, E -> S] %0, %1, %1 {mask = causal, scale = 0.7071067811865475, p = "
                   "0.25, seed = \"f.dropout0\"}");
    expect_line(f, "{p = 0.5, seed = \"f.dropout1\"}");
}

static void keeps_weights(fixture *f)
{
    expect_line(f, "= attend[T, E -> S] %0, %1, %1 {mask = causal, scale = 0.7071067811865475} : "
                   "f32[S=4, E=2]");
}

static void test_attend_drops_weights_in_training_only(void **unused)
{
    (void)unused;
    run((fixture){.text = attention_text, .entry = "f", .training = true, .check = drops_weights});
    run((fixture){.text = attention_text, .entry = "f", .check = keeps_weights});
}

/* ---- numbers ---- */
static void rounding(fixture *f)
{
    expect_line(f, "%3 = cast %2 : bf16[D=4, F=3]"); /* the parameter, once */
    /* dot in the act dtype, under its name */
    expect_line(f, "%5 \"f.a\" = dot[D] %4, %3 : bf16[B=2, F=3]");
    expect_line(f, "%6 = cast %5 : f32[B=2, F=3]");
    expect_line(f, "%9 = exp %8 : f32[B=2, F=3]");
    expect_line(f, "%10 \"f.b\" = cast %9 : bf16[B=2, F=3]"); /* rounded where it gets a name */
    /* f64 where an operand is, and declared */
    expect_line(f, "%12 \"f.c\" = mul %1, %11 : f64[B=2, F=3]");
    expect_line(f, "\"f.e\" = cast %14 : bf16[B=2, F=3]");
    expect_line(f, "\"f.g\" = add %6, %16 : f32[B=2, F=3]"); /* declared f32 */
    expect_line(f, "\"f.n\" = sum[B, F] %20 : f32[]");       /* counts stay f32 */
    expect_line(f, "\"f.l\" = logsumexp[F] %6 : f32[B=2]");
    assert_int_equal(count_ops(f, SC_OP_param), 1);
}

static void test_rounding_where_values_get_names(void **unused)
{
    (void)unused;
    run((fixture){
        .text = "lang 1; dim B = 2, D = 4, F = 3;\n"
                "model m { param w[D, F];\n"
                "  entry f(x: f32[B, D], d: f64[B, F]) -> [B, F], f32[], f32[B], f64[B, F] {\n"
                "    a = dot[D](x, w); b = exp(a * 2); c: f64[B, F] = d * a; e = c + 1; g: f32[B, "
                "F] = a + b;\n"
                "    n = sum[B, F](gt(a, 0)); l = logsumexp[F](a);\n"
                "    return dot[D](x, w) + b + e + g, n, l, c; } }\n",
        .entry = "f",
        .act = SC_DTYPE_bf16,
        .check = rounding});
}

static void literals(fixture *f)
{
    expect_line(f, "constant {value = 2.0} : i32[]");
    expect_line(f, "constant {value = 0.25} : f32[]"); /* 1.0/sqrt(16.0), folded */
    expect_line(f, "constant {value = 0.5} : f32[]");  /* integer with fraction: float */
    expect_line(f, "\"f.k\" = mul %0, ");
    /* each number once per dtype: 2 as i32 and f32, 1 */
    assert_int_equal(count_ops(f, SC_OP_constant), 5);
}

static void test_literals_are_weak_and_folded(void **unused)
{
    (void)unused;
    run((fixture){
        .text =
            "lang 1; dim B = 2, E = 16;\n"
            "model m { entry f(t: i32[B], x: f32[B]) -> i32[B], [B] {\n"
            "    k = t * 2; two = 1 + 1; s = 1.0 / sqrt(E);\n"
            "    return k * two, x * s + t * 0.5 + t / 2 + x * (4 / 2) + mod(7, 4) / 3 * x; } }\n",
        .entry = "f",
        .check = literals});
}

/* ---- dims ---- */
static void composite_alias(fixture *f)
{
    expect_line(f, "dim H = (K = 2, G = 3)");
    expect_line(f, "dim J = alias H (J.K = 2, J.G = 3)");
    expect_line(f, "rename[H -> J]");
    expect_line(f, "f32[B=2, H=6, J=6]");
    expect_line(f, "regroup");
}

static void test_aliases_of_composites_have_leaves(void **unused)
{
    (void)unused;
    run((fixture){.text = "lang 1; dim B = 2, K = 2, G = 3, H = (K, G), J = alias H;\n"
                          "model m { entry f(x: f32[B, H]) -> [B, K, G] { y = x * rename[H -> "
                          "J](x); return split[H](sum[J](y)); } }\n",
                  .entry = "f",
                  .check = composite_alias});
}

static void substituted(fixture *f)
{
    expect_line(f, "\"b.s.x\" = use");
    expect_line(f, ": f32[B=2, Sv=5, D=4]");
    expect_line(f, "rename[Sv -> Tv]");
    expect_line(f, "state param \"b.s.w\": f32[Sv=5]");
    expect_line(f, "constant {value = 0.2} : f32[]"); /* 1/Sv */
    expect_line(f, "state param \"a.s.w\": f32[S=3]");
}

static void test_dims_are_substituted_throughout_an_instance(void **unused)
{
    (void)unused;
    run((fixture){
        .text =
            "lang 1; dim B = 2, S = 3, T = alias S, Sv = 5, Tv = alias Sv, D = 4;\n"
            "fn mid(x[B, S, D]) -> [B, D] { return mean[S](x); }\n"
            "block inner(x[B, S, D]) -> [B, S, D] { param w[S]; return x * w; }\n"
            "block outer(x[B, S, D]) -> [B, D] { sub s: inner; y = rename[S -> T](s(x)); return "
            "mid(x) + sum[T](y); }\n"
            "model m { sub a: outer, b: outer[S = Sv, T = Tv];\n"
            "  entry f(x: f32[B, S, D], y: f32[B, Sv, D]) -> [B, D] { return a(x) + b(y); } }\n",
        .entry = "f",
        .check = substituted});
}

static void statics(fixture *f)
{
    expect_line(f, "{mask = causal");
    expect_line(f, "{mask = window, window = 6");
    expect_line(f, "constant {value = 1e-06}");
    expect_line(f, "constant {value = 0.001}");
    expect_no(f, "1e-05");
}

static void test_statics_are_passed_down(void **unused)
{
    (void)unused;
    run((fixture){.text = "lang 1; dim B = 2, S = 3, T = alias S, E = 4;\n"
                          "block norm[N](x[.., N], eps = 1e-5) -> [.., N] { return x * "
                          "rsqrt(mean[N](x * x) + eps); }\n"
                          "block attn(x[B, S, E], m = none, w = 2, eps = 1e-3) -> [B, S, E] {\n"
                          "  sub n: norm[E](eps = eps), o: norm[E](eps = 1e-6);\n"
                          "  k = rename[S -> T](n(x));\n"
                          "  return attend[T, E](x, k, k, mask = m) + attend[T, E](o(x), k, k, "
                          "mask = window(w * 2)); }\n"
                          "model m { sub a: attn(m = causal, w = 3); entry f(x: f32[B, S, E]) -> "
                          "[B, S, E] { return a(x); } }\n",
                  .entry = "f",
                  .check = statics});
}

static void alias_sizes(fixture *f)
{
    expect_line(f, "f32[B=2, T=4]"); /* T's own size is for live caches */
}

static void test_an_alias_has_its_originals_size_without_caches(void **unused)
{
    (void)unused;
    run((fixture){.text =
                      "lang 1; dim B = 2, S, T = alias S;\n"
                      "model m { entry f(x: f32[B, S]) -> [B, T] { return rename[S -> T](x); } }\n",
                  .entry = "f",
                  .binds = "S=4 T=9",
                  .check = alias_sizes});
}

static const char *unbound(fixture *f, const char *entry)
{
    sc_sym_list dims = {0};
    sc_strbuf out;
    sc_strbuf_init(&out, &f->context->arena);
    sc_strbuf_add(&out, "");
    sc_declarations_unbound_dims(f->program, sc_declarations_only_model(f->program),
                                 symbol(f, entry), &f->bindings, &dims);
    for (uint32_t i = 0; i < dims.count; i++)
        sc_strbuf_printf(&out, "%s%s", i > 0 ? " " : "", sc_text(f->context, dims.data[i]));
    return out.data;
}

static void check_unbound(fixture *f)
{
    assert_string_equal(unbound(f, "f"), "B X");
    /* S is bound, but T is the capacity of the caches */
    assert_string_equal(unbound(f, "g"), "B T");
    assert_string_equal(unbound(f, "h"), "X K");
}

static void test_unbound_dims_are_those_that_an_entry_needs(void **unused)
{
    (void)unused;
    run((fixture){
        .text = "lang 1; dim B, S, T = alias S, X, Y = 2 * X, Z, K, G = 2, H = (K, G), U;\n"
                "block c(x[B, S]) -> [B] { cache k[B, T]; return sum[T](append[S -> T](k, x)); }\n"
                "model m { sub a: c;\n"
                "  entry f(x: f32[B, S], y: f32[Y]) -> [B] { return a(x) * sum[Y](y); }\n"
                "  entry g(x: f32[B, S]) at pos[B] along S -> [B] { return a(x); }\n"
                "  entry h(x: f32[H]) -> [H] { return x * sqrt(X); } }\n",
        .binds = "S=4",
        .check = check_unbound});
}

static void check_integers(fixture *f)
{
    const char *text = "lang 1; dim A = 6 * B + 1;";
    sc_file *file = sc_parse_text(f->context, "expr.shard", text, strlen(text));
    int64_t value = 0;
    assert_true(sc_declarations_eval_integer(f->program, file->items.data[0]->dims.data[0].size,
                                             &f->bindings, &value));
    assert_int_equal(value, 31);
}

static void test_integer_expressions_see_bindings(void **unused)
{
    (void)unused;
    run((fixture){.text = "lang 1; dim B = 2, C = B;\n", .binds = "B=5", .check = check_integers});
}

/* ---- paths ---- */
static void paths(fixture *f)
{
    static const char *const wanted[] = {
        "\"f.x\" = input",         "\"s[0].i[1].x\" = use", "\"s[1].i[2].w\" = param",
        "\"s[1].out0\" = use",     "\"s[1].out1\" = use",   "\"go.y\" = use",
        "\"go.out\" = use",        "\"f.out\" = use",       "\"s[0].help.z\" = mul",
        "\"s[0].half.out\" = use", "\"s[0].u\" = use %"};
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        expect_line(f, wanted[i]);
    expect_line(f, "scope \"s[0].i[1]\"");
    expect_line(f, "scope \"go\"");
    assert_int_equal(f->built.pins.count, 3);
    assert_string_equal(sc_text(f->context, f->built.pins.data[0].path), "f.x");
    assert_string_equal(sc_text(f->context, f->built.pins.data[1].path), "s[0].h");
}

static void test_values_have_the_paths_of_their_names(void **unused)
{
    (void)unused;
    run((fixture){.text =
                      "lang 1; dim B = 4, L = 2, M = 3;\n"
                      "fn half(x[B]) -> [B] { return x * 0.5; }\n"
                      "block inner(x[B]) -> [B] { param w[B]; return x * w; }\n"
                      "block layer(x[B]) -> [B], [B] { sub i: inner * M; fn help(x[B]) -> [B] { z "
                      "= x * 3; return z; }\n"
                      "  u = x; h[B@dp] = help(half(x)); repeat M { h = i(h); } return h, u; }\n"
                      "model m { sub s: layer * L;\n"
                      "  fn go(x[B]) -> [B] { repeat L { x, y = s(x); x = x + y; } return x; }\n"
                      "  entry f(x: f32[B@(dp, tp)]) -> [B] { return go(x); } }\n",
                  .entry = "f",
                  .check = paths});
}

/* ---- state ---- */
static void inits(fixture *f)
{
    assert_int_equal(state(f, "a")->init, SC_INIT_XAVIER);
    assert_true(state(f, "a")->init_args[0] == 4 && state(f, "a")->init_args[1] == 3);
    /* gathered over V */
    assert_true(state(f, "b")->init_args[0] == 5 && state(f, "b")->init_args[1] == 4);
    /* contracted by nothing */
    assert_true(state(f, "c")->init_args[0] == 1 && state(f, "c")->init_args[1] == 3);
    assert_true(state(f, "d")->init == SC_INIT_NORMAL && state(f, "d")->init_args[0] == 0.02);
    /* 1/sqrt(D) */
    assert_true(state(f, "e")->init == SC_INIT_NORMAL && state(f, "e")->init_args[0] == 0.5);
    assert_true(state(f, "g")->init == SC_INIT_UNIFORM && state(f, "g")->init_args[0] == -1 &&
                state(f, "g")->init_args[1] == 2);
    assert_int_equal(f->m->types.data[state(f, "d")->type].dtype, SC_DTYPE_bf16); /* declared */
    assert_int_equal(f->m->types.data[state(f, "e")->type].dtype, SC_DTYPE_f16);  /* of the plan */
}

static void test_initialisers(void **unused)
{
    (void)unused;
    run((fixture){.text = "lang 1; dim B = 2, D = 4, F = 3, V = 5;\n"
                          "model m { param a[D, F] = xavier(), b[V, D] = xavier(), c[F] = "
                          "xavier(), d: bf16[F], e[F] = normal(1.0 / "
                          "sqrt(D)), g[F] = uniform(-1, 2);\n"
                          "  entry f(t: i32[B]) -> [B, F] { return dot[D](gather[V](b, t), a) + c "
                          "+ d + e + g; } }\n",
                  .entry = "f",
                  .param = SC_DTYPE_f16,
                  .check = inits});
}

/* Entries of one module share parameters, whose dims then have one size. */
static void shared(fixture *f)
{
    sc_build_request request = {.model = symbol(f, "m"),
                                .entry = symbol(f, "g"),
                                .bindings = &f->bindings,
                                .dtype_of = dtype_of,
                                .user = f};
    sc_build_result second;
    assert_true(sc_build_entry(f->program, &request, f->m, &second));
    assert_int_equal(f->m->state.count, 2);
    assert_int_equal(f->m->funcs.count, 2);
    *sc_vec_push(&f->context->arena, &f->bindings) = (sc_binding){.dim = symbol(f, "D"), .size = 7};
    request.entry = symbol(f, "h");
    assert_false(sc_build_entry(f->program, &request, f->m, &second));
}

static void test_entries_share_state(void **unused)
{
    (void)unused;
    run((fixture){
        .text = "lang 1; dim B = 2, D = 4;\n"
                "model m { param a[D], b[B]; entry f(x: f32[B, D]) -> [B, D] { return x * a; }\n"
                "  entry g(x: f32[B, D]) -> [B, D] { return x * a * b; } entry h(x: f32[B, D]) -> "
                "[B, D] { return x * a; } }\n",
        .entry = "f",
        .check = shared});
}

/* ---- weights ---- */
static void layouts(fixture *f)
{
    sc_weights_list maps = {0};
    sc_declarations_weights(f->program, &maps);
    assert_int_equal(maps.count, 1);
    sc_sym wq = symbol(f, "s[2].wq"), name;
    const sc_wmap *map = sc_weights_find(f->context, maps.data[0], wq);
    uint32_t index = sc_module_find_state(f->m, wq);
    sc_weight_layout layout;
    assert_true(sc_wmap_layout(f->program, map, f->m, index, &layout));
    assert_int_equal(layout.rank, 3); /* [D, K, G] stored as [D, 1 of 3, K, G] */
    assert_true(layout.strides[0] == 18 && layout.strides[1] == 3 && layout.strides[2] == 1 &&
                layout.offset == 6 && layout.elements == 72);
    assert_true(sc_weight_layout_fits(&layout, 2, (int64_t[]){4, 18}));
    assert_true(sc_weight_layout_fits(&layout, 4, (int64_t[]){4, 3, 2, 3}));
    assert_false(sc_weight_layout_fits(&layout, 2, (int64_t[]){18, 4}));
    assert_true(sc_wmap_tensor_name(f->program, map, symbol(f, "m"), f->m, index, NULL, &name));
    assert_string_equal(sc_text(f->context, name), "h.5.qkv");

    index = sc_module_find_state(f->m, symbol(f, "s[1].e")); /* [X, D]: one tensor an expert */
    map = sc_weights_find(f->context, maps.data[0], symbol(f, "s[1].e"));
    assert_true(sc_wmap_layout(f->program, map, f->m, index, &layout));
    assert_true(layout.indexed[0] && !layout.indexed[1] && layout.elements == 4);
    assert_true(sc_wmap_tensor_name(f->program, map, symbol(f, "m"), f->m, index, (int64_t[]){3, 0},
                                    &name));
    assert_string_equal(sc_text(f->context, name), "h.1.expert.3");

    /* 0..2 of 5 per K: the G of each K's queries */
    index = sc_module_find_state(f->m, symbol(f, "s[0].r"));
    map = sc_weights_find(f->context, maps.data[0], symbol(f, "s[0].r"));
    assert_true(sc_wmap_layout(f->program, map, f->m, index, &layout));
    assert_true(layout.strides[0] == 5 && layout.strides[1] == 1 && layout.offset == 0 &&
                layout.elements == 10);
    assert_true(sc_weight_layout_fits(&layout, 1, (int64_t[]){10}));
    assert_null(sc_weights_find(f->context, maps.data[0], symbol(f, "s[0].nothing")));
}

static void test_weights_lie_where_the_map_says(void **unused)
{
    (void)unused;
    run((fixture){.text = "lang 1; dim D = 4, K = 2, G = 3, H = (K, G), X = 5, L = 3;\n"
                          "block b(x[D]) -> [D] { param wq[D, H], e[X, D], r[H];\n"
                          "  return x + sum[H](wq * r) + sum[X](e); }\n"
                          "model m { sub s: b * L; entry f(x: f32[D]) -> [D] { repeat L { x = "
                          "s(x); } return x; } }\n"
                          "weights hf for m {\n"
                          "  s.wq = \"h.{2 * L + 1}.qkv\" as [D, 1 of 3, H];\n"
                          "  s.e = \"h.{L}.expert.{X}\";\n"
                          "  s.r = \"h.{L}.r\" as [K, 0..2 of 5, G]; }\n",
                  .entry = "f",
                  .check = layouts});
}

/* ---- bounds ---- */
static void is_too_large(fixture *f)
{
    assert_non_null(strstr(f->messages, "[too_large]"));
}

/* 2^60 calls: the elaboration gives up, whatever the leaf does. */
static void test_exponential_nesting_is_stopped(void **unused)
{
    (void)unused;
    char text[8192];
    int length =
        snprintf(text, sizeof text, "lang 1; dim B = 2; block b0(x[B]) -> [B] { return x; }\n");
    for (int i = 1; i < 60; i++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "block b%d(x[B]) -> [B] { sub a: b%d, c: b%d; return c(a(x)); }\n", i,
                           i - 1, i - 1);
    snprintf(text + length, sizeof text - (size_t)length,
             "model m { sub s: b59; entry f(x: f32[B]) -> [B] { return s(x); } }\n");
    run((fixture){.text = text, .expect_errors = true, .check = is_too_large});
}

static void has_no_errors(fixture *f)
{
    assert_string_equal(f->messages, "");
}

/* Sizes and aliases are followed without recursion, or not farther than a bound. */
static void test_long_chains_of_dims(void **unused)
{
    (void)unused;
    enum { COUNT = 50000 };
    size_t room = COUNT * 32;
    char *text = malloc(room);
    assert_non_null(text);
    size_t length = (size_t)snprintf(text, room, "lang 1; dim D%d = 1;\n", COUNT);
    for (int i = 0; i < COUNT; i++)
        length += (size_t)snprintf(text + length, room - length, "dim D%d = D%d;\n", i, i + 1);
    snprintf(text + length, room - length,
             "model m { entry f(x: f32[D0]) -> [D0] { return x; } }\n");
    run((fixture){.text = text, .entry = "f", .check = has_no_errors});
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_llama_at_full_depth),
        cmocka_unit_test(test_llama_with_caches),
        cmocka_unit_test(test_gpt2_in_f32_has_no_casts),
        cmocka_unit_test(test_gpt2_keeps_dropout_in_training),
        cmocka_unit_test(test_attend_drops_weights_in_training_only),
        cmocka_unit_test(test_rounding_where_values_get_names),
        cmocka_unit_test(test_literals_are_weak_and_folded),
        cmocka_unit_test(test_aliases_of_composites_have_leaves),
        cmocka_unit_test(test_dims_are_substituted_throughout_an_instance),
        cmocka_unit_test(test_statics_are_passed_down),
        cmocka_unit_test(test_an_alias_has_its_originals_size_without_caches),
        cmocka_unit_test(test_unbound_dims_are_those_that_an_entry_needs),
        cmocka_unit_test(test_integer_expressions_see_bindings),
        cmocka_unit_test(test_values_have_the_paths_of_their_names),
        cmocka_unit_test(test_initialisers),
        cmocka_unit_test(test_entries_share_state),
        cmocka_unit_test(test_weights_lie_where_the_map_says),
        cmocka_unit_test(test_exponential_nesting_is_stopped),
        cmocka_unit_test(test_long_chains_of_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
