/* What cuBLASLt says of a program's products is asked once: ranks that have the same GPU share an
 * answer, a later start takes it from a file. What is in a file is believed only where it is whole,
 * of this program, of this GPU and library, and the library takes it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <sys/stat.h>

#include "runtime/cuda/algorithm_cache.h"
#include "test/unit/helpers/cuda_case.h"

static cuda_stub stub;

/* ---- files ---- */

typedef struct folder {
    char at[40], path[64];
} folder;

static folder new_folder(void)
{
    folder f = {.at = "/tmp/shardc_choices_XXXXXX"};
    assert_non_null(mkdtemp(f.at));
    snprintf(f.path, sizeof f.path, "%s/p.gemms", f.at);
    return f;
}

/* And nothing but the file was in it. */
static void drop_folder(const folder *f)
{
    unlink(f->path);
    assert_int_equal(rmdir(f->at), 0);
}

static char *read_text(const char *path, size_t *size)
{
    char *text = malloc(1 << 16);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    *size = fread(text, 1, 1 << 16, file);
    fclose(file);
    return text;
}

static void write_text(const char *path, const char *text, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* ---- starts ---- */

/* Starts a session, has it compute what it must, ends it. */
static shardc_gemm_tuning start_with(const shardc_executable *program,
                                     const shardc_session_options *options, uint64_t *asked)
{
    enum { ROWS = STEP_ROWS, D = STEP_D, H = STEP_H };
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    shardc_gemm_tuning products;
    float x[ROWS * D], w[D * H], y[ROWS * H];
    int32_t ids[ROWS] = {0};
    stub.sc_stub_fail("cublasLtMatmulAlgoGetHeuristic", 0, 0);
    if (shardc_session_new(program, options, &session, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    *asked = stub.sc_stub_calls();
    shardc_session_gemm_tuning(session, &products);
    assert_int_equal(shardc_session_get_state(session, shardc_executable_find_state(program, "w"),
                                              w, sizeof w, NULL, &error),
                     SHARDC_OK);
    for (int i = 0; i < D * H; i++)
        assert_true(w[i] == 0); /* whatever was measured, state begins as zeros */
    for (int i = 0; i < D * H; i++)
        w[i] = (float)(i % 7 - 3);
    for (int i = 0; i < ROWS * D; i++)
        x[i] = (float)(i % 5 - 2);
    assert_int_equal(shardc_session_set_state(session, shardc_executable_find_state(program, "w"),
                                              w, sizeof w, NULL, &error),
                     SHARDC_OK);
    for (int run = 0; run < 3; run++) {
        shardc_feed_value feeds[] = {{"x", x, sizeof x, NULL}, {"ids", ids, sizeof ids, NULL}};
        if (shardc_session_run(session, shardc_executable_find_func(program, "micro"), feeds, 2,
                               (shardc_fetch_value[]){{0, y, sizeof y, NULL}}, 1,
                               &error) != SHARDC_OK)
            fail_msg("%s", error.text);
        for (int i = 0; i < ROWS * H; i++) {
            float wanted = 0;
            for (int k = 0; k < D; k++)
                wanted += x[i / H * D + k] * w[k * H + i % H];
            assert_true(y[i] == wanted);
        }
    }
    shardc_session_free(session);
    return products;
}

static shardc_gemm_tuning start(const shardc_executable *program, const char *path, bool tune,
                                uint64_t *asked)
{
    return start_with(
        program, &(shardc_session_options){.threads = 1, .gemm_cache = path, .tune_gemms = tune},
        asked);
}

static void answers_are_kept(void **state)
{
    (void)state;
    folder f = new_folder();
    image_case c;
    uint64_t asked;
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    uint32_t count = program->image->gemm_count;
    assert_true(count > 0);
    shardc_gemm_tuning p = start(program, f.path, false, &asked);
    assert_true(asked == count && p.gemms == count && p.queried == count && p.from_cache == 0 &&
                p.is_saved);
    assert_string_equal(p.read_error, "");
    p = start(program, f.path, false, &asked);
    assert_true(asked == 0 && p.gemms == count && p.queried == 0 && p.from_cache == count &&
                !p.is_saved);
    p = start(program, NULL, false, &asked); /* nobody says where */
    assert_true(asked == count && p.from_cache == 0 && !p.is_saved);
    assert_string_equal(p.write_error, "");
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    drop_folder(&f);
}

static void ranks_of_one_gpu_ask_once(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{2, 1}, {2, 2}, {4, 2}};
    for (int m = 0; m < 3; m++) {
        folder f = new_folder();
        image_case c;
        uint64_t asked;
        shardc_executable *program = cuda_step_program(&c, meshes[m][0], meshes[m][1]);
        shardc_gemm_tuning p = start(program, f.path, false, &asked);
        assert_true(asked == p.gemms && p.queried == p.gemms && p.is_saved);
        p = start(program, f.path, false, &asked);
        assert_true(asked == 0 && p.from_cache == p.gemms);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        drop_folder(&f);
    }
}

/* What a file says of another GPU or library is not used, and not lost. */
static void answers_are_those_of_a_gpu_and_a_library(void **state)
{
    (void)state;
    static const char *const others[][2] = {{"SHARDC_STUB_CAPABILITY", "8.6"},
                                            {"SHARDC_STUB_CUBLASLT_VERSION", "130100"}};
    for (int i = 0; i < 2; i++) {
        folder f = new_folder();
        image_case c;
        uint64_t asked;
        shardc_executable *program = cuda_step_program(&c, 1, 1);
        uint32_t count = program->image->gemm_count;
        start(program, f.path, false, &asked);
        setenv(others[i][0], others[i][1], 1);
        shardc_gemm_tuning there = start(program, f.path, false, &asked);
        assert_true(asked == count && there.from_cache == 0 && there.is_saved);
        start(program, f.path, false, &asked);
        assert_true(asked == 0);
        unsetenv(others[i][0]);
        shardc_gemm_tuning here = start(program, f.path, false, &asked);
        assert_true(asked == 0 && here.from_cache == count);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        drop_folder(&f);
    }
}

/* ---- files that are not what they should be ---- */

/* A file that nobody can use: a start says why, asks, and writes it anew; the next one asks
 * nothing. */
static void expect_survived(const shardc_executable *program, const folder *f, const char *why)
{
    uint64_t asked;
    shardc_gemm_tuning p = start(program, f->path, false, &asked);
    if (strstr(p.read_error, why) == NULL || strstr(p.read_error, f->path) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", p.read_error, why);
    assert_true(asked == p.gemms && p.from_cache == 0 && p.is_saved);
    p = start(program, f->path, false, &asked);
    assert_true(asked == 0 && p.from_cache == p.gemms && p.read_error[0] == 0);
}

static void files_that_cannot_be_used_are_written_anew(void **state)
{
    (void)state;
    folder f = new_folder();
    image_case c, other;
    uint64_t asked;
    size_t size;
    shardc_executable *program = cuda_step_program(&c, 1, 1),
                      *another = cuda_step_program(&other, 2, 1);
    start(another, f.path, false, &asked);
    expect_survived(program, &f, "it belongs to another program");
    char *text = read_text(f.path, &size);
    write_text(f.path, text, size / 2);
    expect_survived(program, &f, "it was truncated or changed");
    text[size / 2] ^= 1;
    write_text(f.path, text, size);
    expect_survived(program, &f, "it was truncated or changed");
    memcpy(text, "shardc products 7", 17);
    write_text(f.path, text, size);
    expect_survived(program, &f, "it is from another version of shardc");
    free(text);
    write_text(f.path, "", 0);
    expect_survived(program, &f, "it is not a file of matmul algorithms");
    shardc_executable_free(program);
    shardc_executable_free(another);
    sc_arena_free(&c.arena);
    sc_arena_free(&other.arena);
    drop_folder(&f);
}

static void a_file_of_something_else_is_left_alone(void **state)
{
    (void)state;
    folder f = new_folder();
    image_case c;
    uint64_t asked;
    size_t size;
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    write_text(f.path, "my weights", 10);
    shardc_gemm_tuning p = start(program, f.path, false, &asked);
    assert_true(asked == p.gemms && !p.is_saved);
    assert_non_null(strstr(p.read_error, "it is not a file of matmul algorithms"));
    assert_non_null(strstr(p.write_error, "another file is there"));
    char *text = read_text(f.path, &size);
    assert_true(size == 10 && memcmp(text, "my weights", 10) == 0);
    free(text);
    char nowhere[80];
    snprintf(nowhere, sizeof nowhere, "%s/none/p.gemms", f.at);
    p = start(program, nowhere, false, &asked);
    assert_true(asked == p.gemms && !p.is_saved && p.read_error[0] == 0);
    assert_non_null(
        strstr(p.write_error, "/none/p.gemms is not written: No such file or directory"));
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    drop_folder(&f);
}

/* An answer that the library refuses, in a file that is whole. */
static void answers_are_checked(void **state)
{
    (void)state;
    folder f = new_folder();
    image_case c;
    uint64_t asked;
    size_t size;
    char why[128] = "";
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    sc_algorithm_cache cache;
    start(program, f.path, false, &asked);
    char *text = read_text(f.path, &size);
    sc_algorithm_cache_init(&cache, program->image->hash, program->image->gemm_count);
    if (!sc_algorithm_cache_parse(&cache, text, size, why, sizeof why))
        fail_msg("%s", why);
    free(text);
    for (uint32_t i = 0; i < cache.count; i++)
        cache.list[i].algo.data[0] ^= 1;
    sc_algorithm_cache_write(&cache, f.path);
    assert_true(cache.info.is_saved);
    sc_algorithm_cache_free(&cache);
    shardc_gemm_tuning p = start(program, f.path, false, &asked);
    assert_true(asked == p.gemms && p.from_cache == 0 && p.is_saved && p.read_error[0] == 0);
    start(program, f.path, false, &asked);
    assert_true(asked == 0);
    /* and it is asked where the check itself fails */
    stub.sc_stub_fail("cublasLtMatmulAlgoCheck", 1, 15);
    shardc_session *session = NULL;
    shardc_error error = {.status = SHARDC_OK};
    assert_int_equal(shardc_session_new(program, &(shardc_session_options){.gemm_cache = f.path},
                                        &session, &error),
                     SHARDC_OK);
    shardc_session_gemm_tuning(session, &p);
    assert_true(p.queried == 1 && p.from_cache == p.gemms - 1);
    shardc_session_free(session);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    drop_folder(&f);
}

/* ---- the text ---- */

static sc_algorithm_cache some_choices(void)
{
    sc_algorithm_cache cache;
    sc_algorithm_cache_init(&cache, 0x0123456789abcdef, 1000);
    for (uint32_t i = 0; i < 40; i++) {
        sc_algorithm one = {.gemm = i * i % 997,
                            .aligned = {16u << i % 5, 256, 8, i % 2 * 4},
                            .first = 1e-6 * i,
                            .least = 5e-7 * i};
        char name[400] = "a GPU";
        for (size_t k = 0; k < sizeof one.algo.data / sizeof *one.algo.data; k++)
            one.algo.data[k] = (i + 1) * 0x9e3779b97f4a7c15u >> k;
        if (i % 3 == 1)
            snprintf(name, sizeof name, "a GPU\nwith \tmore: %s, %350d", "ü", 1);
        assert_true(sc_algorithm_cache_gpu(&cache, i % 3 == 2 ? "" : name, &one.gpu));
        assert_true(sc_algorithm_cache_set(&cache, &one));
    }
    assert_int_equal(cache.gpu_count, 3);
    return cache;
}

static void text_reads_back(void **state)
{
    (void)state;
    sc_algorithm_cache made = some_choices(), read;
    size_t size, again_size;
    char why[128] = "", *text = sc_algorithm_cache_print(&made, &size);
    sc_algorithm_cache_init(&read, made.program, made.gemm_count);
    if (!sc_algorithm_cache_parse(&read, text, size, why, sizeof why))
        fail_msg("%s", why);
    assert_true(read.count == made.count && read.gpu_count == made.gpu_count);
    for (uint32_t i = 0; i < made.count; i++) {
        sc_algorithm wanted = made.list[i];
        assert_true(sc_algorithm_cache_gpu(&read, made.gpus[wanted.gpu], &wanted.gpu));
        const sc_algorithm *found = sc_algorithm_cache_find(&read, &wanted);
        assert_non_null(found);
        assert_memory_equal(&found->algo, &wanted.algo, sizeof wanted.algo);
        assert_false(found->is_sure);
    }
    char *again = sc_algorithm_cache_print(&read, &again_size);
    assert_true(size == again_size && memcmp(text, again, size) == 0);
    free(text);
    free(again);
    sc_algorithm_cache_free(&made);
    sc_algorithm_cache_free(&read);
}

/* Every beginning of it, and it with every byte another: refused, with nothing taken from it and
 * with the reason. */
static void text_that_is_not_whole_is_refused(void **state)
{
    (void)state;
    sc_algorithm_cache made = some_choices(), read;
    size_t size;
    char why[128], *text = sc_algorithm_cache_print(&made, &size);
    sc_algorithm_cache_init(&read, made.program, made.gemm_count);
    for (size_t i = 0; i < size; i++) {
        char *part = malloc(i + 1); /* so that reading beyond it shows */
        memcpy(part, text, i);
        why[0] = 0;
        assert_false(sc_algorithm_cache_parse(&read, part, i, why, sizeof why));
        assert_true(why[0] != 0 && read.count == 0);
        free(part);
        for (int bit = 0; bit < 8; bit += 3) {
            text[i] = (char)(text[i] ^ 1 << bit);
            assert_false(sc_algorithm_cache_parse(&read, text, size, why, sizeof why));
            assert_int_equal(read.count, 0);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
    }
    free(text);
    sc_algorithm_cache_free(&made);
    sc_algorithm_cache_free(&read);
}

/* With the right sum, and nonsense in it. */
static void text_that_says_nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "product 0 aligned 1 1 1 1 1 ns 0 0 apart 0 algo ", /* before any GPU; then of one: */
        "gpu a\nproduct 7 aligned 1 1 1 1 1 ns 0 0 apart 0 algo ",
        "gpu a\nproduct 0 aligned 1 1 1 1 ns 0 0 apart 0 algo ",
        "gpu a\nproduct 0 aligned 1 1 1 1 1 ns 0 0 apart 2 algo ",
        "gpu a\nproduct 0 aligned 1 1 1 1 1 ns 0 0 algo ",
        "gpu a\nproduct -1 aligned 1 1 1 1 1 ns 0 0 apart 0 algo ",
        "gpu a\nproduct 0 aligned 1 1 1 1 1 ns 0 0 apart 0 algo 0",
        "gpu a\nproduct 0 aligned 1 1 1 1 1 ns 0 0 apart 0 algo g",
        "gpu a\nproducts 0 aligned 1 1 1 1 1 ns 0 0 apart 0 algo ",
        "gpu a\n\nproduct 0 aligned 1 1 1 1 1 ns 0 0 apart 0 algo "};
    sc_algorithm_cache read;
    char digits[129], body[512], text[600], why[128];
    memset(digits, '0', 128);
    digits[128] = 0;
    sc_algorithm_cache_init(&read, 1, 7);
    for (size_t i = 0; i <= sizeof lines / sizeof *lines; i++) {
        bool is_good = i == sizeof lines / sizeof *lines;
        const char *tail = is_good || strstr(lines[i], "algo g") == NULL ? digits : digits + 1;
        snprintf(body, sizeof body, "shardc products 3\nprogram 0000000000000001\n%s%s\n",
                 is_good ? "gpu a\nproduct 6 aligned 1 1 1 1 1 ns 0 0 apart 0 algo " : lines[i],
                 tail);
        int size = snprintf(text, sizeof text, "%send %016llx\n", body,
                            (unsigned long long)sc_fnv1a64(body, strlen(body)));
        assert_true(size > 0 && (size_t)size < sizeof text);
        assert_int_equal(sc_algorithm_cache_parse(&read, text, (size_t)size, why, sizeof why),
                         is_good);
        assert_int_equal(read.count, is_good);
        if (!is_good)
            assert_non_null(strstr(why, "is neither a GPU nor a matmul of the program"));
    }
    sc_algorithm_cache_free(&read);
}

/* ---- several at once ---- */

typedef struct starter {
    pthread_t thread;
    const shardc_executable *program;
    const char *path;
    shardc_status status;
    shardc_error error;
} starter;

static void *start_again_and_again(void *user)
{
    starter *s = user;
    for (int i = 0; i < 10 && s->status == SHARDC_OK; i++) {
        shardc_session *session = NULL;
        shardc_gemm_tuning products;
        s->status = shardc_session_new(
            s->program, &(shardc_session_options){.threads = 1, .gemm_cache = s->path}, &session,
            &s->error);
        if (s->status == SHARDC_OK) {
            shardc_session_gemm_tuning(session, &products);
            if (products.read_error[0] != 0 || products.write_error[0] != 0)
                s->status = sc_fail(&s->error, SHARDC_ERROR_DATA, "%s %s", products.read_error,
                                    products.write_error);
        }
        shardc_session_free(session);
        if (i % 3 == 2)
            unlink(s->path);
    }
    return NULL;
}

static void sessions_that_start_at_once_share_a_file(void **state)
{
    (void)state;
    folder f = new_folder();
    image_case c;
    shardc_executable *program = cuda_step_program(&c, 2, 1);
    starter starters[4];
    stub.sc_stub_fail(NULL, 0, 0);
    for (int i = 0; i < 4; i++) {
        starters[i] = (starter){.program = program, .path = f.path, .status = SHARDC_OK};
        assert_int_equal(
            pthread_create(&starters[i].thread, NULL, start_again_and_again, &starters[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(starters[i].thread, NULL);
        if (starters[i].status != SHARDC_OK)
            fail_msg("%s", starters[i].error.text);
    }
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
    drop_folder(&f);
}

/* ---- measuring ---- */

/* The stub's first choice takes longer than its third, and its second does not work. */
static void the_fastest_is_kept(void **state)
{
    (void)state;
    static const uint64_t meshes[][2] = {{1, 1}, {2, 1}};
    for (int m = 0; m < 2; m++) {
        folder f = new_folder();
        image_case c;
        uint64_t asked;
        size_t size;
        char why[128];
        sc_algorithm_cache cache;
        shardc_executable *program = cuda_step_program(&c, meshes[m][0], meshes[m][1]);
        uint32_t count = program->image->gemm_count;
        start(program, f.path, false, &asked);
        shardc_gemm_tuning p = start(program, f.path, true, &asked);
        assert_true(asked == count && p.measured == count && p.from_cache == 0 &&
                    p.improved == count && p.is_saved);
        assert_true(p.best_seconds > 0 && p.best_seconds < p.first_seconds);
        char *text = read_text(f.path, &size);
        sc_algorithm_cache_init(&cache, program->image->hash, count);
        assert_true(sc_algorithm_cache_parse(&cache, text, size, why, sizeof why));
        assert_int_equal(cache.count, count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(cache.list[i].algo.data[6] == 0);
            assert_true(cache.list[i].least > 0 && cache.list[i].least < cache.list[i].first &&
                        cache.list[i].first > 3e-4);
        }
        sc_algorithm_cache_free(&cache);
        free(text);
        p = start(program, f.path, false, &asked);
        assert_true(asked == 0 && p.from_cache == count && p.measured == 0);
        shardc_executable_free(program);
        sc_arena_free(&c.arena);
        drop_folder(&f);
    }
}

static void measuring_survives_calls_that_fail(void **state)
{
    (void)state;
    image_case c;
    shardc_executable *program = cuda_step_program(&c, 1, 1);
    static const char *const names[] = {"cuEventRecord", "cuEventElapsedTime", "cuEventSynchronize",
                                        "cublasLtMatmul", "cuMemsetD8Async"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        for (uint64_t n = 1; n <= 9; n += 4) {
            shardc_session *session = NULL;
            shardc_error error = {.status = SHARDC_OK};
            char left[256];
            stub.sc_stub_fail(names[i], n, 999);
            shardc_status status = shardc_session_new(
                program, &(shardc_session_options){.threads = 1, .tune_gemms = true}, &session,
                &error);
            if (stub.sc_stub_failed() != NULL &&
                (status == SHARDC_OK || strstr(error.text, names[i]) == NULL))
                fail_msg("call %d of %s failed: %s", (int)n, names[i], error.text);
            shardc_session_free(session);
            if (stub.sc_stub_live(left, sizeof left) != 0)
                fail_msg("left: %s", left);
        }
    }
    stub.sc_stub_fail(NULL, 0, 0);
    shardc_executable_free(program);
    sc_arena_free(&c.arena);
}

int main(void)
{
    stub = cuda_stub_open();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_reads_back),
        cmocka_unit_test(text_that_is_not_whole_is_refused),
        cmocka_unit_test(text_that_says_nonsense_is_refused),
        cmocka_unit_test(answers_are_kept),
        cmocka_unit_test(ranks_of_one_gpu_ask_once),
        cmocka_unit_test(answers_are_those_of_a_gpu_and_a_library),
        cmocka_unit_test(files_that_cannot_be_used_are_written_anew),
        cmocka_unit_test(a_file_of_something_else_is_left_alone),
        cmocka_unit_test(answers_are_checked),
        cmocka_unit_test(sessions_that_start_at_once_share_a_file),
        cmocka_unit_test(the_fastest_is_kept),
        cmocka_unit_test(measuring_survives_calls_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
