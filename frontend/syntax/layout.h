/* Line layout of the formatter: statements arrive as pieces of text between which a line may break,
 * and the file's comments are inserted at their places. Internal to the formatter's files.
 *
 * A line may break between two pieces, and must if a comment is between them. A statement that is
 * too wide is broken at the lowest nesting depth, as late as fits; continuation lines are indented
 * further. The layout depends only on pieces and comments, not on the input's line breaks, so
 * formatting is idempotent. */
#ifndef SHARDC_FRONTEND_SYNTAX_LAYOUT_H
#define SHARDC_FRONTEND_SYNTAX_LAYOUT_H

#include "frontend/syntax/ast.h"

enum { SC_LINE_WIDTH = 120, SC_INDENT = 2, SC_CONTINUATION_INDENT = 4 };

typedef struct sc_piece {
    uint32_t begin, length, width; /* begin: offset in `text`; width in characters */
    uint32_t depth;                /* nesting depth at its start */
    uint32_t comments;             /* number of comments before it */
    /* separated by a blank from the piece before it on the same line */
    bool space;
} sc_piece;

typedef struct sc_out_line {
    size_t begin, length; /* offset in `code`; length 0: an empty line */
    uint32_t width, indent;
    const sc_comment *trailing; /* or NULL */
} sc_out_line;

typedef struct sc_layout {
    sc_context *context;
    const sc_file *file;
    uint32_t indent;
    uint32_t next_comment;

    /* the statement being built */
    sc_strbuf text;
    SC_VEC(sc_piece) pieces;
    uint32_t depth;
    bool wants_space, may_break;

    /* finished output */
    sc_strbuf code;
    SC_VEC(sc_out_line) lines;
    uint32_t finished; /* source position of the end of the newest line's text */
    bool opened;       /* nothing follows the brace opened on the newest line yet */
} sc_layout;

void sc_layout_init(sc_layout *layout, sc_context *context, const sc_file *file);

/* Adds text to the statement. `place` is its position in the source, 0 if unknown. Comments before
 * it are added first. */
void sc_layout_add(sc_layout *layout, uint32_t place, const char *text);
/* Puts a blank before the next text. */
void sc_layout_space(sc_layout *layout);
/* Puts a blank or a line break before the next text. */
void sc_layout_break(sc_layout *layout);

/* Add tokens of a statement. Only names have known source positions. */
void sc_put(sc_layout *layout, const char *text);
void sc_put_word(sc_layout *layout, const char *text);    /* followed by a blank */
void sc_put_spaced(sc_layout *layout, const char *text);  /* preceded by a blank */
void sc_put_between(sc_layout *layout, const char *text); /* blanks on both sides */
/* blanks on both sides; a line may start with it */
void sc_put_clause(sc_layout *layout, const char *text);
/* separator before the element with this index; nothing for index 0 */
void sc_put_comma(sc_layout *layout, uint32_t index);
void sc_put_name(sc_layout *layout, sc_name name);
void sc_put_names(sc_layout *layout, const sc_name_list *names);
void sc_put_integer(sc_layout *layout, int64_t value);
/* Add the brackets of a shape or of an op's dims. Lines break elsewhere if possible. */
void sc_put_open_dims(sc_layout *layout);
void sc_put_close_dims(sc_layout *layout);
const char *sc_layout_text_of(const sc_layout *layout, sc_sym sym);

/* True if the statement fits on one line. */
bool sc_layout_fits(const sc_layout *layout);
/* True if a comment is before the position or already part of the statement. */
bool sc_layout_has_comment(const sc_layout *layout, uint32_t before);

/* Ends the statement, whose last byte is before `end`, with its trailing comment. */
void sc_layout_end_statement(sc_layout *layout, uint32_t end);
/* Ends the head of a body. Its last byte is the brace; `inside` is the position of the first thing
 * inside or of the closing brace. */
void sc_layout_end_head(sc_layout *layout, uint32_t inside);
/* Puts the comments before `place` on lines of their own, and an empty line if the source has one
 * there. */
void sc_layout_begin(sc_layout *layout, uint32_t place);
/* As sc_layout_begin, before a closing brace or the end of the file: without the empty line. */
void sc_layout_close(sc_layout *layout, uint32_t place);

/* Writes the lines, with trailing comments aligned. */
void sc_layout_write(const sc_layout *layout, sc_strbuf *out);

#endif
