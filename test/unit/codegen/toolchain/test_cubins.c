/* Compiled CUDA functions: what is kept is not compiled again, what is broken is, and threads and
 * processes are in nobody's way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/wait.h>

#include "codegen/cuda/emit.h"
#include "codegen/toolchain/cubins.h"
#include "test/unit/helpers/fresh_cache.h"

#define STAGE(name, number)                                                                        \
    "extern \"C\" __global__ void " name                                                           \
    "(const float *x, float *y)\n{\n    int i = (int)sc_block() * sc_threads() + sc_thread();\n  " \
    "  y[i] = " number " * x[i];\n}\n"

static const sc_cubin_function functions[] = {
    {"one", STAGE("one_0", "1.5f") STAGE("one_1", "2.5f"), 0},
    {"two",
     "extern \"C\" __global__ void two_0(const float *x, float *y)\n{\n    y[sc_thread()] = "
     "sc_exp_f32(x[sc_thread()]);\n}\n",
     SC_HELPER(exp_f32)},
    {"one", STAGE("one_0", "1.5f") STAGE("one_1", "2.5f"), 0},
};
static const sc_cubin_function third = {"three", STAGE("three_0", "3.5f"), 0};

static bool is_here;
static shardc_error why_not;

static int look_for_nvrtc(void **state)
{
    sc_nvrtc nvrtc;
    (void)state;
    is_here = sc_nvrtc_open(&nvrtc, &why_not);
    if (is_here)
        sc_nvrtc_close(&nvrtc);
    return 0;
}

static void with_nvrtc(void **state)
{
    if (!is_here) {
        print_message("skipped: %s\n", why_not.text);
        skip();
    }
    in_fresh_cache(state);
}

static sc_cubins build_for(sc_arena *arena, const char *target, const sc_cubin_function *all,
                           uint32_t count, const char *cache, uint32_t jobs)
{
    sc_cubins cubins;
    sc_cubin_options options = {.cache = cache, .jobs = jobs};
    const char *error =
        sc_cubins_build(arena, sc_target_find(target), all, count, &options, &cubins);
    if (error != NULL)
        fail_msg("%s", error);
    return cubins;
}

static sc_cubins build(sc_arena *arena, const sc_cubin_function *all, uint32_t count,
                       const char *cache)
{
    return build_for(arena, "cuda:sm_80", all, count, cache, 2);
}

static const sc_cuda_usage *find(const sc_cubin *cubin, const char *entry)
{
    for (uint32_t i = 0; i < cubin->usages.count; i++) {
        if (strcmp(cubin->usages.data[i].entry, entry) == 0)
            return &cubin->usages.data[i];
    }
    fail_msg("nothing is known of %s", entry);
    return NULL;
}

static void expect_results(const sc_cubins *cubins)
{
    const sc_cubin *one = &cubins->cubins[0], *two = &cubins->cubins[1],
                   *again = &cubins->cubins[2];
    for (int i = 0; i < 3; i++) {
        assert_memory_equal(cubins->cubins[i].cubin, "\177ELF", 4);
        assert_int_equal(strlen(cubins->cubins[i].ptx) + 1, cubins->cubins[i].ptx_bytes);
    }
    assert_int_equal(one->usages.count, 2);
    assert_true(find(one, "one_0")->registers > 0 && find(one, "one_1")->registers > 0);
    assert_int_equal(two->usages.count, 1);
    assert_true(find(two, "two_0")->registers > 0);
    assert_non_null(strstr(one->ptx, ".entry one_1"));
    assert_non_null(strstr(two->ptx, ".entry two_0"));
    assert_ptr_equal(one->cubin, again->cubin);
}

static void expect_same(const sc_cubins *a, const sc_cubins *b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const sc_cubin *x = &a->cubins[i], *y = &b->cubins[i];
        assert_int_equal(x->cubin_bytes, y->cubin_bytes);
        assert_memory_equal(x->cubin, y->cubin, x->cubin_bytes);
        assert_string_equal(x->ptx, y->ptx);
        assert_int_equal(x->usages.count, y->usages.count);
        for (uint32_t u = 0; u < x->usages.count; u++) {
            const sc_cuda_usage *known = find(y, x->usages.data[u].entry);
            assert_int_equal(known->registers, x->usages.data[u].registers);
            assert_int_equal(known->spill_store_bytes, x->usages.data[u].spill_store_bytes);
        }
    }
}

static void a_second_build_compiles_nothing(sc_arena *arena, const char *cache)
{
    sc_cubins first = build(arena, functions, 3, cache), second = build(arena, functions, 3, cache);
    assert_int_equal(first.compiled, 2);
    assert_int_equal(second.compiled, 0);
    expect_results(&first);
    expect_results(&second);
    expect_same(&first, &second, 3);
}

static void only_what_is_new_is_compiled(sc_arena *arena, const char *cache)
{
    sc_cubin_function more[] = {functions[0], third, functions[1]};
    build(arena, functions, 3, cache);
    sc_cubins cubins = build(arena, more, 3, cache);
    assert_int_equal(cubins.compiled, 1);
    assert_int_equal(cubins.cubins[1].usages.count, 1);
    find(&cubins.cubins[1], "three_0");
    find(&cubins.cubins[2], "two_0");
}

static void comments_are_no_code(sc_arena *arena, const char *cache)
{
    const sc_cubin_function here = {"one", "/* here.shard:1 */\n" STAGE("one_0", "1.5f"), 0};
    const sc_cubin_function there = {"one",
                                     "/* there.shard:27:\n * x = y */\n" STAGE("one_0", "1.5f"), 0};
    assert_int_equal(build(arena, &here, 1, cache).compiled, 1);
    assert_int_equal(build(arena, &there, 1, cache).compiled, 0);
}

