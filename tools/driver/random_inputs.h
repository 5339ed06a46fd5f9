/* Chooses the distributions of random inputs and state of a function from how it uses them. */
#ifndef SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H
#define SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H

#include "ir/ops/ops.h"
#include "runtime/drive/random_values.h"

typedef struct sc_draws {
    SC_VEC(sc_draw) inputs; /* in function order */
    sc_draw *state;         /* indexed by state */
} sc_draws;

/* Analyses how the function uses its inputs and parameters. */
void sc_draws_find(const sc_module *m, sc_func_id func, sc_draws *out);

#endif
