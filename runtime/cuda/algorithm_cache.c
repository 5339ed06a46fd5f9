/* The table of cuBLASLt algorithms and its file. */
#define _GNU_SOURCE /* open_memstream, O_CLOEXEC */
#include "runtime/cuda/algorithm_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/file.h"
#include "support/hash.h"
#include "support/none.h"
#include "support/number.h"

static const char title[] = "shardc products ", gpu_line[] = "gpu ";
enum { VERSION = 3, MOST_BYTES = 64 << 20, DIGITS = 2 * sizeof(sc_lt_algo) };

/* ---- the table ---- */

void sc_algorithm_cache_init(sc_algorithm_cache *cache, uint64_t program, uint32_t gemm_count)
{
    *cache = (sc_algorithm_cache){
        .program = program, .gemm_count = gemm_count, .info = {.gemms = gemm_count}};
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->measuring, NULL);
}

void sc_algorithm_cache_free(sc_algorithm_cache *cache)
{
    if (cache->gemm_count > 0) {
        pthread_mutex_destroy(&cache->lock);
        pthread_mutex_destroy(&cache->measuring);
    }
    free(cache->gpus);
    free(cache->list);
    *cache = (sc_algorithm_cache){.gemm_count = 0};
}

/* Grows a list for one more element; NULL: out of memory. */
static void *grown(void *list, uint32_t count, uint32_t *room, size_t size)
{
    if (count < *room)
        return list;
    void *more = reallocarray(list, 2 * (size_t)*room + 8, size);
    if (more != NULL)
        *room = 2 * *room + 8;
    return more;
}

bool sc_algorithm_cache_gpu(sc_algorithm_cache *cache, const char *name, uint32_t *out)
{
    char line[SC_CUDA_GPU_NAME];
    snprintf(line, sizeof line, "%s", name);
    for (char *c = line; *c != 0; c++) {
        if ((unsigned char)*c < ' ')
            *c = ' ';
    }
    for (*out = 0; *out < cache->gpu_count; ++*out) {
        if (strcmp(cache->gpus[*out], line) == 0)
            return true;
    }
    void *gpus = grown(cache->gpus, cache->gpu_count, &cache->gpu_room, sizeof *cache->gpus);
    if (gpus == NULL)
        return false;
    cache->gpus = gpus;
    memcpy(cache->gpus[cache->gpu_count++], line, sizeof line);
    return true;
}

sc_algorithm *sc_algorithm_cache_find(const sc_algorithm_cache *cache, const sc_algorithm *wanted)
{
    for (uint32_t i = 0; i < cache->count; i++) {
        sc_algorithm *c = &cache->list[i];
        if (c->gpu == wanted->gpu && c->gemm == wanted->gemm &&
            memcmp(c->aligned, wanted->aligned, sizeof c->aligned) == 0)
            return c;
    }
    return NULL;
}

bool sc_algorithm_cache_set(sc_algorithm_cache *cache, const sc_algorithm *algorithm)
{
    sc_algorithm *found = sc_algorithm_cache_find(cache, algorithm);
    if (found != NULL) {
        *found = *algorithm;
        return true;
    }
    void *list = grown(cache->list, cache->count, &cache->room, sizeof *cache->list);
    if (list == NULL)
        return false;
    cache->list = list;
    cache->list[cache->count++] = *algorithm;
    return true;
}

/* ---- text ---- */

char *sc_algorithm_cache_print(const sc_algorithm_cache *cache, size_t *out_size)
{
    char *text = NULL;
    FILE *out = open_memstream(&text, out_size);
    if (out == NULL)
        return NULL;
    fprintf(out, "%s%d\nprogram %016" PRIx64 "\n", title, VERSION, cache->program);
    for (uint32_t gpu = 0; gpu < cache->gpu_count; gpu++) {
        fprintf(out, "%s%s\n", gpu_line, cache->gpus[gpu]);
        for (uint32_t i = 0; i < cache->count; i++) {
            const sc_algorithm *c = &cache->list[i];
            if (c->gpu != gpu)
                continue;
            sc_fprintf(out, "product %u aligned %u %u %u %u %u ns %.0f %.0f apart %d algo ",
                       c->gemm, c->aligned[0], c->aligned[1], c->aligned[2], c->aligned[3],
                       c->aligned[4], 1e9 * c->first, 1e9 * c->least, c->is_apart);
            for (size_t b = 0; b < sizeof c->algo; b++)
                fprintf(out, "%02x", ((const unsigned char *)&c->algo)[b]);
            fputc('\n', out);
        }
    }
    bool ok = fflush(out) == 0;
    uint64_t sum = ok ? sc_fnv1a64(text, *out_size) : 0;
    fprintf(out, "end %016" PRIx64 "\n", sum);
    ok = fclose(out) == 0 && ok;
    if (!ok)
        free(text);
    return ok ? text : NULL;
}

