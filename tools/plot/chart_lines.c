/* The lines of a panel. A run has more steps than there are pixels: then a line is drawn through
 * the means of the steps of each pixel, in a band from the least to the most of them. */
#include <math.h>

#include "tools/plot/chart.h"

enum { COLORS = 8, MARKS = 80 };

uint32_t sc_chart_color(uint32_t run)
{
    return run % COLORS;
}

const char *sc_chart_dashes(uint32_t run)
{
    static const char *const dashes[] = {"none", "9 3", "5 3"};
    return dashes[run / COLORS % (sizeof dashes / sizeof *dashes)];
}

/* The points of one pixel, or one point. */
typedef struct column {
    double x, sum, least, most;
    uint32_t count;
} column;

typedef struct drawing {
    sc_chart *chart;
    const sc_chart_panel *panel;
    const sc_log_points *points;
    uint32_t run;
    double width; /* of a column; 0: each point is one */
    bool is_held_out;
} drawing;

static double x_of(const drawing *d, double step)
{
    const sc_chart *c = d->chart;
    return c->left + sc_scale_at(&c->steps, step) * (c->right - c->left);
}

static double y_of(const drawing *d, double value)
{
    double at = sc_scale_at(&d->panel->axis, value);
    at = at < 0 ? 0 : at > 1 ? 1 : at;
    return d->panel->top + (1 - at) * d->panel->height;
}

/* Reads the column at *next and moves it on; count 0: values that are not finite are there, which
 * interrupt the line, or the end. */
static column read_column(const drawing *d, uint32_t *next)
{
    column c = {0};
    double end = 0;
    while (*next < d->points->count) {
        const sc_log_point *point = &d->points->data[*next];
        double x = x_of(d, point->step);
        if (c.count > 0 && (x >= end || !isfinite(point->value)))
            break;
        ++*next;
        if (!isfinite(point->value))
            break;
        if (c.count == 0)
            end = d->width > 0 ? (floor(x / d->width) + 1) * d->width : x;
        c.x += x;
        c.sum += point->value;
        c.least = c.count == 0 || point->value < c.least ? point->value : c.least;
        c.most = c.count == 0 || point->value > c.most ? point->value : c.most;
        c.count++;
    }
    c.x = c.count > 0 ? c.x / c.count : 0;
    return c;
}

/* ---- bands ---- */

typedef SC_VEC(column) columns;

/* Along the most values, and back along the least. */
static void draw_outline(const drawing *d, const columns *of)
{
    sc_strbuf *out = d->chart->out;
    for (uint32_t i = 0; i < of->count; i++)
        sc_strbuf_printf(out, "%c%.1f %.2f", i == 0 ? 'M' : 'L', of->data[i].x,
                         y_of(d, of->data[i].most));
    for (uint32_t i = of->count; i-- > 0;)
        sc_strbuf_printf(out, "L%.1f %.2f", of->data[i].x, y_of(d, of->data[i].least));
    if (of->count > 0)
        sc_strbuf_add_char(out, 'Z');
}

static void draw_band(const drawing *d)
{
    sc_strbuf *out = d->chart->out;
    columns band = {0};
    sc_strbuf_printf(out, "<path class=\"c%u band\" d=\"", sc_chart_color(d->run));
    for (uint32_t next = 0; next < d->points->count;) {
        column c = read_column(d, &next);
        if (c.count > 0) {
            *sc_vec_push(out->arena, &band) = c;
            continue;
        }
        draw_outline(d, &band);
        band.count = 0;
    }
    draw_outline(d, &band);
    sc_strbuf_add(out, "\"/>\n");
}

/* ---- lines ---- */

static void draw_line(const drawing *d)
{
    sc_strbuf *out = d->chart->out;
    bool is_open = false;
    sc_strbuf_printf(out, "<path class=\"c%u line%s\"", sc_chart_color(d->run),
                     d->is_held_out ? " held" : "");
    if (!d->is_held_out)
        sc_strbuf_printf(out, " stroke-dasharray=\"%s\"", sc_chart_dashes(d->run));
    sc_strbuf_add(out, " d=\"");
    for (uint32_t next = 0; next < d->points->count;) {
        column c = read_column(d, &next);
        if (c.count > 0)
            sc_strbuf_printf(out, "%c%.1f %.2f", is_open ? 'L' : 'M', c.x,
                             y_of(d, c.sum / c.count));
        is_open = c.count > 0;
    }
    sc_strbuf_add(out, "\"/>\n");
}

static void draw_dot(const drawing *d, double x, double value)
{
    sc_strbuf_printf(d->chart->out, "<circle class=\"c%u\" cx=\"%.1f\" cy=\"%.2f\" r=\"2.5\"/>\n",
                     sc_chart_color(d->run), x, y_of(d, value));
}

/* A point between steps that are not finite has no line. */
static void draw_lone_points(const drawing *d)
{
    column last = {0};
    uint32_t length = 0;
    for (uint32_t next = 0; next < d->points->count;) {
        column c = read_column(d, &next);
        bool ends = c.count == 0 || next == d->points->count;
        length += c.count > 0;
        last = c.count > 0 ? c : last;
        if (ends && length == 1)
            draw_dot(d, last.x, last.sum / last.count);
        length = ends ? 0 : length;
    }
}

static void draw_marks(const drawing *d)
{
    uint32_t every = d->points->count / MARKS + 1;
    for (uint32_t i = 0; i < d->points->count; i += every) {
        const sc_log_point *point = &d->points->data[i];
        if (isfinite(point->value))
            draw_dot(d, x_of(d, point->step), point->value);
    }
}

/* Those of one pixel are one mark. */
static void draw_skipped(const drawing *d)
{
    const sc_log_points *skipped = &d->chart->runs->data[d->run].skipped;
    double last = -1;
    if (skipped->count == 0)
        return;
    sc_strbuf_add(d->chart->out, "<path class=\"skip\" d=\"");
    for (uint32_t i = 0; i < skipped->count; i++) {
        double x = x_of(d, skipped->data[i].step);
        if (x < last + 1)
            continue;
        last = x;
        sc_strbuf_printf(d->chart->out, "M%.1f %.1fl6 6m-6 0l6 -6", x - 3, d->panel->top + 4);
    }
    sc_strbuf_add(d->chart->out, "\"/>\n");
}

void sc_chart_draw_lines(sc_chart *chart, const sc_chart_panel *panel)
{
    static const double COLUMN = 1;
    for (uint32_t run = 0; run < chart->runs->count; run++) {
        drawing d = {.chart = chart, .panel = panel, .run = run};
        for (uint32_t s = 0; s < panel->series_count; s++) {
            d.points = &chart->runs->data[run].series[panel->series[s]];
            d.is_held_out = panel->series[s] == SC_LOG_HELD_OUT;
            d.width = d.points->count > 2 * (chart->right - chart->left) / COLUMN ? COLUMN : 0;
            if (d.points->count == 0)
                continue;
            if (d.width > 0)
                draw_band(&d);
            draw_line(&d);
            if (d.is_held_out)
                draw_marks(&d);
            else
                draw_lone_points(&d);
        }
        if (panel->shows_skipped)
            draw_skipped(&d);
    }
}
