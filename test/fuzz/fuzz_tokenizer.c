/* Bytes up to the first 0 as a tokenizer.json, those behind it as a text: the file is either
 * refused with a reason or encodes any UTF-8; its ids have contents, and the pieces of a stream are
 * the text of all ids. */
#include <stdlib.h>
#include <string.h>

#include "shardc/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check_streamed(const shardc_tokenizer *t, const shardc_token_ids *ids,
                           const shardc_token_text *whole)
{
    shardc_token_stream *stream;
    shardc_token_text pieces = {0};
    shardc_status status = shardc_token_stream_open(t, SHARDC_WITH_SPECIAL_TOKENS, &stream, NULL);
    for (size_t i = 0; status == SHARDC_OK && i < ids->count; i++)
        status = shardc_token_stream_put(stream, ids->data[i], &pieces, NULL);
    if (status == SHARDC_OK)
        status = shardc_token_stream_end(stream, &pieces, NULL);
    if (status != SHARDC_OK || pieces.length != whole->length ||
        memcmp(pieces.data, whole->data, whole->length) != 0)
        abort();
    shardc_token_stream_close(stream);
    shardc_token_text_free(&pieces);
}

static void check_text(const shardc_tokenizer *t, const char *text, size_t length)
{
    shardc_token_ids ids = {0};
    shardc_token_text back = {0};
    shardc_error error = {0};
    if (shardc_tokenizer_encode(t, text, length, SHARDC_WITH_SPECIAL_TOKENS, &ids, &error) ==
        SHARDC_OK) {
        for (size_t i = 0; i < ids.count; i++) {
            if (shardc_tokenizer_content(t, ids.data[i], NULL) == NULL)
                abort();
        }
        if (shardc_tokenizer_decode(t, ids.data, ids.count, SHARDC_WITH_SPECIAL_TOKENS, &back,
                                    &error) == SHARDC_OK)
            check_streamed(t, &ids, &back);
        else if (error.text[0] == 0)
            abort();
    } else if (error.text[0] == 0 || ids.count != 0) {
        abort();
    }
    shardc_token_ids_free(&ids);
    shardc_token_text_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const uint8_t *zero = size == 0 ? NULL : memchr(bytes, 0, size);
    size_t json = zero == NULL ? size : (size_t)(zero - bytes);
    shardc_tokenizer *t;
    shardc_error error = {0};
    if (shardc_tokenizer_open_memory(bytes, json, "fuzz", &t, &error) != SHARDC_OK) {
        if (error.text[0] == 0)
            abort();
        return 0;
    }
    if (zero != NULL)
        check_text(t, (const char *)zero + 1, size - json - 1);
    shardc_tokenizer_close(t);
    return 0;
}
