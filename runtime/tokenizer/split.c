/* Steps call the next one for each of their pieces, so that a piece goes to the model while it is
 * in the cache. */
#include "runtime/tokenizer/split.h"

#include <string.h>

#include "runtime/tokenizer/bpe.h"
#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/wordpiece.h"

static void run_step(sc_encoder *e, uint32_t step, sc_span text, bool begins);

/* A step on one text: ranges of it, matches and what is between, become pieces. */
typedef struct splitting {
    sc_encoder *encoder;
    uint32_t step;
    sc_span text;
    bool begins;
    sc_behavior behavior;
    bool is_inverted;
    bool has_last, last_is_match; /* a range that the next one may join */
    size_t last_begin, last_end;
    bool before_is_match; /* the range before, as it came */
} splitting;

static splitting begin_splitting(sc_encoder *e, uint32_t step, sc_span text, bool begins)
{
    const sc_splitter *splitter = &e->tokenizer->splitters[step];
    return (splitting){.encoder = e,
                       .step = step,
                       .text = text,
                       .begins = begins,
                       .behavior = splitter->behavior,
                       .is_inverted = splitter->is_inverted};
}

static void add_piece(splitting *s, size_t begin, size_t end)
{
    if (begin < end)
        run_step(s->encoder, s->step + 1, (sc_span){s->text.data + begin, end - begin},
                 s->begins && begin == 0);
}

static void flush(splitting *s)
{
    if (s->has_last)
        add_piece(s, s->last_begin, s->last_end);
    s->has_last = false;
}

/* True if the range joins the last one. */
static bool joins(const splitting *s, bool is_match)
{
    switch (s->behavior) {
    case SC_CONTIGUOUS:
        return is_match == s->before_is_match;
    case SC_MERGED_WITH_PREVIOUS:
        return is_match && !s->before_is_match;
    case SC_MERGED_WITH_NEXT:
        return !is_match && s->last_is_match;
    default:
        return false;
    }
}

static void add_range(splitting *s, size_t begin, size_t end, bool is_match)
{
    is_match = is_match != s->is_inverted;
    if (s->has_last && joins(s, is_match)) {
        s->last_end = end;
        s->last_is_match = false;
    } else {
        flush(s);
        s->has_last = s->behavior != SC_REMOVED || !is_match;
        s->last_begin = begin;
        s->last_end = end;
        s->last_is_match = is_match;
    }
    s->before_is_match = is_match;
}

static void split_pattern(splitting *s, const sc_pattern *pattern)
{
    sc_matches matches;
    size_t at = 0;
    sc_matches_init(&matches, pattern, s->encoder->matcher, s->text.data, s->text.length);
    while (sc_encoder_match(s->encoder, &matches)) {
        if (at < matches.begin)
            add_range(s, at, matches.begin, false);
        add_range(s, matches.begin, matches.end, true);
        at = matches.end;
    }
    if (at < s->text.length)
        add_range(s, at, s->text.length, false);
    flush(s);
}

static bool is_of_kind(uint32_t c, sc_split_kind kind)
{
    if (kind == SC_SPLIT_WHITE)
        return sc_char_is_white(c);
    return sc_char_is_in(c, kind == SC_SPLIT_DIGITS ? SC_CHAR_NUMERIC : SC_CHAR_PUNCTUATION);
}

static void split_characters(splitting *s, sc_split_kind kind)
{
    size_t from = 0;
    for (size_t at = 0; at < s->text.length;) {
        unsigned length;
        if (is_of_kind(sc_utf8_decode(s->text.data + at, &length), kind)) {
            if (from < at)
                add_range(s, from, at, false);
            add_range(s, at, at + length, true);
            from = at + length;
        }
        at += length;
    }
    if (from < s->text.length)
        add_range(s, from, s->text.length, false);
    flush(s);
}

typedef enum word_class { WHITE, WORD, OTHER } word_class;

static word_class class_of(uint32_t c)
{
    if (sc_char_is_white(c))
        return WHITE;
    return sc_char_is_in(c, SC_CHAR_WORD) ? WORD : OTHER;
}

static void split_words(splitting *s)
{
    size_t from = 0;
    word_class class = WHITE;
    for (size_t at = 0; at < s->text.length;) {
        unsigned length;
        word_class here = class_of(sc_utf8_decode(s->text.data + at, &length));
        if (here != class && class != WHITE)
            add_piece(s, from, at);
        if (here != class)
            from = at;
        class = here;
        at += length;
    }
    if (class != WHITE)
        add_piece(s, from, s->text.length);
}

