/* Chooses the distributions of random inputs and state of a function from how it uses them. */
#ifndef SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H
#define SHARDC_TOOLS_DRIVER_RANDOM_INPUTS_H

#include "ir/ops/ops.h"
#include "runtime/drive/random_values.h"

typedef struct sc_random_inputs {
    SC_VEC(sc_distribution) inputs; /* in function order */
    sc_distribution *state;         /* indexed by state */
} sc_random_inputs;

/* Analyses how the function uses its inputs and parameters. */
void sc_random_inputs_find(const sc_module *m, sc_func_id func, sc_random_inputs *out);

#endif
