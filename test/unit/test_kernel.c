/* The kernel IR: making, text, checks, the reference. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/kernel.h"
#include "random_kernel.h"
#include "support/rng.h"

typedef struct run {
    void (*test)(sc_context *);
    bool done;
} run;

static void call_test(sc_context *context, void *user)
{
    run *r = user;
    r->test(context);
    r->done = true;
}

/* A failed assertion of cmocka jumps out of here; the memory is then lost, which is fine in a test that failed. */
static void in_context(void **state)
{
    sc_context context;
    run r = {.test = *(void (**)(sc_context *)) * state};
    assert_true(sc_context_run(&context, 0, call_test, &r));
    assert_true(r.done);
    sc_context_free(&context);
}

static sc_sym name(sc_context *context, const char *text)
{
    return sc_intern_text(&context->names, text);
}

static const char *text_of(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    sc_kernel_print(k, &out);
    return out.data;
}

static uint32_t add_arg(sc_kernel *k, const char *text, sc_dtype dtype, sc_kernel_arg_mode mode, uint32_t rank, const int64_t *sizes)
{
    sc_kernel_arg arg = {.name = name(k->context, text), .dtype = dtype, .mode = mode, .rank = rank};
    for (uint32_t i = 0; i < rank; i++)
        arg.sizes[i] = sizes[i];
    return sc_kernel_add_arg(k, &arg);
}

/* ---- making ---- */

static sc_kernel *last_step_of_softmax(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, name(context, "k0"));
    k->title = "softmax's last step";
    sc_kernel_add_dim(k, name(context, "S"), 8);
    sc_kernel_add_dim(k, name(context, "D"), 64);
    k->outer_count = 1;
    uint32_t x = add_arg(k, "x", SC_DTYPE_bf16, SC_ARG_IN, 2, (int64_t[]){8, 64});
    uint32_t y = add_arg(k, "y", SC_DTYPE_f32, SC_ARG_OUT, 2, (int64_t[]){8, 64});
    sc_knode at[2] = {sc_kernel_index(k, 0), sc_kernel_index(k, 1)};
    sc_knode value = sc_kernel_load(k, x, at, SC_IMAGE_NONE);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    uint32_t sum = sc_kernel_add_reduction(k, SC_ITEM_SUM, value);
    sc_knode part = sc_kernel_node_new(k, SC_NODE_div, (sc_knode[]){value, sc_kernel_reduced(k, sum, false)}, 2);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    sc_kernel_add_store(k, SC_ITEM_STORE, y, at, part, SC_IMAGE_NONE);
    return k;
}

static void kernels_print(sc_context *context)
{
    assert_string_equal(text_of(last_step_of_softmax(context)), "kernel @k0 \"softmax's last step\" {\n"
                                                                "  dim S = 8\n"
                                                                "  dim D = 64\n"
                                                                "  arg x: bf16[8, 64] in\n"
                                                                "  arg y: f32[8, 64] out\n"
                                                                "  outer S\n"
                                                                "  %0 = index S : i64\n"
                                                                "  %1 = index D : i64\n"
                                                                "  %2 = load x %0, %1 : f32\n"
                                                                "  %3 = reduced #0 : f32\n"
                                                                "  %4 = div %2, %3 : f32\n"
                                                                "  phase D {\n"
                                                                "    #0 = sum %2\n"
                                                                "  }\n"
                                                                "  phase D {\n"
                                                                "    store y %0, %1 = %4\n"
                                                                "  }\n"
                                                                "}\n");
}

static void dependence_goes_through_operands_and_ends_at_reductions(sc_context *context)
{
    sc_kernel *k = last_step_of_softmax(context);
    assert_true(sc_kernel_depends(k, 2, 0) && sc_kernel_depends(k, 2, 1));
    assert_true(sc_kernel_depends(k, 3, 0) && !sc_kernel_depends(k, 3, 1));
    assert_true(sc_kernel_depends(k, 4, 1) && !sc_kernel_depends(k, 0, 1));
}

static sc_knode op(sc_kernel *k, sc_node_kind kind, sc_knode x, sc_knode y)
{
    return sc_kernel_node_new(k, kind, (sc_knode[]){x, y}, 2);
}

static void equal_nodes_are_one(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, 0);
    sc_kernel_add_dim(k, name(context, "A"), 3);
    sc_kernel_add_dim(k, name(context, "B"), 4);
    sc_knode a = sc_kernel_index(k, 0), b = sc_kernel_index(k, 1);
    assert_int_equal(op(k, SC_NODE_add, a, b), op(k, SC_NODE_add, b, a));
    assert_int_not_equal(op(k, SC_NODE_sub, a, b), op(k, SC_NODE_sub, b, a));
    assert_int_equal(sc_kernel_index(k, 0), a);
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 0.0), sc_kernel_constant(k, SC_DTYPE_f32, -0.0));
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 1), sc_kernel_constant(k, SC_DTYPE_f64, 1));
    assert_int_equal(sc_kernel_constant(k, SC_DTYPE_f32, NAN), sc_kernel_constant(k, SC_DTYPE_f32, -NAN));
    uint32_t count = k->nodes.count;
    for (int i = 0; i < 1000; i++) /* many enough for the table to grow */
        assert_int_equal(sc_kernel_constant(k, SC_DTYPE_i64, 100 + i), count + (uint32_t)i);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(sc_kernel_constant(k, SC_DTYPE_i64, 100 + i), count + (uint32_t)i);
    sc_image_param step = {.kind = SC_PARAM_STEP}, key = {.kind = SC_PARAM_KEY, .path_hash = 7},
                   other = {.kind = SC_PARAM_KEY, .path_hash = 8};
    assert_int_equal(sc_kernel_add_param(k, &step), 0);
    assert_int_equal(sc_kernel_add_param(k, &key), 1);
    assert_int_equal(sc_kernel_add_param(k, &other), 2);
    assert_int_equal(sc_kernel_add_param(k, &key), 1);
}

static void what_changes_nothing_folds(sc_context *context)
{
    sc_kernel *k = sc_kernel_new(context, 0);
    sc_kernel_add_dim(k, name(context, "A"), 3);
    uint32_t arg = add_arg(k, "x", SC_DTYPE_f32, SC_ARG_IN, 1, (int64_t[]){3});
    sc_knode i = sc_kernel_index(k, 0), x = sc_kernel_load(k, arg, &i, SC_IMAGE_NONE);
    sc_knode zero = sc_kernel_constant(k, SC_DTYPE_i64, 0), one = sc_kernel_constant(k, SC_DTYPE_i64, 1);
    assert_int_equal(op(k, SC_NODE_add, zero, i), i);
    assert_int_equal(op(k, SC_NODE_mul, i, one), i);
    assert_int_equal(op(k, SC_NODE_mul, i, zero), zero);
    assert_int_equal(op(k, SC_NODE_sub, i, i), zero);
    assert_int_equal(op(k, SC_NODE_mod, i, one), zero);
    sc_knode yes = op(k, SC_NODE_ge, i, i), positive = op(k, SC_NODE_gt, i, zero);
    assert_int_equal(yes, sc_kernel_constant(k, SC_DTYPE_bool, 1));
    assert_int_equal(op(k, SC_NODE_and, yes, positive), positive);
    assert_int_equal(sc_kernel_node_new(k, SC_NODE_where, (sc_knode[]){yes, i, zero}, 3), i);
    /* of floats: x + 0 is not x where x is -0 */
    sc_knode f0 = sc_kernel_constant(k, SC_DTYPE_f32, 0), f1 = sc_kernel_constant(k, SC_DTYPE_f32, 1);
    assert_int_not_equal(op(k, SC_NODE_add, x, f0), x);
    assert_int_equal(op(k, SC_NODE_sub, x, f0), x);
    assert_int_equal(op(k, SC_NODE_add, x, sc_kernel_constant(k, SC_DTYPE_f32, -0.0)), x);
    assert_int_equal(op(k, SC_NODE_mul, f1, x), x);
    assert_int_not_equal(op(k, SC_NODE_mul, x, f0), f0);
    assert_int_not_equal(op(k, SC_NODE_sub, x, x), f0);
    assert_int_not_equal(op(k, SC_NODE_eq, x, x), yes);
    /* constants */
    assert_int_equal(op(k, SC_NODE_div, sc_kernel_constant(k, SC_DTYPE_i32, -7), sc_kernel_constant(k, SC_DTYPE_i32, 2)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -3));
    assert_int_equal(op(k, SC_NODE_mod, sc_kernel_constant(k, SC_DTYPE_i32, -7), sc_kernel_constant(k, SC_DTYPE_i32, 4)),
                     sc_kernel_constant(k, SC_DTYPE_i32, 1));
    assert_int_equal(op(k, SC_NODE_add, sc_kernel_constant(k, SC_DTYPE_i32, 0x7fffffff), sc_kernel_constant(k, SC_DTYPE_i32, 1)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -0x1p31));
    assert_int_equal(op(k, SC_NODE_div, one, zero), zero);
    assert_int_equal(op(k, SC_NODE_maximum, f0, sc_kernel_constant(k, SC_DTYPE_f32, NAN)), sc_kernel_constant(k, SC_DTYPE_f32, NAN));
    /* conversions */
    sc_knode wide = sc_kernel_convert(k, x, SC_DTYPE_f64), whole = sc_kernel_convert(k, x, SC_DTYPE_i32);
    assert_int_equal(sc_kernel_convert(k, x, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_i32), whole);
    assert_int_not_equal(sc_kernel_convert(k, whole, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, sc_kernel_convert(k, whole, SC_DTYPE_i64), SC_DTYPE_f64),
                     sc_kernel_convert(k, whole, SC_DTYPE_f64));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, -2.9), SC_DTYPE_i64),
                     sc_kernel_constant(k, SC_DTYPE_i64, -2));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, 0.5), SC_DTYPE_bool), yes);
    /* guards */
    sc_knode no = sc_kernel_constant(k, SC_DTYPE_bool, 0);
    assert_int_equal(sc_kernel_load(k, arg, &i, yes), x);
    assert_int_equal(sc_kernel_load(k, arg, &i, no), f0);
}

