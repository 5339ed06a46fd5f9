/* Kernels as C: fixed ones and random ones, compiled and run, against the reference; the same bits
 * for every team. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test/unit/helpers/c_kernel_case.h"
#include "test/unit/helpers/c_kernels.h"
#include "test/unit/helpers/in_context.h"

/* Everything is shared out, blocked and cut: the forms that large kernels have. */
static const sc_c_limits small = {.small_work = 8,
                                  .shares = 6,
                                  .block = 8,
                                  .shortest_block = 5,
                                  .few = 12,
                                  .piece = 5,
                                  .few_rows = 6,
                                  .piece_rows = 3,
                                  .split_work = 1 << 30,
                                  .split_memory = 1 << 16,
                                  .tile = 3,
                                  .tile_block = 5,
                                  .stream = 64,
                                  .cached = 64,
                                  .prefetch_array = 64,
                                  .prefetch_row = 1 << 12};
/* The same, and phases are cut; tiles have squares, and lines of memory. */
static const sc_c_limits cut = {.small_work = 8,
                                .shares = 6,
                                .block = 8,
                                .shortest_block = 5,
                                .few = 12,
                                .piece = 5,
                                .few_rows = 6,
                                .piece_rows = 3,
                                .split_work = 8,
                                .split_shares = 100,
                                .split_points = 3,
                                .split_memory = 1 << 16,
                                .split_block = 16,
                                .tile = 16,
                                .tile_block = 40,
                                .stream = 64,
                                .cached = 64,
                                .prefetch_array = 64,
                                .prefetch_row = 1 << 12};
static const sc_c_limits *const limits[] = {&sc_c_default_limits, &small, &cut};
static const char *const limit_names[] = {"", ", cut small", ", split"};
enum { LIMITS = 3 };

static void run_all(sc_context *context, emitted *all, uint32_t count)
{
    sc_loader *loader = emitted_load(context, all, count, NULL);
    for (uint32_t i = 0; i < count; i++)
        emitted_check(loader, &all[i]);
    sc_loader_close(loader);
}

static void fixed_kernels(sc_context *context)
{
    enum { COUNT = sizeof c_kernels / sizeof *c_kernels };
    emitted *all = sc_arena_array(&context->arena, LIMITS * COUNT, sizeof *all);
    for (uint32_t i = 0; i < LIMITS * COUNT; i++) {
        const char *text = c_kernels[i / LIMITS];
        all[i].made.k = sc_kernel_parse(context, text, strlen(text), "kernel");
        if (all[i].made.k == NULL)
            fail_msg("kernel %u: %s\n%s", i / LIMITS, context->diag.list.data[0].text, text);
        all[i].label =
            sc_arena_printf(&context->arena, "%s%s", all[i].made.k->title, limit_names[i % LIMITS]);
        all[i].limits = limits[i % LIMITS];
        all[i].norm = true;
        all[i].seed = i / LIMITS;
        for (uint32_t a = 0; a < all[i].made.k->args.count; a++) {
            const sc_kernel_arg *arg = &all[i].made.k->args.data[a];
            bool whole = !sc_dtype_is_float(arg->dtype);
            all[i].made.low[a] = whole ? 0 : -4;
            all[i].made.high[a] = arg->dtype == SC_DTYPE_bool ? 1 : 4;
        }
    }
    run_all(context, all, LIMITS * COUNT);
}

static void random_kernels(sc_context *context)
{
    const char *cases = getenv("CASES");
    const uint32_t COUNT = cases == NULL ? 240 : (uint32_t)strtoul(cases, NULL, 10);
    emitted *all = sc_arena_array(&context->arena, COUNT, sizeof *all);
    const char *seed = getenv("SEED");
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i].seed = i / LIMITS + (seed == NULL ? 1 : strtoull(seed, NULL, 10));
        all[i].made = random_kernel_make(context, all[i].seed);
        all[i].label = sc_arena_printf(&context->arena, "random kernel %llu%s",
                                       (unsigned long long)all[i].seed, limit_names[i % LIMITS]);
        all[i].limits = limits[i % LIMITS];
    }
    run_all(context, all, COUNT);
}

static const char *emit(sc_kernel *k, const char *name, bool comments)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &k->context->arena);
    sc_c_emit(k, name, comments, &text, NULL);
    return text.data;
}

