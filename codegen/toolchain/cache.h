/* The folder of what was compiled: $SHARDC_CACHE, else $XDG_CACHE_HOME/shardc, else ~/.cache/shardc. Several processes and threads use it
 * at once: files are written in a folder of their own and renamed, and carry a sum of their bytes and name, so that a broken one, or one
 * that has another's name, is made anew. It is
 * never needed: where it cannot be written, everything is compiled again the next time.
 *
 * What is in it becomes machine code of whoever reads it, so it is the user's alone: a folder or a file that belongs to somebody else, or
 * that others may write, is not used, and links are not followed. A sum shows damage; it does not show who wrote a file. Files that were
 * not used for longest go when all take more than $SHARDC_CACHE_SIZE MiB, and so do the folders of compiles that were killed. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_CACHE_H
#define SHARDC_CODEGEN_TOOLCHAIN_CACHE_H

#include <stdbool.h>

#include "support/arena.h"

/* What a file's name is made of. */
typedef struct sc_cache_key {
    uint64_t words[2];
} sc_cache_key;

sc_cache_key sc_cache_key_of(const void *bytes, size_t count);
/* Of a source of C or CUDA but for its comments: what they say, such as the file and line of a model, is not in the object. */
sc_cache_key sc_cache_key_of_code(sc_arena *arena, const char *text);
/* Of both, in order. */
sc_cache_key sc_cache_key_with(sc_cache_key a, sc_cache_key b);

/* Paths are in the arena, and never begin like an option. */
/* The cache's folder, made when there is none; NULL: none can be used. `given`: instead of the environment's; "": none. *refused: why one
 * that is there is not used, in the arena; else NULL. */
const char *sc_cache_open(sc_arena *arena, const char *given, const char **refused);
const char *sc_cache_path(sc_arena *arena, const char *folder, sc_cache_key key, const char *ending);
/* A file's bytes in the arena, 0-terminated; false when it cannot be read. */
bool sc_cache_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
/* A new file. */
bool sc_cache_write(const char *path, const void *bytes, size_t count);
/* A file with a sum behind it: false when it is none, broken, or not the user's alone. */
bool sc_cache_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_cache_is_kept(const char *path);
/* Gives a kept file a second name, which stays when the cache drops the first. */
bool sc_cache_lend(const char *path, const char *as);
/* Adds the sum to a file and gives it its place; false leaves the place as it was. */
bool sc_cache_keep(const char *written, const char *path);

/* A new folder for what is under way, in the cache's if there is one. As long as it is open, nobody takes it for a leftover. */
typedef struct sc_cache_scratch {
    const char *folder; /* NULL: none can be made */
    int lock;
} sc_cache_scratch;

sc_cache_scratch sc_cache_scratch_open(sc_arena *arena, const char *cache);
/* Removes it with the files in it, or, with `keep`, leaves it for a day to who wants to look. */
void sc_cache_scratch_close(sc_cache_scratch *scratch, bool keep);

/* Removes leftovers of compiles that were killed, then what was not used for longest until no more than `most` bytes are left. Files that
 * are not the cache's stay. */
void sc_cache_clean(const char *folder, uint64_t most);
/* As $SHARDC_CACHE_SIZE says. NULL, or what is wrong with it, in the arena. */
const char *sc_cache_size(sc_arena *arena, uint64_t *out_bytes);

enum { SC_MAX_JOBS = 64 };
/* How many things are compiled at once: as many as wanted; 0: as there are cores. */
uint32_t sc_job_count(uint32_t wanted);

#endif