/* ---- text ---- */

static sc_kernel *parse_only(sc_context *context, const char *text)
{
    return sc_kernel_parse(context, text, strlen(text), "kernel");
}

static sc_kernel *parse(sc_context *context, const char *text)
{
    sc_kernel *k = parse_only(context, text);
    if (k == NULL) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_diag_render_text(&context->diag, &context->sources, &out);
        fail_msg("%s", out.data);
    }
    return k;
}

static const char every_line[] = "kernel @k7 \"all \\\"lines\\\"\" {\n"
                                 "  simple\n"
                                 "  from \"gpt2.shard:7: c = x - mean[D](x)\"\n"
                                 "  from \"gpt2.shard:8: y = c\"\n"
                                 "  dim \"B*S\" = 6\n"
                                 "  dim D = 1099511627776\n"
                                 "  dim E = 1\n"
                                 "  arg x: bf16[6, 4] in\n"
                                 "  arg \"h.0\": i64[] in\n"
                                 "  arg y: f16[6] out\n"
                                 "  arg n: u8[6] inout\n"
                                 "  param 0: rank = 0\n"
                                 "  param 1: rank = (4, 2, 16) + (1, 4, -4)\n"
                                 "  param 2: key = \"0123456789abcdef\"\n"
                                 "  param 3: step\n"
                                 "  param 4: micro_batch\n"
                                 "  outer \"B*S\"\n"
                                 "  %0 = index \"B*S\" : i64\n"
                                 "  %1 = index D : i64\n"
                                 "  %2 = constant 4 : i64\n"
                                 "  %3 = lt %1, %2 : bool\n"
                                 "  %4 = load x %0, %1 if %3 : f32\n"
                                 "  %5 = load \"h.0\" : i64\n"
                                 "  %6 = param 1 : i64\n"
                                 "  %7 = param 2 : i64\n"
                                 "  %8 = random %5, %7, %6, %2 : f64\n"
                                 "  %9 = convert %8 : f32\n"
                                 "  %10 = running #0 : f32\n"
                                 "  %11 = reduced #4 : f32\n"
                                 "  %12 = constant 1e-05 : f32\n"
                                 "  %13 = constant -inf : f64\n"
                                 "  %14 = constant nan : f32\n"
                                 "  %15 = constant true : bool\n"
                                 "  %16 = constant -9007199254740992 : i64\n"
                                 "  %17 = constant 7 : i32\n"
                                 "  %18 = where %3, %4, %11 : f32\n"
                                 "  %19 = constant -0.0 : f32\n"
                                 "  phase D, E {\n"
                                 "    #0 = sum %4\n"
                                 "    store y %0 = %9 if %3\n"
                                 "    check %3 \"D is too\\nlong\"\n"
                                 "  }\n"
                                 "  phase {\n"
                                 "    add n %0 = %17\n"
                                 "    #4 = max %4\n"
                                 "    #5 = min %5\n"
                                 "  }\n"
                                 "}\n";

static void what_is_printed_reads_back(sc_context *context)
{
    assert_string_equal(text_of(parse(context, every_line)), every_line);
    const char *text = text_of(last_step_of_softmax(context));
    assert_string_equal(text_of(parse(context, text)), text);
}

/* Nodes of other names, and such as fold away: their text is that of what is left. */
static void texts_become_unique(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 arg y: i64[4] out outer A // a comment\n"
                       "%a = index A : i64 %b = index A : i64 %zero = constant 0 : i64\n"
                       "%sum = add %a, %zero : i64 %c = add %sum, %b : i64 phase { store y %sum = %c } }";
    assert_string_equal(text_of(parse(context, text)), "kernel @k {\n"
                                                       "  dim A = 4\n"
                                                       "  arg y: i64[4] out\n"
                                                       "  outer A\n"
                                                       "  %0 = index A : i64\n"
                                                       "  %1 = constant 0 : i64\n"
                                                       "  %2 = add %0, %0 : i64\n"
                                                       "  phase {\n"
                                                       "    store y %0 = %2\n"
                                                       "  }\n"
                                                       "}\n");
}

/* What is wrong with a kernel of these lines; each begins with `dim A = 4`, an argument x of it to read and a y to write. */
static const struct {
    const char *lines, *message;
} wrong_texts[] = {
    {"dim A = 3", "'A' is declared twice"},
    {"dim B = 0", "0 is not between 1 and"},
    {"arg x: f32[4] in", "'x' is declared twice"},
    {"arg z: f33[4] in", "there is no dtype 'f33'"},
    {"arg z: f32[4] on", "there is no mode 'on'; did you mean 'in'?"},
    {"arg z: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] in", "at most 15 dims"},
    {"outer B", "there is no dim 'B'"},
    {"dim B = 2 outer B", "here 'A' is next"},
    {"param 1: step", "this is param 0"},
    {"param 0: step param 1: step", "second time"},
    {"param 0: key = \"01\"", "16 hexadecimal digits"},
    {"param 0: rank = (0, 1, 1)", "0 is not between 1"},
    {"%1 = index A : i32", "this is i64"},
    {"%1 = index A : i64 %1 = index A : i64", "%1 is defined twice"},
    {"%1 = load x %0 : f32", "%0 is not defined above"},
    {"%1 = load x : f32", "an index a dim"},
    {"%1 = constant 1.0 : f32 %2 = load x %1 : f32", "an index is i64"},
    {"%1 = index A : i64 %2 = load x %1 if %1 : f32", "a guard is bool"},
    {"%1 = constant 1.5 : i64", "this is not a number of i64"},
    {"%1 = constant 256 : u8", "nothing is computed in u8"},
    {"%1 = constant true : i64", "constants of bool are"},
    {"%1 = constant 1 : bool", "constants of bool are"},
    {"%1 = index A : i64 %2 = exp %1 : i64", "exp: it takes f32 or f64"},
    {"%1 = index A : i64 %2 = add %1 : i64", "add: this is not the number of its operands"},
    {"%1 = index A : i64 %2 = constant 1 : i32 %3 = add %1, %2 : i64", "add: its operands have different dtypes"},
    {"%1 = constant true : bool %2 = neg %1 : bool", "neg: it takes numbers"},
    {"%1 = index A : i64 %2 = not %1 : bool", "not: it takes bool"},
    {"%1 = index A : i64 %2 = where %1, %1, %1 : i64", "the first operand of a choice is bool"},
    {"%1 = index A : i64 %2 = random %1, %1, %1, %1 : f64", "the key is a param"},
    {"%1 = index A : i64 %2 = muk %1, %1 : i64", "there is no kind of node 'muk'; did you mean 'mul'?"},
    {"%1 = param 0 : i64", "is not between"},
    {"phase A { load }", "expected an item"},
    {"phase A {", "found the end of the text"},
    {"phase A { #1 = sum %1 }", "this is #0"},
    {"%1 = index A : i64 phase A { #0 = product %1 }", "there is no reduction 'product'"},
    {"%1 = constant true : bool phase A { #0 = sum %1 }", "a sum is of numbers"},
    {"%1 = index A : i64 phase A { store x %1 = %1 }", "this argument is only read"},
    {"%1 = index A : i64 phase A { store y %1 = %1 }", "the value's dtype is not that of the argument"},
    {"%1 = index A : i64 phase A { check %1 \"\" }", "a check is bool"},
    {"%1 = reduced #0 : f32", "there is no reduction #0 of f32"},
    {"%1 = index A : i64 %2 = reduced #0 : f32 phase A { #0 = sum %1 }", "there is no reduction #0 of f32"},
    {"} kernel", "expected the end of the text"},
    {"nonsense", "expected dim, arg, param"},
};

