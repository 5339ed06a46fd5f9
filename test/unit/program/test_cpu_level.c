/* $SHARDC_CPU: what it allows, and what it refuses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "codegen/toolchain/objects.h"
#include "program/cpu_level.h"

static bool allowed(const char *word, sc_cpu_level *out, char problem[256])
{
    problem[0] = 0;
    if (word == NULL)
        unsetenv("SHARDC_CPU");
    else
        setenv("SHARDC_CPU", word, 1);
    return sc_cpu_allowed(out, problem, 256);
}

static void unset_allows_all(void **state)
{
    (void)state;
    sc_cpu_level level;
    char problem[256];
    static const char *const words[] = {NULL, "", "native"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_true(allowed(words[i], &level, problem));
        assert_int_equal(level, SC_CPU_NATIVE);
        assert_string_equal(sc_cpu_flag(level), "-march=native");
    }
}

static void other_words_are_refused(void **state)
{
    (void)state;
    static const char *const words[] = {"AVX2", "avx2 ", "avx", "avx512,avx2", "-march=native"};
    sc_cpu_level level;
    char problem[256], tiny[8];
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        assert_false(allowed(words[i], &level, problem));
        assert_non_null(strstr(problem, words[i]));
        assert_non_null(strstr(problem, "native"));
        assert_false(sc_cpu_allowed(&level, tiny, sizeof tiny));
        assert_true(strlen(tiny) < sizeof tiny);
    }
}

static void refused_words_compile_nothing(void **state)
{
    (void)state;
    sc_arena arena = {0};
    sc_object object;
    const sc_object_function function = {"f", "int f(void) { return 1; }\n", 0};
    setenv("SHARDC_CPU", "avx3", 1);
    const char *error =
        sc_objects_build(&arena, &function, 1, &(sc_object_options){.cache = ""}, &object);
    assert_non_null(error);
    assert_non_null(strstr(error, "SHARDC_CPU is 'avx3'"));
    sc_arena_free(&arena);
}

/* A level uses what the levels below it use, and names no feature above itself. */
static void levels_contain_each_other(void **state)
{
    (void)state;
    sc_arena arena = {0};
    size_t length;
    char problem[256];
    sc_cpu_level level;
    static const char *const words[] = {"base", "avx2", "avx512", "avx512_bf16"};
    const char *before = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        /* this CPU lacks it, or its kind has no levels */
        if (!allowed(words[i], &level, problem)) {
            assert_true(strstr(problem, "this CPU lacks") != NULL ||
                        strstr(problem, "it is one of native") != NULL);
            continue;
        }
        assert_true(sc_cpu_uses(level));
        assert_false(sc_cpu_uses((sc_cpu_level)(level + 1)));
        const char *features = sc_cpu_features(&arena);
        assert_null(sc_cpu_lacks(features, &length));
        if (before != NULL)
            assert_null(sc_cpu_lacks(before, &length));
        if (i == 0)
            assert_null(strchr(features, ' '));
        before = features;
    }
    sc_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_allows_all),
        cmocka_unit_test(other_words_are_refused),
        cmocka_unit_test(refused_words_compile_nothing),
        cmocka_unit_test(levels_contain_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
