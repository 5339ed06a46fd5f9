/* Threads that wait for something to do: one a rank, each with what belongs to its thread (memory that it touched first, its OpenMP team,
 * the library's buffers). A job runs on all of them at once. */
#ifndef SHARDC_RUNTIME_SESSION_WORKERS_H
#define SHARDC_RUNTIME_SESSION_WORKERS_H

#include <stdint.h>

#include "shardc/status.h"

typedef struct sc_workers sc_workers;
typedef void sc_job(void *user, uint32_t worker);

/* Whether so many threads can be started, besides those that there are: OpenMP ends the process where it cannot start one. They are started
 * and ended. */
shardc_status sc_workers_probe(uint32_t count, shardc_error *error);
shardc_status sc_workers_new(uint32_t count, sc_workers **out, shardc_error *error);
/* Runs job(user, w) on every worker w and returns when all have. One caller at a time. */
void sc_workers_run(sc_workers *workers, sc_job *job, void *user);
void sc_workers_free(sc_workers *workers); /* NULL is allowed */

#endif
