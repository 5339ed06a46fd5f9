#include "support/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 64 /* characters of a value shown in a message */ };

const char *sc_environment_text(const char *name)
{
    const char *text = getenv(name);
    return text == NULL || *text == 0 ? NULL : text;
}

/* Stricter than strtoll: no blanks, no plus sign, no trailing text. */
static bool parse(const char *text, int64_t *out)
{
    bool is_negative = *text == '-';
    int64_t value = 0;
    text += is_negative;
    if (*text == 0)
        return false;
    for (; *text != 0; text++) {
        int digit = *text - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, is_negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}

bool sc_environment_number(const char *name, const char *text, int64_t least, int64_t most,
                           int64_t *out, char why[SC_ENVIRONMENT_WHY])
{
    int64_t value;
    if (text == NULL || *text == 0)
        return true;
    if (parse(text, &value) && value >= least && value <= most) {
        *out = value;
        return true;
    }
    snprintf(why, SC_ENVIRONMENT_WHY, "%s is '%.*s%s': not a number from %" PRId64 " to %" PRId64,
             name, (int)SHOWN, text, strlen(text) > SHOWN ? ".." : "", least, most);
    return false;
}

bool sc_environment_i64(const char *name, int64_t least, int64_t most, int64_t *out,
                        char why[SC_ENVIRONMENT_WHY])
{
    return sc_environment_number(name, getenv(name), least, most, out, why);
}
