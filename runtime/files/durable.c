/* Synced, checksummed files and atomic replacement. */
#include "runtime/files/durable.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "support/file.h"

/* ---- writing ---- */

static void fail(sc_durable *file)
{
    file->reason = file->reason != 0 ? file->reason : errno != 0 ? errno : EIO;
}

bool sc_durable_create(sc_durable *out, const char *path)
{
    *out = (sc_durable){.file = -1, .buffer = malloc(SC_DURABLE_BUFFER)};
    sc_checksum_begin(&out->sum);
    errno = ENOMEM;
    if (out->buffer != NULL)
        out->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (out->file < 0) {
        fail(out);
        free(out->buffer);
        out->buffer = NULL;
    }
    return out->file >= 0;
}

static void write_all(sc_durable *file, const char *bytes, size_t length)
{
    if (file->reason == 0 && !sc_file_write_all(file->file, bytes, length))
        fail(file);
}

uint64_t sc_durable_blocks(uint64_t bytes)
{
    return (bytes + SC_DURABLE_BLOCK - 1) / SC_DURABLE_BLOCK;
}

/* Ends the current block. */
static void end_block(sc_durable *file)
{
    if (file->sum_count == file->sum_room) {
        size_t room = 2 * file->sum_room + 16;
        uint64_t *sums = realloc(file->sums, room * sizeof *sums);
        errno = ENOMEM;
        if (sums == NULL) {
            fail(file);
            return;
        }
        file->sums = sums;
        file->sum_room = room;
    }
    file->sums[file->sum_count++] = sc_checksum_value(&file->sum);
    sc_checksum_begin(&file->sum);
}

/* Adds bytes that begin at file->bytes to the checksums of their blocks. */
static void add_to_sums(sc_durable *file, const char *bytes, size_t length)
{
    uint64_t at = file->bytes;
    while (length > 0) {
        size_t left = (size_t)(SC_DURABLE_BLOCK - at % SC_DURABLE_BLOCK),
               now = left < length ? left : length;
        sc_checksum_add(&file->sum, bytes, now);
        bytes += now;
        length -= now;
        at += now;
        if (now == left)
            end_block(file); /* a failure stays in file->reason */
    }
}

void sc_durable_add(sc_durable *file, const void *bytes, size_t length)
{
    if (length == 0 || file->reason != 0)
        return;
    if (file->is_checked)
        add_to_sums(file, bytes, length);
    file->bytes += length;
    if (file->held + length >= SC_DURABLE_BUFFER) {
        write_all(file, file->buffer, file->held);
        file->held = 0;
    }
    if (length >= SC_DURABLE_BUFFER) {
        write_all(file, bytes, length);
    } else {
        memcpy(file->buffer + file->held, bytes, length);
        file->held += length;
    }
}

bool sc_durable_end(sc_durable *file)
{
    if (file->file < 0)
        return false;
    write_all(file, file->buffer, file->held);
    if (file->is_checked && file->bytes % SC_DURABLE_BLOCK != 0)
        end_block(file);
    if (file->reason == 0 && fsync(file->file) != 0)
        fail(file);
    if (close(file->file) != 0)
        fail(file);
    free(file->buffer);
    file->buffer = NULL;
    file->file = -1;
    return file->reason == 0;
}

/* ---- folders and names ---- */

bool sc_random_id(char out[SC_DURABLE_ID + 1])
{
    uint64_t value;
    ssize_t got;
    do
        got = getrandom(&value, sizeof value, 0);
    while (got < 0 && errno == EINTR);
    if (got != sizeof value)
        return false;
    snprintf(out, SC_DURABLE_ID + 1, "%016llx", (unsigned long long)value);
    return true;
}

bool sc_is_id(const char *text)
{
    for (int i = 0; i < SC_DURABLE_ID; i++) {
        if (text[i] == 0 || strchr("0123456789abcdef", text[i]) == NULL)
            return false;
    }
    return true;
}

