/* The reverse sweep as a whole: what is differentiated and what is not, how cotangents meet, and
 * what recomputed regions change: nothing that anybody sees. */
#include "test/unit/helpers/train_case.h"

/* ---- helpers ---- */

#define STATE(name, type) "state param \"" name "\": " type " = zeros\n"
#define PARAM(name, type) "%" name " = param {name = \"" name "\"} : " type "\n"

static void expect_state(const train_case *t, const char *name, const double *wanted, size_t count,
                         double tolerance)
{
    sc_array array = train_get(t, name);
    assert_int_equal(array.count, count);
    for (size_t i = 0; i < count; i++) {
        if (!case_same(array.data[i], wanted[i], tolerance))
            fail_msg("%s, element %zu: %.17g, wanted %.17g\n%s", name, i, array.data[i], wanted[i],
                     t->c->text);
    }
    sc_array_free(&array);
}

/* The ops of a phase of `micro`, in order and without what writes state: "constant broadcast dot".
 */
static void list_ops(const train_case *t, const char *phase, char *text, size_t size)
{
    const sc_module *m = t->c->m;
    text[0] = 0;
    sc_for_each_op (m, t->step.micro, id) {
        const sc_op *op = sc_op_at(m, id);
        size_t length = strlen(text);
        if (strcmp(train_phase(m, op), phase) == 0 && (sc_op_traits(op) & SC_EFFECT) == 0)
            snprintf(text + length, size - length, "%s%s", length > 0 ? " " : "",
                     sc_ops[op->kind].name);
    }
}

static void expect_ops(const train_case *t, const char *phase, const char *wanted)
{
    char text[2048];
    list_ops(t, phase, text, sizeof text);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s: %s\n  wanted: %s\n%s", phase, text, wanted, t->c->text);
}

/* Nothing is known of a parameter but itself. */
static void expect_untouched(const train_case *t, const char *name)
{
    static const char *const suffixes[] = {"grad", "m", "v", "master"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s.%s", name, suffixes[i]);
        if (train_find(t, text) != SC_NONE)
            fail_msg("there is %s\n%s", text, t->c->text);
    }
    sc_for_each_op_of_all(t->c->m, id)
    {
        const sc_op *op = sc_op_at(t->c->m, id);
        if (op->kind == SC_OP_state_write &&
            strcmp(sc_text(&t->c->context, sc_op_word(op, SC_ATTR_name)), name) == 0)
            fail_msg("%s is written\n%s", name, t->c->text);
    }
}

/* ---- the gradient of one parameter x, by hand ---- */

static void check_x(const char *type, const char *body, const double *x, size_t count,
                    const double *wanted, size_t wanted_count)
{
    char state[128], text[1024];
    snprintf(state, sizeof state, "state param \"x\": %s = zeros\n", type);
    snprintf(text, sizeof text, "%%x = param {name = \"x\"} : %s\n%s return %%o\n", type, body);
    train_case t = train_open(text, (train_options){TRAIN_DEFAULTS, .state = state});
    train_check_live(&t);
    assert_int_equal(count, sc_type_elements(sc_state_type(t.c->m, 0)));
    train_set(&t, "x", x);
    train_run_micro(&t);
    expect_state(&t, "x.grad", wanted, wanted_count, 1e-14);
    train_close(&t);
}

#define SUM "%o = sum[A] %z : f64[]\n"

static void nothing_passes_what_stops_it(void **state)
{
    (void)state;
    check_x("f64[A=3]", "%s = stop_gradient %x : f64[A=3]\n %z = mul %s, %x : f64[A=3]\n" SUM,
            LIST(1, 2, 3), LIST(1, 2, 3));
    check_x("f64[A=3]", "%s = sign %x : f64[A=3]\n %z = mul %s, %x : f64[A=3]\n" SUM,
            LIST(1.5, -2.5, 0), LIST(1, -1, 0));
    check_x("f64[A=3]", "%f = floor %x : f64[A=3]\n %z = mul %f, %x : f64[A=3]\n" SUM,
            LIST(1.5, -2.5, 0.5), LIST(1, -3, 0));
    check_x("f64[A=3]",
            "%i = cast %x : i32[A=3]\n %f = cast %i : f64[A=3]\n %z = mul %f, %x : f64[A=3]\n" SUM,
            LIST(1.5, -2.5, 3.5), LIST(1, -2, 3));
    check_x("f64[A=3]", "%i = argmax[A] %x : i32[]\n %o = gather[A] %x, %i : f64[]\n",
            LIST(1, 3, 2), LIST(0, 1, 0));
    check_x("f64[A=3]", "%b = gt %x, %x : bool[A=3]\n %z = where %b, %x, %x : f64[A=3]\n" SUM,
            LIST(1, 3, 2), LIST(1, 1, 1));
}

