/* Evaluates an entry: parameters are initialized or read, inputs come from files, results are
 * printed or written to a file of tensors. */
#ifndef SHARDC_RUNTIME_DRIVE_EVALUATE_H
#define SHARDC_RUNTIME_DRIVE_EVALUATE_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "support/context.h"

/* Returns the executor that runs the entry, created once everything else has been checked; NULL
 * after messages. It stays the callback's. */
typedef sc_executor *sc_open_executor(void *user);

/* Runs the entry as the options specify: seed or weights, inputs, data, steps. Results are appended
 * to `out`; -o names a file for them. False after messages.
 *
 * Inputs come from --input by name, then from --data's tokens for the first two remaining i32
 * inputs (rows in file order, the second input shifted by one token); in a cached entry also pos =
 * 0 and pos_len = S. All missing or mismatching inputs are reported. Values are rounded to the IR's
 * dtypes, as on a device. */
bool sc_evaluate(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                 sc_open_executor *open, void *user, sc_strbuf *out);

#endif
