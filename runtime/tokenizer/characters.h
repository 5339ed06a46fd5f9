/* Code points as Hugging Face's tokenizers classify them, and UTF-8. */
#ifndef SHARDC_RUNTIME_TOKENIZER_CHARACTERS_H
#define SHARDC_RUNTIME_TOKENIZER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By general category, but for the rows of characters.def. */
typedef enum sc_char_set {
    SC_CHAR_NUMERIC,     /* N */
    SC_CHAR_PUNCTUATION, /* P, and the ASCII symbols */
    SC_CHAR_CONTROL,     /* Cc, Cf, Co */
    SC_CHAR_NONSPACING,  /* Mn */
    SC_CHAR_COMBINING,   /* M */
    SC_CHAR_WORD,        /* alphabetic, M, Nd, Pc and the joiners */
    SC_CHAR_DECOMPOSED,  /* not new since Unicode 14: those that normal forms may decompose */
    SC_CHAR_ORDERED,     /* likewise: those that they may reorder and compose */
    SC_CHAR_SETS
} sc_char_set;

bool sc_char_is_in(uint32_t c, sc_char_set set);
/* White_Space. */
bool sc_char_is_white(uint32_t c);
/* CJK ideographs, each a word to BERT. */
bool sc_char_is_ideograph(uint32_t c);
/* Writes the lower-case form, one or two code points, and returns their number. */
unsigned sc_char_lower(uint32_t c, uint32_t out[2]);

/* A range of code points of one general category, assigned since Unicode 14. */
typedef struct sc_char_range {
    uint32_t first, last;
    char category[3];
} sc_char_range;

/* Returns the ranges, sorted. */
const sc_char_range *sc_char_new_ranges(size_t *out_count);

/* Decodes the character at `text`, which is valid, and sets *out_length. */
static inline uint32_t sc_utf8_decode(const char *text, unsigned *out_length)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80) {
        *out_length = 1;
        return p[0];
    }
    if (p[0] < 0xe0) {
        *out_length = 2;
        return (uint32_t)(p[0] & 0x1f) << 6 | (p[1] & 0x3f);
    }
    if (p[0] < 0xf0) {
        *out_length = 3;
        return (uint32_t)(p[0] & 0x0f) << 12 | (uint32_t)(p[1] & 0x3f) << 6 | (p[2] & 0x3f);
    }
    *out_length = 4;
    return (uint32_t)(p[0] & 0x07) << 18 | (uint32_t)(p[1] & 0x3f) << 12 |
           (uint32_t)(p[2] & 0x3f) << 6 | (p[3] & 0x3f);
}

/* Decodes the character before `end`, in valid text that it does not begin. */
uint32_t sc_utf8_decode_before(const char *end, unsigned *out_length);
/* Writes a character and returns its length. */
unsigned sc_utf8_encode(uint32_t c, char out[4]);

/* The printable character that stands for a byte in a byte-level vocabulary (GPT-2's encoder.py).
 */
uint32_t sc_byte_to_character(unsigned char byte);
/* The reverse; -1 if the character stands for none. */
int sc_character_to_byte(uint32_t c);

typedef enum sc_utf8 { SC_UTF8_VALID, SC_UTF8_WRONG, SC_UTF8_CUT } sc_utf8;

/* Checks the character at `text`, of which `length` > 0 bytes follow: valid with its length; wrong
 * with the length of the part that U+FFFD replaces (Unicode 14, section 3.9, "maximal subpart"); or
 * cut by the end. */
sc_utf8 sc_utf8_check(const char *text, size_t length, unsigned *out_length);
/* Returns the length of the valid text at the beginning. */
size_t sc_utf8_valid_length(const char *text, size_t length);

#endif