static void all_uses_of_a_value_are_added(void **state)
{
    (void)state;
    check_x(
        "f64[A=3]",
        "%s = exp %x : f64[A=3]\n %p = mul %s, %s : f64[A=3]\n %z = add %p, %x : f64[A=3]\n" SUM,
        LIST(0, 1, -1), LIST(3, 1 + 2 * exp(2), 1 + 2 * exp(-2)));
    check_x("f64[A=3]", "%z = mul %x, %x : f64[A=3]\n" SUM, LIST(1, 2, 3), LIST(2, 4, 6));
    check_x("f64[A=3]", "%z = add %x, %x : f64[A=3]\n" SUM, LIST(1, 2, 3), LIST(2, 2, 2));
    check_x("f64[A=3]", "%z = sub %x, %x : f64[A=3]\n" SUM, LIST(1, 2, 3), LIST(0, 0, 0));
    check_x("f64[A=3]", "%z = div %x, %x : f64[A=3]\n" SUM, LIST(1, 2, 4), LIST(0, 0, 0));
    check_x("f64[A=3]", "%z = maximum %x, %x : f64[A=3]\n" SUM, LIST(1, 2, 3), LIST(1, 1, 1));
    check_x("f64[A=3]", "%o = dot[A] %x, %x : f64[]\n", LIST(1, 2, 3), LIST(2, 4, 6));
    check_x("f64[A=2, B=2]", "%z = dot[B] %x, %x : f64[A=2]\n" SUM, LIST(1, 2, 3, 4),
            LIST(2, 4, 6, 8));
    check_x("f64[A=2]",
            "%y = rename[A -> B] %x : f64[B=2]\n %p = mul %x, %y : f64[A=2, B=2]\n %o = sum[A, B] "
            "%p : f64[]\n",
            LIST(1, 2), LIST(6, 6));
    check_x("f64[A=2]",
            "%c = concat[A + A -> B] %x, %x : f64[B=4]\n %p = mul %c, %c : f64[B=4]\n %o = sum[B] "
            "%p : f64[]\n",
            LIST(1, 2), LIST(4, 8));
    /* under other names, and those names once more */
    check_x("f64[A=2]",
            "%u = use %x : f64[A=2]\n %v = use %u : f64[A=2]\n %p = mul %u, %v : f64[A=2]\n %z = "
            "add %p, %x : f64[A=2]\n" SUM,
            LIST(1, 2), LIST(3, 5));
    check_x("f64[]", "%o = use %x : f64[]\n", LIST(7), LIST(1));
}

/* The embedding reads rows, the head contracts: a gather's and a dot's gradient meet before the
 * parameter's is complete. */
static void a_tied_weight_has_one_gradient(void **state)
{
    (void)state;
    const char *body = PARAM(
        "w", "f64[V=3, D=2]") "%i = input : i32[B=2]\n %x = gather[V] %w, %i : f64[B=2, D=2]\n"
                              "%y = dot[D] %x, %w : f64[B=2, V=3]\n %o = sum[B, V] %y : f64[]\n "
                              "return %o\n";
    train_case t =
        train_open(body, (train_options){TRAIN_DEFAULTS, .state = STATE("w", "f64[V=3, D=2]")});
    train_set(&t, "w", (double[]){1, 2, 3, 4, 5, 6});
    t.c->inputs[0].data[0] = t.c->inputs[0].data[1] = 2;
    train_run_micro(&t);
    /* each row gets x0 + x1 = (10, 12); row 2 also the column sums (9, 12), twice */
    expect_state(&t, "w.grad", LIST(10, 12, 10, 12, 28, 36), 0);
    /* total, w.grad */
    assert_int_equal(train_count(&t, t.step.micro, SC_OP_state_write, "backward"), 2);
    train_close(&t);
}

/* ---- frozen and unused ---- */