bool sc_file_may_begin(const char *path, uint64_t offset, const char *begin)
{
    char found[128];
    struct stat about;
    size_t length = strlen(begin);
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    bool ok = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && length <= sizeof found;
    ssize_t got = ok ? pread(file, found, length, (off_t)offset) : -1;
    close(file);
    return got >= 0 && memcmp(found, begin, (size_t)got) == 0;
}

bool sc_free_bytes(const char *folder, double *out)
{
    struct statvfs about;
    if (statvfs(folder, &about) != 0)
        return false;
    *out = (double)about.f_bavail * (double)about.f_frsize;
    return true;
}

/* ---- replacing a file ---- */

bool sc_may_replace(const char *path)
{
    struct stat about;
    return stat(path, &about) != 0 || S_ISREG(about.st_mode);
}

static const char partial[] = ".partial";

static bool is_leftover(const char *name, const char *base, size_t length)
{
    return strncmp(name, base, length) == 0 && name[length] == '.' && sc_is_id(name + length + 1) &&
           strcmp(name + length + 1 + SC_DURABLE_ID, partial) == 0;
}

static char *join(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* The writer of a temporary file holds its lock. */
static void remove_abandoned(const char *path)
{
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0)
        (void)unlink(path);
    if (file >= 0)
        close(file);
}

static void remove_leftovers(const char *path, uint64_t offset, const char *begin)
{
    const char *slash = strrchr(path, '/'), *base = slash == NULL ? path : slash + 1;
    char *folder = sc_parent_folder(path);
    DIR *stream = folder == NULL ? NULL : opendir(folder);
    if (stream != NULL) {
        for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
            char *found =
                is_leftover(entry->d_name, base, strlen(base)) ? join(folder, entry->d_name) : NULL;
            if (found != NULL && sc_file_may_begin(found, offset, begin))
                remove_abandoned(found);
            free(found);
        }
    }
    if (stream != NULL)
        closedir(stream);
    free(folder);
}

/* Another process may remove the file as a leftover before it is locked: reason ESTALE. */
static bool create_locked(sc_replacement *out)
{
    struct stat about;
    if (!sc_durable_create(&out->file, out->made))
        return false;
    /* without lock support nobody removes leftovers either */
    (void)flock(out->file.file, LOCK_EX | LOCK_NB);
    if (fstat(out->file.file, &about) == 0 && about.st_nlink > 0)
        return true;
    errno = ESTALE;
    fail(&out->file);
    sc_durable_end(&out->file);
    return false;
}

/* Creates the file under a name of its own. */
static bool create_temporary(sc_replacement *out, size_t size)
{
    enum { ATTEMPTS = 100 }; /* each process removes leftovers once */
    char id[SC_DURABLE_ID + 1];
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        out->file = (sc_durable){.file = -1};
        if (!sc_random_id(id)) {
            fail(&out->file);
            return false;
        }
        snprintf(out->made, size, "%s.%s%s", out->path, id, partial);
        if (create_locked(out))
            return true;
        if (out->file.reason != ESTALE)
            return false;
    }
    return false;
}

bool sc_replacement_begin(sc_replacement *out, const char *path, uint64_t offset, const char *begin)
{
    size_t size = strlen(path) + SC_DURABLE_ID + 1 + sizeof partial + 1;
    *out = (sc_replacement){.path = strdup(path), .made = malloc(size), .file = {.file = -1}};
    errno = ENOMEM;
    if (out->path != NULL && out->made != NULL) {
        remove_leftovers(path, offset, begin);
        if (create_temporary(out, size))
            return true;
    } else {
        fail(&out->file);
    }
    free(out->path);
    free(out->made);
    out->path = out->made = NULL;
    return false;
}

bool sc_replacement_end(sc_replacement *file, bool keep)
{
    char *folder = sc_parent_folder(file->path);
    bool done = sc_durable_end(&file->file) && keep;
    if (done && rename(file->made, file->path) != 0) {
        fail(&file->file);
        done = false;
    }
    if (!done)
        (void)unlink(file->made);
    else if (folder != NULL && !sc_sync_folder(folder))
        fail(&file->file);
    free(folder);
    free(file->path);
    free(file->made);
    file->path = file->made = NULL;
    return done && file->file.reason == 0;
}
