/* Optimizers as a table (optimizers.def): their names, arguments and defaults, and the scalars that
 * a step reads. All of this is run-time data: changing a scalar requires no recompilation. */
#ifndef SHARDC_PROGRAM_OPTIMIZER_H
#define SHARDC_PROGRAM_OPTIMIZER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum sc_optimizer_kind {
#define OPTIMIZER(name, NAME, ...) SC_##NAME,
#include "program/optimizers.def"
    SC_OPTIMIZER_COUNT
} sc_optimizer_kind;

/* Numeric arguments; `lr` is separate because it may be a schedule. */
typedef enum sc_hyper {
    SC_HYPER_MOMENTUM,
    SC_HYPER_NESTEROV, /* 0 or 1 */
    SC_HYPER_BETA1,
    SC_HYPER_BETA2,
    SC_HYPER_EPS,
    SC_HYPER_DECAY,
    SC_HYPER_CLIP, /* 0: no clipping */
    SC_HYPER_DECAY_ALL,
    SC_HYPER_COUNT
} sc_hyper;

typedef enum sc_rate_kind {
    SC_RATE_CONSTANT,
    SC_RATE_COSINE,
    SC_RATE_LINEAR,
    SC_RATE_KINDS
} sc_rate_kind;
/* A schedule's arguments in order: the first may be given without its name, the last may be
 * omitted. */
typedef enum sc_rate_argument {
    SC_RATE_PEAK,
    SC_RATE_WARMUP,
    SC_RATE_TOTAL,
    SC_RATE_FLOOR,
    SC_RATE_ARGUMENTS
} sc_rate_argument;

typedef struct sc_rate {
    sc_rate_kind kind;
    double peak, warmup, total, floor; /* warmup and total in steps; floor absolute */
} sc_rate;

typedef struct sc_optimizer_settings {
    sc_optimizer_kind kind;
    sc_rate lr;
    double hyper[SC_HYPER_COUNT];
} sc_optimizer_settings;

typedef struct sc_optimizer_row {
    const char *name;
    const char *arguments; /* space-separated, as written in the language; the first is required */
    double defaults[SC_HYPER_COUNT];
} sc_optimizer_row;

extern const sc_optimizer_row sc_optimizers[SC_OPTIMIZER_COUNT];
extern const char *const sc_hyper_names[SC_HYPER_COUNT];
extern const char *const sc_rate_names[SC_RATE_KINDS]; /* NULL for a constant rate */
extern const char *const sc_rate_argument_names[SC_RATE_ARGUMENTS];

/* The scalars of one group that a step reads; in the IR `optimizer0.lr`, ... */
typedef enum sc_scalar {
    SC_SCALAR_LR,
    SC_SCALAR_MOMENTUM,
    SC_SCALAR_BETA1,
    SC_SCALAR_BETA2,
    SC_SCALAR_EPS,
    SC_SCALAR_DECAY,
    SC_SCALAR_CLIP,        /* infinite if there is no clipping */
    SC_SCALAR_CORRECTION1, /* 1 - beta1^t */
    SC_SCALAR_CORRECTION2, /* 1 - beta2^t */
    SC_SCALAR_COUNT
} sc_scalar;

extern const char *const sc_scalar_names[SC_SCALAR_COUNT]; /* lr, momentum, .. correction2 */

/* With loss scaling: the scale, and the state that counts applied steps. */
#define SC_SCALE_STATE       "scaling.scale"
#define SC_SCALE_TAKEN_STATE "scaling.taken"
/* All states of loss scaling begin so. */
#define SC_SCALE_STATES "scaling."
/* The master copy of parameter P is state P.master. */
#define SC_MASTER_SUFFIX ".master"

/* Returns the learning rate of step t, counted from 1: linear warm-up from 0 to peak at t = warmup,
 * then half a cosine or a line down to floor at t = total, then floor. */
double sc_rate_at(const sc_rate *rate, int64_t step);
void sc_optimizer_scalars(const sc_optimizer_settings *settings, int64_t step,
                          double scalars[SC_SCALAR_COUNT]);

#endif
