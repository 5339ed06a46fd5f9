/* What a minimize statement and the training lines of a plan say, resolved against one built entry: the frontend fills it, the passes that
 * make a train step read it. */
#ifndef SHARDC_IR_TRAIN_H
#define SHARDC_IR_TRAIN_H

#include "ir/graph.h"
#include "program/optimizer.h"

/* `reshard after ..`: when a gathered copy of a stored parameter is dropped. */
typedef enum sc_reshard_after { SC_RESHARD_AFTER_FORWARD, SC_RESHARD_AFTER_USE, SC_RESHARD_AFTER_STEP } sc_reshard_after;

typedef struct sc_trained_param {
    uint32_t state;  /* in module->state */
    uint32_t group;  /* in groups */
    bool decays;     /* weight decay applies: a dot contracts it or a gather reads it, or decay_all */
    sc_dtype grad;   /* of its gradient as accumulated */
    sc_dtype reduce; /* of its gradient as it travels */
    sc_dtype opt;    /* of its optimizer state, and of a master copy where that is wider than the parameter */
} sc_trained_param;

typedef struct sc_training {
    SC_VEC(sc_optimizer_settings) groups; /* the first one has the defaults' clip */
    SC_VEC(sc_trained_param) params;      /* in the order of module->state; parameters that are not here are frozen */
    int64_t micro_batches;                /* at least 1 */
    sc_loc accumulate;                    /* the line that says so */
    sc_dim batch_dim;                     /* that micro-batches split; SC_NONE without `accumulate` */
    uint32_t *region;                     /* by op of the entry: the recomputed region it belongs to, from 1; 0: none. NULL: no `remat` */
    bool *saved;                          /* by value: kept for the backward pass all the same; NULL: none */
    uint8_t *reshard;                     /* by state: sc_reshard_after; NULL: all after forward */
} sc_training;

/* A train step that was built: two functions, and what is known of their values. */
typedef struct sc_train_step {
    sc_func_id micro;  /* forward and backward of one micro-batch; leaves gradients and the objective in accumulators */
    sc_func_id update; /* once a step: reduces, scales, clips, steps; returns loss, gradient norm, metrics */
    uint32_t metric_count;
    bool scales; /* dynamic loss scaling: values in f16 overflow; `update` returns after the norm whether the step was taken */
    const sc_training *training;
    SC_VEC(sc_value)
    like; /* by value: whose placement it takes (a cotangent: its primal's; a recomputed value: the original's), or SC_NONE */
    SC_VEC(sc_op_id) origin;   /* by op: the forward op that it is the derivative of, or computes again; SC_NONE */
    SC_VEC(uint32_t) param_of; /* by state: the parameter that a gradient or optimizer state belongs to, or SC_NONE */
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
