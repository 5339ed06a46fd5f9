/* The kernel IR: making, text, the reference. */
#include "program/failure.h"
#include "support/rng.h"
#include "test/unit/helpers/kernel_case.h"

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
    sc_knode value = sc_kernel_load(k, x, at, SC_NONE);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    uint32_t sum = sc_kernel_add_reduction(k, SC_ITEM_SUM, value);
    sc_knode part = sc_kernel_node_new(k, SC_NODE_div,
                                       (sc_knode[]){value, sc_kernel_reduced(k, sum, false)}, 2);
    sc_kernel_add_phase(k, (uint32_t[]){1}, 1);
    sc_kernel_add_store(k, SC_ITEM_STORE, y, at, part, SC_NONE);
    return k;
}

static void kernels_print(sc_context *context)
{
    assert_string_equal(text_of(last_step_of_softmax(context)),
                        "kernel @k0 \"softmax's last step\" {\n"
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

/* Two rows of a table of 50 are read, one cell of each row of another; a row of the cache is
 * written. */
static const char lookups[] = "kernel @lookups {\n"
                              "  dim S = 2\n"
                              "  dim D = 3\n"
                              "  arg ids: i32[2] in\n"
                              "  arg table: bf16[50, 3] in\n"
                              "  arg cells: f32[2, 700] in\n"
                              "  arg y: f32[2, 3] out\n"
                              "  arg cache: f32[40, 2] inout\n"
                              "  outer S\n"
                              "  %0 = index S : i64\n"
                              "  %1 = index D : i64\n"
                              "  %2 = load ids %0 : i32\n"
                              "  %3 = convert %2 : i64\n"
                              "  %4 = load table %3, %1 : f32\n"
                              "  %5 = load cells %0, %3 : f32\n"
                              "  %6 = add %4, %5 : f32\n"
                              "  phase D {\n"
                              "    store y %0, %1 = %6\n"
                              "  }\n"
                              "  phase {\n"
                              "    store cache %3, %0 = %5\n"
                              "  }\n"
                              "}\n";

static void gathers_move_the_rows_that_they_read(sc_context *context)
{
    int64_t moved[5];
    sc_kernel_traffic(parse(context, lookups), moved);
    const int64_t wanted[] = {2 * 4, 2 * 3 * 2, 2 * 4, 6 * 4, 2 * 4};
    for (int a = 0; a < 5; a++)
        assert_int_equal(moved[a], wanted[a]);
    /* whole arguments, each once although two phases read x */
    sc_kernel_traffic(last_step_of_softmax(context), moved);
    assert_int_equal(moved[0], 8 * 64 * 2);
    assert_int_equal(moved[1], 8 * 64 * 4);
    /* of fewer rows than ids no more than there are */
    sc_kernel_traffic(parse(context, scatter_add), moved);
    assert_int_equal(moved[2], 5 * 3 * 4);
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
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 0.0),
                         sc_kernel_constant(k, SC_DTYPE_f32, -0.0));
    assert_int_not_equal(sc_kernel_constant(k, SC_DTYPE_f32, 1),
                         sc_kernel_constant(k, SC_DTYPE_f64, 1));
    assert_int_equal(sc_kernel_constant(k, SC_DTYPE_f32, NAN),
                     sc_kernel_constant(k, SC_DTYPE_f32, -NAN));
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
    sc_knode i = sc_kernel_index(k, 0), x = sc_kernel_load(k, arg, &i, SC_NONE);
    sc_knode zero = sc_kernel_constant(k, SC_DTYPE_i64, 0),
             one = sc_kernel_constant(k, SC_DTYPE_i64, 1);
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
    sc_knode f0 = sc_kernel_constant(k, SC_DTYPE_f32, 0),
             f1 = sc_kernel_constant(k, SC_DTYPE_f32, 1);
    assert_int_not_equal(op(k, SC_NODE_add, x, f0), x);
    assert_int_equal(op(k, SC_NODE_sub, x, f0), x);
    assert_int_equal(op(k, SC_NODE_add, x, sc_kernel_constant(k, SC_DTYPE_f32, -0.0)), x);
    assert_int_equal(op(k, SC_NODE_mul, f1, x), x);
    assert_int_not_equal(op(k, SC_NODE_mul, x, f0), f0);
    assert_int_not_equal(op(k, SC_NODE_sub, x, x), f0);
    assert_int_not_equal(op(k, SC_NODE_eq, x, x), yes);
    /* constants */
    assert_int_equal(op(k, SC_NODE_div, sc_kernel_constant(k, SC_DTYPE_i32, -7),
                        sc_kernel_constant(k, SC_DTYPE_i32, 2)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -3));
    assert_int_equal(op(k, SC_NODE_mod, sc_kernel_constant(k, SC_DTYPE_i32, -7),
                        sc_kernel_constant(k, SC_DTYPE_i32, 4)),
                     sc_kernel_constant(k, SC_DTYPE_i32, 1));
    assert_int_equal(op(k, SC_NODE_add, sc_kernel_constant(k, SC_DTYPE_i32, 0x7fffffff),
                        sc_kernel_constant(k, SC_DTYPE_i32, 1)),
                     sc_kernel_constant(k, SC_DTYPE_i32, -0x1p31));
    assert_int_equal(op(k, SC_NODE_div, one, zero), zero);
    assert_int_equal(op(k, SC_NODE_maximum, f0, sc_kernel_constant(k, SC_DTYPE_f32, NAN)),
                     sc_kernel_constant(k, SC_DTYPE_f32, NAN));
    /* conversions */
    sc_knode wide = sc_kernel_convert(k, x, SC_DTYPE_f64),
             whole = sc_kernel_convert(k, x, SC_DTYPE_i32);
    assert_int_equal(sc_kernel_convert(k, x, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, wide, SC_DTYPE_i32), whole);
    assert_int_not_equal(sc_kernel_convert(k, whole, SC_DTYPE_f32), x);
    assert_int_equal(sc_kernel_convert(k, sc_kernel_convert(k, whole, SC_DTYPE_i64), SC_DTYPE_f64),
                     sc_kernel_convert(k, whole, SC_DTYPE_f64));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, -2.9), SC_DTYPE_i64),
                     sc_kernel_constant(k, SC_DTYPE_i64, -2));
    assert_int_equal(sc_kernel_convert(k, sc_kernel_constant(k, SC_DTYPE_f64, 0.5), SC_DTYPE_bool),
                     yes);
    /* guards */
    sc_knode no = sc_kernel_constant(k, SC_DTYPE_bool, 0);
    assert_int_equal(sc_kernel_load(k, arg, &i, yes), x);
    assert_int_equal(sc_kernel_load(k, arg, &i, no), f0);
}

