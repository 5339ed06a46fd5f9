/* Numbers as text, and texts as numbers, the same in every locale. An application that embeds shardc may have called setlocale: the C
 * library then prints and reads `1,5` where emitted C, JSON, IR and options have `1.5`. Every text with a number in it is printed and read
 * by these functions (test/lint holds the sources to it); JSON by support/json.h. Any thread; the application's locale stays as it is. */
#ifndef SHARDC_SUPPORT_NUMBER_H
#define SHARDC_SUPPORT_NUMBER_H

#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Between the two this thread has the C locale: for libraries that print or read numbers themselves. */
locale_t sc_plain_locale_enter(void);
void sc_plain_locale_leave(locale_t before);

/* As the functions of the C library that are called so. */
int sc_vsnprintf(char *out, size_t room, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
int sc_snprintf(char *out, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
int sc_fprintf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
double sc_strtod(const char *text, char **end);

enum { SC_NUMBER_TEXT = 40 };
/* The shortest decimal that reads back to the same double, or to the same float; finite. */
void sc_double_text(double value, char out[SC_NUMBER_TEXT]);
void sc_float_text(float value, char out[SC_NUMBER_TEXT]);

#endif
