/* A train step being run: the compiled functions and schedule, with parameters, optimizer state and counters. */
#ifndef SHARDC_TOOLS_TRAINER_H
#define SHARDC_TOOLS_TRAINER_H

#include "tools/runner.h"

typedef struct sc_trainer sc_trainer;

typedef struct sc_step_result {
    double loss, grad_norm, lr; /* grad_norm: before clipping */
    uint32_t metric_count;
    const double *metrics; /* in the entry's order; the trainer's, until the next step */
    bool skipped;
} sc_step_result;

/* Parameters are those of --weights, or initial values. NULL after messages. */
sc_trainer *sc_trainer_new(sc_context *context, const sc_compiled *c, const sc_options *options);
void sc_trainer_free(sc_trainer *trainer); /* NULL is allowed */

/* One optimizer step. `inputs` are whole, of the global batch, by input in function order. False after messages. */
bool sc_trainer_step(sc_trainer *trainer, const sc_array *inputs, uint32_t count, sc_step_result *out);
/* The objective of one batch, forward only: no dropout, no update. What several batches give is the sum of totals over the sum of weights;
 * a scalar entry weighs 1. False after messages. */
bool sc_trainer_evaluate(sc_trainer *trainer, const sc_array *inputs, uint32_t count, double *total, double *weight);

/* Steps done so far; a schedule of the learning rate goes on from there. */
uint64_t sc_trainer_steps(const sc_trainer *trainer);
void sc_trainer_set_steps(sc_trainer *trainer, uint64_t steps);

/* All that a step changes, by index in a fixed order that no plan decides: parameters (layers[0].attn.wq) and optimizer state
 * (layers[0].attn.wq.m). Values are global and row-major, exact as f64: what get gives and set takes is the same to the bit. */
uint32_t sc_trainer_state_count(const sc_trainer *trainer);
const char *sc_trainer_state_name(const sc_trainer *trainer, uint32_t index);
sc_array sc_trainer_get_state(const sc_trainer *trainer, uint32_t index); /* malloc'd; data NULL: no memory */
bool sc_trainer_set_state(sc_trainer *trainer, uint32_t index, const sc_array *array);

#endif
