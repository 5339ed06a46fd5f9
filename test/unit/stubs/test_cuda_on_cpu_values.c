/* What wrappers compute on the engine of test/cuda_on_cpu: the layouts of fragments against the
 * formulas of the PTX ISA, conversions; and functions of several stages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last */
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/harness.h"

/* What functions have behind their arguments. */
#define TAIL ", const int64_t *sc_call, uint64_t *sc_failure)\n"

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
    "SC_KERNEL(32, 1) void load(const uint16_t *x, const int32_t *rows, uint32_t *plain, uint32_t "
    "*transposed" TAIL "{\n"
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
    "            c[16 * (sc_lane() / 4 + i / 2 * 8) + 8 * n + sc_lane() % 4 * 2 + i % 2] = "
    "sum[i];\n"
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

static const char CONVERSIONS[] =
    "SC_KERNEL(32, 1) void convert(const float *x, uint32_t *pairs, float *back" TAIL "{\n"
    "    int t = sc_thread();\n"
    "    pairs[2 * t] = sc_pack_bf16(x[2 * t], x[2 * t + 1]);\n"
    "    uint32_t pair = pairs[2 * t + 1] = sc_pack_f16(x[2 * t], x[2 * t + 1]);\n"
    "    back[2 * t] = sc_f16_to_f32((uint16_t)pair);\n"
    "    back[2 * t + 1] = sc_f16_to_f32((uint16_t)(pair >> 16));\n"
    "    if (t > 4)\n"
    "        sc_fail(sc_failure, (uint64_t)(100 - t) << 40);\n"
    "}\n";

static const char ADDRESSES[] =
    "SC_KERNEL(32, 1) void addresses(const float *x, float *y" TAIL "{\n"
    "    y[32 * sc_block() + sc_thread()] = (float)((uint64_t)x >> 6 & 0xffffffu);\n"
    "}\n";

static const char APPROXIMATIONS[] = "SC_KERNEL(32, 1) void approximate(const float *x, const "
                                     "float *y, float *out, int64_t count" TAIL "{\n"
                                     "    for (int64_t i = sc_thread(); i < count; i += 32) {\n"
                                     "        out[i] = sc_exp_f32(x[i]);\n"
                                     "        out[count + i] = sc_exp2_fast(x[i]);\n"
                                     "        out[2 * count + i] = sc_divide_f32(x[i], y[i]);\n"
                                     "        out[3 * count + i] = sc_reciprocal_fast(y[i]);\n"
                                     "        out[4 * count + i] = sc_sqrt_f32(y[i]);\n"
                                     "        out[5 * count + i] = sc_rsqrt_f32(y[i]);\n"
                                     "    }\n"
                                     "}\n";

static sc_machine_module *module;

static int compile_all(void **state)
{
    (void)state;
    const char *texts[] = {MATRICES, STAGES, CONVERSIONS, ADDRESSES, APPROXIMATIONS};
    sc_machine_report report;
    module = sc_machine_compile(texts, sizeof texts / sizeof *texts, &report);
    if (module == NULL)
        print_error("%s\n", report.text);
    return module == NULL ? -1 : 0;
}

static int unload_all(void **state)
{
    (void)state;
    sc_machine_unload(module);
    return 0;
}

/* ---- matrices ---- */

/* A warp's kernel as a function under all schedules; the failure. */
static uint64_t run_arguments(const char *entry, uint32_t shared_bytes,
                              sc_machine_argument *arguments, uint32_t count)
{
    sc_machine_stage stage = {
        .entry = entry, .blocks = 1, .threads = 32, .shared_bytes = shared_bytes};
    sc_machine_function function = {.module = module,
                                    .stages = &stage,
                                    .stage_count = 1,
                                    .arguments = arguments,
                                    .argument_count = count};
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
    return (uint16_t)((value < 0 ? 0x8000 : 0) | (exponent + 14) << 10 |
                      ((int)(significand * 2048.0f) - 1024));
}

/* Sets element i (0 ..) of a lane's fragment in 16-bit halves. */
static void set_half(uint32_t *fragment, int lane, int registers, int i, uint16_t bits)
{
    fragment[lane * registers + i / 2] |= (uint32_t)bits << (i % 2 * 16);
}

