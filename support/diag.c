#include "support/diag.h"

#include <stdlib.h>
#include <string.h>

const sc_diag_row sc_diag_rows[SC_D_COUNT] = {
#define DIAG(id, severity, exit, message, note) {#id, severity, exit, message, note},
#include "support/diag.def"
#undef DIAG
};

void sc_diag_init(sc_diag *diag, sc_arena *arena)
{
    memset(diag, 0, sizeof *diag);
    diag->arena = arena;
}

enum { MAX_ARGS = 8 };

/* Replaces {0}..{7}; other braces are literal. */
static const char *fill_in(sc_arena *arena, const char *format, const char *const *args, int count)
{
    sc_strbuf out;
    sc_strbuf_init(&out, arena);
    for (const char *p = format; *p != 0; p++) {
        if (p[0] == '{' && p[1] >= '0' && p[1] < '0' + MAX_ARGS && p[2] == '}') {
            int index = p[1] - '0';
            sc_strbuf_add(&out, index < count ? args[index] : "?");
            p += 2;
        } else {
            sc_strbuf_add_char(&out, *p);
        }
    }
    return out.data;
}

static bool is_repetition(const sc_diag *diag, sc_diag_id id, sc_loc loc, const char *text)
{
    for (uint32_t i = 0; i < diag->list.count; i++) {
        const sc_diagnostic *d = &diag->list.data[i];
        if (d->id == id && d->loc.begin == loc.begin && strcmp(d->text, text) == 0)
            return true;
    }
    return false;
}

void sc_report(sc_diag *diag, sc_diag_id id, sc_loc loc, ...)
{
    const char *args[MAX_ARGS];
    int count = 0;
    va_list list;
    va_start(list, loc);
    for (const char *arg; count < MAX_ARGS && (arg = va_arg(list, const char *)) != NULL;)
        args[count++] = arg;
    va_end(list);
    const sc_diag_row *row = &sc_diag_rows[id];
    diag->dropped = true;
    if (diag->list.count >= SC_DIAG_LIMIT) {
        diag->errors += row->severity == SC_ERROR;
        diag->suppressed++;
        return;
    }
    const char *text = fill_in(diag->arena, row->message, args, count);
    diag->errors += row->severity == SC_ERROR;
    if (is_repetition(diag, id, loc, text))
        return;
    diag->dropped = false;
    sc_diagnostic *d = sc_vec_push(diag->arena, &diag->list);
    *d = (sc_diagnostic){.id = id, .loc = loc, .text = text};
    if (row->note != NULL)
        *sc_vec_push(diag->arena, &d->notes) =
            (sc_diag_note){.text = fill_in(diag->arena, row->note, args, count)};
}

void sc_report_note(sc_diag *diag, sc_loc loc, const char *format, ...)
{
    if (diag->list.count == 0 || diag->dropped)
        return;
    va_list args;
    va_start(args, format);
    const char *text = sc_arena_vprintf(diag->arena, format, args);
    va_end(args);
    sc_diagnostic *d = &diag->list.data[diag->list.count - 1];
    for (uint32_t i = 0; i < d->notes.count; i++) {
        if (d->notes.data[i].loc.begin == loc.begin && strcmp(d->notes.data[i].text, text) == 0)
            return;
    }
    *sc_vec_push(diag->arena, &d->notes) = (sc_diag_note){.loc = loc, .text = text};
}

void sc_diag_append(sc_diag *diag, const sc_diag *from)
{
    diag->suppressed += from->suppressed;
    diag->errors += from->errors;
    for (uint32_t i = 0; i < from->list.count; i++) {
        const sc_diagnostic *given = &from->list.data[i];
        sc_diagnostic *d = sc_vec_push(diag->arena, &diag->list);
        *d = (sc_diagnostic){.id = given->id,
                             .loc = given->loc,
                             .text = sc_arena_printf(diag->arena, "%s", given->text)};
        for (uint32_t n = 0; n < given->notes.count; n++) {
            const sc_diag_note *note = &given->notes.data[n];
            *sc_vec_push(diag->arena, &d->notes) =
                (sc_diag_note){note->loc, sc_arena_printf(diag->arena, "%s", note->text)};
        }
    }
}

int sc_diag_exit_code(const sc_diag *diag)
{
    static const int by_priority[] = {1, 2, 4, 7, 5, 6, 3};
    for (size_t p = 0; p < sizeof by_priority / sizeof *by_priority; p++) {
        for (uint32_t i = 0; i < diag->list.count; i++) {
            if (sc_diag_rows[diag->list.data[i].id].exit_code == by_priority[p])
                return by_priority[p];
        }
    }
    return 0;
}

static const char *const severity_names[] = {"error", "warning", "note"};

static void render_place(sc_strbuf *out, const sc_line *line)
{
    if (line->source != NULL)
        sc_strbuf_printf(out, "%s:%u:%u: ", line->source->name, line->line, line->column);
}

