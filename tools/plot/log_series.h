/* The numbers of training logs, as `train --log` writes them. */
#ifndef SHARDC_TOOLS_PLOT_LOG_SERIES_H
#define SHARDC_TOOLS_PLOT_LOG_SERIES_H

#include "support/context.h"

typedef struct sc_log_point {
    double step, value; /* value: may be infinite or no number */
} sc_log_point;

typedef SC_VEC(sc_log_point) sc_log_points;

typedef enum sc_log_series {
    SC_LOG_LOSS,
    SC_LOG_HELD_OUT,
    SC_LOG_NORM,
    SC_LOG_SPEED, /* tokens per second */
    SC_LOG_SERIES
} sc_log_series;

typedef struct sc_log_run {
    const char *path;
    sc_log_points series[SC_LOG_SERIES]; /* by ascending step */
    sc_log_points skipped;               /* steps that were not applied */
} sc_log_run;

/* Reads a log into the arena. A resumed run may have done steps again: then its later lines count.
 * A last line without an end is left out, since a run may be writing it. False after a message. */
bool sc_log_read(sc_context *context, const char *path, sc_log_run *out);

#endif
