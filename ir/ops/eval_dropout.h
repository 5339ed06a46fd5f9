/* Dropout masks. Whether an element is dropped depends only on (seed, path of the op, step,
 * micro-batch, global index of the element), never on the mesh. Philox 4x32-10 with key (seed,
 * path) and counter (index low, index high, step, micro-batch) gives a uniform number; the element
 * is dropped if that is below p. */
#ifndef SHARDC_IR_OPS_EVAL_DROPOUT_H
#define SHARDC_IR_OPS_EVAL_DROPOUT_H

#include "ir/ops/eval_walk.h"

typedef struct sc_dropout {
    double p; /* 0: no dropout */
    uint32_t key[2], step, micro_batch;
    uint32_t rank;
    sc_dim dims[SC_MAX_RANK];
    int64_t strides[SC_MAX_RANK]; /* in the global array, without padding */
    sc_eval_shard shards[SC_MAX_RANK];
} sc_dropout;

/* Initializes from the op's attributes p and seed, for an array of these dims. */
void sc_dropout_init(const sc_eval *eval, const sc_dim *dims, uint32_t rank, sc_dropout *dropout);
/* Returns the row-major global index of the walk's current element; a dim that the walk lacks
 * counts as 0. */
int64_t sc_dropout_index(const sc_dropout *dropout, const sc_walk *walk);
/* Returns the factor of an element: 0 or 1 / (1 - p). */
double sc_dropout_factor(const sc_dropout *dropout, int64_t index);

#endif
