/* Locale-independent conversion between numbers and text. An application that embeds shardc may
 * have called setlocale, after which the C library prints and reads `1,5` where emitted C, JSON, IR
 * and options have `1.5`. All text with numbers goes through these functions (enforced by
 * test/lint), JSON through support/json.h. Thread-safe; the application's locale is not changed. */
#ifndef SHARDC_SUPPORT_NUMBER_H
#define SHARDC_SUPPORT_NUMBER_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Switches this thread to the C locale until the matching leave, for libraries that convert numbers
 * themselves. */
locale_t sc_plain_locale_enter(void);
void sc_plain_locale_leave(locale_t before);

/* As the C library functions of these names. */
int sc_vsnprintf(char *out, size_t room, const char *format, va_list args)
    __attribute__((format(printf, 3, 0)));
int sc_snprintf(char *out, size_t room, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int sc_fprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
double sc_strtod(const char *text, char **end);

enum { SC_NUMBER_TEXT = 40 };
/* Writes the shortest decimal that reads back to the same double or float. `value` must be
 * finite. */
void sc_double_text(double value, char out[SC_NUMBER_TEXT]);
void sc_float_text(float value, char out[SC_NUMBER_TEXT]);

#endif
