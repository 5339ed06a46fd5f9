/* What the files of objects.h share: the cache's files and the compiler's processes. */
#ifndef SHARDC_CODEGEN_OBJECTS_INTERNAL_H
#define SHARDC_CODEGEN_OBJECTS_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "codegen/objects.h"
#include "support/vec.h"

typedef struct sc_object_key {
    uint64_t words[2];
} sc_object_key;

sc_object_key sc_object_key_of(const void *bytes, size_t count);
/* Of both, in order. */
sc_object_key sc_object_key_with(sc_object_key a, sc_object_key b);

/* objects_cache.c. Paths are in the arena. */
/* The cache's folder, made when there is none; NULL: none can be written. */
const char *sc_object_cache(sc_arena *arena, const sc_object_options *options);
const char *sc_object_path(sc_arena *arena, const char *folder, sc_object_key key, const char *ending);
/* A file's bytes in the arena, 0-terminated; false when it cannot be read. */
bool sc_object_read(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_object_write(const char *path, const void *bytes, size_t count);
/* A file with a sum behind it: false when it is none, or broken. */
bool sc_object_read_kept(sc_arena *arena, const char *path, uint8_t **bytes, size_t *count);
bool sc_object_is_kept(const char *path);
/* Adds the sum to a file and gives it its place; false leaves the place as it was. */
bool sc_object_keep(const char *written, const char *path);
/* A new folder for what is under way; NULL: none can be made. */
const char *sc_object_folder(sc_arena *arena, const char *cache);
/* With the files in it. */
void sc_object_remove(const char *folder);

/* objects_run.c */
/* A command line under construction; the words are in the arena, behind them stands NULL. */
typedef struct sc_object_command {
    sc_arena *arena;
    SC_VEC(char *) words;
} sc_object_command;

/* The compiler's own words: "cc", or several with blanks between, as $CC may have them. */
sc_object_command sc_object_command_new(sc_arena *arena, const char *compiler);
void sc_object_command_add(sc_object_command *command, const char *word);
/* Starts a program found in PATH, its output to a file; -1 and errno when it cannot be. */
pid_t sc_object_start(const sc_object_command *command, const char *log);
/* Whether it ended well; waits if `wait`, else *running tells that it goes on. */
bool sc_object_end(pid_t pid, bool wait, bool *running);
/* What tells a compiler from another and this processor from another: its path, age, version, and what -march=native depends on. */
sc_object_key sc_object_compiler_key(sc_arena *arena, const char *compiler, const char *cache, uint32_t *started, bool *is_gcc);

#endif
