/* Files that strangers name, and files that are to last. A name may be a pipe, a device, a link or a folder: what is read is a regular
 * file, and opening never waits; what is written appears complete, synced and under its name, or not at all. No globals; any thread. */
#ifndef SHARDC_SUPPORT_FILE_H
#define SHARDC_SUPPORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* The file's number, which the caller closes, and its size; -1 with *reason (static, or the system's words). */
int sc_file_open(const char *path, uint64_t *out_size, const char **reason);
/* `size` bytes from `offset`; false with *reason: the file ends before, or the system's words. */
bool sc_file_read_at(int file, void *out, size_t size, uint64_t offset, const char **reason);
/* All of a regular file of at most `most` bytes, malloc'd, with a 0 behind it; NULL with *reason. */
char *sc_file_read(const char *path, uint64_t most, size_t *out_size, const char **reason);

/* The same of a file that nobody but the user and root may write. */
char *sc_file_read_own(const char *path, uint64_t most, size_t *out_size, const char **reason);

/* A file under way: beside its place, under a name of its own that nobody can guess, new. */
typedef struct sc_file_writing {
    FILE *file;
    char *path, *made; /* its place and its name until then */
} sc_file_writing;

/* The mode is what the process's mask leaves of `mode`. A link at `path` is replaced, never followed; a place where there is something else
 * than a regular file, or a link to something else, is refused. False with *reason. */
bool sc_file_begin(sc_file_writing *writing, const char *path, unsigned mode, const char **reason);
/* Syncs it, gives it its place and syncs the folder; false with *reason: the place is as it was. Either way nothing of it is left. */
bool sc_file_end(sc_file_writing *writing, const char **reason);
void sc_file_drop(sc_file_writing *writing);
/* All of that at once. */
bool sc_file_write(const char *path, const void *bytes, size_t size, unsigned mode, const char **reason);

/* What stands in the folder, names and their removal, is on the disk. False: errno. */
bool sc_sync_folder(const char *path);
/* The folder that the name `path` stands in: "." for a plain name. malloc'd; NULL: no memory. */
char *sc_parent_folder(const char *path);

#endif