#define LAYERS                                                                                     \
    "%x = input : f64[B=2, D=3]\n" PARAM("v", "f64[D=3, E=4]") PARAM("w", "f64[E=4, C=2]")         \
        PARAM("b", "f64[C=2]") "%h = dot[D] %x, %v : f64[B=2, E=4]\n %s = sin %h : f64[B=2, "      \
                               "E=4]\n %d = dot[E] %s, %w : f64[B=2, C=2]\n"                       \
                               "%y = add %d, %b : f64[B=2, C=2]\n %z = exp %y : f64[B=2, C=2]\n "  \
                               "%o = sum[B, C] %z : f64[]\n"
static const char *const layers_state =
    STATE("v", "f64[D=3, E=4]") STATE("w", "f64[E=4, C=2]") STATE("b", "f64[C=2]");

static void frozen_parameters_cost_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *frozen, *backward;
    } cases[] = {
        /* of w: dot(s, dy), of s: dot(dy, w), of v: dot(x, dh); never of x */
        {"", "constant broadcast mul sum dot dot cos mul dot use use use"},
        {" v ", "constant broadcast mul sum dot use use"},
        {" w ", "constant broadcast mul sum dot cos mul dot use use"},
        {" b ", "constant broadcast mul dot dot cos mul dot use use"},
        {" v w ", "constant broadcast mul sum use"},
        {" v b ", "constant broadcast mul dot use"},
        {" v w b ", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        train_case t =
            train_open(LAYERS "return %o\n", (train_options){TRAIN_DEFAULTS, .state = layers_state,
                                                             .frozen = cases[i].frozen});
        train_check_live(&t);
        expect_ops(&t, "backward", cases[i].backward);
        for (const char *name = cases[i].frozen; *name != 0; name++) {
            if (*name != ' ')
                expect_untouched(&t, (char[]){*name, 0});
        }
        train_close(&t);
    }
}

static void unused_parameters_stay(void **state)
{
    (void)state;
    /* u is not read by anything, p only by what is returned as a metric or by nobody, r behind a
     * stop */
    static const char body[] = {LAYERS PARAM("u", "f64[A=2]") PARAM("p", "f64[A=2]") PARAM(
        "r", "f64[]") "%q = exp %p : f64[A=2]\n %m = sum[A] %q : f64[]\n %k = sin %p : f64[A=2]\n "
                      "%j = mul %k, %y : f64[A=2, B=2, C=2]\n"
                      "%t = stop_gradient %r : f64[]\n %c = mul %o, %t : f64[]\n %one = constant "
                      "{value = 1.0} : f64[]\n return %c, %one, %m\n"};
    char all[512];
    snprintf(all, sizeof all, "%s%s", layers_state,
             STATE("u", "f64[A=2]") STATE("p", "f64[A=2]") STATE("r", "f64[]"));
    train_case t = train_open(body, (train_options){TRAIN_DEFAULTS, .state = all, .decays = true});
    train_check_live(&t);
    expect_ops(&t, "backward", "constant mul broadcast mul sum dot dot cos mul dot use use use");
    expect_untouched(&t, "u");
    expect_untouched(&t, "p");
    expect_untouched(&t, "r");
    train_close(&t);
}

static void expect_number(const sc_array *array, double wanted)
{
    assert_int_equal(array->count, 1);
    if (!case_same(array->data[0], wanted, 1e-14))
        fail_msg("%.17g, wanted %.17g", array->data[0], wanted);
}

static void free_outputs(sc_array *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sc_array_free(&outputs[i]);
}

/* The metric's own gradient is nowhere in the parameter's. */
static void metrics_are_averaged_and_change_nothing(void **state)
{
    (void)state;
    const char *body = PARAM(
        "x",
        "f64[A=2]") "%y = mul %x, %x : f64[A=2]\n %o = sum[A] %y : f64[]\n %n = constant {value = "
                    "4.0} : f64[]\n"
                    "%e = exp %x : f64[A=2]\n %m = sum[A] %e : f64[]\n return %o, %n, %m, %o\n";
    for (int64_t micro_batches = 1; micro_batches <= 2; micro_batches++) {
        train_case t =
            train_open(body, (train_options){TRAIN_DEFAULTS, .state = STATE("x", "f64[A=2]"),
                                             .micro_batches = micro_batches});
        sc_array outputs[4] = {0};
        train_set(&t, "x", (double[]){1, 2});
        train_run_step(&t, 1, outputs);
        expect_number(&outputs[0], 5.0 / 4);
        expect_number(&outputs[1], sqrt(0.25 + 1));
        expect_number(&outputs[2], exp(1) + exp(2));
        expect_number(&outputs[3], 5);
        expect_state(&t, "x", LIST(0.5, 1), 1e-15);
        free_outputs(outputs, 4);
        train_close(&t);
    }
}

