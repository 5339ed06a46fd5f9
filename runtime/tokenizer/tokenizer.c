/* Opens a tokenizer.json, and says what is in it. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tokenizer/added.h"
#include "runtime/tokenizer/encoder.h"
#include "runtime/tokenizer/normalize.h"
#include "runtime/tokenizer/read.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"

enum { MOST_BYTES = 1 << 30 };

/* ---- reading ---- */

typedef struct opening {
    shardc_tokenizer *tokenizer;
    const char *name;
    const json_t *root;
    shardc_error *error;
    shardc_status status;
    jmp_buf out_of_memory;
} opening;

static void out_of_memory(void *user)
{
    opening *o = user;
    o->status = sc_fail(o->error, SHARDC_ERROR_MEMORY, "%s: there is not enough memory", o->name);
    longjmp(o->out_of_memory, 1);
}

static bool is_null(sc_reader *r, const json_t *root, const char *key)
{
    const json_t *value = json_object_get(root, key);
    return value == NULL || json_is_null(value) ||
           sc_read_fail(r, key,
                        "is not supported, since texts are never cut or filled up; set it "
                        "to null");
}

static bool read_all(sc_reader *r, const json_t *root)
{
    const json_t *version = json_object_get(root, "version");
    if (!sc_read_keys(r, "the file", root,
                      "version truncation padding added_tokens normalizer pre_tokenizer "
                      "post_processor decoder model"))
        return false;
    if (!json_is_string(version) || strcmp(json_string_value(version), "1.0") != 0)
        return sc_read_fail(r, "version", "must be \"1.0\"");
    return is_null(r, root, "truncation") && is_null(r, root, "padding") &&
           sc_read_normalizer(r, "normalizer", json_object_get(root, "normalizer")) &&
           sc_read_pre_tokenizer(r, "pre_tokenizer", json_object_get(root, "pre_tokenizer")) &&
           sc_read_post_processor(r, "post_processor", json_object_get(root, "post_processor")) &&
           sc_read_decoder(r, "decoder", json_object_get(root, "decoder")) &&
           sc_read_model(r, "model", json_object_get(root, "model")) &&
           sc_read_added_tokens(r, "added_tokens", json_object_get(root, "added_tokens"));
}

static void set_size(shardc_tokenizer *t)
{
    t->size = t->vocabulary.size > t->extra.size ? t->vocabulary.size : t->extra.size;
    t->is_special = sc_arena_array(&t->arena, t->size, sizeof *t->is_special);
    t->is_skipped = sc_arena_array(&t->arena, t->size, sizeof *t->is_skipped);
    t->shown = sc_arena_array(&t->arena, t->size, sizeof *t->shown);
    for (uint32_t i = 0; i < t->added.count; i++) {
        const sc_added_token *token = &t->added.data[i];
        t->is_special[token->id] = t->is_special[token->id] || token->is_special;
    }
}

static bool check_ids(sc_reader *r)
{
    const shardc_tokenizer *t = r->tokenizer;
    for (uint32_t i = 0; i < t->before.count + t->after.count; i++) {
        uint32_t id = i < t->before.count ? t->before.data[i] : t->after.data[i - t->before.count];
        if (shardc_tokenizer_content(t, id, NULL) == NULL)
            return sc_read_fail(r, "post_processor", "id %u is no token", id);
    }
    return true;
}

/* The contents that are found after normalization are normalized, too. They are what Hugging Face's
 * library decodes to, and what it looks up among the special ones. */
static void fill_normalized(sc_encoder *e, void *user)
{
    shardc_tokenizer *t = user;
    for (uint32_t i = 0; i < t->added.count; i++) {
        const sc_added_token *token = &t->added.data[i];
        bool begins = true;
        uint32_t id = token->id;
        t->is_skipped[id] = t->is_special[id];
        if (!token->is_normalized)
            continue;
        sc_span text = sc_normalize(e, token->content, &begins);
        text.data = sc_arena_copy_text(&t->arena, text.data, text.length);
        t->shown[id] = text;
        t->is_skipped[token->id] =
            shardc_tokenizer_find(t, text.data, text.length, &id) && t->is_special[id];
        if (text.length > 0)
            sc_trie_add(&t->normalized_trie, &t->arena, text, i);
    }
}

static shardc_status fill_tries(opening *o)
{
    shardc_tokenizer *t = o->tokenizer;
    sc_trie_init(&t->raw_trie, &t->arena);
    sc_trie_init(&t->normalized_trie, &t->arena);
    for (uint32_t i = 0; i < t->added.count; i++) {
        if (!t->added.data[i].is_normalized)
            sc_trie_add(&t->raw_trie, &t->arena, t->added.data[i].content, i);
    }
    sc_encoder *e = sc_encoder_take(t);
    if (e == NULL)
        return sc_fail(o->error, SHARDC_ERROR_MEMORY, "%s: there is not enough memory", o->name);
    sc_encoder_give(e); /* closing the tokenizer frees it, whatever happens */
    return sc_encoder_run(e, NULL, o->error, fill_normalized, t);
}

