/* Numeric environment variables. A value is accepted only as a whole: nothing wraps or is
 * truncated. */
#ifndef SHARDC_SUPPORT_ENVIRONMENT_H
#define SHARDC_SUPPORT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_ENVIRONMENT_WHY = 256 };

/* Returns the variable's text; NULL if unset or empty. */
const char *sc_environment_text(const char *name);

/* Parses `text` as a decimal number from `least` to `most` into *out. NULL or empty text leaves
 * *out unchanged. On failure returns false and sets `why`: "NAME is '5x': not a number from 0 to
 * 7". */
bool sc_environment_number(const char *name, const char *text, int64_t least, int64_t most,
                           int64_t *out, char why[SC_ENVIRONMENT_WHY]);

/* As sc_environment_number, for the process's own variable. */
bool sc_environment_i64(const char *name, int64_t least, int64_t most, int64_t *out,
                        char why[SC_ENVIRONMENT_WHY]);

#endif
