#include "runtime/data.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER_BYTES = 1024, MAGIC_NARROW = 20240520, MAGIC_WIDE = 20240801 };

struct sc_tokens {
    void *map; /* the whole file */
    size_t size;
    const unsigned char *ids;
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

static bool map_file(const char *path, sc_tokens *tokens, char *error, size_t error_size)
{
    struct stat info;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    bool is_known = file >= 0 && fstat(file, &info) == 0;
    if (!is_known || !S_ISREG(info.st_mode) || info.st_size < 1) {
        snprintf(error, error_size, "%s",
                 !is_known               ? strerror(errno)
                 : S_ISREG(info.st_mode) ? "the file is empty"
                                         : "it is not a regular file");
        if (file >= 0)
            close(file);
        return false;
    }
    tokens->size = (size_t)info.st_size;
    tokens->map = mmap(NULL, tokens->size, PROT_READ, MAP_PRIVATE, file, 0);
    if (tokens->map == MAP_FAILED) {
        tokens->map = NULL;
        snprintf(error, error_size, "%s", strerror(errno));
    }
    close(file);
    return tokens->map != NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* Finds width and count; the header wins over `wide`. */
static bool read_form(sc_tokens *tokens, bool is_binary, bool wide, char *error, size_t error_size)
{
    size_t bytes = tokens->size;
    tokens->ids = tokens->map;
    tokens->width = !is_binary ? 1 : wide ? 4 : 2;
    uint32_t magic = is_binary && bytes >= HEADER_BYTES ? load(tokens->ids, 4) : 0;
    bool has_header = magic == MAGIC_NARROW || magic == MAGIC_WIDE;
    uint64_t promised = has_header ? load(tokens->ids + 8, 4) : 0;
    if (has_header) {
        tokens->width = magic == MAGIC_WIDE ? 4 : 2;
        tokens->ids += HEADER_BYTES;
        bytes -= HEADER_BYTES;
    }
    tokens->count = bytes / tokens->width;
    if (bytes % tokens->width != 0)
        snprintf(error, error_size, "%zu bytes are no whole number of %" PRIu32 "-bit ids", bytes, 8 * tokens->width);
    else if (has_header && promised != tokens->count)
        snprintf(error, error_size, "its header says %" PRIu64 " ids, but %" PRIu64 " follow", promised, tokens->count);
    else
        return true;
    return false;
}

sc_tokens *sc_tokens_open(const char *path, bool wide, char *error, size_t error_size)
{
    sc_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL) {
        snprintf(error, error_size, "out of memory");
        return NULL;
    }
    if (map_file(path, tokens, error, error_size) && read_form(tokens, ends_with(path, ".bin"), wide, error, error_size))
        return tokens;
    sc_tokens_close(tokens);
    return NULL;
}

void sc_tokens_close(sc_tokens *tokens)
{
    if (tokens == NULL)
        return;
    if (tokens->map != NULL)
        munmap(tokens->map, tokens->size);
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

uint32_t sc_tokens_at(const sc_tokens *tokens, uint64_t index)
{
    return load(tokens->ids + index * tokens->width, tokens->width);
}
