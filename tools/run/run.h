/* A compiled entry or train step ready to run here: as emitted code with one thread per rank, or on
 * the interpreter. */
#ifndef SHARDC_TOOLS_RUN_RUN_H
#define SHARDC_TOOLS_RUN_RUN_H

#include "codegen/program/generate.h"
#include "ir/interp/interp.h"
#include "runtime/drive/evaluate.h"
#include "tools/driver/driver.h"

/* Returns the last pass to compile for running with these options: NULL (all), or "fuse". */
const char *sc_last_pass(const sc_options *options);

/* The programs to run: one compiled up to sc_last_pass, and a second one that shares its state
 * (NULL: none): for a train step the forward entry, for a cached entry the same with another number
 * of positions. Functions of the second are numbered after those of the first. */
typedef struct sc_local_run {
    sc_context *context;
    const sc_options *options;
    const sc_compiled *c, *second;
    const char *second_name; /* name of its function; NULL: its own */
    sc_executor *executor;   /* NULL until opened */
    struct shardc_executable *program;
    struct shardc_session *session;
} sc_local_run;

/* An sc_open_executor; `user` is the run. State is initialised to zeros. */
sc_executor *sc_local_run_open(void *user);
void sc_local_run_close(sc_local_run *run);

/* Returns an executor that interprets; `second` may be NULL. Returns NULL if memory runs out. */
sc_executor *sc_interpreter_new(const sc_compiled *c, const sc_compiled *second);

/* Computes a parameter's initial values, global and row-major; element i depends only on (seed,
 * path, i). `values` has room for all elements. */
void sc_initial_values(const sc_module *m, uint32_t state, uint64_t seed, double *values);

#endif
