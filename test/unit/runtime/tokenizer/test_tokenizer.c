/* The interface of tokenizers: streams, threads, limits, and time that is linear in the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shardc/tokenizer.h"

#define INPUTS SHARDC_SOURCE_DIR "/test/tools/tokenize/Inputs/"

static const char *const names[] = {
    "bert", "deepseek", "gemma", "gpt2", "llama2", "llama3", "metaspace_first_split", "unknown"};
enum { NAMES = sizeof names / sizeof *names };

static shardc_tokenizer *open_input(const char *name)
{
    char path[512];
    shardc_tokenizer *t;
    shardc_error error = {0};
    snprintf(path, sizeof path, INPUTS "%s.json", name);
    if (shardc_tokenizer_open(path, &t, &error) != SHARDC_OK)
        fail_msg("%s", error.text);
    return t;
}

/* A BPE of a few letters, with what a test adds to the file. */
static shardc_status open_small(const char *parts, const char *model, shardc_tokenizer **out,
                                shardc_error *error)
{
    char json[4096];
    int length =
        snprintf(json, sizeof json,
                 "{\"version\":\"1.0\",%s\"model\":{\"type\":\"BPE\",%s\"vocab\":{\"a\":0,"
                 "\"b\":1,\"c\":2,\"ab\":3,\"bc\":4,\"abc\":5,\"<u>\":6,\"aa\":7,\"aaaa\":8},"
                 "\"merges\":[\"b c\",\"a b\",\"a bc\",\"a a\",[\"aa\",\"aa\"]]}}",
                 parts, model);
    return shardc_tokenizer_open_memory(json, (size_t)length, "small", out, error);
}

static shardc_token_ids encode(const shardc_tokenizer *t, const char *text, size_t length)
{
    shardc_token_ids ids = {0};
    shardc_error error = {0};
    if (shardc_tokenizer_encode(t, text, length, SHARDC_WITHOUT_SPECIAL_TOKENS, &ids, &error) !=
        SHARDC_OK)
        fail_msg("%s", error.text);
    return ids;
}

static void assert_ids(const shardc_tokenizer *t, const char *text, const uint32_t *want,
                       size_t count)
{
    shardc_token_ids ids = encode(t, text, strlen(text));
    assert_int_equal(ids.count, count);
    assert_memory_equal(ids.data, want, count * sizeof *want);
    shardc_token_ids_free(&ids);
}

/* ---- merges ---- */

