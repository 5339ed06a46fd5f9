/* Files of the cache. A cached file is its bytes followed by a 24-byte tail: a mark, their number,
 * and a hash of them and of the file's name, which detects an entry under another entry's name.
 * Linkers and loaders ignore trailing bytes of an object, so it is used as it is. */
#define _DEFAULT_SOURCE /* flock */
#include "codegen/toolchain/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "support/environment.h"
#include "support/file.h"
#include "support/hash.h"
#include "support/strbuf.h"

typedef struct cache_tail {
    char mark[8];
    uint64_t count, hash;
} cache_tail;

#define PREFIX     "shardc-"
#define NEW_PREFIX ".shardc-new-"
#define KEEP       ".keep"

enum { DEFAULT_MIB = 4096, MOST_MIB = 1 << 30 };

static const char MARK[8] = {'s', 'h', 'a', 'r', 'd', 'c', 'o', '2'};

/* Two independent hashes. */
sc_cache_key sc_cache_key_of(const void *bytes, size_t count)
{
    return (sc_cache_key){{sc_hash_bytes(bytes, count, 0x5ca1ab1e), sc_fnv1a64(bytes, count)}};
}

/* Returns the end of a comment, or NULL if none begins here. An unterminated one does not count. */
static const char *behind_comment(const char *text)
{
    if (text[0] == '/' && text[1] == '/')
        return text + strcspn(text, "\n");
    const char *end = text[0] == '/' && text[1] == '*' ? strstr(text + 2, "*/") : NULL;
    return end == NULL ? NULL : end + 2;
}

/* Returns the end of a literal; one that does not end on its line is just a quote. */
static const char *behind_literal(const char *text)
{
    const char *at = text + 1;
    while (*at != *text && *at != '\n' && *at != 0)
        at += at[0] == '\\' && at[1] != 0 ? 2 : 1;
    return *at == *text ? at + 1 : text + 1;
}

sc_cache_key sc_cache_key_of_code(sc_arena *arena, const char *text)
{
    const sc_arena_mark mark = sc_arena_mark_here(arena);
    sc_strbuf code;
    sc_strbuf_init(&code, arena);
    while (*text != 0) {
        size_t plain = strcspn(text, "/\"'");
        sc_strbuf_add_bytes(&code, text, plain);
        text += plain;
        const char *comment = behind_comment(text);
        const char *next = comment != NULL ? comment
                           : *text == '/'  ? text + 1
                           : *text == 0    ? text
                                           : behind_literal(text);
        sc_strbuf_add_bytes(&code, comment != NULL ? " " : text,
                            comment != NULL ? 1 : (size_t)(next - text));
        text = next;
    }
    sc_cache_key key = sc_cache_key_of(code.data, code.length);
    sc_arena_release(arena, mark);
    return key;
}

sc_cache_key sc_cache_key_with(sc_cache_key a, sc_cache_key b)
{
    sc_cache_key both[2] = {a, b};
    return sc_cache_key_of(both, sizeof both);
}

const char *sc_cache_path(sc_arena *arena, const char *folder, sc_cache_key key, const char *ending)
{
    return sc_arena_printf(arena, "%s/%016llx%016llx%s", folder, (unsigned long long)key.words[0],
                           (unsigned long long)key.words[1], ending);
}

/* ---- ownership ---- */

/* True if nobody else may write it. */
static bool is_own(const struct stat *about)
{
    return about->st_uid == geteuid() && (about->st_mode & 022) == 0;
}

/* Opens a cached file, never through a link; -1: none that may be used. */
static int open_kept(const char *path, size_t *size)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && (fstat(file, &about) != 0 || !S_ISREG(about.st_mode) || !is_own(&about))) {
        close(file);
        return -1;
    }
    *size = file < 0 ? 0 : (size_t)about.st_size;
    return file;
}

/* ---- the folder ---- */

