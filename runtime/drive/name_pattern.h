/* Patterns of tensor names: `*` matches any characters, an expression in braces ({L}, {2*L+1}) any
 * number. */
#ifndef SHARDC_RUNTIME_DRIVE_NAME_PATTERN_H
#define SHARDC_RUNTIME_DRIVE_NAME_PATTERN_H

#include <stdbool.h>

/* True if the pattern matches the whole name. */
bool sc_name_is_like(const char *pattern, const char *name);
/* True if the pattern matches the whole name, or what follows one of its dots: `rotary_emb.*`
 * matches in every layer. */
bool sc_name_ends_like(const char *pattern, const char *name);

#endif