static void merges_of_the_lowest_rank_come_first(void **state)
{
    (void)state;
    shardc_tokenizer *t;
    shardc_error error;
    assert_int_equal(open_small("", "", &t, &error), SHARDC_OK);
    assert_ids(t, "abc", (const uint32_t[]){5}, 1); /* bc before ab */
    assert_ids(t, "abab", (const uint32_t[]){3, 3}, 2);
    assert_ids(t, "aaaaa", (const uint32_t[]){8, 0}, 2); /* from the left */
    assert_ids(t, "axb", (const uint32_t[]){3}, 1);      /* no unknown token: x is left out */
    shardc_tokenizer_close(t);
    assert_int_equal(open_small("", "\"unk_token\":\"<u>\",", &t, &error), SHARDC_OK);
    assert_ids(t, "axxb", (const uint32_t[]){0, 6, 6, 1}, 4);
    shardc_tokenizer_close(t);
    assert_int_equal(open_small("", "\"unk_token\":\"<u>\",\"fuse_unk\":true,", &t, &error),
                     SHARDC_OK);
    assert_ids(t, "axxb", (const uint32_t[]){0, 6, 1}, 3);
    shardc_tokenizer_close(t);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Quadratic merging would take hours. */
static void one_long_piece_takes_linear_time(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    shardc_tokenizer *t;
    shardc_error error;
    char *text = malloc(LENGTH);
    assert_int_equal(open_small("", "", &t, &error), SHARDC_OK);
    memset(text, 'a', LENGTH);
    double begin = seconds();
    shardc_token_ids ids = encode(t, text, LENGTH);
    assert_true(seconds() - begin < 60);
    assert_int_equal(ids.count, LENGTH / 4);
    shardc_token_ids_free(&ids);
    for (size_t i = 0; i < LENGTH; i++)
        text[i] = "abc"[i % 3];
    ids = encode(t, text, LENGTH);
    assert_int_equal(ids.count, LENGTH / 3 + 1);
    shardc_token_ids_free(&ids);
    shardc_tokenizer_close(t);
    free(text);
}

/* Combining marks in the wrong order, spaces that added tokens strip, one mark after another. */
static void hostile_texts_take_linear_time(void **state)
{
    (void)state;
    enum { COUNT = 200000 };
    char *text = malloc(COUNT * 4);
    for (int n = 0; n < NAMES; n++) {
        shardc_tokenizer *t = open_input(names[n]);
        for (size_t i = 0; i < COUNT; i++)
            memcpy(text + 2 * i, i % 2 == 0 ? "\xcc\x81" : "\xcc\xa7", 2);
        double begin = seconds();
        shardc_token_ids ids = encode(t, text, COUNT * 2);
        shardc_token_ids_free(&ids);
        memset(text, ' ', COUNT);
        ids = encode(t, text, COUNT);
        shardc_token_ids_free(&ids);
        memset(text, '\n', COUNT);
        ids = encode(t, text, COUNT);
        shardc_token_ids_free(&ids);
        assert_true(seconds() - begin < 60);
        shardc_tokenizer_close(t);
    }
    free(text);
}

/* ---- limits ---- */

static void patterns_that_take_too_long_are_errors(void **state)
{
    (void)state;
    shardc_tokenizer *t;
    shardc_error error = {0};
    shardc_token_ids ids = {0};
    char text[64];
    const char *parts = "\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
                        "\"(a|aa|aaa)+$x\"},\"behavior\":\"Isolated\",\"invert\":false},";
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = 'x'; /* else there is nothing to look for */
    assert_int_equal(open_small(parts, "", &t, &error), SHARDC_OK);
    assert_int_equal(
        shardc_tokenizer_encode(t, text, sizeof text, SHARDC_WITH_SPECIAL_TOKENS, &ids, &error),
        SHARDC_ERROR_DATA);
    assert_non_null(strstr(error.text, "a pattern of the tokenizer takes too many steps"));
    assert_int_equal(ids.count, 0);
    /* and it still works */
    assert_ids(t, "abc", (const uint32_t[]){5}, 1);
    shardc_token_ids_free(&ids);
    shardc_tokenizer_close(t);
}

static void bad_text_and_ids_leave_the_result_alone(void **state)
{
    (void)state;
    shardc_tokenizer *t = open_input("gpt2");
    shardc_error error = {0};
    shardc_token_ids ids = encode(t, "one", 3);
    shardc_token_text text = {0};
    size_t before = ids.count;
    static const char *const bad[] = {"\xff", "a\xc3", "\xed\xa0\x80", "\xf5\x80\x80\x80",
                                      "\xc0\xaf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(shardc_tokenizer_encode(t, bad[i], strlen(bad[i]),
                                                 SHARDC_WITH_SPECIAL_TOKENS, &ids, &error),
                         SHARDC_ERROR_DATA);
        assert_int_equal(ids.count, before);
    }
    uint32_t none = shardc_tokenizer_size(t);
    assert_null(shardc_tokenizer_content(t, none, NULL));
    assert_int_equal(
        shardc_tokenizer_decode(t, &none, 1, SHARDC_WITH_SPECIAL_TOKENS, &text, &error),
        SHARDC_ERROR_ARGUMENT);
    assert_int_equal(text.length, 0);
    shardc_token_ids_free(&ids);
    shardc_token_text_free(&text);
    shardc_tokenizer_close(t);
}

/* ---- tokens ---- */

static void tokens_are_found_by_content(void **state)
{
    (void)state;
    shardc_tokenizer *t = open_input("llama3");
    uint32_t id;
    size_t length;
    assert_true(shardc_tokenizer_find(t, "<|begin|>", 9, &id));
    assert_true(shardc_tokenizer_is_special(t, id));
    assert_string_equal(shardc_tokenizer_content(t, id, &length), "<|begin|>");
    assert_int_equal(length, 9);
    assert_true(shardc_tokenizer_find(t, "TOOL", 4, &id));
    assert_false(shardc_tokenizer_is_special(t, id));
    assert_false(shardc_tokenizer_find(t, "no such token", 13, &id));
    assert_false(shardc_tokenizer_is_special(t, shardc_tokenizer_size(t)));
    shardc_tokenizer_close(t);
}