/* ---- weights of 0, objectives without parameters ---- */

static const sc_optimizer_settings adamw = {
    .kind = SC_ADAMW,
    .lr = {SC_RATE_CONSTANT, 0.5, 0, 0, 0},
    .hyper = {[SC_HYPER_BETA1] = 0.9,
              [SC_HYPER_BETA2] = 0.999,
              [SC_HYPER_EPS] = 1e-8,
              [SC_HYPER_DECAY] = 0.5,
              [SC_HYPER_CLIP] = 1},
};

/* Loss 0, norm 0; a parameter changes as the optimizer changes it for a gradient of 0. */
static void weight_zero_gives_zero(void **state)
{
    (void)state;
    const char *xent = PARAM(
        "x",
        "f64[B=2, V=2]") "%t = input : i32[B=2]\n %l = xent[V] %x, %t {ignore = 0} : f64[B=2]\n"
                         "%o = sum[B] %l : f64[]\n %c = constant {value = 0} : i32[]\n"
                         "%k = ne %t, %c : bool[B=2]\n %f = cast %k : f64[B=2]\n %n = sum[B] %f : "
                         "f64[]\n"
                         "return %o, %n\n";
    const char *other = PARAM("x", "f64[B=2, V=2]") "%o = sum[B, V] %x : f64[]\n %n = constant "
                                                    "{value = 0.0} : f64[]\n return %o, %n\n";
    static const struct {
        bool decays;
        double factor;
    } cases[] = {{false, 1}, {true, 0.75}};
    for (size_t i = 0; i < 4; i++) {
        const double factor = cases[i / 2].factor;
        train_case t = train_open(i % 2 == 0 ? xent : other,
                                  (train_options){.grad = SC_DTYPE_COUNT,
                                                  .state = STATE("x", "f64[B=2, V=2]"),
                                                  .optimizer = adamw,
                                                  .decays = cases[i / 2].decays});
        sc_array outputs[2] = {0};
        train_set(&t, "x", (double[]){1, 2, 3, 4});
        train_run_step(&t, 1, outputs);
        assert_true(outputs[0].data[0] == 0 && outputs[1].data[0] == 0);
        expect_state(&t, "x", LIST(factor, 2 * factor, 3 * factor, 4 * factor), 0);
        expect_state(&t, "x.m", LIST(0, 0, 0, 0), 0);
        free_outputs(outputs, 2);
        train_close(&t);
    }
}

static void an_objective_may_be_without_parameters(void **state)
{
    (void)state;
    const char *body = PARAM("x", "f64[A=2]") "%y = input : f64[A=2]\n %o = sum[A] %y : f64[]\n %z "
                                              "= exp %x : f64[A=2]\n return %o\n";
    train_case t = train_open(
        body, (train_options){TRAIN_DEFAULTS, .state = STATE("x", "f64[A=2]"), .decays = true});
    sc_array outputs[2] = {0};
    t.c->inputs[0].data[0] = 3;
    train_run_step(&t, 1, outputs);
    expect_number(&outputs[0], 3);
    expect_number(&outputs[1], 0);
    expect_ops(&t, "backward", "");
    expect_untouched(&t, "x");
    free_outputs(outputs, 2);
    train_close(&t);
}

/* ---- dtypes ---- */

/* x bf16, w and b read as bf16; b and k are added up over rows. */
#define NARROW                                                                                     \
    "%x = input : bf16[B=9, D=3]\n" PARAM("w", "f32[D=3, A=2]") PARAM(                             \
        "b", "f32[A=2]") "%c = cast %w : bf16[D=3, A=2]\n"                                         \
                         "%a = cast %b : bf16[A=2]\n %h = dot[D] %x, %c : bf16[B=9, A=2]\n %y = "  \
                         "mul %h, %a : bf16[B=9, A=2]\n"                                           \
                         "%f = cast %y : f32[B=9, A=2]\n %o = sum[B, A] %f : f32[]\n return %o\n"
#define NARROW_STATE STATE("w", "f32[D=3, A=2]") STATE("b", "f32[A=2]")

