/* Lays out and draws the chart of training logs. */
#include "tools/plot/chart.h"

#include <math.h>
#include <string.h>

static const double WIDTH = 960, MARGIN = 20, CHARACTER = 7, TITLE = 24, GAP = 22, TICK = 20,
                    X_TICK_SPACE = 90, Y_TICK_SPACE = 40, LOG_FROM = 30, NEAR_ZERO = 0.05;

static const sc_chart_panel all_panels[SC_CHART_PANELS] = {
    {.title = "loss",
     .series = {SC_LOG_LOSS, SC_LOG_HELD_OUT},
     .series_count = 2,
     .height = 320,
     .shows_skipped = true},
    {.title = "gradient norm", .series = {SC_LOG_NORM}, .series_count = 1, .height = 130},
    {.title = "tokens/s",
     .series = {SC_LOG_SPEED},
     .series_count = 1,
     .height = 130,
     .from_zero = true}};

/* ---- ranges ---- */

typedef struct range {
    double least, most;
    bool is_known;
} range;

static void widen(range *r, double value)
{
    if (!isfinite(value))
        return;
    r->least = r->is_known && r->least < value ? r->least : value;
    r->most = r->is_known && r->most > value ? r->most : value;
    r->is_known = true;
}

static range values_of(const sc_log_runs *runs, const sc_chart_panel *panel)
{
    range r = {0};
    for (uint32_t i = 0; i < runs->count; i++) {
        for (uint32_t s = 0; s < panel->series_count; s++) {
            const sc_log_points *points = &runs->data[i].series[panel->series[s]];
            for (uint32_t p = 0; p < points->count; p++)
                widen(&r, points->data[p].value);
        }
    }
    return r;
}

static range steps_of(const sc_log_runs *runs)
{
    range r = {0};
    for (uint32_t i = 0; i < runs->count; i++) {
        for (uint32_t s = 0; s < SC_LOG_SERIES; s++) {
            const sc_log_points *points = &runs->data[i].series[s];
            if (points->count > 0) {
                widen(&r, points->data[0].step);
                widen(&r, points->data[points->count - 1].step);
            }
        }
    }
    return r;
}

/* A range of several decades is logarithmic. */
static sc_scale axis_of(const sc_chart_panel *panel, range r)
{
    uint32_t wanted = (uint32_t)(panel->height / Y_TICK_SPACE) + 1;
    if (panel->from_zero && r.least > 0)
        r.least = 0;
    if (r.least > 0 && r.most / r.least >= LOG_FROM)
        return sc_scale_log(r.least, r.most, wanted);
    return sc_scale_linear(r.least, r.most, wanted, false, true);
}

/* ---- names ---- */

static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* The names of the files, or their paths where two have one name. */
static void name_runs(sc_arena *arena, const sc_log_runs *runs, sc_chart *out)
{
    bool same = false;
    out->names = sc_arena_array(arena, runs->count, sizeof *out->names);
    for (uint32_t i = 0; i < runs->count; i++) {
        out->names[i] = last_part(runs->data[i].path);
        for (uint32_t j = 0; j < i; j++)
            same = same || strcmp(out->names[i], out->names[j]) == 0;
    }
    for (uint32_t i = 0; i < runs->count; i++)
        out->names[i] = same ? runs->data[i].path : out->names[i];
}

/* ---- layout ---- */

void sc_chart_lay_out(sc_arena *arena, const sc_log_runs *runs, sc_chart *out)
{
    *out = (sc_chart){.runs = runs, .width = WIDTH, .right = WIDTH - MARGIN};
    size_t widest = 0;
    name_runs(arena, runs, out);
    for (uint32_t i = 0; i < runs->count; i++) {
        out->has_held_out = out->has_held_out || runs->data[i].series[SC_LOG_HELD_OUT].count > 0;
        out->has_skipped = out->has_skipped || runs->data[i].skipped.count > 0;
    }
    for (uint32_t p = 0; p < SC_CHART_PANELS; p++) {
        range r = values_of(runs, &all_panels[p]);
        if (!r.is_known)
            continue;
        sc_chart_panel *panel = &out->panels[out->panel_count++];
        *panel = all_panels[p];
        panel->axis = axis_of(panel, r);
        size_t length = sc_scale_widest(&panel->axis);
        widest = length > widest ? length : widest;
    }
    out->left = MARGIN + (double)widest * CHARACTER + 8;
    range steps = steps_of(runs);
    if (steps.least < steps.most * NEAR_ZERO)
        steps.least = 0;
    uint32_t wanted = (uint32_t)((out->right - out->left) / X_TICK_SPACE);
    out->steps = sc_scale_linear(steps.least, steps.most, wanted, true, false);
    double at = MARGIN + sc_chart_legend(out, 0, false);
    for (uint32_t p = 0; p < out->panel_count; p++) {
        out->panels[p].top = at + TITLE;
        at = out->panels[p].top + out->panels[p].height + GAP;
    }
    out->height = at - GAP + 2 * TICK + MARGIN;
}

/* ---- drawing ---- */

/* Colors of lines differ in lightness, too, and are of Okabe and Ito's palette, "Color universal
 * design", 2008, made darker or lighter for the ground that they are on. */
