/* Kernels by hand on the engine of test/cuda_on_cpu: those that are right, under every schedule;
 * those that are wrong in one way, whose report says in which; and the layouts of fragments against
 * the formulas of the PTX ISA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last */
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/emit.h"
#include "support/strbuf.h"
#include "test/cuda_on_cpu/harness.h"

enum { ELEMENTS = 256, SCHEDULES = 6 };

/* All kernels of this file are one module. Those by hand have two arrays of 256 floats, which end
 * where their pages end: x holds its index, y nothing; and a number. */
#define ARGS "(const float *x, float *y, int64_t n)\n"

static const char GOOD[] =
    "SC_KERNEL(64, 1) void twice" ARGS "{\n"
    "    for (int64_t i = sc_block() * sc_threads() + sc_thread(); i < n; i += 128)\n"
    "        y[i] = 2.0f * x[i];\n"
    "}\n"
    "SC_KERNEL(64, 1) void reverse" ARGS "{\n"
    "    sc_shared_ptr<float> s = sc_shared<float>(0);\n"
    "    for (int64_t i = 0; i < n; i += 64) {\n"
    "        s[sc_thread()] = x[i + sc_thread()];\n"
    "        sc_sync();\n"
    "        y[i + sc_thread()] = s[63 - sc_thread()];\n"
    "        sc_sync();\n"
    "    }\n"
    "}\n"
    "SC_KERNEL(64, 1) void sum" ARGS "{\n"
    "    float sum = x[sc_thread()];\n"
    "    for (int mask = 16; mask > 0; mask /= 2)\n"
    "        sum += sc_shuffle_xor(sum, mask);\n"
    "    sc_shared_ptr<float> s = sc_shared<float>(0);\n"
    "    if (sc_lane() == 0)\n"
    "        s[sc_warp()] = sum;\n"
    "    sc_sync();\n"
    "    y[sc_thread()] = s[0] + s[1];\n"
    "}\n"
    /* wrong, but nothing that a report could say: half of the lanes ask themselves */
    "SC_KERNEL(64, 1) void wrong_lane" ARGS "{\n"
    "    float sum = x[sc_thread()];\n"
    "    for (int mask = 16; mask > 0; mask /= 2)\n"
    "        sum += sc_shuffle(sum, sc_lane() & ~mask);\n"
    "    y[sc_thread()] = sum;\n"
    "}\n"
    /* inclusive sums of each warp, by steps up; doubles, so that 8 bytes move */
    "SC_KERNEL(64, 1) void scan" ARGS "{\n"
    "    double sum = x[sc_thread()];\n"
    "    for (int by = 1; by < 32; by *= 2) {\n"
    "        double below = sc_shuffle_up(sum, by);\n"
    "        sum += sc_lane() >= by ? below : 0.0;\n"
    "    }\n"
    "    y[sc_thread()] = (float)sc_shuffle(sum, 31 - sc_lane());\n"
    "}\n"
    "SC_KERNEL(64, 1) void vote" ARGS "{\n"
    "    uint32_t odd = sc_ballot(sc_thread() % 2 == 1), high = sc_ballot(sc_thread() >= 40);\n"
    "    y[sc_thread()] = odd == 0xaaaaaaaau && high == (sc_warp() == 1 ? 0xffffff00u : 0u) ? 1.0f "
    ": 0.0f;\n"
    "}\n"
    /* a pipeline of two stages: each warp turns rows of 128 floats around, lanes read what other
       lanes copied */
    "SC_KERNEL(64, 1) void pipeline" ARGS "{\n"
    "    sc_shared_ptr<float> s = sc_shared<float>(1024 * sc_warp());\n"
    "    const float *from = x + 128 * sc_warp();\n"
    "    sc_copy_async(s + 4 * sc_lane(), from + 4 * sc_lane(), 16);\n"
    "    sc_copy_commit();\n"
    "    sc_copy_async(s + 128 + 4 * sc_lane(), from + 4 * sc_lane(), 4 * (sc_lane() % 5));\n"
    "    sc_copy_commit();\n"
    "    sc_copy_wait<1>();\n"
    "    sc_sync_warp();\n"
    "    sc_vec<float, 4> v = s.load<4>(124 - 4 * sc_lane());\n"
    "    sc_copy_wait<0>();\n"
    "    sc_sync_warp();\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        v[i] += 1000.0f * s[128 + (124 - 4 * sc_lane()) + i];\n"
    "    sc_store(y + 128 * sc_warp() + 4 * sc_lane(), v);\n"
    "}\n"
    "SC_KERNEL(64, 1) void operators" ARGS "{\n"
    "    sc_shared_ptr<float> s = sc_shared<float>(0) + sc_thread();\n"
    "    sc_shared_ptr<uint32_t> u = sc_shared<uint32_t>(256) + sc_thread();\n"
    "    s[0] = 3;\n"
    "    s[0] += 4.0f;\n"
    "    s[0] *= s[0];\n"
    "    u[0] = 5u;\n"
    "    u[0] |= 2u;\n"
    "    u[0] = u[0] + 1u;\n"
    "    y[sc_thread()] = s[0] - 1.0f > 47.0f && u[0] == 8u ? (sc_thread() > 3 ? s[0] : 0.0f) : "
    "-1.0f;\n"
    "}\n";

