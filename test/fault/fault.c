/* Loaded before a program (LD_PRELOAD), it makes system calls on files fail: those that change
 * something at paths that contain $SHARDC_FAULT_AT are counted (write, fsync, open that creates,
 * rename, mkdir, unlink, rmdir, truncate), and the $SHARDC_FAULT_CALL-th, from 1, is what
 * $SHARDC_FAULT says:
 *
 *     kill         the process ends instead of the call
 *     half         half of a write, or all of another call, is done; then the process ends
 *     ENOSPC, EIO  the call fails, and every later write with it
 *
 * $SHARDC_FAULT_FREE: so many bytes are free there. $SHARDC_FAULT_EXCHANGE=no: names are never
 * exchanged (renameat2), as on file systems that cannot.
 *
 * At the end the number of calls is written to $SHARDC_FAULT_COUNT, where that is given, and to
 * $SHARDC_FAULT_READ the number of bytes that pread has given and the peak of resident memory in
 * KiB (that of getrusage begins with that of the process that forked). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static atomic_long calls, bytes_read;
static atomic_bool has_failed;

static const char *setting(const char *name)
{
    const char *text = getenv(name);
    return text == NULL ? "" : text;
}

static bool is_watched(const char *path)
{
    const char *part = setting("SHARDC_FAULT_AT");
    return *part != 0 && path != NULL && strstr(path, part) != NULL;
}

static bool is_watched_file(int file)
{
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    return is_watched(path);
}

static void end_process(void)
{
    raise(SIGKILL);
}

/* Whether the call is to fail, with errno set. */
static bool fails(bool is_write)
{
    const char *how = setting("SHARDC_FAULT");
    bool is_it = atomic_fetch_add(&calls, 1) + 1 == strtol(setting("SHARDC_FAULT_CALL"), NULL, 10);
    int reason = strcmp(how, "ENOSPC") == 0 ? ENOSPC : strcmp(how, "EIO") == 0 ? EIO : 0;
    if (is_it && strcmp(how, "kill") == 0)
        end_process();
    if (is_it && reason != 0)
        has_failed = true;
    errno = reason;
    return reason != 0 && (is_it || (is_write && has_failed));
}

static bool ends_halfway(void)
{
    return strcmp(setting("SHARDC_FAULT"), "half") == 0 &&
           calls == strtol(setting("SHARDC_FAULT_CALL"), NULL, 10);
}

#define NEXT(name) ((__typeof__(&(name)))dlsym(RTLD_NEXT, #name))

static void write_number(const char *path, long number)
{
    FILE *file = *path == 0 ? NULL : fopen(path, "w");
    if (file != NULL) {
        fprintf(file, "%ld\n", number);
        fclose(file);
    }
}

static void write_read(const char *path)
{
    char line[128];
    long peak = 0;
    FILE *status = *path == 0 ? NULL : fopen("/proc/self/status", "r");
    FILE *file = *path == 0 ? NULL : fopen(path, "w");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        static const char key[] = "VmHWM:";
        if (strncmp(line, key, sizeof key - 1) == 0)
            peak = strtol(line + sizeof key - 1, NULL, 10);
    }
    if (status != NULL)
        fclose(status);
    if (file != NULL) {
        fprintf(file, "%ld %ld\n", (long)bytes_read, peak);
        fclose(file);
    }
}

__attribute__((destructor)) static void count(void)
{
    write_number(setting("SHARDC_FAULT_COUNT"), calls);
    write_read(setting("SHARDC_FAULT_READ"));
}

ssize_t pread(int file, void *bytes, size_t length, off_t at)
{
    ssize_t got = NEXT(pread)(file, bytes, length, at);
    if (got > 0 && is_watched_file(file))
        atomic_fetch_add(&bytes_read, got);
    return got;
}

ssize_t write(int file, const void *bytes, size_t length)
{
    if (!is_watched_file(file))
        return NEXT(write)(file, bytes, length);
    if (fails(true))
        return -1;
    if (ends_halfway()) {
        (void)!NEXT(write)(file, bytes, length / 2);
        end_process();
    }
    return NEXT(write)(file, bytes, length);
}

ssize_t pwrite(int file, const void *bytes, size_t length, off_t at)
{
    if (is_watched_file(file) && fails(true))
        return -1;
    return NEXT(pwrite)(file, bytes, length, at);
}

/* The call, and the end of the process after it where that is asked for. */
#define AROUND(watched, call)                                                                      \
    do {                                                                                           \
        if (!(watched))                                                                            \
            return (call);                                                                         \
        if (fails(false))                                                                          \
            return -1;                                                                             \
        int result = (call), reason = errno;                                                       \
        if (ends_halfway())                                                                        \
            end_process();                                                                         \
        errno = reason;                                                                            \
        return result;                                                                             \
    } while (0)

int fsync(int file)
{
    AROUND(is_watched_file(file), NEXT(fsync)(file));
}

int ftruncate(int file, off_t length)
{
    AROUND(is_watched_file(file), NEXT(ftruncate)(file, length));
}

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(args, mode_t) : 0;
    va_end(args);
    AROUND((flags & O_CREAT) != 0 && is_watched(path), NEXT(open)(path, flags, mode));
}

int rename(const char *from, const char *to)
{
    AROUND(is_watched(to), NEXT(rename)(from, to));
}

int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags)
{
    if (strcmp(setting("SHARDC_FAULT_EXCHANGE"), "no") == 0 && is_watched(to)) {
        errno = EINVAL;
        return -1;
    }
    AROUND(is_watched(to), NEXT(renameat2)(from_folder, from, to_folder, to, flags));
}

int statvfs(const char *path, struct statvfs *about)
{
    const char *bytes = setting("SHARDC_FAULT_FREE");
    int result = NEXT(statvfs)(path, about);
    if (result == 0 && *bytes != 0 && is_watched(path))
        about->f_bavail = (fsblkcnt_t)(strtoull(bytes, NULL, 10) / about->f_frsize);
    return result;
}

int mkdir(const char *path, mode_t mode)
{
    AROUND(is_watched(path), NEXT(mkdir)(path, mode));
}

int unlink(const char *path)
{
    AROUND(is_watched(path), NEXT(unlink)(path));
}

int rmdir(const char *path)
{
    AROUND(is_watched(path), NEXT(rmdir)(path));
}
