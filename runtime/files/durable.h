/* Files that must survive a crash: written once, summed while they are written, synced before they are named. */
#ifndef SHARDC_RUNTIME_FILES_DURABLE_H
#define SHARDC_RUNTIME_FILES_DURABLE_H

#include <stdbool.h>

#include "support/checksum.h"
#include "support/file.h"

enum {
    SC_DURABLE_ID = 16,          /* hexadecimal digits of what makes a name unique */
    SC_DURABLE_BUFFER = 1 << 18, /* bytes of memory of an open file */
};

typedef struct sc_durable {
    int file;       /* -1: not open */
    int reason;     /* errno of the first failure; 0: none. After one nothing more is written */
    uint64_t bytes; /* added so far */
    sc_checksum sum;
    char *buffer;
    size_t held;
} sc_durable;

/* Creates the file: nothing may have its name, a link included. False: out->reason. */
bool sc_durable_create(sc_durable *out, const char *path);
void sc_durable_add(sc_durable *file, const void *bytes, size_t length);
/* Writes the rest, syncs and closes. False: file->reason; the file is there all the same. */
bool sc_durable_end(sc_durable *file);

/* SC_DURABLE_ID random digits and a 0. False: errno. */
bool sc_draw_id(char out[SC_DURABLE_ID + 1]);
bool sc_is_id(const char *text); /* its first SC_DURABLE_ID characters are such digits */

/* Whether a regular file holds what a write of `begin` at `offset` may have left there when it was cut short: as far as it goes, these
 * bytes. Links are not followed. */
bool sc_file_may_begin(const char *path, uint64_t offset, const char *begin);

/* Free bytes of the file system that the folder is on. False: errno. */
bool sc_free_bytes(const char *folder, double *out);

/* Whether a file may take the place of what has the name: not that of a device or a pipe, which it would replace for everybody. */
bool sc_may_replace(const char *path);

/* A file that takes the place of another, complete or not at all: it is written beside it, synced and renamed. */
typedef struct sc_replacement {
    sc_durable file;
    char *path, *made; /* NULL after it has ended */
} sc_replacement;

/* What killed writers left beside `path` is removed: files with such names, which nobody is writing and which hold `begin` at `offset` as
 * far as they go. False: out->file.reason, and nothing is to be ended. */
bool sc_replacement_begin(sc_replacement *out, const char *path, uint64_t offset, const char *begin);
/* `keep` false: what stood at the path stays. False: nothing was replaced. */
bool sc_replacement_end(sc_replacement *file, bool keep);

#endif