/* One mistake each; the name, the text of its body, what the report has to say, or may say, too,
 * where the order of threads decides. */
typedef struct mistake {
    const char *name, *body, *says, *or_says;
    uint32_t threads;
} mistake;

static const mistake MISTAKES[] = {
    {"no_barrier", "s[t] = x[t];\ny[t] = s[t < 32 ? t : t - 32];", "with no sc_sync between",
     "never written", 64},
    {"no_second_barrier",
     "for (int i = 0; i < 2; i++) {\ns[t] = x[t];\nsc_sync();\ny[t] = s[63 - t];\n}",
     "with no sc_sync between", NULL, 64},
    {"no_warp_barrier", "s[t] = x[t];\ny[t] = s[t & ~1];", "with no sc_sync_warp between",
     "never written", 64},
    {"shuffles_order_nothing", "s[t] = x[t];\nsc_shuffle(1, 0);\ny[t] = s[t ^ 1];",
     "with no sc_sync_warp between", NULL, 64},
    {"warp_barrier_over_warps", "s[t] = x[t];\nsc_sync_warp();\ny[t] = s[t < 32 ? t : t - 32];",
     "with no sc_sync between", "never written", 64},
    {"two_write", "s[t / 2] = 1.0f;\nsc_sync();\ny[t] = s[0];", "race: writes byte", NULL, 64},
    {"write_behind_readers",
     "s[t] = 1.0f;\nsc_sync();\nfloat a = s[5];\nsc_sync_warp();\nif (t == 5)\ns[5] = 2.0f;\ny[t] "
     "= a;",
     "race: ", NULL, 64},
    {"write_behind_lanes",
     "s[t] = 1.0f;\nsc_sync();\nfloat a = s[5];\nsc_shuffle(1, 0);\nif (t == 0)\ns[5] = "
     "2.0f;\ny[t] = a;",
     "race: writes byte 20 of shared memory", NULL, 32},
    {"no_wait",
     "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_sync();\ny[t] = s[t];",
     "'s copy to it (line", NULL, 64},
    {"no_commit",
     "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_wait<0>();\nsc_sync();\ny[t] = s[t];",
     "'s copy to it (line", NULL, 64},
    {"waits_for_older",
     "sc_copy_async(s + 4 * t, x + 4 * t, "
     "16);\nsc_copy_commit();\nsc_copy_wait<1>();\nsc_sync();\ny[t] = s[t];",
     "'s copy to it (line", NULL, 64},
    {"wait_without_barrier",
     "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_copy_wait<0>();\ny[t] = "
     "s[t];",
     "with no sc_sync", "never written", 64},
    {"copy_into_readers",
     "for (int i = 0; i < 2; i++) {\nsc_copy_async(s + 4 * t, x + 4 * t, "
     "16);\nsc_copy_commit();\nsc_copy_wait<0>();\nsc_sync();\n"
     "y[t] = s[t];\n}",
     "race: writes byte", "race: reads byte", 64},
    {"leaves_early", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();",
     "leaves while its copy is under way", NULL, 64},
    {"copy_beyond_source", "sc_copy_async(s + 4 * t, x + 4 * t + 196, 16);\nsc_copy_wait<0>();",
     "of x, which has 1024", NULL, 64},
    {"copy_unaligned_source", "sc_copy_async(s + 4 * t, x + 4 * t + 1, 16);\nsc_copy_wait<0>();",
     "no multiple of 16", NULL, 64},
    {"copy_unaligned", "sc_copy_async(s + 4 * t + 2, x + 4 * t, 16);\nsc_copy_wait<0>();",
     "no multiple of 16", NULL, 64},
    {"global_tail_read", "for (int i = t; i <= n; i += 64)\ny[i < n ? i : 0] = x[i];",
     "reads bytes 1024 .. 1027 of x, which has 1024", NULL, 64},
    {"global_tail_write", "for (int i = t; i <= n; i += 64)\ny[i] = 1.0f;",
     "writes bytes 1024 .. 1027 of y, which has 1024", NULL, 64},
    {"global_in_front", "y[t] = x[t - 1];", "reads bytes -4 .. -1 of x", NULL, 64},
    {"global_wild", "y[t] = x[t + ((int64_t)1 << 40)];", "no array's", NULL, 64},
    {"global_vector_tail", "sc_store(y + 4 * t, sc_load<4>(x + 4 * t + 4));",
     "reads bytes 1024 .. 1039 of x, which has 1024", NULL, 64},
    {"global_unaligned", "sc_store(y + 4 * t, sc_load<4>(x + t));", "no multiple of 16", NULL, 64},
    {"global_unaligned_store", "sc_store(y + 1, sc_load<2>(x));", "no multiple of 8", NULL, 32},
    {"global_in_written", "const_cast<float *>(x)[t] = 1.0f;",
     "writes byte 0 of x, which is only read", "of x, which is only read", 64},
    {"global_never_written", "y[t] = y[t + 64] + 1.0f;", "of y, which nobody wrote", NULL, 64},
    {"global_race", "y[t] = x[t];\ny[t + 64] = y[t < 32 ? t : t - 32];", "with no sc_sync",
     "of y, which nobody wrote", 64},
    {"shared_tail", "s[t + 449] = 1.0f;",
     "writes bytes 2048 .. 2051 of shared memory, which has 2048",
     "of shared memory, which has 2048", 64},
    {"shared_in_front", "y[t] = s[t - 1];", "reads bytes -4 .. -1 of shared memory",
     "never written", 64},
    {"shared_unaligned", "s.store<4>(t, sc_load<4>(x));", "no multiple of 16", NULL, 32},
    {"shared_never_written", "s[t] = 1.0f;\nsc_sync();\ny[t] = s[t + 1];",
     "reads byte 256 of shared memory, which was never written", NULL, 64},
    {"half_barrier", "if (t < 32)\nsc_sync();",
     "divergent barrier: 32 of 64 threads wait at sc_sync", NULL, 64},
    {"two_barriers", "if (t < 32)\nsc_sync();\nelse\nsc_sync();",
     "divergent barrier: the thread is at the sc_sync of line", NULL, 64},
    {"early_return", "if (t == 63)\nreturn;\ns[t] = x[t];\nsc_sync();\ny[t] = s[t];",
     "thread 63 has left", NULL, 64},
    {"half_warp", "float a = x[t];\nif (t < 16)\na = sc_shuffle_xor(a, 1);\ny[t] = a;",
     "wrong number of lanes: 16 of 32 arrived at sc_shuffle_xor", NULL, 64},
    {"half_warp_at_barrier", "if (sc_lane() < 31)\nsc_sync_warp();\nsc_sync();",
     "thread 31 waits at sc_sync", "thread 63 waits at sc_sync", 64},
    {"warp_of_two_minds", "if (sc_lane() < 16)\nsc_sync_warp();\nelse\nsc_ballot(true);",
     "divergent warp: ", NULL, 64},
    {"lane_outside", "y[t] = sc_shuffle(x[t], sc_lane() + 1);",
     "gives sc_shuffle 32, which is no lane", NULL, 64},
    {"row_unaligned", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(2));",
     "no multiple of 16", NULL, 32},
    {"row_outside", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(2048));",
     "of shared memory, which has 2048", NULL, 32},
    {"row_never_written", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(0));",
     "never written", NULL, 32},
    {"row_race",
     "s[t] = 1.0f;\nuint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(16 * (sc_lane() % "
     "4)));",
     "with no sc_sync_warp", NULL, 32},
    {"forever", "while (n > 0)\nsc_sync_warp();\ny[t] = 0.0f;", "goes on and on", NULL, 32},
    {"integer_overflow", "y[t] = (float)((int32_t)n * 16777216 + t);", "an integer overflows", NULL,
     64},
    {"integer_by_0", "y[t] = (float)(100 / (t - 9));", "divided by 0", NULL, 64},
    {"shift_too_far", "y[t] = (float)(1u << t);", "a shift has too many bits", NULL, 64},
    {"index_beyond",
     "float a[4] = {1, 2, 3, 4};\nfor (int i = 0; i < 4; i++)\na[i] += x[t];\ny[t] = a[t % 5];",
     "an index is beyond its array", NULL, 64},
    {"deep_stack",
     "volatile float many[100000];\nfor (int i = 0; i < n; i++)\nmany[i * 300] = x[i];\ny[t] = "
     "many[300 * t];",
     "stack", NULL, 64},
};
enum { MISTAKE_COUNT = sizeof MISTAKES / sizeof *MISTAKES };

