/* Kernels as CUDA: fixed ones and random ones, compiled for the CPU, a fiber a thread, and run
 * against the reference; the same bits in every order of blocks and warps. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "codegen/toolchain/cubins.h"

#include "test/unit/helpers/c_kernels.h"
#include "test/unit/helpers/cuda_kernel_case.h"
#include "test/unit/helpers/cuda_kernels.h"
#include "test/unit/helpers/in_context.h"

/* Small kernels in every form of large ones. */
static const sc_cuda_limits small = {.lanes = 4,
                                     .threads = 64,
                                     .team = 128,
                                     .warps = 4,
                                     .cached = 8,
                                     .row = 3,
                                     .wanted = 600,
                                     .parts = 7,
                                     .few = 3,
                                     .unroll = 2,
                                     .tile = 5,
                                     .held = 3};
/* The same with few threads, each of which has more elements in a row. */
static const sc_cuda_limits long_rows = {.lanes = 8,
                                         .threads = 64,
                                         .team = 64,
                                         .warps = 2,
                                         .cached = 24,
                                         .row = 2,
                                         .wanted = 300,
                                         .parts = 3,
                                         .few = 8,
                                         .unroll = 1,
                                         .tile = 5,
                                         .held = 6};
/* Rows are read again by each phase, columns are a thread's, nothing is wide. */
static const sc_cuda_limits plain = {.lanes = 1,
                                     .threads = 32,
                                     .team = 32,
                                     .warps = 1,
                                     .cached = 0,
                                     .row = 1,
                                     .wanted = 1,
                                     .parts = 1,
                                     .few = 512,
                                     .unroll = 1,
                                     .tile = 1 << 30,
                                     .held = 1 << 30};
static const sc_cuda_limits *const limits[] = {&sc_cuda_default_limits, &small, &long_rows, &plain};
static const char *const limit_names[] = {"", ", cut small", ", few threads", ", plain"};
enum { LIMITS = 4 };

static void fixed_kernels(sc_context *context, const char *const *texts, uint32_t count)
{
    emitted *all = sc_arena_array(&context->arena, (size_t)LIMITS * count, sizeof *all);
    for (uint32_t i = 0; i < LIMITS * count; i++) {
        const char *text = texts[i / LIMITS];
        emitted *one = &all[i];
        one->made.k = sc_kernel_parse(context, text, strlen(text), "kernel");
        if (one->made.k == NULL)
            fail_msg("kernel %u is none:\n%s", i / LIMITS, text);
        one->label =
            sc_arena_printf(&context->arena, "%s%s", one->made.k->title, limit_names[i % LIMITS]);
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
    fixed_kernels(context, c_kernels, sizeof c_kernels / sizeof *c_kernels);
}

static void kernels_of_cuda(sc_context *context)
{
    fixed_kernels(context, cuda_kernels, sizeof cuda_kernels / sizeof *cuda_kernels);
}

static void random_kernels(sc_context *context)
{
    const char *cases = getenv("CASES"), *seed = getenv("SEED");
    const uint32_t COUNT = cases == NULL ? 200 : (uint32_t)strtoul(cases, NULL, 10);
    emitted *all = sc_arena_array(&context->arena, COUNT, sizeof *all);
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i].seed = i / LIMITS + (seed == NULL ? 1 : strtoull(seed, NULL, 10));
        all[i].made = random_kernel_make(context, all[i].seed);
        all[i].label = sc_arena_printf(&context->arena, "random kernel %llu%s",
                                       (unsigned long long)all[i].seed, limit_names[i % LIMITS]);
        all[i].limits = limits[i % LIMITS];
    }
    emitted_run_all(context, all, COUNT);
}

