/* Added tokens: contents that are looked for in a text before and after it is normalized. */
#ifndef SHARDC_RUNTIME_TOKENIZER_ADDED_H
#define SHARDC_RUNTIME_TOKENIZER_ADDED_H

#include "runtime/tokenizer/types.h"

void sc_trie_init(sc_trie *trie, sc_arena *arena);
/* Adds a content that is not empty; of equal ones the first counts. */
void sc_trie_add(sc_trie *trie, sc_arena *arena, sc_span content, uint32_t index);

/* The tokens in a text, leftmost first, of several at one place the longest. */
typedef struct sc_added_search {
    const shardc_tokenizer *tokenizer;
    const sc_trie *trie;
    sc_span text;
    size_t from; /* where the search goes on */
    size_t done; /* end of the last token, with the white space that it strips */
    /* found: the token, and the range that it replaces */
    const sc_added_token *token;
    size_t begin, end;
} sc_added_search;

/* Finds the next token; false if there is none. Linear in the text but for the length of the
 * longest content. */
bool sc_added_next(sc_added_search *search);

#endif
