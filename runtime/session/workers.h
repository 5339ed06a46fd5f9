/* A pool of threads, one for each rank. Each keeps what belongs to its thread: memory it touched
 * first, its OpenMP team, library buffers. A job runs on all of them at once. */
#ifndef SHARDC_RUNTIME_SESSION_WORKERS_H
#define SHARDC_RUNTIME_SESSION_WORKERS_H

#include <stdint.h>

#include "shardc/status.h"

typedef struct sc_workers sc_workers;
typedef void sc_job(void *user, uint32_t worker);

/* Checks whether `count` more threads can be started, by starting and ending them. Needed because
 * OpenMP ends the process when it cannot start a thread. */
shardc_status sc_workers_probe(uint32_t count, shardc_error *error);
shardc_status sc_workers_new(uint32_t count, sc_workers **out, shardc_error *error);
/* Runs job(user, w) on every worker w and returns when all have. One caller at a time. */
void sc_workers_run(sc_workers *workers, sc_job *job, void *user);
void sc_workers_free(sc_workers *workers); /* NULL is allowed */

#endif