/* Words of C++, of the emitted text and of nothing: all compile and are told apart. */
static const char names[] =
    "kernel @k \"names\" { dim \"B*S\" = 40 dim \"class\" = 33 dim lane = 3 dim \"9\" = 2\n"
    "arg \"\": f32[40, 33, 3, 2] in arg \"B*S_at\": f32[40] in arg w0: f32[33] in arg SC_DEVICE: "
    "f32[] in arg way: f32[40] out\n"
    "arg threadIdx: f32[40, 33, 3, 2] out\n"
    "outer \"B*S\"\n"
    "%a = index \"B*S\" : i64 %b = index \"class\" : i64 %c = index lane : i64 %d = index \"9\" : "
    "i64\n"
    "%x = load \"\" %a, %b, %c, %d : f32 %y = load \"B*S_at\" %a : f32 %z = load w0 %b : f32 %w = "
    "load SC_DEVICE : f32\n"
    "%e = exp %w : f32 %xy = mul %x, %y : f32 %xyz = mul %xy, %z : f32 %all = mul %xyz, %e : f32 "
    "%s = reduced #0 : f32\n"
    "phase \"class\", lane, \"9\" { #0 = sum %all store threadIdx %a, %b, %c, %d = %all } phase { "
    "store way %a = %s } }";

static void any_name_will_do(sc_context *context)
{
    const char *text = names;
    fixed_kernels(context, &text, 1);
}

/* ---- for GPUs ---- */

typedef struct compiler {
    sc_context *context;
    bool prints; /* what each takes */
} compiler;

/* What was compiled before is in the cache. */
static void compile_kernel(const compiler *c, const char *text, const char *target)
{
    sc_arena *arena = &c->context->arena;
    sc_kernel *k = sc_kernel_parse(c->context, text, strlen(text), "kernel");
    sc_strbuf stages;
    sc_helper_set helpers = 0;
    sc_cuda_code stages_of;
    sc_cubins cubins;
    sc_strbuf_init(&stages, arena);
    sc_cuda_emit(k, "k", true, &stages, &helpers, &stages_of);
    const char *error =
        sc_cubins_build(arena, sc_target_find(target),
                        &(sc_cubin_function){"k", stages.data, helpers}, 1, NULL, &cubins);
    if (error != NULL)
        fail_msg("%s, %s: %s", k->title, target, error);
    const sc_cuda_usages usages = cubins.cubins[0].usages;
    assert_int_equal(usages.count, stages_of.stage_count);
    for (uint32_t i = 0; i < usages.count; i++) {
        const sc_cuda_usage *usage = &usages.data[i];
        if (c->prints)
            print_message("%s, %s: %s %u registers\n", k->title, target, usage->entry,
                          usage->registers);
        if (usage->spill_store_bytes + usage->spill_load_bytes + usage->stack_bytes > 0)
            fail_msg("%s, %s: %s spills %u bytes, %u of stack", k->title, target, usage->entry,
                     usage->spill_store_bytes, usage->stack_bytes);
    }
}

/* All that a kernel keeps has room in registers. $USAGE says how many. */
static void gpus_have_room(sc_context *context)
{
    static const char *const targets[] = {"cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a"};
    const compiler c = {.context = context, .prints = getenv("USAGE") != NULL};
    sc_nvrtc nvrtc;
    shardc_error why;
    if (!sc_nvrtc_open(&nvrtc, &why)) {
        print_message("not compiled: %s\n", why.text);
        return;
    }
    for (size_t t = 0; t < sizeof targets / sizeof *targets; t++) {
        if (sc_target_find(targets[t])->capability >= 100 && nvrtc.major < 13)
            continue;
        for (size_t i = 0; i < sizeof cuda_kernels_large / sizeof *cuda_kernels_large; i++)
            compile_kernel(&c, cuda_kernels_large[i], targets[t]);
    }
    for (size_t i = 0; i < sizeof c_kernels / sizeof *c_kernels; i++)
        compile_kernel(&c, c_kernels[i], "cuda:sm_80");
    for (size_t i = 0; i < sizeof cuda_kernels / sizeof *cuda_kernels; i++)
        compile_kernel(&c, cuda_kernels[i], "cuda:sm_80");
    compile_kernel(&c, names, "cuda:sm_80");
    sc_nvrtc_close(&nvrtc);
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
    const struct CMUnitTest tests[] = {TEST(kernels_of_cuda), TEST(kernels_of_c),
                                       TEST(random_kernels), TEST(any_name_will_do),
                                       TEST(gpus_have_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
