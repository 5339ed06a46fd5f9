/* Draws training logs as SVG: panels below each other over one axis of steps. The picture follows
 * the reader's choice of light or dark, and its text is text. */
#ifndef SHARDC_TOOLS_PLOT_CHART_H
#define SHARDC_TOOLS_PLOT_CHART_H

#include "support/strbuf.h"
#include "tools/plot/log_series.h"
#include "tools/plot/scale.h"

typedef SC_VEC(sc_log_run) sc_log_runs;

/* A panel shows up to two series; the second is drawn with marks. */
typedef struct sc_chart_panel {
    const char *title;
    sc_log_series series[2];
    uint32_t series_count;
    double height; /* of its plot */
    bool from_zero;
    bool shows_skipped; /* marks of steps that were not applied */
    sc_scale axis;
    double top; /* of its plot */
} sc_chart_panel;

enum { SC_CHART_PANELS = 3 };

/* What is drawn where, in pixels. */
typedef struct sc_chart {
    const sc_log_runs *runs;
    const char **names; /* by run, for the legend */
    sc_scale steps;
    sc_chart_panel panels[SC_CHART_PANELS]; /* those that have something to show */
    uint32_t panel_count;
    double width, height, left, right; /* left, right: of the plots */
    bool has_held_out, has_skipped;
    sc_strbuf *out;
} sc_chart;

/* Lays the chart out. Every run has a point. Results are in the arena. */
void sc_chart_lay_out(sc_arena *arena, const sc_log_runs *runs, sc_chart *out);
/* Appends the SVG to `out`. */
void sc_chart_draw(sc_chart *chart, sc_strbuf *out);

/* ---- chart_lines.c ---- */
/* Draws the lines of all runs in a panel. */
void sc_chart_draw_lines(sc_chart *chart, const sc_chart_panel *panel);
/* Returns the class of a run's color, and its dashes ("": none), in a cycle. */
uint32_t sc_chart_color(uint32_t run);
const char *sc_chart_dashes(uint32_t run);

/* ---- chart_legend.c ---- */
/* Draws the legend from `top` on, or only measures it (`draws` false). Returns its height. */
double sc_chart_legend(sc_chart *chart, double top, bool draws);
/* Appends text for XML: no byte of it is markup, or no character. */
void sc_chart_add_text(sc_strbuf *out, const char *text);

#endif