/* ---- streams ---- */

static void next_random(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
}

/* Random ids: the pieces of a stream are the text of all of them, and each is UTF-8. */
static void streams_give_the_text_of_all_ids(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (int n = 0; n < NAMES; n++) {
        shardc_tokenizer *t = open_input(names[n]);
        shardc_token_stream *stream;
        shardc_error error;
        assert_int_equal(shardc_token_stream_open(t, SHARDC_WITH_SPECIAL_TOKENS, &stream, &error),
                         SHARDC_OK);
        for (int round = 0; round < 200; round++) {
            uint32_t ids[24], count = 0;
            shardc_token_text whole = {0}, pieces = {0};
            shardc_token_ids again = {0};
            next_random(&seed);
            uint32_t wanted = (uint32_t)(seed >> 40) % 24;
            while (count < wanted) {
                next_random(&seed);
                ids[count] = (uint32_t)(seed >> 33) % shardc_tokenizer_size(t);
                count += shardc_tokenizer_content(t, ids[count], NULL) != NULL;
            }
            assert_int_equal(
                shardc_tokenizer_decode(t, ids, count, SHARDC_WITH_SPECIAL_TOKENS, &whole, &error),
                SHARDC_OK);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(shardc_token_stream_put(stream, ids[i], &pieces, &error),
                                 SHARDC_OK);
                /* never inside a character: what encodes is UTF-8 */
                assert_int_equal(shardc_tokenizer_encode(t, pieces.data, pieces.length,
                                                         SHARDC_WITHOUT_SPECIAL_TOKENS, &again,
                                                         &error),
                                 SHARDC_OK);
            }
            assert_int_equal(shardc_token_stream_end(stream, &pieces, &error), SHARDC_OK);
            assert_int_equal(whole.length, pieces.length);
            assert_memory_equal(whole.data, pieces.data, whole.length);
            shardc_token_text_free(&whole);
            shardc_token_text_free(&pieces);
            shardc_token_ids_free(&again);
        }
        shardc_token_stream_close(stream);
        shardc_tokenizer_close(t);
    }
}

/* ---- threads ---- */

typedef struct job {
    const shardc_tokenizer *tokenizer;
    const char *text;
    const shardc_token_ids *want;
    bool is_same;
} job;

static void *encode_often(void *user)
{
    job *j = user;
    j->is_same = true;
    for (int i = 0; i < 50; i++) {
        shardc_token_ids ids = {0};
        shardc_status status = shardc_tokenizer_encode(j->tokenizer, j->text, strlen(j->text),
                                                       SHARDC_WITHOUT_SPECIAL_TOKENS, &ids, NULL);
        j->is_same = j->is_same && status == SHARDC_OK && ids.count == j->want->count &&
                     memcmp(ids.data, j->want->data, ids.count * sizeof *ids.data) == 0;
        shardc_token_ids_free(&ids);
    }
    return NULL;
}

static void threads_share_a_tokenizer(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    static const char text[] = "the water is naïve, don't we? 1234 "
                               "\xe6\x97\xa5\xe6\x9c\xac <|end|>  x";
    for (int n = 0; n < NAMES; n++) {
        shardc_tokenizer *t = open_input(names[n]);
        shardc_token_ids want = encode(t, text, strlen(text));
        pthread_t threads[THREADS];
        job jobs[THREADS];
        for (int i = 0; i < THREADS; i++) {
            jobs[i] = (job){t, text, &want, false};
            assert_int_equal(pthread_create(&threads[i], NULL, encode_often, &jobs[i]), 0);
        }
        for (int i = 0; i < THREADS; i++) {
            pthread_join(threads[i], NULL);
            assert_true(jobs[i].is_same);
        }
        shardc_token_ids_free(&want);
        shardc_tokenizer_close(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_of_the_lowest_rank_come_first),
        cmocka_unit_test(one_long_piece_takes_linear_time),
        cmocka_unit_test(hostile_texts_take_linear_time),
        cmocka_unit_test(patterns_that_take_too_long_are_errors),
        cmocka_unit_test(bad_text_and_ids_leave_the_result_alone),
        cmocka_unit_test(tokens_are_found_by_content),
        cmocka_unit_test(streams_give_the_text_of_all_ids),
        cmocka_unit_test(threads_share_a_tokenizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
