#include "runtime/drive/prompt_text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 256, MARKS = 5 };

/* One turn of a chat and the beginning of the answer, as the chat templates of these families write
 * them for a single message of the user. */
struct sc_chat_template {
    const char *name, *before, *behind;
    bool trims; /* white space around the message */
    const char *turn_end;
    const char *marks[MARKS]; /* tokens that it needs */
};

static const sc_chat_template templates[] = {
    {"llama3",
     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n",
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     true,
     "<|eot_id|>",
     {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}},
    {"chatml",
     "<|im_start|>user\n",
     "<|im_end|>\n<|im_start|>assistant\n",
     false,
     "<|im_end|>",
     {"<|im_start|>", "<|im_end|>"}},
    {"gemma",
     "<bos><start_of_turn>user\n",
     "<end_of_turn>\n<start_of_turn>model\n",
     true,
     "<end_of_turn>",
     {"<bos>", "<start_of_turn>", "<end_of_turn>"}},
};

static bool fail(sc_context *context, sc_diag_id id, const char *text)
{
    sc_report(&context->diag, id, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- opening ---- */

static bool find_template(sc_prompt_text *t, const sc_run_options *options)
{
    if (options->template == NULL || strcmp(options->template, "none") == 0)
        return true;
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
        if (strcmp(options->template, templates[i].name) == 0)
            t->template = &templates[i];
    }
    return t->template != NULL ||
           fail(t->context, SC_D_usage,
                sc_arena_printf(&t->context->arena,
                                "--template is llama3, chatml, gemma or none, not '%s'",
                                options->template));
}

static bool check_marks(sc_prompt_text *t, const char *path)
{
    const sc_chat_template *chat = t->template;
    if (chat == NULL)
        return true;
    for (int i = 0; i < MARKS && chat->marks[i] != NULL; i++) {
        uint32_t id;
        const char *mark = chat->marks[i];
        if (!shardc_tokenizer_find(t->tokenizer, mark, strlen(mark), &id))
            return fail(t->context, SC_D_run_failed,
                        sc_arena_printf(&t->context->arena,
                                        "%s has no token '%s', which --template %s needs: its "
                                        "model speaks another template",
                                        path, mark, chat->name));
        if (strcmp(mark, chat->turn_end) == 0)
            t->turn_end = id;
    }
    return true;
}

bool sc_prompt_text_open(sc_context *context, const sc_run_options *options, uint32_t vocabulary,
                         sc_prompt_text *out)
{
    shardc_error error;
    *out = (sc_prompt_text){.context = context, .vocabulary = vocabulary};
    if (options->tokenizer == NULL)
        return true;
    if (!find_template(out, options))
        return false;
    if (shardc_tokenizer_open(options->tokenizer, &out->tokenizer, &error) != SHARDC_OK)
        return fail(context, SC_D_run_failed, sc_arena_printf(&context->arena, "%s", error.text));
    uint32_t size = shardc_tokenizer_size(out->tokenizer);
    if (size > vocabulary)
        return fail(context, SC_D_run_failed,
                    sc_arena_printf(&context->arena,
                                    "%s has %u tokens, but the model's vocabulary has %u: it is "
                                    "the tokenizer of another model",
                                    options->tokenizer, size, vocabulary));
    return check_marks(out, options->tokenizer);
}

void sc_prompt_text_close(sc_prompt_text *text)
{
    shardc_tokenizer_close(text->tokenizer);
    text->tokenizer = NULL;
}

/* ---- prompts ---- */

static bool read_ids(const sc_prompt_text *t, const char *text, sc_token_list *out)
{
    while (*text != 0) {
        text += strspn(text, " ,\t\n");
        if (*text == 0)
            break;
        char *end;
        errno = 0;
        unsigned long long id = strtoull(text, &end, 10);
        if (errno != 0 || end == text || id >= t->vocabulary ||
            (*end != 0 && strchr(" ,\t\n", *end) == NULL))
            return fail(
                t->context, SC_D_usage,
                sc_arena_printf(
                    &t->context->arena,
                    "--prompt takes ids below %u, with blanks or commas between, not '%.*s'; "
                    "--tokenizer lets it be text",
                    t->vocabulary, (int)strcspn(text, " ,\t\n"), text));
        *sc_vec_push(&t->context->arena, out) = (uint32_t)id;
        text = end;
    }
    return true;
}

static const char *in_template(const sc_prompt_text *t, const char *prompt)
{
    static const char white[] = " \t\n\r\v\f";
    const sc_chat_template *chat = t->template;
    size_t length = strlen(prompt);
    if (chat->trims) {
        size_t skipped = strspn(prompt, white);
        prompt += skipped;
        length -= skipped;
        while (length > 0 && strchr(white, prompt[length - 1]) != NULL)
            length--;
    }
    return sc_arena_printf(&t->context->arena, "%s%.*s%s", chat->before, (int)length, prompt,
                           chat->behind);
}

static bool encode(const sc_prompt_text *t, const char *prompt, sc_token_list *out)
{
    shardc_token_ids ids = {0};
    shardc_error error;
    shardc_special_tokens special = SHARDC_WITH_SPECIAL_TOKENS;
    if (t->template != NULL) { /* it has all of them */
        prompt = in_template(t, prompt);
        special = SHARDC_WITHOUT_SPECIAL_TOKENS;
    }
    bool ok = shardc_tokenizer_encode(t->tokenizer, prompt, strlen(prompt), special, &ids,
                                      &error) == SHARDC_OK;
    if (!ok)
        fail(t->context, SC_D_run_failed,
             sc_arena_printf(&t->context->arena, "--prompt: %s", error.text));
    sc_vec_reserve(&t->context->arena, out, ids.count);
    for (size_t i = 0; i < ids.count; i++)
        *sc_vec_push(&t->context->arena, out) = ids.data[i];
    shardc_token_ids_free(&ids);
    return ok;
}

bool sc_prompt_text_read(const sc_prompt_text *text, const char *prompt, sc_token_list *out)
{
    if (text->tokenizer != NULL)
        return encode(text, prompt, out);
    if (text->vocabulary != BYTES)
        return read_ids(text, prompt, out);
    for (const char *p = prompt; *p != 0; p++)
        *sc_vec_push(&text->context->arena, out) = (uint8_t)*p;
    return true;
}

/* ---- rows ---- */

static bool check(const sc_row_text *row, shardc_status status, const shardc_error *error)
{
    return status == SHARDC_OK ||
           fail(row->text->context, SC_D_run_failed,
                sc_arena_printf(&row->text->context->arena, "%s", error->text));
}

/* The model's vocabulary may be larger than the tokenizer's: such tokens have no text. */
static bool put(sc_row_text *row, uint32_t token, sc_strbuf *out)
{
    shardc_token_text bytes = {0};
    shardc_error error;
    if (shardc_tokenizer_content(row->text->tokenizer, token, NULL) == NULL)
        return true;
    bool ok = check(row, shardc_token_stream_put(row->stream, token, &bytes, &error), &error);
    if (ok && out != NULL)
        sc_strbuf_add_bytes(out, bytes.data, bytes.length);
    shardc_token_text_free(&bytes);
    return ok;
}

bool sc_row_text_begin(sc_row_text *row, const sc_prompt_text *text, const uint32_t *tokens,
                       uint32_t count)
{
    shardc_error error;
    *row = (sc_row_text){.text = text};
    if (text->tokenizer == NULL)
        return true;
    bool ok = check(row,
                    shardc_token_stream_open(text->tokenizer, SHARDC_WITHOUT_SPECIAL_TOKENS,
                                             &row->stream, &error),
                    &error);
    for (uint32_t i = 0; i < count; i++)
        ok = ok && put(row, tokens[i], NULL);
    return ok;
}

bool sc_row_text_add(sc_row_text *row, uint32_t token, sc_strbuf *out)
{
    char byte = (char)token;
    if (row->text->tokenizer != NULL)
        return put(row, token, out);
    if (row->text->vocabulary == BYTES)
        sc_strbuf_add_bytes(out, &byte, 1);
    else
        sc_strbuf_printf(out, "%s%u", row->has_begun ? " " : "", token);
    row->has_begun = true;
    return true;
}

bool sc_row_text_end(sc_row_text *row, sc_strbuf *out)
{
    shardc_token_text bytes = {0};
    shardc_error error;
    bool ok = true;
    if (row->stream != NULL) {
        ok = check(row, shardc_token_stream_end(row->stream, &bytes, &error), &error);
        if (ok)
            sc_strbuf_add_bytes(out, bytes.data, bytes.length);
    }
    shardc_token_text_free(&bytes);
    shardc_token_stream_close(row->stream);
    row->stream = NULL;
    return ok;
}