static bool make_folders(char *path)
{
    for (char *c = path + 1; *c != 0; c++) {
        if (*c != '/')
            continue;
        *c = 0;
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *c = '/';
        if (!made)
            return false;
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* NULL, or why the folder is not used. The folder itself may be a link: its target is checked. */
static const char *refuse_folder(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return strerror(errno);
    if (!S_ISDIR(about.st_mode))
        return "it is not a folder";
    if (about.st_uid != geteuid())
        return "it belongs to another user";
    if ((about.st_mode & 022) != 0)
        return "other users may write it (chmod go-w)";
    return access(path, W_OK | X_OK) != 0 ? strerror(errno) : NULL;
}

/* The compiler must not take a path for an option, or for a response file. */
static char *plain_path(sc_arena *arena, const char *path)
{
    return sc_arena_printf(arena, "%s%s", path[0] == '-' || path[0] == '@' ? "./" : "", path);
}

const char *sc_cache_open(sc_arena *arena, const char *given, const char **refused)
{
    if (given == NULL)
        given = getenv("SHARDC_CACHE");
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    *refused = NULL;
    if (given != NULL)
        path = plain_path(arena, given);
    else if (xdg != NULL && xdg[0] == '/')
        path = sc_arena_printf(arena, "%s/shardc", xdg);
    else if (home != NULL && home[0] == '/')
        path = sc_arena_printf(arena, "%s/.cache/shardc", home);
    if (path == NULL || path[0] == 0)
        return NULL;
    bool made = make_folders(path);
    const char *reason = made ? refuse_folder(path) : strerror(errno);
    if (reason == NULL)
        return path;
    if (made || given != NULL) /* an unwritable home is not an error */
        *refused = sc_arena_printf(arena, "%s: %s", path, reason);
    return NULL;
}

const char *sc_cache_size(sc_arena *arena, uint64_t *out_bytes)
{
    char why[SC_ENVIRONMENT_WHY];
    int64_t mib = DEFAULT_MIB;
    if (!sc_environment_i64("SHARDC_CACHE_SIZE", 0, MOST_MIB, &mib, why))
        return sc_arena_printf(arena, "%s", why);
    *out_bytes = (uint64_t)mib << 20;
    return NULL;
}

/* ---- files ---- */

static bool read_all(int file, uint8_t *bytes, size_t size)
{
    const char *unused;
    return sc_file_read_at(file, bytes, size, 0, &unused);
}

bool sc_cache_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    bool ok = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    close(file);
    if (!ok)
        return false;
    /* Allocate with no file open: allocation may not return. */
    *count = (size_t)status.st_size;
    *bytes = sc_arena_alloc(arena, *count + 1);
    file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ok = file >= 0 && read_all(file, *bytes, *count);
    if (file >= 0)
        close(file);
    return ok;
}

bool sc_cache_write(const char *path, const void *bytes, size_t count)
{
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool ok = file >= 0 && sc_file_write_all(file, bytes, count);
    return (file < 0 || close(file) == 0) && ok;
}

static cache_tail tail_of(const char *path, const void *bytes, size_t count)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    cache_tail tail = {.count = count,
                       .hash = sc_hash_bytes(bytes, count, sc_hash_bytes(name, strlen(name), 0))};
    memcpy(tail.mark, MARK, sizeof MARK);
    return tail;
}

/* Verifies the tail and removes it from *count. */
static bool check_kept(const char *path, const uint8_t *bytes, size_t *count)
{
    if (*count < sizeof(cache_tail))
        return false;
    *count -= sizeof(cache_tail);
    cache_tail tail = tail_of(path, bytes, *count);
    return memcmp(&tail, bytes + *count, sizeof tail) == 0;
}

