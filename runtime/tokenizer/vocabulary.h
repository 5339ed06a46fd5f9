/* Tokens by content and by id. */
#ifndef SHARDC_RUNTIME_TOKENIZER_VOCABULARY_H
#define SHARDC_RUNTIME_TOKENIZER_VOCABULARY_H

#include <stdbool.h>

#include "support/arena.h"
#include "support/none.h"

enum { SC_TOKEN_IDS = 1 << 24 }; /* ids are below */

typedef struct sc_token {
    const char *content; /* 0-terminated; NULL: the id has no token */
    uint32_t length;
} sc_token;

/* A zeroed vocabulary with its arena set is empty. */
typedef struct sc_vocabulary {
    sc_arena *arena;
    sc_token *tokens; /* by id */
    uint32_t size, tokens_capacity;
    uint32_t *slots; /* open addressing: ids + 1 */
    uint32_t capacity, count;
    uint32_t longest; /* bytes of the longest token */
} sc_vocabulary;

/* Returns the id, or SC_NONE. */
uint32_t sc_vocabulary_find(const sc_vocabulary *vocabulary, const char *content, size_t length);
/* Adds a token whose content and id are new. The content is not copied. */
void sc_vocabulary_add(sc_vocabulary *vocabulary, const char *content, uint32_t length,
                       uint32_t id);

static inline const sc_token *sc_vocabulary_token(const sc_vocabulary *vocabulary, uint32_t id)
{
    return id < vocabulary->size && vocabulary->tokens[id].content != NULL ? &vocabulary->tokens[id]
                                                                           : NULL;
}

#endif
