/* shardc tokenize: lines of text to ids, or of ids to text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shardc/tokenizer.h"
#include "support/file.h"
#include "support/json.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"

typedef struct tokenizing {
    sc_context *context;
    const sc_options *options;
    shardc_tokenizer *tokenizer;
    shardc_special_tokens special;
    size_t line; /* from 1 */
    shardc_token_ids ids;
    shardc_token_text text;
    sc_strbuf *out;
} tokenizing;

static bool fail(tokenizing *t, const char *what)
{
    sc_report(
        &t->context->diag, SC_D_run_failed, (sc_loc){0},
        sc_arena_printf(&t->context->arena, "%s, line %zu: %s", t->options->file, t->line, what),
        NULL);
    return false;
}

/* ---- lines as text ---- */

static bool parse_ids(tokenizing *t, const char *line, size_t length)
{
    const char *at = line, *end = line + length;
    while (at < end) {
        uint64_t id = 0;
        const char *from = at;
        while (at < end && *at >= '0' && *at <= '9' && id <= UINT32_MAX)
            id = id * 10 + (uint64_t)(*at++ - '0');
        bool is_number = at > from && id <= UINT32_MAX;
        if (is_number) {
            uint32_t *slot = &t->ids.data[t->ids.count++];
            *slot = (uint32_t)id;
        } else if (at == end || strchr(" \t\r,", *at) == NULL || at > from) {
            return fail(t, sc_arena_printf(&t->context->arena,
                                           "'%.*s' is no id: --decode reads ids with blanks "
                                           "between",
                                           (int)(end - from < 20 ? end - from : 20), from));
        } else {
            at++;
        }
    }
    return true;
}

/* Makes room for as many ids as a line of this length can have. */
static bool reserve_ids(tokenizing *t, size_t count)
{
    if (count <= t->ids.capacity)
        return true;
    uint32_t *grown = realloc(t->ids.data, count * sizeof *grown);
    if (grown == NULL)
        return fail(t, "there is not enough memory");
    t->ids.data = grown;
    t->ids.capacity = count;
    return true;
}

static bool encode(tokenizing *t, const char *text, size_t length)
{
    shardc_error error;
    return shardc_tokenizer_encode(t->tokenizer, text, length, t->special, &t->ids, &error) ==
               SHARDC_OK ||
           fail(t, error.text);
}

static bool decode(tokenizing *t)
{
    shardc_error error;
    shardc_token_text text = t->text;
    shardc_status status =
        shardc_tokenizer_decode(t->tokenizer, t->ids.data, t->ids.count, t->special, &text, &error);
    t->text = text;
    return status == SHARDC_OK || fail(t, error.text);
}

static void print_ids(tokenizing *t, const char *between)
{
    for (size_t i = 0; i < t->ids.count; i++) {
        if (i > 0)
            sc_strbuf_add(t->out, between);
        sc_strbuf_add_integer(t->out, t->ids.data[i]);
    }
}

static bool convert_text(tokenizing *t, const char *line, size_t length)
{
    if (!t->options->decode) {
        if (!encode(t, line, length))
            return false;
        print_ids(t, " ");
    } else {
        if (!reserve_ids(t, length + 1) || !parse_ids(t, line, length) || !decode(t))
            return false;
        sc_strbuf_add_bytes(t->out, t->text.data, t->text.length);
    }
    sc_strbuf_add_char(t->out, '\n');
    return true;
}

/* ---- lines as JSON ---- */

static bool json_to_ids(tokenizing *t, const json_t *object)
{
    const json_t *list = json_object_get(object, "ids"), *id;
    size_t i;
    if (!json_is_array(list))
        return fail(t, "'ids' must be a list: --decode reads {\"ids\": [..]}");
    if (!reserve_ids(t, json_array_size(list) + 1))
        return false;
    json_array_foreach (list, i, id) {
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) > UINT32_MAX)
            return fail(t, "an id must be an integer");
        t->ids.data[t->ids.count++] = (uint32_t)json_integer_value(id);
    }
    return true;
}

