/* What can be said of each value before anything runs, from all that it is computed from. */
#ifndef SHARDC_TOOLS_VERIFY_ERROR_BOUNDS_H
#define SHARDC_TOOLS_VERIFY_ERROR_BOUNDS_H

#include "tools/driver/random_inputs.h"

typedef struct sc_reach {
    bool exact;     /* on integer inputs: an integer below 2^53, and so is everything on the way; no order of sums changes a bit */
    double bound;   /* then: on its magnitude */
    bool decided;   /* a comparison or rounding of floats stands upstream: the smallest difference may change it completely */
    uint32_t depth; /* the longest chain of ops that round */
    double unit;    /* half the last place of the narrowest float dtype upstream, relative: 2^-8 for bf16 */
} sc_reach;

/* One entry a value, in the arena. Values of other functions are zero. */
sc_reach *sc_reach_find(const sc_module *m, sc_func_id func, const sc_draws *draws);

#endif
