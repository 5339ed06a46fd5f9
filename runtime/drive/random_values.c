/* Generates random inputs and states. */
#include "runtime/drive/random_values.h"

#include <math.h>

#include "support/rng.h"

static double draw_int(const sc_draw *draw, const sc_draw_options *options, int64_t index)
{
    static const int64_t spans[SC_DRAW_ATTEMPTS] = {INT64_MAX, 2, 1};
    double u = sc_rng_uniform(options->seed, draw->stream, (uint64_t)index * 2);
    double v = sc_rng_uniform(options->seed, draw->stream, (uint64_t)index * 2 + 1);
    int64_t span = draw->high - draw->low;
    span = span < spans[options->attempt] ? span : spans[options->attempt];
    bool is_first = index == 0; /* the first is always valid, so there is something to compare */
    if (draw->form == SC_DRAW_LENGTH && (is_first || v >= 0.375))
        return (double)(draw->high - 1);
    if (draw->form == SC_DRAW_LENGTH && v < 0.125)
        return 0;
    if (draw->may_ignore && !is_first && v < 0.125)
        return draw->ignore;
    return (double)draw->low + floor(u * (double)span);
}

void sc_draw_fill(const sc_draw *draw, const sc_draw_options *options, double *data, int64_t count)
{
    const double choices = 2 * SC_DRAW_LARGEST + 1;
    for (int64_t i = 0; i < count; i++) {
        if (draw->form == SC_DRAW_BOOL)
            data[i] = sc_rng_uniform(options->seed, draw->stream, (uint64_t)i) < 0.5;
        else if (draw->form != SC_DRAW_FLOAT)
            data[i] = draw_int(draw, options, i);
        else if (options->integers && draw->is_positive)
            data[i] = 1 + floor(sc_rng_uniform(options->seed, draw->stream, (uint64_t)i) *
                                SC_DRAW_LARGEST);
        else if (options->integers)
            data[i] = floor(sc_rng_uniform(options->seed, draw->stream, (uint64_t)i) * choices) -
                      SC_DRAW_LARGEST;
        else
            data[i] =
                draw->mean + draw->spread * sc_rng_normal(options->seed, draw->stream, (uint64_t)i);
        if (draw->form == SC_DRAW_FLOAT && draw->is_positive)
            data[i] = fabs(data[i]);
    }
}

double sc_draw_bound(const sc_draw *draw)
{
    if (draw->form == SC_DRAW_BOOL)
        return 1;
    if (draw->form == SC_DRAW_FLOAT)
        return SC_DRAW_LARGEST;
    return fmax((double)draw->high, draw->may_ignore ? fabs(draw->ignore) : 0);
}
