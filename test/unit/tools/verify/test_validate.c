/* Translation validation: per-rank programs that are right are found equal; each way of being wrong
 * is found, whether or not the verifier would let it pass; shrinking keeps programs legal and puts
 * every size back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/text/text.h"
#include "tools/verify/shrink.h"
#include "tools/verify/validate.h"

#define DIMS                                                                                       \
    "dim A\ndim B\ndim C\ndim D\ndim E\ndim F\ndim G\ndim K\ndim P\ndim Q\ndim R\ndim S\ndim T = " \
    "alias S\ndim V\ndim X\ndim H = (K = 8, "                                                      \
    "G = 2)\n"

/* ---- one comparison ---- */
typedef struct comparing {
    const char *mesh, *state[2], *body[2]; /* global, local */
    sc_validate_options options;
    sc_validate_result result;
    sc_context context;
    bool parsed, unchanged; /* unchanged: both modules print as before */
} comparing;

static sc_module *parse(comparing *c, int side)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &c->context.arena);
    sc_strbuf_printf(&text, "shardc.ir 1\n%s%s\n" DIMS "%sfunc @f {\n%s}\n",
                     side == 1 ? "mesh " : "", side == 1 ? c->mesh : "", c->state[side],
                     c->body[side]);
    sc_module *m =
        sc_parse_module(&c->context, side == 1 ? "local" : "global", text.data, text.length);
    if (m == NULL) {
        sc_strbuf messages;
        sc_strbuf_init(&messages, &c->context.arena);
        sc_diag_render_text(&c->context.diag, &c->context.sources, &messages);
        fprintf(stderr, "%s%s", text.data, messages.data);
    }
    return m;
}

static const char *print(sc_context *context, const sc_module *m)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_print_module(m, &(sc_print_options){0}, &text);
    return text.data;
}

static void work(sc_context *context, void *user)
{
    comparing *c = user;
    (void)context;
    sc_module *global = parse(c, 0), *local = parse(c, 1);
    if (global == NULL || local == NULL)
        return;
    const char *before[] = {print(&c->context, global), print(&c->context, local)};
    c->parsed = true;
    sc_validate(global, local, 0, &c->options, &c->result);
    c->unchanged = strcmp(before[0], print(&c->context, global)) == 0 &&
                   strcmp(before[1], print(&c->context, local)) == 0;
}

static void open_comparison(comparing *c, const char *mesh, const char *state, const char *global,
                            const char *local)
{
    c->mesh = mesh;
    c->state[0] = c->state[1] = state;
    c->body[0] = global;
    c->body[1] = local;
    assert_true(sc_context_run(&c->context, 0, work, c));
    assert_true(c->parsed);
    assert_true(c->unchanged);
    assert_int_equal(c->result.equal, c->result.first.run == NULL);
}

static void expect_equal(const char *mesh, const char *global, const char *local)
{
    comparing c = {0};
    open_comparison(&c, mesh, "", global, local);
    if (!c.result.equal)
        fail_msg("not equal: %s, %.17g for %.17g\n%s", c.result.first.message, c.result.first.found,
                 c.result.first.expected, local);
    sc_context_free(&c.context);
}

/* `wanted` is in the message, or the path of the first difference. */
static void expect_different(const char *mesh, const char *global, const char *local,
                             const char *wanted)
{
    comparing c = {0};
    open_comparison(&c, mesh, "", global, local);
    if (c.result.equal)
        fail_msg("equal:\n%s", local);
    const char *path = sc_text(&c.context, c.result.first.path);
    if (strstr(c.result.first.message, wanted) == NULL && strcmp(path, wanted) != 0)
        fail_msg("wanted \"%s\", got \"%s\" at \"%s\"", wanted, c.result.first.message, path);
    sc_context_free(&c.context);
}

