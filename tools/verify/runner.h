/* A compiled entry or train step, ready to run here: as emitted code, every rank in a thread, or on the interpreter. Values are whole, as
 * f64, whatever holds them. */
#ifndef SHARDC_TOOLS_VERIFY_RUNNER_H
#define SHARDC_TOOLS_VERIFY_RUNNER_H

#include "ir/interp/interp.h"
#include "shardc/runtime.h"
#include "tools/driver/driver.h"

typedef struct sc_runner sc_runner;

void sc_runner_free(sc_runner *runner); /* NULL is allowed */

/* Whether so many bytes are this machine's at all, and what to say when not; `how` is "as a thread". */
bool sc_fits_here(double needed);
const char *sc_too_large(sc_context *context, const char *how, double needed);

/* ---- by what runs it ---- */
/* `m` itself on the interpreter, however large. NULL: no memory. */
sc_runner *sc_runner_interpret(const sc_module *m, const sc_interp_options *options);
/* Emitted code of a FUSED module for a target of this machine (NULL: the CPU), with so many threads for all ranks; 0: one a core.
 * NULL after messages. */
sc_runner *sc_runner_load(sc_context *context, sc_module *m, const sc_target *target, uint32_t threads);
/* The same emitted code once more, with its own state. `of` is freed later. NULL after messages. */
sc_runner *sc_runner_again(sc_context *context, const sc_runner *of, uint32_t threads);
/* NULL: it interprets. */
shardc_session *sc_runner_session(const sc_runner *runner);
const shardc_executable *sc_runner_program(const sc_runner *runner);

/* Of emitted code of a train step: the function that its schedule calls last, which is none of the module's where the last micro-batch and
 * the update are one (codegen/program/join_update.c). SC_NONE: none is scheduled. */
sc_func_id sc_runner_last(const sc_runner *runner);

/* What is run; state and functions are counted as there. */
const sc_module *sc_runner_module(const sc_runner *runner);

/* As the interpreter's: see ir/interp/interp.h. A false set is a lack of memory. */
bool sc_runner_set_state(sc_runner *runner, uint32_t state, const double *global);
sc_array sc_runner_get_state(const sc_runner *runner, uint32_t state);
void sc_runner_set_random(sc_runner *runner, uint64_t seed, uint64_t step, uint32_t micro_batch);
bool sc_runner_run(sc_runner *runner, sc_func_id func, const sc_array *inputs, uint32_t input_count, sc_array *outputs,
                   uint32_t output_count, char *error, size_t error_size);

#endif
