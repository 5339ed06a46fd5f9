/* A growable text in an arena. `data` is 0-terminated once something was added. */
#ifndef SHARDC_SUPPORT_STRBUF_H
#define SHARDC_SUPPORT_STRBUF_H

#include "support/arena.h"

typedef struct sc_strbuf {
    sc_arena *arena;
    char *data;
    size_t length, capacity;
} sc_strbuf;

void sc_strbuf_init(sc_strbuf *buffer, sc_arena *arena);
void sc_strbuf_add(sc_strbuf *buffer, const char *text);
void sc_strbuf_add_bytes(sc_strbuf *buffer, const char *bytes, size_t length);
void sc_strbuf_add_char(sc_strbuf *buffer, char c);
void sc_strbuf_printf(sc_strbuf *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sc_strbuf_add_integer(sc_strbuf *buffer, int64_t value);
/* Adds the shortest decimal that reads back to the same double, always with a point or an exponent;
 * inf, -inf and nan by name. */
void sc_strbuf_add_double(sc_strbuf *buffer, double value);
/* Adds texts with commas between them, the last after `before_last`: "a, b and c". */
void sc_strbuf_add_list(sc_strbuf *buffer, const char *const *texts, size_t count,
                        const char *before_last);
/* Adds the text in quotes, with quotes, backslashes and control characters escaped. */
void sc_strbuf_add_quoted(sc_strbuf *buffer, const char *text);

#endif
