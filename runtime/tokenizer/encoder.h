/* What one thread needs to encode: memory, a matcher, a cache of pieces. */
#ifndef SHARDC_RUNTIME_TOKENIZER_ENCODER_H
#define SHARDC_RUNTIME_TOKENIZER_ENCODER_H

#include <setjmp.h>

#include "runtime/tokenizer/types.h"

enum { SC_CACHED_SYMBOLS = 14, SC_CACHED_PIECES = 1 << 13 };

/* A piece and its ids, which are no more than its symbols. */
typedef struct sc_cached_piece {
    uint32_t hash;
    uint16_t symbol_count, id_count; /* symbol_count 0: empty */
    uint32_t symbols[SC_CACHED_SYMBOLS], ids[SC_CACHED_SYMBOLS];
} sc_cached_piece;

/* A symbol of a piece on its way to tokens, in a doubly linked list. */
typedef struct sc_symbol {
    uint32_t id;            /* SC_NONE: merged into its left neighbour */
    int32_t previous, next; /* -1: none */
} sc_symbol;

struct sc_encoder {
    const shardc_tokenizer *tokenizer;
    sc_arena arena; /* emptied between calls, to `empty` */
    sc_arena_mark empty;
    sc_matcher *matcher;
    sc_cached_piece *cache;
    shardc_token_ids *out;
    shardc_error *error;
    shardc_status status;
    jmp_buf failed;
    /* scratch of a call, in the arena */
    SC_VEC(uint32_t) symbols;
    SC_VEC(sc_symbol) list;
    SC_VEC(uint64_t) heap; /* rank << 32 | position of the left symbol */
    SC_VEC(int32_t) marks; /* combining marks in order */
    sc_strbuf symbol;      /* a symbol with its prefix and suffix */
    sc_encoder *next;      /* in the pool */
};

/* Takes an encoder from the tokenizer's pool or makes one. NULL if memory runs out. */
sc_encoder *sc_encoder_take(const shardc_tokenizer *tokenizer);
void sc_encoder_give(sc_encoder *encoder);
void sc_encoder_free(sc_encoder *encoder);

/* Runs `work(encoder, user)`, and unwinds to here where it fails; then the arena is empty again,
 * and `out` as before. */
shardc_status sc_encoder_run(sc_encoder *encoder, shardc_token_ids *out, shardc_error *error,
                             void (*work)(sc_encoder *, void *), void *user);

/* Ends the call with an error. */
_Noreturn void sc_encoder_fail(sc_encoder *encoder, shardc_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds to the result. */
void sc_encoder_add(sc_encoder *encoder, const uint32_t *ids, size_t count);

/* The next match of a pattern, or false; unwinds if it exceeds a limit. */
bool sc_encoder_match(sc_encoder *encoder, sc_matches *matches);

/* Returns `length` bytes of the arena. */
char *sc_encoder_text(sc_encoder *encoder, size_t length);

#endif