static void targets_do_not_share(sc_arena *arena, const char *cache)
{
    build(arena, functions, 3, cache);
    sc_cubins hopper = build_for(arena, "cuda:sm_90a", functions, 3, cache, 2);
    assert_int_equal(hopper.compiled, 2);
    expect_results(&hopper);
    assert_non_null(strstr(hopper.cubins[0].ptx, ".target sm_90\n"));
    sc_cubins text = build_for(arena, "cuda:compute_80", functions, 3, cache, 2);
    assert_int_equal(text.compiled, 2);
    for (int i = 0; i < 3; i++) {
        assert_null(text.cubins[i].cubin);
        assert_int_equal(text.cubins[i].usages.count, 0);
    }
    assert_non_null(strstr(text.cubins[0].ptx, ".target sm_80"));
    assert_int_equal(build_for(arena, "cuda:compute_80", functions, 3, cache, 2).compiled, 0);
    assert_int_equal(build_for(arena, "cuda:sm_90a", functions, 3, cache, 2).compiled, 0);
}

static void broken_files_are_made_anew(sc_arena *arena, const char *cache)
{
    sc_cubins first = build(arena, functions, 3, cache);
    for (int cut = 0; cut < 2; cut++) {
        assert_int_equal(damage(cache, ".cuda", cut), 2);
        sc_cubins cubins = build(arena, functions, 3, cache);
        assert_int_equal(cubins.compiled, 2);
        expect_same(&first, &cubins, 3);
        assert_int_equal(build(arena, functions, 3, cache).compiled, 0);
    }
}

