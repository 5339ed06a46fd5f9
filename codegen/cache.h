/* The folder of what was compiled: $SHARDC_CACHE, else $XDG_CACHE_HOME/shardc, else ~/.cache/shardc. Several processes and threads use it
 * at once: files are written elsewhere and renamed, and carry a sum of their bytes, so that a broken one is made anew. It is never needed:
 * where it cannot be written, everything is compiled again the next time. */
#ifndef SHARDC_CODEGEN_CACHE_H
#define SHARDC_CODEGEN_CACHE_H

#include <stdbool.h>

#include "support/arena.h"

/* What a file's name is made of. */
typedef struct sc_cache_key {
    uint64_t words[2];
} sc_cache_key;

sc_cache_key sc_cache_key_of(const void *bytes, size_t count);
/* Of both, in order. */
sc_cache_key sc_cache_key_with(sc_cache_key a, sc_cache_key b);

/* Paths are in the arena. */
/* The cache's folder, made when there is none; NULL: none can be written. `given`: instead of the environment's; "": none. */
const char *sc_cache_open(sc_arena *arena, const char *given);
const char *sc_cache_path(sc_arena *arena, const char *folder, sc_cache_key key, const char *ending);
/* A file's bytes in the arena, 0-terminated; false when it cannot be read. */
bool sc_cache_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_cache_write(const char *path, const void *bytes, size_t count);
/* A file with a sum behind it: false when it is none, or broken. */
bool sc_cache_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_cache_is_kept(const char *path);
/* Adds the sum to a file and gives it its place; false leaves the place as it was. */
bool sc_cache_keep(const char *written, const char *path);
/* A new folder for what is under way, in the cache's if there is one; NULL: none can be made. */
const char *sc_cache_scratch(sc_arena *arena, const char *cache);
/* With the files in it. */
void sc_cache_remove(const char *folder);

enum { SC_MAX_JOBS = 64 };
/* How many things are compiled at once: as many as wanted; 0: as there are cores. */
uint32_t sc_job_count(uint32_t wanted);

#endif
