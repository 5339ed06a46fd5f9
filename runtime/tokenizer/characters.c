#include "runtime/tokenizer/characters.h"

#include <string.h>
#include <utf8proc.h>

/* ---- classes ---- */

static const sc_char_range new_ranges[] = {
#define CATEGORY(first, last, category) {first, last, #category},
#include "runtime/tokenizer/characters.def"
};

typedef struct exception {
    sc_char_set set;
    bool is_member;
    uint32_t first, last;
} exception;

static const exception exceptions[] = {
#define ALSO(set, first, last) {SC_CHAR_##set, true, first, last},
#define NOT(set, first, last)  {SC_CHAR_##set, false, first, last},
#include "runtime/tokenizer/characters.def"
};

static const struct {
    uint32_t first, last, lower;
} lower_ranges[] = {
#define LOWER(first, last, lower) {first, last, lower},
#include "runtime/tokenizer/characters.def"
};

const sc_char_range *sc_char_new_ranges(size_t *out_count)
{
    *out_count = sizeof new_ranges / sizeof *new_ranges;
    return new_ranges;
}

/* Returns the category of a character assigned since Unicode 14, or NULL. */
static const char *new_category_of(uint32_t c)
{
    size_t low = 0, high = sizeof new_ranges / sizeof *new_ranges;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c < new_ranges[middle].first)
            high = middle;
        else if (c > new_ranges[middle].last)
            low = middle + 1;
        else
            return new_ranges[middle].category;
    }
    return NULL;
}

/* Returns 1 or 0 for what a row says, -1 if none does. */
static int exception_of(uint32_t c, sc_char_set set)
{
    size_t low = 0, high = sizeof exceptions / sizeof *exceptions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const exception *row = &exceptions[middle];
        if (set < row->set || (set == row->set && c < row->first))
            high = middle;
        else if (set > row->set || c > row->last)
            low = middle + 1;
        else
            return row->is_member;
    }
    return -1;
}

static bool is_ascii_punctuation(uint32_t c)
{
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

/* Alphabetic without being a letter, a mark or a number: letters in circles and squares. */
static bool is_enclosed_letter(uint32_t c)
{
    return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

static bool is_word(uint32_t c, const char *category)
{
    return category[0] == 'L' || category[0] == 'M' || strcmp(category, "Nd") == 0 ||
           strcmp(category, "Nl") == 0 || strcmp(category, "Pc") == 0 || c == 0x200c ||
           c == 0x200d || is_enclosed_letter(c);
}

static bool is_by_category(uint32_t c, sc_char_set set)
{
    const char *category = c < 0x80 ? NULL : new_category_of(c);
    if (set == SC_CHAR_DECOMPOSED || set == SC_CHAR_ORDERED)
        return category == NULL;
    if (category == NULL)
        category = utf8proc_category_string((utf8proc_int32_t)c);
    switch (set) {
    case SC_CHAR_NUMERIC:
        return category[0] == 'N';
    case SC_CHAR_PUNCTUATION:
        return category[0] == 'P' || is_ascii_punctuation(c);
    case SC_CHAR_CONTROL:
        return category[0] == 'C' && strcmp(category, "Cn") != 0 && strcmp(category, "Cs") != 0;
    case SC_CHAR_NONSPACING:
        return strcmp(category, "Mn") == 0;
    case SC_CHAR_COMBINING:
        return category[0] == 'M';
    default:
        return is_word(c, category);
    }
}

bool sc_char_is_in(uint32_t c, sc_char_set set)
{
    int said = c < 0x80 ? -1 : exception_of(c, set);
    return said >= 0 ? said == 1 : is_by_category(c, set);
}

bool sc_char_is_white(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool sc_char_is_ideograph(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b81f) ||
           (c >= 0x2b920 && c <= 0x2ceaf) || (c >= 0xf900 && c <= 0xfaff) ||
           (c >= 0x2f800 && c <= 0x2fa1f);
}

unsigned sc_char_lower(uint32_t c, uint32_t out[2])
{
    out[0] = c;
    if (c < 0x80) {
        out[0] = c >= 'A' && c <= 'Z' ? c + 32 : c;
        return 1;
    }
    if (c == 0x130) { /* the only one that becomes two (Unicode's SpecialCasing.txt) */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
    for (size_t i = 0; i < sizeof lower_ranges / sizeof *lower_ranges; i++) {
        if (c >= lower_ranges[i].first && c <= lower_ranges[i].last)
            out[0] = lower_ranges[i].lower + (c - lower_ranges[i].first);
    }
    return 1;
}

/* ---- UTF-8 ---- */

uint32_t sc_utf8_decode_before(const char *end, unsigned *out_length)
{
    const char *start = end - 1;
    while (((unsigned char)*start & 0xc0) == 0x80)
        start--;
    return sc_utf8_decode(start, out_length);
}

unsigned sc_utf8_encode(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

sc_utf8 sc_utf8_check(const char *text, size_t length, unsigned *out_length)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xbf;
    unsigned wanted = p[0] < 0x80   ? 1
                      : p[0] < 0xc2 ? 0
                      : p[0] < 0xe0 ? 2
                      : p[0] < 0xf0 ? 3
                      : p[0] < 0xf5 ? 4
                                    : 0;
    if (p[0] == 0xe0)
        low = 0xa0; /* no longer form than needed */
    else if (p[0] == 0xed)
        high = 0x9f; /* no surrogates */
    else if (p[0] == 0xf0)
        low = 0x90;
    else if (p[0] == 0xf4)
        high = 0x8f; /* nothing above U+10FFFF */
    *out_length = wanted == 0 ? 1 : wanted;
    if (wanted == 0)
        return SC_UTF8_WRONG;
    for (unsigned i = 1; i < wanted; i++) {
        if (i == length) {
            *out_length = i;
            return SC_UTF8_CUT;
        }
        if (p[i] < low || p[i] > high) {
            *out_length = i;
            return SC_UTF8_WRONG;
        }
        low = 0x80;
        high = 0xbf;
    }
    return SC_UTF8_VALID;
}

size_t sc_utf8_valid_length(const char *text, size_t length)
{
    size_t at = 0;
    while (at < length) {
        unsigned size = 1;
        if ((unsigned char)text[at] >= 0x80 &&
            sc_utf8_check(text + at, length - at, &size) != SC_UTF8_VALID)
            break;
        at += size;
    }
    return at;
}

/* ---- bytes as characters ---- */

uint32_t sc_byte_to_character(unsigned char byte)
{
    if (byte <= 0x20)
        return 0x100u + byte;
    if (byte >= 0x7f && byte <= 0xa0)
        return 0x121u + (byte - 0x7fu);
    return byte == 0xad ? 0x143u : byte;
}

int sc_character_to_byte(uint32_t c)
{
    if (c >= 0x100 && c <= 0x120)
        return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142)
        return (int)(c - 0x121 + 0x7f);
    if (c == 0x143)
        return 0xad;
    return c < 0x100 && sc_byte_to_character((unsigned char)c) == c ? (int)c : -1;
}
