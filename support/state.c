#include "support/state.h"

#include <math.h>

#include "support/rng.h"

/* As in rng.c: no bit of a value may depend on the compiler. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

const char *const sc_state_kind_names[SC_STATE_KINDS] = {
    [SC_STATE_PARAM] = "param", [SC_STATE_CACHE] = "cache",   [SC_STATE_GRAD] = "grad",
    [SC_STATE_OPT] = "opt",     [SC_STATE_SCALAR] = "scalar", [SC_STATE_GATHERED] = "gathered",
    [SC_STATE_SUM] = "sum",     [SC_STATE_SLOT] = "slot",
};

const char *const sc_init_kind_names[SC_INIT_KINDS] = {
    [SC_INIT_ZEROS] = "zeros",   [SC_INIT_ONES] = "ones",       [SC_INIT_CONSTANT] = "constant",
    [SC_INIT_NORMAL] = "normal", [SC_INIT_UNIFORM] = "uniform", [SC_INIT_XAVIER] = "xavier",
};

const uint8_t sc_init_kind_args[SC_INIT_KINDS] = {
    [SC_INIT_CONSTANT] = 1,
    [SC_INIT_NORMAL] = 1,
    [SC_INIT_UNIFORM] = 2,
    [SC_INIT_XAVIER] = 2,
};

static void fill_uniform(double low, double width, uint64_t seed, uint64_t stream, uint64_t first,
                         uint64_t count, double *out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = low + width * sc_rng_uniform(seed, stream, first + i);
}

static void fill_xavier(double bound, uint64_t seed, uint64_t stream, uint64_t first,
                        uint64_t count, double *out)
{
    for (uint64_t i = 0; i < count; i++)
        out[i] = bound * (2 * sc_rng_uniform(seed, stream, first + i) - 1);
}

void sc_init_values(sc_init_kind kind, const double args[2], uint64_t seed, uint64_t stream,
                    uint64_t first, uint64_t count, double *out)
{
    double a = args[0], b = args[1], constant = 0;
    switch (kind) {
    case SC_INIT_NORMAL:
        sc_rng_normals(seed, stream, first, count, out);
        for (uint64_t i = 0; i < count; i++)
            out[i] = a * out[i];
        return;
    case SC_INIT_UNIFORM:
        fill_uniform(a, b - a, seed, stream, first, count, out);
        return;
    case SC_INIT_XAVIER: /* Glorot and Bengio, AISTATS 2010, equation 16 */
        fill_xavier(a + b > 0 ? sqrt(6 / (a + b)) : 0, seed, stream, first, count, out);
        return;
    case SC_INIT_ONES:
        constant = 1;
        break;
    case SC_INIT_CONSTANT:
        constant = a;
        break;
    default:
        break;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = constant;
}
