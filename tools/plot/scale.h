/* An axis of a chart: its range, and ticks at round numbers. */
#ifndef SHARDC_TOOLS_PLOT_SCALE_H
#define SHARDC_TOOLS_PLOT_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SC_SCALE_TICKS = 24, SC_SCALE_LABEL = 24 };

typedef struct sc_scale {
    double least, most; /* of what is shown; least < most */
    bool is_log;        /* then least > 0 */
    uint32_t tick_count;
    double ticks[SC_SCALE_TICKS]; /* ascending, within the range */
    char labels[SC_SCALE_TICKS][SC_SCALE_LABEL];
} sc_scale;

/* Makes an axis for values from `least` to `most` with at most `wanted` ticks (2 to
 * SC_SCALE_TICKS), which are multiples of 1, 2 or 5 times a power of ten; `whole`: of 1 at least.
 * The range is widened to the ticks around the values if `rounded`. */
sc_scale sc_scale_linear(double least, double most, uint32_t wanted, bool whole, bool rounded);
/* The same with a logarithmic scale: ticks at powers of ten, or in a short range also at 2 and 5
 * times these. `least` is above 0. */
sc_scale sc_scale_log(double least, double most, uint32_t wanted);
/* Returns where a value is: 0 at the axis's least, 1 at its most. */
double sc_scale_at(const sc_scale *axis, double value);
/* Returns the characters of the longest label. */
size_t sc_scale_widest(const sc_scale *axis);

#endif