/* Where PTX ISA 9.7.14.5.8, "Matrix Fragments for mma.m16n8k16 with floating point type", puts
 * elements, asked the other way round: groupID is the row's (of B the column's) remainder of 8,
 * threadID_in_group half the other's. */
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
                set_half(fragment_a, row % 8 * 4 + k % 8 / 2, 4, i,
                         is_bf16 ? bf16_of(a[row][k]) : f16_of(a[row][k]));
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
                fragment_c[(row % 8 * 4 + column / 2) * 4 + column % 2 + (row >= 8 ? 2 : 0)] =
                    c[row][column];
            }
        }
        sc_machine_argument arguments[] = {
            {"a", SC_MACHINE_IN, fragment_a, sizeof fragment_a, 0},
            {"b", SC_MACHINE_IN, fragment_b, sizeof fragment_b, 0},
            {"c", SC_MACHINE_INOUT, fragment_c, sizeof fragment_c, 0}};
        run_arguments(is_bf16 ? "multiply_bf16" : "multiply_f16", 0, arguments, 3);
        for (int row = 0; row < 16; row++) {
            for (int column = 0; column < 8; column++) {
                float sum = c[row][column]; /* multiples of 2^-8 below 2^16: exact in any order */
                for (int k = 0; k < 16; k++)
                    sum += a[row][k] * b[k][column];
                assert_true(
                    fragment_c[(row % 8 * 4 + column / 2) * 4 + column % 2 + (row >= 8 ? 2 : 0)] ==
                    sum);
            }
        }
    }
}

