#define _GNU_SOURCE /* O_CLOEXEC, O_DIRECTORY */
#include "support/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char not_regular[] = "it is not a regular file",
                  no_memory[] = "there is not enough memory for it";

/* ---- reading ---- */

int sc_file_open(const char *path, uint64_t *out_size, const char **reason)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0 || fstat(file, &about) != 0) {
        *reason = errno == ENXIO ? not_regular : strerror(errno); /* ENXIO: a socket */
        if (file >= 0)
            close(file);
        return -1;
    }
    if (!S_ISREG(about.st_mode)) {
        *reason = S_ISDIR(about.st_mode) ? "it is a folder, not a regular file" : not_regular;
        close(file);
        return -1;
    }
    *out_size = (uint64_t)about.st_size;
    return file;
}

bool sc_file_read_at(int file, void *out, size_t size, uint64_t offset, const char **reason)
{
    char *at = out;
    while (size > 0) {
        ssize_t got = pread(file, at, size, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *reason = got < 0 ? strerror(errno) : "it has become shorter since it was opened";
            return false;
        }
        at += got;
        offset += (uint64_t)got;
        size -= (size_t)got;
    }
    return true;
}

/* Closes `file`. */
static char *read_whole(int file, uint64_t size, uint64_t most, size_t *out_size,
                        const char **reason)
{
    bool fits = size <= most && size < SIZE_MAX;
    char *bytes = fits ? malloc((size_t)size + 1) : NULL;
    if (bytes == NULL)
        *reason = fits ? no_memory : "it is too large";
    if (bytes != NULL && !sc_file_read_at(file, bytes, (size_t)size, 0, reason)) {
        free(bytes);
        bytes = NULL;
    }
    close(file);
    if (bytes != NULL)
        bytes[size] = 0;
    *out_size = (size_t)size;
    return bytes;
}

char *sc_file_read(const char *path, uint64_t most, size_t *out_size, const char **reason)
{
    uint64_t size = 0;
    int file = sc_file_open(path, &size, reason);
    return file < 0 ? NULL : read_whole(file, size, most, out_size, reason);
}

char *sc_file_read_own(const char *path, uint64_t most, size_t *out_size, const char **reason)
{
    uint64_t size = 0;
    struct stat about;
    int file = sc_file_open(path, &size, reason);
    bool is_own = file >= 0 && fstat(file, &about) == 0 &&
                  (about.st_uid == geteuid() || about.st_uid == 0) && (about.st_mode & 022) == 0;
    if (is_own)
        return read_whole(file, size, most, out_size, reason);
    if (file >= 0) {
        *reason = "others may write it";
        close(file);
    }
    return NULL;
}

/* ---- writing ---- */

bool sc_file_write_all(int file, const void *bytes, size_t size)
{
    enum { LARGEST = 1 << 30 };
    for (const char *at = bytes; size > 0;) {
        ssize_t done = write(file, at, size < LARGEST ? size : LARGEST);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0) {
            errno = done == 0 ? ENOSPC : errno;
            return false;
        }
        at += done;
        size -= (size_t)done;
    }
    return true;
}

/* Returns the length of the folder in `path`, with the slash; 0: the current folder. */
static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? 0 : (size_t)(slash - path) + 1;
}

static bool may_replace(const char *path, const char **reason)
{
    struct stat about;
    if (stat(path, &about) != 0 || S_ISREG(about.st_mode))
        return true;
    *reason = S_ISDIR(about.st_mode) ? "it is a folder, not a regular file" : not_regular;
    return false;
}

/* Returns the temporary name of the file while it is written; NULL if memory runs out. */
static char *name_beside(const char *path, uint64_t random)
{
    size_t folder = folder_length(path), room = folder + 48;
    char *name = malloc(room);
    if (name != NULL) {
        memcpy(name, path, folder);
        snprintf(name + folder, room - folder, ".shardc-%016" PRIx64 ".tmp", random);
    }
    return name;
}

/* Creates the temporary file under a new name. An existing name, such as a link, means that the
 * random number collided or was guessed. */
static int create_beside(sc_file_writing *writing, unsigned mode)
{
    for (int attempt = 0; attempt < 8; attempt++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -1;
        free(writing->made);
        writing->made = name_beside(writing->path, random);
        int file = writing->made == NULL
                       ? -1
                       : open(writing->made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                              (mode_t)mode);
        if (file >= 0 || errno != EEXIST)
            return file;
    }
    return -1;
}

static void forget(sc_file_writing *writing)
{
    free(writing->path);
    free(writing->made);
    *writing = (sc_file_writing){.file = NULL};
}

bool sc_file_begin(sc_file_writing *writing, const char *path, unsigned mode, const char **reason)
{
    *writing = (sc_file_writing){.file = NULL};
    if (!may_replace(path, reason))
        return false;
    writing->path = strdup(path);
    int file = writing->path == NULL ? -1 : create_beside(writing, mode);
    writing->file = file < 0 ? NULL : fdopen(file, "wb");
    if (writing->file != NULL)
        return true;
    *reason = strerror(errno);
    if (file >= 0) {
        close(file);
        unlink(writing->made);
    }
    forget(writing);
    return false;
}

bool sc_sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return false;
    /* EINVAL: the file system does not sync folders and does not need to */
    bool ok = fsync(folder) == 0 || errno == EINVAL;
    int reason = errno;
    close(folder);
    errno = reason;
    return ok;
}

char *sc_parent_folder(const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    while (length > 0 && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length == 0 ? strdup(".") : strndup(path, length);
}

static bool sync_parent(const char *path)
{
    char *folder = sc_parent_folder(path);
    bool ok = folder != NULL && sc_sync_folder(folder);
    int why = errno;
    free(folder);
    errno = why;
    return ok;
}

bool sc_file_end(sc_file_writing *writing, const char **reason)
{
    bool ok = fflush(writing->file) == 0 && fsync(fileno(writing->file)) == 0;
    int why = errno;
    if (fclose(writing->file) != 0 && ok) {
        ok = false;
        why = errno;
    }
    if (ok && (rename(writing->made, writing->path) != 0 || !sync_parent(writing->path))) {
        ok = false;
        why = errno;
    }
    if (!ok) {
        unlink(writing->made); /* already renamed if only syncing the folder failed */
        *reason = strerror(why);
    }
    forget(writing);
    return ok;
}

void sc_file_drop(sc_file_writing *writing)
{
    if (writing->file == NULL)
        return;
    fclose(writing->file);
    unlink(writing->made);
    forget(writing);
}

bool sc_file_write(const char *path, const void *bytes, size_t size, unsigned mode,
                   const char **reason)
{
    sc_file_writing writing;
    if (!sc_file_begin(&writing, path, mode, reason))
        return false;
    if (fwrite(bytes, 1, size, writing.file) == size)
        return sc_file_end(&writing, reason);
    *reason = strerror(errno);
    sc_file_drop(&writing);
    return false;
}
