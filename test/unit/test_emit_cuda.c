/* Kernels as CUDA: fixed ones and random ones, compiled for the processor, a fiber a thread, and run against the reference; the same bits
 * in every order of blocks and warps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "emit_c_kernels.h"
#include "emit_cuda_case.h"
#include "emit_cuda_kernels.h"

/* Small kernels in every form of large ones. */
static const sc_cuda_limits small = {
    .lanes = 4, .threads = 64, .team = 128, .ways = 4, .kept = 8, .row = 3, .wanted = 600, .parts = 7, .few = 3, .unroll = 2, .tile = 5};
/* The same with few threads, each of which has more elements in a row. */
static const sc_cuda_limits long_rows = {
    .lanes = 8, .threads = 64, .team = 64, .ways = 2, .kept = 24, .row = 2, .wanted = 300, .parts = 3, .few = 8, .unroll = 1, .tile = 5};
/* Rows are read again by each phase, columns are a thread's, nothing is wide. */
static const sc_cuda_limits plain = {.lanes = 1,
                                     .threads = 32,
                                     .team = 32,
                                     .ways = 1,
                                     .kept = 0,
                                     .row = 1,
                                     .wanted = 1,
                                     .parts = 1,
                                     .few = 512,
                                     .unroll = 1,
                                     .tile = 1 << 30};
static const sc_cuda_limits *const limits[] = {&sc_cuda_default_limits, &small, &long_rows, &plain};
static const char *const limit_names[] = {"", ", cut small", ", few threads", ", plain"};
enum { LIMITS = 4 };

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

static void fixed_kernels(sc_context *context, const char *const *texts, uint32_t count)
{
    emitted *all = sc_arena_array(&context->arena, (size_t)LIMITS * count, sizeof *all);
    for (uint32_t i = 0; i < LIMITS * count; i++) {
        const char *text = texts[i / LIMITS];
        emitted *one = &all[i];
        one->made.k = sc_kernel_parse(context, text, strlen(text), "kernel");
        if (one->made.k == NULL)
            fail_msg("kernel %u is none:\n%s", i / LIMITS, text);
        one->label = sc_arena_printf(&context->arena, "%s%s", one->made.k->title, limit_names[i % LIMITS]);
        one->limits = limits[i % LIMITS];
        one->norm = true;
        one->seed = i / LIMITS;
        for (uint32_t a = 0; a < one->made.k->args.count; a++) {
            const sc_kernel_arg *arg = &one->made.k->args.data[a];
            one->made.low[a] = sc_dtype_is_float(arg->dtype) ? -4 : 0;
            one->made.high[a] = arg->dtype == SC_DTYPE_bool ? 1 : 4;
        }
    }
    emitted_run_all(context, all, LIMITS * count);
}

static void kernels_of_c(sc_context *context)
{
    fixed_kernels(context, emit_c_kernels, sizeof emit_c_kernels / sizeof *emit_c_kernels);
}

static void kernels_of_cuda(sc_context *context)
{
    fixed_kernels(context, emit_cuda_kernels, sizeof emit_cuda_kernels / sizeof *emit_cuda_kernels);
}

static void random_kernels(sc_context *context)
{
    const char *cases = getenv("CASES"), *seed = getenv("SEED");
    const uint32_t COUNT = cases == NULL ? 200 : (uint32_t)strtoul(cases, NULL, 10);
    emitted *all = sc_arena_array(&context->arena, COUNT, sizeof *all);
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i].seed = i / LIMITS + (seed == NULL ? 1 : strtoull(seed, NULL, 10));
        all[i].made = random_kernel_make(context, all[i].seed);
        all[i].label = sc_arena_printf(&context->arena, "random kernel %llu%s", (unsigned long long)all[i].seed, limit_names[i % LIMITS]);
        all[i].limits = limits[i % LIMITS];
    }
    emitted_run_all(context, all, COUNT);
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
    const struct CMUnitTest tests[] = {TEST(kernels_of_cuda), TEST(kernels_of_c), TEST(random_kernels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
