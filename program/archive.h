/* An archive: several named pieces of bytes in one block, e.g. the GPU modules of a program. Every
 * piece begins at a multiple of SC_ARCHIVE_ALIGN. */
#ifndef SHARDC_PROGRAM_ARCHIVE_H
#define SHARDC_PROGRAM_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/strbuf.h"

enum { SC_ARCHIVE_ALIGN = 16 };

typedef struct sc_archive_entry {
    const char *name; /* not empty, no zero bytes, unique */
    const void *bytes;
    size_t size;
} sc_archive_entry;

/* Appends the archive to `out`, which must be empty. Deterministic: equal entries give equal
 * bytes. */
void sc_archive_write(const sc_archive_entry *entries, uint32_t count, sc_strbuf *out);

/* Iterates over the pieces of an untrusted archive; *cursor is 0 at first. False at the end, and
 * also if the archive is malformed: *out_broken is then true. The entry points into `bytes`. */
bool sc_archive_next(const void *bytes, size_t size, size_t *cursor, sc_archive_entry *out,
                     bool *out_broken);

/* Finds the first piece with that name; false if there is none. */
bool sc_archive_find(const void *bytes, size_t size, const char *name, sc_archive_entry *out);

#endif
