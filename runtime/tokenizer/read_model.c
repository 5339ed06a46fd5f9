#include <stdio.h>
#include <string.h>

#include "runtime/tokenizer/bpe.h"
#include "runtime/tokenizer/characters.h"
#include "runtime/tokenizer/read.h"

static bool read_vocabulary(sc_reader *r, const char *where, const json_t *value)
{
    sc_vocabulary *vocabulary = &r->tokenizer->vocabulary;
    const json_t *list = json_object_get(value, "vocab");
    const char *content;
    json_t *id;
    if (!json_is_object(list))
        return sc_read_fail(r, where, "'vocab' must be an object of tokens with their ids");
    json_object_foreach ((json_t *)list, content, id) {
        size_t length = strlen(content);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= SC_TOKEN_IDS)
            return sc_read_fail(r, where, "the id of '%.60s' must be an integer from 0 to %d",
                                content, SC_TOKEN_IDS - 1);
        uint32_t number = (uint32_t)json_integer_value(id);
        const sc_token *other = sc_vocabulary_token(vocabulary, number);
        if (other != NULL)
            return sc_read_fail(r, where, "'%.60s' and '%.60s' have the same id %u", content,
                                other->content, number);
        sc_vocabulary_add(vocabulary, sc_arena_copy_text(r->arena, content, length),
                          (uint32_t)length, number);
    }
    return true;
}

static bool read_unknown(sc_reader *r, const char *where, const json_t *value)
{
    shardc_tokenizer *t = r->tokenizer;
    const json_t *token = json_object_get(value, "unk_token");
    sc_span text;
    t->unknown = SC_NONE;
    if (token == NULL || json_is_null(token))
        return true;
    if (!sc_read_text(r, where, value, "unk_token", &text))
        return false;
    t->unknown = sc_vocabulary_find(&t->vocabulary, text.data, text.length);
    return t->unknown != SC_NONE ||
           sc_read_fail(r, where, "unk_token '%.60s' is not in the vocabulary", text.data);
}

/* ---- BPE ---- */

/* Sets the parts of a merge, "a b" or ["a", "b"]. */
static bool parts_of(const json_t *merge, sc_span *left, sc_span *right)
{
    if (json_array_size(merge) == 2 && json_is_string(json_array_get(merge, 0)) &&
        json_is_string(json_array_get(merge, 1))) {
        const json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
        *left = (sc_span){json_string_value(first), json_string_length(first)};
        *right = (sc_span){json_string_value(second), json_string_length(second)};
        return true;
    }
    if (!json_is_string(merge))
        return false;
    const char *text = json_string_value(merge);
    const char *blank = strchr(text, ' ');
    if (blank == NULL || strchr(blank + 1, ' ') != NULL)
        return false;
    *left = (sc_span){text, (size_t)(blank - text)};
    *right = (sc_span){blank + 1, json_string_length(merge) - (size_t)(blank + 1 - text)};
    return true;
}

/* The merged token is the left part and the right one without the prefix of continuing symbols.
 * `text` has room for two tokens. */
static uint32_t find_result(const sc_reader *r, sc_span left, sc_span right, char *text)
{
    const sc_span *prefix = &r->tokenizer->bpe.prefix;
    size_t skipped = right.length < prefix->length ? right.length : prefix->length;
    memcpy(text, left.data, left.length);
    memcpy(text + left.length, right.data + skipped, right.length - skipped);
    return sc_vocabulary_find(&r->tokenizer->vocabulary, text,
                              left.length + right.length - skipped);
}