static void cotangents_have_their_primals_dtype(void **state)
{
    (void)state;
    train_case t =
        train_open(NARROW, (train_options){TRAIN_DEFAULTS, .state = NARROW_STATE, .round = true});
    const sc_module *m = t.c->m;
    uint32_t narrow = 0;
    sc_for_each_op (m, t.step.micro, id) {
        const sc_op *op = sc_op_at(m, id);
        sc_value like = op->result_count == 0 ? SC_NONE : sc_like_of(&t.step, op->first_result);
        if (like == SC_NONE)
            continue;
        const sc_op *primal = sc_op_at(m, sc_def(m, like));
        bool of_param = (sc_op_traits(primal) & SC_STATE_READ) != 0 ||
                        (primal->kind == SC_OP_cast &&
                         sc_op_at(m, sc_def(m, primal->operands[0]))->kind == SC_OP_param);
        assert_int_equal(sc_type_of(m, op->first_result)->dtype,
                         of_param ? SC_DTYPE_f32 : sc_type_of(m, like)->dtype);
        narrow += sc_type_of(m, like)->dtype == SC_DTYPE_bf16 && !of_param;
    }
    assert_int_equal(narrow, 2); /* y, h */
    train_close(&t);
}

/* A sum of nine values that bf16 cannot hold. */
static void gradients_are_summed_wide(void **state)
{
    (void)state;
    train_case t =
        train_open(NARROW, (train_options){TRAIN_DEFAULTS, .state = NARROW_STATE, .round = true});
    train_set(&t, "w", (double[]){1, 1, 0, 0, 0, 0});
    train_set(&t, "b", (double[]){1, 1});
    for (int64_t i = 0; i < 27; i += 3)
        t.c->inputs[0].data[i] = 1.0078125;
    train_run_micro(&t);
    expect_state(&t, "b.grad", LIST(9.0703125, 9.0703125), 0);
    expect_state(&t, "w.grad", LIST(9.0703125, 9.0703125, 0, 0, 0, 0), 0);
    train_close(&t);
}

/* 256 + 1 + 1: in bf16 each 1 would be lost. */
static void a_gradient_is_rounded_once(void **state)
{
    (void)state;
    const char *body = "%k = input : bf16[]\n %l = input : bf16[]\n" PARAM(
        "x", "f32[]") "%c = cast %x : bf16[]\n %u = mul %c, %k : bf16[]\n"
                      "%v = mul %c, %l : bf16[]\n %w = mul %l, %c : bf16[]\n %f = cast %u : "
                      "f32[]\n %g = cast %v : f32[]\n"
                      "%h = cast %w : f32[]\n %a = add %f, %g : f32[]\n %o = add %a, %h : f32[]\n "
                      "return %o\n";
    train_case t = train_open(body, (train_options){.state = STATE("x", "f32[]"),
                                                    .round = true,
                                                    .grad = SC_DTYPE_bf16,
                                                    .optimizer = {.kind = SC_SGD}});
    t.c->inputs[0].data[0] = 256;
    t.c->inputs[1].data[0] = 1;
    train_run_micro(&t);
    expect_state(&t, "x.grad", LIST(258), 0);
    assert_int_equal(sc_state_type(t.c->m, train_find(&t, "x.grad"))->dtype, SC_DTYPE_bf16);
    train_close(&t);
}

/* ---- recomputed regions ---- */

/* Two dots with a dropout between, then an elementwise tail. */
#define TAIL                                                                                       \
    "%x = input : f64[B=2, D=3]\n" PARAM("v", "f64[D=3, E=4]")                                     \
        PARAM("w", "f64[E=4, C=2]") "%h = dot[D] %x, %v : f64[B=2, E=4]\n"                         \
                                    "%s = silu %h : f64[B=2, E=4]\n %d = dropout %s {p = 0.3, "    \
                                    "seed = \"a.dropout0\"} : f64[B=2, E=4]\n"                     \
                                    "%y = dot[E] %d, %w : f64[B=2, C=2]\n %e = exp %y : f64[B=2, " \
                                    "C=2]\n %q = sin %e : f64[B=2, C=2]\n"                         \
                                    "%z = mul %q, %e : f64[B=2, C=2]\n %o = sum[B, C] %z : "       \
                                    "f64[]\n return %o\n"
#define TAIL_STATE STATE("v", "f64[D=3, E=4]") STATE("w", "f64[E=4, C=2]")
/* Attention and a loss over two stretches, both with a statistic of their own; k is read by both.
 */
