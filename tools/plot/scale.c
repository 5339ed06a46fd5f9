/* Ranges and ticks of axes. */
#include "tools/plot/scale.h"

#include <math.h>
#include <string.h>

#include "support/number.h"

static const double factors[] = {1, 2, 5};
enum { FACTORS = sizeof factors / sizeof *factors };

/* ---- labels ---- */

/* 1500000 with ticks of 500000 is 1.5M: as many digits as tell the ticks apart. */
static void write_label(double value, double step, char out[SC_SCALE_LABEL])
{
    static const struct {
        double size;
        const char *suffix;
    } units[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}};
    size_t unit = 0;
    double size = fabs(value);
    /* thousands are written out */
    while (unit + 1 < sizeof units / sizeof *units &&
           (size < units[unit].size || (units[unit].size == 1e3 && size < 1e4 && step >= 1)))
        unit++;
    double scaled = value / units[unit].size, scaled_step = step / units[unit].size;
    int digits = (int)ceil(-log10(scaled_step) - 1e-9);
    if (value != 0 && (fabs(value) >= 1e16 || step < 1e-6))
        sc_snprintf(out, SC_SCALE_LABEL, "%.3g", value);
    else
        sc_snprintf(out, SC_SCALE_LABEL, "%.*f%s", digits > 0 ? digits : 0, scaled,
                    units[unit].suffix);
}

/* ---- linear ---- */

/* Returns the least round distance with which at most `wanted` ticks are in the range. */
static double find_step(double range, uint32_t wanted, bool whole)
{
    double power = pow(10, floor(log10(range / wanted)));
    for (int decade = 0; decade < 3; decade++) {
        for (int i = 0; i < FACTORS; i++) {
            double step = factors[i] * power;
            if ((!whole || step >= 1) && floor(range / step + 1e-9) + 1 <= wanted)
                return step;
        }
        power *= 10;
    }
    return power;
}

sc_scale sc_scale_linear(double least, double most, uint32_t wanted, bool whole, bool rounded)
{
    sc_scale axis = {.least = least, .most = most};
    double scale = fabs(least) > fabs(most) ? fabs(least) : fabs(most);
    if (most - least <= scale * 1e-12) { /* one value: in the middle */
        double around = whole ? 1 : scale > 0 ? scale * 0.1 : 1;
        axis.least -= around;
        axis.most += around;
    }
    double step = find_step(axis.most - axis.least, wanted, whole);
    if (rounded) {
        /* the wider range may need a longer distance */
        double low = floor(axis.least / step + 1e-9), high = ceil(axis.most / step - 1e-9);
        if (high - low + 1 > wanted) {
            step = find_step((high - low) * step, wanted, whole);
            low = floor(axis.least / step + 1e-9);
            high = ceil(axis.most / step - 1e-9);
        }
        axis.least = low * step;
        axis.most = high * step;
    }
    for (double at = ceil(axis.least / step - 1e-9); at * step <= axis.most + step * 1e-9; at++) {
        if (axis.tick_count == SC_SCALE_TICKS)
            break;
        axis.ticks[axis.tick_count] = at == 0 ? 0 : at * step;
        write_label(axis.ticks[axis.tick_count], step, axis.labels[axis.tick_count]);
        axis.tick_count++;
    }
    return axis;
}

/* ---- logarithmic ---- */

static void add_log_tick(sc_scale *axis, double value)
{
    if (value < axis->least * (1 - 1e-9) || value > axis->most * (1 + 1e-9) ||
        axis->tick_count == SC_SCALE_TICKS)
        return;
    axis->ticks[axis->tick_count] = value;
    sc_snprintf(axis->labels[axis->tick_count], SC_SCALE_LABEL, "%.3g", value);
    axis->tick_count++;
}

sc_scale sc_scale_log(double least, double most, uint32_t wanted)
{
    int first = (int)floor(log10(least) + 1e-9), last = (int)ceil(log10(most) - 1e-9);
    if (first == last)
        last++;
    sc_scale axis = {.least = pow(10, first), .most = pow(10, last), .is_log = true};
    uint32_t decades = (uint32_t)(last - first);
    bool is_fine = decades * FACTORS + 1 <= wanted;
    int every = (int)(decades / wanted) + 1;
    for (int decade = first; decade <= last; decade += every) {
        for (int i = 0; i < (is_fine ? FACTORS : 1); i++)
            add_log_tick(&axis, factors[i] * pow(10, decade));
    }
    return axis;
}

/* ---- places ---- */

double sc_scale_at(const sc_scale *axis, double value)
{
    if (axis->is_log)
        return value <= 0 ? 0
                          : (log(value) - log(axis->least)) / (log(axis->most) - log(axis->least));
    return (value - axis->least) / (axis->most - axis->least);
}

size_t sc_scale_widest(const sc_scale *axis)
{
    size_t widest = 0;
    for (uint32_t i = 0; i < axis->tick_count; i++) {
        size_t length = strlen(axis->labels[i]);
        widest = length > widest ? length : widest;
    }
    return widest;
}
