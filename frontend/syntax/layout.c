#include "frontend/syntax/layout.h"

#include <string.h>

void sc_layout_init(sc_layout *layout, sc_context *context, const sc_file *file)
{
    *layout = (sc_layout){
        .context = context, .file = file, .finished = file->source->base, .opened = true};
    sc_strbuf_init(&layout->text, &context->arena);
    sc_strbuf_init(&layout->code, &context->arena);
}

/* ---- pieces ---- */

static uint32_t width_of(const char *text, size_t length)
{
    uint32_t width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)text[i] & 0xc0) != 0x80;
    return width;
}

static uint32_t take_comments(sc_layout *layout, uint32_t place)
{
    uint32_t first = layout->next_comment;
    while (layout->next_comment < layout->file->comments.count &&
           layout->file->comments.data[layout->next_comment].loc.begin < place)
        layout->next_comment++;
    return layout->next_comment - first;
}

static sc_piece *start_piece(sc_layout *layout, uint32_t comments)
{
    sc_piece *piece = sc_vec_push(&layout->context->arena, &layout->pieces);
    *piece = (sc_piece){.begin = (uint32_t)layout->text.length,
                        .depth = layout->depth,
                        .comments = comments,
                        .space = layout->wants_space};
    return piece;
}

void sc_layout_add(sc_layout *layout, uint32_t place, const char *text)
{
    uint32_t comments = take_comments(layout, place);
    sc_piece *piece =
        layout->pieces.count > 0 ? &layout->pieces.data[layout->pieces.count - 1] : NULL;
    if (piece == NULL || comments > 0 || layout->may_break) {
        piece = start_piece(layout, comments);
    } else if (layout->wants_space) {
        sc_strbuf_add_char(&layout->text, ' ');
        piece->length++;
        piece->width++;
    }
    size_t length = strlen(text);
    sc_strbuf_add_bytes(&layout->text, text, length);
    piece->length += (uint32_t)length;
    piece->width += width_of(text, length);
    layout->wants_space = layout->may_break = false;
}

void sc_layout_space(sc_layout *layout)
{
    layout->wants_space = true;
}

void sc_layout_break(sc_layout *layout)
{
    layout->wants_space = layout->may_break = true;
}

/* ---- words ---- */

const char *sc_layout_text_of(const sc_layout *layout, sc_sym sym)
{
    return sc_text(layout->context, sym);
}

void sc_put(sc_layout *layout, const char *text)
{
    sc_layout_add(layout, 0, text);
}

void sc_put_word(sc_layout *layout, const char *text)
{
    sc_layout_add(layout, 0, text);
    sc_layout_space(layout);
}

void sc_put_spaced(sc_layout *layout, const char *text)
{
    sc_layout_space(layout);
    sc_put(layout, text);
}

void sc_put_between(sc_layout *layout, const char *text)
{
    sc_put_spaced(layout, text);
    sc_layout_space(layout);
}

void sc_put_clause(sc_layout *layout, const char *text)
{
    sc_layout_break(layout);
    sc_put_word(layout, text);
}

void sc_put_name(sc_layout *layout, sc_name name)
{
    sc_layout_add(layout, name.loc.begin, sc_layout_text_of(layout, name.text));
}

void sc_put_integer(sc_layout *layout, int64_t value)
{
    sc_put(layout, sc_arena_printf(&layout->context->arena, "%lld", (long long)value));
}

void sc_put_comma(sc_layout *layout, uint32_t index)
{
    if (index == 0)
        return;
    sc_put(layout, ",");
    sc_layout_break(layout);
}

void sc_put_names(sc_layout *layout, const sc_name_list *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        sc_put_comma(layout, i);
        sc_put_name(layout, names->data[i]);
    }
}

void sc_put_open_dims(sc_layout *layout)
{
    sc_put(layout, "[");
    layout->depth += 4;
}

void sc_put_close_dims(sc_layout *layout)
{
    layout->depth -= 4;
    sc_put(layout, "]");
}

bool sc_layout_fits(const sc_layout *layout)
{
    uint64_t width = layout->indent;
    for (uint32_t i = 0; i < layout->pieces.count; i++)
        width += (i > 0 && layout->pieces.data[i].space) + layout->pieces.data[i].width;
    return width <= SC_LINE_WIDTH;
}