/* Comments say where a kernel comes from, and change nothing else; what equals in all but these has
 * one text. */
static void comments_are_all_that_differs(sc_context *context)
{
    const char *kernel = c_kernels[0];
    sc_kernel *k = sc_kernel_parse(context, kernel, strlen(kernel), "kernel"),
              *other = sc_kernel_parse(context, kernel, strlen(kernel), "kernel");
    k->title = "ends */ early";
    *sc_vec_push(&context->arena, &k->comments) = "gpt2.shard:7: a line\nand another";
    const char *bare = emit(k, "f", false), *full = emit(k, "f", true);
    assert_string_equal(bare, emit(other, "f", false));
    assert_null(strstr(bare, "/*"));
    const char *head = "/* ends * / early\n * gpt2.shard:7: a line and another */\n";
    assert_int_equal(strncmp(full, head, strlen(head)), 0);
    assert_string_equal(full + strlen(head), bare);
    assert_string_not_equal(sc_object_symbol(&context->arena, bare),
                            sc_object_symbol(&context->arena, emit(other, "g", false)));
}

static uint32_t lines_with(const char *text, const char *part)
{
    uint32_t count = 0;
    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* The shapes that the kinds of kernels are meant to get. */
static void shapes_fit(sc_context *context)
{
    static const struct {
        const char *title, *has, *lacks;
    } rows[] = {
        /* exponentials are kept */
        {"softmax", "b6[D] = v6", "cut"},
        {"layernorm forwards", "t0[32]", "cut"},                          /* rows in lanes */
        {"layernorm backwards, of gain and bias", "cut * 203", "t0[32]"}, /* columns, cut */
        {"sum of all", "cut < ", "collapse"},
        {"a transposition to bf16", "sc_transpose_b32", "lane"},
        /* small enough for a cache */
        {"transposed matrices of 2 bytes, scaled", "sc_transpose_b16(x + N * 3913 + A_from",
         "sc_stream"},
        {"a transposition of bf16", "= q2[", "sc_bf16_to_f32"}, /* moved as it is */
        {"both ways at once, of parts", "sc_transpose_b16(w0, 88, y + B_from", "y["},
        {"gelu, and its slope", "#pragma omp parallel for", "cut"},
        {"integers", "t0[32]", "#pragma omp parallel"}, /* too small for a team */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        bool found = false;
        for (size_t j = 0; j < sizeof c_kernels / sizeof *c_kernels; j++) {
            sc_kernel *k = sc_kernel_parse(context, c_kernels[j], strlen(c_kernels[j]), "kernel");
            if (strcmp(k->title, rows[i].title) != 0)
                continue;
            const char *text = emit(k, "f", false);
            found = true;
            if (strstr(text, rows[i].has) == NULL || strstr(text, rows[i].lacks) != NULL ||
                lines_with(text, "#pragma omp parallel") > 1)
                fail_msg("%s: wants %s, not %s:\n%s", rows[i].title, rows[i].has, rows[i].lacks,
                         text);
        }
        assert_true(found);
    }
}

static const char *softmax_of(sc_context *context, const char *value, int rows, int columns,
                              const sc_c_limits *within)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    const char *kernel = sc_arena_printf(
        &context->arena,
        "kernel @k \"softmax\" { dim R = %d dim D = %d arg x: f32[%d, %d] in arg m: bool[%d, %d] "
        "in arg y: f32[%d, %d] out outer R\n"
        "%%r = index R : i64 %%d = index D : i64 %%l = load x %%r, %%d : f32 %%c = constant -3 : "
        "f32 %%b = load m %%r, %%d : bool %s\n"
        "%%m = reduced #0 : f32 %%a = sub %%x, %%m : f32 %%e = exp %%a : f32 %%s = reduced #1 : "
        "f32 %%y = div %%e, %%s : f32\n"
        "phase D { #0 = max %%x } phase D { #1 = sum %%e } phase D { store y %%r, %%d = %%y } }",
        rows, columns, rows, columns, rows, columns, rows, columns, value);
    sc_kernel *k = sc_kernel_parse(context, kernel, strlen(kernel), "kernel");
    if (k == NULL || sc_kernel_verify(k) != NULL)
        fail_msg("%s", k == NULL ? context->diag.list.data[0].text : sc_kernel_verify(k));
    sc_c_emit_within(k, "f", false, within, &text, NULL);
    return text.data;
}