static void wrong_texts_are_refused_with_a_message(sc_context *context)
{
    for (size_t i = 0; i < sizeof wrong_texts / sizeof *wrong_texts; i++) {
        const char *text =
            sc_arena_printf(&context->arena, "kernel @k { dim A = 4 arg x: f32[4] in arg y: f32[4] out\n%s\n}", wrong_texts[i].lines);
        sc_diag_init(&context->diag, &context->arena);
        assert_null(parse_only(context, text));
        assert_int_equal(context->diag.errors, 1);
        const char *message = context->diag.list.data[0].text;
        if (strstr(message, wrong_texts[i].message) == NULL)
            fail_msg("%s: %s", wrong_texts[i].lines, message);
        assert_in_range(sc_sources_line(&context->sources, context->diag.list.data[0].loc.begin).line, 2, 3);
    }
}

static void verifies(const sc_kernel *k)
{
    const char *error = sc_kernel_verify(k);
    if (error != NULL)
        fail_msg("%s\n%s", error, text_of(k));
}

/* ---- the reference ---- */

static double random_number(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)(*seed >> 33) * 0x1p-30 - 1;
}

static void fill(double *data, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++)
        data[i] = random_number(&seed);
}

static const char softmax[] = "kernel @softmax {\n"
                              "  dim S = 5\n"
                              "  dim D = 7\n"
                              "  arg x: f32[5, 7] in\n"
                              "  arg y: f32[5, 7] out\n"
                              "  outer S\n"
                              "  %0 = index S : i64\n"
                              "  %1 = index D : i64\n"
                              "  %2 = load x %0, %1 : f32\n"
                              "  %3 = reduced #0 : f32\n"
                              "  %4 = sub %2, %3 : f32\n"
                              "  %5 = exp %4 : f32\n"
                              "  %6 = reduced #1 : f32\n"
                              "  %7 = div %5, %6 : f32\n"
                              "  phase D {\n"
                              "    #0 = max %2\n"
                              "  }\n"
                              "  phase D {\n"
                              "    #1 = sum %5\n"
                              "  }\n"
                              "  phase D {\n"
                              "    store y %0, %1 = %7\n"
                              "  }\n"
                              "}\n";

static void rows_of_softmax(sc_context *context)
{
    double x[35], y[35];
    fill(x, 35, 1);
    assert_int_equal(sc_kernel_interpret(parse(context, softmax), (double *[]){x, y}, NULL, false), 0);
    for (int s = 0; s < 5; s++) {
        double sum = 0;
        for (int d = 0; d < 7; d++)
            sum += exp(x[s * 7 + d]);
        for (int d = 0; d < 7; d++)
            assert_true(fabs(y[s * 7 + d] - exp(x[s * 7 + d]) / sum) < 1e-14);
    }
}

static const char layernorm[] = "kernel @layernorm {\n"
                                "  dim B = 2\n"
                                "  dim S = 3\n"
                                "  dim D = 11\n"
                                "  arg x: f32[2, 3, 11] in\n"
                                "  arg w: f32[11] in\n"
                                "  arg b: f32[11] in\n"
                                "  arg y: f32[2, 3, 11] out\n"
                                "  arg r: f32[2, 3] out\n"
                                "  outer B, S\n"
                                "  %0 = index B : i64\n"
                                "  %1 = index S : i64\n"
                                "  %2 = index D : i64\n"
                                "  %3 = load x %0, %1, %2 : f32\n"
                                "  %4 = reduced #0 : f32\n"
                                "  %5 = constant 11.0 : f32\n"
                                "  %6 = div %4, %5 : f32\n"
                                "  %7 = sub %3, %6 : f32\n"
                                "  %8 = mul %7, %7 : f32\n"
                                "  %9 = reduced #1 : f32\n"
                                "  %10 = div %9, %5 : f32\n"
                                "  %11 = constant 1e-05 : f32\n"
                                "  %12 = add %10, %11 : f32\n"
                                "  %13 = rsqrt %12 : f32\n"
                                "  %14 = mul %7, %13 : f32\n"
                                "  %15 = load w %2 : f32\n"
                                "  %16 = mul %14, %15 : f32\n"
                                "  %17 = load b %2 : f32\n"
                                "  %18 = add %16, %17 : f32\n"
                                "  phase D {\n"
                                "    #0 = sum %3\n"
                                "  }\n"
                                "  phase D {\n"
                                "    #1 = sum %8\n"
                                "  }\n"
                                "  phase {\n"
                                "    store r %0, %1 = %13\n"
                                "  }\n"
                                "  phase D {\n"
                                "    store y %0, %1, %2 = %18\n"
                                "  }\n"
                                "}\n";

static void rows_of_layernorm(sc_context *context)
{
    double x[66], w[11], b[11], y[66], r[6];
    fill(x, 66, 2);
    fill(w, 11, 3);
    fill(b, 11, 4);
    assert_int_equal(sc_kernel_interpret(parse(context, layernorm), (double *[]){x, w, b, y, r}, NULL, false), 0);
    for (int s = 0; s < 6; s++) {
        double mean = 0, variance = 0;
        for (int d = 0; d < 11; d++)
            mean += x[s * 11 + d] / 11;
        for (int d = 0; d < 11; d++)
            variance += (x[s * 11 + d] - mean) * (x[s * 11 + d] - mean) / 11;
        assert_true(fabs(r[s] - 1 / sqrt(variance + 1e-5)) < 1e-12);
        for (int d = 0; d < 11; d++)
            assert_true(fabs(y[s * 11 + d] - ((x[s * 11 + d] - mean) * r[s] * w[d] + b[d])) < 1e-12);
    }
}

static const char column_sums[] = "kernel @columns {\n"
                                  "  dim D = 4\n"
                                  "  dim B = 2\n"
                                  "  dim S = 3\n"
                                  "  arg x: bf16[2, 3, 4] in\n"
                                  "  arg g: f32[4] inout\n"
                                  "  outer D\n"
                                  "  %0 = index D : i64\n"
                                  "  %1 = index B : i64\n"
                                  "  %2 = index S : i64\n"
                                  "  %3 = load x %1, %2, %0 : f32\n"
                                  "  %4 = reduced #0 : f32\n"
                                  "  phase B, S {\n"
                                  "    #0 = sum %3\n"
                                  "  }\n"
                                  "  phase {\n"
                                  "    add g %0 = %4\n"
                                  "  }\n"
                                  "}\n";

static void sums_of_columns_are_added(sc_context *context)
{
    double x[24], g[4] = {1, 2, 3, 4};
    for (int i = 0; i < 24; i++)
        x[i] = i;
    assert_int_equal(sc_kernel_interpret(parse(context, column_sums), (double *[]){x, g}, NULL, true), 0);
    for (int d = 0; d < 4; d++)
        assert_true(g[d] == 1 + d + 6 * d + 4 * 15);
}

static const char scatter_add[] = "kernel @scatter {\n"
                                  "  dim D = 3\n"
                                  "  dim V = 5\n"
                                  "  dim S = 6\n"
                                  "  arg ids: i32[6] in\n"
                                  "  arg x: f32[6, 3] in\n"
                                  "  arg y: f32[5, 3] out\n"
                                  "  outer D\n"
                                  "  %0 = index D : i64\n"
                                  "  %1 = index V : i64\n"
                                  "  %2 = index S : i64\n"
                                  "  %3 = constant 0.0 : f32\n"
                                  "  %4 = load ids %2 : i32\n"
                                  "  %5 = convert %4 : i64\n"
                                  "  %6 = constant 0 : i64\n"
                                  "  %7 = ge %5, %6 : bool\n"
                                  "  %8 = constant 5 : i64\n"
                                  "  %9 = lt %5, %8 : bool\n"
                                  "  %10 = and %7, %9 : bool\n"
                                  "  %11 = load x %2, %0 : f32\n"
                                  "  phase V {\n"
                                  "    store y %1, %0 = %3\n"
                                  "  }\n"
                                  "  phase S {\n"
                                  "    check %10 \"an id is out of range\"\n"
                                  "    add y %5, %0 = %11\n"
                                  "  }\n"
                                  "}\n";

static void rows_are_scattered(sc_context *context)
{
    double ids[6] = {3, 0, 3, 4, 0, 3}, x[18], y[15], expected[15] = {0};
    fill(x, 18, 5);
    sc_kernel *k = parse(context, scatter_add);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){ids, x, y}, NULL, false), 0);
    for (int i = 0; i < 18; i++)
        expected[(int)ids[i / 3] * 3 + i % 3] += x[i];
    for (int i = 0; i < 15; i++)
        assert_true(y[i] == expected[i]);
    ids[4] = 5; /* the check fails before anything is touched outside */
    assert_int_equal(sc_kernel_interpret(k, (double *[]){ids, x, y}, NULL, false), 1);
    ids[4] = -1;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){ids, x, y}, NULL, false), 1);
}