/* ---- right programs ---- */
static const char mlp[] =
    "%x = input {name = \"x\"} : f32[B=4, D=8]\n %w = input {name = \"w\"} : f32[D=8, F=16]\n"
    "%b = input {name = \"b\"} : f32[D=8]\n %h \"h\" = dot[D] %x, %w : f32[B=4, F=16]\n"
    "%a = silu %h : f32[B=4, F=16]\n %o \"o\" = dot[F] %a, %w : f32[B=4, D=8]\n %y = add %o, %b : "
    "f32[B=4, D=8]\n return %y\n";

static const char mlp_inputs[] =
    "%x = input {name = \"x\"} : f32[B=4, D=8]\n %w = input {name = \"w\"} : f32[D=8, F=16@tp]\n"
    "%b = input {name = \"b\"} : f32[D=8]\n %h \"h\" = dot[D] %x, %w : f32[B=4, F=16@tp]\n"
    "%a = silu %h : f32[B=4, F=16@tp]\n";

static const char *mlp_with(char *buffer, size_t size, const char *tail)
{
    int length = snprintf(buffer, size, "%s%s", mlp_inputs, tail);
    assert_true(length > 0 && (size_t)length < size);
    return buffer;
}

static void right_programs_are_equal(void **state)
{
    (void)state;
    char text[4096];
    expect_equal("tp = 4", mlp,
                 mlp_with(text, sizeof text,
                          "%p = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n %o \"o\" = all_reduce %p "
                          "{reduce = sum, over = [tp]} : f32[B=4, D=8]\n"
                          "%y = add %o, %b : f32[B=4, D=8]\n return %y\n"));
    expect_equal(
        "tp = 4", mlp,
        mlp_with(
            text, sizeof text, /* the name stands on the partial sum */
            "%p \"o\" = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n"
            "%o = reduce_scatter %p {reduce = sum, over = [tp], gather = [B]} : f32[B=4@tp, D=8]\n"
            "%y = add %o, %b : f32[B=4@tp, D=8]\n %z = all_gather %y {over = [tp], gather = [B]} : "
            "f32[B=4, D=8]\n return %z\n"));
    expect_equal(
        "tp = 2",
        "%t = input {name = \"t\"} : i32[B=3]\n %w = input {name = \"w\"} : f32[V=10, D=2]\n %g = "
        "gather[V] %w, %t : f32[B=3, "
        "D=2]\n return %g\n",
        "%t = input {name = \"t\"} : i32[B=3]\n %w = input {name = \"w\"} : f32[V=10@tp, D=2]\n"
        "%p = gather[V] %w, %t {offset = [V@tp]} : f32[B=3, D=2]{sum:tp}\n"
        "%g = all_reduce %p {reduce = sum, over = [tp]} : f32[B=3, D=2]\n return %g\n");
}

/* ---- wrong programs ---- */
static void wrong_mlps_are_found(void **state)
{
    (void)state;
    char text[4096];
    expect_different(
        "tp = 4", mlp, /* the bias is added on each rank */
        mlp_with(text, sizeof text,
                 "%p \"o\" = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n %q = add %p, %b : f32[B=4, "
                 "D=8]{sum:tp}\n"
                 "%y = all_reduce %q {reduce = sum, over = [tp]} : f32[B=4, D=8]\n return %y\n"),
        "");
    expect_different("tp = 4",
                     mlp, /* the sum is forgotten, and its type says that it was not partial */
                     mlp_with(text, sizeof text,
                              "%o \"o\" = dot[F] %a, %w : f32[B=4, D=8]\n %y = add %o, %b : "
                              "f32[B=4, D=8]\n return %y\n"),
                     "ranks that should hold the same elements differ");
    expect_different("tp = 4", mlp,
                     mlp_with(text, sizeof text,
                              "%p = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n %o \"o\" = all_reduce "
                              "%p {reduce = max, over = [tp]} : f32[B=4, D=8]\n"
                              "%y = add %o, %b : f32[B=4, D=8]\n return %y\n"),
                     "o");
    expect_different("tp = 4", mlp,
                     mlp_with(text, sizeof text,
                              "%p = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n %o \"o\" = all_reduce "
                              "%p {reduce = sum, over = [tp]} : f32[B=4, D=8]\n"
                              "%y = add %o, %o : f32[B=4, D=8]\n return %y\n"),
                     "");
    expect_different(
        "tp = 4", mlp,
        mlp_with(text, sizeof text, "%p = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n return %p\n"),
        "partial");
    expect_different("tp = 4", mlp,
                     mlp_with(text, sizeof text,
                              "%p = dot[F] %a, %w : f32[B=4, D=8]{sum:tp}\n %o \"o\" = all_reduce "
                              "%p {reduce = sum, over = [tp]} : f32[B=4, D=8]\n"
                              "%y = add %o, %b : f32[B=4, D=8]\n return %y, %o\n"),
                     "returns 2 values, the global one 1");
}

