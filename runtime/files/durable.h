/* Files that must survive a crash: checksummed in blocks while they are written, synced before they
 * get their name. */
#ifndef SHARDC_RUNTIME_FILES_DURABLE_H
#define SHARDC_RUNTIME_FILES_DURABLE_H

#include <stdbool.h>

#include "support/checksum.h"
#include "support/file.h"

enum {
    SC_DURABLE_ID = 16,          /* hexadecimal digits that make a name unique */
    SC_DURABLE_BUFFER = 1 << 18, /* bytes of the buffer of an open file */
    /* bytes with a checksum of their own, so that a part of a file can be checked by itself */
    SC_DURABLE_BLOCK = 1 << 20,
};

typedef struct sc_durable {
    int file; /* -1: not open */
    /* errno of the first failure; 0: none. After a failure nothing more is written */
    int reason;
    uint64_t bytes;   /* bytes added so far */
    sc_checksum sum;  /* of the current block */
    uint64_t *sums;   /* of the blocks before it; after sc_durable_end of all; malloc'd */
    size_t sum_count; /* of these */
    size_t sum_room;
    bool is_checked; /* set after sc_durable_create: blocks get checksums */
    char *buffer;
    size_t held;
} sc_durable;

/* Creates the file; fails if the name exists, even as a link. False: see out->reason. */
bool sc_durable_create(sc_durable *out, const char *path);
void sc_durable_add(sc_durable *file, const void *bytes, size_t length);
/* Writes what is buffered, syncs and closes. False: see file->reason; the file still exists. The
 * caller frees file->sums. */
bool sc_durable_end(sc_durable *file);
/* Returns the number of blocks of a file of so many bytes. */
uint64_t sc_durable_blocks(uint64_t bytes);

/* Writes SC_DURABLE_ID random digits and a terminating 0. False: errno. */
bool sc_random_id(char out[SC_DURABLE_ID + 1]);
bool sc_is_id(const char *text); /* true if its first SC_DURABLE_ID characters are such digits */

/* True if the path is a regular file that a truncated write of `begin` at `offset` may have left:
 * as far as it goes, it has these bytes. Does not follow links. */
bool sc_file_may_begin(const char *path, uint64_t offset, const char *begin);

/* Gets the free bytes of the file system of `folder`. False: errno. */
bool sc_free_bytes(const char *folder, double *out);

/* True if a file may replace what has this name. A device or a pipe must not be replaced. */
bool sc_may_replace(const char *path);

/* A file that atomically replaces another: it is written beside it, synced, then renamed over
 * it. */
typedef struct sc_replacement {
    sc_durable file;
    char *path, *made; /* NULL after the end */
} sc_replacement;

/* Begins a replacement. First removes leftovers of killed writers beside `path`: files with such
 * names that no process is writing and that have `begin` at `offset` as far as they go. False: see
 * out->file.reason; do not call sc_replacement_end. */
bool sc_replacement_begin(sc_replacement *out, const char *path, uint64_t offset,
                          const char *begin);
/* Ends it. `keep` false: the old file at the path stays. False: nothing was replaced. */
bool sc_replacement_end(sc_replacement *file, bool keep);

#endif