/* Over two blocks. */
static const char BLOCKS[] = "SC_KERNEL(32, 1) void blocks_write_alike" ARGS "{\n"
                             "    if (sc_thread() == 0)\n"
                             "        y[0] = x[0];\n"
                             "}\n"
                             "SC_KERNEL(32, 1) void block_reads_anothers" ARGS "{\n"
                             "    if (sc_thread() == 0)\n"
                             "        y[2 * sc_block()] = x[0];\n"
                             "    if (sc_thread() == 0)\n"
                             "        y[2 * sc_block() + 1] = y[2 - 2 * sc_block()];\n"
                             "}\n"
                             "SC_KERNEL(32, 1) void last_block_adds_to_what_all_read" ARGS "{\n"
                             "    if (sc_thread() == 0) {\n"
                             "        y[8 + sc_block()] = y[0];\n"
                             "        if (sc_block() == 2)\n"
                             "            y[0] += 1.0f;\n"
                             "    }\n"
                             "}\n"
                             "SC_KERNEL(32, 1) void visits" ARGS "{\n"
                             "    if (sc_thread() == 0)\n"
                             "        y[sc_block()] = 1.0f;\n"
                             "}\n";

static const char LINES[] = "SC_KERNEL(32, 1) void array_at_line_5" ARGS "{\n"
                            "    float a = x[0];\n"
                            "    a += 1.0f;\n"
                            "    y[n] = a;\n"
                            "}\n"
                            "SC_KERNEL(32, 1) void fault_at_line_11" ARGS "{\n"
                            "    float a = x[0];\n"
                            "    a += 1.0f;\n"
                            "    y[n] = a;\n"
                            "}\n"
                            "SC_KERNEL(32, 1) void wrapper_at_line_17" ARGS "{\n"
                            "    float a = x[0];\n"
                            "    a += 1.0f;\n"
                            "    y[0] = sc_shared<float>(0)[sc_lane()];\n"
                            "}\n";

