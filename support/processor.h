/* What code that was compiled for one machine's processor needs of another's. */
#ifndef SHARDC_SUPPORT_PROCESSOR_H
#define SHARDC_SUPPORT_PROCESSOR_H

#include "support/arena.h"

/* This machine's: its architecture and the extensions that compilers use when they compile for it, "x86_64 avx2 fma ..". */
const char *sc_processor_features(sc_arena *arena);

/* The first word of `features` that this machine's do not have, and its length; NULL: it has all. "" asks for nothing. */
const char *sc_processor_lacks(const char *features, size_t *out_length);

#endif