/* PTX ISA 9.7.14.5.15, "ldmatrix": threads 8 i .. 8 i + 7 have the rows of matrix i; thread 4 row +
 * column / 2 gets element column % 2. */
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
    sc_machine_argument arguments[] = {
        {"x", SC_MACHINE_IN, x, sizeof x, 0},
        {"rows", SC_MACHINE_IN, rows, sizeof rows, 0},
        {"plain", SC_MACHINE_OUT, plain, sizeof plain, 0},
        {"transposed", SC_MACHINE_OUT, transposed, sizeof transposed, 0}};
    run_arguments("load", 1024, arguments, 4);
    for (int matrix = 0; matrix < 4; matrix++) {
        for (int row = 0; row < 8; row++) {
            for (int column = 0; column < 8; column++) {
                uint16_t element = x[rows[8 * matrix + row] + column];
                assert_int_equal(plain[4 * (4 * row + column / 2) + matrix] >> (column % 2 * 16) &
                                     0xffffu,
                                 element);
                assert_int_equal(transposed[4 * (4 * column + row / 2) + matrix] >> (row % 2 * 16) &
                                     0xffffu,
                                 element);
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
    sc_machine_argument arguments[] = {{"a", SC_MACHINE_IN, a, sizeof a, 0},
                                       {"b", SC_MACHINE_IN, b, sizeof b, 0},
                                       {"c", SC_MACHINE_OUT, c, sizeof c, 0}};
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

/* All are within what codegen/cuda/machine.cu.h promises of the GPU's, and none is exact; what has
 * no digits is as it should. */
static void test_approximations_are_as_far_off_as_they_may(void **state)
{
    (void)state;
    enum { COUNT = 4000, ODD = 6, WHICH = 6 };
    static const double within[WHICH] = {12, 2, 2, 1, 2, 2};
    static const float odd[ODD] = {0.0f, INFINITY, -INFINITY, NAN, -200.0f, 200.0f};
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y),
          *out = malloc(WHICH * COUNT * sizeof *out);
    uint32_t seed = 5, inexact[WHICH] = {0};
    int64_t count = COUNT;
    for (int i = 0; i < COUNT; i++) {
        x[i] = i < ODD
                   ? odd[i]
                   : ((float)next_random(&seed) / 32768.0f - 1.0f) * (i % 2 == 0 ? 16.0f : 80.0f);
        y[i] = i < ODD ? odd[i]
                       : ldexpf(1.0f + (float)next_random(&seed) / 65536.0f,
                                (int)next_random(&seed) % 40 - 20);
    }
    sc_machine_argument arguments[] = {
        {"x", SC_MACHINE_IN, x, COUNT * sizeof *x, 0},
        {"y", SC_MACHINE_IN, y, COUNT * sizeof *y, 0},
        {"out", SC_MACHINE_OUT, out, WHICH * COUNT * sizeof *out, 0}};
    sc_machine_stage stage = {.entry = "approximate", .blocks = 1, .threads = 32};
    sc_machine_function function = {.module = module,
                                    .stages = &stage,
                                    .stage_count = 1,
                                    .arguments = arguments,
                                    .argument_count = 3,
                                    .values = &count,
                                    .value_count = 1,
                                    .runs = 1};
    uint64_t failure;
    sc_machine_report report;
    if (!sc_machine_run_function(&function, &failure, &report))
        fail_msg("%s", report.text);
    for (int i = 0; i < COUNT; i++) {
        const double a = (double)x[i], b = (double)y[i],
                     exact[] = {exp(a), exp2(a), a / b, 1 / b, sqrt(b), 1 / sqrt(b)};
        for (int w = 0; w < WHICH; w++) {
            float got = out[w * COUNT + i], right = (float)exact[w];
            if (i < ODD || !(fabsf(right) >= 0x1p-126f)) {
                if (fabsf(right) < 0x1p-126f ? got != 0.0f
                    : isnan(right)           ? !isnan(got)
                    : isinf(right)           ? got != right
                                             : false)
                    fail_msg("%d of %g, %g: %g, not %g", w, a, b, (double)got, (double)right);
                continue;
            }
            int exponent;
            frexp(exact[w], &exponent);
            double limit = (w == 0 && fabs(a) <= 16 ? 5 : within[w]) + 0.6,
                   off = fabs((double)got - exact[w]) / ldexp(1, exponent - 24);
            if (!(off <= limit))
                fail_msg("%d of %g, %g is %.2f ulp off", w, a, b, off);
            inexact[w] += got != right;
        }
    }
    for (int w = 0; w < WHICH; w++)
        assert_true(inexact[w] > COUNT / 4);
    free(x);
    free(y);
    free(out);
}

static void test_results_that_depend_on_the_run(void **state)
{
    (void)state;
    float x[1] = {1}, y[64];
    sc_machine_argument arguments[] = {{"x", SC_MACHINE_IN, x, sizeof x, 0},
                                       {"y", SC_MACHINE_OUT, y, sizeof y, 0}};
    sc_machine_stage stage = {.entry = "addresses", .blocks = 2, .threads = 32};
    sc_machine_function function = {.module = module,
                                    .stages = &stage,
                                    .stage_count = 1,
                                    .arguments = arguments,
                                    .argument_count = 2};
    uint64_t failure;
    sc_machine_report report;
    assert_false(sc_machine_run_function(&function, &failure, &report));
    if (strstr(report.text, "of y depends on the schedule") == NULL)
        fail_msg("%s", report.text);
}

/* Two stages that hand on through the scratch; the step, a value, an array that two arguments
 * share. */
static void test_functions_have_stages(void **state)
{
    (void)state;
    float x[100], y[100];
    for (int i = 0; i < 100; i++)
        x[i] = y[i] = (float)i;
    sc_machine_argument arguments[] = {{"x", SC_MACHINE_IN, x, sizeof x, 0},
                                       {"y in", SC_MACHINE_INOUT, y, sizeof y, 0},
                                       {"y out", SC_MACHINE_INOUT, y, sizeof y, 2}};
    sc_machine_stage stages[] = {{.entry = "stage_0", .blocks = 4, .threads = 32},
                                 {.entry = "stage_1", .blocks = 4, .threads = 32}};
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
        cmocka_unit_test(test_products_have_the_layout_of_ptx),
        cmocka_unit_test(test_matrices_are_loaded_as_ptx_says),
        cmocka_unit_test(test_a_tile_is_a_product),
        cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_approximations_are_as_far_off_as_they_may),
        cmocka_unit_test(test_results_that_depend_on_the_run),
        cmocka_unit_test(test_functions_have_stages),
    };
    return cmocka_run_group_tests(tests, compile_all, unload_all);
}