/* While exponentials are computed, of arrays that no cache holds and rows that one does. */
static void rows_are_prefetched(sc_context *context)
{
    static const char is_x[] = "%x = where %b, %l, %c : f32";
    const char *large = softmax_of(context, is_x, 32768, 768, &sc_c_default_limits);
    assert_non_null(strstr(large, "const int64_t R_next = R < 32767 ? R + 1 : R;"));
    assert_int_equal(lines_with(large, "__builtin_prefetch(x + R_next * 768 + D_at, 0, 2);"), 1);
    assert_int_equal(lines_with(large, "__builtin_prefetch(x + R_next * 768 + D_at + 16, 0, 2);"),
                     1);
    assert_int_equal(lines_with(large, "__builtin_prefetch(y + R * 768 + D_at, 1);"), 1);
    assert_non_null(strstr(softmax_of(context, is_x, 41, 131, &small),
                           "__builtin_prefetch(x + R_next * 131 + D_at"));
    static const int sizes[][2] = {{100, 768}, {32768, 100}, {100, 50257}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_null(strstr(
            softmax_of(context, is_x, sizes[i][0], sizes[i][1], &sc_c_default_limits), "prefetch"));
}

/* What is less than its maximum is below 0, but not if a product in it might be contracted. */
static void exponents_are_below_their_maximum(sc_context *context)
{
    assert_non_null(strstr(softmax_of(context, "%x = where %b, %l, %c : f32", 40, 300, &small),
                           "sc_exp_below_f32("));
    assert_non_null(
        strstr(softmax_of(context, "%x = mul %l, %c : f32", 40, 300, &small), "sc_exp_f32("));
    assert_non_null(strstr(
        softmax_of(context, "%z = mul %l, %c : f32 %x = where %b, %z, %c : f32", 40, 300, &small),
        "sc_exp_f32("));
}

/* Words of C, of the emitted text and of nothing: all compile and are told apart. */
static void any_name_will_do(sc_context *context)
{
    static const char kernel[] =
        "kernel @k \"names\" { dim \"B*S\" = 40 dim \"for\" = 33 dim lane = 3 dim \"9\" = 2\n"
        "arg \"\": f32[40, 33, 3, 2] in arg \"B*S_to\": f32[40] in arg r0: f32[33] in arg exp: "
        "f32[] in arg \"B/S\": f32[40] out\n"
        "outer \"B*S\"\n"
        "%a = index \"B*S\" : i64 %b = index \"for\" : i64 %c = index lane : i64 %d = index \"9\" "
        ": i64\n"
        "%x = load \"\" %a, %b, %c, %d : f32 %y = load \"B*S_to\" %a : f32 %z = load r0 %b : f32 "
        "%w = load exp : f32\n"
        "%e = exp %w : f32 %xy = mul %x, %y : f32 %xyz = mul %xy, %z : f32 %all = mul %xyz, %e : "
        "f32 %s = reduced #0 : f32\n"
        "phase \"for\", lane, \"9\" { #0 = sum %all } phase { store \"B/S\" %a = %s } }";
    emitted all[LIMITS];
    for (uint32_t i = 0; i < LIMITS; i++) {
        all[i] = (emitted){.made.k = sc_kernel_parse(context, kernel, strlen(kernel), "kernel"),
                           .label = "names",
                           .limits = limits[i],
                           .norm = true};
        if (all[i].made.k == NULL)
            fail_msg("%s", context->diag.list.data[0].text);
        for (uint32_t a = 0; a < all[i].made.k->args.count; a++) {
            all[i].made.low[a] = -4;
            all[i].made.high[a] = 4;
        }
    }
    run_all(context, all, LIMITS);
}

int main(void)
{
#define TEST(name)                                                                                 \
    {                                                                                              \
#name, in_context, NULL, NULL, &(void (*)(sc_context *))                                   \
        {                                                                                          \
            name                                                                                   \
        }                                                                                          \
    }
    const struct CMUnitTest tests[] = {
        TEST(comments_are_all_that_differs),
        TEST(shapes_fit),
        TEST(rows_are_prefetched),
        TEST(exponents_are_below_their_maximum),
        TEST(any_name_will_do),
        TEST(fixed_kernels),
        TEST(random_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