#define ATTENTION                                                                                  \
    "%x = input : f64[S=3, D=2]\n %t = input : i32[S=3]\n" PARAM("v", "f64[D=2, E=2]")             \
        PARAM("w", "f64[E=2, V=4]") "%q = dot[D] %x, %v : f64[S=3, E=2]\n %k = rename[S -> T] %q " \
                                    ": f64[T=3, E=2]\n"                                            \
                                    "%a = attend[T, E -> S] %q, %k, %k {mask = causal, scale = "   \
                                    "0.7, p = 0.2, seed = \"a.dropout0\"} : f64[S=3, "             \
                                    "E=2]\n"                                                       \
                                    "%n = add %a, %q : f64[S=3, E=2]\n %l = dot[E] %n, %w : "      \
                                    "f64[S=3, V=4]\n %c = xent[V] %l, %t : f64[S=3]\n"             \
                                    "%o = sum[S] %c : f64[]\n return %o\n"
#define ATTENTION_STATE STATE("v", "f64[D=2, E=2]") STATE("w", "f64[E=2, V=4]")

static const struct {
    const char *body, *state, *regions, *saved, *recomputed;
} recomputed[] = {
    /*                  xvwhsdyeqzor */
    {TAIL, TAIL_STATE, "............", NULL, ""},
    /* what the first reads from outside is kept, and y, which the second reads; z and y are needed
       by nobody */
    {TAIL, TAIL_STATE, "...1111222..", NULL, "exp sin dot silu dropout"},
    {TAIL, TAIL_STATE, "...1111222..", "...s........", "exp sin silu dropout"},
    {TAIL, TAIL_STATE, "...1111222..", ".....s.s....", "sin dot"},
    {TAIL, TAIL_STATE, "...1111222..", "...ssssss...", ""},
    /* in one region y is recomputed for e, and what it is made of before it */
    {TAIL, TAIL_STATE, "...1111111..", NULL, "dot silu dropout dot exp sin"},
    {TAIL, TAIL_STATE, "...1111111..", "......s.....", "exp sin dot silu dropout"},
    /* only what is inside: h is outside, d and s are not */
    {TAIL, TAIL_STATE, "....11......", NULL, ""},
    {TAIL, TAIL_STATE, "....1.......", NULL, ""},
    {TAIL, TAIL_STATE, ".......1....", NULL, ""},
    {TAIL, TAIL_STATE, "....111.....", NULL, "silu dropout"},
    /*                            xtvwqkanlcor */
    {ATTENTION, ATTENTION_STATE, "............", NULL, ""},
    {ATTENTION, ATTENTION_STATE, "....11111...", NULL, "dot rename attend add"},
    {ATTENTION, ATTENTION_STATE, "....111112..", NULL, "dot rename attend add"},
    {ATTENTION, ATTENTION_STATE, "....1111111.", NULL, "dot rename attend add dot xent"},
    {ATTENTION, ATTENTION_STATE, "....11111...", "......s.....", "dot add rename"},
    {ATTENTION, ATTENTION_STATE, "......1.....", NULL, ""},
    {ATTENTION, ATTENTION_STATE, ".....11.....", NULL, "rename"},
};

static train_case run_regions(size_t i, const char *regions)
{
    train_case t =
        train_open(recomputed[i].body,
                   (train_options){TRAIN_DEFAULTS, .state = recomputed[i].state, .regions = regions,
                                   .saved = regions == NULL ? NULL : recomputed[i].saved});
    train_check_live(&t);
    train_draw_all(&t, 5, -1, 1, 4);
    sc_interp_set_random(t.c->interp, 3, 1, 2);
    train_run_micro(&t);
    return t;
}

static void expect_same_bits(const train_case *a, const train_case *b, const char *name)
{
    sc_array x = train_get(a, name), y = train_get(b, name);
    bool differ =
        x.count != y.count || memcmp(x.data, y.data, (size_t)x.count * sizeof *x.data) != 0;
    if (differ)
        fail_msg("recomputation changes %s\n%s", name, a->c->text);
    sc_array_free(&x);
    sc_array_free(&y);
}

/* What is recomputed is the same op with the same result, and says which value it stands for. */
static void expect_likes(const train_case *t)
{
    const sc_module *m = t->c->m;
    sc_for_each_op (m, t->step.micro, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t r = 0; r < op->result_count && strcmp(train_phase(m, op), "recompute") == 0;
             r++) {
            sc_value like = sc_like_of(&t->step, op->first_result + r);
            assert_int_not_equal(like, SC_NONE);
            const sc_op *original = sc_op_at(m, sc_def(m, like));
            assert_int_equal(original->kind, op->kind);
            assert_int_equal(like - original->first_result, r);
            assert_int_equal(m->values.data[like].type, m->values.data[op->first_result + r].type);
            assert_string_equal(train_phase(m, original), "");
        }
    }
}

