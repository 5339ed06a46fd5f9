/* Prompts and what continues them as text: through a tokenizer, as bytes if the vocabulary has 256
 * entries, else as ids. */
#ifndef SHARDC_RUNTIME_DRIVE_PROMPT_TEXT_H
#define SHARDC_RUNTIME_DRIVE_PROMPT_TEXT_H

#include "runtime/drive/options.h"
#include "shardc/tokenizer.h"
#include "support/strbuf.h"

typedef SC_VEC(uint32_t) sc_token_list;

typedef struct sc_chat_template sc_chat_template;

typedef struct sc_prompt_text {
    sc_context *context;
    uint32_t vocabulary;              /* of the model */
    shardc_tokenizer *tokenizer;      /* NULL: none */
    const sc_chat_template *template; /* NULL: the prompt alone */
    uint32_t turn_end;                /* with a template: the token that ends the answer */
} sc_prompt_text;

/* Opens the tokenizer of the options, if there is one, for a model with so many tokens. False after
 * reporting an error: it cannot be read, has more tokens than the model, or lacks tokens of the
 * template. The caller closes it in any case. */
bool sc_prompt_text_open(sc_context *context, const sc_run_options *options, uint32_t vocabulary,
                         sc_prompt_text *out);
void sc_prompt_text_close(sc_prompt_text *text);

/* Appends the ids of a prompt. False after reporting an error. */
bool sc_prompt_text_read(const sc_prompt_text *text, const char *prompt, sc_token_list *out);

/* The text of one row as its tokens come. */
typedef struct sc_row_text {
    const sc_prompt_text *text;
    shardc_token_stream *stream; /* NULL: without a tokenizer */
    bool has_begun;
} sc_row_text;

/* Begins the text of a row behind `count` tokens that are not shown, since what is in front of a
 * token may decide whether it begins with a space. False after reporting an error. */
bool sc_row_text_begin(sc_row_text *row, const sc_prompt_text *text, const uint32_t *tokens,
                       uint32_t count);
/* Appends the text that a token makes certain. */
bool sc_row_text_add(sc_row_text *row, uint32_t token, sc_strbuf *out);
/* Appends what was held back, and frees the row's memory. */
bool sc_row_text_end(sc_row_text *row, sc_strbuf *out);

#endif