bool sc_layout_has_comment(const sc_layout *layout, uint32_t before)
{
    for (uint32_t i = 0; i < layout->pieces.count; i++) {
        if (layout->pieces.data[i].comments > 0)
            return true;
    }
    return layout->next_comment < layout->file->comments.count &&
           layout->file->comments.data[layout->next_comment].loc.begin < before;
}

/* ---- lines ---- */

static void start_line(sc_layout *layout, uint32_t indent)
{
    *sc_vec_push(&layout->context->arena, &layout->lines) =
        (sc_out_line){.begin = layout->code.length, .width = indent, .indent = indent};
    for (uint32_t i = 0; i < indent; i++)
        sc_strbuf_add_char(&layout->code, ' ');
    layout->opened = false;
}

static void end_line(sc_layout *layout)
{
    sc_out_line *line = &layout->lines.data[layout->lines.count - 1];
    line->length = layout->code.length - line->begin;
}

static void put_piece(sc_layout *layout, const sc_piece *piece)
{
    sc_strbuf_add_bytes(&layout->code, layout->text.data + piece->begin, piece->length);
    layout->lines.data[layout->lines.count - 1].width += piece->width;
}

static const char *source_at(const sc_layout *layout, uint32_t place)
{
    return layout->file->source->text + (place - layout->file->source->base);
}

static void put_own_line_comment(sc_layout *layout, const sc_comment *comment, uint32_t indent)
{
    start_line(layout, indent);
    sc_strbuf_add_bytes(&layout->code, source_at(layout, comment->loc.begin),
                        comment->loc.end - comment->loc.begin);
    end_line(layout);
    layout->finished = comment->loc.end;
}

/* Puts the comments between two pieces. The first trails the line just ended if it did so in the
 * source. */
static void put_inner_comments(sc_layout *layout, uint32_t first, uint32_t count, uint32_t indent)
{
    for (uint32_t i = first; i < first + count; i++) {
        const sc_comment *comment = &layout->file->comments.data[i];
        if (i == first && !comment->own_line)
            layout->lines.data[layout->lines.count - 1].trailing = comment;
        else
            put_own_line_comment(layout, comment, indent);
    }
}

/* Returns one past the last piece of the line that starts at `first`: all that fit, or up to the
 * shallowest break among them. */
static uint32_t last_of_line(const sc_layout *layout, uint32_t first, uint32_t indent)
{
    const sc_piece *pieces = layout->pieces.data;
    uint64_t width = indent + pieces[first].width;
    uint32_t best = first + 1;
    for (uint32_t i = first + 1; i < layout->pieces.count; i++) {
        if (pieces[i].comments > 0)
            return i;
        if (pieces[i].depth <= pieces[best].depth)
            best = i;
        width += pieces[i].space + pieces[i].width;
        if (width > SC_LINE_WIDTH)
            return best;
    }
    return layout->pieces.count;
}

static uint32_t count_inner_comments(const sc_layout *layout)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < layout->pieces.count; i++)
        count += layout->pieces.data[i].comments;
    return count;
}

static void put_statement(sc_layout *layout)
{
    uint32_t indent = layout->indent, comment = layout->next_comment - count_inner_comments(layout);
    for (uint32_t first = 0, next; first < layout->pieces.count; first = next) {
        put_inner_comments(layout, comment, layout->pieces.data[first].comments, indent);
        comment += layout->pieces.data[first].comments;
        next = last_of_line(layout, first, indent);
        start_line(layout, indent);
        for (uint32_t i = first; i < next; i++) {
            if (i > first && layout->pieces.data[i].space) {
                sc_strbuf_add_char(&layout->code, ' ');
                layout->lines.data[layout->lines.count - 1].width++;
            }
            put_piece(layout, &layout->pieces.data[i]);
        }
        end_line(layout);
        indent = layout->indent + SC_CONTINUATION_INDENT;
    }
    layout->pieces.count = 0;
    layout->text.length = 0;
    layout->wants_space = layout->may_break = false;
}

static bool only_blanks(const sc_layout *layout, uint32_t from, uint32_t to)
{
    const char *text = source_at(layout, from);
    for (uint32_t i = 0; from + i < to; i++) {
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    }
    return true;
}

