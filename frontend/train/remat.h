/* Private to frontend/train. */
#ifndef SHARDC_FRONTEND_TRAIN_REMAT_H
#define SHARDC_FRONTEND_TRAIN_REMAT_H

#include "frontend/plan/plan.h"

/* Reads the regions and saved values of `remat` lines. */
void sc_plan_read_remat(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                        sc_training *out);

#endif
