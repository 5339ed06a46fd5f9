/* Shared by the files behind objects.h: compiler processes and the compiler's cache key. */
#ifndef SHARDC_CODEGEN_TOOLCHAIN_INTERNAL_H
#define SHARDC_CODEGEN_TOOLCHAIN_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "codegen/toolchain/cache.h"
#include "codegen/toolchain/objects.h"
#include "support/vec.h"

/* A command line under construction; NULL-terminated words in the arena. */
typedef struct sc_object_command {
    sc_arena *arena;
    SC_VEC(char *) words;
} sc_object_command;

/* Starts with the compiler command: "cc", or several words separated by blanks, as in $CC. */
sc_object_command sc_object_command_new(sc_arena *arena, const char *compiler);
void sc_object_command_add(sc_object_command *command, const char *word);
/* Starts a program found in PATH with its output redirected to a file; -1 with errno on failure. */
pid_t sc_object_start(const sc_object_command *command, const char *log);
/* True if the process succeeded. Waits if `wait`; else *running reports whether it still runs. */
bool sc_object_end(pid_t pid, bool wait, bool *running);
/* A key that identifies the compiler and the CPU: the compiler's path, age and version, and what
 * -march=native depends on. */
sc_cache_key sc_object_compiler_key(sc_arena *arena, const char *compiler, const char *cache,
                                    uint32_t *started, bool *is_gcc);

#endif
