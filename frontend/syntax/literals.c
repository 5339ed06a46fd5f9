/* Values of literals, and comments recorded for the formatter; called by the scanner's rules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/syntax/parser_state.h"
#include "support/number.h"

static const char *shortened(sc_parser *parser, const char *text, size_t length)
{
    enum { SHOWN = 40 };
    if (length <= SHOWN)
        return sc_arena_copy_text(&parser->context->arena, text, length);
    return sc_arena_printf(&parser->context->arena, "%.*s..", (int)SHOWN, text);
}

sc_int_token sc_read_integer(sc_parser *parser, const char *text, size_t length, sc_loc loc)
{
    sc_int_token token = {0, sc_intern(&parser->context->names, text, length)};
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '_')
            continue;
        int digit = text[i] - '0';
        if (token.value > (INT64_MAX - digit) / 10) {
            sc_report(&parser->context->diag, SC_D_bad_number, loc, shortened(parser, text, length),
                      NULL);
            token.value = 0;
            return token;
        }
        token.value = token.value * 10 + digit;
    }
    return token;
}

sc_float_token sc_read_float(sc_parser *parser, const char *text, size_t length, sc_loc loc)
{
    char *digits = sc_arena_copy_text(&parser->context->arena, text, length), *end = digits;
    for (const char *c = digits; *c != 0; c++) {
        if (*c != '_')
            *end++ = *c;
    }
    *end = 0;
    sc_float_token token = {sc_strtod(digits, NULL),
                            sc_intern(&parser->context->names, text, length)};
    if (!isfinite(token.value)) {
        sc_report(&parser->context->diag, SC_D_bad_number, loc, shortened(parser, text, length),
                  NULL);
        token.value = 0;
    }
    return token;
}

static void report_escape(sc_parser *parser, const char *escape, sc_loc loc)
{
    int bytes = 1;
    while (((unsigned char)escape[bytes] & 0xc0) == 0x80)
        bytes++;
    const char *text = sc_arena_printf(
        &parser->context->arena, "'\\%.*s' is not an escape: a string knows '\\\"' and '\\\\'",
        bytes, escape);
    sc_report(&parser->context->diag, SC_D_bad_string, loc, text, NULL);
}

/* Unescapes a string literal. The scanner's text starts with a quote and ends with a quote or at
 * the end of the line. */
sc_string_token sc_read_string(sc_parser *parser, const char *text, size_t length, sc_loc loc)
{
    sc_string_token token = {0, sc_intern(&parser->context->names, text, length)};
    char *plain = sc_arena_alloc(&parser->context->arena, length);
    size_t count = 0, i = 1;
    for (; i < length && text[i] != '"'; i++) {
        if (text[i] == '\\' && i + 1 < length) {
            i++;
            if (text[i] != '"' && text[i] != '\\')
                report_escape(parser, text + i,
                              (sc_loc){loc.begin + (uint32_t)i - 1, loc.begin + (uint32_t)i + 1});
        }
        plain[count++] = text[i];
    }
    if (i >= length) {
        sc_report(&parser->context->diag, SC_D_bad_string, loc,
                  "this string has no closing '\"' on its line", NULL);
        parser->broken_end = loc.end;
    }
    token.text = sc_intern(&parser->context->names, plain, count);
    return token;
}

void sc_record_comment(sc_parser *parser, sc_loc loc)
{
    const char *text = parser->source->text;
    uint32_t at = loc.begin - parser->source->base, length = loc.end - loc.begin, before = at;
    while (length > 0 && (text[at + length - 1] == ' ' || text[at + length - 1] == '\t' ||
                          text[at + length - 1] == '\r'))
        length--;
    while (before > 0 &&
           (text[before - 1] == ' ' || text[before - 1] == '\t' || text[before - 1] == '\r'))
        before--;
    *sc_vec_push(&parser->context->arena, &parser->file->comments) =
        (sc_comment){.loc = {loc.begin, loc.begin + length},
                     .own_line = before == 0 || text[before - 1] == '\n'};
}
