/* Tokens of `shardc.ir 1`. Space separates, `//` comments to the end of the line. Lines matter in one way: a statement ends where the next
 * token that begins a line cannot go on with it, so tokens know whether they are the first on theirs. */
#ifndef SHARDC_IR_TEXT_TEXT_LEX_H
#define SHARDC_IR_TEXT_TEXT_LEX_H

#include "support/context.h"

typedef enum sc_token_kind {
    SC_TOKEN_END,
    SC_TOKEN_BAD,    /* `error` says why */
    SC_TOKEN_WORD,   /* layers, tp.0, shardc.ir */
    SC_TOKEN_NUMBER, /* digits, maybe with point and exponent; no sign */
    SC_TOKEN_STRING, /* `sym` without quotes and escapes */
    SC_TOKEN_VALUE,  /* %12: `sym` without the % */
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
