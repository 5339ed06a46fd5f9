/* What code that was compiled for one machine's CPU needs of another's, and how much of it $SHARDC_CPU leaves in use. */
#ifndef SHARDC_PROGRAM_CPU_LEVEL_H
#define SHARDC_PROGRAM_CPU_LEVEL_H

#include <stdbool.h>

#include "support/arena.h"

/* Sets of instructions, each with those before it. On CPUs without names for them there is only the last, all that the CPU has. */
typedef enum sc_cpu_level {
#define LEVEL(identifier, word, flag, has) SC_CPU_##identifier,
#include "program/cpu_levels.def"
#undef LEVEL
    SC_CPU_LEVELS
} sc_cpu_level;

/* What $SHARDC_CPU allows: compilers and matmuls use no more. Unset or empty: SC_CPU_NATIVE. False: it is no word that
 * there is, or more than this CPU has; `problem` then says so (and may be NULL), and *out is SC_CPU_NATIVE. */
bool sc_cpu_allowed(sc_cpu_level *out, char *problem, size_t problem_size);
/* The C compiler's flag. */
const char *sc_cpu_flag(sc_cpu_level level);
/* Whether this CPU has a level's instructions and $SHARDC_CPU allows them. */
bool sc_cpu_uses(sc_cpu_level level);

/* This machine's, as far as they are allowed: its architecture and the extensions that compilers use when they compile for it, "x86_64 avx2
 * fma ..". */
const char *sc_cpu_features(sc_arena *arena);

/* The first word of `features` that this machine's do not have, and its length; NULL: it has all. "" asks for nothing. */
const char *sc_cpu_lacks(const char *features, size_t *out_length);

#endif