static bool read_merges(sc_reader *r, const char *where, const json_t *value)
{
    sc_bpe *bpe = &r->tokenizer->bpe;
    const sc_vocabulary *vocabulary = &r->tokenizer->vocabulary;
    const json_t *list = json_object_get(value, "merges"), *merge;
    size_t i;
    if (!json_is_array(list) || json_array_size(list) > SC_TOKEN_IDS)
        return sc_read_fail(r, where, "'merges' must be a list of at most %d", SC_TOKEN_IDS);
    bpe->results = sc_arena_array(r->arena, json_array_size(list), sizeof *bpe->results);
    bpe->merges.arena = r->arena;
    char *text = sc_arena_array(r->arena, 2, vocabulary->longest);
    json_array_foreach (list, i, merge) {
        sc_span left, right;
        if (!parts_of(merge, &left, &right))
            return sc_read_fail(r, where, "merges[%zu] must be two tokens", i);
        uint32_t a = sc_vocabulary_find(vocabulary, left.data, left.length);
        uint32_t b = sc_vocabulary_find(vocabulary, right.data, right.length);
        uint32_t result =
            a == SC_NONE || b == SC_NONE ? SC_NONE : find_result(r, left, right, text);
        if (result == SC_NONE)
            return sc_read_fail(r, where,
                                "merges[%zu] has '%.60s' and '%.60s': both and the merged token "
                                "must be in the vocabulary",
                                i, left.data, right.data);
        *sc_map_insert(&bpe->merges, (uint64_t)a << 32 | b, (uint32_t)i, NULL) = (uint32_t)i;
        bpe->results[i] = result;
    }
    bpe->merge_count = (uint32_t)json_array_size(list);
    return true;
}

/* Tables of single characters and of bytes. */
static void fill_tables(sc_reader *r)
{
    shardc_tokenizer *t = r->tokenizer;
    sc_bpe *bpe = &t->bpe;
    bpe->characters = sc_arena_array(r->arena, SC_DIRECT_CHARACTERS, sizeof *bpe->characters);
    for (uint32_t c = 0; c < SC_DIRECT_CHARACTERS; c++)
        bpe->characters[c] = SC_NONE;
    for (uint32_t i = 0; i < t->vocabulary.size; i++) {
        const sc_token *token = sc_vocabulary_token(&t->vocabulary, i);
        unsigned length = 0;
        uint32_t c = token == NULL || token->length == 0 || token->length > 3
                         ? SC_DIRECT_CHARACTERS
                         : sc_utf8_decode(token->content, &length);
        if (c < SC_DIRECT_CHARACTERS && length == token->length)
            bpe->characters[c] = i;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        int length = snprintf(text, sizeof text, "<0x%02X>", byte);
        bpe->fallbacks[byte] = sc_vocabulary_find(&t->vocabulary, text, (size_t)length);
        bpe->bytes[byte] = bpe->characters[sc_byte_to_character((unsigned char)byte)];
    }
}

/* The vocabulary by the bytes that tokens stand for, where pieces are looked up as they are. */
static void fill_raw(sc_reader *r)
{
    shardc_tokenizer *t = r->tokenizer;
    t->bpe.raw.arena = r->arena;
    for (uint32_t i = 0; i < t->vocabulary.size; i++) {
        const sc_token *token = sc_vocabulary_token(&t->vocabulary, i);
        uint32_t count = 0;
        if (token == NULL)
            continue;
        char *bytes = sc_arena_alloc(r->arena, token->length);
        for (uint32_t at = 0; at < token->length;) {
            unsigned length;
            int byte = sc_character_to_byte(sc_utf8_decode(token->content + at, &length));
            if (byte < 0)
                break;
            bytes[count++] = (char)byte;
            at += length;
            if (at == token->length)
                sc_vocabulary_add(&t->bpe.raw, bytes, count, i);
        }
    }
}

/* The pre-tokenizers have been read. */
static void prepare_bpe(sc_reader *r)
{
    shardc_tokenizer *t = r->tokenizer;
    sc_bpe *bpe = &t->bpe;
    fill_tables(r);
    bpe->reads_bytes = t->splitter_count > 0 &&
                       t->splitters[t->splitter_count - 1].kind == SC_SPLIT_BYTES &&
                       bpe->prefix.length == 0 && bpe->suffix.length == 0;
    for (unsigned byte = 0; byte < 256; byte++)
        bpe->reads_bytes = bpe->reads_bytes && bpe->bytes[byte] != SC_NONE;
    if (bpe->reads_bytes && bpe->ignores_merges)
        fill_raw(r);
    sc_bpe_find_cuts(bpe, r->arena, &t->vocabulary, t->unknown);
}