/* ---- text ---- */

static const char every_line[] = "kernel @k7 \"all \\\"lines\\\"\" {\n"
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
    const char *text =
        "kernel @k { dim A = 4 arg y: i64[4] out outer A // a comment\n"
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

/* What is wrong with a kernel of these lines; each begins with `dim A = 4`, an argument x of it to
 * read and a y to write. */
static const struct {
    const char *lines, *message;
} wrong_texts[] = {
    {"dim A = 3", "'A' is declared twice"},
    {"dim B = 0", "0 is not between 1 and"},
    {"arg x: f32[4] in", "'x' is declared twice"},
    {"arg z: f33[4] in", "there is no dtype 'f33'"},
    {"arg z: f32[4] on", "there is no mode 'on'; did you mean 'in'?"},
    {"arg z: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1] in", "at most 16 dims"},
    {"outer B", "there is no dim 'B'"},
    {"dim B = 2 outer B", "here 'A' is next"},
    {"param 1: step", "this is param 0"},
    {"param 0: step param 1: step", "declared twice"},
    {"param 0: key = \"01\"", "16 hexadecimal digits"},
    {"param 0: rank = (0, 1, 1)", "0 is not between 1"},
    {"%1 = index A : i32", "this is i64"},
    {"%1 = index A : i64 %1 = index A : i64", "%1 is defined twice"},
    {"%1 = load x %0 : f32", "%0 is not defined above"},
    {"%1 = load x : f32", "needs an index for each of its dims"},
    {"%1 = constant 1.0 : f32 %2 = load x %1 : f32", "an index is i64"},
    {"%1 = index A : i64 %2 = load x %1 if %1 : f32", "a guard is bool"},
    {"%1 = constant 1.5 : i64", "this is not a number of i64"},
    {"%1 = constant 256 : u8", "nothing is computed in u8"},
    {"%1 = constant true : i64", "constants of bool are"},
    {"%1 = constant 1 : bool", "constants of bool are"},
    {"%1 = index A : i64 %2 = exp %1 : i64", "exp: it takes f32 or f64"},
    {"%1 = index A : i64 %2 = add %1 : i64", "add: it has the wrong number of operands"},
    {"%1 = index A : i64 %2 = constant 1 : i32 %3 = add %1, %2 : i64",
     "add: its operands have different dtypes"},
    {"%1 = constant true : bool %2 = neg %1 : bool", "neg: it takes numbers"},
    {"%1 = index A : i64 %2 = not %1 : bool", "not: it takes bool"},
    {"%1 = index A : i64 %2 = where %1, %1, %1 : i64", "the first operand of a choice is bool"},
    {"%1 = index A : i64 %2 = random %1, %1, %1, %1 : f64", "the key is a param"},
    {"%1 = index A : i64 %2 = muk %1, %1 : i64",
     "there is no kind of node 'muk'; did you mean 'mul'?"},
    {"%1 = param 0 : i64", "is not between"},
    {"phase A { load }", "expected an item"},
    {"phase A {", "found the end of the text"},
    {"phase A { #1 = sum %1 }", "this is #0"},
    {"%1 = index A : i64 phase A { #0 = product %1 }", "there is no reduction 'product'"},
    {"%1 = constant true : bool phase A { #0 = sum %1 }", "a sum is of numbers"},
    {"%1 = index A : i64 phase A { store x %1 = %1 }", "this argument is only read"},
    {"%1 = index A : i64 phase A { store y %1 = %1 }",
     "the value's dtype is not that of the argument"},
    {"%1 = index A : i64 phase A { check %1 \"\" }", "a check is bool"},
    {"%1 = index A : i64 %2 = lt %1, %1 : bool phase A { check %2 \"\" shows %2 }",
     "what a check shows is i64"},
    {"%1 = reduced #0 : f32", "there is no reduction #0 of f32"},
    {"%1 = index A : i64 %2 = reduced #0 : f32 phase A { #0 = sum %1 }",
     "there is no reduction #0 of f32"},
    {"} kernel", "expected the end of the text"},
    {"nonsense", "expected dim, arg, param"},
};

