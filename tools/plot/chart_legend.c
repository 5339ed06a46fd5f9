/* The legend of a chart, in as many rows as its names take. */
#include <string.h>

#include "tools/plot/chart.h"

static const double ROW = 20, SWATCH = 26, SPACE = 22, CHARACTER = 7.2;
enum { LONGEST = 72 }; /* characters of a name; of a longer one its end is shown */

/* ---- text ---- */

/* Returns the bytes of the character at `text`; 0: it is none of UTF-8. */
static size_t character_bytes(const char *text)
{
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80                    ? 1
                    : first >= 0xc2 && first < 0xe0 ? 2
                    : first >= 0xe0 && first < 0xf0 ? 3
                    : first >= 0xf0 && first < 0xf5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80)
            return 0;
    }
    bool is_overlong = (first == 0xe0 && (unsigned char)text[1] < 0xa0) ||
                       (first == 0xf0 && (unsigned char)text[1] < 0x90);
    /* surrogates, and what is above U+10FFFF or no character of XML */
    bool is_outside =
        (first == 0xed && (unsigned char)text[1] >= 0xa0) ||
        (first == 0xf4 && (unsigned char)text[1] >= 0x90) ||
        (first == 0xef && (unsigned char)text[1] == 0xbf && (unsigned char)text[2] >= 0xbe);
    return is_overlong || is_outside ? 0 : length;
}

void sc_chart_add_text(sc_strbuf *out, const char *text)
{
    while (*text != 0) {
        size_t length = character_bytes(text);
        if (length == 0 || (unsigned char)*text < 0x20)
            sc_strbuf_add(out, "\xef\xbf\xbd");
        else if (strchr("&<>\"", *text) != NULL)
            sc_strbuf_printf(out, "&#%d;", *text);
        else
            sc_strbuf_add_bytes(out, text, length);
        text += length == 0 ? 1 : length;
    }
}

/* Characters of other scripts may be twice as wide as Latin ones. */
static double width_of(const char *text)
{
    double width = 0;
    while (*text != 0) {
        size_t length = character_bytes(text);
        width += length > 2 ? 2 * CHARACTER : CHARACTER;
        text += length == 0 ? 1 : length;
    }
    return width;
}

/* Returns the end of a text that is at most LONGEST characters wide. */
static const char *end_of(const char *text)
{
    while (width_of(text) > LONGEST * CHARACTER) {
        size_t length = character_bytes(text);
        text += length == 0 ? 1 : length;
    }
    return text;
}

/* ---- entries ---- */

typedef struct cursor {
    sc_chart *chart;
    double x, y;
    bool draws;
} cursor;

/* Moves to where an entry of this width is, in this row or the next; returns its x. */
static double place(cursor *at, double width)
{
    if (at->x > at->chart->left && at->x + width > at->chart->right) {
        at->x = at->chart->left;
        at->y += ROW;
    }
    double x = at->x;
    at->x += width + SPACE;
    return x;
}

static void add_label(cursor *at, double x, const char *before, const char *text)
{
    sc_strbuf_printf(at->chart->out, "<text class=\"ink\" x=\"%.1f\" y=\"%.1f\">%s", x + SWATCH + 6,
                     at->y + 4, before);
    sc_chart_add_text(at->chart->out, text);
    sc_strbuf_add(at->chart->out, "</text>\n");
}

static void add_run(cursor *at, uint32_t run)
{
    const char *name = at->chart->names[run], *end = end_of(name);
    double x = place(at, SWATCH + 6 + width_of(end) + (end == name ? 0 : CHARACTER));
    if (!at->draws)
        return;
    sc_strbuf_printf(at->chart->out,
                     "<path class=\"c%u line\" stroke-dasharray=\"%s\" d=\"M%.1f %.1fh%.1f\"/>\n",
                     sc_chart_color(run), sc_chart_dashes(run), x, at->y, SWATCH);
    add_label(at, x, end == name ? "" : "\xe2\x80\xa6", end);
}

static void add_held_out(cursor *at)
{
    static const char text[] = "held-out loss";
    double x = place(at, SWATCH + 6 + width_of(text));
    if (!at->draws)
        return;
    sc_strbuf_printf(at->chart->out,
                     "<path class=\"c7 line held\" d=\"M%.1f %.1fh%.1f\"/>"
                     "<circle class=\"c7\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>\n",
                     x, at->y, SWATCH, x + SWATCH / 2, at->y);
    add_label(at, x, "", text);
}

static void add_skipped(cursor *at)
{
    static const char text[] = "step not applied";
    double x = place(at, SWATCH + 6 + width_of(text)), middle = x + SWATCH / 2;
    if (!at->draws)
        return;
    sc_strbuf_printf(at->chart->out, "<path class=\"skip\" d=\"M%.1f %.1fl6 6m-6 0l6 -6\"/>\n",
                     middle - 3, at->y - 3);
    add_label(at, x, "", text);
}

double sc_chart_legend(sc_chart *chart, double top, bool draws)
{
    cursor at = {chart, chart->left, top, draws};
    for (uint32_t run = 0; run < chart->runs->count; run++)
        add_run(&at, run);
    if (chart->has_held_out)
        add_held_out(&at);
    if (chart->has_skipped)
        add_skipped(&at);
    return at.y + ROW - top;
}
