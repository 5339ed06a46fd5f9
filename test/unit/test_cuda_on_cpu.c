/* Kernels by hand on the engine of test/cuda_on_cpu: those that are right, under every schedule; those that are wrong in one way, whose
 * report says in which; and the layouts of fragments against the formulas of the PTX ISA. */
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

#include "codegen/emit_cuda.h"
#include "support/strbuf.h"
#include "test/cuda_on_cpu/harness.h"

enum { ELEMENTS = 256, SCHEDULES = 6 };

/* All kernels of this file are one module. Those by hand have two arrays of 256 floats, which end where their pages end: x holds its index,
 * y nothing; and a number. */
/* Those run as functions have what these have behind their arguments. */
#define TAIL ", const int64_t *sc_call, uint64_t *sc_failure)\n"
#define ARGS "(const float *x, float *y, int64_t n)\n"

static const char GOOD[] = "SC_KERNEL(64, 1) void twice" ARGS "{\n"
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
                           "    y[sc_thread()] = odd == 0xaaaaaaaau && high == (sc_warp() == 1 ? 0xffffff00u : 0u) ? 1.0f : 0.0f;\n"
                           "}\n"
                           /* a pipeline of two stages: each warp turns rows of 128 floats around, lanes read what other lanes copied */
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
                           "    y[sc_thread()] = s[0] - 1.0f > 47.0f && u[0] == 8u ? (sc_thread() > 3 ? s[0] : 0.0f) : -1.0f;\n"
                           "}\n";

/* One mistake each; the name, the text of its body, what the report has to say, or may say, too, where the order of threads decides. */
typedef struct mistake {
    const char *name, *body, *says, *or_says;
    uint32_t threads;
} mistake;

