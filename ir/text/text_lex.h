/* Tokens of `shardc.ir 1`. Whitespace separates tokens; `//` starts a comment up to the end of the
 * line. A statement ends where the first token of a line cannot continue it, so tokens record
 * whether they are first on their line. */
#ifndef SHARDC_IR_TEXT_TEXT_LEX_H
#define SHARDC_IR_TEXT_TEXT_LEX_H

#include "support/context.h"

typedef enum sc_token_kind {
    SC_TOKEN_END,
    SC_TOKEN_BAD,    /* see `error` */
    SC_TOKEN_WORD,   /* layers, tp.0, shardc.ir */
    SC_TOKEN_NUMBER, /* digits with optional point and exponent; no sign */
    SC_TOKEN_STRING, /* `sym` has no quotes or escapes */
    SC_TOKEN_VALUE,  /* %12: `sym` has no % */
    SC_TOKEN_ARROW,
    SC_TOKEN_PUNCTUATION = 32 /* from here on the character itself: = , : ( ) [ ] { } @ / + - . # */
} sc_token_kind;

typedef struct sc_token {
    int kind;
    bool first_on_line;
    uint32_t begin, end; /* offsets in the text */
    sc_sym sym;
    const char *error;
} sc_token;

typedef struct sc_text_lexer {
    sc_context *context;
    const char *text; /* 0-terminated */
    uint32_t length, position;
} sc_text_lexer;

sc_token sc_text_next(sc_text_lexer *lexer);

#endif
