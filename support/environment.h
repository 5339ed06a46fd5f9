/* Numbers in environment variables. What is set is read whole or refused: nothing wraps, and nothing is half a number. */
#ifndef SHARDC_SUPPORT_ENVIRONMENT_H
#define SHARDC_SUPPORT_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_ENVIRONMENT_WHY = 256 };

/* The variable's text; NULL when it is not set, or set to nothing. */
const char *sc_environment_text(const char *name);

/* `text` as a decimal number from `least` to `most` into `*out`; NULL or empty: `*out` stays. False: `why` says
 * "NAME is '5x': not a number from 0 to 7". */
bool sc_environment_number(const char *name, const char *text, int64_t least, int64_t most, int64_t *out, char why[SC_ENVIRONMENT_WHY]);

/* The same of the process's own variable. */
bool sc_environment_i64(const char *name, int64_t least, int64_t most, int64_t *out, char why[SC_ENVIRONMENT_WHY]);

#endif
