#include "runtime/tokenizer/encoder.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "support/error.h"
#include "support/number.h"

/* ---- the pool ---- */

static void out_of_memory(void *user)
{
    sc_encoder *e = user;
    e->status = sc_fail(e->error, SHARDC_ERROR_MEMORY, "there is not enough memory for the text");
    longjmp(e->failed, 1);
}

static sc_encoder *new_encoder(const shardc_tokenizer *tokenizer)
{
    sc_encoder *e = calloc(1, sizeof *e);
    if (e == NULL)
        return NULL;
    e->tokenizer = tokenizer;
    sc_arena_init(&e->arena, out_of_memory, e);
    e->matcher = sc_matcher_new();
    e->cache = calloc(SC_CACHED_PIECES, sizeof *e->cache);
    if (e->matcher == NULL || e->cache == NULL) {
        sc_encoder_free(e);
        return NULL;
    }
    return e;
}

void sc_encoder_free(sc_encoder *encoder)
{
    if (encoder == NULL)
        return;
    sc_arena_free(&encoder->arena);
    sc_matcher_free(encoder->matcher);
    free(encoder->cache);
    free(encoder);
}

sc_encoder *sc_encoder_take(const shardc_tokenizer *tokenizer)
{
    /* The pool is the only part that changes; the caller's promise is about what is encoded. */
    shardc_tokenizer *pool = (shardc_tokenizer *)tokenizer;
    pthread_mutex_lock(&pool->mutex);
    sc_encoder *e = pool->idle;
    if (e != NULL)
        pool->idle = e->next;
    pthread_mutex_unlock(&pool->mutex);
    return e != NULL ? e : new_encoder(tokenizer);
}

void sc_encoder_give(sc_encoder *encoder)
{
    shardc_tokenizer *pool = (shardc_tokenizer *)encoder->tokenizer;
    pthread_mutex_lock(&pool->mutex);
    encoder->next = pool->idle;
    pool->idle = encoder;
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- calls ---- */

shardc_status sc_encoder_run(sc_encoder *encoder, shardc_token_ids *out, shardc_error *error,
                             void (*work)(sc_encoder *, void *), void *user)
{
    const size_t before = out == NULL ? 0 : out->count;
    encoder->out = out;
    encoder->error = error;
    encoder->status = SHARDC_OK;
    memset(&encoder->symbols, 0, sizeof encoder->symbols);
    memset(&encoder->list, 0, sizeof encoder->list);
    memset(&encoder->heap, 0, sizeof encoder->heap);
    memset(&encoder->marks, 0, sizeof encoder->marks);
    encoder->symbol = (sc_strbuf){.arena = &encoder->arena};
    if (setjmp(encoder->failed) != 0) {
        if (out != NULL)
            out->count = before;
    } else {
        if (encoder->arena.chunks == NULL) { /* a chunk that stays */
            sc_arena_alloc(&encoder->arena, 1);
            encoder->empty = sc_arena_mark_here(&encoder->arena);
        }
        work(encoder, user);
    }
    sc_arena_release(&encoder->arena, encoder->empty);
    return encoder->status;
}

void sc_encoder_fail(sc_encoder *encoder, shardc_status status, const char *format, ...)
{
    char text[sizeof encoder->error->text];
    va_list args;
    va_start(args, format);
    sc_vsnprintf(text, sizeof text, format, args);
    va_end(args);
    encoder->status = sc_fail(encoder->error, status, "%s", text);
    longjmp(encoder->failed, 1);
}

void sc_encoder_add(sc_encoder *encoder, const uint32_t *ids, size_t count)
{
    shardc_token_ids *out = encoder->out;
    if (out->capacity - out->count < count) {
        size_t wanted =
            out->capacity * 2 > out->count + count ? out->capacity * 2 : out->count + count + 16;
        uint32_t *grown =
            wanted > SIZE_MAX / sizeof *grown ? NULL : realloc(out->data, wanted * sizeof *grown);
        if (grown == NULL)
            sc_arena_fail(&encoder->arena);
        out->data = grown;
        out->capacity = wanted;
    }
    for (size_t i = 0; i < count; i++)
        out->data[out->count + i] = ids[i];
    out->count += count;
}

bool sc_encoder_match(sc_encoder *encoder, sc_matches *matches)
{
    switch (sc_matches_next(matches)) {
    case SC_MATCH_FOUND:
        return true;
    case SC_MATCH_NONE:
        return false;
    case SC_MATCH_MEMORY:
        sc_arena_fail(&encoder->arena);
    default:
        sc_encoder_fail(encoder, SHARDC_ERROR_DATA,
                        "a pattern of the tokenizer takes too many steps from byte %zu of a piece "
                        "of %zu bytes: shorten the text, or simplify the pattern",
                        matches->from, matches->length);
    }
}

char *sc_encoder_text(sc_encoder *encoder, size_t length)
{
    return sc_arena_alloc(&encoder->arena, length);
}
