/* Patterns of tensor names: `*` is any run of characters, a hole in braces ({L}, {2*L+1}) any number. */
#ifndef SHARDC_RUNTIME_DRIVE_NAME_PATTERN_H
#define SHARDC_RUNTIME_DRIVE_NAME_PATTERN_H

#include <stdbool.h>

/* Whether the whole name is like the pattern. */
bool sc_name_is_like(const char *pattern, const char *name);
/* Whether the name, or what follows one of its dots, is like the pattern: `rotary_emb.*` is in every layer. */
bool sc_name_ends_like(const char *pattern, const char *name);

#endif
