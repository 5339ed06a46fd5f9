/* Text that becomes ids before the first step: documents of .txt files, each whole, and of the
 * lines of .jsonl files, by all cores, in the order of the files. The ids are written to a file
 * without a name in $TMPDIR, which later reads find in the page cache or on disk, never in this
 * process's memory. */
#ifndef SHARDC_RUNTIME_DATA_TEXT_H
#define SHARDC_RUNTIME_DATA_TEXT_H

#include <stdio.h>

#include "runtime/files/tokens.h"
#include "support/arguments.h"

typedef struct sc_text_options {
    const char *tokenizer; /* a tokenizer.json; NULL: a byte is an id */
    const char *field;     /* of a line that has its text; NULL: SC_TEXT_FIELD */
    const char *eos;       /* a token's content, or an id: follows every document; NULL: nothing */
} sc_text_options;

#define SC_TEXT_FIELD "text"

typedef enum sc_text_kind {
    SC_TEXT_IDS,   /* NAME.bin */
    SC_TEXT_LINES, /* NAME.jsonl: a document is a string of a line's object */
    SC_TEXT_WHOLE  /* any other: the file is a document */
} sc_text_kind;

sc_text_kind sc_text_kind_of(const char *path);
/* True if the file's ids have to be written first; else sc_tokens_open reads it where it is. */
bool sc_text_takes(const sc_text_options *options, const char *path);

/* How documents become ids. */
typedef struct sc_encoder sc_encoder;

/* Opens the tokenizer and looks up `eos`. NULL after messages. */
sc_encoder *sc_text_open(sc_context *context, const sc_text_options *options);
void sc_text_close(sc_encoder *text); /* NULL is allowed */
/* One more than the largest id. */
uint32_t sc_text_vocabulary(const sc_encoder *text);
/* Returns the bytes of an id in files: 2 or 4. */
uint32_t sc_text_width(const sc_encoder *text);
bool sc_text_eos(const sc_encoder *text, uint32_t *out);

/* What a file gave. */
typedef struct sc_text_counts {
    uint64_t bytes, documents, tokens;
} sc_text_counts;

/* Writes the ids of all files to `out`, one behind the other, little-endian. `counts` is by file.
 * Nothing may be .bin. False after a message. */
bool sc_text_encode(sc_context *context, const sc_encoder *text, const sc_text_list *files,
                    FILE *out, const char *out_path, sc_text_counts *counts);

#endif
