/* Compiled functions: what is kept is not compiled again, what is broken is, and nobody is in
 * another's way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "codegen/toolchain/objects.h"
#include "runtime/cpu/loader.h"
#include "test/unit/helpers/fresh_cache.h"

static const sc_object_function functions[] = {
    {"one",
     "int64_t one(void *const *args, const int64_t *params)\n{\n    return args == 0 ? params[0] + "
     "1 : 0;\n}\n",
     SC_HELPER(headers)},
    {"two",
     "int64_t two(void *const *args, const int64_t *params)\n{\n    return args == 0 ? "
     "(int64_t)sc_exp_f32((float)params[0]) : 0;\n}\n",
     SC_HELPER(exp_f32)},
    {"one",
     "int64_t one(void *const *args, const int64_t *params)\n{\n    return args == 0 ? params[0] + "
     "1 : 0;\n}\n",
     SC_HELPER(headers)},
};
static const sc_object_function third = {
    "three",
    "int64_t three(void *const *args, const int64_t *params)\n{\n    return args == 0 ? params[0] "
    "+ 3 : 0;\n}\n",
    0};

static sc_object build(sc_arena *arena, const sc_object_function *all, uint32_t count,
                       const char *cache)
{
    sc_object object;
    const char *error = sc_objects_build(arena, all, count,
                                         &(sc_object_options){.cache = cache, .jobs = 2}, &object);
    if (error != NULL)
        fail_msg("%s", error);
    return object;
}

static sc_loader *load(const sc_object *object)
{
    shardc_error error;
    sc_loader *loader = sc_loader_open(object->bytes, object->byte_count, &error);
    if (loader == NULL)
        fail_msg("%s", error.text);
    return loader;
}

static int64_t call(sc_loader *loader, const char *name, int64_t number)
{
    shardc_error error;
    sc_kernel_function *function = sc_loader_symbol(loader, name, &error);
    if (function == NULL)
        fail_msg("%s", error.text);
    return function(NULL, &number);
}

static void expect_results(const sc_object *object)
{
    sc_loader *loader = load(object);
    assert_int_equal(call(loader, "one", 41), 42);
    assert_int_equal(call(loader, "two", 3), 20);
    sc_loader_close(loader);
}

/* The version of the compiler, a process each for two functions and for linking; then nothing. */
static void a_second_build_starts_nothing(sc_arena *arena, const char *cache)
{
    sc_object first = build(arena, functions, 3, cache), second = build(arena, functions, 3, cache);
    assert_int_equal(first.compiled, 2);
    assert_int_equal(first.started, 4);
    assert_int_equal(second.started, 0);
    assert_int_equal(second.compiled, 0);
    assert_non_null(second.path);
    assert_string_equal(first.path, second.path);
    assert_int_equal(first.byte_count, second.byte_count);
    assert_memory_equal(first.bytes, second.bytes, first.byte_count);
    expect_results(&second);
}

static void only_what_is_new_is_compiled(sc_arena *arena, const char *cache)
{
    sc_object_function more[] = {functions[0], third, functions[1]};
    build(arena, functions, 3, cache);
    sc_object object = build(arena, more, 3, cache);
    assert_int_equal(object.compiled, 1);
    assert_int_equal(object.started, 2);
    expect_results(&object);
    sc_loader *loader = load(&object);
    assert_int_equal(call(loader, "three", 4), 7);
    sc_loader_close(loader);
}

/* Where a function comes from is said in comments: the same function of another file is the same
 * object. What looks like a comment in a literal is code. */
static void comments_are_no_code(sc_arena *arena, const char *cache)
{
#define BODY(comment, letter, last)                                                                \
    "int64_t f(void *const *args, const int64_t *params)\n{\n    (void)args;" comment              \
    "\n    return params[0] / \"/*" letter "*/\"[2];" last "\n}\n"
    static const char *const texts[] = {
        "/* here.shard:1 */\n" BODY("/* 1 */", "a", "// 'it"),
        "/* there.shard:27:\n * x = y */\n" BODY("/**/", "a", "// \"is"),
        " \n" BODY(" ", "b", " "),
    };
    sc_object objects[3];
    for (int i = 0; i < 3; i++)
        objects[i] =
            build(arena, &(sc_object_function){"f", texts[i], SC_HELPER(headers)}, 1, cache);
    assert_int_equal(objects[0].compiled, 1);
    assert_int_equal(objects[1].started, 0);
    assert_int_equal(objects[2].compiled, 1);
    for (int i = 0; i < 3; i++) {
        sc_loader *loader = load(&objects[i]);
        assert_int_equal(call(loader, "f", 97 * 98), i < 2 ? 98 : 97);
        sc_loader_close(loader);
    }
}

