#include "runtime/tokenizer/forms.h"

#include <string.h>
#include <utf8proc.h>

#include "runtime/tokenizer/characters.h"

enum { LONGEST_DECOMPOSITION = 32, CLASSES = 256 };

typedef SC_VEC(int32_t) characters;

static uint8_t class_of(int32_t c)
{
    if (c < 0x300)
        return 0;
    uint8_t class = (uint8_t)utf8proc_get_property(c)->combining_class;
    return class != 0 && sc_char_is_in((uint32_t)c, SC_CHAR_ORDERED) ? class : 0;
}

static void decompose(sc_encoder *e, uint32_t c, utf8proc_option_t options, characters *out)
{
    sc_vec_reserve(&e->arena, out, LONGEST_DECOMPOSITION);
    int last_class = 0;
    if (c < 0xc0 && c != 0xa0 && !(c >= 0xa8)) {
        out->data[out->count++] = (int32_t)c;
        return;
    }
    utf8proc_ssize_t count =
        sc_char_is_in(c, SC_CHAR_DECOMPOSED)
            ? utf8proc_decompose_char((utf8proc_int32_t)c, out->data + out->count,
                                      LONGEST_DECOMPOSITION, options, &last_class)
            : 0;
    if (count <= 0 || count > LONGEST_DECOMPOSITION) {
        out->data[out->count++] = (int32_t)c;
        return;
    }
    out->count += (uint32_t)count;
}

/* Sorts marks by their class, in place and stably, by counting. */
static void sort_marks(sc_encoder *e, int32_t *marks, uint32_t count)
{
    uint32_t begins[CLASSES + 1] = {0};
    e->marks.count = 0;
    sc_vec_reserve(&e->arena, &e->marks, count);
    int32_t *sorted = e->marks.data;
    for (uint32_t i = 0; i < count; i++)
        begins[class_of(marks[i]) + 1]++;
    for (uint32_t i = 1; i <= CLASSES; i++)
        begins[i] += begins[i - 1];
    for (uint32_t i = 0; i < count; i++)
        sorted[begins[class_of(marks[i])]++] = marks[i];
    memcpy(marks, sorted, count * sizeof *marks);
}

/* Each run of marks by its classes (D109 of Unicode's chapter 3). */
static void order(sc_encoder *e, characters *text)
{
    for (uint32_t i = 0; i < text->count; i++) {
        uint8_t before = class_of(text->data[i]);
        uint32_t end = i;
        bool is_sorted = true;
        while (before != 0) {
            end++;
            uint8_t next = end < text->count ? class_of(text->data[end]) : 0;
            is_sorted = is_sorted && (next == 0 || next >= before);
            before = next;
        }
        if (!is_sorted)
            sort_marks(e, text->data + i, end - i);
        i = end > i ? end - 1 : i;
    }
}

static sc_span encode(sc_encoder *e, const int32_t *text, size_t count)
{
    char *out = sc_encoder_text(e, count * 4), *end = out;
    for (size_t i = 0; i < count; i++)
        end += sc_utf8_encode((uint32_t)text[i], end);
    return (sc_span){out, (size_t)(end - out)};
}

/* Composes what is between characters that the tables of HF's library do not know, to which nothing
 * is joined. */
static uint32_t compose(characters *text, utf8proc_option_t options)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < text->count;) {
        uint32_t end = i;
        while (end < text->count && (text->data[end] < 0x300 ||
                                     sc_char_is_in((uint32_t)text->data[end], SC_CHAR_ORDERED)))
            end++;
        uint32_t count = (uint32_t)utf8proc_normalize_utf32(text->data + i,
                                                            (utf8proc_ssize_t)(end - i), options);
        memmove(text->data + kept, text->data + i, count * sizeof *text->data);
        kept += count;
        if (end < text->count)
            text->data[kept++] = text->data[end];
        i = end + 1;
    }
    return kept;
}

sc_span sc_normal_form(sc_encoder *encoder, sc_span text, bool is_composed, bool is_compatible)
{
    utf8proc_option_t options = (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                    (is_compatible ? UTF8PROC_COMPAT : 0));
    characters decomposed = {0};
    if (text.length < UINT32_MAX / 2)
        sc_vec_reserve(&encoder->arena, &decomposed, text.length);
    for (size_t at = 0; at < text.length;) {
        unsigned length;
        decompose(encoder, sc_utf8_decode(text.data + at, &length), options, &decomposed);
        at += length;
    }
    order(encoder, &decomposed);
    if (is_composed)
        decomposed.count =
            compose(&decomposed, (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE |
                                                     (is_compatible ? UTF8PROC_COMPAT : 0)));
    return encode(encoder, decomposed.data, decomposed.count);
}
