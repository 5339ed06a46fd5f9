/* tokenizer T FILE..: seconds to open a tokenizer.json, and for each file the speed of encoding it,
 * of encoding it twice in a row as one text, and of decoding it, on one thread; with `--lines` the
 * file goes line by line. bench/tokenizer.py makes tokenizers and texts. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "shardc/tokenizer.h"
#include "support/file.h"

enum { REPEATS = 5 };

static void die(const char *what)
{
    fprintf(stderr, "tokenizer: %s\n", what);
    exit(1);
}

static size_t encode(const shardc_tokenizer *t, const char *text, size_t length, bool by_lines,
                     shardc_token_ids *ids)
{
    shardc_error error;
    ids->count = 0;
    for (size_t at = 0; at < length;) {
        const char *end = by_lines ? memchr(text + at, '\n', length - at) : NULL;
        size_t size = end == NULL ? length - at : (size_t)(end - text) - at;
        if (shardc_tokenizer_encode(t, text + at, size, SHARDC_WITHOUT_SPECIAL_TOKENS, ids,
                                    &error) != SHARDC_OK)
            die(error.text);
        at += size + (end != NULL);
    }
    return ids->count;
}

/* Megabytes a second, the best of several. */
static double encode_speed(const shardc_tokenizer *t, const char *text, size_t length,
                           bool by_lines, shardc_token_ids *ids)
{
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        encode(t, text, length, by_lines, ids);
        double speed = (double)length / 1e6 / (now(CLOCK_THREAD_CPUTIME_ID) - begin);
        best = speed > best ? speed : best;
    }
    return best;
}

static double decode_speed(const shardc_tokenizer *t, const shardc_token_ids *ids, size_t length)
{
    shardc_token_text text = {0};
    shardc_error error;
    double best = 0;
    for (int i = 0; i < REPEATS; i++) {
        double begin = now(CLOCK_THREAD_CPUTIME_ID);
        text.length = 0;
        if (shardc_tokenizer_decode(t, ids->data, ids->count, SHARDC_WITH_SPECIAL_TOKENS, &text,
                                    &error) != SHARDC_OK)
            die(error.text);
        double speed = (double)length / 1e6 / (now(CLOCK_THREAD_CPUTIME_ID) - begin);
        best = speed > best ? speed : best;
    }
    shardc_token_text_free(&text);
    return best;
}

static void measure(const shardc_tokenizer *t, const char *path, bool by_lines)
{
    const char *reason;
    size_t length;
    shardc_token_ids ids = {0};
    char *text = sc_file_read(path, 1 << 30, &length, &reason);
    if (text == NULL)
        die(reason);
    char *twice = malloc(2 * length + 1);
    if (twice == NULL)
        die("there is not enough memory");
    memcpy(twice, text, length);
    memcpy(twice + length, text, length);
    double of_two = encode_speed(t, twice, 2 * length, by_lines, &ids);
    double of_one = encode_speed(t, text, length, by_lines, &ids);
    double back = decode_speed(t, &ids, length);
    printf("{\"file\":\"%s\",\"bytes\":%zu,\"ids\":%zu,\"encode\":%.2f,\"encode_twice\":%.2f,"
           "\"decode\":%.2f}\n",
           path, length, ids.count, of_one, of_two, back);
    shardc_token_ids_free(&ids);
    free(twice);
    free(text);
}

int main(int argc, char **argv)
{
    shardc_tokenizer *t;
    shardc_error error;
    bool by_lines = argc > 1 && strcmp(argv[1], "--lines") == 0;
    int first = by_lines ? 2 : 1;
    if (argc <= first) {
        fprintf(stderr, "usage: tokenizer [--lines] TOKENIZER FILE..\n");
        return 2;
    }
    double begin = now(CLOCK_THREAD_CPUTIME_ID);
    if (shardc_tokenizer_open(argv[first], &t, &error) != SHARDC_OK)
        die(error.text);
    printf("{\"tokenizer\":\"%s\",\"tokens\":%u,\"open_seconds\":%.3f}\n", argv[first],
           shardc_tokenizer_size(t), now(CLOCK_THREAD_CPUTIME_ID) - begin);
    for (int i = first + 1; i < argc; i++)
        measure(t, argv[i], by_lines);
    shardc_tokenizer_close(t);
    return 0;
}
