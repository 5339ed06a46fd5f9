/* How an entry that is not trained runs as several micro-batches of a pipeline. */
#ifndef SHARDC_IR_BATCHES_H
#define SHARDC_IR_BATCHES_H

#include "ir/graph.h"
#include "support/join.h"

typedef struct sc_batches {
    uint32_t count; /* at least 2: those of the pipeline's schedule */
    sc_dim dim;     /* that they split, in the modules of one micro-batch */
    uint32_t result_count;
    const uint8_t *joins; /* by result: sc_join */
} sc_batches;

#endif
