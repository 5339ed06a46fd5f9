/* How inputs and state of a function are drawn at random, from what the function does with them. */
#ifndef SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H
#define SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H

#include "ir/ops/ops.h"
#include "runtime/drive/random_values.h"

typedef struct sc_draws {
    SC_VEC(sc_draw) inputs; /* in function order */
    sc_draw *state;         /* by state */
} sc_draws;

/* Looks at what the function does with its inputs and parameters. */
void sc_draws_find(const sc_module *m, sc_func_id func, sc_draws *out);

#endif
