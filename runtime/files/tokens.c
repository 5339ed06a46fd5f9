/* Opens and reads token files. */
#include "runtime/files/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/file.h"

enum { HEADER_BYTES = 1024, MAGIC_NARROW = 20240520, MAGIC_WIDE = 20240801 };

struct sc_tokens {
    int file;
    uint64_t size, begin; /* begin: offset of the first id */
    uint64_t count;
    uint32_t width;
};

static uint32_t load(const unsigned char *bytes, uint32_t width)
{
    uint32_t value = 0;
    for (uint32_t i = width; i-- > 0;)
        value = value << 8 | bytes[i];
    return value;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Determines width and count; a header overrides `wide`. */
static bool read_form(sc_tokens *tokens, bool is_binary, bool wide, char *error, size_t error_size)
{
    uint64_t bytes = tokens->size;
    unsigned char header[12] = {0};
    const char *reason;
    tokens->width = !is_binary ? 1 : wide ? 4 : 2;
    if (is_binary && bytes >= HEADER_BYTES &&
        !sc_file_read_at(tokens->file, header, sizeof header, 0, &reason)) {
        snprintf(error, error_size, "%s", reason);
        return false;
    }
    uint32_t magic = load(header, 4);
    bool has_header = magic == MAGIC_NARROW || magic == MAGIC_WIDE;
    uint64_t promised = has_header ? load(header + 8, 4) : 0;
    if (has_header) {
        tokens->width = magic == MAGIC_WIDE ? 4 : 2;
        tokens->begin = HEADER_BYTES;
        bytes -= HEADER_BYTES;
    }
    tokens->count = bytes / tokens->width;
    if (bytes % tokens->width != 0)
        snprintf(error, error_size, "%" PRIu64 " bytes are no whole number of %" PRIu32 "-bit ids",
                 bytes, 8 * tokens->width);
    else if (has_header && promised != tokens->count)
        snprintf(error, error_size, "its header says %" PRIu64 " ids, but %" PRIu64 " follow",
                 promised, tokens->count);
    else
        return true;
    return false;
}

sc_tokens *sc_tokens_open(const char *path, bool wide, char *error, size_t error_size)
{
    sc_tokens *tokens = calloc(1, sizeof *tokens);
    const char *reason = "there is not enough memory";
    if (tokens != NULL)
        tokens->file = sc_file_open(path, &tokens->size, &reason);
    if (tokens == NULL || tokens->file < 0 || tokens->size == 0) {
        snprintf(error, error_size, "%s",
                 tokens != NULL && tokens->file >= 0 ? "the file is empty" : reason);
        sc_tokens_close(tokens);
        return NULL;
    }
    if (read_form(tokens, ends_with(path, ".bin"), wide, error, error_size))
        return tokens;
    sc_tokens_close(tokens);
    return NULL;
}

void sc_tokens_close(sc_tokens *tokens)
{
    if (tokens == NULL)
        return;
    if (tokens->file >= 0)
        close(tokens->file);
    free(tokens);
}

uint64_t sc_tokens_count(const sc_tokens *tokens)
{
    return tokens->count;
}

uint32_t sc_tokens_width(const sc_tokens *tokens)
{
    return tokens->width;
}

bool sc_tokens_read(const sc_tokens *tokens, uint64_t first, uint64_t count, double *out,
                    const char **reason)
{
    unsigned char bytes[4096];
    while (count > 0) {
        uint64_t now = sizeof bytes / tokens->width;
        now = now < count ? now : count;
        if (!sc_file_read_at(tokens->file, bytes, (size_t)(now * tokens->width),
                             tokens->begin + first * tokens->width, reason))
            return false;
        for (uint64_t i = 0; i < now; i++)
            *out++ = load(bytes + i * tokens->width, tokens->width);
        first += now;
        count -= now;
    }
    return true;
}

bool sc_tokens_find_beyond(const sc_tokens *tokens, uint64_t first, uint64_t count, uint64_t below,
                           uint64_t *out_at, double *out_id, const char **reason)
{
    unsigned char bytes[1 << 16];
    *out_at = UINT64_MAX;
    for (uint64_t done = 0; done < count && *out_at == UINT64_MAX;) {
        uint64_t now = sizeof bytes / tokens->width;
        now = now < count - done ? now : count - done;
        if (!sc_file_read_at(tokens->file, bytes, (size_t)(now * tokens->width),
                             tokens->begin + (first + done) * tokens->width, reason))
            return false;
        for (uint64_t i = 0; i < now && *out_at == UINT64_MAX; i++) {
            uint32_t id = load(bytes + i * tokens->width, tokens->width);
            if (id >= below) {
                *out_at = first + done + i;
                *out_id = id;
            }
        }
        done += now;
    }
    return true;
}
