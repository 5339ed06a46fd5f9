/* A compiled entry or train step, ready to run here: as emitted code, every rank in a thread, or on the interpreter. Values are whole, as
 * f64, whatever holds them. */
#ifndef SHARDC_TOOLS_RUNNER_H
#define SHARDC_TOOLS_RUNNER_H

#include "ir/interp.h"
#include "tools/driver.h"

typedef struct sc_runner sc_runner;

/* The pass up to which a program is compiled that will be run so: NULL, or "fuse". */
const char *sc_runner_last_pass(const sc_options *options);

/* Of a program that was compiled up to that pass. State begins as zeros. NULL after messages. */
sc_runner *sc_runner_new(sc_context *context, const sc_compiled *c, const sc_options *options);
void sc_runner_free(sc_runner *runner); /* NULL is allowed */

/* What is run; state and functions are counted as there. */
const sc_module *sc_runner_module(const sc_runner *runner);
/* The train step of that module. */
const sc_train_step *sc_runner_step(const sc_runner *runner);

/* As the interpreter's: see ir/interp.h. A false set is a lack of memory. */
bool sc_runner_set_state(sc_runner *runner, uint32_t state, const double *global);
sc_array sc_runner_get_state(const sc_runner *runner, uint32_t state);
void sc_runner_set_random(sc_runner *runner, uint64_t seed, uint64_t step, uint32_t micro_batch);
bool sc_runner_run(sc_runner *runner, sc_func_id func, const sc_array *inputs, uint32_t input_count, sc_array *outputs,
                   uint32_t output_count, char *error, size_t error_size);

#endif