static const char cumsum[] = "kernel @cumsum {\n"
                             "  dim A = 2\n"
                             "  dim C = 3\n"
                             "  dim B = 4\n"
                             "  arg x: i32[2, 4, 3] in\n"
                             "  arg y: i32[2, 4, 3] out\n"
                             "  arg z: i32[2, 4, 3] out\n"
                             "  outer A, C\n"
                             "  %0 = index A : i64\n"
                             "  %1 = index B : i64\n"
                             "  %2 = index C : i64\n"
                             "  %3 = load x %0, %1, %2 : i32\n"
                             "  %4 = running #1 : i32\n"
                             "  phase B {\n"
                             "    store z %0, %1, %2 = %4\n"
                             "    #1 = sum %3\n"
                             "    store y %0, %1, %2 = %4\n"
                             "  }\n"
                             "}\n";

static void sums_run(sc_context *context)
{
    double x[24], y[24], z[24];
    for (int i = 0; i < 24; i++)
        x[i] = i * i;
    assert_int_equal(sc_kernel_interpret(parse(context, cumsum), (double *[]){x, y, z}, NULL, true), 0);
    for (int i = 0; i < 24; i++) {
        assert_true(y[i] == x[i] + (i % 12 >= 3 ? y[i - 3] : 0));
        assert_true(z[i] == y[i]); /* this element is in, wherever the item stands */
    }
}

static const char dropout[] = "kernel @dropout {\n"
                              "  dim S = 4\n"
                              "  dim D = 25\n"
                              "  arg x: f32[4, 25] in\n"
                              "  arg y: f32[4, 25] out\n"
                              "  param 0: key = \"0123456789abcdef\"\n"
                              "  param 1: rank = (1, 2, 100)\n"
                              "  param 2: step\n"
                              "  param 3: micro_batch\n"
                              "  outer S, D\n"
                              "  %0 = index S : i64\n"
                              "  %1 = index D : i64\n"
                              "  %2 = constant 25 : i64\n"
                              "  %3 = mul %0, %2 : i64\n"
                              "  %4 = add %1, %3 : i64\n"
                              "  %5 = param 1 : i64\n"
                              "  %6 = add %4, %5 : i64\n"
                              "  %7 = param 0 : i64\n"
                              "  %8 = param 2 : i64\n"
                              "  %9 = param 3 : i64\n"
                              "  %10 = random %6, %7, %8, %9 : f64\n"
                              "  %11 = constant 0.3 : f64\n"
                              "  %12 = ge %10, %11 : bool\n"
                              "  %13 = load x %0, %1 : f32\n"
                              "  %14 = constant 1.4285714285714286 : f32\n"
                              "  %15 = mul %13, %14 : f32\n"
                              "  %16 = constant 0.0 : f32\n"
                              "  %17 = where %12, %15, %16 : f32\n"
                              "  phase {\n"
                              "    store y %0, %1 = %17\n"
                              "  }\n"
                              "}\n";

static void elements_drop_out(sc_context *context)
{
    double x[100], y[100];
    const uint32_t key[2] = {0xdeadbeef, 0x98765432};
    int dropped = 0;
    fill(x, 100, 6);
    int64_t params[] = {(int64_t)0x98765432deadbeefu, 100, 17, 3};
    assert_int_equal(sc_kernel_interpret(parse(context, dropout), (double *[]){x, y}, params, false), 0);
    for (uint32_t i = 0; i < 100; i++) {
        bool kept = sc_rng_uniform_at((uint32_t[]){100 + i, 0, 17, 3}, key) >= 0.3;
        assert_true(y[i] == (kept ? x[i] * 1.4285714285714286 : 0));
        dropped += !kept;
    }
    assert_in_range(dropped, 15, 45);
}

/* Columns 2 to 4 of x between columns of zeros. */
static const char window[] = "kernel @window {\n"
                             "  dim S = 2\n"
                             "  dim D = 6\n"
                             "  arg x: f32[2, 3] in\n"
                             "  arg y: f32[2, 6] out\n"
                             "  outer S\n"
                             "  %0 = index S : i64\n"
                             "  %1 = index D : i64\n"
                             "  %2 = constant 2 : i64\n"
                             "  %3 = sub %1, %2 : i64\n"
                             "  %4 = ge %1, %2 : bool\n"
                             "  %5 = constant 5 : i64\n"
                             "  %6 = lt %1, %5 : bool\n"
                             "  %7 = and %4, %6 : bool\n"
                             "  %8 = load x %0, %3 if %7 : f32\n"
                             "  phase D {\n"
                             "    store y %0, %1 = %8\n"
                             "  }\n"
                             "}\n";

static void what_is_guarded_is_not_read(sc_context *context)
{
    double x[] = {1, 2, 3, 4, 5, 6}, y[12], expected[] = {0, 0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0};
    assert_int_equal(sc_kernel_interpret(parse(context, window), (double *[]){x, y}, NULL, true), 0);
    assert_memory_equal(y, expected, sizeof y);
}

/* Every second element is stored, the others stay. */
static void what_is_guarded_is_not_stored(sc_context *context)
{
    const char *text = "kernel @k { dim A = 6 arg y: u8[6] inout outer A %0 = index A : i64 %1 = constant 2 : i64 %2 = mod %0, %1 : i64\n"
                       "%3 = constant 0 : i64 %4 = ne %2, %3 : bool %5 = constant 300 : i32 phase { store y %0 = %5 if %4 } }";
    double y[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 44, 2, 44, 4, 44};
    assert_int_equal(sc_kernel_interpret(parse(context, text), (double *[]){y}, NULL, false), 0);
    assert_memory_equal(y, expected, sizeof y);
}

/* The least of the checks at which iterations end, and nothing behind a failed check happens in its iteration. */
static void checks_end_iterations(sc_context *context)
{
    const char *text = "kernel @k { dim A = 6 arg x: i64[6] in arg y: i64[6] out outer A %0 = index A : i64 %1 = load x %0 : i64\n"
                       "%2 = constant 3 : i64 %3 = lt %1, %2 : bool %4 = constant 5 : i64 %5 = ne %1, %4 : bool\n"
                       "phase { check %5 \"it is 5\" store y %0 = %1 check %3 \"it is large\" } phase { store y %0 = %2 } }";
    sc_kernel *k = parse(context, text);
    double x[] = {0, 1, 2, 2, 1, 0}, y[6] = {0}, good[] = {3, 3, 3, 3, 3, 3}, large[] = {3, 4, 3, 3, 3, 3}, five[] = {3, 4, 9, 3, 3, 3};
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false), 0);
    assert_memory_equal(y, good, sizeof y);
    x[1] = 4;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false), 2);
    assert_memory_equal(y, large, sizeof y);
    x[2] = 5;
    y[2] = 9;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false), 1);
    assert_memory_equal(y, five, sizeof y);
}

static void reductions_of_every_dtype(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 arg x: i32[4] in arg f: f32[4] in arg a: i32[3] out arg b: bool[2] out arg c: f32[2] out\n"
                       "%i = index A : i64 %x = load x %i : i32 %f = load f %i : f32 %two = constant 2 : i32 %l = lt %x, %two : bool\n"
                       "%0 = reduced #0 : i32 %1 = reduced #1 : i32 %2 = reduced #2 : i32 %3 = reduced #3 : bool %4 = reduced #4 : bool\n"
                       "%5 = reduced #5 : f32 %6 = reduced #6 : f32\n"
                       "%c0 = constant 0 : i64 %c1 = constant 1 : i64 %c2 = constant 2 : i64\n"
                       "phase A { #0 = sum %x #1 = max %x #2 = min %x #3 = max %l #4 = min %l #5 = max %f #6 = min %f }\n"
                       "phase { store a %c0 = %0 store a %c1 = %1 store a %c2 = %2 store b %c0 = %3 store b %c1 = %4\n"
                       "store c %c0 = %5 store c %c1 = %6 } }";
    double x[] = {0x7fffffff, 1, -5, 0x7fffffff}, f[] = {-3, -1, -2, -1.5}, a[3], b[2], c[2];
    sc_kernel *k = parse(context, text);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, a, b, c}, NULL, true), 0);
    assert_true(a[0] == -6 && a[1] == 0x7fffffff && a[2] == -5 && b[0] == 1 && b[1] == 0 && c[0] == -1 && c[1] == -3);
    f[2] = NAN;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, a, b, c}, NULL, true), 0);
    assert_true(isnan(c[0]) && isnan(c[1]));
}

/* Stores round, once; what is between stays in f64. */
static void stores_round(sc_context *context)
{
    const char *text = "kernel @k { dim A = 2 arg x: f64[2] in arg f: f32[2] out arg h: f16[2] out arg b: bf16[2] inout outer A\n"
                       "%0 = index A : i64 %1 = load x %0 : f64 phase { store f %0 = %1 store h %0 = %1 add b %0 = %1 } }";
    double x[] = {1.0 / 3, 65520}, f[2], h[2], b[2] = {1, 0};
    sc_kernel *k = parse(context, text);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, h, b}, NULL, true), 0);
    assert_true(f[0] == (double)(float)x[0] && h[0] == 0x1.554p-2 && isinf(h[1]) && b[0] == 0x1.56p0 && b[1] == 65536);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, h, b}, NULL, false), 0);
    assert_true(f[0] == x[0] && h[1] == 65520 && b[0] == 0x1.56p0 + x[0]);
}

