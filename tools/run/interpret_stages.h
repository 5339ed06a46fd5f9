/* Runs programs that are cut into stages on the reference interpreter. */
#ifndef SHARDC_TOOLS_RUN_INTERPRET_STAGES_H
#define SHARDC_TOOLS_RUN_INTERPRET_STAGES_H

#include "ir/interp/interp.h"
#include "tools/run/run.h"

/* Runs one call; a function that returns nothing leaves the outputs. False: *error says why. */
bool sc_interpret_call(sc_interp *interp, const sc_module *m, const sc_call *call,
                       const sc_named_arrays *inputs, sc_array *outputs, uint32_t output_count,
                       shardc_error *error);
/* Runs an entry as its micro-batches (c->batches), in the order of `m`, and joins their results.
 * `about`: the entry with the whole batch. */
bool sc_interpret_batches(sc_interp *interp, const sc_module *m, const sc_compiled *c,
                          const sc_executor_func *about, const sc_named_arrays *inputs,
                          sc_array *outputs, uint32_t output_count, shardc_error *error);

#endif
