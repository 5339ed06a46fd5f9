/* Runs a compiled entry or train step here: as emitted code with one thread per rank, or on the
 * interpreter. Values are passed as full (unsharded) f64 arrays. */
#ifndef SHARDC_TOOLS_VERIFY_RUNNER_H
#define SHARDC_TOOLS_VERIFY_RUNNER_H

#include "codegen/program/generate.h"
#include "ir/interp/interp.h"
#include "shardc/runtime.h"
#include "tools/driver/driver.h"

typedef struct sc_runner sc_runner;

void sc_runner_free(sc_runner *runner); /* NULL is allowed */

/* sc_fits_here: true if the machine has that much physical memory. sc_too_large: the message if
 * not; `how` is e.g. "as a thread". */
bool sc_fits_here(double needed);
const char *sc_too_large(sc_context *context, const char *how, double needed);

/* ---- kinds of runners ---- */
/* Interprets `m` itself, at any size. Returns NULL if memory runs out. */
sc_runner *sc_runner_interpret(const sc_module *m, const sc_interp_options *options);
/* Loads the emitted code of a FUSED module, the only part of its program, for a target of this
 * machine (NULL: the CPU), with `threads` threads over all ranks; 0: one per core. Returns NULL
 * after reporting errors. */
sc_runner *sc_runner_load(sc_context *context, const sc_generate_part *part,
                          const sc_target *target, uint32_t threads);
/* Loads the same emitted code again, with its own state. `of` must be freed after it. Returns NULL
 * after reporting errors. */
sc_runner *sc_runner_again(sc_context *context, const sc_runner *of, uint32_t threads);
/* NULL for an interpreter. */
shardc_session *sc_runner_session(const sc_runner *runner);
const shardc_executable *sc_runner_program(const sc_runner *runner);

/* For emitted code of a train step: the last function of its schedule. It is not one of the
 * module's if the last micro-batch and the update are joined (codegen/program/join_update.c).
 * SC_NONE if none is scheduled. */
sc_func_id sc_runner_last(const sc_runner *runner);

/* The module that runs; it defines the numbering of state and functions. */
const sc_module *sc_runner_module(const sc_runner *runner);

/* As for the interpreter, see ir/interp/interp.h. Setting state fails only if memory runs out. */
bool sc_runner_set_state(sc_runner *runner, uint32_t state, const double *global);
sc_array sc_runner_get_state(const sc_runner *runner, uint32_t state);
void sc_runner_set_random(sc_runner *runner, uint64_t seed, uint64_t step, uint32_t micro_batch);
/* Runs a whole train step, or an entry, of emitted code that is cut into stages. `inputs`: by
 * micro-batch and input, in the order of `names`. */
bool sc_runner_run_stages(sc_runner *runner, const sc_sym *names, sc_array *const *inputs,
                          uint32_t input_count, uint32_t micro_batches, sc_array *outputs,
                          uint32_t output_count, char *error, size_t error_size);
bool sc_runner_run(sc_runner *runner, sc_func_id func, const sc_array *inputs, uint32_t input_count,
                   sc_array *outputs, uint32_t output_count, char *error, size_t error_size);

#endif
