/* Running an entry here: parameters initialised or read, inputs from files, results as numbers or as a file of tensors. */
#ifndef SHARDC_RUNTIME_DRIVE_EVALUATE_H
#define SHARDC_RUNTIME_DRIVE_EVALUATE_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "support/context.h"

/* Gives the machine that runs the entry, once everything else has been checked; NULL after messages. It stays the caller's. */
typedef sc_machine *sc_open_machine(void *user);

/* Runs the entry as the options say: seed or weights, inputs, data, steps. What it returns is added to `out`; -o names a file for it.
 * False after messages.
 *
 * Inputs come from --input by name, then tokens from --data for the first two i32 inputs that have none (rows one after the other, the
 * second input shifted by one token), then pos = 0 and pos_len = S in a cached entry. Everything that is missing or does not fit is
 * reported. Values are rounded to the dtypes of the IR, as they are on a device. */
bool sc_evaluate(sc_context *context, const sc_facts *facts, const sc_run_options *options, sc_open_machine *open, void *user,
                 sc_strbuf *out);

#endif
