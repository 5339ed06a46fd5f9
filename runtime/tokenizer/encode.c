/* Text to ids: added tokens, normalizers, added tokens again, pre-tokenizers, model, post-processor
 * (the pipeline of Hugging Face's tokenizers). */
#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/encoder.h"
#include "runtime/tokenizer/normalize.h"
#include "runtime/tokenizer/split.h"
#include "support/error.h"

typedef struct request {
    sc_span text;
    bool adds_special;
} request;

static void encode_normalized(sc_encoder *e, sc_span text, bool begins)
{
    sc_added_search search = {
        .tokenizer = e->tokenizer, .trie = &e->tokenizer->normalized_trie, .text = text};
    size_t at = 0;
    while (sc_added_next(&search)) {
        sc_split_and_encode(e, (sc_span){text.data + at, search.begin - at}, begins && at == 0);
        sc_encoder_add(e, &search.token->id, 1);
        at = search.end;
    }
    sc_split_and_encode(e, (sc_span){text.data + at, text.length - at}, begins && at == 0);
}

static void encode_raw(sc_encoder *e, sc_span text, bool begins)
{
    if (text.length > 0) {
        text = sc_normalize(e, text, &begins);
        encode_normalized(e, text, begins);
    }
}

static void encode(sc_encoder *e, void *user)
{
    const request *r = user;
    const shardc_tokenizer *t = e->tokenizer;
    sc_added_search search = {.tokenizer = t, .trie = &t->raw_trie, .text = r->text};
    size_t at = 0;
    if (r->adds_special)
        sc_encoder_add(e, t->before.data, t->before.count);
    while (sc_added_next(&search)) {
        encode_raw(e, (sc_span){r->text.data + at, search.begin - at}, at == 0);
        sc_encoder_add(e, &search.token->id, 1);
        at = search.end;
    }
    encode_raw(e, (sc_span){r->text.data + at, r->text.length - at}, at == 0);
    if (r->adds_special)
        sc_encoder_add(e, t->after.data, t->after.count);
}

shardc_status shardc_tokenizer_encode(const shardc_tokenizer *tokenizer, const char *text,
                                      size_t length, shardc_special_tokens special,
                                      shardc_token_ids *ids, shardc_error *error)
{
    request r = {{text, length}, special == SHARDC_WITH_SPECIAL_TOKENS};
    size_t valid = sc_utf8_valid_length(text, length);
    if (valid < length)
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "the text is not UTF-8: byte %zu is 0x%02x; convert it first", valid,
                       (unsigned char)text[valid]);
    if (length > INT32_MAX / 2)
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "the text has %zu bytes; give at most %d at a time", length, INT32_MAX / 2);
    sc_encoder *encoder = sc_encoder_take(tokenizer);
    if (encoder == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "there is not enough memory to encode");
    shardc_status status = sc_encoder_run(encoder, ids, error, encode, &r);
    sc_encoder_give(encoder);
    return status;
}