static void wrong_texts_are_refused_with_a_message(sc_context *context)
{
    for (size_t i = 0; i < sizeof wrong_texts / sizeof *wrong_texts; i++) {
        const char *text = sc_arena_printf(
            &context->arena, "kernel @k { dim A = 4 arg x: f32[4] in arg y: f32[4] out\n%s\n}",
            wrong_texts[i].lines);
        sc_diag_init(&context->diag, &context->arena);
        assert_null(parse_only(context, text));
        assert_int_equal(context->diag.errors, 1);
        const char *message = context->diag.list.data[0].text;
        if (strstr(message, wrong_texts[i].message) == NULL)
            fail_msg("%s: %s", wrong_texts[i].lines, message);
        assert_in_range(
            sc_sources_line(&context->sources, context->diag.list.data[0].loc.begin).line, 2, 3);
    }
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

static void rows_of_softmax(sc_context *context)
{
    double x[35], y[35];
    fill(x, 35, 1);
    assert_int_equal(sc_kernel_interpret(parse(context, softmax), (double *[]){x, y}, NULL, false),
                     0);
    for (int s = 0; s < 5; s++) {
        double sum = 0;
        for (int d = 0; d < 7; d++)
            sum += exp(x[s * 7 + d]);
        for (int d = 0; d < 7; d++)
            assert_true(fabs(y[s * 7 + d] - exp(x[s * 7 + d]) / sum) < 1e-14);
    }
}

static void rows_of_layernorm(sc_context *context)
{
    double x[66], w[11], b[11], y[66], r[6];
    fill(x, 66, 2);
    fill(w, 11, 3);
    fill(b, 11, 4);
    assert_int_equal(
        sc_kernel_interpret(parse(context, layernorm), (double *[]){x, w, b, y, r}, NULL, false),
        0);
    for (int s = 0; s < 6; s++) {
        double mean = 0, variance = 0;
        for (int d = 0; d < 11; d++)
            mean += x[s * 11 + d] / 11;
        for (int d = 0; d < 11; d++)
            variance += (x[s * 11 + d] - mean) * (x[s * 11 + d] - mean) / 11;
        assert_true(fabs(r[s] - 1 / sqrt(variance + 1e-5)) < 1e-12);
        for (int d = 0; d < 11; d++)
            assert_true(fabs(y[s * 11 + d] - ((x[s * 11 + d] - mean) * r[s] * w[d] + b[d])) <
                        1e-12);
    }
}

static void sums_of_columns_are_added(sc_context *context)
{
    double x[24], g[4] = {1, 2, 3, 4};
    for (int i = 0; i < 24; i++)
        x[i] = i;
    assert_int_equal(
        sc_kernel_interpret(parse(context, column_sums), (double *[]){x, g}, NULL, true), 0);
    for (int d = 0; d < 4; d++)
        assert_true(g[d] == 1 + d + 6 * d + 4 * 15);
}

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
    assert_int_equal(sc_kernel_interpret(k, (double *[]){ids, x, y}, NULL, false),
                     sc_image_failure(0, 5));
    ids[4] = -1;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){ids, x, y}, NULL, false),
                     sc_image_failure(0, -1));
}

