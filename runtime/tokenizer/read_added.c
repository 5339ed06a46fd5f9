#include <string.h>

#include "runtime/tokenizer/read.h"

/* Ids are given as Hugging Face's library does when it reads the file, which does not take those of
 * the file: that of the model's vocabulary or of an equal token before, else the next free one. */
static uint32_t id_of(const shardc_tokenizer *t, sc_span content, uint32_t next)
{
    uint32_t id = sc_vocabulary_find(&t->extra, content.data, content.length);
    if (id == SC_NONE)
        id = sc_vocabulary_find(&t->vocabulary, content.data, content.length);
    return id == SC_NONE ? next : id;
}

static bool read_token(sc_reader *r, const char *where, const json_t *value, uint32_t *next)
{
    shardc_tokenizer *t = r->tokenizer;
    sc_added_token token = {0};
    uint64_t ignored;
    if (!sc_read_keys(r, where, value, "id content single_word lstrip rstrip normalized special") ||
        !sc_read_number(r, where, value, "id", SC_TOKEN_IDS - 1, &ignored) ||
        !sc_read_text(r, where, value, "content", &token.content) ||
        !sc_read_bool(r, where, value, "single_word", SC_REQUIRED, &token.is_single_word) ||
        !sc_read_bool(r, where, value, "lstrip", SC_REQUIRED, &token.strips_left) ||
        !sc_read_bool(r, where, value, "rstrip", SC_REQUIRED, &token.strips_right) ||
        !sc_read_bool(r, where, value, "normalized", SC_REQUIRED, &token.is_normalized) ||
        !sc_read_bool(r, where, value, "special", SC_REQUIRED, &token.is_special))
        return false;
    if (token.content.length == 0)
        return true;
    token.id = id_of(t, token.content, *next);
    if (sc_vocabulary_find(&t->extra, token.content.data, token.content.length) == SC_NONE &&
        sc_vocabulary_find(&t->vocabulary, token.content.data, token.content.length) == SC_NONE)
        sc_vocabulary_add(&t->extra, token.content.data, (uint32_t)token.content.length, token.id);
    *next = token.id >= *next ? token.id + 1 : *next;
    *sc_vec_push(r->arena, &t->added) = token;
    return true;
}

bool sc_read_added_tokens(sc_reader *reader, const char *where, const json_t *value)
{
    const json_t *token;
    uint32_t next = reader->tokenizer->vocabulary.count;
    size_t i;
    if (value == NULL || json_is_null(value))
        return true;
    if (!json_is_array(value) || json_array_size(value) >= SC_TOKEN_IDS)
        return sc_read_fail(reader, where, "must be a list of fewer than %d", SC_TOKEN_IDS);
    json_array_foreach (value, i, token) {
        if (!read_token(reader, sc_arena_printf(reader->arena, "%s[%zu]", where, i), token, &next))
            return false;
    }
    return true;
}
