/* Generates random inputs and states. */
#include "runtime/drive/random_values.h"

#include <math.h>

#include "support/rng.h"

static double draw_int(const sc_distribution *distribution, const sc_random_options *options,
                       int64_t index)
{
    static const int64_t spans[SC_RANDOM_ATTEMPTS] = {INT64_MAX, 2, 1};
    double u = sc_rng_uniform(options->seed, distribution->stream, (uint64_t)index * 2);
    double v = sc_rng_uniform(options->seed, distribution->stream, (uint64_t)index * 2 + 1);
    int64_t span = distribution->high - distribution->low;
    span = span < spans[options->attempt] ? span : spans[options->attempt];
    bool is_first = index == 0; /* the first is always valid, so there is something to compare */
    if (distribution->form == SC_RANDOM_LENGTH && (is_first || v >= 0.375))
        return (double)(distribution->high - 1);
    if (distribution->form == SC_RANDOM_LENGTH && v < 0.125)
        return 0;
    if (distribution->may_ignore && !is_first && v < 0.125)
        return distribution->ignore;
    return (double)distribution->low + floor(u * (double)span);
}

void sc_random_fill(const sc_distribution *distribution, const sc_random_options *options,
                    double *data, int64_t count)
{
    const double choices = 2 * SC_RANDOM_LARGEST + 1;
    for (int64_t i = 0; i < count; i++) {
        if (distribution->form == SC_RANDOM_BOOL)
            data[i] = sc_rng_uniform(options->seed, distribution->stream, (uint64_t)i) < 0.5;
        else if (distribution->form != SC_RANDOM_FLOAT)
            data[i] = draw_int(distribution, options, i);
        else if (options->integers && distribution->is_positive)
            data[i] = 1 + floor(sc_rng_uniform(options->seed, distribution->stream, (uint64_t)i) *
                                SC_RANDOM_LARGEST);
        else if (options->integers)
            data[i] =
                floor(sc_rng_uniform(options->seed, distribution->stream, (uint64_t)i) * choices) -
                SC_RANDOM_LARGEST;
        else
            data[i] = distribution->mean +
                      distribution->spread *
                          sc_rng_normal(options->seed, distribution->stream, (uint64_t)i);
        if (distribution->form == SC_RANDOM_FLOAT && distribution->is_positive)
            data[i] = fabs(data[i]);
    }
}

double sc_random_bound(const sc_distribution *distribution)
{
    if (distribution->form == SC_RANDOM_BOOL)
        return 1;
    if (distribution->form == SC_RANDOM_FLOAT)
        return SC_RANDOM_LARGEST;
    return fmax((double)distribution->high,
                distribution->may_ignore ? fabs(distribution->ignore) : 0);
}