static void accesses_outside_are_seen(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 arg x: f32[4] in arg i: i64[4] in arg y: f32[4] out outer A\n"
                       "%0 = index A : i64 %1 = load i %0 : i64 %2 = load x %1 : f32 %3 = load x %0 : f32 phase { store y %STORED } }";
    for (int loads = 0; loads < 2; loads++) {
        sc_strbuf out;
        sc_strbuf_init(&out, &context->arena);
        sc_strbuf_add_bytes(&out, text, (size_t)(strstr(text, "%STORED") - text));
        sc_strbuf_add(&out, loads == 1 ? "%0 = %2 } }" : "%1 = %3 } }");
        sc_kernel *k = parse(context, out.data);
        double x[4] = {0}, y[4];
        double wrong[] = {4, -1, 0x1p62, -0x1p40};
        for (int i = 0; i < 4; i++) {
            double at[] = {0, 1, wrong[i], 3};
            assert_int_equal(sc_kernel_interpret(k, (double *[]){x, at, y}, NULL, false), SC_KERNEL_OUTSIDE);
        }
        double at[] = {0, 1, 2, 3};
        assert_int_equal(sc_kernel_interpret(k, (double *[]){x, at, y}, NULL, false), 0);
    }
}

static const char *const good_texts[] = {softmax, layernorm, column_sums, scatter_add, cumsum, dropout, window};
enum { GOOD_TEXTS = sizeof good_texts / sizeof *good_texts };

static void good_texts_read_back_and_verify(sc_context *context)
{
    for (int i = 0; i < GOOD_TEXTS; i++) {
        sc_kernel *k = parse(context, good_texts[i]);
        assert_string_equal(text_of(k), good_texts[i]);
        verifies(k);
    }
}

/* ---- verifying ---- */

/* Bodies behind these lines; message NULL: it is in order. %a, %b, %c, %d are indices of A, B (outer), C and D. */
static const char verified_head[] =
    "kernel @k { dim A = 4 dim B = 3 dim C = 5 dim D = 2\n"
    "arg x: f32[4, 3] in arg y: f32[4, 3] out arg z: f32[4, 3, 5] inout arg w: f32[] inout arg ids: i32[5] in\n"
    "arg m: f32[12] inout arg far: i64[5] in param 0: rank = (1, 4, 3) param 1: key = \"0123456789abcdef\"\n"
    "outer A, B %a = index A : i64 %b = index B : i64 %c = index C : i64 %d = index D : i64\n"
    "%f = constant 1.0 : f32 %n0 = constant 0 : i64 %n1 = constant 1 : i64 %n2 = constant 2 : i64\n"
    "%n3 = constant 3 : i64 %n4 = constant 4 : i64 %id32 = load ids %c : i32 %id = convert %id32 : i64\n"
    "%id_low = ge %id, %n0 : bool %id_high = lt %id, %n4 : bool %id_good = and %id_low, %id_high : bool\n"
    "%far = load far %c : i64 %far1 = add %far, %n1 : i64\n"
    "phase { store y %a, %b = %f }\n";