static sc_machine_module *module;

static int compile_all(void **state)
{
    (void)state;
    sc_arena arena;
    sc_strbuf mistakes, helpers;
    sc_arena_init(&arena, NULL, NULL);
    sc_strbuf_init(&mistakes, &arena);
    sc_strbuf_init(&helpers, &arena);
    for (size_t i = 0; i < MISTAKE_COUNT; i++)
        sc_strbuf_printf(
            &mistakes,
            "SC_KERNEL(64, 1) void %s" ARGS "{\n"
            "int t = sc_thread();\nsc_shared_ptr<float> s = sc_shared<float>(0);\n%s\n}\n",
            MISTAKES[i].name, MISTAKES[i].body);
    /* every helper that emitted CUDA may call behind the machine's own: they are C++, too */
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if (((sc_helper_set)1 << i & (SC_CUDA_MACHINE_HELPERS | SC_CUDA_FOREIGN_HELPERS)) == 0)
            sc_strbuf_add(&helpers, sc_helper_text((sc_helper)i));
    }
    sc_strbuf_add(&helpers,
                  "SC_KERNEL(64, 1) void with_helpers" ARGS "{\n"
                  "    int t = sc_thread();\n"
                  "    y[t] = t < n ? sc_bf16_to_f32(sc_f32_to_bf16(sc_exp_f32(sc_log_f32(x[t] + "
                  "1.0f)))) : 0.0f;\n"
                  "}\n");
    const char *texts[] = {GOOD, mistakes.data, BLOCKS, LINES, helpers.data};
    sc_machine_report report;
    module = sc_machine_compile(texts, sizeof texts / sizeof *texts, &report);
    if (module == NULL)
        print_error("%s\n", report.text);
    sc_arena_free(&arena);
    return module == NULL ? -1 : 0;
}

