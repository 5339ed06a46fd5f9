/* NVRTC: a source becomes machine code and PTX, and what is wrong with it is heard. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/cuda/emit.h"
#include "codegen/toolchain/nvrtc.h"
#include "support/context.h"

static const char source[] =
    "extern \"C\" __global__ void __launch_bounds__(128) scale_0(const float *x, float *y)\n"
    "{\n"
    "    __shared__ float held[256];\n"
    "    held[sc_thread()] = x[sc_block() * 128 + sc_thread()];\n"
    "    sc_sync();\n"
    "    y[sc_block() * 128 + sc_thread()] = 2.0f * held[127 - sc_thread()];\n"
    "}\n"
    "extern \"C\" __global__ void __launch_bounds__(1024, 2) greedy_1(const float *x, float *y)\n"
    "{\n"
    "    float a[64];\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        a[i] = x[i * sc_thread()];\n"
    "    for (int j = 0; j < 64; j++)\n"
    "        for (int i = 0; i < 64; i++)\n"
    "            a[i] = a[i] * x[j] + a[63 - i];\n"
    "    for (int i = 0; i < 64; i++)\n"
    "        y[i * sc_thread()] = a[i];\n"
    "}\n";

static sc_nvrtc nvrtc;
static bool is_here;
static shardc_error why_not;

static int open_nvrtc(void **state)
{
    (void)state;
    is_here = sc_nvrtc_open(&nvrtc, &why_not);
    return 0;
}

static int close_nvrtc(void **state)
{
    (void)state;
    if (is_here)
        sc_nvrtc_close(&nvrtc);
    return 0;
}

typedef struct work {
    void (*test)(sc_arena *);
    bool done;
} work;

static void call_test(sc_context *context, void *user)
{
    work *w = user;
    w->test(&context->arena);
    w->done = true;
}

static void in_arena(void **state)
{
    sc_context context;
    work w = {.test = *(void (**)(sc_arena *)) * state};
    assert_true(sc_context_run(&context, 0, call_test, &w));
    assert_true(w.done);
    sc_context_free(&context);
}

static void with_nvrtc(void **state)
{
    if (!is_here) {
        print_message("skipped: %s\n", why_not.text);
        skip();
    }
    in_arena(state);
}

static const char *with_machine(sc_arena *arena, const char *text)
{
    return sc_arena_printf(arena, "%s%s", sc_cuda_machine_text, text);
}

static sc_nvrtc_code compile(sc_arena *arena, const char *text, const char *target)
{
    sc_nvrtc_code code;
    const char *error =
        sc_nvrtc_compile(&nvrtc, with_machine(arena, text), "scale", sc_target_find(target), &code);
    if (error != NULL)
        fail_msg("%s: %s\n%s", target, error, code.log);
    return code;
}

/* Whether a cubin, an ELF file, has the text somewhere: names of kernels are in its table of
 * strings. */
static bool contains(const char *bytes, size_t count, const char *text)
{
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= count; i++) {
        if (memcmp(bytes + i, text, length) == 0)
            return true;
    }
    return false;
}

static void all_targets_compile(sc_arena *arena)
{
    for (size_t i = 0; i < sc_target_count; i++) {
        const sc_target *target = &sc_targets[i];
        if (!sc_target_is_cuda(target))
            continue;
        if (target->capability >= 100 && nvrtc.major < 13)
            continue; /* younger than CUDA 12.0 */
        sc_nvrtc_code code = compile(arena, source, target->name);
        assert_non_null(strstr(code.ptx, ".entry scale_0"));
        assert_non_null(strstr(code.ptx, ".entry greedy_1"));
        assert_int_equal(code.ptx_bytes, strlen(code.ptx) + 1);
        /* never sm_90a */
        assert_non_null(
            strstr(code.ptx, sc_arena_printf(arena, ".target sm_%u\n", target->capability)));
        if (sc_target_is_virtual(target)) {
            assert_null(code.cubin);
        } else {
            assert_memory_equal(code.cubin, "\177ELF", 4);
            assert_true(contains(code.cubin, code.cubin_bytes, "scale_0"));
        }
        sc_nvrtc_code_free(&code);
    }
}

