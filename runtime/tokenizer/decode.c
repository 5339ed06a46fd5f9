/* Ids to text. A decoder of the file is a stage that hands its tokens on to the next; the last one
 * writes. Behind a stage that joins all tokens there is one token, which comes in parts if all
 * stages behind it only strip it, and else at the end. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/types.h"
#include "support/error.h"

typedef struct stage {
    bool has_begun;         /* METASPACE, WORDPIECE, JOIN, SUFFIX: a token came */
    size_t stripped, tail;  /* STRIP: characters stripped; those at the end that may be */
    bool is_inside;         /* STRIP: past the beginning */
    shardc_token_text held; /* BYTES, FALLBACK: bytes; FUSE, SUFFIX: text */
} stage;

struct shardc_token_stream {
    const shardc_tokenizer *tokenizer;
    bool keeps_special;
    sc_arena arena; /* scratch of a token; emptied to `empty` */
    sc_arena_mark empty;
    sc_matcher *matcher;
    jmp_buf failed;
    shardc_status status;
    shardc_error *error;
    shardc_token_text *out;
    stage stages[SC_STEPS];
};

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static void put(shardc_token_stream *s, uint32_t index, sc_span token);

/* ---- memory ---- */

static void out_of_memory(void *user)
{
    shardc_token_stream *s = user;
    s->status = sc_fail(s->error, SHARDC_ERROR_MEMORY, "there is not enough memory for the text");
    longjmp(s->failed, 1);
}

static void append(shardc_token_stream *s, shardc_token_text *text, const char *bytes,
                   size_t length)
{
    if (text->capacity - text->length < length + 1) {
        size_t wanted = (text->length + length + 1) * 2;
        char *grown = wanted < length ? NULL : realloc(text->data, wanted);
        if (grown == NULL)
            sc_arena_fail(&s->arena);
        text->data = grown;
        text->capacity = wanted;
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = 0;
}

static void append_span(shardc_token_stream *s, shardc_token_text *text, sc_span span)
{
    append(s, text, span.data, span.length);
}

/* ---- stages ---- */

/* Hands the whole or a part of a token on. */
static void hand_on(shardc_token_stream *s, uint32_t index, sc_span token)
{
    if (index + 1 < s->tokenizer->decoder_count)
        put(s, index + 1, token);
    else
        append_span(s, s->out, token);
}

static void strip(shardc_token_stream *s, uint32_t index, sc_span part)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    stage *state = &s->stages[index];
    sc_strbuf out;
    sc_strbuf_init(&out, &s->arena);
    for (size_t at = 0; at < part.length;) {
        unsigned length;
        sc_utf8_decode(part.data + at, &length);
        bool is_content =
            length == d->text.length && memcmp(part.data + at, d->text.data, length) == 0;
        if (is_content && !state->is_inside && state->stripped < d->begin) {
            state->stripped++;
        } else if (is_content && state->tail < d->end) {
            state->is_inside = true;
            state->tail++;
        } else {
            /* a content character releases the first that waits, any other all of them */
            state->is_inside = true;
            size_t kept = is_content ? state->tail : 0;
            for (; state->tail > kept; state->tail--)
                sc_strbuf_add_bytes(&out, d->text.data, d->text.length);
            sc_strbuf_add_bytes(&out, part.data + at, length);
        }
        at += length;
    }
    hand_on(s, index, (sc_span){out.data, out.length});
}

/* Ends a token: the next one is stripped at its own beginning and end. */
static void end_strip(shardc_token_stream *s, uint32_t index)
{
    stage *state = &s->stages[index];
    state->stripped = state->tail = 0;
    state->is_inside = false;
}

static bool joins(sc_decoder_kind kind)
{
    return kind == SC_DECODE_BYTES || kind == SC_DECODE_FUSE;
}

/* True if the stage gets its token in parts. */
static bool comes_in_parts(const shardc_tokenizer *t, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (joins(t->decoders[i].kind))
            return true;
    }
    return false;
}

static bool only_strips_behind(const shardc_tokenizer *t, uint32_t index)
{
    for (uint32_t i = index + 1; i < t->decoder_count; i++) {
        if (t->decoders[i].kind != SC_DECODE_STRIP)
            return false;
    }
    return true;
}

/* FUSE: hands parts on, or keeps them for the end. */
static void put_fused(shardc_token_stream *s, uint32_t index, sc_span part)
{
    if (only_strips_behind(s->tokenizer, index))
        hand_on(s, index, part);
    else
        append_span(s, &s->stages[index].held, part);
}