static int unload_all(void **state)
{
    (void)state;
    sc_machine_unload(module);
    return 0;
}

/* ---- one launch of a kernel by hand ---- */

typedef struct fixture {
    sc_machine_memory *memory;
    float *x, *y;
    int64_t n;
    void *params[3];
    sc_machine_launch launch;
    sc_machine_report report;
} fixture;

/* schedule: 0 .. SCHEDULES - 1 */
static void begin(fixture *f, const char *entry, uint32_t threads, uint32_t schedule)
{
    *f = (fixture){.memory = sc_machine_memory_new(), .n = ELEMENTS};
    assert_non_null(f->memory);
    f->x = sc_machine_alloc(f->memory, ELEMENTS * sizeof *f->x, SC_MACHINE_AT_END, "x");
    f->y = sc_machine_alloc(f->memory, ELEMENTS * sizeof *f->y, SC_MACHINE_AT_END, "y");
    assert_true(f->x != NULL && f->y != NULL);
    for (int i = 0; i < ELEMENTS; i++)
        f->x[i] = (float)i;
    sc_machine_read_only(f->memory, f->x, true);
    f->params[0] = &f->x;
    f->params[1] = &f->y;
    f->params[2] = &f->n;
    f->launch = (sc_machine_launch){.module = module,
                                    .entry = entry,
                                    .blocks = 1,
                                    .threads = threads,
                                    .shared_bytes = 2048,
                                    .params = f->params,
                                    .memory = f->memory,
                                    .schedule = (sc_machine_schedule)(schedule % 3),
                                    .copies = (sc_machine_copies)(schedule % 2)};
}

static void run_well(fixture *f)
{
    if (!sc_machine_run(&f->launch, &f->report) || !sc_machine_memory_check(f->memory, &f->report))
        fail_msg("%s", f->report.text);
}

static void expect(const char *entry, int64_t blocks, int64_t count, float (*result)(int64_t))
{
    for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++) {
        fixture f;
        begin(&f, entry, 64, schedule);
        f.launch.blocks = blocks;
        run_well(&f);
        for (int64_t i = 0; i < count; i++) {
            if (f.y[i] != result(i))
                fail_msg("%s: y[%d] is %g, not %g", entry, (int)i, (double)f.y[i],
                         (double)result(i));
        }
        sc_machine_memory_free(f.memory);
    }
}

static float result_of_twice(int64_t i)
{
    return 2.0f * (float)i;
}

