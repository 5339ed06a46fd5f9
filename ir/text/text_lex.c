#include "ir/text/text_lex.h"

#include <string.h>

#include "support/strbuf.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word(char c)
{
    return is_letter(c) || is_digit(c);
}

/* The text ends with a 0 byte, so peeking one byte ahead is always valid. */
static char peek(const sc_text_lexer *lexer)
{
    return lexer->text[lexer->position];
}

/* True if it passed the start of a line. */
static bool skip_space(sc_text_lexer *lexer)
{
    bool new_line = lexer->position == 0;
    for (; lexer->position < lexer->length; lexer->position++) {
        const char *p = lexer->text + lexer->position;
        if (p[0] == '/' && p[1] == '/') {
            const char *end = memchr(p, '\n', lexer->length - lexer->position);
            lexer->position = end == NULL ? lexer->length : (uint32_t)(end - lexer->text);
            if (end == NULL)
                return new_line;
            new_line = true;
        } else if (*p == '\n') {
            new_line = true;
        } else if (*p != ' ' && *p != '\t' && *p != '\r') {
            break;
        }
    }
    return new_line;
}

static sc_token bad(sc_token token, const char *error)
{
    token.kind = SC_TOKEN_BAD;
    token.error = error;
    return token;
}

static sc_sym intern_span(sc_text_lexer *lexer, uint32_t begin)
{
    return sc_intern(&lexer->context->names, lexer->text + begin, lexer->position - begin);
}

static sc_token lex_word(sc_text_lexer *lexer, sc_token token)
{
    while (is_word(peek(lexer)) ||
           (peek(lexer) == '.' && is_word(lexer->text[lexer->position + 1])))
        lexer->position++;
    token.kind = SC_TOKEN_WORD;
    token.sym = intern_span(lexer, token.begin);
    return token;
}

static void skip_digits(sc_text_lexer *lexer)
{
    while (is_digit(peek(lexer)))
        lexer->position++;
}

static sc_token lex_number(sc_text_lexer *lexer, sc_token token)
{
    token.kind = SC_TOKEN_NUMBER;
    skip_digits(lexer);
    if (peek(lexer) == '.' && is_digit(lexer->text[lexer->position + 1])) {
        lexer->position++;
        skip_digits(lexer);
    }
    const char *p = lexer->text + lexer->position;
    if (*p == 'e' || *p == 'E') {
        bool sign = p[1] == '+' || p[1] == '-';
        if (is_digit(p[sign ? 2 : 1])) {
            lexer->position += sign ? 2 : 1;
            skip_digits(lexer);
        }
    }
    if (is_letter(peek(lexer))) {
        lexer->position++;
        return bad(token, "a number ends in a letter");
    }
    return token;
}

static sc_token lex_value(sc_text_lexer *lexer, sc_token token)
{
    token.kind = SC_TOKEN_VALUE;
    uint32_t begin = ++lexer->position;
    while (is_word(peek(lexer)))
        lexer->position++;
    if (lexer->position == begin)
        return bad(token, "'%' goes before the number of a value");
    token.sym = intern_span(lexer, begin);
    return token;
}

static int hex_digit(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Reads one escaped character after its backslash; 0 if the escape is unknown. */
static char unescape(sc_text_lexer *lexer)
{
    const char *p = lexer->text + lexer->position++;
    switch (*p) {
    case '"':
    case '\\':
        return *p;
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case 'x':
        if (hex_digit(p[1]) < 0 || hex_digit(p[2]) < 0)
            return 0;
        lexer->position += 2;
        return (char)(hex_digit(p[1]) * 16 + hex_digit(p[2]));
    default:
        return 0;
    }
}

/* Reads a string with escapes again from its beginning. */
static sc_token lex_escaped(sc_text_lexer *lexer, sc_token token)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &lexer->context->arena);
    lexer->position = token.begin + 1;
    while (peek(lexer) != '"') {
        char c = peek(lexer);
        if (c == 0 || c == '\n')
            return bad(token, "this string does not end on its line");
        lexer->position++;
        if (c == '\\' && (c = unescape(lexer)) == 0)
            return bad(token, "escapes in strings are \\\" \\\\ \\n \\t and \\x01 to \\xff");
        sc_strbuf_add_char(&out, c);
    }
    lexer->position++;
    token.sym = sc_intern(&lexer->context->names, out.data, out.length);
    return token;
}

static sc_token lex_string(sc_text_lexer *lexer, sc_token token)
{
    token.kind = SC_TOKEN_STRING;
    uint32_t begin = ++lexer->position;
    while (peek(lexer) != '"') {
        char c = peek(lexer);
        if (c == '\\')
            return lex_escaped(lexer, token);
        if (c == 0 || c == '\n')
            return bad(token, "this string does not end on its line");
        lexer->position++;
    }
    token.sym = intern_span(lexer, begin);
    lexer->position++;
    return token;
}

static sc_token lex_punctuation(sc_text_lexer *lexer, sc_token token)
{
    char c = lexer->text[lexer->position++];
    if (c == '-' && peek(lexer) == '>') {
        lexer->position++;
        token.kind = SC_TOKEN_ARROW;
        return token;
    }
    if (c == 0 || strchr("=,:()[]{}@/+-.#", c) == NULL) {
        unsigned char byte = (unsigned char)c;
        const char *format = byte > 0x20 && byte < 0x7f ? "'%c' has no meaning here"
                                                        : "byte 0x%02x has no meaning here";
        return bad(token, sc_arena_printf(&lexer->context->arena, format, byte));
    }
    token.kind = (unsigned char)c;
    return token;
}

sc_token sc_text_next(sc_text_lexer *lexer)
{
    sc_token token = {.first_on_line = skip_space(lexer)};
    token.begin = lexer->position;
    char c = peek(lexer);
    if (lexer->position >= lexer->length)
        token.kind = SC_TOKEN_END;
    else if (is_letter(c))
        token = lex_word(lexer, token);
    else if (is_digit(c))
        token = lex_number(lexer, token);
    else if (c == '%')
        token = lex_value(lexer, token);
    else if (c == '"')
        token = lex_string(lexer, token);
    else
        token = lex_punctuation(lexer, token);
    token.end = lexer->position;
    return token;
}