static void read_tokenizer(opening *o)
{
    sc_reader reader = {o->tokenizer, &o->tokenizer->arena, o->name, o->error};
    if (setjmp(o->out_of_memory) != 0)
        return;
    o->status = SHARDC_ERROR_DATA;
    o->tokenizer->vocabulary.arena = o->tokenizer->extra.arena = &o->tokenizer->arena;
    if (!read_all(&reader, o->root))
        return;
    set_size(o->tokenizer);
    if (check_ids(&reader))
        o->status = fill_tries(o);
}

static shardc_status open_json(const json_t *root, const char *name, shardc_tokenizer **out,
                               shardc_error *error)
{
    opening o = {.name = name, .root = root, .error = error};
    o.tokenizer = calloc(1, sizeof *o.tokenizer);
    if (o.tokenizer == NULL)
        return sc_fail(error, SHARDC_ERROR_MEMORY, "%s: there is not enough memory", name);
    pthread_mutex_init(&o.tokenizer->mutex, NULL);
    sc_arena_init(&o.tokenizer->arena, out_of_memory, &o);
    read_tokenizer(&o);
    if (o.status != SHARDC_OK) {
        shardc_tokenizer_close(o.tokenizer);
        return o.status;
    }
    *out = o.tokenizer;
    return SHARDC_OK;
}

/* ---- calls ---- */

shardc_status shardc_tokenizer_open_memory(const void *json, size_t size, const char *name,
                                           shardc_tokenizer **out, shardc_error *error)
{
    json_error_t where;
    *out = NULL;
    json_t *root = sc_json_read(json, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &where);
    if (root == NULL)
        return sc_fail(error, SHARDC_ERROR_DATA,
                       "%s: line %d, column %d: %s: a tokenizer.json is JSON", name, where.line,
                       where.column, where.text);
    shardc_status status = open_json(root, name, out, error);
    json_decref(root);
    return status;
}

shardc_status shardc_tokenizer_open(const char *path, shardc_tokenizer **out, shardc_error *error)
{
    const char *reason;
    size_t size;
    *out = NULL;
    char *bytes = sc_file_read(path, MOST_BYTES, &size, &reason);
    if (bytes == NULL)
        return sc_fail(error, SHARDC_ERROR_DATA, "cannot read '%s': %s", path, reason);
    shardc_status status = shardc_tokenizer_open_memory(bytes, size, path, out, error);
    free(bytes);
    return status;
}

void shardc_tokenizer_close(shardc_tokenizer *tokenizer)
{
    if (tokenizer == NULL)
        return;
    while (tokenizer->idle != NULL) {
        sc_encoder *next = tokenizer->idle->next;
        sc_encoder_free(tokenizer->idle);
        tokenizer->idle = next;
    }
    for (uint32_t i = 0; i < SC_STEPS; i++) {
        sc_pattern_free(tokenizer->normalizers[i].pattern);
        sc_pattern_free(tokenizer->splitters[i].pattern);
        sc_pattern_free(tokenizer->decoders[i].pattern);
    }
    pthread_mutex_destroy(&tokenizer->mutex);
    sc_arena_free(&tokenizer->arena);
    free(tokenizer);
}

uint32_t shardc_tokenizer_size(const shardc_tokenizer *tokenizer)
{
    return tokenizer->size;
}

bool shardc_tokenizer_find(const shardc_tokenizer *tokenizer, const char *content, size_t length,
                           uint32_t *out_id)
{
    *out_id = sc_vocabulary_find(&tokenizer->extra, content, length);
    if (*out_id == SC_NONE)
        *out_id = sc_vocabulary_find(&tokenizer->vocabulary, content, length);
    return *out_id != SC_NONE;
}

const char *shardc_tokenizer_content(const shardc_tokenizer *tokenizer, uint32_t id,
                                     size_t *out_length)
{
    const sc_token *token = sc_vocabulary_token(&tokenizer->extra, id);
    if (token == NULL)
        token = sc_vocabulary_token(&tokenizer->vocabulary, id);
    if (token == NULL)
        return NULL;
    if (out_length != NULL)
        *out_length = token->length;
    return token->content;
}

bool shardc_tokenizer_is_special(const shardc_tokenizer *tokenizer, uint32_t id)
{
    return id < tokenizer->size && tokenizer->is_special[id];
}

void shardc_token_ids_free(shardc_token_ids *ids)
{
    free(ids->data);
    *ids = (shardc_token_ids){0};
}

void shardc_token_text_free(shardc_token_text *text)
{
    free(text->data);
    *text = (shardc_token_text){0};
}
