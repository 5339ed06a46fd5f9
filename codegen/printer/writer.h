/* Writes source text line by line, indented by its open blocks: kernels and attention, C and
 * CUDA. */
#ifndef SHARDC_CODEGEN_PRINTER_WRITER_H
#define SHARDC_CODEGEN_PRINTER_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include "support/strbuf.h"

typedef struct sc_writer {
    sc_strbuf *text;
    uint32_t depth; /* open blocks */
} sc_writer;

/* Starts a line; the caller adds its text and '\n'. */
void sc_write_indent(sc_writer *out);
/* Writes a line. Preprocessor lines are not indented. */
void sc_write_line(sc_writer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line that opens a block: the format, then " {". */
void sc_write_open(sc_writer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Opens a block on a line of its own: of a function, or of a scope. */
void sc_write_open_block(sc_writer *out);
/* Ends the line under construction with " {". */
void sc_write_end_open(sc_writer *out);
void sc_write_close(sc_writer *out);
/* Closes blocks until `depth` of them are open. */
void sc_write_close_to(sc_writer *out, uint32_t depth);

/* A word of a fixed text and what is written for it. */
typedef struct sc_write_word {
    const char *word, *with;
} sc_write_word;

/* Writes a text that is embedded in the compiler (cmake/embedded_texts.cmake) and an empty line.
 * Words are replaced wherever they occur; no word may be part of another. */
void sc_write_fixed(sc_writer *out, const char *text, const sc_write_word *words, size_t count);

#endif
