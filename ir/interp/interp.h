/* The reference interpreter: runs any module in f64, as one device (a global module: every placement replicated) or as all the ranks
 * of the mesh in lock step. It is what everything else is compared with, so it is written to be obviously right first; only `dot` is
 * made fast. Integers and bools are held as doubles (exact to 2^53).
 *
 * An interpreter owns its memory (malloc, freed by sc_interp_free) and never allocates in the context's arena. One thread at a time. */
#ifndef SHARDC_IR_INTERP_INTERP_H
#define SHARDC_IR_INTERP_INTERP_H

#include "ir/ops/eval.h"

typedef struct sc_interp_options {
    bool ranks;               /* false: one device, placements and collectives ignored (collectives are identities); true: every rank */
    bool poison;              /* fill the padding of every result with NaN (integers: 2^30), so that whoever reads it is seen */
    bool round;               /* round each result to its dtype; false: floats stay f64 */
    bool (*tick)(void *user); /* optional; called between ops, false stops the run with an error */
    void *user;
} sc_interp_options;

typedef struct sc_interp sc_interp;

/* NULL when memory ran out. State starts as zeros. */
sc_interp *sc_interp_new(const sc_module *m, const sc_interp_options *options);
void sc_interp_free(sc_interp *interp);

/* Global values in, row-major in the type's dim order; each rank keeps its shard. False: memory. */
bool sc_interp_set_state(sc_interp *interp, uint32_t state, const double *global);
/* Global value out (malloc'd array, caller frees). When replicas of a shard disagree by a bit, *agree (may be NULL) is set false. */
sc_array sc_interp_get_state(const sc_interp *interp, uint32_t state, bool *agree);

/* Of the runs to come; seed, step and micro-batch 0 before. */
void sc_interp_set_random(sc_interp *interp, uint64_t seed, uint64_t step, uint32_t micro_batch);

/* Runs one function. inputs[i] is the global value of the i-th `input` op in function order. outputs (caller's array, as many as
 * `return` has operands) get global values, malloc'd. On false, `error` (at least 512 bytes) says which op, value and rank. */
bool sc_interp_run(sc_interp *interp, sc_func_id func, const sc_array *inputs, uint32_t input_count, sc_array *outputs,
                   uint32_t output_count, char *error, size_t error_size);

/* Asks that values be kept during the next runs, so that sc_interp_get_value can give them: the value of every op result for which
 * `keep(m, value, user)` is true. Partial reductions are reduced when fetched; replicas that disagree set *agree false. */
void sc_interp_keep(sc_interp *interp, bool (*keep)(const sc_module *m, sc_value value, void *user), void *user);
sc_array sc_interp_get_value(const sc_interp *interp, sc_value value, bool *agree);

/* Bytes sent per rank so far by collectives over each set of axes are not counted here: see passes/comm_report.h. */

#endif
