/* The reference interpreter: runs any module in f64, as one device (a global module: every
 * placement replicated) or as all ranks of the mesh in lockstep; with a pipeline, the ranks of one
 * stage at a time, in the order of the calls. Everything else is compared with it, so it is written
 * to be obviously correct; only `dot` is optimized. Integers and bools are stored as doubles (exact
 * up to 2^53).
 *
 * An interpreter owns its memory (malloc, freed by sc_interp_free) and never allocates in the
 * context's arena. Not thread-safe. */
#ifndef SHARDC_IR_INTERP_INTERP_H
#define SHARDC_IR_INTERP_INTERP_H

#include "ir/ops/eval.h"

typedef struct sc_interp_options {
    /* false: one device, ignoring placements, with collectives as identities; true: all ranks */
    bool ranks;
    /* fill the padding of every result with NaN (integers: 2^30) to expose ops that read it */
    bool poison;
    bool round; /* round each result to its dtype; false: floats stay f64 */
    /* optional; called between ops; returning false stops the run with an error */
    bool (*tick)(void *user);
    void *user;
} sc_interp_options;

typedef struct sc_interp sc_interp;

/* Returns NULL if out of memory. State is zero-initialized. */
sc_interp *sc_interp_new(const sc_module *m, const sc_interp_options *options);
void sc_interp_free(sc_interp *interp);

/* Sets state from its global value, row-major in the type's dim order, on every stage whose
 * functions use it; each rank keeps its shard. False if out of memory, or for a slot. */
bool sc_interp_set_state(sc_interp *interp, uint32_t state, const double *global);
/* Returns the global value of state (malloc'd, freed by the caller), no data for a slot. If
 * replicas of a shard, or the copies of several stages, differ in any bit, *agree (may be NULL) is
 * set to false. */
sc_array sc_interp_get_state(const sc_interp *interp, uint32_t state, bool *agree);

/* Sets seed, step and micro-batch of subsequent runs; initially 0. sc_interp_run_call sets the
 * micro-batch itself. */
void sc_interp_set_random(sc_interp *interp, uint64_t seed, uint64_t step, uint32_t micro_batch);

/* Runs one function. inputs[i] is the global value of the i-th `input` op in function order.
 * outputs (the caller's array, one per operand of `return`) receive global values, malloc'd. On
 * failure `error` (at least 512 bytes) names the op, value and rank. */
bool sc_interp_run(sc_interp *interp, sc_func_id func, const sc_array *inputs, uint32_t input_count,
                   sc_array *outputs, uint32_t output_count, char *error, size_t error_size);

/* Values of an entry's inputs by name: a function of a pipeline reads those that it needs. Without
 * names they are those of the function's `input` ops in order. */
typedef struct sc_interp_inputs {
    const sc_sym *names;    /* NULL: none */
    const sc_array *values; /* global */
    uint32_t count;
} sc_interp_inputs;

/* Runs one call of a schedule, on the ranks of the function's stage. Dropout, slots, sends and
 * receives are those of the call's micro-batch. Receiving what has not been sent is an error.
 * Outputs and errors are those of sc_interp_run. */
bool sc_interp_run_call(sc_interp *interp, const sc_call *call, const sc_interp_inputs *inputs,
                        sc_array *outputs, uint32_t output_count, char *error, size_t error_size);

/* Keeps the op results for which `keep(m, value, user)` is true in subsequent runs, for
 * sc_interp_get_value. That reduces partial reductions and sets *agree to false if replicas
 * disagree. */
void sc_interp_keep(sc_interp *interp, bool (*keep)(const sc_module *m, sc_value value, void *user),
                    void *user);
sc_array sc_interp_get_value(const sc_interp *interp, sc_value value, bool *agree);

/* Communicated bytes are not counted here: see passes/comm_report.h. */

#endif
