/* Runs a training: the requested steps, with a log, held-out losses, and parameters and checkpoints
 * in files. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_H

#include "runtime/drive/evaluate.h"

typedef struct sc_training_run sc_training_run; /* in the context's arena, plus memory of its own */

/* Checks the options as far as possible without a program, and reads the checkpoint that --resume
 * names, whose seed replaces the one in the options. NULL after messages. */
sc_training_run *sc_train_begin(sc_context *context, const sc_run_options *options);
/* Prepares everything, runs the steps and writes the files; the result is appended to `out`. SIGINT
 * and SIGTERM end the run after the current step, and everything is saved. Errors are reported as
 * messages. */
void sc_train_run(sc_training_run *run, const sc_facts *facts, sc_open_executor *open, void *user,
                  sc_strbuf *out);

#endif