static const struct {
    const char *body, *message;
} verified[] = {
    {"", NULL},
    /* bounds */
    {"%i = add %a, %n1 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }", "index 0 of x is between 1 and 4, its dim has 4"},
    {"%i = sub %a, %n1 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }", "index 0 of x is between -1 and 2"},
    {"%i = sub %n3, %a : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }", NULL},
    {"%i = mul %b, %n2 : i64 %v = load x %i, %b : f32 phase { store y %a, %b = %v }", "between 0 and 4"},
    {"%i = div %c, %n2 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", NULL},
    {"%i = mod %far, %n4 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", NULL},
    {"%i = div %far, %n4 : i64 %v = load x %i, %b : f32 phase C { #1 = sum %v }", "index 0 of x"},
    {"%i = minimum %a, %n2 : i64 %j = add %i, %n1 : i64 %v = load x %j, %b : f32 phase { #1 = sum %v }", NULL},
    {"%p = param 0 : i64 %i = div %p, %n3 : i64 %v = load x %i, %b : f32 phase { #1 = sum %v }", NULL},
    {"%p = param 0 : i64 %v = load x %p, %b : f32 phase { #1 = sum %v }", "between 0 and 9"},
    {"%i = sub %a, %n1 : i64 %g = ge %a, %n1 : bool %v = load x %i, %b if %g : f32 phase { #1 = sum %v }", NULL},
    {"%i = sub %a, %n1 : i64 %g = ge %i, %n0 : bool %v = load x %i, %b if %g : f32 phase { #1 = sum %v }", NULL},
    {"%i = sub %a, %n1 : i64 %g = gt %a, %n1 : bool %h = not %g : bool %v = load x %i, %b if %h : f32 phase { #1 = sum %v }", "between -1"},
    {"%i = sub %a, %n1 : i64 %g = lt %a, %n1 : bool %h = not %g : bool %v = load x %i, %b if %h : f32 phase { #1 = sum %v }", NULL},
    {"%i = sub %a, %n1 : i64 %g = ge %a, %n1 : bool %h = or %g, %id_low : bool %v = load x %i, %b if %h : f32 phase C { #1 = sum %v }",
     "between -1"},
    {"%i = sub %a, %n1 : i64 %g = ne %a, %n0 : bool %v = load x %i, %b if %g : f32 phase { #1 = sum %v }", "between -1"},
    {"%i = add %a, %n1 : i64 %g = eq %a, %n1 : bool %v = load x %i, %b if %g : f32 phase { #1 = sum %v }", NULL},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v }", "index 0 of x is between -2147483648 and 2147483647"},
    {"%v = load x %id, %b if %id_good : f32 phase C { #1 = sum %v }", NULL},
    {"%v = load x %id, %b if %id_high : f32 phase C { #1 = sum %v }", "between -2147483648 and 3"},
    {"%v = load x %id, %b : f32 phase C { check %id_good \"\" } phase C { #2 = sum %v }", NULL},
    {"%v = load x %id, %b : f32 phase C { check %id_good \"\" #2 = sum %v }", NULL},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v check %id_good \"\" }", "index 0 of x"},
    {"%v = load x %id, %b : f32 phase C { #1 = sum %v } phase C { check %id_good \"\" }", "index 0 of x"},
    {"phase C { store y %id, %b = %f if %id_good }", "in more than one outer iteration"},
    {"%g = le %far1, %n3 : bool %h = ge %far1, %n0 : bool %i = and %g, %h : bool %v = load x %far1, %b if %i : f32 phase C { #1 = sum %v }",
     NULL},
    /* needs */
    {"phase { store z %a, %b, %c = %f }", "#1 needs an index of dim C, which its phase does not run over"},
    {"%r = reduced #1 : f32 phase C { #1 = sum %f store z %a, %b, %c = %r }", "#2 reads #1 before the phase of that ended"},
    {"%r = running #1 : f32 phase C { #1 = sum %f } phase C { store z %a, %b, %c = %r }", "#2 reads #1 running, which does not run here"},
    {"%v = load z %a, %b, %c : f32 %r = running #1 : f32 phase C { #1 = sum %v } phase { store y %a, %b = %r }",
     "#2 needs an index of dim C"},
    {"%r = running #1 : f32 %v = mul %r, %f : f32 %q = sub %r, %f : f32 phase C { #1 = sum %q }", "#1 reads #1 running"},
    {"%r = reduced #1 : f32 phase C { #1 = sum %f } phase { store y %a, %b = %r }", NULL},
    {"%k = param 1 : i64 %v = load x %k, %b : f32 phase { #1 = sum %v }", "computes with a key"},
    {"%k = param 0 : i64 %v = random %a, %k, %n0, %n0 : f64 phase { #1 = sum %v }", "the key is a param of that kind"},
    {"phase A { #1 = sum %f }", "phase 1 runs over what is no inner dim"},
    {"phase C, D, C { #1 = sum %f }", "phase 1 runs over dim C twice"},
    {"dim huge = 1125899906842624 phase huge, C { #1 = sum %f }", "too many points"},
    {"arg large: f32[1125899906842624, 8] in", "argument large has no dims, or too large ones"},
    {"arg never: f32[] out", "nothing is stored to never"},
    /* outer iterations */
    {"phase { store w = %f }", "#1 touches elements of w in more than one outer iteration"},
    {"phase { add w = %f }", "in more than one outer iteration"},
    {"%v = load w : f32 phase { store y %a, %b = %v }", NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 phase { store m %i = %f }", NULL},
    {"%m = mul %a, %n2 : i64 %i = add %m, %b : i64 phase { store m %i = %f }", "in more than one outer iteration"},
    {"%m = mul %b, %n4 : i64 %i = sub %m, %a : i64 %j = add %i, %n3 : i64 phase { store m %j = %f }", NULL},
    {"%i = sub %n3, %a : i64 %v = load y %i, %b : f32 phase { #1 = sum %v }",
     "%18 touches elements of y in other outer iterations than #0"},
    {"%v = load y %a, %b : f32 phase { #1 = sum %v }", NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 %q = div %i, %n2 : i64 %r = mod %i, %n2 : i64 arg q: f32[6, 2] out phase { store q %q, "
     "%r = %f }",
     NULL},
    {"%m = mul %a, %n3 : i64 %i = add %m, %b : i64 %q = div %i, %n3 : i64 %r = mod %i, %n2 : i64 arg q: f32[6, 2] out phase { store q %q, "
     "%r = %f }",
     "in more than one outer iteration"},
    /* points of a phase */
    {"phase C { store z %a, %b, %c = %f }", NULL},
    {"phase C, D { store z %a, %b, %c = %f }", "#1 touches elements of z at more than one point of its phase"},
    {"phase C, D { add z %a, %b, %c = %f }", NULL},
    {"phase C, D { store z %a, %b, %n0 = %f }", "at more than one point"},
    {"%g = eq %c, %n2 : bool phase C { store z %a, %b, %n0 = %f if %g }", NULL},
    {"%g = eq %c, %id : bool phase C { store z %a, %b, %n0 = %f if %g }", "at more than one point"},
    {"%g = eq %c, %i : bool phase C { store z %a, %b, %n0 = %f if %g }", "%i is not defined above"},
    {"%i32 = load ids %n0 : i32 %i = convert %i32 : i64 %g = eq %c, %i : bool phase C { store z %a, %b, %n0 = %f if %g }", NULL},
    {"%v = load z %a, %b, %c : f32 phase C { store z %a, %b, %c = %v }", NULL},
    {"%v = load z %a, %b, %n0 : f32 phase C { store z %a, %b, %c = %v }", "#1 touches elements of z at other points of the phase than %17"},
    {"%i = sub %n4, %c : i64 %v = load z %a, %b, %i : f32 phase C { store z %a, %b, %c = %v }",
     "#1 touches elements of z at other points of the phase than %18"},
    {"%v = load z %a, %b, %c : f32 %s = sin %v : f32 phase C { store z %a, %b, %c = %f #2 = sum %s }", "loads from z behind #1"},
    {"%v = load z %a, %b, %c : f32 phase C { #1 = sum %v store z %a, %b, %c = %f }", NULL},
    {"%v = load z %a, %b, %c : f32 phase C { add z %a, %b, %c = %v }", NULL},
    {"%i = mul %d, %n2 : i64 phase D { store z %a, %b, %i = %f } phase D { store z %a, %b, %d = %f }", NULL},
    {"arg i: i64[2] inout %i = load i %n0 : i64 %g = eq %c, %i : bool phase C { store z %a, %b, %n0 = %f if %g }",
     "at more than one point"},
    /* outs */
    {"arg o: f32[4, 3] out %v = load o %a, %b : f32 phase { store o %a, %b = %v }",
     "%17 needs elements of o, which no phase in front stores"},
    {"arg o: f32[4, 3] out phase { add o %a, %b = %f } phase { store o %a, %b = %f }", "#1 needs elements of o"},
    {"arg o: f32[4, 3] out phase { store o %a, %b = %f } phase C { add o %a, %b = %f }", NULL},
};

static void kernels_verify_or_say_why_not(sc_context *context)
{
    const char *wrong = "";
    for (size_t i = 0; i < sizeof verified / sizeof *verified; i++) {
        const char *body = verified[i].body, *message = verified[i].message;
        const char *text = sc_arena_printf(&context->arena, "%s%s }", verified_head, body);
        sc_diag_init(&context->diag, &context->arena);
        sc_kernel *k = parse_only(context, text);
        const char *error = k == NULL ? context->diag.list.data[0].text : sc_kernel_verify(k);
        if ((message == NULL) != (error == NULL) || (error != NULL && strstr(error, message) == NULL))
            wrong = sc_arena_printf(&context->arena, "%s%s\n  %s\n", wrong, body, error == NULL ? "is in order" : error);
    }
    assert_string_equal(wrong, "");
}

/* ---- simplifying and sharing ---- */

static const char *simplified(sc_context *context, const char *text)
{
    sc_kernel *k = parse(context, text);
    verifies(k);
    sc_kernel_simplify(k);
    verifies(k);
    return text_of(k);
}

/* Batch and sequence are one in x and y, and in the sum over them; nothing else is. */
static void dims_that_are_walked_as_one_merge(sc_context *context)
{
    assert_non_null(strstr(simplified(context, layernorm), "  dim \"B*S\" = 6\n  dim D = 11\n  arg x: f32[6, 11] in\n"));
    assert_non_null(strstr(simplified(context, layernorm), "  arg r: f32[6] out\n  outer \"B*S\"\n"));
    assert_string_equal(simplified(context, column_sums), "kernel @columns {\n"
                                                          "  dim D = 4\n"
                                                          "  dim \"B*S\" = 6\n"
                                                          "  arg x: bf16[6, 4] in\n"
                                                          "  arg g: f32[4] inout\n"
                                                          "  outer D\n"
                                                          "  %0 = index D : i64\n"
                                                          "  %1 = index \"B*S\" : i64\n"
                                                          "  %2 = load x %1, %0 : f32\n"
                                                          "  %3 = reduced #0 : f32\n"
                                                          "  phase \"B*S\" {\n"
                                                          "    #0 = sum %2\n"
                                                          "  }\n"
                                                          "  phase {\n"
                                                          "    add g %0 = %3\n"
                                                          "  }\n"
                                                          "}\n");
    assert_string_equal(simplified(context, softmax), softmax);
    assert_string_equal(simplified(context, window), window);
}

/* The element's number is a sum of both indices: that of the merged one. */
static void sums_of_indices_merge(sc_context *context)
{
    const char *text = simplified(context, dropout);
    assert_non_null(strstr(text, "  dim \"S*D\" = 100\n"));
    assert_non_null(strstr(text, "  outer \"S*D\"\n"));
    assert_null(strstr(text, "mul %0")); /* by 25 */
}

/* Each of these lines keeps A and B apart: kernels over both, with an index of each. */
static const char *const apart[] = {
    "arg q: f32[4] in %z = load q %a : f32 phase { store y %a, %b = %z }",
    "arg q: f32[3] in %z = load q %b : f32 phase { store y %a, %b = %z }",
    "arg q: f32[3, 4] in %z = load q %b, %a : f32 phase { store y %a, %b = %z }",
    "arg q: f32[4, 7] in %z = load q %a, %b : f32 phase { store y %a, %b = %z }",
    "%z = convert %a : f32 phase { store y %a, %b = %z }",
    "%n = constant 2 : i64 %w = load z %n, %n : f32 %z = load z %a, %b : f32 %v = add %z, %w : f32 phase { store y %a, %b = %v }",
    "%n = constant 2 : i64 %g = lt %b, %n : bool phase { store y %a, %b = %f if %g }",
    "%n = constant 2 : i64 %c = mul %a, %n : i64 %d = add %c, %b : i64 %z = convert %d : f32 phase { store y %a, %b = %z }",
};

static void dims_that_are_told_apart_stay(sc_context *context)
{
    const char *head =
        "kernel @k { dim A = 4 dim B = 3 arg y: f32[4, 3] inout arg z: f32[4, 3] in outer A, B %a = index A : i64 %b = index B : i64\n"
        "%f = constant 1.0 : f32";
    assert_non_null(strstr(simplified(context, sc_arena_printf(&context->arena, "%s phase { store y %%a, %%b = %%f } }", head)), "A*B"));
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        const char *text = simplified(context, sc_arena_printf(&context->arena, "%s %s }", head, apart[i]));
        if (strstr(text, "A*B") != NULL || strstr(text, "B*A") != NULL)
            fail_msg("%s\n%s", apart[i], text);
    }
}

/* Not outer, and summed over together, and alone too. */
static void dims_that_a_phase_tells_apart_stay(sc_context *context)
{
    static const char *const others[] = {"",
                                         "phase A, B { #1 = sum %f }",
                                         "phase A { #1 = sum %f }",
                                         "phase B { #1 = sum %f }",
                                         "phase B, A { #1 = sum %f }",
                                         "phase A, C, B { #1 = sum %f }"};
    for (int i = 0; i < 6; i++) {
        const char *text =
            sc_arena_printf(&context->arena,
                            "kernel @k { dim A = 4 dim B = 3 dim C = 2 arg x: f32[4, 3] in %%a = index A : i64 %%b = index B : i64\n"
                            "%%f = constant 1.0 : f32 %%x = load x %%a, %%b : f32 phase A, B { #0 = sum %%x } %s }",
                            others[i]);
        assert_int_equal(strstr(simplified(context, text), "A*B") != NULL, i < 2);
    }
}

