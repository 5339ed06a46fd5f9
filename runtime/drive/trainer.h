/* Runs train steps: functions and schedule, with parameters, optimizer state and progress. */
#ifndef SHARDC_RUNTIME_DRIVE_TRAINER_H
#define SHARDC_RUNTIME_DRIVE_TRAINER_H

#include "runtime/drive/executor.h"
#include "runtime/drive/facts.h"
#include "runtime/drive/options.h"
#include "runtime/drive/state_set.h"
#include "support/context.h"

typedef struct sc_trainer sc_trainer;

typedef struct sc_step_result {
    double loss, grad_norm, lr; /* grad_norm: before clipping */
    uint32_t metric_count;
    /* in the entry's order; owned by the trainer, valid until the next step */
    const double *metrics;
    bool skipped;  /* loss or norm was not finite, so the update was skipped */
    bool diverges; /* and a smaller loss scale would not help */
} sc_step_result;

/* Creates a trainer with parameters from --weights or initial values. The executor stays the
 * caller's. NULL after messages. */
sc_trainer *sc_trainer_new(sc_context *context, const sc_facts *facts,
                           const sc_run_options *options, sc_executor *executor);
void sc_trainer_free(sc_trainer *trainer); /* NULL is allowed */

/* Runs one optimizer step. `inputs` are full tensors of the global batch, in the order of the
 * entry's inputs. False after messages. */
bool sc_trainer_step(sc_trainer *trainer, const sc_array *inputs, uint32_t count,
                     sc_step_result *out);
/* Computes the objective of one batch: forward only, no dropout, no update. Over several batches
 * the objective is the sum of totals over the sum of weights; a scalar entry has weight 1. False
 * after messages. */
bool sc_trainer_evaluate(sc_trainer *trainer, const sc_array *inputs, uint32_t count, double *total,
                         double *weight);

/* Returns the steps done so far, from which the learning rate schedule continues. */
uint64_t sc_trainer_steps(const sc_trainer *trainer);
uint64_t sc_trainer_skipped(const sc_trainer *trainer); /* steps that were skipped */
/* False after a message. */
bool sc_trainer_set_steps(sc_trainer *trainer, uint64_t steps, uint64_t skipped);
/* Gets the current loss scale; 0: losses are not scaled. All processes call it. False after a
 * message. */
bool sc_trainer_scale(const sc_trainer *trainer, double *out);
const sc_executor *sc_trainer_executor(const sc_trainer *trainer);

/* Everything that a step changes, in a fixed order independent of the plan: parameters
 * (layers[0].attn.wq) and optimizer state (layers[0].attn.wq.m). */
const sc_state_set *sc_trainer_states(const sc_trainer *trainer);
/* Returns a full tensor by its index in the set, row-major, exact as f64; malloc'd, data NULL after
 * a message. */
sc_array sc_trainer_get_state(const sc_trainer *trainer, uint32_t index);

/* Sets the parameters from --weights, or to initial values by --seed; master copies get the
 * unrounded values. False after messages. */
bool sc_fill_parameters(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                        sc_executor *executor);

/* Sets the parameters from a checkpoint, --state, or else as sc_fill_parameters: for commands that
 * only read them. False after messages. */
bool sc_read_parameters(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                        sc_executor *executor);

/* Adds a note if the parameters are initial values, for commands whose results depend on them. */
void sc_note_initial_weights(sc_context *context, const sc_facts *facts,
                             const sc_run_options *options, const sc_executor *executor);

#endif
