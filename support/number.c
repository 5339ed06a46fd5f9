#include "support/number.h"

#include <stdlib.h>

/* In existing C libraries (glibc, musl) the C locale is static: newlocale returns it without
 * allocating. */
locale_t sc_plain_locale_enter(void)
{
    return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0));
}

void sc_plain_locale_leave(locale_t before)
{
    freelocale(uselocale(before));
}

int sc_vsnprintf(char *out, size_t room, const char *format, va_list args)
{
    locale_t before = sc_plain_locale_enter();
    int length = vsnprintf(out, room, format, args);
    sc_plain_locale_leave(before);
    return length;
}

int sc_snprintf(char *out, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = sc_vsnprintf(out, room, format, args);
    va_end(args);
    return length;
}

int sc_fprintf(FILE *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    locale_t before = sc_plain_locale_enter();
    int length = vfprintf(out, format, args);
    sc_plain_locale_leave(before);
    va_end(args);
    return length;
}

double sc_strtod(const char *text, char **end)
{
    locale_t before = sc_plain_locale_enter();
    double value = strtod(text, end);
    sc_plain_locale_leave(before);
    return value;
}

void sc_double_text(double value, char out[SC_NUMBER_TEXT])
{
    locale_t before = sc_plain_locale_enter();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, SC_NUMBER_TEXT, "%.*g", digits, value);
        if (strtod(out, NULL) == value)
            break;
    }
    sc_plain_locale_leave(before);
}

void sc_float_text(float value, char out[SC_NUMBER_TEXT])
{
    locale_t before = sc_plain_locale_enter();
    for (int digits = 6; digits <= 9; digits++) {
        snprintf(out, SC_NUMBER_TEXT, "%.*g", digits, (double)value);
        if (strtof(out, NULL) == value)
            break;
    }
    sc_plain_locale_leave(before);
}
