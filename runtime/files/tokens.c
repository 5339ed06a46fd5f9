/* Opens and reads token files. */
#include "runtime/files/tokens.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/tokens_about.h"
#include "support/file.h"

enum { HEADER_BYTES = 1024, MAGIC_NARROW = 20240520, MAGIC_WIDE = 20240801 };

struct sc_tokens {
    int file;             /* -1: it rests */
    char *path;           /* to open it again; NULL: the file is the caller's */
    struct stat identity; /* of the file that was opened first */
    uint64_t size, begin; /* begin: offset of the first id */
    uint64_t count;
    uint32_t width;
    sc_tokens_about about; /* what a JSON file beside it says */
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

/* Determines width and count; a header overrides `wide`, and so does JSON beside the file. */
static bool read_form(sc_tokens *tokens, bool is_binary, bool wide, char *error, size_t error_size)
{
    uint64_t bytes = tokens->size;
    unsigned char header[12] = {0};
    const char *reason;
    tokens->width = !is_binary ? 1 : wide ? 4 : 2;
    if (tokens->about.width != 0)
        tokens->width = tokens->about.width;
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
    else if (tokens->about.has_tokens && tokens->about.tokens != tokens->count)
        snprintf(error, error_size,
                 "the .json beside it says %" PRIu64 " tokens, but it has %" PRIu64 " of %" PRIu32
                 " bits",
                 tokens->about.tokens, tokens->count, 8 * tokens->width);
    else
        return true;
    return false;
}

static sc_tokens *refuse(sc_tokens *tokens)
{
    sc_tokens_close(tokens);
    return NULL;
}

sc_tokens *sc_tokens_open(const char *path, bool wide, char *error, size_t error_size)
{
    sc_tokens *tokens = calloc(1, sizeof *tokens);
    const char *reason = "there is not enough memory";
    bool is_binary = ends_with(path, ".bin");
    if (tokens != NULL) {
        tokens->file = -1;
        tokens->path = strdup(path);
    }
    if (tokens != NULL && tokens->path != NULL)
        tokens->file = sc_file_open(path, &tokens->size, &reason);
    if (tokens == NULL || tokens->file < 0 || tokens->size == 0) {
        snprintf(error, error_size, "%s",
                 tokens != NULL && tokens->file >= 0 ? "the file is empty" : reason);
        return refuse(tokens);
    }
    fstat(tokens->file, &tokens->identity);
    if (is_binary && !sc_tokens_about_read(path, &tokens->about, error, error_size))
        return refuse(tokens);
    return read_form(tokens, is_binary, wide, error, error_size) ? tokens : refuse(tokens);
}

sc_tokens *sc_tokens_of_file(int file, uint64_t begin, uint64_t count, uint32_t width)
{
    sc_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens != NULL)
        *tokens = (sc_tokens){.file = file, .begin = begin, .count = count, .width = width};
    return tokens;
}

void sc_tokens_rest(sc_tokens *tokens)
{
    if (tokens->path != NULL && tokens->file >= 0) {
        close(tokens->file);
        tokens->file = -1;
    }
}

bool sc_tokens_is_resting(const sc_tokens *tokens)
{
    return tokens->file < 0;
}

static bool wake(sc_tokens *tokens, const char **reason)
{
    struct stat now;
    uint64_t size = 0;
    if (tokens->file >= 0)
        return true;
    int file = sc_file_open(tokens->path, &size, reason);
    if (file < 0)
        return false;
    if (fstat(file, &now) == 0 && now.st_dev == tokens->identity.st_dev &&
        now.st_ino == tokens->identity.st_ino && size == tokens->size) {
        tokens->file = file;
        return true;
    }
    close(file);
    *reason = "it is not the file any more that was opened first";
    return false;
}

void sc_tokens_close(sc_tokens *tokens)
{
    if (tokens == NULL)
        return;
    sc_tokens_rest(tokens);
    free(tokens->path);
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

bool sc_tokens_eos(const sc_tokens *tokens, uint32_t *out)
{
    *out = tokens->about.eos;
    return tokens->about.has_eos;
}

bool sc_tokens_read(sc_tokens *tokens, uint64_t first, uint64_t count, double *out,
                    const char **reason)
{
    unsigned char bytes[4096];
    if (!wake(tokens, reason))
        return false;
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

bool sc_tokens_find_beyond(sc_tokens *tokens, uint64_t first, uint64_t count, uint64_t below,
                           uint64_t *out_at, double *out_id, const char **reason)
{
    unsigned char bytes[1 << 16];
    *out_at = UINT64_MAX;
    if (!wake(tokens, reason))
        return false;
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
