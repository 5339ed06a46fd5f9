/* Lines, blocks and fixed texts of emitted sources. */
#include "codegen/printer/writer.h"

#include <stdarg.h>
#include <string.h>

void sc_write_indent(sc_writer *out)
{
    for (uint32_t i = 0; i < out->depth; i++)
        sc_strbuf_add(out->text, "    ");
}

static void write_format(sc_writer *out, const char *format, va_list args)
{
    if (format[0] != '#')
        sc_write_indent(out);
    sc_strbuf_vprintf(out->text, format, args);
}

void sc_write_line(sc_writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_format(out, format, args);
    va_end(args);
    sc_strbuf_add_char(out->text, '\n');
}

void sc_write_open(sc_writer *out, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    write_format(out, format, args);
    va_end(args);
    sc_write_end_open(out);
}

void sc_write_open_block(sc_writer *out)
{
    sc_write_line(out, "{");
    out->depth++;
}

void sc_write_end_open(sc_writer *out)
{
    sc_strbuf_add(out->text, " {\n");
    out->depth++;
}

void sc_write_close(sc_writer *out)
{
    out->depth--;
    sc_write_line(out, "}");
}

void sc_write_close_to(sc_writer *out, uint32_t depth)
{
    while (out->depth > depth)
        sc_write_close(out);
}

void sc_write_fixed(sc_writer *out, const char *text, const sc_write_word *words, size_t count)
{
    while (*text != 0) {
        size_t i = 0;
        while (i < count && strncmp(text, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i < count)
            sc_strbuf_add(out->text, words[i].with);
        else
            sc_strbuf_add_char(out->text, *text);
        text += i < count ? strlen(words[i].word) : 1;
    }
    sc_strbuf_add_char(out->text, '\n');
}