static const char gather[] = "%t = input {name = \"t\"} : i32[B=3]\n %w = input {name = \"w\"} : "
                             "f32[V=10, D=2]\n %g \"g\" = gather[V] %w, "
                             "%t : f32[B=3, D=2]\n return %g\n";

static void wrong_offsets_and_moves_are_found(void **state)
{
    (void)state;
    const char *head =
        "%t = input {name = \"t\"} : i32[B=3]\n %w = input {name = \"w\"} : f32[V=10@tp, D=2]\n";
    char text[2048];
    snprintf(text, sizeof text, "%s%s", head,
             "%p = gather[V] %w, %t : f32[B=3, D=2]{sum:tp}\n %g \"g\" = all_reduce %p {reduce = "
             "sum, over = [tp]} : f32[B=3, D=2]\n "
             "return %g\n");
    expect_different("tp = 2", gather, text, "g");
    const char *slice =
        "%a = input {name = \"a\"} : f32[A=8]\n %b \"b\" = neg %a : f32[A=8]\n return %b\n";
    expect_different(
        "x = 2, y = 2", slice,
        "%a = input {name = \"a\"} : f32[A=8@(x, y)]\n %b = neg %a : f32[A=8@(x, y)]\n"
        "%c \"b\" = all_gather %b {over = [y, x], gather = [A]} : f32[A=8]\n return %c\n",
        "b");
    expect_different("x = 2",
                     "%a = input {name = \"a\"} : f32[A=4, C=4]\n %b \"b\" = neg %a : f32[A=4, "
                     "C=4]\n return %b\n",
                     "%a = input {name = \"a\"} : f32[A=4, C=4]\n %b = neg %a : f32[A=4, C=4]\n %c "
                     "\"b\" = transpose %b : f32[C=4, A=4]\n return %c\n",
                     "a different shape");
    expect_different("x = 2", slice, "%a = input {name = \"a\"} : f32[A=8@x]\n return %a\n", "");
    expect_different("x = 2", slice, "%a = input {name = \"a\"} : f32[A=6@x]\n return %a\n",
                     "fails");
    expect_different("x = 2", slice, "%c = constant {value = 1.0} : f32[]\n return %c\n", "");
    expect_different("x = 2", slice, "", "");
}

/* What a random comparison within 1e-9 cannot see. */
static void integers_are_compared_bit_for_bit(void **state)
{
    (void)state;
    const char *global =
        "%a = input {name = \"a\"} : f32[A=8]\n %b = add %a, %a : f32[A=8]\n return %b\n";
    const char *local = "%a = input {name = \"a\"} : f32[A=8@x]\n %b = add %a, %a : f32[A=8@x]\n "
                        "%c = constant {value = 1e-12} : f32[]\n"
                        "%d = add %b, %c : f32[A=8@x]\n return %d\n";
    comparing c = {0};
    open_comparison(&c, "x = 2", "", global, local);
    assert_false(c.result.equal);
    assert_string_equal(c.result.first.run, "integers");
    assert_true(c.result.first.has_element);
    sc_context_free(&c.context);
}