static const sc_cuda_usage *find(const sc_cuda_usages *usages, const char *entry)
{
    for (uint32_t i = 0; i < usages->count; i++) {
        if (strcmp(usages->data[i].entry, entry) == 0)
            return &usages->data[i];
    }
    fail_msg("%s is not in the log", entry);
    return NULL;
}

static void usage_is_read(sc_arena *arena)
{
    sc_cuda_usages usages = {0};
    sc_nvrtc_code code = compile(arena, source, "cuda:sm_90a");
    sc_nvrtc_read_log(arena, code.log, &usages);
    assert_int_equal(usages.count, 2);
    const sc_cuda_usage *scale = find(&usages, "scale_0"), *greedy = find(&usages, "greedy_1");
    assert_true(scale->registers >= 4 && scale->registers <= 64);
    assert_int_equal(scale->shared_bytes, 1024);
    assert_int_equal(scale->spill_store_bytes + scale->spill_load_bytes + scale->stack_bytes, 0);
    assert_true(greedy->registers > 16 && greedy->registers <= 32); /* 2048 threads share 65536 */
    assert_true(greedy->spill_store_bytes > 0 && greedy->spill_load_bytes > 0 &&
                greedy->stack_bytes > 0);
    assert_int_equal(greedy->shared_bytes, 0);
    sc_nvrtc_code_free(&code);
}

/* As the compilers of CUDA 12 and 13 write it. */
static void logs_are_read_without_nvrtc(sc_arena *arena)
{
    static const char log[] = "ptxas info    : 0 bytes gmem\n"
                              "ptxas info    : Compiling entry function 'one_0' for 'sm_90a'\n"
                              "ptxas info    : Function properties for one_0\n"
                              "ptxas         .     744 bytes stack frame, 1848 bytes spill stores, "
                              "1932 bytes spill loads\n"
                              "ptxas info    : Used 32 registers, used 1 barriers, 744 bytes "
                              "cumulative stack size, 4096 bytes smem\n"
                              "ptxas info    : Compile time = 71.615 ms\n"
                              "ptxas info    : Compiling entry function 'one_1' for 'sm_80'\n"
                              "ptxas info    : Function properties for one_1\n"
                              "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                              "ptxas info    : Used 255 registers, 384 bytes cmem[0]";
    sc_cuda_usages usages = {0};
    sc_nvrtc_read_log(arena, log, &usages);
    assert_int_equal(usages.count, 2);
    const sc_cuda_usage *zero = find(&usages, "one_0"), *one = find(&usages, "one_1");
    assert_int_equal(zero->registers, 32);
    assert_int_equal(zero->stack_bytes, 744);
    assert_int_equal(zero->spill_store_bytes, 1848);
    assert_int_equal(zero->spill_load_bytes, 1932);
    assert_int_equal(zero->shared_bytes, 4096);
    assert_int_equal(one->registers, 255);
    assert_int_equal(
        one->stack_bytes + one->spill_store_bytes + one->spill_load_bytes + one->shared_bytes, 0);
    usages.count = 0;
    sc_nvrtc_read_log(arena, "", &usages);
    sc_nvrtc_read_log(
        arena, "error: no kernel 'x'\nUsed 7 registers\nCompiling entry function 'cut", &usages);
    assert_int_equal(usages.count, 0);
}

