#include "program/optimizer.h"

#include <math.h>

const sc_optimizer_row sc_optimizers[SC_OPTIMIZER_COUNT] = {
#define OPTIMIZER(title, NAME, words, beta1, beta2, eps, decay)                                    \
    [SC_##NAME] = {.name = #title,                                                                 \
                   .arguments = words,                                                             \
                   .defaults = {[SC_HYPER_BETA1] = beta1,                                          \
                                [SC_HYPER_BETA2] = beta2,                                          \
                                [SC_HYPER_EPS] = eps,                                              \
                                [SC_HYPER_DECAY] = decay}},
#include "program/optimizers.def"
};

const char *const sc_hyper_names[SC_HYPER_COUNT] = {
    [SC_HYPER_MOMENTUM] = "momentum", [SC_HYPER_NESTEROV] = "nesterov",
    [SC_HYPER_BETA1] = "beta1",       [SC_HYPER_BETA2] = "beta2",
    [SC_HYPER_EPS] = "eps",           [SC_HYPER_DECAY] = "decay",
    [SC_HYPER_CLIP] = "clip",         [SC_HYPER_DECAY_ALL] = "decay_all",
};

const char *const sc_rate_names[SC_RATE_KINDS] = {
    [SC_RATE_COSINE] = "cosine", [SC_RATE_LINEAR] = "linear"};

const char *const sc_rate_argument_names[SC_RATE_ARGUMENTS] = {[SC_RATE_PEAK] = "peak",
                                                               [SC_RATE_WARMUP] = "warmup",
                                                               [SC_RATE_TOTAL] = "total",
                                                               [SC_RATE_FLOOR] = "floor"};

const char *const sc_scalar_names[SC_SCALAR_COUNT] = {
    [SC_SCALAR_LR] = "lr",
    [SC_SCALAR_MOMENTUM] = "momentum",
    [SC_SCALAR_BETA1] = "beta1",
    [SC_SCALAR_BETA2] = "beta2",
    [SC_SCALAR_EPS] = "eps",
    [SC_SCALAR_DECAY] = "decay",
    [SC_SCALAR_CLIP] = "clip",
    [SC_SCALAR_CORRECTION1] = "correction1",
    [SC_SCALAR_CORRECTION2] = "correction2",
};

double sc_rate_at(const sc_rate *rate, int64_t step)
{
    double t = (double)step;
    if (rate->kind == SC_RATE_CONSTANT)
        return rate->peak;
    if (t < rate->warmup)
        return t > 0.0 ? rate->peak * t / rate->warmup : 0.0;
    if (t >= rate->total)
        return rate->floor;
    double progress = (t - rate->warmup) / (rate->total - rate->warmup);
    double left =
        rate->kind == SC_RATE_LINEAR ? 1.0 - progress : 0.5 * (1.0 + cos(acos(-1.0) * progress));
    return rate->floor + (rate->peak - rate->floor) * left;
}

void sc_optimizer_scalars(const sc_optimizer_settings *settings, int64_t step,
                          double scalars[SC_SCALAR_COUNT])
{
    const double *hyper = settings->hyper;
    scalars[SC_SCALAR_LR] = sc_rate_at(&settings->lr, step);
    scalars[SC_SCALAR_MOMENTUM] = hyper[SC_HYPER_MOMENTUM];
    scalars[SC_SCALAR_BETA1] = hyper[SC_HYPER_BETA1];
    scalars[SC_SCALAR_BETA2] = hyper[SC_HYPER_BETA2];
    scalars[SC_SCALAR_EPS] = hyper[SC_HYPER_EPS];
    scalars[SC_SCALAR_DECAY] = hyper[SC_HYPER_DECAY];
    scalars[SC_SCALAR_CLIP] = hyper[SC_HYPER_CLIP] > 0.0 ? hyper[SC_HYPER_CLIP] : INFINITY;
    scalars[SC_SCALAR_CORRECTION1] = 1.0 - pow(hyper[SC_HYPER_BETA1], (double)step);
    scalars[SC_SCALAR_CORRECTION2] = 1.0 - pow(hyper[SC_HYPER_BETA2], (double)step);
}
