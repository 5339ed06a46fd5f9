#include "support/strbuf.h"

#include <math.h>
#include <string.h>

#include "support/number.h"

void sc_strbuf_init(sc_strbuf *buffer, sc_arena *arena)
{
    *buffer = (sc_strbuf){.arena = arena};
    sc_strbuf_add_bytes(buffer, "", 0);
}

void sc_strbuf_add_bytes(sc_strbuf *buffer, const char *bytes, size_t length)
{
    if (buffer->length + length + 1 > buffer->capacity) {
        size_t wanted = (buffer->length + length + 1) * 2;
        wanted = wanted < 256 ? 256 : wanted;
        buffer->data = sc_arena_grow(buffer->arena, buffer->data, buffer->capacity, wanted);
        buffer->capacity = wanted;
    }
    memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    buffer->data[buffer->length] = 0;
}

void sc_strbuf_add(sc_strbuf *buffer, const char *text)
{
    sc_strbuf_add_bytes(buffer, text, strlen(text));
}

void sc_strbuf_add_char(sc_strbuf *buffer, char c)
{
    sc_strbuf_add_bytes(buffer, &c, 1);
}

void sc_strbuf_printf(sc_strbuf *buffer, const char *format, ...)
{
    char local[256];
    va_list args;
    va_start(args, format);
    int length = sc_vsnprintf(local, sizeof local, format, args);
    va_end(args);
    if (length < (int)sizeof local) {
        sc_strbuf_add_bytes(buffer, local, length < 0 ? 0 : (size_t)length);
        return;
    }
    va_start(args, format);
    sc_strbuf_add(buffer, sc_arena_vprintf(buffer->arena, format, args));
    va_end(args);
}

void sc_strbuf_add_integer(sc_strbuf *buffer, int64_t value)
{
    char text[24];
    char *p = text + sizeof text;
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0)
        *--p = '-';
    sc_strbuf_add_bytes(buffer, p, (size_t)(text + sizeof text - p));
}

void sc_strbuf_add_double(sc_strbuf *buffer, double value)
{
    if (isnan(value) || isinf(value)) {
        sc_strbuf_add(buffer, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return;
    }
    char text[SC_NUMBER_TEXT];
    sc_double_text(value, text);
    sc_strbuf_add(buffer, text);
    if (strpbrk(text, ".e") == NULL)
        sc_strbuf_add(buffer, ".0");
}

void sc_strbuf_add_list(sc_strbuf *buffer, const char *const *texts, size_t count,
                        const char *before_last)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            sc_strbuf_add(buffer, i + 1 == count ? before_last : ", ");
        sc_strbuf_add(buffer, texts[i]);
    }
}

void sc_strbuf_add_quoted(sc_strbuf *buffer, const char *text)
{
    sc_strbuf_add_char(buffer, '"');
    for (const char *p = text; *p != 0; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            sc_strbuf_printf(buffer, "\\%c", c);
        else if (c == '\n')
            sc_strbuf_add(buffer, "\\n");
        else if (c == '\t')
            sc_strbuf_add(buffer, "\\t");
        else if (c < 0x20 || c == 0x7f)
            sc_strbuf_printf(buffer, "\\x%02x", c);
        else
            sc_strbuf_add_char(buffer, (char)c);
    }
    sc_strbuf_add_char(buffer, '"');
}