/* Hands on what is certain of the bytes, all of them if `is_end`; returns how many. */
static size_t put_utf8(shardc_token_stream *s, uint32_t index, sc_span bytes, bool is_end)
{
    size_t at = sc_utf8_valid_length(bytes.data, bytes.length);
    hand_on(s, index, (sc_span){bytes.data, at});
    while (at < bytes.length) {
        unsigned length;
        sc_utf8 found = sc_utf8_check(bytes.data + at, bytes.length - at, &length);
        if (found == SC_UTF8_CUT && !is_end)
            break;
        hand_on(s, index,
                found == SC_UTF8_VALID ? (sc_span){bytes.data + at, length}
                                       : (sc_span){replacement, sizeof replacement - 1});
        at += length;
    }
    return at;
}

/* The held bytes and those of a token; the token as it is if a character stands for no byte. */
static void put_bytes(shardc_token_stream *s, uint32_t index, sc_span token)
{
    shardc_token_text *held = &s->stages[index].held;
    size_t before = held->length;
    for (size_t at = 0; at < token.length;) {
        unsigned size;
        int byte = sc_character_to_byte(sc_utf8_decode(token.data + at, &size));
        char value = (char)byte;
        if (byte < 0) {
            held->length = before;
            append_span(s, held, token);
            break;
        }
        append(s, held, &value, 1);
        at += size;
    }
    if (held->length == 0)
        return;
    size_t length = held->length;
    const char *bytes = sc_arena_copy_text(&s->arena, held->data, length);
    held->length = 0;
    size_t done = put_utf8(s, index, (sc_span){bytes, length}, false);
    append(s, held, bytes + done, length - done);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int fallback_byte(sc_span token)
{
    if (token.length != 6 || memcmp(token.data, "<0x", 3) != 0 || token.data[5] != '>')
        return -1;
    int high = hex_digit(token.data[3]), low = hex_digit(token.data[4]);
    return low < 0 ? -1 : token.data[3] == '+' ? low : high < 0 ? -1 : high * 16 + low;
}

/* The bytes of a run are text if all of it is, and else each is U+FFFD. */
static void flush_fallback(shardc_token_stream *s, uint32_t index)
{
    shardc_token_text *held = &s->stages[index].held;
    if (held->length == 0)
        return;
    size_t length = held->length;
    const char *bytes = sc_arena_copy_text(&s->arena, held->data, length);
    held->length = 0;
    if (sc_utf8_valid_length(bytes, length) == length) {
        hand_on(s, index, (sc_span){bytes, length});
        return;
    }
    for (size_t i = 0; i < length; i++)
        hand_on(s, index, (sc_span){replacement, sizeof replacement - 1});
}

static void put_fallback(shardc_token_stream *s, uint32_t index, sc_span token)
{
    int byte = fallback_byte(token);
    char value = (char)byte;
    if (byte >= 0) {
        append(s, &s->stages[index].held, &value, 1);
        return;
    }
    flush_fallback(s, index);
    hand_on(s, index, token);
}

static sc_span replaced(shardc_token_stream *s, sc_span token, sc_span from, sc_span to)
{
    sc_strbuf out;
    size_t at = 0, begin = 0;
    if (from.length == 0 || token.length < from.length)
        return token;
    sc_strbuf_init(&out, &s->arena);
    while (at + from.length <= token.length) {
        if (memcmp(token.data + at, from.data, from.length) != 0) {
            at++;
            continue;
        }
        sc_strbuf_add_bytes(&out, token.data + begin, at - begin);
        sc_strbuf_add_bytes(&out, to.data, to.length);
        at += from.length;
        begin = at;
    }
    sc_strbuf_add_bytes(&out, token.data + begin, token.length - begin);
    return (sc_span){out.data, out.length};
}

static void put_replaced(shardc_token_stream *s, uint32_t index, sc_span token)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    sc_matches matches;
    sc_match found = SC_MATCH_NONE;
    sc_strbuf out;
    size_t at = 0;
    sc_strbuf_init(&out, &s->arena);
    if (token.length > 0) {
        sc_matches_init(&matches, d->pattern, s->matcher, token.data, token.length);
        while ((found = sc_matches_next(&matches)) == SC_MATCH_FOUND) {
            sc_strbuf_add_bytes(&out, token.data + at, matches.begin - at);
            sc_strbuf_add_bytes(&out, d->text.data, d->text.length);
            at = matches.end;
        }
    }
    if (found == SC_MATCH_MEMORY)
        sc_arena_fail(&s->arena);
    if (found == SC_MATCH_LIMIT) {
        s->status = sc_fail(s->error, SHARDC_ERROR_DATA,
                            "a pattern of the tokenizer's decoder takes too many steps: simplify "
                            "it");
        longjmp(s->failed, 1);
    }
    sc_strbuf_add_bytes(&out, token.data + at, token.length - at);
    hand_on(s, index, (sc_span){out.data, out.length});
}