bool sc_cache_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count)
{
    int file = open_kept(path, count);
    if (file < 0)
        return false;
    close(file);
    size_t size = *count, again = 0;
    *bytes = sc_arena_alloc(arena, size + 1); /* with no file open, as above */
    file = open_kept(path, &again);
    bool ok = file >= 0 && again == size && read_all(file, *bytes, size);
    if (ok)
        (void)futimens(file, NULL); /* mark as recently used */
    if (file >= 0)
        close(file);
    (*bytes)[size] = 0;
    return ok && check_kept(path, *bytes, count);
}

bool sc_cache_is_kept(const char *path)
{
    size_t count = 0;
    int file = open_kept(path, &count);
    uint8_t *bytes = file < 0 ? NULL : malloc(count + 1);
    bool kept = bytes != NULL && read_all(file, bytes, count) && check_kept(path, bytes, &count);
    if (kept)
        (void)futimens(file, NULL);
    if (file >= 0)
        close(file);
    free(bytes);
    return kept;
}

bool sc_cache_lend(const char *path, const char *as)
{
    return link(path, as) == 0;
}

bool sc_cache_keep(const char *written, const char *path)
{
    struct stat about;
    int file = open(written, O_RDWR | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool ok = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
              about.st_uid == geteuid() && fchmod(file, 0600) == 0;
    size_t count = ok ? (size_t)about.st_size : 0;
    uint8_t *bytes = ok ? malloc(count + 1) : NULL;
    ok = bytes != NULL && read_all(file, bytes, count);
    if (ok) {
        cache_tail tail = tail_of(path, bytes, count);
        ok = sc_file_write_all(file, &tail, sizeof tail);
    }
    free(bytes);
    if (file >= 0 && close(file) != 0)
        ok = false;
    return ok && rename(written, path) == 0;
}

/* ---- scratch folders ----
 *
 * A folder is locked while its compile runs, and gets its final name only once it is locked: an
 * unlocked one is a leftover. */

static void remove_folder(const char *folder)
{
    char path[4096];
    DIR *dir = opendir(folder);
    if (dir != NULL) {
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            bool is_file = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
            if (is_file &&
                snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path)
                unlink(path);
        }
    }
    if (dir != NULL)
        closedir(dir);
    rmdir(folder);
}

/* Creates the folder under the first name, locks it and renames it to the second; -1 on failure. */
static int make_scratch(char *first, char *second)
{
    if (mkdtemp(first) == NULL)
        return -1;
    size_t length = strlen(first);
    memcpy(second + strlen(second) - 6, first + length - 6, 6);
    int lock = open(first, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 && rename(first, second) == 0)
        return lock;
    if (lock >= 0)
        close(lock);
    remove_folder(first);
    return -1;
}

sc_cache_scratch sc_cache_scratch_open(sc_arena *arena, const char *cache)
{
    const char *temporary = getenv("TMPDIR");
    const char *places[] = {
        cache, temporary == NULL || *temporary == 0 ? NULL : plain_path(arena, temporary), "/tmp"};
    char *first[3] = {NULL, NULL, NULL}, *second[3] = {NULL, NULL, NULL};
    for (int i = 0; i < 3; i++) {
        if (places[i] != NULL) {
            first[i] = sc_arena_printf(arena, "%s/" NEW_PREFIX "XXXXXX", places[i]);
            second[i] = sc_arena_printf(arena, "%s/" PREFIX "XXXXXX", places[i]);
        }
    }
    for (int i = 0; i < 3; i++) {
        int lock = places[i] == NULL ? -1 : make_scratch(first[i], second[i]);
        if (lock >= 0)
            return (sc_cache_scratch){second[i], lock};
    }
    return (sc_cache_scratch){NULL, -1};
}

void sc_cache_scratch_close(sc_cache_scratch *scratch, bool keep)
{
    char mark[4096];
    if (scratch->folder == NULL)
        return;
    if (keep && snprintf(mark, sizeof mark, "%s/" KEEP, scratch->folder) < (int)sizeof mark)
        sc_cache_write(mark, "", 0);
    else
        remove_folder(scratch->folder);
    close(scratch->lock);
    *scratch = (sc_cache_scratch){NULL, -1};
}

