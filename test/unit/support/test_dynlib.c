/* Libraries opened at run time: what is missing is said by name, and nothing is half open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "codegen/toolchain/nvrtc.h"
#include "runtime/cuda/libcublaslt.h"
#include "runtime/cuda/libcuda.h"
#include "runtime/cuda/libnccl.h"
#include "support/dynlib.h"

/* libm: a library that is everywhere. */
typedef struct maths {
    void *library;
    double (*cos)(double);
    double (*hypot)(double, double);
} maths;

static const sc_dynlib_symbol symbols[] = {{"cos", offsetof(maths, cos)},
                                           {"hypot", offsetof(maths, hypot)}};
static const sc_dynlib_symbol unknown[] = {{"cos", offsetof(maths, cos)},
                                           {"no_such_function", offsetof(maths, hypot)}};
static const char *const names[] = {"libno-such-thing.so.7", "libm.so.6", NULL};
static const char *const absent[] = {"libno-such-thing.so.7", "libno-such-thing.so", NULL};
static const char *const broken[] = {"libno-such-thing.so.7", "libbroken.so", NULL};

static sc_dynlib library(const char *const *of, const char *const *folders,
                         const sc_dynlib_symbol *table)
{
    return (sc_dynlib){.title = "mathematics",
                       .variable = "SHARDC_TEST_LIBRARY",
                       .remedy = "learn to count",
                       .names = of,
                       .folders = folders,
                       .symbols = table,
                       .symbol_count = 2};
}

static void expect_closed(const maths *m)
{
    assert_null(m->library);
    assert_null(m->cos);
    assert_null(m->hypot);
}

static void expect_words(const shardc_error *error, const char *a, const char *b, const char *c)
{
    const char *words[] = {a, b, c};
    assert_int_equal(error->status, SHARDC_ERROR_UNAVAILABLE);
    for (int i = 0; i < 3; i++) {
        if (strstr(error->text, words[i]) == NULL)
            fail_msg("no '%s' in: %s", words[i], error->text);
    }
}

static void the_first_name_that_opens_is_taken(void **state)
{
    (void)state;
    sc_dynlib what = library(names, NULL, symbols);
    maths m;
    shardc_error error;
    if (!sc_dynlib_open(&what, &m, &error))
        fail_msg("%s", error.text);
    assert_true(m.cos(0) == 1 && m.hypot(3, 4) == 5);
    assert_non_null(strstr(sc_dynlib_path(m.library), "libm"));
    sc_dynlib_close(&what, &m);
    expect_closed(&m);
}

static void what_was_looked_for_is_named(void **state)
{
    (void)state;
    sc_dynlib what = library(absent, sc_dynlib_cuda_folders, symbols);
    maths m;
    shardc_error error;
    assert_false(sc_dynlib_open(&what, &m, &error));
    expect_words(&error, "mathematics was not found", "libno-such-thing.so.7, libno-such-thing.so",
                 "learn to count, or name its file in SHARDC_TEST_LIBRARY");
    expect_closed(&m);
}

static void a_function_that_lacks_is_named(void **state)
{
    (void)state;
    sc_dynlib what = library(names, NULL, unknown);
    maths m;
    shardc_error error;
    assert_false(sc_dynlib_open(&what, &m, &error));
    expect_words(&error, "libm", "has no no_such_function", "learn to count");
    expect_closed(&m);
}

static void the_variable_prevails(void **state)
{
    (void)state;
    sc_dynlib what = library(names, NULL, symbols);
    maths m;
    shardc_error error;
    setenv("SHARDC_TEST_LIBRARY", "/nonexistent/libm.so", 1);
    assert_false(sc_dynlib_open(&what, &m, &error));
    expect_words(&error, "SHARDC_TEST_LIBRARY", "/nonexistent/libm.so", "No such file");
    setenv("SHARDC_TEST_LIBRARY", "libm.so.6", 1);
    what.names = absent;
    assert_true(sc_dynlib_open(&what, &m, &error));
    sc_dynlib_close(&what, &m);
    setenv("SHARDC_TEST_LIBRARY", "", 1);
    assert_false(sc_dynlib_open(&what, &m, &error));
    unsetenv("SHARDC_TEST_LIBRARY");
}

/* A file of the name that is no library: why it does not load, and not that there is none. */
static void folders_are_searched(void **state)
{
    (void)state;
    static const char *const folders[] = {"$SHARDC_NOT_SET/lib", "$SHARDC_TEST_HOME/lib", NULL};
    sc_dynlib what = library(broken, folders, symbols);
    char home[] = "/tmp/shardc-dynlib-XXXXXX", path[128], lib[64];
    maths m;
    shardc_error error;
    assert_non_null(mkdtemp(home));
    setenv("SHARDC_TEST_HOME", home, 1);
    snprintf(lib, sizeof lib, "%s/lib", home);
    snprintf(path, sizeof path, "%s/libbroken.so", lib);
    assert_int_equal(mkdir(lib, 0777), 0);
    assert_false(sc_dynlib_open(&what, &m, &error));
    expect_words(&error, "was not found", "libbroken.so", "learn to count");
    FILE *file = fopen(path, "w");
    fputs("no library at all, whatever its name says", file);
    fclose(file);
    assert_false(sc_dynlib_open(&what, &m, &error));
    expect_words(&error, "mathematics does not load", path, "learn to count");
    unlink(path);
    rmdir(lib);
    rmdir(home);
    unsetenv("SHARDC_TEST_HOME");
}

