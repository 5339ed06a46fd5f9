/* What the files of objects.h share: the cache's files and the compiler's processes. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_INTERNAL_H
#define SHARDC_CODEGEN_TOOLCHAIN_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "codegen/toolchain/cache.h"
#include "codegen/toolchain/objects.h"
#include "support/vec.h"

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
/* What tells a compiler from another and this CPU from another: its path, age, version, and what -march=native depends on. */
sc_cache_key sc_object_compiler_key(sc_arena *arena, const char *compiler, const char *cache, uint32_t *started, bool *is_gcc);

#endif
