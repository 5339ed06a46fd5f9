/* Running an entry here: parameters initialised or read, inputs from files, results back. */
#ifndef SHARDC_TOOLS_EVALUATE_H
#define SHARDC_TOOLS_EVALUATE_H

#include "tools/runner.h"

typedef struct sc_evaluation {
    const sc_module *m; /* what was run: the per-rank program, or the global one on one device */
    uint32_t output_count;
    sc_value *outputs;        /* the values returned */
    sc_array *arrays;         /* of the last batch, whole; malloc'd */
    double *sums;             /* by output, over the batches; of scalars */
    uint64_t batches;         /* that were run */
    uint64_t batches_in_file; /* that --data holds; 0 without */
    bool is_scalar;           /* every output is one number */
} sc_evaluation;

/* Runs the compiled entry as the options say: seed or weights and map, inputs, data, steps. False after messages; free it in any case.
 *
 * Inputs come from --input by name, then tokens from --data for the first two i32 inputs that have none (rows one after the other, the
 * second input shifted by one token), then pos = 0 and pos_len = S in a cached entry. Everything that is missing or does not fit is
 * reported. Values are rounded to the dtypes of the IR, as they are on a device. */
bool sc_evaluate(sc_context *context, const sc_compiled *c, const sc_options *options, sc_evaluation *out);
void sc_evaluation_free(sc_evaluation *evaluation);

/* Parameters of --weights, else their initial values by --seed; master copies get them unrounded. False after messages. */
bool sc_fill_parameters(sc_context *context, const sc_compiled *c, const sc_options *options, sc_runner *runner);

/* A parameter's initial values, global and row-major: element i depends on (seed, path, i) alone. `values` has room for all. */
void sc_initial_values(const sc_module *m, uint32_t state, uint64_t seed, double *values);

#endif
