/* Tests that get an arena and the path of an empty folder; a test's state is the address of its
 * function. After cmocka.h. */
#ifndef SHARDC_TEST_FRESH_CACHE_H
#define SHARDC_TEST_FRESH_CACHE_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/context.h"

typedef struct cache_test {
    void (*test)(sc_arena *, const char *cache);
    char cache[64];
    bool done;
} cache_test;

static inline void remove_folder(const char *path)
{
    char inner[512];
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) >= (int)sizeof inner)
            continue;
        if (entry->d_name[0] != '.' && unlink(inner) != 0)
            remove_folder(inner);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static inline void call_cache_test(sc_context *context, void *user)
{
    cache_test *t = user;
    t->test(&context->arena, t->cache);
    t->done = true;
}

static inline void in_fresh_cache(void **state)
{
    sc_context context;
    cache_test t = {.test = *(void (**)(sc_arena *, const char *)) * state,
                    .cache = "/tmp/shardc-test-XXXXXX"};
    assert_non_null(mkdtemp(t.cache));
    assert_true(sc_context_run(&context, 0, call_cache_test, &t));
    assert_true(t.done);
    sc_context_free(&context);
    remove_folder(t.cache);
}

/* How many files with this ending were damaged: a byte in the middle, or all but the first bytes
 * gone. */
static inline int damage(const char *cache, const char *ending, bool cut)
{
    char path[512];
    int count = 0;
    DIR *dir = opendir(cache);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name), end = strlen(ending);
        if (length < end || strcmp(entry->d_name + length - end, ending) != 0)
            continue;
        if (snprintf(path, sizeof path, "%s/%s", cache, entry->d_name) >= (int)sizeof path)
            continue;
        count++;
        if (cut) {
            assert_int_equal(truncate(path, 100), 0);
            continue;
        }
        FILE *file = fopen(path, "r+b");
        assert_int_equal(fseek(file, 200, SEEK_SET), 0);
        int byte = fgetc(file);
        assert_int_equal(fseek(file, 200, SEEK_SET), 0);
        fputc(byte ^ 0x10, file);
        fclose(file);
    }
    closedir(dir);
    return count;
}

#endif