static void sums_run(sc_context *context)
{
    double x[24], y[24], z[24];
    for (int i = 0; i < 24; i++)
        x[i] = i * i;
    assert_int_equal(sc_kernel_interpret(parse(context, cumsum), (double *[]){x, y, z}, NULL, true),
                     0);
    for (int i = 0; i < 24; i++) {
        assert_true(y[i] == x[i] + (i % 12 >= 3 ? y[i - 3] : 0));
        assert_true(z[i] == y[i]); /* this element is in, wherever the item stands */
    }
}

static void elements_drop_out(sc_context *context)
{
    double x[100], y[100];
    const uint32_t key[2] = {0xdeadbeef, 0x98765432};
    int dropped = 0;
    fill(x, 100, 6);
    int64_t params[] = {(int64_t)0x98765432deadbeefu, 100, 17, 3};
    assert_int_equal(
        sc_kernel_interpret(parse(context, dropout), (double *[]){x, y}, params, false), 0);
    for (uint32_t i = 0; i < 100; i++) {
        bool kept = sc_rng_uniform_at((uint32_t[]){100 + i, 0, 17, 3}, key) >= 0.3;
        assert_true(y[i] == (kept ? x[i] * 1.4285714285714286 : 0));
        dropped += !kept;
    }
    assert_in_range(dropped, 15, 45);
}

static void what_is_guarded_is_not_read(sc_context *context)
{
    double x[] = {1, 2, 3, 4, 5, 6}, y[12], expected[] = {0, 0, 1, 2, 3, 0, 0, 0, 4, 5, 6, 0};
    assert_int_equal(sc_kernel_interpret(parse(context, window), (double *[]){x, y}, NULL, true),
                     0);
    assert_memory_equal(y, expected, sizeof y);
}

