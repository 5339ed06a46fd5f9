/* Reads or creates the secret that the ranks of a world share. */
#define _GNU_SOURCE /* mkostemp */
#include "runtime/comm/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/comm/backend.h"
#include "support/file.h"
#include "support/sha256.h"

enum { PATH_ROOM = 64 };

shardc_status sc_secret_random(void *out, size_t size, shardc_error *error)
{
    char *at = out;
    while (size > 0) {
        ssize_t got = getrandom(at, size, 0);
        if (got < 0 && errno != EINTR)
            return sc_fail(error, SHARDC_ERROR_UNAVAILABLE, "getrandom fails: %s", strerror(errno));
        at += got > 0 ? got : 0;
        size -= got > 0 ? (size_t)got : 0;
    }
    return SHARDC_OK;
}

/* The file is written completely, then linked under its name: nobody reads half of it, and if two
 * ranks create it the first wins. */
static shardc_status make_file(const char *path, shardc_error *error)
{
    uint8_t bytes[SC_SECRET_BYTES];
    char own[PATH_ROOM + 8];
    snprintf(own, sizeof own, "%s.XXXXXX", path);
    shardc_status status = sc_secret_random(bytes, sizeof bytes, error);
    int file = status == SHARDC_OK ? mkostemp(own, O_CLOEXEC) : -1; /* 0600 */
    if (status != SHARDC_OK)
        return status;
    bool ok = file >= 0 && sc_file_write_all(file, bytes, sizeof bytes) &&
              (link(own, path) == 0 || errno == EEXIST);
    int why = errno;
    if (file >= 0) {
        close(file);
        unlink(own);
    }
    return ok ? SHARDC_OK
              : sc_fail(error, SHARDC_ERROR_UNAVAILABLE,
                        "%s cannot be created: %s; set SHARDC_SECRET instead", path, strerror(why));
}

static shardc_status read_file(const char *path, uint8_t out[SC_SECRET_BYTES], shardc_error *error)
{
    struct stat about;
    const char *reason;
    int file = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    bool is_own = file >= 0 && fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
                  about.st_uid == geteuid() && (about.st_mode & 077) == 0 &&
                  about.st_size == SC_SECRET_BYTES;
    bool is_read = is_own && sc_file_read_at(file, out, SC_SECRET_BYTES, 0, &reason);
    if (file >= 0)
        close(file);
    return is_read ? SHARDC_OK
                   : sc_fail(error, SHARDC_ERROR_ARGUMENT,
                             "%s is not a file of %d bytes that is yours and that nobody else may "
                             "read: remove it, or set SHARDC_SECRET",
                             path, (int)SC_SECRET_BYTES);
}

shardc_status sc_secret_read(bool is_one_machine, uint8_t out[SC_SECRET_BYTES], shardc_error *error)
{
    const char *said = getenv("SHARDC_SECRET");
    char path[PATH_ROOM];
    if (said != NULL && *said != 0) {
        sc_sha256 hash;
        sc_sha256_begin(&hash);
        sc_sha256_add(&hash, said, strlen(said));
        sc_sha256_end(&hash, out);
        return SHARDC_OK;
    }
    if (!is_one_machine)
        return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                       "ranks on several machines need a secret: set SHARDC_SECRET to the same "
                       "text on all of them");
    snprintf(path, sizeof path, "/tmp/shardc-secret-%lu", (unsigned long)geteuid());
    shardc_status status = access(path, F_OK) == 0 ? SHARDC_OK : make_file(path, error);
    return status == SHARDC_OK ? read_file(path, out, error) : status;
}
