/* The compile cache: $SHARDC_CACHE, else $XDG_CACHE_HOME/shardc, else ~/.cache/shardc. Several
 * processes and threads may use it at once: files are written in a folder of their own and renamed,
 * and carry a checksum of their bytes and name, so that a corrupt or misnamed file is detected and
 * rebuilt. The cache is optional: where it cannot be written, everything is compiled again the next
 * time.
 *
 * Its contents become machine code in the reader's process, so it is private to the user: a folder
 * or file that somebody else owns or may write is not used, and links are not followed. The
 * checksum detects damage; it does not authenticate the writer. The least recently used files are
 * removed when the total exceeds $SHARDC_CACHE_SIZE MiB, as are the folders of killed compiles. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_CACHE_H
#define SHARDC_CODEGEN_TOOLCHAIN_CACHE_H

#include <stdbool.h>

#include "support/arena.h"

/* The hash that a file is named by. */
typedef struct sc_cache_key {
    uint64_t words[2];
} sc_cache_key;

sc_cache_key sc_cache_key_of(const void *bytes, size_t count);
/* The key of a C or CUDA source without its comments: these, such as the file and line of a model,
 * do not affect the object. */
sc_cache_key sc_cache_key_of_code(sc_arena *arena, const char *text);
/* Combines two keys, in order. */
sc_cache_key sc_cache_key_with(sc_cache_key a, sc_cache_key b);

/* Paths are in the arena and never look like an option. */
/* Opens the cache's folder, creating it if necessary; NULL: none can be used. `given` replaces the
 * environment's; "": none. *refused: why an existing folder is not used, in the arena; else
 * NULL. */
const char *sc_cache_open(sc_arena *arena, const char *given, const char **refused);
const char *sc_cache_path(sc_arena *arena, const char *folder, sc_cache_key key,
                          const char *ending);
/* Reads a file into the arena, 0-terminated; false if it cannot be read. */
bool sc_cache_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
/* Writes a new file. */
bool sc_cache_write(const char *path, const void *bytes, size_t count);
/* Reads a file with a checksum; false if there is none, it is corrupt, or not private to the
 * user. */
bool sc_cache_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_cache_is_kept(const char *path);
/* Gives a cached file a second name (a hard link), which survives its removal from the cache. */
bool sc_cache_lend(const char *path, const char *as);
/* Appends the checksum to a file and moves it into the cache; on failure (false) `path` is
 * unchanged. */
bool sc_cache_keep(const char *written, const char *path);

/* A new folder for intermediate files, inside the cache if there is one. While it is open it is
 * never removed as a leftover. */
typedef struct sc_cache_scratch {
    const char *folder; /* NULL: none can be created */
    int lock;
} sc_cache_scratch;

sc_cache_scratch sc_cache_scratch_open(sc_arena *arena, const char *cache);
/* Removes the folder and its files or, with `keep`, leaves it for a day for inspection. */
void sc_cache_scratch_close(sc_cache_scratch *scratch, bool keep);

/* Removes leftovers of killed compiles, then the least recently used files until at most `most`
 * bytes are left. Files that are not the cache's stay. */
void sc_cache_clean(const char *path, uint64_t most);
/* The limit in $SHARDC_CACHE_SIZE. NULL, or what is wrong with it, in the arena. */
const char *sc_cache_size(sc_arena *arena, uint64_t *out_bytes);

enum { SC_MAX_JOBS = 64 };
/* The number of parallel compile jobs: `wanted`; 0: one per core. */
uint32_t sc_job_count(uint32_t wanted);

#endif
