/* File access for untrusted names, and durable writes. A name may refer to a pipe, a device, a link
 * or a folder; only regular files are read, and opening never blocks. A written file appears
 * complete and synced under its name. No globals; thread-safe. */
#ifndef SHARDC_SUPPORT_FILE_H
#define SHARDC_SUPPORT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Opens a file and returns its descriptor, which the caller closes, and its size. Returns -1 and
 * sets *reason (static, or the system's message). */
int sc_file_open(const char *path, uint64_t *out_size, const char **reason);
/* Reads `size` bytes at `offset`. Returns false and sets *reason if the file is shorter or on a
 * system error. */
bool sc_file_read_at(int file, void *out, size_t size, uint64_t offset, const char **reason);
/* Writes all of `size` bytes at the file's position. Returns false with errno set. */
bool sc_file_write_all(int file, const void *bytes, size_t size);
/* Reads a whole regular file of at most `most` bytes. The result is allocated with malloc and
 * followed by a 0. Returns NULL and sets *reason on failure. */
char *sc_file_read(const char *path, uint64_t most, size_t *out_size, const char **reason);

/* As sc_file_read, for a file that only the user and root can write. */
char *sc_file_read_own(const char *path, uint64_t most, size_t *out_size, const char **reason);

/* A file being written: a new file in the target's folder, under an unpredictable temporary
 * name. */
typedef struct sc_file_writing {
    FILE *file;
    char *path, *made; /* target name and temporary name */
} sc_file_writing;

/* Creates the temporary file, with `mode` restricted by the process's umask. A link at `path` will
 * be replaced, never followed. Fails if `path` exists and is neither a regular file nor a link to
 * one. Returns false and sets *reason. */
bool sc_file_begin(sc_file_writing *writing, const char *path, unsigned mode, const char **reason);
/* Syncs the file, renames it to its target name and syncs the folder. Returns false and sets
 * *reason on failure; the target is then unchanged, unless only syncing the folder failed. The
 * temporary file is gone either way. */
bool sc_file_end(sc_file_writing *writing, const char **reason);
void sc_file_drop(sc_file_writing *writing);
/* Writes a whole file with the functions above. */
bool sc_file_write(const char *path, const void *bytes, size_t size, unsigned mode,
                   const char **reason);

/* Makes the folder's entries durable, including removed ones. Returns false with errno set. */
bool sc_sync_folder(const char *path);
/* Returns the folder of `path`, "." for a plain name. Allocated with malloc; NULL if memory runs
 * out. */
char *sc_parent_folder(const char *path);

#endif
