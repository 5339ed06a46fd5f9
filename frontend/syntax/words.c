#include "frontend/syntax/words.h"

#include <string.h>

#include "frontend/syntax/parser_state.h"
#include "parser.h"

static const sc_word_row words[SC_WORD_COUNT] = {
#define WORD(word, TOKEN, traits) {#word, sizeof #word - 1, SC_T_##TOKEN, traits},
#include "frontend/syntax/words.def"
};

const char *const sc_kind_names[SC_KIND_COUNT] = {
#define KIND(word, TOKEN, traits) #word,
#define PLAN_LINE(word, TOKEN)
#include "frontend/syntax/words.def"
};

const char *sc_kinds_text(sc_context *context)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_add_list(&text, sc_kind_names, SC_KIND_COUNT, " and ");
    return text.data;
}

const sc_word_row *sc_word_find(const char *text, size_t length, bool in_plan)
{
    for (int i = 0; i < SC_WORD_COUNT; i++) {
        if (words[i].length == length && memcmp(words[i].text, text, length) == 0)
            return in_plan || (words[i].traits & SC_WORD_IN_PLAN) == 0 ? &words[i] : NULL;
    }
    return NULL;
}

const sc_word_row *sc_word_of_token(int token)
{
    for (int i = 0; i < SC_WORD_COUNT; i++) {
        if (words[i].token == token)
            return &words[i];
    }
    return NULL;
}

bool sc_word_has(int token, uint32_t trait)
{
    const sc_word_row *word = sc_word_of_token(token);
    return word != NULL && (word->traits & trait) != 0;
}

size_t sc_words_with(uint32_t trait, const char *out[SC_WORD_COUNT])
{
    size_t count = 0;
    for (int i = 0; i < SC_WORD_COUNT; i++) {
        if ((words[i].traits & trait) != 0)
            out[count++] = words[i].text;
    }
    return count;
}