static bool starts_with(sc_span text, sc_span start)
{
    return text.length >= start.length && memcmp(text.data, start.data, start.length) == 0;
}

/* The text with `mark` for each ' ', and one before it if `prepends`. */
static sc_span marked(sc_encoder *e, sc_span text, sc_span mark, bool prepends)
{
    size_t spaces = 0;
    for (size_t i = 0; i < text.length; i++)
        spaces += text.data[i] == ' ';
    if (prepends && (text.data[0] == ' ' || starts_with(text, mark)))
        prepends = false;
    if (spaces == 0 && !prepends)
        return text;
    /* a character has at most four bytes */
    if (text.length > SIZE_MAX / 16)
        sc_arena_fail(&e->arena);
    size_t length = text.length + spaces * (mark.length - 1) + (prepends ? mark.length : 0), to = 0;
    char *out = sc_encoder_text(e, length);
    if (prepends) {
        memcpy(out, mark.data, mark.length);
        to = mark.length;
    }
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == ' ') {
            memcpy(out + to, mark.data, mark.length);
            to += mark.length;
        } else {
            out[to++] = text.data[i];
        }
    }
    return (sc_span){out, length};
}

static void split_metaspace(splitting *s, const sc_splitter *step)
{
    size_t from = 0;
    s->text = marked(s->encoder, s->text, step->text,
                     step->prepend == SC_PREPEND_ALWAYS ||
                         (step->prepend == SC_PREPEND_FIRST && s->begins));
    size_t end = step->splits ? s->text.length : 0;
    for (size_t at = 1; at < end; at++) {
        if (starts_with((sc_span){s->text.data + at, s->text.length - at}, step->text)) {
            add_piece(s, from, at);
            from = at;
        }
    }
    add_piece(s, from, s->text.length);
}

static sc_span with_space(sc_encoder *e, sc_span text)
{
    if (text.data[0] == ' ')
        return text;
    char *out = sc_encoder_text(e, text.length + 1);
    out[0] = ' ';
    memcpy(out + 1, text.data, text.length);
    return (sc_span){out, text.length + 1};
}

static sc_span as_characters(sc_encoder *e, sc_span text)
{
    if (text.length > SIZE_MAX / 4)
        sc_arena_fail(&e->arena);
    char *out = sc_encoder_text(e, text.length * 2), *end = out;
    for (size_t i = 0; i < text.length; i++)
        end += sc_utf8_encode(sc_byte_to_character((unsigned char)text.data[i]), end);
    return (sc_span){out, (size_t)(end - out)};
}

static void run_model(sc_encoder *e, sc_span piece)
{
    if (e->tokenizer->model == SC_MODEL_BPE)
        sc_bpe_encode(e, piece, false);
    else
        sc_wordpiece_encode(e, piece);
}

static void run_bytes(sc_encoder *e, uint32_t step, sc_span text, bool begins)
{
    const shardc_tokenizer *t = e->tokenizer;
    if (step + 1 == t->splitter_count && t->model == SC_MODEL_BPE && t->bpe.reads_bytes)
        sc_bpe_encode(e, text, true);
    else
        run_step(e, step + 1, as_characters(e, text), begins);
}

/* Runs a step, or behind the last one the model, on a text that is not empty. */
static void run_step(sc_encoder *e, uint32_t step, sc_span text, bool begins)
{
    if (step == e->tokenizer->splitter_count) {
        run_model(e, text);
        return;
    }
    const sc_splitter *splitter = &e->tokenizer->splitters[step];
    splitting s = begin_splitting(e, step, text, begins);
    switch (splitter->kind) {
    case SC_SPLIT_PATTERN:
        split_pattern(&s, splitter->pattern);
        break;
    case SC_SPLIT_DIGITS:
    case SC_SPLIT_PUNCTUATION:
    case SC_SPLIT_WHITE:
        split_characters(&s, splitter->kind);
        break;
    case SC_SPLIT_WORDS:
        split_words(&s);
        break;
    case SC_SPLIT_METASPACE:
        split_metaspace(&s, splitter);
        break;
    case SC_SPLIT_SPACE:
        run_step(e, step + 1, with_space(e, text), begins);
        break;
    case SC_SPLIT_BYTES:
        run_bytes(e, step, text, begins);
        break;
    }
}

void sc_split_and_encode(sc_encoder *encoder, sc_span text, bool begins)
{
    if (text.length > 0)
        run_step(encoder, 0, text, begins);
}