static void put_metaspace(shardc_token_stream *s, uint32_t index, sc_span token)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    bool drops = d->drops_first && !s->stages[index].has_begun;
    s->stages[index].has_begun = true;
    hand_on(s, index, replaced(s, token, d->text, (sc_span){" ", drops ? 0 : 1}));
}

static sc_span cleaned(shardc_token_stream *s, sc_span token)
{
    static const char *const pairs[] = {
        " .",  ".",   " ?", "?",       " !",     "!",   " ,", ",",    " ' ", "'",    " n't",
        "n't", " 'm", "'m", " do not", " don't", " 's", "'s", " 've", "'ve", " 're", "'re"};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i += 2)
        token = replaced(s, token, (sc_span){pairs[i], strlen(pairs[i])},
                         (sc_span){pairs[i + 1], strlen(pairs[i + 1])});
    return token;
}

static sc_span with_space(shardc_token_stream *s, sc_span token)
{
    char *spaced = sc_arena_alloc(&s->arena, token.length + 1);
    spaced[0] = ' ';
    memcpy(spaced + 1, token.data, token.length);
    return (sc_span){spaced, token.length + 1};
}

static void put_wordpiece(shardc_token_stream *s, uint32_t index, sc_span token)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    bool continues =
        token.length >= d->text.length && memcmp(token.data, d->text.data, d->text.length) == 0;
    if (s->stages[index].has_begun && continues)
        token = (sc_span){token.data + d->text.length, token.length - d->text.length};
    else if (s->stages[index].has_begun)
        token = with_space(s, token);
    s->stages[index].has_begun = true;
    hand_on(s, index, d->cleans ? cleaned(s, token) : token);
}

/* A token waits for the next, since the last one is different. */
static void put_suffix(shardc_token_stream *s, uint32_t index, sc_span token)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    stage *state = &s->stages[index];
    if (state->has_begun) {
        sc_span before = {sc_arena_copy_text(&s->arena, state->held.data, state->held.length),
                          state->held.length};
        hand_on(s, index, replaced(s, before, d->text, (sc_span){" ", 1}));
    }
    state->has_begun = true;
    state->held.length = 0;
    append_span(s, &state->held, token);
}

static void put_joined(shardc_token_stream *s, uint32_t index, sc_span token)
{
    bool has_begun = s->stages[index].has_begun;
    s->stages[index].has_begun = true;
    hand_on(s, index, has_begun ? with_space(s, token) : token);
}

static void put(shardc_token_stream *s, uint32_t index, sc_span token)
{
    switch (s->tokenizer->decoders[index].kind) {
    case SC_DECODE_BYTES:
        put_bytes(s, index, token);
        break;
    case SC_DECODE_FALLBACK:
        put_fallback(s, index, token);
        break;
    case SC_DECODE_FUSE:
        put_fused(s, index, token);
        break;
    case SC_DECODE_REPLACE:
        put_replaced(s, index, token);
        break;
    case SC_DECODE_STRIP:
        strip(s, index, token);
        if (!comes_in_parts(s->tokenizer, index))
            end_strip(s, index);
        break;
    case SC_DECODE_METASPACE:
        put_metaspace(s, index, token);
        break;
    case SC_DECODE_WORDPIECE:
        put_wordpiece(s, index, token);
        break;
    case SC_DECODE_SUFFIX:
        put_suffix(s, index, token);
        break;
    case SC_DECODE_JOIN:
        put_joined(s, index, token);
        break;
    }
}

/* ---- the end ---- */

static void end_stage(shardc_token_stream *s, uint32_t index)
{
    const sc_decoder *d = &s->tokenizer->decoders[index];
    stage *state = &s->stages[index];
    size_t length = state->held.length;
    sc_span held = {length == 0 ? "" : sc_arena_copy_text(&s->arena, state->held.data, length),
                    length};
    state->held.length = 0;
    if (d->kind == SC_DECODE_BYTES) {
        put_utf8(s, index, held, true);
    } else if (d->kind == SC_DECODE_FALLBACK) {
        state->held.length = length;
        flush_fallback(s, index);
    } else if (d->kind == SC_DECODE_FUSE && !only_strips_behind(s->tokenizer, index)) {
        hand_on(s, index, held);
    } else if (d->kind == SC_DECODE_SUFFIX && state->has_begun) {
        hand_on(s, index, replaced(s, held, d->text, (sc_span){"", 0}));
    }
    state->has_begun = false;
    end_strip(s, index);
}