/* The text still to be read; every line of it is terminated. */
typedef struct reader {
    const char *at, *end;
    uint32_t line;
    char *why;
    size_t room;
} reader;

static bool fail(const reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(const reader *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sc_vsnprintf(r->why, r->room, format, args);
    va_end(args);
    return false;
}

/* Copies the next line without its terminator. False: no line, or it is too long. */
static bool next_line(reader *r, char *out, size_t room)
{
    const char *end = r->at == r->end ? NULL : memchr(r->at, '\n', (size_t)(r->end - r->at));
    if (end == NULL || (size_t)(end - r->at) >= room ||
        memchr(r->at, 0, (size_t)(end - r->at)) != NULL)
        return false;
    memcpy(out, r->at, (size_t)(end - r->at));
    out[end - r->at] = 0;
    r->at = end + 1;
    r->line++;
    return true;
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_algo(const char *text, sc_lt_algo *out)
{
    unsigned char bytes[sizeof *out];
    for (size_t i = 0; i < sizeof bytes; i++) {
        int high = digit(text[2 * i]), low = high < 0 ? -1 : digit(text[2 * i + 1]);
        if (low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    memcpy(out, bytes, sizeof bytes);
    return text[DIGITS] == 0;
}

static bool parse_algorithm(const char *line, uint32_t gpu, uint32_t gemm_count, sc_algorithm *out)
{
    int length = -1;
    uint64_t first = 0, least = 0;
    uint32_t apart = 0;
    *out = (sc_algorithm){.gpu = gpu};
    /* the widths keep every number within its type */
    int fields =
        sscanf(line, // NOLINT(cert-err34-c)
               "product %9" SCNu32 " aligned %3" SCNu32 " %3" SCNu32 " %3" SCNu32 " %3" SCNu32
               " %3" SCNu32 " ns %18" SCNu64 " %18" SCNu64 " apart %1" SCNu32 " algo %n",
               &out->gemm, &out->aligned[0], &out->aligned[1], &out->aligned[2], &out->aligned[3],
               &out->aligned[4], &first, &least, &apart, &length);
    out->first = 1e-9 * (double)first;
    out->least = 1e-9 * (double)least;
    out->is_apart = apart == 1;
    return fields == SC_CUDA_ALIGNED + 4 && length > 0 && apart <= 1 && out->gemm < gemm_count &&
           parse_algo(line + length, &out->algo);
}

static bool parse_lines(sc_algorithm_cache *cache, reader *r)
{
    char line[512];
    uint32_t gpu = SC_NONE;
    sc_algorithm algorithm;
    while (r->at < r->end) {
        if (!next_line(r, line, sizeof line))
            return fail(r, "line %u is too long", r->line + 1);
        bool ok = strncmp(line, gpu_line, sizeof gpu_line - 1) == 0;
        if (ok && !sc_algorithm_cache_gpu(cache, line + sizeof gpu_line - 1, &gpu))
            return fail(r, "there is not enough memory");
        if (!ok && gpu != SC_NONE && parse_algorithm(line, gpu, cache->gemm_count, &algorithm)) {
            ok = true;
            if (!sc_algorithm_cache_set(cache, &algorithm))
                return fail(r, "there is not enough memory");
        }
        if (!ok)
            return fail(r, "line %u is neither a GPU nor a matmul of the program", r->line);
    }
    return true;
}

/* Parses a line such as "program 0123456789abcdef". */
static bool parse_sum(const char *line, const char *word, uint64_t *out)
{
    int length = -1;
    size_t begin = strlen(word);
    return strncmp(line, word, begin) == 0 &&
           // NOLINTNEXTLINE(cert-err34-c): 16 digits fit
           sscanf(line + begin, "%16" SCNx64 "%n", out, &length) == 1 && length == 16 &&
           line[begin + 16] == 0;
}

/* The checksum is the last line, so a truncated file has none. */
static bool is_whole(const char *text, size_t size)
{
    enum { LAST = sizeof "end 0123456789abcdef\n" - 1 };
    char line[LAST + 1];
    uint64_t sum;
    if (size < LAST || text[size - 1] != '\n')
        return false;
    memcpy(line, text + size - LAST, LAST - 1);
    line[LAST - 1] = 0;
    return parse_sum(line, "end ", &sum) && sum == sc_fnv1a64(text, size - LAST);
}

bool sc_algorithm_cache_parse(sc_algorithm_cache *cache, const char *text, size_t size, char *why,
                              size_t room)
{
    enum { LAST = sizeof "end 0123456789abcdef\n" - 1 };
    reader r = {text, text + size, 0, why, room};
    char line[64];
    uint64_t program;
    uint32_t version, gpus = cache->gpu_count, count = cache->count;
    if (!next_line(&r, line, sizeof line) || strncmp(line, title, sizeof title - 1) != 0)
        return fail(&r, "it is not a file of matmul algorithms");
    // NOLINTNEXTLINE(cert-err34-c): 9 digits fit
    if (sscanf(line + sizeof title - 1, "%9" SCNu32, &version) != 1 || version != VERSION)
        return fail(&r, "it is from another version of shardc");
    if (!is_whole(text, size))
        return fail(&r, "it was truncated or changed");
    r.end -= LAST;
    if (!next_line(&r, line, sizeof line) || !parse_sum(line, "program ", &program))
        return fail(&r, "it does not say which program it belongs to");
    if (program != cache->program)
        return fail(&r, "it belongs to another program");
    if (parse_lines(cache, &r))
        return true;
    cache->gpu_count = gpus;
    cache->count = count;
    return false;
}

/* ---- the file ---- */

void sc_algorithm_cache_read(sc_algorithm_cache *cache, const char *path)
{
    size_t size = 0;
    char why[128];
    const char *reason;
    if (access(path, F_OK) != 0)
        return;
    char *text = sc_file_read_own(path, MOST_BYTES, &size, &reason);
    if (text == NULL)
        snprintf(cache->info.read_error, sizeof cache->info.read_error, "%.200s is not used: %s",
                 path, reason);
    if (text != NULL && !sc_algorithm_cache_parse(cache, text, size, why, sizeof why))
        snprintf(cache->info.read_error, sizeof cache->info.read_error, "%.200s is not used: %s",
                 path, why);
    free(text);
}

/* True if nothing of value is lost: no file, an empty one, or a cache file. */
bool sc_algorithm_cache_may_replace(const char *path)
{
    uint64_t size = 0;
    const char *reason;
    char begin[sizeof title] = "";
    if (access(path, F_OK) != 0)
        return errno == ENOENT;
    int file = sc_file_open(path, &size, &reason);
    size_t length = size < sizeof title - 1 ? (size_t)size : sizeof title - 1;
    bool may = file >= 0 && sc_file_read_at(file, begin, length, 0, &reason) &&
               (length == 0 || (length == sizeof title - 1 && memcmp(begin, title, length) == 0));
    if (file >= 0)
        close(file);
    if (!may)
        errno = EEXIST;
    return may;
}

void sc_algorithm_cache_write(sc_algorithm_cache *cache, const char *path)
{
    size_t size = 0;
    char *text = sc_algorithm_cache_print(cache, &size);
    const char *reason = "there is not enough memory";
    bool may = text != NULL && sc_algorithm_cache_may_replace(path);
    if (text != NULL && !may)
        reason = errno == EEXIST ? "another file is there" : strerror(errno);
    cache->info.is_saved = may && sc_file_write(path, text, size, 0644, &reason);
    if (!cache->info.is_saved)
        snprintf(cache->info.write_error, sizeof cache->info.write_error,
                 "%.200s is not written: %s", path, reason);
    free(text);
}
