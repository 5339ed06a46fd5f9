/* The order in which the stages of a pipeline run, as one list. */
#ifndef SHARDC_PASSES_CUT_STAGES_H
#define SHARDC_PASSES_CUT_STAGES_H

#include "ir/pipeline/pipeline.h"

/* Merges the orders of all ranks into one in which every action comes after those whose values it
 * reads. Returns the number of actions, or fewer than there are if the orders never end; `out` has
 * room for all. */
uint32_t sc_merge_actions(sc_arena *arena, const sc_pipeline_schedule *schedule, sc_action *out);

#endif