static const mistake MISTAKES[] = {
    {"no_barrier", "s[t] = x[t];\ny[t] = s[t < 32 ? t : t - 32];", "with no sc_sync between", "never written", 64},
    {"no_second_barrier", "for (int i = 0; i < 2; i++) {\ns[t] = x[t];\nsc_sync();\ny[t] = s[63 - t];\n}", "with no sc_sync between", NULL,
     64},
    {"no_warp_barrier", "s[t] = x[t];\ny[t] = s[t & ~1];", "with no sc_sync_warp between", "never written", 64},
    {"shuffles_order_nothing", "s[t] = x[t];\nsc_shuffle(1, 0);\ny[t] = s[t ^ 1];", "with no sc_sync_warp between", NULL, 64},
    {"warp_barrier_over_warps", "s[t] = x[t];\nsc_sync_warp();\ny[t] = s[t < 32 ? t : t - 32];", "with no sc_sync between", "never written",
     64},
    {"two_write", "s[t / 2] = 1.0f;\nsc_sync();\ny[t] = s[0];", "race: writes byte", NULL, 64},
    {"write_behind_readers", "s[t] = 1.0f;\nsc_sync();\nfloat a = s[5];\nsc_sync_warp();\nif (t == 5)\ns[5] = 2.0f;\ny[t] = a;",
     "race: ", NULL, 64},
    {"no_wait", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_sync();\ny[t] = s[t];", "under way: no sc_copy_wait", NULL,
     64},
    {"no_commit", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_wait<0>();\nsc_sync();\ny[t] = s[t];", "under way: no sc_copy_wait",
     NULL, 64},
    {"waits_for_older", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_copy_wait<1>();\nsc_sync();\ny[t] = s[t];",
     "under way: no sc_copy_wait", NULL, 64},
    {"wait_without_barrier", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_copy_wait<0>();\ny[t] = s[t];",
     "with no sc_sync", "never written", 64},
    {"copy_into_readers",
     "for (int i = 0; i < 2; i++) {\nsc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();\nsc_copy_wait<0>();\nsc_sync();\n"
     "y[t] = s[t];\n}",
     "race: writes byte", "race: reads byte", 64},
    {"leaves_early", "sc_copy_async(s + 4 * t, x + 4 * t, 16);\nsc_copy_commit();", "leaves while its copy is under way", NULL, 64},
    {"copy_beyond_source", "sc_copy_async(s + 4 * t, x + 4 * t + 196, 16);\nsc_copy_wait<0>();", "of x, which has 1024", NULL, 64},
    {"copy_unaligned_source", "sc_copy_async(s + 4 * t, x + 4 * t + 1, 16);\nsc_copy_wait<0>();", "no multiple of 16", NULL, 64},
    {"copy_unaligned", "sc_copy_async(s + 4 * t + 2, x + 4 * t, 16);\nsc_copy_wait<0>();", "no multiple of 16", NULL, 64},
    {"global_tail_read", "for (int i = t; i <= n; i += 64)\ny[i < n ? i : 0] = x[i];", "reads bytes 1024 .. 1027 of x, which has 1024",
     NULL, 64},
    {"global_tail_write", "for (int i = t; i <= n; i += 64)\ny[i] = 1.0f;", "writes bytes 1024 .. 1027 of y, which has 1024", NULL, 64},
    {"global_in_front", "y[t] = x[t - 1];", "reads bytes -4 .. -1 of x", NULL, 64},
    {"global_wild", "y[t] = x[t + ((int64_t)1 << 40)];", "no array's", NULL, 64},
    {"global_vector_tail", "sc_store(y + 4 * t, sc_load<4>(x + 4 * t + 4));", "reads bytes 1024 .. 1039 of x, which has 1024", NULL, 64},
    {"global_unaligned", "sc_store(y + 4 * t, sc_load<4>(x + t));", "no multiple of 16", NULL, 64},
    {"global_unaligned_store", "sc_store(y + 1, sc_load<2>(x));", "no multiple of 8", NULL, 32},
    {"global_in_written", "const_cast<float *>(x)[t] = 1.0f;", "writes byte 0 of x, which is only read", "of x, which is only read", 64},
    {"global_never_written", "y[t] = y[t + 64] + 1.0f;", "of y, which nobody wrote", NULL, 64},
    {"global_race", "y[t] = x[t];\ny[t + 64] = y[t < 32 ? t : t - 32];", "with no sc_sync", "of y, which nobody wrote", 64},
    {"shared_tail", "s[t + 449] = 1.0f;", "writes bytes 2048 .. 2051 of shared memory, which has 2048", "of shared memory, which has 2048",
     64},
    {"shared_in_front", "y[t] = s[t - 1];", "reads bytes -4 .. -1 of shared memory", "never written", 64},
    {"shared_unaligned", "s.store<4>(t, sc_load<4>(x));", "no multiple of 16", NULL, 32},
    {"shared_never_written", "s[t] = 1.0f;\nsc_sync();\ny[t] = s[t + 1];", "reads byte 256 of shared memory, which was never written", NULL,
     64},
    {"half_barrier", "if (t < 32)\nsc_sync();", "divergent barrier: 32 of 64 threads wait at sc_sync", NULL, 64},
    {"two_barriers", "if (t < 32)\nsc_sync();\nelse\nsc_sync();", "divergent barrier: the thread is at the sc_sync of line", NULL, 64},
    {"early_return", "if (t == 63)\nreturn;\ns[t] = x[t];\nsc_sync();\ny[t] = s[t];", "thread 63 has left", NULL, 64},
    {"half_warp", "float a = x[t];\nif (t < 16)\na = sc_shuffle_xor(a, 1);\ny[t] = a;",
     "wrong number of lanes: 16 of 32 arrived at sc_shuffle_xor", NULL, 64},
    {"half_warp_at_barrier", "if (sc_lane() < 31)\nsc_sync_warp();\nsc_sync();", "thread 31 waits at sc_sync", "thread 63 waits at sc_sync",
     64},
    {"warp_of_two_minds", "if (sc_lane() < 16)\nsc_sync_warp();\nelse\nsc_ballot(true);", "divergent warp: ", NULL, 64},
    {"lane_outside", "y[t] = sc_shuffle(x[t], sc_lane() + 1);", "gives sc_shuffle 32, which is no lane", NULL, 64},
    {"row_unaligned", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(2));", "no multiple of 16", NULL, 32},
    {"row_outside", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(2048));", "of shared memory, which has 2048", NULL, 32},
    {"row_never_written", "uint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(0));", "never written", NULL, 32},
    {"row_race", "s[t] = 1.0f;\nuint32_t r[4];\nsc_load_matrices(r, sc_shared<uint16_t>(16 * (sc_lane() % 4)));", "with no sc_sync_warp",
     NULL, 32},
    {"forever", "while (n > 0)\nsc_sync_warp();\ny[t] = 0.0f;", "goes on and on", NULL, 32},
    {"integer_overflow", "y[t] = (float)((int32_t)n * 16777216 + t);", "an integer overflows", NULL, 64},
    {"integer_by_0", "y[t] = (float)(100 / (t - 9));", "divided by 0", NULL, 64},
    {"shift_too_far", "y[t] = (float)(1u << t);", "a shift has too many bits", NULL, 64},
    {"index_beyond", "float a[4] = {1, 2, 3, 4};\nfor (int i = 0; i < 4; i++)\na[i] += x[t];\ny[t] = a[t % 5];",
     "an index is beyond its array", NULL, 64},
    {"deep_stack", "volatile float many[100000];\nfor (int i = 0; i < n; i++)\nmany[i * 300] = x[i];\ny[t] = many[300 * t];", "stack", NULL,
     64},
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
                             "SC_KERNEL(32, 1) void addresses(const float *x, float *y" TAIL "{\n"
                             "    y[32 * sc_block() + sc_thread()] = (float)((uint64_t)x >> 6 & 0xffffffu);\n"
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

static const char MATRICES[] =
    "SC_KERNEL(32, 1) void multiply_bf16(const uint32_t *a, const uint32_t *b, float *c" TAIL "{\n"
    "    uint32_t r[4];\n"
    "    float sum[4];\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        r[i] = a[4 * sc_lane() + i];\n"
    "        sum[i] = c[4 * sc_lane() + i];\n"
    "    }\n"
    "    sc_mma_bf16(sum, r, b[2 * sc_lane()], b[2 * sc_lane() + 1]);\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        c[4 * sc_lane() + i] = sum[i];\n"
    "}\n"
    "SC_KERNEL(32, 1) void multiply_f16(const uint32_t *a, const uint32_t *b, float *c" TAIL "{\n"
    "    uint32_t r[4];\n"
    "    float sum[4];\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        r[i] = a[4 * sc_lane() + i];\n"
    "        sum[i] = c[4 * sc_lane() + i];\n"
    "    }\n"
    "    sc_mma_f16(sum, r, b[2 * sc_lane()], b[2 * sc_lane() + 1]);\n"
    "    for (int i = 0; i < 4; i++)\n"
    "        c[4 * sc_lane() + i] = sum[i];\n"
    "}\n"
    /* rows of 8 elements at places that the host gives */
    "SC_KERNEL(32, 1) void load(const uint16_t *x, const int32_t *rows, uint32_t *plain, uint32_t *transposed" TAIL "{\n"
    "    sc_shared_ptr<uint16_t> s = sc_shared<uint16_t>(0);\n"
    "    for (int i = sc_lane(); i < 512; i += 32)\n"
    "        s[i] = x[i];\n"
    "    sc_sync_warp();\n"
    "    uint32_t r[4], t[4];\n"
    "    sc_load_matrices(r, s + rows[sc_lane()]);\n"
    "    sc_load_matrices_transposed(t, s + rows[sc_lane()]);\n"
    "    for (int i = 0; i < 4; i++) {\n"
    "        plain[4 * sc_lane() + i] = r[i];\n"
    "        transposed[4 * sc_lane() + i] = t[i];\n"
    "    }\n"
    "}\n"
    /* a tile of a product as kernels do it: 16x16 by 16x16, b as it lies, row by row */
    "SC_KERNEL(32, 1) void tile(const uint16_t *a, const uint16_t *b, float *c" TAIL "{\n"
    "    sc_shared_ptr<uint16_t> s = sc_shared<uint16_t>(0), t = sc_shared<uint16_t>(512);\n"
    "    int row = sc_lane() % 16, half = sc_lane() / 16 * 8;\n"
    "    s.store<8>(16 * row + half, sc_load<8>(a + 16 * row + half));\n"
    "    t.store<8>(16 * row + half, sc_load<8>(b + 16 * row + half));\n"
    "    sc_sync_warp();\n"
    "    uint32_t x[4], y[4];\n"
    "    sc_load_matrices(x, s + 16 * row + half);\n"
    "    sc_load_matrices_transposed(y, t + 16 * row + half);\n"
    "    for (int n = 0; n < 2; n++) {\n"
    "        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};\n"
    "        sc_mma_bf16(sum, x, y[2 * n], y[2 * n + 1]);\n"
    "        for (int i = 0; i < 4; i++)\n"
    "            c[16 * (sc_lane() / 4 + i / 2 * 8) + 8 * n + sc_lane() % 4 * 2 + i % 2] = sum[i];\n"
    "    }\n"
    "}\n";

#define STAGE "(const float *x, const float *y, float *z, float *scratch, int64_t count" TAIL
static const char STAGES[] = "SC_KERNEL(32, 1) void stage_0" STAGE "{\n"
                             "    int64_t i = 32 * sc_block() + sc_thread();\n"
                             "    if (i < count)\n"
                             "        scratch[i] = x[i] + (float)sc_call[0];\n"
                             "}\n"
                             "SC_KERNEL(32, 1) void stage_1" STAGE "{\n"
                             "    int64_t i = 32 * sc_block() + sc_thread();\n"
                             "    if (i < count)\n"
                             "        z[i] = scratch[count - 1 - i] + y[i];\n"
                             "}\n";

static const char CONVERSIONS[] = "SC_KERNEL(32, 1) void convert(const float *x, uint32_t *pairs, float *back" TAIL "{\n"
                                  "    int t = sc_thread();\n"
                                  "    pairs[2 * t] = sc_pack_bf16(x[2 * t], x[2 * t + 1]);\n"
                                  "    uint32_t pair = pairs[2 * t + 1] = sc_pack_f16(x[2 * t], x[2 * t + 1]);\n"
                                  "    back[2 * t] = sc_f16_to_f32((uint16_t)pair);\n"
                                  "    back[2 * t + 1] = sc_f16_to_f32((uint16_t)(pair >> 16));\n"
                                  "    if (t > 4)\n"
                                  "        sc_fail(sc_failure, (uint64_t)(100 - t) << 40);\n"
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
        sc_strbuf_printf(&mistakes,
                         "SC_KERNEL(64, 1) void %s" ARGS "{\n"
                         "int t = sc_thread();\nsc_shared_ptr<float> s = sc_shared<float>(0);\n%s\n}\n",
                         MISTAKES[i].name, MISTAKES[i].body);
    /* every helper of emitted code behind the machine's own: they are C++, too */
    for (int i = 0; i < SC_HELPER_COUNT; i++) {
        if (((sc_helper_set)1 << i & SC_CUDA_MACHINE_HELPERS) == 0)
            sc_strbuf_add(&helpers, sc_helper_text((sc_helper)i));
    }
    sc_strbuf_add(&helpers, "SC_KERNEL(64, 1) void with_helpers" ARGS "{\n"
                            "    int t = sc_thread();\n"
                            "    y[t] = t < n ? sc_bf16_to_f32(sc_f32_to_bf16(sc_exp_f32(sc_log_f32(x[t] + 1.0f)))) : 0.0f;\n"
                            "}\n");
    const char *texts[] = {GOOD, mistakes.data, BLOCKS, LINES, MATRICES, STAGES, CONVERSIONS, helpers.data};
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
                fail_msg("%s: y[%d] is %g, not %g", entry, (int)i, (double)f.y[i], (double)result(i));
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
    return (float)(i / 64 * 64 + 63 - i % 64);
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

/* Of an access without a wrapper the line is found in the object, where there is an addr2line. */
static void test_reports_have_lines(void **state)
{
    (void)state;
    bool has_tool = system("addr2line --version >/dev/null 2>&1") == 0;
    for (int i = 0; i < 3; i++) {
        static const char *const entries[] = {"array_at_line_5", "fault_at_line_11", "wrapper_at_line_17"};
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
    const sc_machine_kernel *kernel = sc_machine_kernel_named(module, "load");
    assert_non_null(kernel);
    assert_int_equal(kernel->param_count, 6);
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
    for (const char *at = strstr(sc_cuda_machine_text, "sc_"); at != NULL; at = strstr(at + 1, "sc_")) {
        size_t length = 0;
        while (is_name(at[length]))
            length++;
        static const char own[] = "sc_shared_memory";
        if (is_name(at[-1]) || (length == strlen(own) && strncmp(at, own, length) == 0))
            continue;
        count++;
        if (!names(sc_machine_kernel_text, at, length))
            fail_msg("test/cuda_on_cpu/machine.h has no %.*s", (int)length, at);
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

/* ---- matrices ---- */

/* A warp's kernel as a function under all schedules; the failure. */
static uint64_t run_arguments(const char *entry, uint32_t shared_bytes, sc_machine_argument *arguments, uint32_t count)
{
    sc_machine_stage stage = {.entry = entry, .blocks = 1, .threads = 32, .shared_bytes = shared_bytes};
    sc_machine_function function = {.module = module, .stages = &stage, .stage_count = 1, .arguments = arguments, .argument_count = count};
    uint64_t failure = 0;
    sc_machine_report report;
    if (!sc_machine_run_function(&function, &failure, &report))
        fail_msg("%s", report.text);
    return failure;
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Of multiples of 1/16 below 4: exact. */
static uint16_t f16_of(float value)
{
    if (value == 0)
        return 0;
    int exponent;
    float significand = frexpf(fabsf(value), &exponent);
    return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 | ((int)(significand * 2048.0f) - 1024));
}

/* Sets element i (0 ..) of a lane's fragment in 16-bit halves. */
static void set_half(uint32_t *fragment, int lane, int registers, int i, uint16_t bits)
{
    fragment[lane * registers + i / 2] |= (uint32_t)bits << (i % 2 * 16);
}

/* Where PTX ISA 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating point type", puts elements, asked the other way round: groupID
 * is the row's (of B the column's) remainder of 8, threadID_in_group half the other's. */
static void test_products_have_the_layout_of_ptx(void **state)
{
    (void)state;
    uint32_t seed = 7;
    for (int trial = 0; trial < 4; trial++) {
        bool is_bf16 = trial % 2 == 0;
        float a[16][16], b[16][8], c[16][8], fragment_c[128];
        uint32_t fragment_a[128] = {0}, fragment_b[64] = {0};
        for (int row = 0; row < 16; row++) {
            for (int k = 0; k < 16; k++) {
                a[row][k] = (float)((int)(next_random(&seed) % 127) - 63) / 16;
                int i = k % 2 + (row >= 8 ? 2 : 0) + (k >= 8 ? 4 : 0);
                set_half(fragment_a, row % 8 * 4 + k % 8 / 2, 4, i, is_bf16 ? bf16_of(a[row][k]) : f16_of(a[row][k]));
            }
        }
        for (int k = 0; k < 16; k++) {
            for (int column = 0; column < 8; column++) {
                b[k][column] = (float)((int)(next_random(&seed) % 127) - 63) / 16;
                set_half(fragment_b, column * 4 + k % 8 / 2, 2, k % 2 + (k >= 8 ? 2 : 0),
                         is_bf16 ? bf16_of(b[k][column]) : f16_of(b[k][column]));
            }
        }
        for (int row = 0; row < 16; row++) {
            for (int column = 0; column < 8; column++) {
                c[row][column] = (float)(next_random(&seed) % 100);
                fragment_c[(row % 8 * 4 + column / 2) * 4 + column % 2 + (row >= 8 ? 2 : 0)] = c[row][column];
            }
        }
        sc_machine_argument arguments[] = {{"a", SC_MACHINE_IN, fragment_a, sizeof fragment_a, 0},
                                           {"b", SC_MACHINE_IN, fragment_b, sizeof fragment_b, 0},
                                           {"c", SC_MACHINE_INOUT, fragment_c, sizeof fragment_c, 0}};
        run_arguments(is_bf16 ? "multiply_bf16" : "multiply_f16", 0, arguments, 3);
        for (int row = 0; row < 16; row++) {
            for (int column = 0; column < 8; column++) {
                float sum = c[row][column]; /* multiples of 2^-8 below 2^16: exact in any order */
                for (int k = 0; k < 16; k++)
                    sum += a[row][k] * b[k][column];
                assert_true(fragment_c[(row % 8 * 4 + column / 2) * 4 + column % 2 + (row >= 8 ? 2 : 0)] == sum);
            }
        }
    }
}

/* PTX ISA 9.7.14.5.15, "ldmatrix": threads 8 i .. 8 i + 7 have the rows of matrix i; thread 4 row + column / 2 gets element column % 2. */
static void test_matrices_are_loaded_as_ptx_says(void **state)
{
    (void)state;
    uint16_t x[512];
    int32_t rows[32];
    uint32_t plain[128], transposed[128], seed = 3;
    for (int i = 0; i < 512; i++)
        x[i] = (uint16_t)(1000 + i);
    for (int i = 0; i < 32; i++)
        rows[i] = 8 * (int32_t)(next_random(&seed) % 64);
    sc_machine_argument arguments[] = {{"x", SC_MACHINE_IN, x, sizeof x, 0},
                                       {"rows", SC_MACHINE_IN, rows, sizeof rows, 0},
                                       {"plain", SC_MACHINE_OUT, plain, sizeof plain, 0},
                                       {"transposed", SC_MACHINE_OUT, transposed, sizeof transposed, 0}};
    run_arguments("load", 1024, arguments, 4);
    for (int matrix = 0; matrix < 4; matrix++) {
        for (int row = 0; row < 8; row++) {
            for (int column = 0; column < 8; column++) {
                uint16_t element = x[rows[8 * matrix + row] + column];
                assert_int_equal(plain[4 * (4 * row + column / 2) + matrix] >> (column % 2 * 16) & 0xffffu, element);
                assert_int_equal(transposed[4 * (4 * column + row / 2) + matrix] >> (row % 2 * 16) & 0xffffu, element);
            }
        }
    }
}

static void test_a_tile_is_a_product(void **state)
{
    (void)state;
    uint16_t a[256], b[256];
    float x[256], y[256], c[256];
    uint32_t seed = 5;
    for (int i = 0; i < 256; i++) {
        a[i] = bf16_of(x[i] = (float)((int)(next_random(&seed) % 127) - 63) / 16);
        b[i] = bf16_of(y[i] = (float)((int)(next_random(&seed) % 127) - 63) / 16);
    }
    sc_machine_argument arguments[] = {
        {"a", SC_MACHINE_IN, a, sizeof a, 0}, {"b", SC_MACHINE_IN, b, sizeof b, 0}, {"c", SC_MACHINE_OUT, c, sizeof c, 0}};
    run_arguments("tile", 1024, arguments, 3);
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 16; column++) {
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += x[16 * row + k] * y[16 * k + column];
            assert_true(c[16 * row + column] == sum);
        }
    }
}

/* ---- conversions, failures, functions ---- */

static void test_conversions(void **state)
{
    (void)state;
    /* value, bf16, f16, the f16's value */
    static const struct {
        float value;
        uint16_t bf16, f16;
        float back;
    } cases[] = {
        {0.0f, 0, 0, 0.0f},
        {-0.0f, 0x8000, 0x8000, -0.0f},
        {1.0f, 0x3f80, 0x3c00, 1.0f},
        {0x1.01p0f, 0x3f80, 0x3c04, 0x1.01p0f}, /* half a step of bf16: to even, down */
        {0x1.03p0f, 0x3f82, 0x3c0c, 0x1.03p0f}, /* to even, up */
        {0x1.002p0f, 0x3f80, 0x3c00, 1.0f},     /* half a step of f16 */
        {0x1.006p0f, 0x3f80, 0x3c02, 0x1.008p0f},
        {0x1.ffp0f, 0x4000, 0x3ffc, 0x1.ffp0f}, /* carries into the exponent */
        {65504.0f, 0x4780, 0x7bff, 65504.0f},
        {65519.0f, 0x4780, 0x7bff, 65504.0f},
        {65520.0f, 0x4780, 0x7c00, INFINITY},
        {-1e30f, 0xf14a, 0xfc00, -INFINITY},
        {0x1p-14f, 0x3880, 0x0400, 0x1p-14f},
        {0x1.ffep-15f, 0x3880, 0x0400, 0x1p-14f}, /* rounds up to a normal */
        {0x1p-24f, 0x3380, 0x0001, 0x1p-24f},
        {0x1p-25f, 0x3300, 0x0000, 0.0f}, /* half the smallest: to even */
        {0x1.8p-24f, 0x33c0, 0x0002, 0x1p-23f},
        {-0x1.cp-20f, 0xb5e0, 0x801c, -0x1.cp-20f},
        {INFINITY, 0x7f80, 0x7c00, INFINITY},
        {-INFINITY, 0xff80, 0xfc00, -INFINITY},
        {NAN, 0x7fff, 0x7fff, NAN},
        {0x1.fffffep127f, 0x7f80, 0x7c00, INFINITY},
    };
    enum { CASES = sizeof cases / sizeof *cases };
    float x[64] = {0}, back[64];
    uint32_t pairs[64];
    for (int i = 0; i < CASES; i++)
        x[i] = cases[i].value;
    sc_machine_argument arguments[] = {{"x", SC_MACHINE_IN, x, sizeof x, 0},
                                       {"pairs", SC_MACHINE_OUT, pairs, sizeof pairs, 0},
                                       {"back", SC_MACHINE_OUT, back, sizeof back, 0}};
    assert_true(run_arguments("convert", 0, arguments, 3) == (uint64_t)(100 - 31) << 40);
    for (int i = 0; i < CASES; i++) {
        assert_int_equal(pairs[i / 2 * 2] >> (i % 2 * 16) & 0xffffu, cases[i].bf16);
        assert_int_equal(pairs[i / 2 * 2 + 1] >> (i % 2 * 16) & 0xffffu, cases[i].f16);
        if (isnan(cases[i].back))
            assert_true(isnan(back[i]));
        else
            assert_true(back[i] == cases[i].back && signbit(back[i]) == signbit(cases[i].back));
    }
}

static void test_results_that_depend_on_the_run(void **state)
{
    (void)state;
    float x[1] = {1}, y[64];
    sc_machine_argument arguments[] = {{"x", SC_MACHINE_IN, x, sizeof x, 0}, {"y", SC_MACHINE_OUT, y, sizeof y, 0}};
    sc_machine_stage stage = {.entry = "addresses", .blocks = 2, .threads = 32};
    sc_machine_function function = {.module = module, .stages = &stage, .stage_count = 1, .arguments = arguments, .argument_count = 2};
    uint64_t failure;
    sc_machine_report report;
    assert_false(sc_machine_run_function(&function, &failure, &report));
    if (strstr(report.text, "of y depends on the schedule") == NULL)
        fail_msg("%s", report.text);
}

/* Two stages that hand on through the scratch; the step, a value, an array that two arguments share. */
static void test_functions_have_stages(void **state)
{
    (void)state;
    float x[100], y[100];
    for (int i = 0; i < 100; i++)
        x[i] = y[i] = (float)i;
    sc_machine_argument arguments[] = {
        {"x", SC_MACHINE_IN, x, sizeof x, 0}, {"y in", SC_MACHINE_INOUT, y, sizeof y, 0}, {"y out", SC_MACHINE_INOUT, y, sizeof y, 2}};
    sc_machine_stage stages[] = {{.entry = "stage_0", .blocks = 4, .threads = 32}, {.entry = "stage_1", .blocks = 4, .threads = 32}};
    int64_t count = 100;
    sc_machine_function function = {.module = module,
                                    .stages = stages,
                                    .stage_count = 2,
                                    .arguments = arguments,
                                    .argument_count = 3,
                                    .scratch_bytes = 400,
                                    .values = &count,
                                    .value_count = 1,
                                    .step = 7};
    uint64_t failure;
    sc_machine_report report;
    if (!sc_machine_run_function(&function, &failure, &report))
        fail_msg("%s", report.text);
    assert_true(failure == UINT64_MAX);
    for (int i = 0; i < 100; i++)
        assert_true(y[i] == (float)(99 - i) + 7.0f + (float)i);
    function.stage_count = 1;
    function.stages = stages + 1; /* without the first, nobody wrote the scratch */
    assert_false(sc_machine_run_function(&function, &failure, &report));
    if (strstr(report.text, "of the scratch, which nobody wrote") == NULL)
        fail_msg("%s", report.text);
    function.value_count = 0;
    assert_false(sc_machine_run_function(&function, &failure, &report));
    assert_string_equal(report.text, "stage_1 has 7 parameters: the function's are 6");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_kernels),
        cmocka_unit_test(test_mistakes_are_reported),
        cmocka_unit_test(test_blocks_that_touch_the_same),
        cmocka_unit_test(test_reports_have_lines),
        cmocka_unit_test(test_each_block_runs_once),
        cmocka_unit_test(test_launches_that_cannot_be),
        cmocka_unit_test(test_what_lies_beside_arrays_is_checked),
        cmocka_unit_test(test_bounds_only),
        cmocka_unit_test(test_machines_have_the_same_names),
        cmocka_unit_test(test_threads_of_the_host),
        cmocka_unit_test(test_products_have_the_layout_of_ptx),
        cmocka_unit_test(test_matrices_are_loaded_as_ptx_says),
        cmocka_unit_test(test_a_tile_is_a_product),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_results_that_depend_on_the_run),
        cmocka_unit_test(test_functions_have_stages),
    };
    return cmocka_run_group_tests(tests, compile_all, unload_all);
}
