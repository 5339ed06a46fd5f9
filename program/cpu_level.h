/* CPU features that compiled code requires, and the subset that $SHARDC_CPU allows. */
#ifndef SHARDC_PROGRAM_CPU_LEVEL_H
#define SHARDC_PROGRAM_CPU_LEVEL_H

#include <stdbool.h>

#include "support/arena.h"

/* Instruction set levels, each including those before it. CPUs without named levels have only the
 * last, everything that the CPU has. */
typedef enum sc_cpu_level {
#define LEVEL(identifier, word, flag, has) SC_CPU_##identifier,
#include "program/cpu_levels.def"
#undef LEVEL
    SC_CPU_LEVELS
} sc_cpu_level;

/* Returns in *out the level that $SHARDC_CPU allows compilers and matmuls to use; SC_CPU_NATIVE if
 * it is unset or empty. False if it is not a level, or one that this CPU does not have: `problem`
 * (may be NULL) then has a message, and *out is SC_CPU_NATIVE. */
bool sc_cpu_allowed(sc_cpu_level *out, char *problem, size_t problem_size);
/* Returns the C compiler's flag. */
const char *sc_cpu_flag(sc_cpu_level level);
/* True if this CPU has the level's instructions and $SHARDC_CPU allows them. */
bool sc_cpu_uses(sc_cpu_level level);

/* Returns this machine's allowed features: its architecture and the extensions that compilers use
 * when targeting it, "x86_64 avx2 fma ..". */
const char *sc_cpu_features(sc_arena *arena);

/* Returns the first word of `features` that this machine lacks, and its length; NULL if it has all.
 * "" requires nothing. */
const char *sc_cpu_lacks(const char *features, size_t *out_length);

#endif