static float result_of_reverse(int64_t i)
{
    int64_t row = i / 64 * 64;
    return (float)(row + 63 - i % 64);
}

static float result_of_sum(int64_t i)
{
    (void)i;
    return 2016.0f;
}

static float result_of_scan(int64_t i)
{
    float sum = 0;
    for (int64_t k = i / 32 * 32; k <= i / 32 * 32 + 31 - i % 32; k++)
        sum += (float)k;
    return sum;
}

static float result_of_vote(int64_t i)
{
    (void)i;
    return 1.0f;
}

static float result_of_pipeline(int64_t i)
{
    int64_t row = i / 128 * 128, from = 124 - i % 128 / 4 * 4 + i % 4, lane = from / 4;
    return (float)(row + from) + (i % 4 < lane % 5 ? 1000.0f * (float)(row + from) : 0.0f);
}

static float result_of_operators(int64_t i)
{
    return i > 3 ? 49.0f : 0.0f;
}

static float result_of_helpers(int64_t i)
{
    union {
        float value;
        uint32_t bits;
    } x = {.value = (float)(i + 1)}; /* exact in bf16 up to 256 */
    return (x.bits & 0xffffu) == 0 ? x.value : NAN;
}

static void test_good_kernels(void **state)
{
    (void)state;
    expect("twice", 2, ELEMENTS, result_of_twice);
    expect("reverse", 1, ELEMENTS, result_of_reverse);
    expect("sum", 1, 64, result_of_sum);
    expect("scan", 1, 64, result_of_scan);
    expect("vote", 1, 64, result_of_vote);
    expect("pipeline", 1, ELEMENTS, result_of_pipeline);
    expect("operators", 1, 64, result_of_operators);
    expect("with_helpers", 1, 64, result_of_helpers);
}

/* Values that lanes take from the wrong lane are what a GPU would give: a sum of 32 lanes that is
 * none. */
static void test_wrong_lanes_give_wrong_sums(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "wrong_lane", 64, 0);
    run_well(&f);
    for (int i = 0; i < 64; i++) {
        float own[32];
        for (int lane = 0; lane < 32; lane++)
            own[lane] = (float)(i - i % 32 + lane);
        for (int mask = 16; mask > 0; mask /= 2) {
            float before[32];
            memcpy(before, own, sizeof before);
            for (int lane = 0; lane < 32; lane++)
                own[lane] += before[lane & ~mask];
        }
        assert_true(f.y[i] == own[i % 32]);
    }
    assert_true(f.y[0] != 496.0f);
    sc_machine_memory_free(f.memory);
}

static void test_mistakes_are_reported(void **state)
{
    (void)state;
    for (size_t i = 0; i < MISTAKE_COUNT; i++) {
        const mistake *m = &MISTAKES[i];
        bool said = false;
        for (uint32_t schedule = 0; schedule < SCHEDULES; schedule++) {
            fixture f;
            begin(&f, m->name, m->threads, schedule);
            f.launch.max_turns = 10000;
            if (sc_machine_run(&f.launch, &f.report))
                fail_msg("%s, schedule %u: nobody noticed", m->name, schedule);
            bool says = strstr(f.report.text, m->says) != NULL;
            if (!says && (m->or_says == NULL || strstr(f.report.text, m->or_says) == NULL))
                fail_msg("%s, schedule %u: %s", m->name, schedule, f.report.text);
            said = said || says;
            sc_machine_memory_free(f.memory);
        }
        if (!said)
            fail_msg("%s: no schedule says: %s", m->name, m->says);
    }
}

/* ---- blocks ---- */

static void expect_report(fixture *f, const char *says)
{
    if (sc_machine_run(&f->launch, &f->report))
        fail_msg("%s: nobody noticed", f->launch.entry);
    if (strstr(f->report.text, says) == NULL)
        fail_msg("%s: %s", f->launch.entry, f->report.text);
}