static void broken_files_are_made_anew(sc_arena *arena, const char *cache)
{
    build(arena, functions, 3, cache);
    for (int cut = 0; cut < 2; cut++) {
        assert_int_equal(damage(cache, ".so", cut), 1);
        sc_object object = build(arena, functions, 3, cache);
        assert_int_equal(object.compiled, 0);
        assert_int_equal(object.started, 1);
        expect_results(&object);
        assert_int_equal(damage(cache, ".so", cut), 1);
        assert_int_equal(damage(cache, ".o", cut), 2);
        object = build(arena, functions, 3, cache);
        assert_int_equal(object.compiled, 2);
        expect_results(&object);
        assert_int_equal(build(arena, functions, 3, cache).started, 0);
        assert_int_equal(damage(cache, ".version", cut), 1);
        assert_int_equal(build(arena, functions, 3, cache).started, 1);
    }
}

static void without_a_cache_all_is_compiled(sc_arena *arena, const char *cache)
{
    const char *nowhere[] = {"", "/proc/shardc", sc_arena_printf(arena, "%s/file", cache)};
    FILE *file = fopen(nowhere[2], "w");
    fclose(file);
    for (int i = 0; i < 3; i++) {
        sc_object object = build(arena, functions, 3, nowhere[i]);
        assert_int_equal(object.compiled, 2);
        assert_null(object.path);
        expect_results(&object);
    }
}

static void folders_on_the_way_are_made(sc_arena *arena, const char *cache)
{
    const char *deep = sc_arena_printf(arena, "%s/a/b", cache);
    build(arena, functions, 3, deep);
    assert_int_equal(build(arena, functions, 3, deep).started, 0);
}

static void the_compiler_is_heard(sc_arena *arena, const char *cache)
{
    sc_object_function wrong = {"bad",
                                "int64_t bad(void)\n{\n    return nothing_of_that_name;\n}\n", 0};
    sc_object object;
    const char *error =
        sc_objects_build(arena, &wrong, 1, &(sc_object_options){.cache = cache}, &object);
    assert_non_null(error);
    assert_non_null(strstr(error, "does not compile a kernel: "));
    assert_non_null(strstr(error, "nothing_of_that_name"));
    const char *path = strstr(error, "kernel: ") + strlen("kernel: ");
    path = sc_arena_printf(arena, "%.*s", (int)strcspn(path, "\n"), path);
    assert_int_equal(access(path, R_OK), 0);
    const char *missing =
        sc_objects_build(arena, functions, 3,
                         &(sc_object_options){.cache = cache, .compiler = "/nowhere/cc"}, &object);
    assert_non_null(missing);
    assert_non_null(strstr(missing, "/nowhere/cc"));
}

/* Another compiler, or another version of it, finds nothing of this one. */
static void compilers_do_not_share(sc_arena *arena, const char *cache)
{
    const char *other = sc_arena_printf(arena, "%s/other-cc", cache);
    sc_object object;
    build(arena, functions, 3, cache);
    for (int version = 1; version <= 2; version++) {
        FILE *file = fopen(other, "w");
        fprintf(file,
                "#!/bin/sh\n# %d\nif [ \"$1\" = --version ]; then echo version %d; else exec cc "
                "\"$@\"; fi\n",
                version * 1000, version);
        fclose(file);
        assert_int_equal(chmod(other, 0755), 0);
        assert_null(sc_objects_build(
            arena, functions, 3, &(sc_object_options){.cache = cache, .compiler = other}, &object));
        assert_int_equal(object.compiled, 2);
        expect_results(&object);
        assert_null(sc_objects_build(
            arena, functions, 3, &(sc_object_options){.cache = cache, .compiler = other}, &object));
        assert_int_equal(object.started, 0);
    }
}

/* As $CC may be. */
static void a_compiler_may_be_of_several_words(sc_arena *arena, const char *cache)
{
    sc_object object;
    assert_null(sc_objects_build(arena, functions, 3,
                                 &(sc_object_options){.cache = cache, .compiler = " env  cc "},
                                 &object));
    assert_int_equal(object.compiled, 2);
    expect_results(&object);
}

