/* An executor that compiles again where rows of experts have no room (`tune capacity`). */
#ifndef SHARDC_TOOLS_RUN_GROWING_H
#define SHARDC_TOOLS_RUN_GROWING_H

#include "tools/run/run.h"

/* Opens the run's programs as they are compiled; sets run->program and run->session. */
typedef sc_executor *sc_open_compiled(sc_local_run *run);

/* Wraps the executor of a run, compiled up to the pass `last`, which it then owns: a call that
 * fails for want of room is repeated, with the state that it began with, by a program that has
 * the room; a warning says so. Returns the executor itself if its program never lacks room, NULL if
 * memory runs out. */
sc_executor *sc_growing_executor(sc_local_run *run, sc_executor *executor, sc_open_compiled *open,
                                 const char *last);

#endif
