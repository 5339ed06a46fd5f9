/* Validates emitted code. The code generated from the per-rank module runs in a session, one thread
 * per rank; the global module runs on the interpreter in f64, from the same random state and
 * inputs. All outputs and states must agree after the last call of each function, then after the
 * update alone at its limits. The code must give bit-identical results when it runs again, with two
 * threads per rank instead of one, and with the last micro-batch and the update joined into one
 * function, as in real steps, with its collectives in flight during computation. Calls of
 * collectives and bytes sent must match sc_comm_report.
 *
 * Equality. State and inputs are first rounded to their dtypes, so both sides start from the same
 * numbers; the interpreter rounds nothing after that. With b the interpreter's tensor and a the
 * code's:
 *
 *     |a - b| <= t |b| + 8 s + 4 u L      (norms over the tensor)
 *
 * u is half an ulp of the narrowest float dtype upstream, and t the tolerance for it: 2e-2 for bf16
 * and f16, 1e-5 for f32, 1e-9 for f64. A tensor without floats upstream must be identical. s
 * measures the conditioning: the largest distance from b to an interpreter run in which every
 * result is rounded to its dtype and every float of the start is perturbed by u. A backward stable
 * algorithm is exact for such a start (Higham, "Accuracy and Stability of Numerical Algorithms",
 * 2nd ed., section 1.5), up to the number of terms that it adds. L is the scale of values that
 * cancel in a difference: the root mean square of the largest tensor of the kind, times the square
 * root of the tensor's element count; the code's fused multiply-adds do not round where the
 * interpreter does. If s exceeds a tenth of |b| the tensor is not informative and counted as
 * undecided.
 *
 * A tensor that depends on a decision (a chosen expert, a comparison) and differs by more is
 * examined further: the interpreter runs sixteen more times, from starts perturbed by the u of the
 * narrowest dtype. If these runs differ from b at least half as much as a does, the decision is
 * open, and other inputs are drawn until none is open. After eight draws, what is still open is
 * compared within twice the difference of these runs. Anything else is an error. */
#ifndef SHARDC_TOOLS_VERIFY_COMPILED_H
#define SHARDC_TOOLS_VERIFY_COMPILED_H

#include "tools/driver/driver.h"
#include "tools/verify/validate.h"

typedef struct sc_compiled_result {
    bool equal;
    uint32_t states, outputs;  /* compared on random inputs and equal */
    uint32_t limits;           /* compared after updates at their limits */
    uint32_t undecided;        /* undecided ones among all of these */
    uint32_t redrawn;          /* starts replaced because a decision was open */
    double max_error;          /* largest |a - b| over the allowed error; at most 1 if equal */
    double max_relative_error; /* largest |a - b| / |b| of the decided ones */
    sc_sym worst;              /* path of that tensor; 0: an output without a name */
    uint64_t ranks;            /* of the mesh that ran */
    uint64_t collectives;      /* calls per rank, for the entry or a step */
    double sent;               /* bytes sent in it by the rank that sends most */
    sc_shrunk_list shrunk;
    /* `run` may also be "again", "two threads a rank" (on GPUs "a second session"), "joined",
     * "collectives" */
    sc_difference first;
} sc_compiled_result;

/* Validates the code of a program, compiled up to FUSED, with the program as it was built. Of a
 * program of stages whole steps run: no function alone, and no limits. Returns
 * false if they differ or, without a difference, if nothing could run, which is reported. Ignores
 * options->dtypes. Sizes are shrunk during the call and restored. */
bool sc_validate_compiled(const sc_compiled *program, const sc_validate_options *options,
                          sc_compiled_result *result);

#endif