static void what_has_one_element_goes(sc_context *context)
{
    const char *text =
        "kernel @k { dim A = 4 dim I = 1 dim B = 3 dim J = 1 dim unused = 9 arg x: f32[1, 4, 1, 3] in arg y: f32[4, 3, 1] out\n"
        "param 0: step outer A, I %a = index A : i64 %i = index I : i64 %b = index B : i64 %j = index J : i64\n"
        "%x = load x %i, %a, %j, %b : f32 %n = constant 5 : i64 %k = mul %i, %n : i64 %l = add %k, %a : i64 %dead = exp %x : f32\n"
        "%f = convert %l : f32 %v = add %x, %f : f32 phase J, B { #0 = sum %x store y %a, %b, %i = %v } }";
    assert_string_equal(simplified(context, text), "kernel @k {\n"
                                                   "  dim A = 4\n"
                                                   "  dim B = 3\n"
                                                   "  arg x: f32[4, 3] in\n"
                                                   "  arg y: f32[4, 3] out\n"
                                                   "  param 0: step\n"
                                                   "  outer A\n"
                                                   "  %0 = index A : i64\n"
                                                   "  %1 = index B : i64\n"
                                                   "  %2 = load x %0, %1 : f32\n"
                                                   "  %3 = convert %0 : f32\n"
                                                   "  %4 = add %2, %3 : f32\n"
                                                   "  phase B {\n"
                                                   "    #0 = sum %2\n"
                                                   "    store y %0, %1 = %4\n"
                                                   "  }\n"
                                                   "}\n");
}

/* Behind `phase`: x may be y, or not. */
static const struct {
    const char *phases;
    bool shared;
} sharing[] = {
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { #0 = sum %v } phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %f } phase C { #1 = sum %v }", false},
    {"%v = load x %a, %c : f32 %g = sin %v : f32 phase C { store y %a, %c = %f #1 = sum %g }", false},
    {"%v = load x %a, %n0 : f32 phase C { store y %a, %c = %v }", false},
    {"%v = load x %n0, %c : f32 phase C { store y %a, %c = %v }", false},
    {"%i = sub %n3, %a : i64 %v = load x %i, %c : f32 phase C { store y %i, %c = %v }", true},
    {"%i = sub %n3, %a : i64 %v = load x %i, %c : f32 phase C { store y %a, %c = %v }", false},
    {"%v = load z %c, %a : f32 phase C { store y %a, %c = %v }", true},
    {"%v = load x %a, %c : f32 phase C { store y %a, %c = %f } phase C { add y %a, %c = %f }", true},
    {"%v = load x %a, %n0 : f32 phase { store y %a, %n3 = %f } phase { store y %a, %n0 = %v }", true},
    {"%v = load x %a, %n0 : f32 phase { store y %a, %n0 = %f } phase { store y %a, %n3 = %v }", false},
};

static void arrays_are_shared_when_nothing_is_overwritten_too_early(sc_context *context)
{
    for (size_t i = 0; i < sizeof sharing / sizeof *sharing; i++) {
        const char *text =
            sc_arena_printf(&context->arena,
                            "kernel @k { dim A = 4 dim C = 5 arg x: f32[4, 5] in arg y: f32[4, 5] out arg z: f32[5, 4] in\n"
                            "arg other: bf16[4, 5] in outer A %%a = index A : i64 %%c = index C : i64 %%f = constant 1.0 : f32\n"
                            "%%n0 = constant 0 : i64 %%n3 = constant 3 : i64 %s }",
                            sharing[i].phases);
        sc_kernel *k = parse(context, text);
        verifies(k);
        if (sc_kernel_may_share(k, 0, 1) != sharing[i].shared)
            fail_msg("%s", sharing[i].phases);
        assert_false(sc_kernel_may_share(k, 1, 0) || sc_kernel_may_share(k, 3, 1) || sc_kernel_may_share(k, 0, 2));
    }
    /* a flat view of the same */
    sc_kernel *k =
        parse(context, "kernel @k { dim A = 4 dim B = 5 arg x: f32[4, 5] in arg y: f32[20] out outer A, B %a = index A : i64\n"
                       "%b = index B : i64 %n = constant 5 : i64 %m = mul %a, %n : i64 %i = add %m, %b : i64 %v = load x %a, %b : f32\n"
                       "phase { store y %i = %v } }");
    verifies(k);
    assert_true(sc_kernel_may_share(k, 0, 1));
}

/* ---- random kernels ---- */

enum { RANDOM_KERNELS = 2000 };

typedef struct seeded {
    void (*test)(sc_context *context, uint64_t seed, int *count);
    uint64_t seed;
    int count; /* of whatever the test counts */
} seeded;

static void call_seeded(sc_context *context, void *user)
{
    seeded *s = user;
    s->test(context, s->seed, &s->count);
}

/* Each in its own memory; the sum of what they counted. */
static int for_each_seed(void (*test)(sc_context *context, uint64_t seed, int *count))
{
    seeded s = {.test = test};
    for (; s.seed < RANDOM_KERNELS; s.seed++) {
        sc_context context;
        assert_true(sc_context_run(&context, 0, call_seeded, &s));
        sc_context_free(&context);
    }
    return s.count;
}

static double **filled(const random_kernel *made, uint64_t seed)
{
    double **args = sc_arena_array(&made->k->context->arena, made->k->args.count + 1u, sizeof *args);
    for (uint32_t i = 0; i < made->k->args.count; i++)
        args[i] = random_kernel_fill(made, i, seed);
    return args;
}

static void verify_and_read_back(sc_context *context, uint64_t seed, int *count)
{
    sc_kernel *k = random_kernel_make(context, seed).k;
    verifies(k);
    const char *text = text_of(k);
    assert_string_equal(text_of(parse(context, text)), text);
    *count += k->phases.count > 1;
}

static void random_kernels_verify_and_read_back(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(verify_and_read_back), RANDOM_KERNELS / 2, RANDOM_KERNELS);
}

/* Its accesses stay inside, and what it stores is finite. */
static void run_one(sc_context *context, uint64_t seed, int *failed)
{
    random_kernel made = random_kernel_make(context, seed);
    double **args = filled(&made, seed);
    int64_t result = sc_kernel_interpret(made.k, args, random_kernel_params(&made, seed), seed % 2 == 0);
    if (result < 0)
        fail_msg("%s", text_of(made.k));
    *failed += result > 0;
    for (uint32_t i = 0; i < made.k->args.count; i++) {
        for (int64_t e = 0; e < random_kernel_elements(&made.k->args.data[i]); e++) {
            if (!isfinite(args[i][e]))
                fail_msg("argument %u\n%s", i, text_of(made.k));
        }
    }
}

static void random_kernels_run_and_few_fail(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(run_one), RANDOM_KERNELS / 200, RANDOM_KERNELS / 8);
}

/* The same numbers to the bit, in the same order. */
static void simplify_one(sc_context *context, uint64_t seed, int *simpler)
{
    random_kernel made = random_kernel_make(context, seed);
    double **before = filled(&made, seed), **after = filled(&made, seed);
    const int64_t *params = random_kernel_params(&made, seed);
    const char *text = text_of(made.k);
    uint32_t dims = made.k->dims.count;
    int64_t result = sc_kernel_interpret(made.k, before, params, seed % 2 == 0);
    sc_kernel_simplify(made.k);
    *simpler += made.k->dims.count < dims;
    const char *error = sc_kernel_verify(made.k), *simple_text = text_of(made.k);
    if (error != NULL)
        fail_msg("%s\n%s\n%s", error, text, simple_text);
    assert_int_equal(sc_kernel_interpret(made.k, after, params, seed % 2 == 0), result);
    for (uint32_t i = 0; i < made.k->args.count; i++) {
        if (memcmp(before[i], after[i], (size_t)random_kernel_elements(&made.k->args.data[i]) * sizeof(double)) != 0)
            fail_msg("argument %u\n%s\n%s", i, text, simple_text);
    }
    assert_string_equal(text_of(parse(context, simple_text)), simple_text);
    sc_kernel_simplify(made.k);
    assert_string_equal(text_of(made.k), simple_text);
}

static void random_kernels_stay_what_they_are(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(simplify_one), RANDOM_KERNELS / 5, RANDOM_KERNELS);
}

/* In one array two arguments give what they give in two that begin alike. */
static void share_one(sc_context *context, uint64_t seed, int *shared)
{
    random_kernel made = random_kernel_make(context, seed);
    const int64_t *params = random_kernel_params(&made, seed);
    for (uint32_t out = 0; out < made.k->args.count; out++) {
        for (uint32_t in = 0; in < made.k->args.count; in++) {
            if (!sc_kernel_may_share(made.k, in, out))
                continue;
            double **apart_args = filled(&made, seed), **one = filled(&made, seed);
            memcpy(apart_args[out], apart_args[in], (size_t)random_kernel_elements(&made.k->args.data[in]) * sizeof(double));
            one[out] = one[in];
            int64_t result = sc_kernel_interpret(made.k, apart_args, params, true);
            assert_int_equal(sc_kernel_interpret(made.k, one, params, true), result);
            ++*shared;
            for (uint32_t i = 0; i < made.k->args.count; i++) {
                size_t bytes = (size_t)random_kernel_elements(&made.k->args.data[i]) * sizeof(double);
                if (i != in && memcmp(apart_args[i], one[i], bytes) != 0)
                    fail_msg("argument %u, when %u and %u are one\n%s", i, in, out, text_of(made.k));
            }
        }
    }
}