static void test_blocks_that_touch_the_same(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "blocks_write_alike", 32, 0);
    run_well(&f);
    f.launch.blocks = 2;
    expect_report(&f, "race: writes byte 0 of y, which another block of the launch wrote");
    sc_machine_memory_free(f.memory);
    begin(&f, "block_reads_anothers", 32, 0);
    f.launch.blocks = 2;
    memset(f.y, 0, ELEMENTS * sizeof *f.y);
    for (int order = SC_MACHINE_FORWARD; order <= SC_MACHINE_REVERSED; order++) {
        f.launch.order = (sc_machine_order)order;
        expect_report(&f, "of y, which another block of the launch");
    }
    sc_machine_memory_free(f.memory);
}

static void test_a_block_writes_what_others_read(void **state)
{
    (void)state;
    for (int order = SC_MACHINE_FORWARD; order <= SC_MACHINE_REVERSED; order++) {
        fixture f;
        begin(&f, "last_block_adds_to_what_all_read", 32, 0);
        memset(f.y, 0, ELEMENTS * sizeof *f.y);
        f.launch.blocks = 3;
        f.launch.order = (sc_machine_order)order;
        expect_report(&f, order == SC_MACHINE_FORWARD
                              ? "race: writes byte 0 of y, which another block of the launch reads"
                              : "race: reads byte 0 of y, which another block of the launch wrote");
        sc_machine_memory_free(f.memory);
    }
}

/* Of an access without a wrapper the line is found in the object, where there is an addr2line. */
static void test_reports_have_lines(void **state)
{
    (void)state;
    bool has_tool = system("addr2line --version >/dev/null 2>&1") == 0;
    for (int i = 0; i < 3; i++) {
        static const char *const entries[] = {"array_at_line_5", "fault_at_line_11",
                                              "wrapper_at_line_17"};
        static const char *const says[] = {"array_at_line_5, block 0, thread 0, line 5: writes",
                                           "fault_at_line_11, block 0, thread 0, line 11: writes",
                                           "wrapper_at_line_17, block 0, thread 0, line 17: reads"};
        fixture f;
        begin(&f, entries[i], 32, 0);
        f.launch.memory = i == 1 ? NULL : f.memory;
        if (has_tool || i == 2)
            expect_report(&f, says[i]);
        sc_machine_memory_free(f.memory);
    }
}

static void test_each_block_runs_once(void **state)
{
    (void)state;
    for (int64_t blocks = 1; blocks <= ELEMENTS; blocks = blocks * 3 / 2 + 1) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            fixture f;
            begin(&f, "visits", 32, 0);
            f.launch.blocks = blocks;
            f.launch.order = SC_MACHINE_SHUFFLED;
            f.launch.seed = seed;
            run_well(&f);
            for (int64_t i = 0; i < blocks; i++)
                assert_true(f.y[i] == 1.0f);
            sc_machine_memory_free(f.memory);
        }
    }
}

static void test_launches_that_cannot_be(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "twice", 96, 0);
    expect_report(&f, "launch bounds");
    f.launch.threads = 48;
    expect_report(&f, "a multiple of 32");
    f.launch.threads = 64;
    f.launch.blocks = 0;
    expect_report(&f, "a grid has");
    f.launch.blocks = 1;
    f.launch.shared_bytes = 1 << 20;
    expect_report(&f, "227 KiB");
    f.launch.shared_bytes = 0;
    f.launch.entry = "thrice";
    expect_report(&f, "no such kernel");
    sc_machine_memory_free(f.memory);
    sc_machine_report report;
    const char *refused[] = {"SC_KERNEL(32, 1) void k(float *y)\n{\n    y[0] = unknown;\n}\n"};
    assert_null(sc_machine_compile(refused, 1, &report));
    assert_non_null(strstr(report.text, "unknown"));
    assert_non_null(strstr(report.text, "text 0:3"));
    const char *twice[] = {GOOD, GOOD};
    assert_null(sc_machine_compile(twice, 2, &report));
    assert_non_null(strstr(report.text, "two kernels twice"));
    const sc_machine_kernel *kernel = sc_machine_kernel_named(module, "visits");
    assert_non_null(kernel);
    assert_int_equal(kernel->param_count, 3);
    assert_int_equal(kernel->max_threads, 32);
}

