/* The cache's files. A kept file is its bytes and a tail of 24: a mark, their number, their hash. Linkers and loaders do not look behind
 * the end of an object, so it is used as it lies there. */
#include "codegen/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/hash.h"

typedef struct cache_tail {
    char mark[8];
    uint64_t count, hash;
} cache_tail;

static const char MARK[8] = {'s', 'h', 'a', 'r', 'd', 'c', 'o', '1'};

/* Two hashes that have nothing in common. */
sc_cache_key sc_cache_key_of(const void *bytes, size_t count)
{
    return (sc_cache_key){{sc_hash_bytes(bytes, count, 0x5ca1ab1e), sc_fnv1a64(bytes, count)}};
}

sc_cache_key sc_cache_key_with(sc_cache_key a, sc_cache_key b)
{
    sc_cache_key both[2] = {a, b};
    return sc_cache_key_of(both, sizeof both);
}

const char *sc_cache_path(sc_arena *arena, const char *folder, sc_cache_key key, const char *ending)
{
    return sc_arena_printf(arena, "%s/%016llx%016llx%s", folder, (unsigned long long)key.words[0], (unsigned long long)key.words[1],
                           ending);
}

static bool make_folders(char *path)
{
    for (char *c = path + 1; *c != 0; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *c = '/';
        if (!made)
            return false;
    }
    return mkdir(path, 0777) == 0 || errno == EEXIST;
}

const char *sc_cache_open(sc_arena *arena, const char *given)
{
    if (given == NULL)
        given = getenv("SHARDC_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    if (given != NULL)
        path = sc_arena_printf(arena, "%s", given);
    else if (xdg != NULL && xdg[0] == '/')
        path = sc_arena_printf(arena, "%s/shardc", xdg);
    else if (home != NULL && home[0] == '/')
        path = sc_arena_printf(arena, "%s/.cache/shardc", home);
    if (path == NULL || path[0] == 0 || !make_folders(path) || access(path, W_OK | X_OK) != 0)
        return NULL;
    return path;
}

bool sc_cache_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    bool ok = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    close(file);
    if (!ok)
        return false;
    /* Memory is asked for with nothing open: it may not come back. */
    size_t size = (size_t)status.st_size, at = 0;
    *bytes = sc_arena_alloc(arena, size + 1);
    file = open(path, O_RDONLY | O_CLOEXEC);
    while (file >= 0 && at < size) {
        ssize_t got = read(file, *bytes + at, size - at);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            break;
        at += got < 0 ? 0 : (size_t)got;
    }
    if (file >= 0)
        close(file);
    *count = at;
    return file >= 0 && at == size;
}

bool sc_cache_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        return false;
    bool ok = fwrite(bytes, 1, count, file) == count;
    return fclose(file) == 0 && ok;
}

static bool check_tail(const cache_tail *tail, const void *bytes, size_t count)
{
    return memcmp(tail->mark, MARK, sizeof MARK) == 0 && tail->count == count && tail->hash == sc_hash_bytes(bytes, count, 0);
}

bool sc_cache_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count)
{
    cache_tail tail;
    if (!sc_cache_read(arena, path, bytes, count) || *count < sizeof tail)
        return false;
    *count -= sizeof tail;
    memcpy(&tail, *bytes + *count, sizeof tail);
    return check_tail(&tail, *bytes, *count);
}

/* The file's bytes in memory of malloc, which the caller frees. */
static char *load(const char *path, size_t *count)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    char *bytes = NULL;
    if (file == NULL)
        return NULL;
    if (fstat(fileno(file), &status) == 0 && status.st_size >= 0)
        bytes = malloc((size_t)status.st_size + 1);
    if (bytes != NULL) {
        *count = (size_t)status.st_size;
        if (fread(bytes, 1, *count, file) != *count) {
            free(bytes);
            bytes = NULL;
        }
    }
    fclose(file);
    return bytes;
}

bool sc_cache_is_kept(const char *path)
{
    size_t count = 0;
    cache_tail tail;
    char *bytes = load(path, &count);
    bool kept = bytes != NULL && count >= sizeof tail;
    if (kept) {
        count -= sizeof tail;
        memcpy(&tail, bytes + count, sizeof tail);
        kept = check_tail(&tail, bytes, count);
    }
    free(bytes);
    return kept;
}

bool sc_cache_keep(const char *written, const char *path)
{
    size_t count = 0;
    char *bytes = load(written, &count);
    if (bytes == NULL)
        return false;
    cache_tail tail = {.count = count, .hash = sc_hash_bytes(bytes, count, 0)};
    memcpy(tail.mark, MARK, sizeof MARK);
    free(bytes);
    FILE *file = fopen(written, "ab");
    if (file == NULL)
        return false;
    bool ok = fwrite(&tail, sizeof tail, 1, file) == 1;
    ok &= fclose(file) == 0;
    return ok && rename(written, path) == 0;
}

const char *sc_cache_scratch(sc_arena *arena, const char *cache)
{
    const char *temporary = getenv("TMPDIR");
    const char *places[] = {cache, temporary, "/tmp"};
    char *paths[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        if (places[i] != NULL && places[i][0] != 0)
            paths[i] = sc_arena_printf(arena, "%s/shardc-XXXXXX", places[i]);
    }
    for (int i = 0; i < 3; i++) {
        if (paths[i] != NULL && mkdtemp(paths[i]) != NULL)
            return paths[i];
    }
    return NULL;
}

void sc_cache_remove(const char *folder)
{
    char path[4096];
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_name[0] != '.' && snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
            unlink(path);
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(folder);
}

uint32_t sc_job_count(uint32_t wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t jobs = wanted > 0 ? wanted : cores > 0 ? (uint32_t)cores : 1;
    return jobs < SC_MAX_JOBS ? jobs : SC_MAX_JOBS;
}