static void recomputation_is_exact_and_minimal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recomputed / sizeof *recomputed; i++) {
        train_case plain = run_regions(i, NULL), t = run_regions(i, recomputed[i].regions);
        expect_ops(&t, "recompute", recomputed[i].recomputed);
        expect_likes(&t);
        expect_same_bits(&t, &plain, "total");
        expect_same_bits(&t, &plain, "v.grad");
        expect_same_bits(&t, &plain, "w.grad");
        train_close(&plain);
        train_close(&t);
    }
}

/* ---- the forward part ---- */

static bool same_attr(const sc_module *a, const sc_attr *x, const sc_module *b, const sc_attr *y)
{
    sc_attr_kind kind = sc_attr_kinds[x->key];
    if (y == NULL || x->count != y->count)
        return false;
    if (kind == SC_ATTR_KIND_TEXT || kind == SC_ATTR_KIND_WORD)
        return strcmp(sc_text(a->context, x->text), sc_text(b->context, y->text)) == 0;
    if (kind == SC_ATTR_KIND_DIMS)
        return memcmp(x->dims, y->dims, x->count * sizeof *x->dims) == 0;
    return x->count > 0 || x->integer == y->integer;
}

static void expect_same_op(const sc_module *a, const sc_op *x, const sc_module *b, const sc_op *y,
                           const sc_value *map)
{
    bool more = sc_op_attr(y, SC_ATTR_lse) != NULL;
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->operand_count, y->operand_count);
    assert_int_equal(x->attr_count + more, y->attr_count);
    assert_int_equal(x->result_count + more, y->result_count);
    for (uint32_t i = 0; i < x->operand_count; i++)
        assert_int_equal(map[x->operands[i]], y->operands[i]);
    for (uint32_t i = 0; i < x->attr_count; i++)
        assert_true(same_attr(a, &x->attrs[i], b, sc_op_attr(y, (sc_attr_key)x->attrs[i].key)));
    for (uint32_t r = 0; r < x->result_count; r++)
        assert_string_equal(sc_type_text(a, a->values.data[x->first_result + r].type),
                            sc_type_text(b, b->values.data[y->first_result + r].type));
}

/* The function begins with what the forward entry is, op for op; only statistics are results more.
 */
static void the_forward_part_is_the_entry(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof recomputed / sizeof *recomputed; i++) {
        train_case t = run_regions(i, recomputed[i].regions);
        sc_case *forward = case_read("", recomputed[i].state, recomputed[i].body);
        const sc_module *a = forward->m, *b = t.c->m;
        sc_value *map = calloc(a->values.count, sizeof *map);
        assert_non_null(map);
        sc_op_id other = b->funcs.data[0].first;
        sc_for_each_op (a, 0, id) {
            const sc_op *op = sc_op_at(a, id);
            if (op->kind == SC_OP_return)
                break;
            expect_same_op(a, op, b, sc_op_at(b, other), map);
            for (uint32_t r = 0; r < op->result_count; r++)
                map[op->first_result + r] = sc_op_at(b, other)->first_result + r;
            other = sc_op_at(b, other)->next;
        }
        assert_string_not_equal(train_phase(b, sc_op_at(b, other)), "");
        free(map);
        case_close(forward);
        train_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_passes_what_stops_it),
        cmocka_unit_test(all_uses_of_a_value_are_added),
        cmocka_unit_test(a_tied_weight_has_one_gradient),
        cmocka_unit_test(frozen_parameters_cost_nothing),
        cmocka_unit_test(unused_parameters_stay),
        cmocka_unit_test(metrics_are_averaged_and_change_nothing),
        cmocka_unit_test(weight_zero_gives_zero),
        cmocka_unit_test(an_objective_may_be_without_parameters),
        cmocka_unit_test(cotangents_have_their_primals_dtype),
        cmocka_unit_test(gradients_are_summed_wide),
        cmocka_unit_test(a_gradient_is_rounded_once),
        cmocka_unit_test(recomputation_is_exact_and_minimal),
        cmocka_unit_test(the_forward_part_is_the_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
