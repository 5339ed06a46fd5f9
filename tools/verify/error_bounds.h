/* Static properties of each value, derived from everything it is computed from. */
#ifndef SHARDC_TOOLS_VERIFY_ERROR_BOUNDS_H
#define SHARDC_TOOLS_VERIFY_ERROR_BOUNDS_H

#include "tools/driver/random_inputs.h"

typedef struct sc_error_bounds {
    /* on integer inputs this value and everything upstream are integers below 2^53, so the order of
     * sums cannot change a bit */
    bool exact;
    double bound; /* if exact: a bound on its magnitude */
    /* a comparison or rounding of floats is upstream: the smallest difference may change it
     * completely */
    bool decided;
    uint32_t depth; /* longest chain of rounding ops upstream */
    double unit;    /* half an ulp of the narrowest float dtype upstream, relative: 2^-8 for bf16 */
} sc_error_bounds;

/* Returns one entry per value, in the arena. Values of other functions are zero. */
sc_error_bounds *sc_error_bounds_find(const sc_module *m, sc_func_id func,
                                      const sc_random_inputs *distributions);

#endif
