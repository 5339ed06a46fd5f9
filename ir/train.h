/* A `minimize` statement and the training lines of a plan, resolved against one elaborated entry.
 * Filled by the frontend, read by the passes that build a train step. */
#ifndef SHARDC_IR_TRAIN_H
#define SHARDC_IR_TRAIN_H

#include "ir/graph.h"
#include "program/optimizer.h"

/* `reshard after ..`: when the gathered copy of a stored parameter is dropped. */
typedef enum sc_reshard_after {
    SC_RESHARD_AFTER_FORWARD,
    SC_RESHARD_AFTER_USE,
    SC_RESHARD_AFTER_STEP
} sc_reshard_after;

typedef struct sc_trained_param {
    uint32_t state;  /* in module->state */
    uint32_t group;  /* in groups */
    bool decays;     /* weight decay applies: a dot contracts it, a gather reads it, or decay_all */
    sc_dtype grad;   /* dtype in which its gradient is accumulated */
    sc_dtype reduce; /* dtype in which its gradient is communicated */
    /* dtype of its optimizer state, and of a master copy if wider than the parameter */
    sc_dtype opt;
    bool opt_host; /* its optimizer state is kept in host memory */
    /* 1 + the line that does, in module->rules; 0: none */
    uint32_t opt_rule;
} sc_trained_param;

typedef struct sc_training {
    SC_VEC(sc_optimizer_settings) groups; /* groups[0] has the default clip */
    /* in the order of module->state; parameters not listed are frozen */
    SC_VEC(sc_trained_param) params;
    int64_t micro_batches; /* at least 1 */
    sc_loc accumulate;     /* location of the `accumulate` line */
    /* the dim that micro-batches split; SC_NONE without `accumulate` */
    sc_dim batch_dim;
    /* by op of the entry: its recomputed region, from 1; 0: none. NULL: no `remat` */
    uint32_t *region;
    /* by value: saved for the backward pass despite `remat`; NULL: none */
    bool *saved;
    /* scope of an op, or path of a value -> the unit with which its saved activations are kept in
     * host memory */
    sc_map act_host;
    SC_VEC(uint32_t) act_rules; /* by that unit: the line, in module->rules */
    uint8_t *reshard;           /* by state: sc_reshard_after; NULL: all as `reshard_otherwise` */
    sc_reshard_after reshard_otherwise;
} sc_training;

/* A train step that has been built: its two functions and facts about their values. */
typedef struct sc_train_step {
    /* forward and backward of one micro-batch; adds gradients and the objective to accumulators */
    sc_func_id micro;
    /* once per step: reduces, scales, clips, updates; returns loss, gradient norm, metrics */
    sc_func_id update;
    uint32_t metric_count;
    /* dynamic loss scaling, because f16 overflows; after the norm `update` returns whether the step
     * was taken */
    bool scales;
    const sc_training *training;
    SC_VEC(sc_value)
    like; /* by value: the value whose placement it copies (a cotangent: its primal's; a recomputed
             value: the original's), or SC_NONE */
    /* by op: the forward op that it differentiates or recomputes, or SC_NONE */
    SC_VEC(sc_op_id) origin;
    /* by state: the parameter that a gradient or optimizer state belongs to, or SC_NONE */
    SC_VEC(uint32_t) param_of;
} sc_train_step;

static inline sc_value sc_like_of(const sc_train_step *step, sc_value value)
{
    return step == NULL || value >= step->like.count ? SC_NONE : step->like.data[value];
}

static inline sc_op_id sc_origin_of(const sc_train_step *step, sc_op_id op)
{
    return step == NULL || op >= step->origin.count ? SC_NONE : step->origin.data[op];
}

#endif
