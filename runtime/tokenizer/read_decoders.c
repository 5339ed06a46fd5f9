#include <string.h>

#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/read.h"

static sc_decoder *add(sc_reader *r, const char *where, sc_decoder_kind kind)
{
    shardc_tokenizer *t = r->tokenizer;
    /* characters of bytes may end in later tokens, so all tokens are one from there on */
    bool fuses = t->decoder_count > 0 &&
                 t->decoders[t->decoder_count - 1].kind == SC_DECODE_BYTES &&
                 kind != SC_DECODE_FUSE;
    if (t->decoder_count + fuses >= SC_STEPS) {
        sc_read_fail(r, where, "is more than %d decoders", SC_STEPS);
        return NULL;
    }
    if (fuses)
        t->decoders[t->decoder_count++].kind = SC_DECODE_FUSE;
    sc_decoder *step = &t->decoders[t->decoder_count++];
    step->kind = kind;
    return step;
}

static bool read_sequence(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type decoders") &&
           sc_read_parts(r, where, value, "decoders", sc_read_decoder);
}

static bool read_byte_level(sc_reader *r, const char *where, const json_t *value)
{
    bool ignored;
    return sc_read_keys(r, where, value, "type add_prefix_space trim_offsets use_regex") &&
           sc_read_bool(r, where, value, "add_prefix_space", 1, &ignored) &&
           sc_read_bool(r, where, value, "trim_offsets", 1, &ignored) &&
           sc_read_bool(r, where, value, "use_regex", 1, &ignored) &&
           add(r, where, SC_DECODE_BYTES) != NULL;
}

static bool read_byte_fallback(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type") && add(r, where, SC_DECODE_FALLBACK) != NULL;
}

static bool read_fuse(sc_reader *r, const char *where, const json_t *value)
{
    return sc_read_keys(r, where, value, "type") && add(r, where, SC_DECODE_FUSE) != NULL;
}

static bool read_replace(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type pattern content"))
        return false;
    sc_decoder *step = add(r, where, SC_DECODE_REPLACE);
    return step != NULL && sc_read_text(r, where, value, "content", &step->text) &&
           sc_read_pattern(r, where, value, "pattern", &step->pattern);
}

static bool is_character(sc_span text)
{
    unsigned length = 0;
    if (text.length > 0)
        sc_utf8_decode(text.data, &length);
    return length > 0 && length == text.length;
}

static bool read_strip(sc_reader *r, const char *where, const json_t *value)
{
    uint64_t begin, end;
    if (!sc_read_keys(r, where, value, "type content start stop") ||
        !sc_read_number(r, where, value, "start", UINT32_MAX, &begin) ||
        !sc_read_number(r, where, value, "stop", UINT32_MAX, &end))
        return false;
    sc_decoder *step = add(r, where, SC_DECODE_STRIP);
    if (step == NULL || !sc_read_text(r, where, value, "content", &step->text))
        return false;
    step->begin = begin;
    step->end = end;
    return is_character(step->text) || sc_read_fail(r, where, "'content' must be one character");
}

static bool read_metaspace(sc_reader *r, const char *where, const json_t *value)
{
    bool adds, splits;
    sc_span scheme;
    if (!sc_read_keys(r, where, value,
                      "type replacement str_rep add_prefix_space prepend_scheme split") ||
        !sc_read_bool(r, where, value, "add_prefix_space", 1, &adds) ||
        !sc_read_bool(r, where, value, "split", 1, &splits) ||
        !sc_read_optional_text(r, where, value, "prepend_scheme", &scheme))
        return false;
    sc_decoder *step = add(r, where, SC_DECODE_METASPACE);
    if (step == NULL || !sc_read_text(r, where, value, "replacement", &step->text))
        return false;
    step->drops_first = scheme.length == 0 ? adds : strcmp(scheme.data, "never") != 0;
    return is_character(step->text) ||
           sc_read_fail(r, where, "'replacement' must be one character");
}

static bool read_wordpiece(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type prefix cleanup"))
        return false;
    sc_decoder *step = add(r, where, SC_DECODE_WORDPIECE);
    return step != NULL && sc_read_text(r, where, value, "prefix", &step->text) &&
           sc_read_bool(r, where, value, "cleanup", SC_REQUIRED, &step->cleans);
}

static bool read_bpe(sc_reader *r, const char *where, const json_t *value)
{
    if (!sc_read_keys(r, where, value, "type suffix"))
        return false;
    sc_decoder *step = add(r, where, SC_DECODE_SUFFIX);
    return step != NULL && sc_read_text(r, where, value, "suffix", &step->text);
}

bool sc_read_decoder(sc_reader *reader, const char *where, const json_t *value)
{
    static const sc_part_type types[] = {{"Sequence", read_sequence},
                                         {"ByteLevel", read_byte_level},
                                         {"Metaspace", read_metaspace},
                                         {"WordPiece", read_wordpiece},
                                         {"ByteFallback", read_byte_fallback},
                                         {"Fuse", read_fuse},
                                         {"Replace", read_replace},
                                         {"Strip", read_strip},
                                         {"BPEDecoder", read_bpe}};
    if (value == NULL || json_is_null(value))
        return add(reader, where, SC_DECODE_JOIN) != NULL;
    return sc_read_part_of(reader, where, value, types, sizeof types / sizeof *types);
}
