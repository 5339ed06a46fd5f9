/* A compiled entry or train step, ready to run here: as emitted code, every rank in a thread, or on the interpreter. */
#ifndef SHARDC_TOOLS_RUN_RUN_H
#define SHARDC_TOOLS_RUN_RUN_H

#include "codegen/program/generate.h"
#include "ir/interp/interp.h"
#include "runtime/drive/evaluate.h"
#include "tools/driver/driver.h"

/* The pass up to which a program is compiled that will be run so: NULL, or "fuse". */
const char *sc_last_pass(const sc_options *options);

/* What runs: a program compiled up to that pass, and a second one that shares its state (NULL: none): of a train step the forward entry,
 * of a cached entry the same with another number of positions. Its functions come after those of the first. */
typedef struct sc_local_run {
    sc_context *context;
    const sc_options *options;
    const sc_compiled *c, *second;
    const char *second_name; /* of its function; NULL: its own */
    sc_machine *machine;     /* NULL until it is open */
    struct shardc_executable *program;
    struct shardc_session *session;
} sc_local_run;

/* An sc_open_machine: `user` is the run. State begins as zeros. */
sc_machine *sc_local_run_open(void *user);
void sc_local_run_close(sc_local_run *run);

/* A machine that interprets; `second` may be NULL. NULL: no memory. */
sc_machine *sc_interpreter_new(const sc_compiled *c, const sc_compiled *second);

/* A parameter's initial values, global and row-major: element i depends on (seed, path, i) alone. `values` has room for all. */
void sc_initial_values(const sc_module *m, uint32_t state, uint64_t seed, double *values);

#endif
