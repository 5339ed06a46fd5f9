#include "runtime/tokenizer/normalize.h"

#include <string.h>

#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/forms.h"

static bool is_ascii(sc_span text)
{
    for (size_t i = 0; i < text.length; i++) {
        if ((unsigned char)text.data[i] >= 0x80)
            return false;
    }
    return true;
}

static size_t checked_product(sc_encoder *e, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / 2 / size)
        sc_arena_fail(&e->arena);
    return count * size;
}

static sc_span lower(sc_encoder *e, sc_span text)
{
    /* "\u0130" becomes three bytes, "\u023a" too; none grows more */
    char *out = sc_encoder_text(e, checked_product(e, text.length, 2)), *end = out;
    for (size_t at = 0; at < text.length;) {
        unsigned length;
        uint32_t forms[2], c = sc_utf8_decode(text.data + at, &length);
        unsigned count = sc_char_lower(c, forms);
        for (unsigned i = 0; i < count; i++)
            end += sc_utf8_encode(forms[i], end);
        at += length;
    }
    return (sc_span){out, (size_t)(end - out)};
}

static sc_span prepend(sc_encoder *e, sc_span text, sc_span before)
{
    if (text.length == 0)
        return text;
    char *out = sc_encoder_text(e, before.length + text.length);
    memcpy(out, before.data, before.length);
    memcpy(out + before.length, text.data, text.length);
    return (sc_span){out, before.length + text.length};
}

static sc_span replace(sc_encoder *e, sc_span text, const sc_normalizer *step, bool *begins)
{
    sc_strbuf out;
    sc_matches matches;
    size_t at = 0;
    if (text.length == 0)
        return text;
    sc_strbuf_init(&out, &e->arena);
    sc_matches_init(&matches, step->pattern, e->matcher, text.data, text.length);
    while (sc_encoder_match(e, &matches)) {
        sc_strbuf_add_bytes(&out, text.data + at, matches.begin - at);
        sc_strbuf_add_bytes(&out, step->text.data, step->text.length);
        at = matches.end;
        if (out.length == 0 && at > 0)
            *begins = false;
    }
    sc_strbuf_add_bytes(&out, text.data + at, text.length - at);
    return (sc_span){out.data, out.length};
}

static sc_span strip(sc_span text, const sc_normalizer *step, bool *begins)
{
    unsigned length;
    size_t left = 0, right = text.length;
    if (step->at_left) {
        while (left < right && sc_char_is_white(sc_utf8_decode(text.data + left, &length)))
            left += length;
    }
    if (step->at_right) {
        while (right > left && sc_char_is_white(sc_utf8_decode_before(text.data + right, &length)))
            right -= length;
    }
    *begins = *begins && left == 0;
    return (sc_span){text.data + left, right - left};
}

static sc_span without(sc_encoder *e, sc_span text, sc_char_set set, bool *begins)
{
    char *out = sc_encoder_text(e, text.length), *end = out;
    for (size_t at = 0; at < text.length;) {
        unsigned length;
        uint32_t c = sc_utf8_decode(text.data + at, &length);
        if (c < 0x80 || !sc_char_is_in(c, set)) {
            memcpy(end, text.data + at, length);
            end += length;
        } else if (end == out) {
            *begins = false;
        }
        at += length;
    }
    return (sc_span){out, (size_t)(end - out)};
}

static bool is_dropped(uint32_t c)
{
    if (c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c < 0x7f))
        return false;
    return c == 0xfffd || sc_char_is_in(c, SC_CHAR_CONTROL);
}

static sc_span clean(sc_encoder *e, sc_span text, bool *begins)
{
    char *out = sc_encoder_text(e, text.length), *end = out;
    for (size_t at = 0; at < text.length;) {
        unsigned length;
        uint32_t c = sc_utf8_decode(text.data + at, &length);
        if (is_dropped(c)) {
            *begins = *begins && end > out;
        } else if (sc_char_is_white(c)) {
            *end++ = ' ';
        } else {
            memcpy(end, text.data + at, length);
            end += length;
        }
        at += length;
    }
    return (sc_span){out, (size_t)(end - out)};
}

static sc_span space_ideographs(sc_encoder *e, sc_span text)
{
    /* an ideograph has at least three bytes */
    char *out = sc_encoder_text(e, checked_product(e, text.length, 2)), *end = out;
    for (size_t at = 0; at < text.length;) {
        unsigned length;
        bool is_alone = sc_char_is_ideograph(sc_utf8_decode(text.data + at, &length));
        if (is_alone)
            *end++ = ' ';
        memcpy(end, text.data + at, length);
        end += length;
        if (is_alone)
            *end++ = ' ';
        at += length;
    }
    return (sc_span){out, (size_t)(end - out)};
}

static sc_span bytes(sc_encoder *e, sc_span text)
{
    char *out = sc_encoder_text(e, checked_product(e, text.length, 2)), *end = out;
    for (size_t i = 0; i < text.length; i++)
        end += sc_utf8_encode(sc_byte_to_character((unsigned char)text.data[i]), end);
    return (sc_span){out, (size_t)(end - out)};
}

static sc_span run_step(sc_encoder *e, sc_span text, const sc_normalizer *step, bool *begins)
{
    switch (step->kind) {
    case SC_NORMALIZE_FORM:
        return is_ascii(text) ? text
                              : sc_normal_form(e, text, step->is_composed, step->is_compatible);
    case SC_NORMALIZE_LOWER:
        return lower(e, text);
    case SC_NORMALIZE_PREPEND:
        return prepend(e, text, step->text);
    case SC_NORMALIZE_REPLACE:
        return replace(e, text, step, begins);
    case SC_NORMALIZE_STRIP_ACCENTS:
        return is_ascii(text) ? text : without(e, text, SC_CHAR_COMBINING, begins);
    case SC_NORMALIZE_STRIP:
        return strip(text, step, begins);
    case SC_NORMALIZE_CLEAN:
        return clean(e, text, begins);
    case SC_NORMALIZE_IDEOGRAPHS:
        return is_ascii(text) ? text : space_ideographs(e, text);
    case SC_NORMALIZE_NONSPACING:
        return is_ascii(text)
                   ? text
                   : without(e, sc_normal_form(e, text, false, false), SC_CHAR_NONSPACING, begins);
    default:
        return bytes(e, text);
    }
}

sc_span sc_normalize(sc_encoder *encoder, sc_span text, bool *begins)
{
    const shardc_tokenizer *t = encoder->tokenizer;
    for (uint32_t i = 0; i < t->normalizer_count; i++)
        text = run_step(encoder, text, &t->normalizers[i], begins);
    return text;
}