static void a_nan_equals_only_a_nan(void **state)
{
    (void)state;
    const char *root =
        "%a = input {name = \"a\"} : f32[A=8]\n %b = log %a : f32[A=8]\n return %b\n";
    expect_equal("x = 2", root,
                 "%a = input {name = \"a\"} : f32[A=8@x]\n %b = log %a : f32[A=8@x]\n return %b\n");
    expect_different("x = 2", root,
                     "%a = input {name = \"a\"} : f32[A=8@x]\n %m = abs %a : f32[A=8@x]\n %b = log "
                     "%m : f32[A=8@x]\n return %b\n",
                     "");
}

static void replicas_must_agree(void **state)
{
    (void)state;
    expect_different(
        "x = 2",
        "%a = input {name = \"a\"} : f32[A=8]\n %s \"s\" = sum[A] %a : f32[]\n return %a\n",
        "%a = input {name = \"a\"} : f32[A=8@x]\n %s \"s\" = sum[A] %a : f32[]\n return %a\n",
        "ranks that should hold the same elements differ");
}

/* ---- caches and positions ---- */
static const char cache_state[] = "state cache \"ck\": f32[B=2, T=8, D=4] = zeros\n";
static const char cached[] =
    "%x = input {name = \"x\"} : f32[B=2, S=2, D=4]\n %pos = input {name = \"pos\"} : i32[B=2]\n"
    "%len = input {name = \"pos_len\"} : i32[B=2]\n %c = cache_read {name = \"ck\"} : f32[B=2, "
    "T=8, D=4]\n"
    "%n = append[S -> T] %c, %x, %pos, %len {with = [pos, len]} : f32[B=2, T=8, D=4]\n"
    "cache_write %n {name = \"ck\"}\n %l = last[S] %x, %len {with = [len]} : f32[B=2, D=4]\n "
    "return %l\n";

static void caches_are_compared(void **state)
{
    (void)state;
    comparing c = {0};
    open_comparison(&c, "x = 2", cache_state, cached, cached);
    assert_true(c.result.equal);
    assert_int_equal(c.result.caches, 1);
    sc_context_free(&c.context);

    char text[2048]; /* another is written back than was appended */
    snprintf(text, sizeof text, "%s", cached);
    memcpy(strstr(text, "cache_write %n"), "cache_write %c", 14);
    comparing wrong = {0};
    open_comparison(&wrong, "x = 2", cache_state, cached, text);
    assert_false(wrong.result.equal);
    assert_string_equal(sc_text(&wrong.context, wrong.result.first.path), "ck");
    sc_context_free(&wrong.context);
}

/* Ids go into a table of 4, plus positions up to 6 in one of 9: random ones must not leave either.
 */
static void integers_are_drawn_to_fit(void **state)
{
    (void)state;
    const char *body = "%t = input {name = \"t\"} : i32[B=64]\n %p = input {name = \"p\"} : "
                       "i32[B=64]\n %y = input {name = \"y\"} : i32[B=64]\n"
                       "%w = input {name = \"w\"} : f32[V=4, D=2]\n %v = input {name = \"v\"} : "
                       "f32[P=9, D=2]\n %z = input {name = \"z\"} : f32[B=64, "
                       "V=4]\n"
                       "%u = use %t : i32[B=64]\n %a = gather[V] %w, %u : f32[B=64, D=2]\n %i = "
                       "index[S] : i32[S=7]\n %q = add %p, %i : i32[B=64, S=7]\n"
                       "%b = gather[P] %v, %q : f32[B=64, S=7, D=2]\n %x = xent[V] %z, %y {ignore "
                       "= -100} : f32[B=64]\n return %a, %b, %x\n";
    expect_equal("x = 2", body, body);
}

