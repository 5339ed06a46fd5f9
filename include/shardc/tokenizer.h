/* Tokenizers: text to ids and ids to text, as a `tokenizer.json` of Hugging Face's `tokenizers`
 * says. Link with the runtime library; no other header is needed. Guide: docs/tokenizers.md.
 *
 * Text is UTF-8 of a given length, and may contain zero bytes. Ids are u32, below
 * shardc_tokenizer_size. A tokenizer does not change once it is open: any number of threads may use
 * it at the same time. Encoding takes time linear in the text but for a factor log n of the longest
 * piece (word) that the file's pre-tokenizer leaves. Nothing is printed; an error says where, what
 * and what to do. Every `error` may be NULL. */
#ifndef SHARDC_TOKENIZER_H
#define SHARDC_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shardc/status.h"

typedef struct shardc_tokenizer shardc_tokenizer;

/* Ids that a call appends to. Starts zeroed; the caller frees it with shardc_token_ids_free, or
 * sets `count` to 0 to use its memory again. */
typedef struct shardc_token_ids {
    uint32_t *data;
    size_t count, capacity;
} shardc_token_ids;

/* Bytes that a call appends to, as above. `data` is 0-terminated once a call appended to it; the 0
 * is not part of `length`. */
typedef struct shardc_token_text {
    char *data;
    size_t length, capacity;
} shardc_token_text;

/* Opens a file. The caller closes the tokenizer. Errors: MEMORY; DATA: the file cannot be read, is
 * no tokenizer.json, or has a part that is not supported, which the error names. */
SHARDC_API shardc_status shardc_tokenizer_open(const char *path, shardc_tokenizer **out,
                                               shardc_error *error);
/* The same from memory, which is not needed afterwards. `name` stands for the file in errors. */
SHARDC_API shardc_status shardc_tokenizer_open_memory(const void *json, size_t size,
                                                      const char *name, shardc_tokenizer **out,
                                                      shardc_error *error);
/* Waits for nothing: no other thread may use the tokenizer any more. NULL is allowed. */
SHARDC_API void shardc_tokenizer_close(shardc_tokenizer *tokenizer);

/* One more than the largest id; ids between may have no token. */
SHARDC_API uint32_t shardc_tokenizer_size(const shardc_tokenizer *tokenizer);
/* The id of a token by its content, special ("<|eot_id|>") or not (as the file spells it: a space
 * may be "\u0120" or "\u2581"). False if there is none. */
SHARDC_API bool shardc_tokenizer_find(const shardc_tokenizer *tokenizer, const char *content,
                                      size_t length, uint32_t *out_id);
/* The content of a token, 0-terminated, owned by the tokenizer; NULL if the id has none. `length`
 * may be NULL. */
SHARDC_API const char *shardc_tokenizer_content(const shardc_tokenizer *tokenizer, uint32_t id,
                                                size_t *out_length);
/* True for added tokens that the file calls special. */
SHARDC_API bool shardc_tokenizer_is_special(const shardc_tokenizer *tokenizer, uint32_t id);

/* Whether the post-processor's tokens (of begin and end) are added when encoding, and whether
 * special tokens become text when decoding. Special tokens in a text always become their ids. */
typedef enum shardc_special_tokens {
    SHARDC_WITHOUT_SPECIAL_TOKENS,
    SHARDC_WITH_SPECIAL_TOKENS
} shardc_special_tokens;

/* Appends the text's ids. Errors: MEMORY; DATA: the text is not UTF-8, a pattern's match takes more
 * steps or memory than allowed, or a character has no id and the file no unknown token for it.
 * After an error `ids` is as before. */
SHARDC_API shardc_status shardc_tokenizer_encode(const shardc_tokenizer *tokenizer,
                                                 const char *text, size_t length,
                                                 shardc_special_tokens special,
                                                 shardc_token_ids *ids, shardc_error *error);

/* Appends the text of the ids. It is UTF-8: bytes that are not, since a token may be a part of a
 * character, become U+FFFD. Errors: MEMORY; ARGUMENT: an id without a token. After an error `text`
 * is as before. */
SHARDC_API shardc_status shardc_tokenizer_decode(const shardc_tokenizer *tokenizer,
                                                 const uint32_t *ids, size_t count,
                                                 shardc_special_tokens special,
                                                 shardc_token_text *text, shardc_error *error);

/* Decodes one id after another, for a single thread at a time: the pieces appended by `put` and
 * `end` are, one behind the other, what shardc_tokenizer_decode gives for all ids at once. A piece
 * ends where later ids cannot change it, never inside a character; it may be empty. Memory and the
 * time of a `put` do not grow with the number of ids. */
typedef struct shardc_token_stream shardc_token_stream;

/* The tokenizer must outlive the stream. Errors: MEMORY. */
SHARDC_API shardc_status shardc_token_stream_open(const shardc_tokenizer *tokenizer,
                                                  shardc_special_tokens special,
                                                  shardc_token_stream **out, shardc_error *error);
/* Errors: MEMORY; ARGUMENT: an id without a token. After an error the stream is as before. */
SHARDC_API shardc_status shardc_token_stream_put(shardc_token_stream *stream, uint32_t id,
                                                 shardc_token_text *text, shardc_error *error);
/* Appends what was held back. Afterwards the stream is as if just opened. Errors: MEMORY. */
SHARDC_API shardc_status shardc_token_stream_end(shardc_token_stream *stream,
                                                 shardc_token_text *text, shardc_error *error);
/* NULL is allowed. */
SHARDC_API void shardc_token_stream_close(shardc_token_stream *stream);

/* Frees the memory and zeroes the structure. */
SHARDC_API void shardc_token_ids_free(shardc_token_ids *ids);
SHARDC_API void shardc_token_text_free(shardc_token_text *text);

#endif
