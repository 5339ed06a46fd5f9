/* The arithmetic of a program: what a rate of it is measured by. */
#ifndef SHARDC_TOOLS_DRIVER_FLOPS_H
#define SHARDC_TOOLS_DRIVER_FLOPS_H

#include "ir/ops/ops.h"

/* Multiplications and additions of the products in one run of the module's schedule, over all ranks together: 2 m n k for each dot, and
 * for those inside attention (two forward, five backward: the scores are recomputed). Work that several ranks repeat counts once. */
/* Of one call of a function. */
double sc_func_flops(const sc_module *m, sc_func_id func);
double sc_schedule_flops(const sc_module *m);
/* What one rank computes in one run of a LOCAL module's schedule: the same, of its shards; what ranks repeat counts for each. */
double sc_rank_flops(const sc_module *m);
/* Those of them that every rank along an axis does alike. */
double sc_rank_flops_repeated(const sc_module *m, uint32_t axis);

#endif