static void the_compiler_is_heard(sc_arena *arena)
{
    sc_nvrtc_code code;
    const char *bad = with_machine(
        arena, "extern \"C\" __global__ void f(float *x)\n{\n    *x = nothing_of_that_name;\n}\n");
    const char *error =
        sc_nvrtc_compile(&nvrtc, bad, "the_name_of_it", sc_target_find("cuda:sm_80"), &code);
    assert_non_null(error);
    assert_non_null(strstr(code.log, "nothing_of_that_name"));
    assert_non_null(strstr(code.log, "the_name_of_it"));
    assert_null(code.cubin);
    assert_null(code.ptx);
    sc_nvrtc_code_free(&code);
    const sc_target young = {.name = "cuda:sm_9999", .architecture = "sm_9999"};
    error = sc_nvrtc_compile(&nvrtc, source, "scale", &young, &code);
    assert_non_null(error);
    assert_non_null(code.log);
    assert_non_null(strstr(code.log, "arch"));
    sc_nvrtc_code_free(&code);
}

typedef struct job {
    const char *text;
    size_t cubin_bytes;
    const char *error;
} job;

static void *compile_job(void *user)
{
    job *j = user;
    sc_nvrtc_code code;
    for (int i = 0; i < 3 && j->error == NULL; i++) {
        j->error = sc_nvrtc_compile(&nvrtc, j->text, "scale", sc_target_find("cuda:sm_80"), &code);
        j->cubin_bytes = code.cubin_bytes;
        sc_nvrtc_code_free(&code);
    }
    return NULL;
}

static void threads_compile_side_by_side(sc_arena *arena)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    job jobs[THREADS] = {{0}};
    sc_nvrtc_code alone = compile(arena, source, "cuda:sm_80");
    for (int i = 0; i < THREADS; i++) {
        jobs[i].text = with_machine(arena, source);
        assert_int_equal(pthread_create(&threads[i], NULL, compile_job, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_null(jobs[i].error);
        assert_int_equal(jobs[i].cubin_bytes, alone.cubin_bytes);
    }
    sc_nvrtc_code_free(&alone);
}

static void targets_are_of_a_table(sc_arena *arena)
{
    assert_non_null(arena);
    assert_non_null(sc_target_find("cpu"));
    assert_false(sc_target_is_cuda(sc_target_find("cpu")));
    assert_null(sc_target_find("cuda"));
    assert_null(sc_target_find("cuda:sm_77"));
    assert_string_equal(sc_target_nearest("cuda:sm90a"), "cuda:sm_90a");
    assert_int_equal(sc_target_find("cuda:sm_100a")->capability, 100);
    assert_true(sc_target_is_virtual(sc_target_find("cuda:compute_90")));
    for (size_t i = 0; i < sc_target_count; i++) {
        const sc_target *target = &sc_targets[i];
        assert_ptr_equal(sc_target_find(target->name), target);
        if (!sc_target_is_cuda(target))
            continue;
        const char *digits = strpbrk(target->architecture, "0123456789");
        assert_int_equal(strtoul(digits, NULL, 10), target->capability);
        assert_string_equal(target->name + strlen("cuda:"), target->architecture);
        assert_int_equal(strtoul(target->ptx + strlen("compute_"), NULL, 10), target->capability);
        assert_int_equal(sc_target_is_special(target), digits[strspn(digits, "0123456789")] == 'a');
        assert_true(target->shared_bytes > 48 * 1024);
    }
}

int main(void)
{
#define TEST(function, name)                                                                       \
    {                                                                                              \
#name, function, NULL, NULL, &(void (*)(sc_arena *))                                       \
        {                                                                                          \
            name                                                                                   \
        }                                                                                          \
    }
    const struct CMUnitTest tests[] = {
        TEST(in_arena, targets_are_of_a_table),  TEST(in_arena, logs_are_read_without_nvrtc),
        TEST(with_nvrtc, all_targets_compile),   TEST(with_nvrtc, usage_is_read),
        TEST(with_nvrtc, the_compiler_is_heard), TEST(with_nvrtc, threads_compile_side_by_side),
    };
    return cmocka_run_group_tests(tests, open_nvrtc, close_nvrtc);
}