/* ---- dtypes ---- */
static void rounding_is_compared_within_what_it_resolves(void **state)
{
    (void)state;
    const char *global = "%x = input {name = \"x\"} : bf16[B=4, D=64]\n %w = input {name = \"w\"} "
                         ": bf16[D=64, F=16]\n"
                         "%y = dot[D] %x, %w : bf16[B=4, F=16]\n return %y\n";
    const char *local = "%x = input {name = \"x\"} : bf16[B=4, D=64@x]\n %w = input {name = \"w\"} "
                        ": bf16[D=64@x, F=16]\n"
                        "%p = dot[D] %x, %w : bf16[B=4, F=16]{sum:x}\n %y = all_reduce %p {reduce "
                        "= sum, over = [x]} : bf16[B=4, F=16]\n return %y\n";
    comparing c = {.options = {.dtypes = true}};
    open_comparison(&c, "x = 4", "", global, local);
    assert_true(c.result.equal);
    assert_int_equal(c.result.rounded, 1);
    assert_true(c.result.max_rounding_error > 0 && c.result.max_rounding_error < 1);
    sc_context_free(&c.context);

    /* a cast to a narrower dtype than the program says */
    const char *wide =
        "%x = input {name = \"x\"} : f32[B=4]\n %y = neg %x : f32[B=4]\n return %y\n";
    const char *narrow = "%x = input {name = \"x\"} : f32[B=4]\n %n = cast %x : bf16[B=4]\n %w = "
                         "cast %n : f32[B=4]\n %y = neg %w : f32[B=4]\n return %y\n";
    comparing d = {.options = {.dtypes = true}};
    open_comparison(&d, "x = 4", "", wide, narrow);
    assert_false(d.result.equal);
    assert_string_equal(d.result.first.run, "dtypes");
    sc_context_free(&d.context);
}

/* ---- shrinking ---- */
static int64_t shrunk_to(const comparing *c, const char *name)
{
    for (uint32_t i = 0; i < c->result.shrunk.count; i++) {
        if (strcmp(sc_text(&c->context, c->result.shrunk.data[i].name), name) == 0)
            return c->result.shrunk.data[i].to;
    }
    return 0;
}

static void large_programs_are_shrunk(void **state)
{
    (void)state;
    const char *global = "%x = input {name = \"x\"} : f32[B=4096, D=8192]\n %w = input {name = "
                         "\"w\"} : f32[D=8192, F=30000]\n"
                         "%y \"y\" = dot[D] %x, %w : f32[B=4096, F=30000]\n return %y\n";
    const char *local = "%x = input {name = \"x\"} : f32[B=4096@dp, D=8192@tp]\n %w = input {name "
                        "= \"w\"} : f32[D=8192@tp, F=30000]\n"
                        "%p = dot[D] %x, %w : f32[B=4096@dp, F=30000]{sum:tp}\n"
                        "%y \"y\" = all_reduce %p {reduce = sum, over = [tp]} : f32[B=4096@dp, "
                        "F=30000]\n return %y\n";
    comparing c = {0};
    open_comparison(&c, "dp = 1024, tp = 8", "", global, local);
    assert_true(c.result.equal);
    assert_int_equal(c.result.values + c.result.outputs, 2);
    assert_true(shrunk_to(&c, "D") >= 2 && shrunk_to(&c, "D") % 2 == 0 &&
                shrunk_to(&c, "D") < 8192);
    assert_true(shrunk_to(&c, "F") >= 2 && shrunk_to(&c, "F") < 30000);
    sc_context_free(&c.context);

    char text[1024]; /* and what is wrong at full size is wrong when shrunk */
    snprintf(text, sizeof text, "%s", local);
    memcpy(strstr(text, "reduce = sum"), "reduce = max", 12);
    expect_different("dp = 1024, tp = 8", global, text, "y");
}

/* Sizes that ops relate: a tie, a slice from the middle, a concat, top-k, a table that positions
 * index, a window. */
