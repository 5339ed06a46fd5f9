/* Shared by the files of cut-stages. */
#ifndef SHARDC_PASSES_CUTTING_H
#define SHARDC_PASSES_CUTTING_H

#include "ir/pipeline/pipeline.h"
#include "passes/pass.h"
#include "passes/reshard_path.h"
#include "passes/segments.h"

typedef struct sc_cutting {
    sc_module *m;
    const sc_pipeline *pipeline;
    const sc_train_step *step; /* NULL: an entry that is not trained */
    sc_func_id micro;          /* the entry, or the pass of one micro-batch */
    uint32_t batches;          /* of an entry: its micro-batches */
    uint32_t results;          /* the stage that computes the results: that of the last chunk */
    uint64_t *owners;          /* by state: the stages that have it, a bit each */
    sc_sym forward;            /* the word of that phase */
    uint32_t prefetch;         /* as of the pass's environment */
    sc_planner *planner;       /* prices what crosses a cut */
} sc_cutting;

/* Adds slices and gathers for what is cheaper sent in parts. The ops of `micro` have their chunks;
 * `backward`: by op, true in the backward pass. Returns false if there is nothing to add. */
bool sc_send_parts(sc_cutting *c, const sc_segments *segments, const uint8_t *backward);
/* Replaces the pass of one micro-batch by functions of chunks, and the schedule by theirs. */
void sc_cut_micro(sc_cutting *c);
/* Replaces `update` by functions of stages and appends their calls to the schedule. */
void sc_cut_update(sc_cutting *c);

#endif