/* Every second element is stored, the others stay. */
static void what_is_guarded_is_not_stored(sc_context *context)
{
    const char *text = "kernel @k { dim A = 6 arg y: u8[6] inout outer A %0 = index A : i64 %1 = "
                       "constant 2 : i64 %2 = mod %0, %1 : i64\n"
                       "%3 = constant 0 : i64 %4 = ne %2, %3 : bool %5 = constant 300 : i32 phase "
                       "{ store y %0 = %5 if %4 } }";
    double y[] = {0, 1, 2, 3, 4, 5}, expected[] = {0, 44, 2, 44, 4, 44};
    assert_int_equal(sc_kernel_interpret(parse(context, text), (double *[]){y}, NULL, false), 0);
    assert_memory_equal(y, expected, sizeof y);
}

/* The least of the checks at which iterations end, and nothing behind a failed check happens in its
 * iteration. */
static void checks_end_iterations(sc_context *context)
{
    const char *text =
        "kernel @k { dim A = 6 arg x: i64[6] in arg y: i64[6] out outer A %0 = index A : i64 %1 = "
        "load x %0 : i64\n"
        "%2 = constant 3 : i64 %3 = lt %1, %2 : bool %4 = constant 5 : i64 %5 = ne %1, %4 : bool\n"
        "phase { check %5 \"it is 5\" store y %0 = %1 check %3 \"{value} is large\" shows %1 } "
        "phase { store y %0 = %2 } }";
    sc_kernel *k = parse(context, text);
    double x[] = {0, 1, 2, 2, 1, 0}, y[6] = {0}, good[] = {3, 3, 3, 3, 3, 3},
           large[] = {3, 4, 3, 3, 3, 3}, five[] = {3, 4, 9, 3, 3, 3};
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false), 0);
    assert_memory_equal(y, good, sizeof y);
    x[1] = 4;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false),
                     sc_image_failure(1, 4));
    assert_memory_equal(y, large, sizeof y);
    x[2] = 5;
    y[2] = 9;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false),
                     sc_image_failure(0, 0));
    assert_memory_equal(y, five, sizeof y);
    x[2] = 7; /* of a check's values the least */
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, y}, NULL, false),
                     sc_image_failure(1, 4));
}

static void failures_are_ordered_and_read_back(sc_context *context)
{
    const int64_t most = ((int64_t)1 << 47) - 1, ordered[] = {0, 1, most, -most - 1, -1};
    (void)context;
    for (uint32_t check = 0; check < SC_IMAGE_MAX_CHECKS;
         check += check < 2 ? 1 : SC_IMAGE_MAX_CHECKS - 3) {
        for (size_t i = 0; i < sizeof ordered / sizeof *ordered; i++) {
            int64_t failure = sc_image_failure(check, ordered[i]);
            assert_true(failure > (i > 0       ? sc_image_failure(check, ordered[i - 1])
                                   : check > 0 ? sc_image_failure(check - 1, -1)
                                               : 0));
            assert_true(failure < INT64_MAX && sc_image_failed_check(failure) == check &&
                        sc_image_failed_value(failure) == ordered[i]);
        }
    }
}