static void processes_share(sc_arena *arena, const char *cache)
{
    enum { PROCESSES = 5 };
    pid_t pids[PROCESSES];
    fflush(stdout);
    for (int i = 0; i < PROCESSES; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] > 0)
            continue;
        sc_object object;
        shardc_error error;
        sc_object_function more[] = {functions[i % 2], third, functions[1 - i % 2]};
        const char *wrong =
            sc_objects_build(arena, more, 3, &(sc_object_options){.cache = cache}, &object);
        sc_loader *loader =
            wrong == NULL ? sc_loader_open(object.bytes, object.byte_count, &error) : NULL;
        sc_kernel_function *one = loader == NULL ? NULL : sc_loader_symbol(loader, "one", &error);
        _exit(one != NULL && one(NULL, &(int64_t){1}) == 2 ? 0 : 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    sc_object_function more[] = {functions[0], third, functions[1]};
    assert_int_equal(build(arena, more, 3, cache).started, 0);
}

/* Objects that come and go, and two at once: each name means the function of its own object. */
static void objects_load_side_by_side(sc_arena *arena, const char *cache)
{
    sc_object_function other = {"one",
                                "int64_t one(void *const *args, const int64_t *params)\n{\n    "
                                "return args == 0 ? params[0] * 7 : 0;\n}\n",
                                SC_HELPER(headers)};
    sc_object first = build(arena, functions, 3, cache), second = build(arena, &other, 1, cache);
    for (int i = 0; i < 3; i++) {
        sc_loader *a = load(&first);
        assert_int_equal(call(a, "one", 2), 3);
        sc_loader *b = load(&second);
        assert_int_equal(call(b, "one", 2), 14);
        sc_loader_close(a);
        sc_loader *c = load(&second);
        assert_int_equal(call(c, "one", 3), 21);
        sc_loader_close(b);
        sc_loader_close(c);
    }
}

static void what_is_no_object_does_not_load(sc_arena *arena, const char *cache)
{
    shardc_error error = {0};
    assert_null(sc_loader_open("nothing at all", 14, &error));
    assert_int_equal(error.status, SHARDC_ERROR_DATA);
    assert_true(error.text[0] != 0);
    sc_object object = build(arena, functions, 3, cache);
    assert_null(sc_loader_open(object.bytes, object.byte_count / 2, &error));
    sc_loader *loader = load(&object);
    error = (shardc_error){0};
    assert_null(sc_loader_symbol(loader, "four", &error));
    assert_int_equal(error.status, SHARDC_ERROR_DATA);
    sc_loader_close(loader);
}

static void symbols_are_of_texts(sc_arena *arena, const char *cache)
{
    const char *one = sc_object_symbol(arena, functions[0].text),
               *two = sc_object_symbol(arena, functions[1].text);
    assert_non_null(cache);
    assert_string_equal(one, sc_object_symbol(arena, functions[2].text));
    assert_string_not_equal(one, two);
    assert_int_equal(strncmp(one, "sc_k_", 5), 0);
    assert_int_equal(strlen(one), 21);
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

/* Memory that runs out leaves no process behind, and nothing broken in the cache. */
static void memory_may_run_out(sc_arena *arena, const char *cache)
{
    failing f = {.cache = cache};
    assert_non_null(arena);
    for (uint64_t at = 1; !f.done; at += 5) {
        sc_context context;
        sc_context_run(&context, at, build_once, &f);
        sc_context_free(&context);
        assert_true(at < 1000);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    sc_object object = build(arena, functions, 3, cache);
    assert_int_equal(object.started, 0);
    expect_results(&object);
}

int main(void)
{
#define TEST(name)                                                                                 \
    {                                                                                              \
#name, in_fresh_cache, NULL, NULL, &(void (*)(sc_arena *, const char *))                   \
        {                                                                                          \
            name                                                                                   \
        }                                                                                          \
    }
    const struct CMUnitTest tests[] = {
        TEST(a_second_build_starts_nothing),
        TEST(only_what_is_new_is_compiled),
        TEST(comments_are_no_code),
        TEST(broken_files_are_made_anew),
        TEST(without_a_cache_all_is_compiled),
        TEST(folders_on_the_way_are_made),
        TEST(the_compiler_is_heard),
        TEST(compilers_do_not_share),
        TEST(a_compiler_may_be_of_several_words),
        TEST(processes_share),
        TEST(objects_load_side_by_side),
        TEST(what_is_no_object_does_not_load),
        TEST(symbols_are_of_texts),
        TEST(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
