/* Several named pieces of bytes as one: the modules of a program for a GPU. Every piece begins at a multiple of SC_ARCHIVE_ALIGN. */
#ifndef SHARDC_PROGRAM_ARCHIVE_H
#define SHARDC_PROGRAM_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/strbuf.h"

enum { SC_ARCHIVE_ALIGN = 16 };

typedef struct sc_archive_entry {
    const char *name; /* not empty, without zeros; no two are equal */
    const void *bytes;
    size_t size;
} sc_archive_entry;

/* Appends the archive. The same entries give the same bytes. `out` is empty before. */
void sc_archive_write(const sc_archive_entry *entries, uint32_t count, sc_strbuf *out);

/* The pieces of an archive that nobody vouches for, one after the other: *cursor is 0 at first. False at its end, and where it is broken:
 * then *out_broken says so. The entry points into `bytes`. */
bool sc_archive_next(const void *bytes, size_t size, size_t *cursor, sc_archive_entry *out, bool *out_broken);

/* Of its first piece with that name. False: there is none. */
bool sc_archive_find(const void *bytes, size_t size, const char *name, sc_archive_entry *out);

#endif
