/* A training run: as many steps as asked, with a log, held-out losses, and parameters and state in files at its end. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAIN_H
#define SHARDC_RUNTIME_DRIVE_TRAIN_H

#include "runtime/drive/evaluate.h"

typedef struct sc_training_run sc_training_run; /* in the context's arena, and memory of its own */

/* What the options ask, as far as it can be judged without a program, and what --resume names: its seed is in the options afterwards. NULL
 * after messages. */
sc_training_run *sc_train_begin(sc_context *context, const sc_run_options *options);
/* Prepares everything, runs the steps, writes everything; the result is added to `out`. Signals: SIGINT and SIGTERM end the run after
 * the step that goes on, and everything is saved. Messages say what went wrong. */
void sc_train_run(sc_training_run *run, const sc_facts *facts, sc_open_machine *open, void *user, sc_strbuf *out);

#endif