static void arguments_that_may_share_do(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(share_one), RANDOM_KERNELS / 20, INT32_MAX);
}

/* Whatever allocation fails: nothing is lost, nothing is touched afterwards. */
static void make_all(sc_context *context, void *user)
{
    (void)user;
    sc_kernel *k = sc_kernel_parse(context, layernorm, strlen(layernorm), "kernel");
    if (sc_kernel_verify(k) != NULL)
        abort();
    sc_kernel_simplify(k);
    sc_kernel_may_share(k, 0, 3);
    text_of(k);
}

static void memory_may_run_out(void **state)
{
    (void)state;
    bool done = false;
    uint64_t fail_at = 0;
    while (!done) {
        sc_context context;
        done = sc_context_run(&context, ++fail_at, make_all, NULL);
        sc_context_free(&context);
    }
    assert_in_range(fail_at, 100, 100000);
}

/* ---- broken kernels ---- */

/* The same text with outer dims run from behind: `%3 = index A` becomes size - 1 less an index of A. */
static const char *turned_round(const sc_kernel *k)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &k->context->arena);
    for (const char *line = text_of(k), *end; *line != 0; line = end) {
        end = strchr(line, '\n') + 1;
        unsigned node, dim = UINT32_MAX;
        if (sscanf(line, "  %%%u = index ", &node) == 1 && k->nodes.data[node].kind == SC_NODE_index)
            dim = k->nodes.data[node].index;
        if (dim >= k->outer_count) {
            sc_strbuf_add_bytes(&out, line, (size_t)(end - line));
            continue;
        }
        const char *name_of_dim = strstr(line, "index ") + 6;
        sc_strbuf_printf(&out, "  %%i%u = index %.*s", node, (int)(end - name_of_dim), name_of_dim);
        sc_strbuf_printf(&out, "  %%c%u = constant %lld : i64\n", node, (long long)k->dims.data[dim].size - 1);
        sc_strbuf_printf(&out, "  %%%u = sub %%c%u, %%i%u : i64\n", node, node, node);
    }
    return out.data;
}

/* One number in it becomes another, most often one that could stand there. */
static void break_something(sc_kernel *k, uint64_t *seed)
{
    uint32_t bits = (uint32_t)(random_bits(seed) >> 32), node = bits % k->nodes.count, item = bits % k->items.count,
             phase = bits % k->phases.count;
    sc_kernel_arg *arg = &k->args.data[bits % k->args.count];
    sc_kernel_node *n = &k->nodes.data[node];
    switch (random_bits(seed) % 12) {
    case 0:
    case 1:
    case 2:
        if (n->count > 0)
            k->operands.data[n->first + bits / 7 % n->count] = (uint32_t)(random_bits(seed) % (node + 1));
        break;
    case 3:
        if (k->items.data[item].count > 0)
            k->operands.data[k->items.data[item].first + bits / 7 % k->items.data[item].count] = node;
        break;
    case 4:
        if (arg->rank > 0)
            arg->sizes[bits / 7 % arg->rank] += bits % 3 == 0 ? 1 : -1;
        break;
    case 5:
        k->dims.data[bits % k->dims.count].size += bits % 3 == 0 ? -1 : 1;
        break;
    case 6:
        n->number = n->kind == SC_NODE_constant && n->dtype == SC_DTYPE_i64 ? n->number + (double)(bits % 5) - 2 : n->number;
        break;
    case 7:
        k->outer_count += bits % 2 == 0 ? 1 : UINT32_MAX;
        break;
    case 8:
        k->items.data[item].kind = (sc_item_kind)(bits / 7 % 6);
        break;
    case 9:
        if (k->phases.data[phase].dim_count > 0)
            k->phases.data[phase].dims[0] = bits / 7 % k->dims.count;
        break;
    case 10:
        k->phases.data[phase].dim_count += bits % 2 == 0 ? 1 : UINT32_MAX;
        break;
    default:
        arg->mode = (sc_kernel_arg_mode)(bits / 7 % 3);
    }
}

static double **with_room(const sc_kernel *k)
{
    double **args = sc_arena_array(&k->context->arena, k->args.count + 1u, sizeof *args);
    random_kernel made = {.k = (sc_kernel *)(uintptr_t)k};
    for (uint32_t i = 0; i < k->args.count; i++) {
        made.low[i] = k->args.data[i].dtype == SC_DTYPE_bool || k->args.data[i].dtype == SC_DTYPE_u8 ? 0 : -1;
        made.high[i] = k->args.data[i].dtype == SC_DTYPE_bool ? 1 : 4;
        args[i] = random_kernel_fill(&made, i, 5);
    }
    return args;
}

/* What verifies stays inside its arguments, and the order of outer iterations is of no matter. */
static void what_verifies_is_sound(const sc_kernel *k)
{
    const char *text = text_of(k);
    sc_kernel *plain = parse(k->context, text), *turned = parse(k->context, turned_round(k));
    double **args = with_room(k), **turned_args = with_room(k);
    int64_t params[64] = {3, 1, 4, 1, 5};
    assert_true(k->params.count < 64);
    int64_t result = sc_kernel_interpret(plain, args, params, true);
    if (result < 0)
        fail_msg("accesses lead outside\n%s", text);
    assert_int_equal(sc_kernel_interpret(turned, turned_args, params, true), result);
    for (uint32_t i = 0; i < k->args.count; i++) {
        size_t bytes = (size_t)random_kernel_elements(&k->args.data[i]) * sizeof(double);
        for (size_t e = 0; e < bytes / sizeof(double); e++) {
            if (args[i][e] != turned_args[i][e] && !(isnan(args[i][e]) && isnan(turned_args[i][e])))
                fail_msg("argument %u depends on the order of iterations\n%s", i, text);
        }
    }
}

static void break_one(sc_context *context, uint64_t seed, int *refused)
{
    sc_kernel *k = random_kernel_make(context, seed % 500).k;
    for (uint64_t count = random_bits(&seed) % 3; count-- > 0;)
        break_something(k, &seed);
    sc_kernel *as_text = sc_kernel_verify(k) == NULL ? parse(context, text_of(k)) : NULL; /* nodes are unique again */
    if (as_text != NULL && sc_kernel_verify(as_text) == NULL)
        what_verifies_is_sound(as_text);
    else
        ++*refused;
}

static void what_is_broken_is_refused_or_sound(void **state)
{
    (void)state;
    assert_in_range(for_each_seed(break_one), RANDOM_KERNELS / 5, RANDOM_KERNELS * 4 / 5);
}

/* ---- */

#define TEST(f)                                                                                                                            \
    {                                                                                                                                      \
#f, in_context, NULL, NULL, &(void (*)(sc_context *))                                                                              \
        {                                                                                                                                  \
            f                                                                                                                              \
        }                                                                                                                                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_print),
        TEST(dependence_goes_through_operands_and_ends_at_reductions),
        TEST(equal_nodes_are_one),
        TEST(what_changes_nothing_folds),
        TEST(what_is_printed_reads_back),
        TEST(texts_become_unique),
        TEST(wrong_texts_are_refused_with_a_message),
        TEST(rows_of_softmax),
        TEST(rows_of_layernorm),
        TEST(sums_of_columns_are_added),
        TEST(rows_are_scattered),
        TEST(sums_run),
        TEST(elements_drop_out),
        TEST(what_is_guarded_is_not_read),
        TEST(what_is_guarded_is_not_stored),
        TEST(checks_end_iterations),
        TEST(reductions_of_every_dtype),
        TEST(stores_round),
        TEST(accesses_outside_are_seen),
        TEST(good_texts_read_back_and_verify),
        TEST(kernels_verify_or_say_why_not),
        TEST(dims_that_are_walked_as_one_merge),
        TEST(sums_of_indices_merge),
        TEST(dims_that_are_told_apart_stay),
        TEST(dims_that_a_phase_tells_apart_stay),
        TEST(what_has_one_element_goes),
        TEST(arrays_are_shared_when_nothing_is_overwritten_too_early),
        cmocka_unit_test(random_kernels_verify_and_read_back),
        cmocka_unit_test(random_kernels_run_and_few_fail),
        cmocka_unit_test(random_kernels_stay_what_they_are),
        cmocka_unit_test(arguments_that_may_share_do),
        cmocka_unit_test(what_is_broken_is_refused_or_sound),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