static void test_what_lies_beside_arrays_is_checked(void **state)
{
    (void)state;
    sc_machine_report report;
    for (int place = SC_MACHINE_AT_END; place <= SC_MACHINE_AT_START; place++) {
        sc_machine_memory *memory = sc_machine_memory_new();
        char *array = sc_machine_alloc(memory, 101, (sc_machine_place)place, "array");
        assert_true((uintptr_t)array % 64 == 0);
        memset(array, 0, 101);
        assert_true(sc_machine_memory_check(memory, &report));
        array[101] = 0;
        assert_false(sc_machine_memory_check(memory, &report));
        assert_string_equal(report.text, "array: byte 101 was written, it has 101");
        assert_true(sc_machine_release(memory, array));
        assert_false(sc_machine_release(memory, array));
        sc_machine_memory_free(memory);
    }
}

static void test_bounds_only(void **state)
{
    (void)state;
    fixture f;
    begin(&f, "global_never_written", 64, 0);
    f.launch.bounds_only = true;
    run_well(&f);
    sc_machine_memory_free(f.memory);
    begin(&f, "global_tail_write", 64, 0);
    f.launch.bounds_only = true;
    expect_report(&f, "writes bytes 1024 .. 1027 of y");
    sc_machine_memory_free(f.memory);
}

/* ---- the two machines have the same names ---- */

extern const char sc_machine_kernel_text[];

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static bool names(const char *text, const char *name, size_t length)
{
    for (const char *at = strstr(text, "sc_"); at != NULL; at = strstr(at + 1, "sc_")) {
        if (!is_name(at[-1]) && strncmp(at, name, length) == 0 && !is_name(at[length]))
            return true;
    }
    return false;
}

static void test_machines_have_the_same_names(void **state)
{
    (void)state;
    int count = 0;
    for (const char *at = strstr(sc_cuda_machine_text, "sc_"); at != NULL;
         at = strstr(at + 1, "sc_")) {
        size_t length = 0;
        while (is_name(at[length]))
            length++;
        static const char own[] = "sc_shared_memory";
        if (is_name(at[-1]) || (length == strlen(own) && strncmp(at, own, length) == 0))
            continue;
        count++;
        if (!names(sc_machine_kernel_text, at, length))
            fail_msg("test/cuda_on_cpu has no %.*s", (int)length, at);
    }
    assert_true(count > 30);
    assert_false(names(sc_machine_kernel_text, "sc_shar", 7));
}

/* ---- launches in two threads of the host ---- */

static void *run_many(void *user)
{
    for (uint32_t i = 0; i < 20; i++) {
        fixture f;
        begin(&f, i % 4 == 3 ? "global_wild" : "reverse", 64, i);
        bool ok = sc_machine_run(&f.launch, &f.report);
        for (int64_t k = 0; ok && k < ELEMENTS; k++)
            ok = f.y[k] == result_of_reverse(k);
        sc_machine_memory_free(f.memory);
        if (ok != (i % 4 != 3))
            return NULL;
    }
    return user;
}

static void test_threads_of_the_host(void **state)
{
    pthread_t threads[2];
    bool done[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_many, &done[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_ptr_equal(result, &done[i]);
    }
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_kernels),
        cmocka_unit_test(test_wrong_lanes_give_wrong_sums),
        cmocka_unit_test(test_mistakes_are_reported),
        cmocka_unit_test(test_blocks_that_touch_the_same),
        cmocka_unit_test(test_a_block_writes_what_others_read),
        cmocka_unit_test(test_reports_have_lines),
        cmocka_unit_test(test_each_block_runs_once),
        cmocka_unit_test(test_launches_that_cannot_be),
        cmocka_unit_test(test_what_lies_beside_arrays_is_checked),
        cmocka_unit_test(test_bounds_only),
        cmocka_unit_test(test_machines_have_the_same_names),
        cmocka_unit_test(test_threads_of_the_host),
    };
    return cmocka_run_group_tests(tests, compile_all, unload_all);
}
