/* `offload` lines of training: optimizer state and saved activations. */
#ifndef SHARDC_FRONTEND_TRAIN_OFFLOAD_H
#define SHARDC_FRONTEND_TRAIN_OFFLOAD_H

#include "frontend/plan/plan.h"

/* Sets opt_host of the trained parameters, and act_host. */
void sc_plan_read_offload(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                          sc_training *out);

#endif