static void related_sizes_stay_related(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "%x = input {name = \"x\"} : f32[S=65536, D=65536]\n %y = rename[S -> T] %x : f32[T=65536, "
        "D=65536]\n %z = dot[D] %x, %y : "
        "f32[S=65536, T=65536]\n return %z\n",
        "%x = input {name = \"x\"} : f32[A=65536, E=49152]\n %a = slice[E -> R] %x {from = 32768} "
        ": f32[A=65536, R=16384]\n"
        "%b = slice[E -> Q] %x : f32[A=65536, Q=32768]\n %c = concat[Q + R -> E] %b, %a : "
        "f32[A=65536, E=49152]\n return %c\n",
        "%x = input {name = \"x\"} : f32[A=65536, X=65536]\n %v, %i = topk[X -> Q] %x : "
        "f32[A=65536, Q=4096], i32[A=65536, Q=4096]\n "
        "return %v, %i\n",
        "%i = index[S] : i32[S=65536]\n %t = input {name = \"t\"} : f32[P=65536, D=65536]\n %g = "
        "gather[P] %t, %i : f32[S=65536, "
        "D=65536]\n return %g\n",
        "%x = input {name = \"x\"} : f32[A=65536, V=65536]\n %i = argmax[V] %x : i32[A=65536]\n %t "
        "= input {name = \"t\"} : f32[V=65536, "
        "D=65536]\n"
        "%g = gather[V] %t, %i : f32[A=65536, D=65536]\n return %g\n",
        "%x = input {name = \"x\"} : f32[A=65536, R=16384]\n %y = unslice[R -> E] %x {from = "
        "32768} : f32[A=65536, E=49152]\n return %y\n",
        "%i = index[S] : i32[S=65536]\n %x = input {name = \"x\"} : f32[S=65536, D=65536]\n %y = "
        "scatter_add[P] %x, %i : f32[P=65536, "
        "D=65536]\n return %y\n",
        "%q = input {name = \"q\"} : f32[S=65536, E=64]\n %k = input {name = \"k\"} : f32[T=65536, "
        "E=64]\n %l = input {name = \"l\"} : "
        "f32[S=65536]\n %a, %b, %c = attend_grad[T, E -> S] %q, %k, %k, %q, %l, %q {mask = window, "
        "window = 1024, scale = 0.125} : "
        "f32[S=65536, E=64], f32[T=65536, E=64], f32[T=65536, E=64]\n return %a, %b, %c\n",
        "%q = input {name = \"q\"} : f32[S=65536, E=64]\n %k = input {name = \"k\"} : f32[T=65536, "
        "E=64]\n %v = input {name = \"v\"} : "
        "f32[T=65536, E=64]\n"
        "%o = attend[T, E -> S] %q, %k, %v {mask = window, window = 1024, scale = 0.125} : "
        "f32[S=65536, E=64]\n return %o\n",
        "%x = input {name = \"x\"} : f32[B=65536, D=65536]\n %s = sum[D] %x : f32[B=65536]\n %c = "
        "constant {value = 1.52587890625e-05} : "
        "f32[]\n"
        "%m = mul %s, %c : f32[B=65536]\n return %m\n",
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        comparing c = {0};
        open_comparison(&c, "x = 4", "", bodies[i], bodies[i]);
        if (!c.result.equal || c.result.shrunk.count == 0)
            fail_msg("%s: %s", c.result.first.message, bodies[i]);
        sc_context_free(&c.context);
    }
}

typedef struct shrinking {
    sc_context context;
    double value; /* of the program's constant, when shrunk */
    double last;  /* of the one that says that it is D's last index */
    int64_t size; /* of D then */
} shrinking;

