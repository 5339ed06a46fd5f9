/* Kernels by hand on the engine of test/cuda_on_cpu: those that are right, under every schedule, and those that are wrong in one way, whose
 * report says in which. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka last */
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "test/cuda_on_cpu/harness.h"

static const char GOOD[] = "SC_KERNEL(64, 1) void twice(const float *x, float *y, int64_t n)\n"
                           "{\n"
                           "    int64_t i = sc_block() * sc_threads() + sc_thread();\n"
                           "    if (i < n)\n"
                           "        y[i] = 2.0f * x[i];\n"
                           "}\n"
                           "SC_KERNEL(64, 1) void reverse(const float *x, float *y)\n"
                           "{\n"
                           "    sc_shared_ptr<float> s = sc_shared<float>(0);\n"
                           "    s[sc_thread()] = x[sc_block() * 64 + sc_thread()];\n"
                           "    sc_sync();\n"
                           "    y[sc_block() * 64 + sc_thread()] = s[63 - sc_thread()];\n"
                           "}\n"
                           "SC_KERNEL(64, 1) void sum(const float *x, float *y)\n"
                           "{\n"
                           "    float sum = x[sc_thread()];\n"
                           "    for (int mask = 16; mask > 0; mask /= 2)\n"
                           "        sum += sc_shuffle_xor(sum, mask);\n"
                           "    sc_shared_ptr<float> s = sc_shared<float>(0);\n"
                           "    if (sc_lane() == 0)\n"
                           "        s[sc_warp()] = sum;\n"
                           "    sc_sync();\n"
                           "    y[sc_thread()] = s[0] + s[1];\n"
                           "}\n";

typedef struct fixture {
    sc_machine_module *module;
    sc_machine_memory *memory;
    sc_machine_report report;
    float *x, *y;
} fixture;

static void begin(fixture *f, const char *text, int count)
{
    f->module = sc_machine_compile(&text, 1, &f->report);
    if (f->module == NULL)
        fail_msg("%s", f->report.text);
    f->memory = sc_machine_memory_new();
    f->x = sc_machine_alloc(f->memory, (size_t)count * sizeof *f->x, SC_MACHINE_AT_END, "x");
    f->y = sc_machine_alloc(f->memory, (size_t)count * sizeof *f->y, SC_MACHINE_AT_END, "y");
    for (int i = 0; i < count; i++)
        f->x[i] = (float)i;
    sc_machine_read_only(f->memory, f->x, true);
}

static void end(fixture *f)
{
    sc_machine_memory_free(f->memory);
    sc_machine_unload(f->module);
}

static void test_runs(void **state)
{
    (void)state;
    fixture f;
    begin(&f, GOOD, 100);
    int64_t n = 100;
    void *params[] = {&f.x, &f.y, &n};
    sc_machine_launch launch = {.module = f.module, .entry = "twice", .blocks = 2, .threads = 64, .params = params, .memory = f.memory};
    if (!sc_machine_run(&launch, &f.report))
        fail_msg("%s", f.report.text);
    for (int i = 0; i < 100; i++)
        assert_true(f.y[i] == 2.0f * (float)i);
    launch.entry = "reverse";
    launch.blocks = 1;
    launch.shared_bytes = 256;
    if (!sc_machine_run(&launch, &f.report))
        fail_msg("%s", f.report.text);
    for (int i = 0; i < 64; i++)
        assert_true(f.y[i] == (float)(63 - i));
    launch.entry = "sum";
    if (!sc_machine_run(&launch, &f.report))
        fail_msg("%s", f.report.text);
    for (int i = 0; i < 64; i++)
        assert_true(f.y[i] == 63.0f * 32.0f);
    n = 101;
    launch.entry = "twice";
    launch.blocks = 2;
    assert_false(sc_machine_run(&launch, &f.report));
    print_message("%s\n", f.report.text);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