static void reductions_of_every_dtype(sc_context *context)
{
    const char *text = "kernel @k { dim A = 4 arg x: i32[4] in arg f: f32[4] in arg a: i32[3] out "
                       "arg b: bool[2] out arg c: f32[2] out\n"
                       "%i = index A : i64 %x = load x %i : i32 %f = load f %i : f32 %two = "
                       "constant 2 : i32 %l = lt %x, %two : bool\n"
                       "%0 = reduced #0 : i32 %1 = reduced #1 : i32 %2 = reduced #2 : i32 %3 = "
                       "reduced #3 : bool %4 = reduced #4 : bool\n"
                       "%5 = reduced #5 : f32 %6 = reduced #6 : f32\n"
                       "%c0 = constant 0 : i64 %c1 = constant 1 : i64 %c2 = constant 2 : i64\n"
                       "phase A { #0 = sum %x #1 = max %x #2 = min %x #3 = max %l #4 = min %l #5 = "
                       "max %f #6 = min %f }\n"
                       "phase { store a %c0 = %0 store a %c1 = %1 store a %c2 = %2 store b %c0 = "
                       "%3 store b %c1 = %4\n"
                       "store c %c0 = %5 store c %c1 = %6 } }";
    double x[] = {0x7fffffff, 1, -5, 0x7fffffff}, f[] = {-3, -1, -2, -1.5}, a[3], b[2], c[2];
    sc_kernel *k = parse(context, text);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, a, b, c}, NULL, true), 0);
    assert_true(a[0] == -6 && a[1] == 0x7fffffff && a[2] == -5 && b[0] == 1 && b[1] == 0 &&
                c[0] == -1 && c[1] == -3);
    f[2] = NAN;
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, a, b, c}, NULL, true), 0);
    assert_true(isnan(c[0]) && isnan(c[1]));
}

/* Stores round, once; what is between stays in f64. */
static void stores_round(sc_context *context)
{
    const char *text = "kernel @k { dim A = 2 arg x: f64[2] in arg f: f32[2] out arg h: f16[2] out "
                       "arg b: bf16[2] inout outer A\n"
                       "%0 = index A : i64 %1 = load x %0 : f64 phase { store f %0 = %1 store h %0 "
                       "= %1 add b %0 = %1 } }";
    double x[] = {1.0 / 3, 65520}, f[2], h[2], b[2] = {1, 0};
    sc_kernel *k = parse(context, text);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, h, b}, NULL, true), 0);
    assert_true(f[0] == (double)(float)x[0] && h[0] == 0x1.554p-2 && isinf(h[1]) &&
                b[0] == 0x1.56p0 && b[1] == 65536);
    assert_int_equal(sc_kernel_interpret(k, (double *[]){x, f, h, b}, NULL, false), 0);
    assert_true(f[0] == x[0] && h[1] == 65520 && b[0] == 0x1.56p0 + x[0]);
}

static void accesses_outside_are_seen(sc_context *context)
{
    const char *text =
        "kernel @k { dim A = 4 arg x: f32[4] in arg i: i64[4] in arg y: f32[4] out outer A\n"
        "%0 = index A : i64 %1 = load i %0 : i64 %2 = load x %1 : f32 %3 = load x %0 : f32 phase { "
        "store y %STORED } }";
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
            assert_int_equal(sc_kernel_interpret(k, (double *[]){x, at, y}, NULL, false),
                             SC_KERNEL_OUTSIDE);
        }
        double at[] = {0, 1, 2, 3};
        assert_int_equal(sc_kernel_interpret(k, (double *[]){x, at, y}, NULL, false), 0);
    }
}

static const char *const good_texts[] = {softmax, layernorm, column_sums, scatter_add,
                                         cumsum,  dropout,   window};
enum { GOOD_TEXTS = sizeof good_texts / sizeof *good_texts };

static void good_texts_read_back_and_verify(sc_context *context)
{
    for (int i = 0; i < GOOD_TEXTS; i++) {
        sc_kernel *k = parse(context, good_texts[i]);
        assert_string_equal(text_of(k), good_texts[i]);
        verifies(k);
    }
}

/* ---- */

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(kernels_print),
        TEST(dependence_goes_through_operands_and_ends_at_reductions),
        TEST(gathers_move_the_rows_that_they_read),
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
        TEST(failures_are_ordered_and_read_back),
        TEST(reductions_of_every_dtype),
        TEST(stores_round),
        TEST(accesses_outside_are_seen),
        TEST(good_texts_read_back_and_verify),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
