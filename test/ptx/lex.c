/* Words: names with their dots, numbers, strings, and single characters. */
#include <stdio.h>
#include <stdlib.h>

#include "test/ptx/lex.h"

const sc_ptx_type_info sc_ptx_types[] = {
#define TYPE(name, bytes) {#name, bytes},
#include "test/ptx/types.def"
#undef TYPE
};

sc_ptx_type sc_ptx_type_named(const char *name)
{
    for (int t = 0; t < SC_PTX_TYPES; t++) {
        if (strcmp(sc_ptx_types[t].name, name) == 0)
            return (sc_ptx_type)t;
    }
    return SC_PTX_NO_TYPE;
}

const char *sc_ptx_line(const sc_ptx_module *module, uint32_t line, int *count)
{
    const char *at = module->text;
    for (uint32_t l = 1; l < line && at != NULL; l++) {
        at = strchr(at, '\n');
        at = at == NULL ? NULL : at + 1;
    }
    at = at == NULL ? "" : at + strspn(at, " \t");
    *count = (int)strcspn(at, "\n;");
    return at;
}

bool sc_ptx_wrong(sc_ptx_parser *p, const char *format, ...)
{
    if (p->failed)
        return false;
    p->failed = true;
    int count, length;
    const char *line = sc_ptx_line(p->module, p->line, &count);
    length = snprintf(p->report->text, sizeof p->report->text, "PTX, line %u, `%.*s`: ", p->line,
                      count < 120 ? count : 120, line);
    va_list args;
    va_start(args, format);
    vsnprintf(p->report->text + length, sizeof p->report->text - (size_t)length, format, args);
    va_end(args);
    return false;
}

sc_ptx_module *sc_ptx_parser_module(sc_ptx_parser *p)
{
    return p->module;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* A name's first character; the others may be digits, dots and `::`. */
static bool begins_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%' ||
           c == '.';
}

/* Of parts of opcodes: .shared::cta. */
static bool is_qualifier(const char *at)
{
    return at[0] == ':' && at[1] == ':';
}

static void skip_blanks(sc_ptx_parser *p)
{
    for (;;) {
        const char *at = p->next;
        if (*at == '\n')
            p->line++;
        if (*at == ' ' || *at == '\t' || *at == '\r' || *at == '\n')
            p->next++;
        else if (at[0] == '/' && at[1] == '/')
            p->next += strcspn(at, "\n");
        else
            return;
    }
}

void sc_ptx_next(sc_ptx_parser *p)
{
    skip_blanks(p);
    const char *at = p->next;
    size_t length = *at != 0;
    if (*at == '"') {
        length = 1 + strcspn(at + 1, "\"\n");
        length += at[length] == '"';
    } else if (begins_name(*at) || is_digit(*at)) {
        /* a number goes on as a name does: 0f3F800000, 0x1F, 12U, 1.5 */
        while (begins_name(at[length]) || is_digit(at[length]) || is_qualifier(at + length))
            length += is_qualifier(at + length) ? 2 : 1;
    }
    if (length >= sizeof p->word) {
        sc_ptx_wrong(p, "a word is too long");
        length = 0;
    }
    memcpy(p->word, at, length);
    p->word[length] = 0;
    p->next = at + length;
}

bool sc_ptx_is(const sc_ptx_parser *p, const char *word)
{
    return strcmp(p->word, word) == 0;
}

bool sc_ptx_take(sc_ptx_parser *p, const char *word)
{
    if (!sc_ptx_is(p, word))
        return false;
    sc_ptx_next(p);
    return true;
}

bool sc_ptx_want(sc_ptx_parser *p, const char *word)
{
    if (!sc_ptx_is(p, word))
        return sc_ptx_wrong(p, "`%s` stands where `%s` must", p->word, word);
    sc_ptx_next(p);
    return true;
}

const char *sc_ptx_take_text(sc_ptx_parser *p)
{
    const char *text = sc_arena_copy_text(&p->module->arena, p->word, strlen(p->word));
    sc_ptx_next(p);
    return text;
}

bool sc_ptx_is_name(const sc_ptx_parser *p)
{
    return begins_name(p->word[0]);
}

bool sc_ptx_is_number(const sc_ptx_parser *p)
{
    return is_digit(p->word[0]);
}

bool sc_ptx_want_number(sc_ptx_parser *p, uint64_t *out)
{
    char *end;
    *out = strtoull(p->word, &end, 0);
    if (!sc_ptx_is_number(p) || (*end != 0 && strcmp(end, "U") != 0))
        return sc_ptx_wrong(p, "`%s` stands where a whole number must", p->word);
    sc_ptx_next(p);
    return true;
}
