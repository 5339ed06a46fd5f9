/* Reads the parts of a tokenizer.json. What is not supported is refused by name: every function
 * returns false after it has filled the error with file, place, cause and remedy. */
#ifndef SHARDC_RUNTIME_TOKENIZER_READ_H
#define SHARDC_RUNTIME_TOKENIZER_READ_H

#include <jansson.h>

#include "runtime/tokenizer/types.h"

typedef struct sc_reader {
    shardc_tokenizer *tokenizer;
    sc_arena *arena;  /* the tokenizer's */
    const char *name; /* of the file */
    shardc_error *error;
} sc_reader;

/* `where`: the path of a value in the file, as "decoder.decoders[1]". */
bool sc_read_fail(sc_reader *reader, const char *where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Checks that `value` is an object with no other keys than these, blank-separated. */
bool sc_read_keys(sc_reader *reader, const char *where, const json_t *value, const char *keys);

/* Members of an object. `fallback` is taken where the member is absent; SC_REQUIRED: none is. */
enum { SC_REQUIRED = -1 };
bool sc_read_bool(sc_reader *reader, const char *where, const json_t *value, const char *key,
                  int fallback, bool *out);
bool sc_read_text(sc_reader *reader, const char *where, const json_t *value, const char *key,
                  sc_span *out);
/* Null and an absent member are an empty text. */
bool sc_read_optional_text(sc_reader *reader, const char *where, const json_t *value,
                           const char *key, sc_span *out);
bool sc_read_number(sc_reader *reader, const char *where, const json_t *value, const char *key,
                    uint64_t most, uint64_t *out);
/* A pattern, {"String": ".."} or {"Regex": ".."}. */
bool sc_read_pattern(sc_reader *reader, const char *where, const json_t *value, const char *key,
                     sc_pattern **out);

/* Types of a part, by name. */
typedef bool sc_read_part(sc_reader *reader, const char *where, const json_t *value);
typedef struct sc_part_type {
    const char *name;
    sc_read_part *read;
} sc_part_type;

/* Reads a part by its "type"; null is nothing. */
bool sc_read_part_of(sc_reader *reader, const char *where, const json_t *value,
                     const sc_part_type *types, size_t count);
/* Reads each part of the list `key`. */
bool sc_read_parts(sc_reader *reader, const char *where, const json_t *value, const char *key,
                   sc_read_part *read);

sc_read_part sc_read_normalizer, sc_read_pre_tokenizer, sc_read_decoder, sc_read_post_processor,
    sc_read_model, sc_read_added_tokens;

/* A copy of a JSON string in the arena. */
sc_span sc_read_copy(sc_reader *reader, const json_t *text);

#endif
