/* Translation validation: the global program and the per-rank program are interpreted on the same
 * random inputs and must agree in every output, every cache and every value that has a name in
 * both. Independent of how the one was made from the other. */
#ifndef SHARDC_TOOLS_VERIFY_VALIDATE_H
#define SHARDC_TOOLS_VERIFY_VALIDATE_H

#include "program/target.h"
#include "tools/verify/difference.h"
#include "tools/verify/shrink.h"

typedef struct sc_validate_options {
    bool full;   /* never shrink */
    bool dtypes; /* adds a run with all casts applied, compared within the dtypes' resolution */
    uint64_t seed;
    const sc_target *target; /* of emitted code: the target that runs it; NULL: the CPU */
} sc_validate_options;

typedef struct sc_validate_result {
    bool equal;
    /* compared on random inputs; states: gradients, parameters, .. of a train step */
    uint32_t values, caches, states, outputs;
    uint32_t exact; /* compared bit for bit on integers */
    /* --dtypes: compared; omitted because they depend on a decision (argmax, <) */
    uint32_t rounded, undecided;
    uint64_t ranks; /* of the mesh that ran */
    /* largest |a - b| on random inputs, relative to max|tensor| + 1e-3 max over all tensors of the
     * kind */
    double max_error;
    /* largest |a - b| with --dtypes, relative to the allowed error; at most 1 if equal */
    double max_rounding_error;
    sc_shrunk_list shrunk;
    sc_difference first;
} sc_validate_result;

/* |a - b| <= 1e-9 max|tensor| + 1e-12 max over all tensors of the kind. */
#define SC_VALIDATE_TOLERANCE 1e-9

/* Compares `func` of both modules, which share a context. Modules may be invalid: an error of the
 * interpreter counts as a difference. Sizes are shrunk during the call and restored. Returns
 * result->equal. For a train step, runs the whole schedule of the global program, which the
 * per-rank program must share; then the update alone at its limits: without clipping, with an empty
 * batch, and, with loss scaling, after an overflow.
 *
 * With `dtypes`, equal means |a - b| <= 8 u sqrt(depth) (max|tensor| + 1e-3 max of the kind) + 4 e.
 * u is half an ulp of the narrowest float dtype upstream; depth is the longest chain of rounding
 * ops, whose errors add up like a random walk; e is the largest error from the global program's own
 * rounding of this tensor, measured by a run without rounding. */
bool sc_validate(sc_module *global, sc_module *local, sc_func_id func,
                 const sc_validate_options *options, sc_validate_result *result);

#endif