static bool print_text(tokenizing *t)
{
    json_t *object = json_pack("{s:o}", "text", json_stringn(t->text.data, t->text.length));
    char *text = sc_json_write(object, JSON_COMPACT);
    json_decref(object);
    if (text == NULL)
        return fail(t, "there is not enough memory");
    sc_strbuf_add(t->out, text);
    sc_strbuf_add_char(t->out, '\n');
    free(text);
    return true;
}

static bool convert_object(tokenizing *t, const json_t *object)
{
    const json_t *text = json_object_get(object, "text");
    if (t->options->decode)
        return json_to_ids(t, object) && decode(t) && print_text(t);
    if (!json_is_string(text))
        return fail(t, "'text' must be a string: --format json reads {\"text\": \"..\"}");
    if (!encode(t, json_string_value(text), json_string_length(text)))
        return false;
    sc_strbuf_add(t->out, "{\"ids\":[");
    print_ids(t, ",");
    sc_strbuf_add(t->out, "]}\n");
    return true;
}

static bool convert_json(tokenizing *t, const char *line, size_t length)
{
    json_error_t where;
    json_t *object = sc_json_read(line, length, JSON_ALLOW_NUL, &where);
    if (object == NULL)
        return fail(t, sc_arena_printf(&t->context->arena,
                                       "column %d: %s: --format json reads an "
                                       "object a line",
                                       where.column, where.text));
    bool ok = convert_object(t, object);
    json_decref(object);
    return ok;
}

/* ---- the file ---- */

static void convert(tokenizing *t, const char *text, size_t length)
{
    for (size_t at = 0; at < length;) {
        const char *end = memchr(text + at, '\n', length - at);
        size_t size = end == NULL ? length - at : (size_t)(end - (text + at));
        t->line++;
        t->ids.count = t->text.length = 0;
        if (!(t->options->run.json ? convert_json : convert_text)(t, text + at, size))
            return;
        at += size + 1;
    }
}

static char *read_standard_input(size_t *out_size, const char **reason)
{
    size_t capacity = 1 << 16, size = 0, count = 1;
    char *bytes = malloc(capacity);
    while (bytes != NULL && count > 0) {
        if (capacity - size < 1 << 15) {
            capacity *= 2;
            char *grown = realloc(bytes, capacity);
            if (grown == NULL) {
                free(bytes);
                bytes = NULL;
                break;
            }
            bytes = grown;
        }
        count = fread(bytes + size, 1, capacity - size, stdin);
        size += count;
    }
    *out_size = size;
    *reason = bytes == NULL ? "there is not enough memory" : strerror(errno);
    if (bytes != NULL && ferror(stdin)) {
        free(bytes);
        bytes = NULL;
    }
    return bytes;
}

int sc_cmd_tokenize(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    tokenizing t = {.context = context, .options = options, .out = out};
    shardc_error error;
    const char *reason;
    size_t size;
    t.special = options->no_special ? SHARDC_WITHOUT_SPECIAL_TOKENS : SHARDC_WITH_SPECIAL_TOKENS;
    if (options->run.tokenizer == NULL) {
        sc_arguments_fail(context, "tokenize needs --tokenizer FILE, a tokenizer.json");
        return 0;
    }
    char *text = strcmp(options->file, "-") == 0
                     ? read_standard_input(&size, &reason)
                     : sc_file_read(options->file, UINT32_MAX, &size, &reason);
    if (text == NULL)
        sc_report(&context->diag, SC_D_cannot_read, (sc_loc){0}, options->file, reason, NULL);
    else if (shardc_tokenizer_open(options->run.tokenizer, &t.tokenizer, &error) != SHARDC_OK)
        sc_report(&context->diag, SC_D_run_failed, (sc_loc){0},
                  sc_arena_printf(&context->arena, "%s", error.text), NULL);
    else
        convert(&t, text, size);
    shardc_tokenizer_close(t.tokenizer);
    shardc_token_ids_free(&t.ids);
    shardc_token_text_free(&t.text);
    free(text);
    return 0;
}
