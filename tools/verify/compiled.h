/* Validation of emitted code: the program that codegen makes of the per-rank module runs in a session, every rank a thread, and the global
 * module on the interpreter in f64, from the same random state and inputs. Every output and every state must agree after each function's
 * last call; then the update by itself at its limits. What the code computes must be the same to the bit when it runs again, and with two
 * threads a rank instead of one; and when the last micro-batch and the update are the one function that steps call, with its collectives
 * under way while it computes. Collectives must be called, and bytes sent, as sc_comm_report says.
 *
 * What is equal. State and inputs are rounded to their dtypes first, so both start from the same numbers; the interpreter then rounds
 * nothing. b is its tensor, a the code's:
 *
 *     |a - b| <= t |b| + 8 s + 4 u L      (norms over the tensor; s and L below)
 *
 * u is half the last place of the narrowest float dtype that takes part upstream and t stands for it: 2e-2 for bf16 and f16, 1e-5 for f32,
 * 1e-9 for f64; a tensor that no float takes part in must be the same. s says how well the question is posed: the largest distance from b
 * to what the interpreter gives when every result is rounded to its dtype and every float of the start is off by u; an algorithm that is
 * backward stable answers exactly for such a start (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., section 1.5), up to
 * the number of terms that it adds. L, the root mean square of the largest tensor of the kind times the root of the tensor's elements, is
 * the scale of what a difference that cancels is taken of: contracted multiply-adds do not round what the interpreter rounds. Where s is
 * more than a tenth of |b|, the tensor says little: it is counted as undecided.
 *
 * What hangs on a decision (an expert that is chosen, a comparison) and differs by more is looked at again: the interpreter runs sixteen
 * times more, from starts that are off by the u of the narrowest dtype. If these differ from b half as much as a does, the decision was
 * open, and other inputs are drawn, until nothing is open; up to eight times, then what is still open is compared within twice what these
 * runs differ. Anything else is a difference. */
#ifndef SHARDC_TOOLS_VERIFY_COMPILED_H
#define SHARDC_TOOLS_VERIFY_COMPILED_H

#include "tools/verify/validate.h"

typedef struct sc_compiled_result {
    bool equal;
    uint32_t states, outputs;  /* compared on random inputs, and found equal */
    uint32_t limits;           /* compared after updates at their limits */
    uint32_t undecided;        /* of all these */
    uint32_t redrawn;          /* starts that were left for others, since a decision was open */
    double max_error;          /* the largest |a - b| over what is allowed: up to 1 */
    double max_relative_error; /* the largest |a - b| / |b| of those that are decided */
    sc_sym worst;              /* whose that is; 0: an output without a name */
    uint64_t ranks;            /* of the mesh that was run */
    uint64_t collectives;      /* calls of a rank: of the entry, or of a step */
    double sent;               /* bytes that the rank that sends most sends in it */
    sc_shrunk_list shrunk;
    sc_difference first; /* `run` also "again", "two threads a rank" (of GPUs "a second session"), "joined", "collectives" */
} sc_compiled_result;

/* `global` as built, `local` FUSED; they share a context. False: they differ, or, without a difference, messages say why nothing was run.
 * options->dtypes has no meaning here. Sizes are shrunk while this runs, and put back. */
bool sc_validate_compiled(sc_module *global, sc_module *local, sc_func_id func, const sc_validate_options *options,
                          sc_compiled_result *result);

#endif
