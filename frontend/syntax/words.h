/* The table of words (words.def). */
#ifndef SHARDC_FRONTEND_SYNTAX_WORDS_H
#define SHARDC_FRONTEND_SYNTAX_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SC_WORD_IN_PLAN = 1u << 0,
    SC_WORD_LATER = 1u << 1,
    SC_WORD_DECLARES = 1u << 2,
    SC_WORD_STATES = 1u << 3,
    SC_WORD_KIND = 1u << 4,
    SC_WORD_PLAN_LINE = 1u << 5
};

enum {
#define WORD(word, TOKEN, traits) SC_WORD_NUMBER_##TOKEN,
#include "frontend/syntax/words.def"
    SC_WORD_COUNT
};

typedef struct sc_word_row {
    const char *text;
    size_t length;
    int token; /* SC_T_.. */
    uint32_t traits;
} sc_word_row;

/* The row of a text (those with SC_WORD_IN_PLAN only `in_plan`), of a token; NULL: none. */
const sc_word_row *sc_word_find(const char *text, size_t length, bool in_plan);
const sc_word_row *sc_word_of_token(int token);
/* True if the token is a word with a trait. */
bool sc_word_has(int token, uint32_t trait);
/* Lists the words with a trait, in the order of the table, and returns their number. */
size_t sc_words_with(uint32_t trait, const char *out[SC_WORD_COUNT]);

#endif
