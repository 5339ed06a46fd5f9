/* Kernels as C: fixed ones and random ones, compiled and run, against the reference; the same bits for every team. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emit_c_case.h"
#include "emit_c_kernels.h"

/* Everything is shared out, blocked and cut: the forms that large kernels have. */
static const sc_emit_limits small = {.small_work = 8,
                                     .shares = 6,
                                     .block = 8,
                                     .shortest_block = 5,
                                     .few = 12,
                                     .piece = 5,
                                     .few_rows = 6,
                                     .piece_rows = 3,
                                     .split_work = 1 << 30,
                                     .split_memory = 1 << 16};
/* The same, and phases are cut. */
static const sc_emit_limits cut = {.small_work = 8,
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
                                   .split_block = 16};
static const sc_emit_limits *const limits[] = {&sc_emit_default_limits, &small, &cut};
static const char *const limit_names[] = {"", ", cut small", ", split"};
enum { LIMITS = 3 };

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

static void in_context(void **state)
{
    sc_context context;
    run r = {.test = *(void (**)(sc_context *)) * state};
    assert_true(sc_context_run(&context, 0, call_test, &r));
    assert_true(r.done);
    sc_context_free(&context);
}

static void run_all(sc_context *context, emitted *all, uint32_t count)
{
    sc_loader *loader = emitted_load(context, all, count, NULL);
    for (uint32_t i = 0; i < count; i++)
        emitted_check(loader, &all[i]);
    sc_loader_close(loader);
}

static void fixed_kernels(sc_context *context)
{
    enum { COUNT = sizeof emit_c_kernels / sizeof *emit_c_kernels };
    emitted *all = sc_arena_array(&context->arena, LIMITS * COUNT, sizeof *all);
    for (uint32_t i = 0; i < LIMITS * COUNT; i++) {
        const char *text = emit_c_kernels[i / LIMITS];
        all[i].made.k = sc_kernel_parse(context, text, strlen(text), "kernel");
        if (all[i].made.k == NULL)
            fail_msg("kernel %u: %s\n%s", i / LIMITS, context->diag.list.data[0].text, text);
        all[i].label = sc_arena_printf(&context->arena, "%s%s", all[i].made.k->title, limit_names[i % LIMITS]);
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
        all[i].label = sc_arena_printf(&context->arena, "random kernel %llu%s", (unsigned long long)all[i].seed, limit_names[i % LIMITS]);
        all[i].limits = limits[i % LIMITS];
    }
    run_all(context, all, COUNT);
}

int main(void)
{
#define TEST(name)                                                                                                                         \
    {                                                                                                                                      \
#name, in_context, NULL, NULL, &(void (*)(sc_context *))                                                                           \
        {                                                                                                                                  \
            name                                                                                                                           \
        }                                                                                                                                  \
    }
    const struct CMUnitTest tests[] = {
        TEST(fixed_kernels),
        TEST(random_kernels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