static void shrink_mean(sc_context *context, void *user)
{
    shrinking *s = user;
    sc_shrink shrink;
    const char *text =
        "shardc.ir 1\n" DIMS "func @f {\n"
        "%x = input {name = \"x\"} : f32[B=65536, D=8192]\n %s = sum[D] %x : f32[B=65536]\n"
        "%c = constant {value = 0.0001220703125} : f32[]\n %m = mul %s, %c : f32[B=65536]\n"
        "%d = mul %m, %c {phase = backward} : f32[B=65536]\n %e = broadcast %d : f32[B=65536, "
        "D=8192]\n"
        "%l = constant {value = 8191.0, sizes = [D], plus = -1.0} : i32[]\n return %m, %e, %l\n}\n";
    sc_module *global = sc_parse_module(context, "global", text, strlen(text)),
              *local = sc_parse_module(context, "local", text, strlen(text));
    assert_non_null(global);
    assert_non_null(local);
    sc_shrink_modules(global, local, 1e6, &shrink);
    sc_for_each_op (local, 0, op) {
        double value = sc_op_number(sc_op_at(local, op), SC_ATTR_value, 0);
        if (sc_op_at(local, op)->kind == SC_OP_constant)
            *(sc_op_attr(sc_op_at(local, op), SC_ATTR_sizes) != NULL ? &s->last : &s->value) =
                value;
        if (sc_op_at(local, op)->kind == SC_OP_input)
            s->size = sc_type_of(local, sc_result(local, op, 0))->dims[1].size;
    }
}

/* The constant of a mean keeps being one, though its cotangent, which is no sum, is multiplied by
 * it too. */
static void means_and_their_cotangents_shrink_together(void **state)
{
    (void)state;
    shrinking s = {0};
    assert_true(sc_context_run(&s.context, 0, shrink_mean, &s));
    assert_true(s.size > 0 && s.size < 8192);
    assert_true(s.value == 1 / (double)s.size);
    assert_true(s.last == (double)s.size - 1);
    sc_context_free(&s.context);
}

/* One number of a size wrong: half of it, its power, what is added. Both programs shrink by what
 * their constants say of themselves. */
static void wrong_numbers_of_sizes_are_found(void **state)
{
    (void)state;
    static const char *const constants[] = {
        "value = 65536.0, sizes = [D]", "value = 32768.0, sizes = [D]",
        "value = 65537.0, sizes = [D], plus = 1.0", "value = 65536.0",
        "value = 1.52587890625e-05, sizes = [D], exponent = -1.0"};
    char bodies[5][256];
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        snprintf(
            bodies[i], sizeof bodies[i],
            "%%x = input {name = \"x\"} : f32[B=65536, D=65536]\n %%c = constant {%s} : f32[]\n"
            "%%y \"y\" = mul %%x, %%c : f32[B=65536, D=65536]\n return %%y\n",
            constants[i]);
    comparing right = {0};
    open_comparison(&right, "x = 4", "", bodies[0], bodies[0]);
    assert_true(right.result.equal && right.result.shrunk.count > 0);
    sc_context_free(&right.context);
    for (size_t i = 1; i < sizeof constants / sizeof *constants; i++)
        expect_different("x = 4", bodies[0], bodies[i], "y");
}

/* Masks go by global indices, of whatever sizes both programs then have. */
static void dropout_survives_shrinking(void **state)
{
    (void)state;
    const char *global =
        "%x = input {name = \"x\"} : f32[S=65536, K=64, E=64]\n"
        "%o \"o\" = attend[T, E] %x, %k, %k {scale = 0.125, p = 0.25, seed = \"a\"} : f32[S=65536, "
        "K=64, E=64]\n"
        "%y = dropout %o {p = 0.5, seed = \"d\"} : f32[S=65536, K=64, E=64]\n return %y\n";
    const char *local = "%x = input {name = \"x\"} : f32[S=65536@x, K=64@y, E=64]\n"
                        "%o \"o\" = attend[T, E] %x, %k, %k {scale = 0.125, p = 0.25, seed = "
                        "\"a\", offset = [S@x, K@y]} : "
                        "f32[S=65536@x, K=64@y, E=64]\n"
                        "%y = dropout %o {p = 0.5, seed = \"d\", offset = [S@x, K@y]} : "
                        "f32[S=65536@x, K=64@y, E=64]\n return %y\n";
    const char *keys = "%k = input {name = \"k\"} : f32[T=65536, E=64]\n";
    char whole[1024], split[1024];
    snprintf(whole, sizeof whole, "%s%s", keys, global);
    snprintf(split, sizeof split, "%s%s", keys, local);
    comparing c = {0};
    open_comparison(&c, "x = 8, y = 4", "", whole, split);
    if (!c.result.equal)
        fail_msg("%s", c.result.first.message);
    assert_true(c.result.shrunk.count > 0);
    sc_context_free(&c.context);
    memcpy(strstr(split, ", offset = [S@x, K@y]} : f32[S=65536@x, K=64@y, E=64]\n%y"),
           ", offset = [S@x]     ", 21);
    expect_different("x = 8, y = 4", whole, split, "o");
}

