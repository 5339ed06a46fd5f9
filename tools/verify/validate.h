/* Translation validation: the global program and the per-rank program are interpreted on the same random inputs and must agree in every
 * output, every cache and every value that has a name in both. It does not look at how the one was made from the other. */
#ifndef SHARDC_TOOLS_VERIFY_VALIDATE_H
#define SHARDC_TOOLS_VERIFY_VALIDATE_H

#include "program/target.h"
#include "tools/verify/difference.h"
#include "tools/verify/shrink.h"

typedef struct sc_validate_options {
    bool full;   /* never shrink */
    bool dtypes; /* a further run with every cast in force, within what the dtypes resolve */
    uint64_t seed;
    const sc_target *target; /* of emitted code: what runs it; NULL: the CPU */
} sc_validate_options;

typedef struct sc_validate_result {
    bool equal;
    uint32_t values, caches, states, outputs; /* compared on random inputs; states: gradients, parameters, .. of a train step */
    uint32_t exact;                           /* compared bit for bit on integers */
    uint32_t rounded, undecided;              /* --dtypes: compared, and left out because they hang on a decision (argmax, <) */
    uint64_t ranks;                           /* of the mesh that was run */
    double max_error;          /* largest |a - b| on random inputs, over max|tensor| + 1e-3 max over all tensors of the kind */
    double max_rounding_error; /* largest |a - b| with --dtypes, over what the dtypes resolve there: up to 1 is equal */
    sc_shrunk_list shrunk;
    sc_difference first;
} sc_validate_result;

/* |a - b| <= 1e-9 max|tensor| + 1e-12 max over all tensors of the kind. */
#define SC_VALIDATE_TOLERANCE 1e-9

/* Compares `func` of both modules, which share a context. Any modules will do, broken ones too: an error of the interpreter counts as a
 * difference. Sizes are shrunk while this runs, and put back. Returns result->equal. Of a train step the whole schedule runs, the global
 * program's, which the other one has to share; then the update by itself at its limits: without clipping, with nothing to divide by,
 * and, with loss scaling, after an overflow.
 *
 * With `dtypes`, equal means |a - b| <= 8 u sqrt(depth) (max|tensor| + 1e-3 max of the kind) + 4 e: u is half the last place of the
 * narrowest float dtype upstream, depth the longest chain of rounding ops, whose errors add up like a random walk, and e the largest
 * error that the global program's own roundings give this tensor, measured against a run without them. */
bool sc_validate(sc_module *global, sc_module *local, sc_func_id func, const sc_validate_options *options, sc_validate_result *result);

#endif
