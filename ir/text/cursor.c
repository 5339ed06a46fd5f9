/* The parser's token cursor, and error messages about the current token. */
#include <string.h>

#include "ir/text/parse_internal.h"

void sc_parse_advance(sc_parser *p)
{
    p->token = sc_text_next(&p->lexer);
}

sc_loc sc_parse_loc(const sc_parser *p)
{
    return (sc_loc){p->base + p->token.begin, p->base + p->token.end};
}

bool sc_parse_at_word(const sc_parser *p, const char *word)
{
    return p->token.kind == SC_TOKEN_WORD && strcmp(sc_text(p->context, p->token.sym), word) == 0;
}

bool sc_parse_accept(sc_parser *p, int kind)
{
    if (p->token.kind != kind)
        return false;
    sc_parse_advance(p);
    return true;
}

bool sc_parse_accept_word(sc_parser *p, const char *word)
{
    if (!sc_parse_at_word(p, word))
        return false;
    sc_parse_advance(p);
    return true;
}

bool sc_parse_expect(sc_parser *p, int kind)
{
    if (sc_parse_accept(p, kind))
        return true;
    char what[] = {'\'', (char)kind, '\'', 0};
    return sc_parse_expected(p, kind == SC_TOKEN_ARROW ? "'->'" : what);
}

bool sc_parse_fail(sc_parser *p, sc_loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = sc_arena_vprintf(&p->context->arena, format, args);
    va_end(args);
    for (char *c = text; *c != 0; c++) { /* quoted names may contain any byte */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    }
    sc_report(&p->context->diag, SC_D_ir_syntax, loc, text, NULL);
    return false;
}

bool sc_parse_expected(sc_parser *p, const char *what)
{
    uint32_t length = p->token.end - p->token.begin;
    if (p->token.kind == SC_TOKEN_BAD)
        return sc_parse_fail(p, sc_parse_loc(p), "%s", p->token.error);
    if (p->token.kind == SC_TOKEN_END)
        return sc_parse_fail(p, sc_parse_loc(p), "expected %s, found the end of the text", what);
    return sc_parse_fail(p, sc_parse_loc(p), "expected %s, found '%.*s'%s", what,
                         (int)(length < SC_PARSE_SHOWN ? length : SC_PARSE_SHOWN),
                         p->lexer.text + p->token.begin, length > SC_PARSE_SHOWN ? ".." : "");
}

bool sc_parse_unknown(sc_parser *p, sc_loc loc, const char *what, sc_sym name,
                      const char *const *candidates, size_t count)
{
    const char *text = sc_text(p->context, name);
    const char *nearest =
        strlen(text) <= SC_PARSE_SHOWN ? sc_nearest(text, candidates, count) : NULL;
    if (nearest == NULL)
        return sc_parse_fail(p, loc, "there is no %s '%.*s'", what, SC_PARSE_SHOWN, text);
    return sc_parse_fail(p, loc, "there is no %s '%s'; did you mean '%s'?", what, text, nearest);
}
