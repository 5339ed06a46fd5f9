/* Compiling emitted C with the machine's compiler and loading it, for tests of what is emitted. */
#ifndef SHARDC_TEST_EMITTED_CASE_H
#define SHARDC_TEST_EMITTED_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As programs are compiled. */
#define EMITTED_FLAGS "-O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp"

typedef struct emitted {
    void *library;
    char folder[256];
} emitted;

static inline void emitted_path(const emitted *e, const char *name, char path[512])
{
    snprintf(path, 512, "%s/%s", e->folder, name);
}

/* The compiler's remarks, of what it vectorised for one, are in the folder's `log`. */
static inline emitted emitted_load(const char *text, const char *flags)
{
    emitted e = {0};
    const char *base = getenv("TMPDIR");
    char source[512], command[2048];
    snprintf(e.folder, sizeof e.folder, "%s/emittedXXXXXX", base == NULL ? "/tmp" : base);
    assert_non_null(mkdtemp(e.folder));
    emitted_path(&e, "code.c", source);
    FILE *file = fopen(source, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    snprintf(command, sizeof command,
             "cc %s -Wall -Wextra -shared -fPIC -o %s/code.so %s -lm >%s/log 2>&1", flags, e.folder,
             source, e.folder);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
    emitted_path(&e, "code.so", source);
    e.library = dlopen(source, RTLD_NOW | RTLD_LOCAL);
    if (e.library == NULL)
        fail_msg("%s", dlerror());
    return e;
}

/* A pointer to the function, to be copied into a pointer of its type. */
static inline void *emitted_find(const emitted *e, const char *name)
{
    void *found = dlsym(e->library, name);
    if (found == NULL)
        fail_msg("%s is not there", name);
    return found;
}

/* What the compiler said, in memory of the caller's. */
static inline char *emitted_log(const emitted *e)
{
    char path[512];
    emitted_path(e, "log", path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    assert_non_null(text);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    text[length] = 0;
    fclose(file);
    return text;
}

/* The library stays loaded: threads of OpenMP's team wait in code of libgomp, which would be
 * unmapped with its last user. */
static inline void emitted_close(emitted *e)
{
    static const char *const names[] = {"code.c", "code.so", "log"};
    char path[512];
    e->library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        emitted_path(e, names[i], path);
        remove(path);
    }
    rmdir(e->folder);
}

#endif