static int count_files(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void nothing_is_left_behind(sc_arena *arena, const char *cache)
{
    build(arena, functions, 3, cache);
    assert_int_equal(count_files(cache), 2);
}

static void without_a_cache_all_is_compiled(sc_arena *arena, const char *cache)
{
    const char *nowhere[] = {"", "/proc/shardc", sc_arena_printf(arena, "%s/file", cache)};
    FILE *file = fopen(nowhere[2], "w");
    fclose(file);
    for (int i = 0; i < 3; i++) {
        sc_cubins cubins = build(arena, functions, 3, nowhere[i]);
        assert_int_equal(cubins.compiled, 2);
        expect_results(&cubins);
    }
}

enum { MANY = 24 };

static void make_many(sc_arena *arena, sc_cubin_function *out)
{
    for (int i = 0; i < MANY; i++) {
        const char *symbol = sc_arena_printf(arena, "many%d", i);
        out[i].symbol = symbol;
        out[i].text = sc_arena_printf(
            arena,
            "extern \"C\" __global__ void %s_0(float *y)\n{\n    y[sc_thread()] = %d.0f;\n}\n",
            symbol, i);
        out[i].helpers = 0;
    }
}

/* Each result is its own function's, however many threads there are. */
static void jobs_make_no_difference(sc_arena *arena, const char *cache)
{
    static const uint32_t jobs[] = {1, 3, 16};
    sc_cubin_function many[MANY];
    sc_cubins first = {0};
    make_many(arena, many);
    for (int j = 0; j < 3; j++) {
        sc_cubins cubins = build_for(arena, "cuda:sm_80", many, MANY, "", jobs[j]);
        assert_int_equal(cubins.compiled, MANY);
        for (int i = 0; i < MANY; i++)
            find(&cubins.cubins[i], sc_arena_printf(arena, "many%d_0", i));
        if (j > 0)
            expect_same(&first, &cubins, MANY);
        first = cubins;
    }
    assert_int_equal(build_for(arena, "cuda:sm_80", many, MANY, cache, 16).compiled, MANY);
    assert_int_equal(build_for(arena, "cuda:sm_80", many, MANY, cache, 1).compiled, 0);
}

/* Of several that are refused it is the first, whoever is done first; it is kept, and what was
 * compiled is not lost. */
static void the_compiler_is_heard(sc_arena *arena, const char *cache)
{
    for (uint32_t jobs = 1; jobs <= 8; jobs *= 2) {
        sc_cubin_function many[MANY];
        sc_cubins cubins;
        make_many(arena, many);
        many[3].text =
            "extern \"C\" __global__ void f(float *y)\n{\n    *y = the_first_unknown;\n}\n";
        many[4].text =
            "extern \"C\" __global__ void f(float *y)\n{\n    *y = the_second_unknown;\n}\n";
        const char *error =
            sc_cubins_build(arena, sc_target_find("cuda:sm_90a"), many, MANY,
                            &(sc_cubin_options){.cache = cache, .jobs = jobs}, &cubins);
        assert_non_null(error);
        assert_non_null(strstr(error, "does not compile a kernel for sm_90a"));
        assert_non_null(strstr(error, "the_first_unknown"));
        assert_null(strstr(error, "the_second_unknown"));
        const char *path = strstr(error, "): ") + 3;
        path = sc_arena_printf(arena, "%.*s", (int)strcspn(path, "\n"), path);
        assert_int_equal(access(path, R_OK), 0);
        assert_non_null(strstr(path, "many3.cu"));
    }
    assert_true(build_for(arena, "cuda:sm_90a", functions, 3, cache, 2).compiled == 2);
}

static void what_is_missing_is_named(sc_arena *arena, const char *cache)
{
    sc_cubins cubins;
    const char *before = getenv("SHARDC_NVRTC");
    const char *kept = before == NULL ? NULL : sc_arena_printf(arena, "%s", before);
    setenv("SHARDC_NVRTC", "/nonexistent", 1);
    const char *error = sc_cubins_build(arena, sc_target_find("cuda:sm_80"), functions, 3,
                                        &(sc_cubin_options){.cache = cache}, &cubins);
    if (kept != NULL)
        setenv("SHARDC_NVRTC", kept, 1);
    else
        unsetenv("SHARDC_NVRTC");
    assert_non_null(error);
    assert_non_null(strstr(error, "NVRTC"));
    assert_non_null(strstr(error, "/nonexistent"));
}

/* What emitted text may call is there on the device: no helper clashes with the machine, none needs
 * a header. */
static void all_helpers_compile(sc_arena *arena, const char *cache)
{
    for (int h = 0; h < SC_HELPER_COUNT; h++) {
        const char *name = sc_helper_name((sc_helper)h);
        sc_cubin_function function = {
            name, sc_arena_printf(arena, "extern \"C\" __global__ void with_%s() {}\n", name),
            (sc_helper_set)1 << h & ~SC_CUDA_FOREIGN_HELPERS};
        assert_int_equal(build_for(arena, "cuda:compute_80", &function, 1, cache, 1).compiled, 1);
    }
    sc_cubin_function all = {"all", "extern \"C\" __global__ void f(float *y)\n{\n    *y = 0;\n}\n",
                             (((sc_helper_set)1 << SC_HELPER_COUNT) - 1) &
                                 ~SC_CUDA_FOREIGN_HELPERS};
    assert_int_equal(build_for(arena, "cuda:sm_90a", &all, 1, cache, 1).compiled, 1);
}

static void processes_share(sc_arena *arena, const char *cache)
{
    enum { PROCESSES = 3 };
    pid_t pids[PROCESSES];
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0)
            continue;
        sc_cubins cubins;
        sc_cubin_function more[] = {functions[i % 2], third, functions[1 - i % 2]};
        const char *wrong =
            sc_cubins_build(arena, sc_target_find("cuda:sm_80"), more, 3,
                            &(sc_cubin_options){.cache = cache, .jobs = 2}, &cubins);
        _exit(wrong == NULL && strcmp(cubins.cubins[1].usages.data[0].entry, "three_0") == 0 ? 0
                                                                                             : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    sc_cubin_function more[] = {functions[0], third, functions[1]};
    assert_int_equal(build(arena, more, 3, cache).compiled, 0);
}

typedef struct failing {
    const char *cache;
    bool done;
} failing;

static void build_once(sc_context *context, void *user)
{
    failing *f = user;
    build(&context->arena, functions, 3, f->cache);
    f->done = true;
}

/* Memory that runs out leaves no thread behind, and nothing broken in the cache. */
static void memory_may_run_out(sc_arena *arena, const char *cache)
{
    failing f = {.cache = cache};
    for (uint64_t at = 1; !f.done; at += 7) {
        sc_context context;
        sc_context_run(&context, at, build_once, &f);
        sc_context_free(&context);
        assert_true(at < 2000);
    }
    sc_cubins cubins = build(arena, functions, 3, cache);
    assert_int_equal(cubins.compiled, 0);
    expect_results(&cubins);
}

int main(void)
{
#define TEST(function, name)                                                                       \
    {                                                                                              \
#name, function, NULL, NULL, &(void (*)(sc_arena *, const char *))                         \
        {                                                                                          \
            name                                                                                   \
        }                                                                                          \
    }
    const struct CMUnitTest tests[] = {
        TEST(in_fresh_cache, what_is_missing_is_named),
        TEST(with_nvrtc, a_second_build_compiles_nothing),
        TEST(with_nvrtc, only_what_is_new_is_compiled),
        TEST(with_nvrtc, comments_are_no_code),
        TEST(with_nvrtc, targets_do_not_share),
        TEST(with_nvrtc, broken_files_are_made_anew),
        TEST(with_nvrtc, nothing_is_left_behind),
        TEST(with_nvrtc, without_a_cache_all_is_compiled),
        TEST(with_nvrtc, jobs_make_no_difference),
        TEST(with_nvrtc, the_compiler_is_heard),
        TEST(with_nvrtc, all_helpers_compile),
        TEST(with_nvrtc, processes_share),
        TEST(with_nvrtc, memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, look_for_nvrtc, NULL);
}