/* A path that is longer than there is room for: cut, not overrun. */
static void long_paths_are_cut(void **state)
{
    (void)state;
    char path[3000];
    memset(path, 'x', sizeof path - 1);
    path[0] = '/', path[sizeof path - 1] = 0;
    sc_dynlib what = library(names, NULL, symbols);
    maths m;
    shardc_error error;
    setenv("SHARDC_TEST_LIBRARY", path, 1);
    assert_false(sc_dynlib_open(&what, &m, &error));
    unsetenv("SHARDC_TEST_LIBRARY");
    expect_words(&error, "mathematics", "SHARDC_TEST_LIBRARY", "/xxxx");
    assert_true(strlen(error.text) < sizeof error.text);
}

/* ---- the libraries of CUDA ---- */
typedef union any {
    sc_cuda cuda;
    sc_cublaslt cublaslt;
    sc_nccl nccl;
    sc_nvrtc nvrtc;
} any;

static bool open_cuda(any *out, shardc_error *error)
{
    return sc_cuda_open(&out->cuda, error);
}

static bool open_cublaslt(any *out, shardc_error *error)
{
    return sc_cublaslt_open(&out->cublaslt, error);
}

static bool open_nccl(any *out, shardc_error *error)
{
    return sc_nccl_open(&out->nccl, error);
}

static bool open_nvrtc(any *out, shardc_error *error)
{
    return sc_nvrtc_open(&out->nvrtc, error);
}

static const struct {
    const char *title, *variable, *first;
    bool (*open)(any *out, shardc_error *error);
} libraries[] = {{"driver", "SHARDC_LIBCUDA", "cuInit", open_cuda},
                 {"cuBLASLt", "SHARDC_CUBLASLT", "cublasLtGetVersion", open_cublaslt},
                 {"NCCL", "SHARDC_NCCL", "ncclGetVersion", open_nccl},
                 {"NVRTC", "SHARDC_NVRTC", "nvrtcVersion", open_nvrtc}};
enum { LIBRARIES = sizeof libraries / sizeof *libraries };

static void each_names_what_it_misses(void **state)
{
    (void)state;
    any opened;
    for (int i = 0; i < LIBRARIES; i++) {
        shardc_error error;
        const char *before = getenv(libraries[i].variable);
        char *kept = before == NULL ? NULL : strdup(before);
        setenv(libraries[i].variable, "/nonexistent", 1);
        assert_false(libraries[i].open(&opened, &error));
        expect_words(&error, libraries[i].title, libraries[i].variable, "/nonexistent");
        setenv(libraries[i].variable, "libm.so.6", 1);
        assert_false(libraries[i].open(&opened, &error));
        expect_words(&error, libraries[i].title, libraries[i].first, libraries[i].variable);
        if (kept != NULL)
            setenv(libraries[i].variable, kept, 1);
        else
            unsetenv(libraries[i].variable);
        free(kept);
    }
}

/* Where they are, they have every function of the tables; where they are not, the remedy is named.
 */
static void each_opens_or_says_why(void **state)
{
    (void)state;
    any opened;
    for (int i = 0; i < LIBRARIES; i++) {
        shardc_error error;
        if (libraries[i].open(&opened, &error))
            continue;
        print_message("skipped: %s\n", error.text);
        assert_null(strstr(error.text, "another version"));
        assert_int_equal(error.status, SHARDC_ERROR_UNAVAILABLE);
    }
}

/* The toolkit has a libcuda that does nothing, for linkers: its list of functions is the driver's.
 */
static void the_stub_has_what_is_asked_of_the_driver(void **state)
{
    (void)state;
    static const char stub[] = "/usr/local/cuda/lib64/stubs/libcuda.so";
    sc_cuda cuda;
    shardc_error error;
    if (access(stub, R_OK) != 0) {
        print_message("skipped: no %s\n", stub);
        skip();
    }
    const char *before = getenv("SHARDC_LIBCUDA");
    char *kept = before == NULL ? NULL : strdup(before);
    setenv("SHARDC_LIBCUDA", stub, 1);
    bool ok = sc_cuda_open(&cuda, &error);
    if (kept != NULL)
        setenv("SHARDC_LIBCUDA", kept, 1);
    else
        unsetenv("SHARDC_LIBCUDA");
    free(kept);
    if (!ok)
        fail_msg("%s", error.text);
    assert_int_equal(cuda.cuInit(0), SC_CU_STUB_LIBRARY);
    sc_cuda_close(&cuda);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_name_that_opens_is_taken),
        cmocka_unit_test(what_was_looked_for_is_named),
        cmocka_unit_test(a_function_that_lacks_is_named),
        cmocka_unit_test(the_variable_prevails),
        cmocka_unit_test(folders_are_searched),
        cmocka_unit_test(long_paths_are_cut),
        cmocka_unit_test(each_names_what_it_misses),
        cmocka_unit_test(each_opens_or_says_why),
        cmocka_unit_test(the_stub_has_what_is_asked_of_the_driver),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
