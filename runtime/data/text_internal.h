/* Shared by the files that turn text into ids: text.c (what a document becomes), text_read.c
 * (documents of files), text_encode.c (by all cores, in order). */
#ifndef SHARDC_RUNTIME_DATA_TEXT_INTERNAL_H
#define SHARDC_RUNTIME_DATA_TEXT_INTERNAL_H

#include "runtime/data/text.h"
#include "shardc/tokenizer.h"

/* A piece of a file: a whole one, or a line. */
typedef struct sc_document {
    uint32_t file;
    uint64_t line; /* from 1; 0: the file is one document */
    size_t begin, length;
} sc_document;

/* Several documents behind each other. All memory is malloc'd and used again. */
typedef struct sc_documents {
    char *bytes;
    size_t length, capacity;
    sc_document *list;
    size_t count, list_capacity;
} sc_documents;

void sc_documents_free(sc_documents *documents);

/* Reads files from the first on. */
typedef struct sc_text_reader {
    const sc_text_list *files;
    sc_text_counts *counts; /* by file: bytes are counted here */
    uint32_t next;          /* file to open next */
    int file;               /* of lines, being read; -1: none */
    uint64_t at, size, line;
    sc_documents rest; /* read, but not a whole line yet */
} sc_text_reader;

enum { SC_TEXT_BATCH = 1 << 18 };

/* Replaces `out` by the next documents: SC_TEXT_BATCH bytes, or a document more. None: all were
 * read. False: *path and *reason say what failed. */
bool sc_text_read(sc_text_reader *reader, sc_documents *out, const char **path,
                  const char **reason);
void sc_text_reader_close(sc_text_reader *reader);

/* Appends the ids of a document, with that of its end. False with a text. */
bool sc_text_append(const sc_encoder *text, const char *bytes, size_t length, bool is_line,
                    shardc_token_ids *ids, char *error, size_t error_size);

#endif
