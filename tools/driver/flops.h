/* FLOP counts of a program, the basis for FLOP/s. */
#ifndef SHARDC_TOOLS_DRIVER_FLOPS_H
#define SHARDC_TOOLS_DRIVER_FLOPS_H

#include "ir/ops/ops.h"

/* Counts the multiplications and additions of matmuls in one run of the module's schedule, over all
 * ranks: 2 m n k for each dot and for the matmuls of attention (two forward, five backward, since
 * scores are recomputed). Work repeated by several ranks counts once. */
/* Counts one call of a function. */
double sc_func_flops(const sc_module *m, sc_func_id func);
double sc_schedule_flops(const sc_module *m);
/* Counts those of them that compute again what was computed before: of the phase recompute. */
double sc_schedule_flops_recomputed(const sc_module *m);
/* Counts what one rank computes in one run of a LOCAL module's schedule, by its shards. Repeated
 * work counts on each rank. */
double sc_rank_flops(const sc_module *m);
/* Counts the part of sc_rank_flops that every rank along an axis repeats. */
double sc_rank_flops_repeated(const sc_module *m, uint32_t axis);

#endif