static const char style[] =
    "<style>\n"
    "svg{color-scheme:light dark;font:12px system-ui,sans-serif}\n"
    ".ground{fill:#ffffff}.ink{fill:#24292f}.soft{fill:#57606a}\n"
    ".title{font-weight:600;font-size:13px}\n"
    ".grid{stroke:#d8dee4;stroke-width:1}.frame{stroke:#8c959f;stroke-width:1;fill:none}\n"
    ".line{fill:none;stroke-width:1.5;stroke-linejoin:round;stroke-linecap:round}\n"
    ".band{stroke:none;fill-opacity:.18}.held{stroke-dasharray:2 4;stroke-width:1.5}\n"
    ".skip{stroke:#cf222e;stroke-width:1.5;fill:none}\n"
    ".c0{stroke:#0065a8;fill:#0065a8}.c1{stroke:#c04e00;fill:#c04e00}\n"
    ".c2{stroke:#007a5a;fill:#007a5a}.c3{stroke:#a8487a;fill:#a8487a}\n"
    ".c4{stroke:#8a6a00;fill:#8a6a00}.c5{stroke:#2b8fc7;fill:#2b8fc7}\n"
    ".c6{stroke:#5b5bd0;fill:#5b5bd0}.c7{stroke:#444c56;fill:#444c56}\n"
    "@media (prefers-color-scheme:dark){\n"
    ".ground{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9da7b3}\n"
    ".grid{stroke:#262c36}.frame{stroke:#6e7681}.skip{stroke:#ff7b72}\n"
    ".c0{stroke:#58b4f0;fill:#58b4f0}.c1{stroke:#f28a3c;fill:#f28a3c}\n"
    ".c2{stroke:#2dc79a;fill:#2dc79a}.c3{stroke:#e59bc1;fill:#e59bc1}\n"
    ".c4{stroke:#e3c04a;fill:#e3c04a}.c5{stroke:#9ad4f5;fill:#9ad4f5}\n"
    ".c6{stroke:#a5a5ff;fill:#a5a5ff}.c7{stroke:#c9d1d9;fill:#c9d1d9}\n"
    "}\n"
    ".line{fill:none}.band{stroke:none}\n"
    "</style>\n";

static void draw_grid(sc_chart *c, const sc_chart_panel *panel)
{
    double bottom = panel->top + panel->height;
    for (uint32_t i = 0; i < c->steps.tick_count; i++) {
        double x = c->left + sc_scale_at(&c->steps, c->steps.ticks[i]) * (c->right - c->left);
        sc_strbuf_printf(c->out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, panel->top,
                         bottom);
    }
    for (uint32_t i = 0; i < panel->axis.tick_count; i++) {
        double y = bottom - sc_scale_at(&panel->axis, panel->axis.ticks[i]) * panel->height;
        sc_strbuf_printf(c->out, "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>\n", c->left, y,
                         c->right);
        sc_strbuf_printf(c->out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                         c->left - 8, y + 4);
        sc_chart_add_text(c->out, panel->axis.labels[i]);
        sc_strbuf_add(c->out, "</text>\n");
    }
}

static void draw_panel(sc_chart *c, const sc_chart_panel *panel)
{
    sc_strbuf_printf(c->out, "<text class=\"ink title\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", c->left,
                     panel->top - 8, panel->title);
    draw_grid(c, panel);
    sc_chart_draw_lines(c, panel);
    sc_strbuf_printf(c->out, "<path class=\"frame\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", c->left,
                     panel->top, panel->top + panel->height, c->right);
}

static void draw_steps(sc_chart *c)
{
    const sc_chart_panel *last = &c->panels[c->panel_count - 1];
    double y = last->top + last->height + TICK;
    for (uint32_t i = 0; i < c->steps.tick_count; i++) {
        double x = c->left + sc_scale_at(&c->steps, c->steps.ticks[i]) * (c->right - c->left);
        sc_strbuf_printf(
            c->out, "<text class=\"soft\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">", x, y);
        sc_chart_add_text(c->out, c->steps.labels[i]);
        sc_strbuf_add(c->out, "</text>\n");
    }
    sc_strbuf_printf(
        c->out, "<text class=\"ink\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">step</text>\n",
        (c->left + c->right) / 2, y + TICK);
}

void sc_chart_draw(sc_chart *c, sc_strbuf *out)
{
    c->out = out;
    sc_strbuf_printf(out,
                     "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                     "viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>Training of",
                     c->width, c->height, c->width, c->height);
    for (uint32_t i = 0; i < c->runs->count; i++) {
        sc_strbuf_add(out, i > 0 ? ", " : " ");
        sc_chart_add_text(out, c->names[i]);
    }
    sc_strbuf_add(out, "</title>\n");
    sc_strbuf_add(out, style);
    sc_strbuf_add(out, "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n");
    sc_chart_legend(c, MARGIN, true);
    for (uint32_t p = 0; p < c->panel_count; p++)
        draw_panel(c, &c->panels[p]);
    draw_steps(c);
    sc_strbuf_add(out, "</svg>\n");
}