static void nothing_is_shrunk_when_full(void **state)
{
    (void)state;
    const char *body = "%x = input {name = \"x\"} : f32[A=2048, D=1024]\n %y = dot[D] %x, %x : "
                       "f32[A=2048]\n return %y\n";
    const char *many = "%x = input {name = \"x\"} : f32[A=2048@(x, y), D=1024]\n %y = dot[D] %x, "
                       "%x : f32[A=2048@(x, y)]\n return %y\n";
    comparing c = {.options = {.full = true}};
    open_comparison(&c, "x = 32, y = 64", "", body, many);
    assert_true(c.result.equal);
    assert_int_equal(c.result.shrunk.count, 0);
    assert_int_equal(c.result.ranks, 2048);
    sc_context_free(&c.context);
    comparing hopeless = {.options = {.full = true}};
    open_comparison(&hopeless, "x = 2", "",
                    "%x = input {name = \"x\"} : f32[A=10000000, B=10000000]\n return %x\n",
                    "%x = input {name = \"x\"} : f32[A=10000000, B=10000000]\n return %x\n");
    assert_false(hopeless.result.equal);
    assert_non_null(strstr(hopeless.result.first.message, "too large to interpret"));
    sc_context_free(&hopeless.context);
}

/* A name that is assigned often, of which the per-rank program keeps some. */
static void names_may_be_assigned_often(void **state)
{
    (void)state;
    const char *global = "%x = input {name = \"x\"} : f32[A=8]\n %a \"n\" = neg %x : f32[A=8]\n %b "
                         "\"n\" = exp %a : f32[A=8]\n %c \"n\" = "
                         "abs %b : f32[A=8]\n return %c\n";
    expect_equal("x = 2", global,
                 "%x = input {name = \"x\"} : f32[A=8@x]\n %a = neg %x : f32[A=8@x]\n %b \"n\" = "
                 "exp %a : f32[A=8@x]\n %c \"n\" = abs %b : "
                 "f32[A=8@x]\n return %c\n");
    expect_different("x = 2", global,
                     "%x = input {name = \"x\"} : f32[A=8@x]\n %a = neg %x : f32[A=8@x]\n %b \"n\" "
                     "= exp %x : f32[A=8@x]\n %c \"n\" = exp "
                     "%a : f32[A=8@x]\n return %c\n",
                     "n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_programs_are_equal),
        cmocka_unit_test(wrong_mlps_are_found),
        cmocka_unit_test(wrong_offsets_and_moves_are_found),
        cmocka_unit_test(integers_are_compared_bit_for_bit),
        cmocka_unit_test(a_nan_equals_only_a_nan),
        cmocka_unit_test(replicas_must_agree),
        cmocka_unit_test(caches_are_compared),
        cmocka_unit_test(integers_are_drawn_to_fit),
        cmocka_unit_test(rounding_is_compared_within_what_it_resolves),
        cmocka_unit_test(large_programs_are_shrunk),
        cmocka_unit_test(related_sizes_stay_related),
        cmocka_unit_test(means_and_their_cotangents_shrink_together),
        cmocka_unit_test(wrong_numbers_of_sizes_are_found),
        cmocka_unit_test(dropout_survives_shrinking),
        cmocka_unit_test(nothing_is_shrunk_when_full),
        cmocka_unit_test(names_may_be_assigned_often),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
