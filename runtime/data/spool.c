/* Creates files without a name. */
#include "runtime/data/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

FILE *sc_spool_open(sc_context *context, int *out_file, const char **out_folder)
{
    const char *folder = getenv("TMPDIR");
    *out_folder = folder == NULL || folder[0] == 0 ? "/tmp" : folder;
    char *path = sc_arena_printf(&context->arena, "%s/shardc-ids-XXXXXX", *out_folder);
    int file = mkstemp(path), other = -1;
    FILE *stream = NULL;
    if (file >= 0) {
        unlink(path);
        fcntl(file, F_SETFD, FD_CLOEXEC);
        other = fcntl(file, F_DUPFD_CLOEXEC, 0);
    }
    if (other >= 0)
        stream = fdopen(file, "w");
    if (stream == NULL) {
        sc_report(&context->diag, SC_D_cannot_write, (sc_loc){0}, *out_folder, strerror(errno),
                  NULL);
        if (file >= 0)
            close(file);
        if (other >= 0)
            close(other);
        return NULL;
    }
    *out_file = other;
    return stream;
}
