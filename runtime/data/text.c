/* Turns a document into ids. */
#include "runtime/data/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/data/text_internal.h"
#include "support/json.h"

struct sc_encoder {
    shardc_tokenizer *tokenizer; /* NULL: a byte is an id */
    const char *field;
    bool has_eos;
    uint32_t eos, vocabulary;
};

enum { BYTES = 256 };

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

sc_text_kind sc_text_kind_of(const char *path)
{
    return ends_with(path, ".bin")     ? SC_TEXT_IDS
           : ends_with(path, ".jsonl") ? SC_TEXT_LINES
                                       : SC_TEXT_WHOLE;
}

bool sc_text_takes(const sc_text_options *options, const char *path)
{
    sc_text_kind kind = sc_text_kind_of(path);
    bool is_bytes = options->tokenizer == NULL && options->eos == NULL;
    return kind != SC_TEXT_IDS && !(kind == SC_TEXT_WHOLE && is_bytes);
}

/* ---- the end of documents ---- */

/* A token's content comes before a number: a tokenizer may have a token "2". */
static bool find_eos(sc_context *context, const char *given, sc_encoder *text)
{
    int64_t id;
    if (text->tokenizer != NULL &&
        shardc_tokenizer_find(text->tokenizer, given, strlen(given), &text->eos))
        return true;
    if (!sc_whole_number(given, &id) || id < 0 || id > UINT32_MAX) {
        sc_arguments_fail(context, "--eos %s: %s", given,
                          text->tokenizer != NULL ? "the tokenizer has no such token"
                                                  : "without --tokenizer it is an id");
        return false;
    }
    text->eos = (uint32_t)id;
    if (text->tokenizer == NULL ||
        shardc_tokenizer_content(text->tokenizer, text->eos, NULL) != NULL)
        return true;
    sc_arguments_fail(
        context, "--eos %s: the tokenizer has no token of this content, or with this id", given);
    return false;
}

/* ---- opening ---- */

sc_encoder *sc_text_open(sc_context *context, const sc_text_options *options)
{
    sc_encoder *text = sc_arena_alloc(&context->arena, sizeof *text);
    shardc_error error = {.text = ""};
    *text = (sc_encoder){.field = options->field != NULL ? options->field : SC_TEXT_FIELD,
                         .vocabulary = BYTES};
    if (options->tokenizer != NULL &&
        shardc_tokenizer_open(options->tokenizer, &text->tokenizer, &error) != SHARDC_OK) {
        sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
                  sc_arena_printf(&context->arena, "%s", error.text), NULL);
        return NULL;
    }
    if (text->tokenizer != NULL)
        text->vocabulary = shardc_tokenizer_size(text->tokenizer);
    text->has_eos = options->eos != NULL;
    if (text->has_eos && !find_eos(context, options->eos, text)) {
        sc_text_close(text);
        return NULL;
    }
    if (text->has_eos && text->eos >= text->vocabulary)
        text->vocabulary = text->eos < UINT32_MAX ? text->eos + 1 : UINT32_MAX;
    return text;
}

void sc_text_close(sc_encoder *text)
{
    if (text != NULL)
        shardc_tokenizer_close(text->tokenizer);
}

uint32_t sc_text_vocabulary(const sc_encoder *text)
{
    return text->vocabulary;
}

uint32_t sc_text_width(const sc_encoder *text)
{
    return text->vocabulary > SC_TOKENS_NARROW_LIMIT ? 4 : 2;
}

bool sc_text_eos(const sc_encoder *text, uint32_t *out)
{
    *out = text->eos;
    return text->has_eos;
}

/* ---- documents ---- */

static bool no_room(char *error, size_t error_size)
{
    snprintf(error, error_size, "there is not enough memory for its ids");
    return false;
}

static bool reserve_ids(shardc_token_ids *ids, size_t count)
{
    if (count > SIZE_MAX / sizeof *ids->data - ids->count)
        return false;
    size_t wanted = ids->count + count;
    if (wanted <= ids->capacity)
        return true;
    size_t capacity = wanted > 2 * ids->capacity ? wanted : 2 * ids->capacity;
    uint32_t *data = realloc(ids->data, capacity * sizeof *data);
    if (data == NULL)
        return false;
    ids->data = data;
    ids->capacity = capacity;
    return true;
}

static bool append_text(const sc_encoder *text, const char *bytes, size_t length,
                        shardc_token_ids *ids, char *error, size_t error_size)
{
    shardc_error reason = {.text = ""};
    if (text->tokenizer != NULL &&
        shardc_tokenizer_encode(text->tokenizer, bytes, length, SHARDC_WITHOUT_SPECIAL_TOKENS, ids,
                                &reason) != SHARDC_OK) {
        snprintf(error, error_size, "%s", reason.text);
        return false;
    }
    if (!reserve_ids(ids, (text->tokenizer == NULL ? length : 0) + 1))
        return no_room(error, error_size);
    size_t count = text->tokenizer == NULL ? length : 0;
    for (size_t i = 0; i < count; i++)
        ids->data[ids->count++] = (unsigned char)bytes[i];
    if (text->has_eos)
        ids->data[ids->count++] = text->eos;
    return true;
}

static bool append_line(const sc_encoder *text, const char *line, size_t length,
                        shardc_token_ids *ids, char *error, size_t error_size)
{
    json_error_t problem;
    json_t *root = sc_json_read(line, length, JSON_ALLOW_NUL, &problem);
    const json_t *field = json_object_get(root, text->field);
    bool ok = false;
    if (root == NULL)
        snprintf(error, error_size, "it is no JSON: %s", problem.text);
    else if (!json_is_object(root))
        snprintf(error, error_size, "it is not a JSON object");
    else if (field == NULL)
        snprintf(error, error_size, "it has no \"%s\"; --field names another key", text->field);
    else if (!json_is_string(field))
        snprintf(error, error_size, "its \"%s\" is not a string", text->field);
    else
        ok = append_text(text, json_string_value(field), json_string_length(field), ids, error,
                         error_size);
    json_decref(root);
    return ok;
}

bool sc_text_append(const sc_encoder *text, const char *bytes, size_t length, bool is_line,
                    shardc_token_ids *ids, char *error, size_t error_size)
{
    return (is_line ? append_line : append_text)(text, bytes, length, ids, error, error_size);
}