enum { SHOWN_LINE = 160 };

/* Renders the source line and a caret; a very long line is cut around the location. If the line is
 * not text, only its ASCII is shown. */
static void render_caret(sc_strbuf *out, const sc_line *line, sc_loc loc, bool text)
{
    if (line->source == NULL)
        return;
    uint32_t column = line->column - 1,
             from = column > SHOWN_LINE / 2 && line->text_length > SHOWN_LINE
                        ? column - SHOWN_LINE / 2
                        : 0;
    uint32_t to = line->text_length - from > SHOWN_LINE ? from + SHOWN_LINE : line->text_length;
    sc_strbuf_add(out, "  ");
    for (uint32_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)line->text[i];
        bool is_control = c < 0x20 || c == 0x7f, is_byte = c >= 0x80 && !text;
        sc_strbuf_add_char(out, (char)(is_control ? ' ' : is_byte ? '?' : c));
    }
    sc_strbuf_add(out, "\n  ");
    for (uint32_t i = from; i < column; i++) {
        /* one blank per character, not per byte */
        if (!text || ((unsigned char)line->text[i] & 0xc0) != 0x80)
            sc_strbuf_add_char(out, ' ');
    }
    sc_strbuf_add_char(out, '^');
    for (uint32_t i = loc.begin + 1; i < loc.end && column + (i - loc.begin) < to; i++)
        sc_strbuf_add_char(out, '~');
    sc_strbuf_add_char(out, '\n');
}

void sc_diag_render_text(const sc_diag *diag, sc_sources *sources, sc_strbuf *out)
{
    for (uint32_t i = 0; i < diag->list.count; i++) {
        const sc_diagnostic *d = &diag->list.data[i];
        const sc_diag_row *row = &sc_diag_rows[d->id];
        sc_line line = sc_sources_line(sources, d->loc.begin);
        render_place(out, &line);
        sc_strbuf_printf(out, "%s: %s [%s]\n", severity_names[row->severity], d->text, row->name);
        /* a note is a single line: there is nothing to fix at its location */
        if (row->severity != SC_NOTE)
            render_caret(out, &line, d->loc, d->id != SC_D_bad_utf8);
        for (uint32_t n = 0; n < d->notes.count; n++) {
            sc_line place = sc_sources_line(sources, d->notes.data[n].loc.begin);
            sc_strbuf_add(out, "  ");
            render_place(out, &place);
            sc_strbuf_printf(out, "note: %s\n", d->notes.data[n].text);
        }
    }
    if (diag->suppressed > 0)
        sc_strbuf_printf(out, "%u more messages are not shown\n", diag->suppressed);
}

static void render_json_place(sc_strbuf *out, sc_sources *sources, sc_loc loc)
{
    sc_line line = sc_sources_line(sources, loc.begin),
            end = sc_sources_line(sources, loc.end > loc.begin ? loc.end : loc.begin);
    if (line.source == NULL)
        return;
    sc_strbuf_add(out, ",\"file\":");
    sc_strbuf_add_quoted(out, line.source->name);
    sc_strbuf_printf(out, ",\"line\":%u,\"column\":%u,\"end_line\":%u,\"end_column\":%u", line.line,
                     line.column, end.line, end.column);
}

/* JSON has no \x escapes, so control characters are escaped separately. */
static void add_json_text(sc_strbuf *out, const char *text)
{
    sc_strbuf_add_char(out, '"');
    for (const char *p = text; *p != 0; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            sc_strbuf_printf(out, "\\%c", c);
        else if (c < 0x20)
            sc_strbuf_printf(out, "\\u%04x", c);
        else
            sc_strbuf_add_char(out, (char)c);
    }
    sc_strbuf_add_char(out, '"');
}

void sc_diag_render_json(const sc_diag *diag, sc_sources *sources, sc_strbuf *out)
{
    sc_strbuf_add(out, "{\"version\":1,\"diagnostics\":[");
    for (uint32_t i = 0; i < diag->list.count; i++) {
        const sc_diagnostic *d = &diag->list.data[i];
        const sc_diag_row *row = &sc_diag_rows[d->id];
        sc_strbuf_printf(out,
                         "%s\n{\"id\":\"%s\",\"severity\":\"%s\",\"message\":", i > 0 ? "," : "",
                         row->name, severity_names[row->severity]);
        add_json_text(out, d->text);
        render_json_place(out, sources, d->loc);
        sc_strbuf_add(out, ",\"notes\":[");
        for (uint32_t n = 0; n < d->notes.count; n++) {
            sc_strbuf_add(out, n > 0 ? ",{\"message\":" : "{\"message\":");
            add_json_text(out, d->notes.data[n].text);
            render_json_place(out, sources, d->notes.data[n].loc);
            sc_strbuf_add_char(out, '}');
        }
        sc_strbuf_add(out, "]}");
    }
    sc_strbuf_add(out, "\n]}\n");
}