static void attach_comment(sc_layout *layout)
{
    const sc_comment *comment = &layout->file->comments.data[layout->next_comment++];
    layout->lines.data[layout->lines.count - 1].trailing = comment;
    if (layout->finished < comment->loc.end)
        layout->finished = comment->loc.end;
}

void sc_layout_end_statement(sc_layout *layout, uint32_t end)
{
    put_statement(layout);
    layout->finished = end;
    if (layout->next_comment == layout->file->comments.count)
        return;
    const sc_comment *next = &layout->file->comments.data[layout->next_comment];
    if (!next->own_line && (next->loc.begin < end || only_blanks(layout, end, next->loc.begin)))
        attach_comment(layout);
}

void sc_layout_end_head(sc_layout *layout, uint32_t inside)
{
    put_statement(layout);
    layout->opened = true;
    if (layout->next_comment == layout->file->comments.count)
        return;
    const sc_comment *next = &layout->file->comments.data[layout->next_comment];
    if (!next->own_line && next->loc.begin < inside)
        attach_comment(layout);
}

static void keep_empty_line(sc_layout *layout, uint32_t place)
{
    if (layout->opened || place < layout->finished)
        return;
    const char *text = source_at(layout, layout->finished);
    uint32_t newlines = 0;
    for (uint32_t i = 0; layout->finished + i < place && newlines < 2; i++)
        newlines += text[i] == '\n';
    if (newlines < 2)
        return;
    start_line(layout, 0);
    end_line(layout);
}

static void put_comments(sc_layout *layout, uint32_t place)
{
    while (layout->next_comment < layout->file->comments.count &&
           layout->file->comments.data[layout->next_comment].loc.begin < place) {
        const sc_comment *comment = &layout->file->comments.data[layout->next_comment++];
        keep_empty_line(layout, comment->loc.begin);
        put_own_line_comment(layout, comment, layout->indent);
    }
}

void sc_layout_begin(sc_layout *layout, uint32_t place)
{
    put_comments(layout, place);
    keep_empty_line(layout, place);
}

void sc_layout_close(sc_layout *layout, uint32_t place)
{
    put_comments(layout, place);
    layout->opened = false;
}

/* ---- the text ---- */

/* Comments of wider lines are not aligned, so that one long line does not push all others to the
 * right. */
enum { ALIGNED_WIDTH = 80, COMMENT_GAP = 2 };

static bool is_aligned(const sc_out_line *line)
{
    return line->trailing != NULL && line->width <= ALIGNED_WIDTH;
}

/* Returns one past the last line of the paragraph that starts at `first`; a paragraph ends at an
 * empty line or another indentation. Sets the column of its trailing comments. */
static uint32_t end_of_paragraph(const sc_layout *layout, uint32_t first, uint32_t *column)
{
    const sc_out_line *lines = layout->lines.data;
    uint32_t widest = 0, i = first;
    for (; i < layout->lines.count && lines[i].indent == lines[first].indent &&
           (lines[i].length > 0 || i == first);
         i++) {
        if (is_aligned(&lines[i]) && lines[i].width > widest)
            widest = lines[i].width;
    }
    *column = widest + COMMENT_GAP;
    return i;
}

static void write_line(const sc_layout *layout, const sc_out_line *line, uint32_t column,
                       sc_strbuf *out)
{
    sc_strbuf_add_bytes(out, layout->code.data + line->begin, line->length);
    if (line->trailing != NULL) {
        uint32_t gap = is_aligned(line) ? column - line->width : COMMENT_GAP;
        for (uint32_t i = 0; i < gap; i++)
            sc_strbuf_add_char(out, ' ');
        sc_strbuf_add_bytes(out, source_at(layout, line->trailing->loc.begin),
                            line->trailing->loc.end - line->trailing->loc.begin);
    }
    sc_strbuf_add_char(out, '\n');
}

void sc_layout_write(const sc_layout *layout, sc_strbuf *out)
{
    uint32_t column = 0, end = 0;
    for (uint32_t i = 0; i < layout->lines.count; i++) {
        if (i == end)
            end = end_of_paragraph(layout, i, &column);
        write_line(layout, &layout->lines.data[i], column, out);
    }
}