static bool read_bpe(sc_reader *r, const char *where, const json_t *value)
{
    shardc_tokenizer *t = r->tokenizer;
    const json_t *dropout = json_object_get(value, "dropout");
    t->model = SC_MODEL_BPE;
    if (!sc_read_keys(r, where, value,
                      "type dropout unk_token continuing_subword_prefix end_of_word_suffix "
                      "fuse_unk byte_fallback ignore_merges vocab merges"))
        return false;
    if (json_number_value(dropout) != 0 ||
        (dropout != NULL && !json_is_null(dropout) && !json_is_number(dropout)))
        return sc_read_fail(r, where, "'dropout' is not supported; set it to null");
    if (!sc_read_optional_text(r, where, value, "continuing_subword_prefix", &t->bpe.prefix) ||
        !sc_read_optional_text(r, where, value, "end_of_word_suffix", &t->bpe.suffix) ||
        !sc_read_bool(r, where, value, "fuse_unk", 0, &t->bpe.fuses_unknown) ||
        !sc_read_bool(r, where, value, "byte_fallback", 0, &t->bpe.has_fallbacks) ||
        !sc_read_bool(r, where, value, "ignore_merges", 0, &t->bpe.ignores_merges) ||
        !read_vocabulary(r, where, value) || !read_unknown(r, where, value) ||
        !read_merges(r, where, value))
        return false;
    prepare_bpe(r);
    return true;
}

/* ---- WordPiece ---- */

static bool read_wordpiece(sc_reader *r, const char *where, const json_t *value)
{
    shardc_tokenizer *t = r->tokenizer;
    sc_wordpiece *model = &t->wordpiece;
    sc_span prefix;
    t->model = SC_MODEL_WORDPIECE;
    if (!sc_read_keys(r, where, value,
                      "type unk_token continuing_subword_prefix max_input_chars_per_word vocab") ||
        !sc_read_text(r, where, value, "continuing_subword_prefix", &prefix) ||
        !sc_read_number(r, where, value, "max_input_chars_per_word", INT64_MAX,
                        &model->most_characters) ||
        !read_vocabulary(r, where, value) || !read_unknown(r, where, value))
        return false;
    if (t->unknown == SC_NONE)
        return sc_read_fail(r, where, "'unk_token' is needed");
    model->continuing.arena = r->arena;
    model->continuing_ids =
        sc_arena_array(r->arena, t->vocabulary.size, sizeof *model->continuing_ids);
    for (uint32_t i = 0; i < t->vocabulary.size; i++) {
        const sc_token *token = sc_vocabulary_token(&t->vocabulary, i);
        if (token == NULL || token->length <= prefix.length ||
            memcmp(token->content, prefix.data, prefix.length) != 0)
            continue;
        model->continuing_ids[model->continuing.count] = i;
        sc_vocabulary_add(&model->continuing, token->content + prefix.length,
                          token->length - (uint32_t)prefix.length, model->continuing.count);
    }
    return true;
}

bool sc_read_model(sc_reader *reader, const char *where, const json_t *value)
{
    static const sc_part_type types[] = {{"BPE", read_bpe}, {"WordPiece", read_wordpiece}};
    if (!json_is_object(value))
        return sc_read_fail(reader, where, "is not an object");
    if (json_object_get(value, "type") == NULL && json_object_get(value, "merges") != NULL)
        return read_bpe(reader, where, value); /* as files of the first versions */
    return sc_read_part_of(reader, where, value, types, sizeof types / sizeof *types);
}
