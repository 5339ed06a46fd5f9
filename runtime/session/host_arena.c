/* Files are read and written, not mapped: an error of the disk is then the result of a call, where
 * a mapping would end the process with a signal, and the arena takes no address space. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, O_TMPFILE */
#include "runtime/session/host_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/error.h"

enum { MOST_AT_ONCE = 1 << 30 /* bytes of one call; Linux copies less than 2 GiB */ };

static shardc_status fail_file(const sc_host_arena *arena, const char *what, shardc_error *error)
{
    return sc_fail(error, SHARDC_ERROR_DEVICE, "%s the file of host memory of rank %u: %s", what,
                   arena->rank, strerror(errno));
}

static shardc_status open_memory(sc_host_arena *arena, shardc_error *error)
{
    void *memory = mmap(NULL, (size_t)arena->bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return sc_fail(error, SHARDC_ERROR_MEMORY,
                       "there is not enough memory for the %lld bytes of host memory of rank %u",
                       (long long)arena->bytes, arena->rank);
    arena->memory = memory;
    return SHARDC_OK;
}

/* Returns a file without a name; file systems that lack those get a name that is removed at once.
 */
static int open_unnamed(const char *folder)
{
    char name[4096];
    int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return file;
    if (snprintf(name, sizeof name, "%s/shardc-host-XXXXXX", folder) >= (int)sizeof name) {
        errno = ENAMETOOLONG;
        return -1;
    }
    file = mkostemp(name, O_CLOEXEC);
    if (file >= 0)
        (void)unlink(name);
    return file;
}

shardc_status sc_host_arena_open(const char *folder, int64_t bytes, uint32_t rank,
                                 sc_host_arena *out, shardc_error *error)
{
    *out = (sc_host_arena){.file = -1, .bytes = bytes, .rank = rank};
    if (bytes == 0)
        return SHARDC_OK;
    if (folder == NULL)
        return open_memory(out, error);
    out->file = open_unnamed(folder);
    if (out->file < 0)
        return sc_fail(error, SHARDC_ERROR_DEVICE, "cannot open a file of host memory in '%s': %s",
                       folder, strerror(errno));
    int failure = posix_fallocate(out->file, 0, (off_t)bytes);
    if (failure == 0)
        return SHARDC_OK;
    sc_host_arena_close(out);
    return sc_fail(error, SHARDC_ERROR_DEVICE,
                   "'%s' has no room for the %lld bytes of host memory of rank %u: %s", folder,
                   (long long)bytes, rank, strerror(failure));
}

void sc_host_arena_close(sc_host_arena *arena)
{
    if (arena->memory != NULL)
        munmap(arena->memory, (size_t)arena->bytes);
    if (arena->file >= 0)
        close(arena->file);
    arena->memory = NULL;
    arena->file = -1;
}

shardc_status sc_host_arena_read(const sc_host_arena *arena, int64_t at, void *to, int64_t bytes,
                                 shardc_error *error)
{
    if (arena->memory != NULL) {
        memcpy(to, arena->memory + at, (size_t)bytes);
        return SHARDC_OK;
    }
    for (int64_t done = 0; done < bytes;) {
        int64_t left = bytes - done;
        ssize_t got =
            pread(arena->file, (char *)to + done,
                  (size_t)(left < MOST_AT_ONCE ? left : MOST_AT_ONCE), (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got == 0)
            errno = EIO;
        if (got <= 0)
            return fail_file(arena, "cannot read", error);
        done += got;
    }
    return SHARDC_OK;
}

shardc_status sc_host_arena_write(const sc_host_arena *arena, int64_t at, const void *from,
                                  int64_t bytes, shardc_error *error)
{
    if (arena->memory != NULL) {
        memcpy(arena->memory + at, from, (size_t)bytes);
        return SHARDC_OK;
    }
    for (int64_t done = 0; done < bytes;) {
        int64_t left = bytes - done;
        ssize_t put =
            pwrite(arena->file, (const char *)from + done,
                   (size_t)(left < MOST_AT_ONCE ? left : MOST_AT_ONCE), (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail_file(arena, "cannot write", error);
        done += put;
    }
    return SHARDC_OK;
}