/* ---- eviction ---- */

typedef struct cache_entry {
    char name[48];
    uint64_t bytes;
    struct timespec used;
} cache_entry;

typedef struct cache_entries {
    cache_entry *list;
    size_t count, room;
    uint64_t bytes; /* of all entries */
} cache_entries;

/* A name made by sc_cache_path: 32 digits and an extension. */
static bool is_entry_name(const char *name)
{
    size_t digits = strspn(name, "0123456789abcdef");
    return digits == 32 && name[digits] == '.' && strlen(name) < sizeof((cache_entry *)0)->name;
}

static void add_entry(cache_entries *all, const char *name, const struct stat *about)
{
    if (all->count == all->room) {
        size_t room = 2 * all->room + 256;
        cache_entry *list = realloc(all->list, room * sizeof *list);
        if (list == NULL)
            return;
        all->list = list;
        all->room = room;
    }
    cache_entry *entry = &all->list[all->count++];
    *entry = (cache_entry){.bytes = (uint64_t)about->st_size, .used = about->st_mtim};
    memcpy(entry->name, name, strlen(name) + 1);
    all->bytes += entry->bytes;
}

static int compare_used(const void *left, const void *right)
{
    const cache_entry *a = left, *b = right;
    if (a->used.tv_sec != b->used.tv_sec)
        return a->used.tv_sec < b->used.tv_sec ? -1 : 1;
    if (a->used.tv_nsec != b->used.tv_nsec)
        return a->used.tv_nsec < b->used.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Removes an unlocked folder: one of a killed compile or, after a day, one kept for inspection. */
static void remove_leftover(int folder, const char *path, const char *name)
{
    enum { DAY = 24 * 60 * 60 };
    char inner[4096];
    struct stat about, kept;
    bool is_new = strncmp(name, NEW_PREFIX, sizeof NEW_PREFIX - 1) == 0;
    int lock = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (lock < 0)
        return;
    bool is_old = fstat(lock, &about) == 0 && time(NULL) - about.st_mtime > DAY;
    bool is_left = about.st_uid == geteuid() &&
                   (is_old || (!is_new && fstatat(lock, KEEP, &kept, AT_SYMLINK_NOFOLLOW) != 0));
    if (is_left && flock(lock, LOCK_EX | LOCK_NB) == 0 &&
        snprintf(inner, sizeof inner, "%s/%s", path, name) < (int)sizeof inner)
        remove_folder(inner);
    close(lock);
}

void sc_cache_clean(const char *path, uint64_t most)
{
    cache_entries all = {0};
    struct stat about;
    DIR *dir = opendir(path);
    int folder = dir == NULL ? -1 : dirfd(dir);
    if (dir != NULL) {
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
            const char *name = entry->d_name;
            if (strncmp(name, PREFIX, sizeof PREFIX - 1) == 0 ||
                strncmp(name, NEW_PREFIX, sizeof NEW_PREFIX - 1) == 0)
                remove_leftover(folder, path, name);
            else if (is_entry_name(name) &&
                     fstatat(folder, name, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                     S_ISREG(about.st_mode))
                add_entry(&all, name, &about);
        }
    }
    if (all.bytes > most)
        qsort(all.list, all.count, sizeof *all.list, compare_used);
    for (size_t i = 0; i < all.count && all.bytes > most; i++) {
        if (unlinkat(folder, all.list[i].name, 0) == 0)
            all.bytes -= all.list[i].bytes;
    }
    free(all.list);
    if (dir != NULL)
        closedir(dir);
}

uint32_t sc_job_count(uint32_t wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t jobs = wanted > 0 ? wanted : cores > 0 ? (uint32_t)cores : 1;
    return jobs < SC_MAX_JOBS ? jobs : SC_MAX_JOBS;
}