static void begin_call(shardc_token_stream *s, shardc_token_text *out, shardc_error *error)
{
    s->out = out;
    s->error = error;
    s->status = SHARDC_OK;
}

static void put_id(shardc_token_stream *s, uint32_t id)
{
    const shardc_tokenizer *t = s->tokenizer;
    sc_span token = t->shown[id];
    if (!s->keeps_special && t->is_skipped[id])
        return;
    if (token.data == NULL)
        token.data = shardc_tokenizer_content(t, id, &token.length);
    put(s, 0, token);
}

/* Appends the ids, and ends if `is_end`. */
static shardc_status run(shardc_token_stream *s, const uint32_t *ids, size_t count, bool is_end,
                         shardc_token_text *text, shardc_error *error)
{
    const size_t before = text->length;
    begin_call(s, text, error);
    if (setjmp(s->failed) != 0) {
        text->length = before;
        sc_arena_release(&s->arena, s->empty);
        return s->status;
    }
    if (s->arena.chunks == NULL) { /* a chunk that stays */
        sc_arena_alloc(&s->arena, 1);
        s->empty = sc_arena_mark_here(&s->arena);
    }
    append(s, text, "", 0);
    for (size_t i = 0; i < count; i++) {
        put_id(s, ids[i]);
        sc_arena_release(&s->arena, s->empty);
    }
    uint32_t ended = is_end ? s->tokenizer->decoder_count : 0;
    for (uint32_t i = 0; i < ended; i++)
        end_stage(s, i);
    sc_arena_release(&s->arena, s->empty);
    return SHARDC_OK;
}

static shardc_status check_ids(const shardc_tokenizer *tokenizer, const uint32_t *ids, size_t count,
                               shardc_error *error)
{
    for (size_t i = 0; i < count; i++) {
        if (shardc_tokenizer_content(tokenizer, ids[i], NULL) == NULL)
            return sc_fail(error, SHARDC_ERROR_ARGUMENT,
                           "id %u is no token: the tokenizer's ids are below %u", ids[i],
                           shardc_tokenizer_size(tokenizer));
    }
    return SHARDC_OK;
}

/* ---- calls ---- */

shardc_status shardc_token_stream_open(const shardc_tokenizer *tokenizer,
                                       shardc_special_tokens special, shardc_token_stream **out,
                                       shardc_error *error)
{
    shardc_token_stream *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to decode");
    s->tokenizer = tokenizer;
    s->keeps_special = special == SHARDC_WITH_SPECIAL_TOKENS;
    sc_arena_init(&s->arena, out_of_memory, s);
    for (uint32_t i = 0; i < tokenizer->decoder_count; i++) {
        if (tokenizer->decoders[i].pattern != NULL && s->matcher == NULL)
            s->matcher = sc_matcher_new();
        if (tokenizer->decoders[i].pattern != NULL && s->matcher == NULL) {
            shardc_token_stream_close(s);
            return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to decode");
        }
    }
    *out = s;
    return SHARDC_OK;
}

void shardc_token_stream_close(shardc_token_stream *stream)
{
    if (stream == NULL)
        return;
    for (uint32_t i = 0; i < SC_STEPS; i++)
        free(stream->stages[i].held.data);
    sc_matcher_free(stream->matcher);
    sc_arena_free(&stream->arena);
    free(stream);
}

shardc_status shardc_token_stream_put(shardc_token_stream *stream, uint32_t id,
                                      shardc_token_text *text, shardc_error *error)
{
    shardc_status status = check_ids(stream->tokenizer, &id, 1, error);
    return status != SHARDC_OK ? status : run(stream, &id, 1, false, text, error);
}

shardc_status shardc_token_stream_end(shardc_token_stream *stream, shardc_token_text *text,
                                      shardc_error *error)
{
    return run(stream, NULL, 0, true, text, error);
}

shardc_status shardc_tokenizer_decode(const shardc_tokenizer *tokenizer, const uint32_t *ids,
                                      size_t count, shardc_special_tokens special,
                                      shardc_token_text *text, shardc_error *error)
{
    shardc_token_stream *stream = NULL;
    shardc_status status = check_ids(tokenizer, ids, count, error);
    if (status == SHARDC_OK)
        status = shardc_token_stream_open(tokenizer, special, &stream, error);
    if (stream == NULL)
        return status;
    status = run(stream, ids, count, true, text, error);
    shardc_token_stream_close(stream);
    return status;
}
