/* A train step being run: functions and schedule, with parameters, optimizer state and counters. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAINER_H
#define SHARDC_RUNTIME_DRIVE_TRAINER_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "support/context.h"

typedef struct sc_trainer sc_trainer;

typedef struct sc_step_result {
    double loss, grad_norm, lr; /* grad_norm: before clipping */
    uint32_t metric_count;
    const double *metrics; /* in the entry's order; the trainer's, until the next step */
    bool skipped;          /* loss or norm were not finite: nothing has changed */
    bool diverges;         /* and a smaller loss scale would not help */
} sc_step_result;

/* Parameters are those of --weights, or initial values. The machine stays the caller's. NULL after messages. */
sc_trainer *sc_trainer_new(sc_context *context, const sc_facts *facts, const sc_run_options *options, sc_machine *machine);
void sc_trainer_free(sc_trainer *trainer); /* NULL is allowed */

/* One optimizer step. `inputs` are whole, of the global batch, by input in function order. False after messages. */
bool sc_trainer_step(sc_trainer *trainer, const sc_array *inputs, uint32_t count, sc_step_result *out);
/* The objective of one batch, forward only: no dropout, no update. What several batches give is the sum of totals over the sum of weights;
 * a scalar entry weighs 1. False after messages. */
bool sc_trainer_evaluate(sc_trainer *trainer, const sc_array *inputs, uint32_t count, double *total, double *weight);

/* Steps done so far; a schedule of the learning rate goes on from there. */
uint64_t sc_trainer_steps(const sc_trainer *trainer);
uint64_t sc_trainer_skipped(const sc_trainer *trainer); /* of them, those that changed nothing */
void sc_trainer_set_steps(sc_trainer *trainer, uint64_t steps, uint64_t skipped);
const sc_machine *sc_trainer_machine(const sc_trainer *trainer);

/* All that a step changes, by index in a fixed order that no plan decides: parameters (layers[0].attn.wq) and optimizer state
 * (layers[0].attn.wq.m). Values that get gives are global and row-major, exact as f64. */
uint32_t sc_trainer_state_count(const sc_trainer *trainer);
const char *sc_trainer_state_name(const sc_trainer *trainer, uint32_t index);
sc_array sc_trainer_get_state(const sc_trainer *trainer, uint32_t index); /* malloc'd; data NULL after a message */
uint32_t sc_trainer_state(const sc_trainer *trainer, uint32_t index);     /* the machine's number of it */

/* Parameters of --weights, else their initial values by --seed; master copies get them unrounded. False after messages. */
bool sc_fill_parameters(sc_context *context, const sc_facts *facts, const sc_run_options *options, sc_machine *machine);

/* Of a run that shows what the parameters give: a note where they are the initial ones. */
void sc_note_initial_weights(sc_context *context, const sc_facts *facts, const sc_run_options *options, const sc_machine *machine);

#endif
