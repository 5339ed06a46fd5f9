/* Lines for fmt: statements come in as runs of text with places where a line may end, and the comments of the file are woven in where
 * they stood. Internal to ast_print.c and layout.c.
 *
 * A statement is a sequence of pieces. A line may end between two pieces, and must where a comment stands between them. A statement that
 * is too wide is broken where it is nested least, as late as fits; its further lines are indented more. Everything is decided by the
 * pieces and the comments alone, never by the line breaks of the input, so that formatting twice changes nothing. */
#ifndef SHARDC_FRONTEND_SYNTAX_LAYOUT_H
#define SHARDC_FRONTEND_SYNTAX_LAYOUT_H

#include "frontend/syntax/ast.h"

enum { SC_LINE_WIDTH = 120, SC_INDENT = 2, SC_CONTINUATION_INDENT = 4 };

typedef struct sc_piece {
    uint32_t begin, length, width; /* in `text`; width in characters */
    uint32_t depth;                /* of nesting at its start */
    uint32_t comments;             /* of the file, that stand before it */
    bool space;                    /* a blank separates it from the piece before it on its line */
} sc_piece;

typedef struct sc_out_line {
    size_t begin, length; /* in `code`; length 0: an empty line */
    uint32_t width, indent;
    const sc_comment *trailing; /* or NULL */
} sc_out_line;

typedef struct sc_layout {
    sc_context *context;
    const sc_file *file;
    uint32_t indent;
    uint32_t next_comment;

    /* the statement under construction */
    sc_strbuf text;
    SC_VEC(sc_piece) pieces;
    uint32_t depth;
    bool wants_space, may_break;

    /* what is finished */
    sc_strbuf code;
    SC_VEC(sc_out_line) lines;
    uint32_t finished; /* place in the source of the end of the newest line's text */
    bool opened;       /* nothing stands between the newest line and the brace that it opens */
} sc_layout;

void sc_layout_init(sc_layout *layout, sc_context *context, const sc_file *file);

/* Adds text to the statement. `place` is where it stands in the source, 0 when that is not known: comments before it come first. */
void sc_layout_add(sc_layout *layout, uint32_t place, const char *text);
/* A blank before the next text. */
void sc_layout_space(sc_layout *layout);
/* A blank or a line's end before the next text. */
void sc_layout_break(sc_layout *layout);

/* The words of a statement. Their places are not known, except those of names. */
void sc_put(sc_layout *layout, const char *text);
void sc_put_word(sc_layout *layout, const char *text);    /* before a blank */
void sc_put_spaced(sc_layout *layout, const char *text);  /* after a blank */
void sc_put_between(sc_layout *layout, const char *text); /* between blanks */
void sc_put_clause(sc_layout *layout, const char *text);  /* between blanks, and a line may start with it */
void sc_put_comma(sc_layout *layout, uint32_t index);     /* before the element with this index, of which the first has none */
void sc_put_name(sc_layout *layout, sc_name name);
void sc_put_names(sc_layout *layout, const sc_name_list *names);
void sc_put_integer(sc_layout *layout, int64_t value);
/* Brackets of a shape or of an op's dims: a line is broken elsewhere if it can be. */
void sc_put_open_dims(sc_layout *layout);
void sc_put_close_dims(sc_layout *layout);
const char *sc_layout_text_of(const sc_layout *layout, sc_sym sym);

/* Whether the statement fits on one line as it is. */
bool sc_layout_fits(const sc_layout *layout);
/* Whether a comment stands before the place, or was already put into the statement. */
bool sc_layout_has_comment(const sc_layout *layout, uint32_t before);

/* Ends the statement, whose last byte stands before `end`, with the comment that trails it. */
void sc_layout_end_statement(sc_layout *layout, uint32_t end);
/* Ends the head of a body, whose brace is its last byte; the first thing inside, or the closing brace, is at `inside`. */
void sc_layout_end_head(sc_layout *layout, uint32_t inside);
/* Puts the comments before `place` on lines of their own, and an empty line before what follows if the source has one. */
void sc_layout_begin(sc_layout *layout, uint32_t place);
/* The same before a closing brace or the end of the file, without the empty line. */
void sc_layout_close(sc_layout *layout, uint32_t place);

/* Writes the lines, their trailing comments aligned. */
void sc_layout_write(const sc_layout *layout, sc_strbuf *out);

#endif
