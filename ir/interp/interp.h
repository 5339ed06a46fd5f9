/* The reference interpreter: runs any module in f64, as one device (a global module: every placement replicated) or as all the ranks
 * of the mesh in lock step. It is what everything else is held against, so it is written to be obviously right first; only `dot` is
 * made fast. Integers and bools are held as doubles (exact to 2^53).
 *
 * An interpreter owns its memory (malloc, freed by sc_interp_free) and never allocates in the context's arena. One thread at a time. */
#ifndef SHARDC_IR_INTERP_INTERP_H
#define SHARDC_IR_INTERP_INTERP_H

#include "ir/ops/ops.h"
#include "support/array.h"

_Static_assert((int)SC_ARRAY_MAX_RANK == (int)SC_MAX_RANK, "an array holds any value");

/* Where a train step stands: what masks of dropout depend on besides the op and the element. */
typedef struct sc_random {
    uint64_t seed, step; /* of the step, its low 32 bits */
    uint32_t micro_batch;
} sc_random;

/* What an op's eval sees: local arrays of one rank. Operand and result sizes are the local ones. `offset(dim)` is the global index of
 * element 0 of a dim, from the op's `offset` attribute (0 without one: a rank that forgets it computes wrong values, as it should). */
typedef struct sc_eval {
    const sc_module *m;
    const sc_op *op;
    uint64_t rank; /* of the mesh; 0 when global */
    const sc_array *operands[SC_MAX_FIXED_OPERANDS];
    const sc_type_info *operand_types[SC_MAX_FIXED_OPERANDS]; /* global sizes, names, placements */
    sc_array results[SC_MAX_FIXED_RESULTS];                   /* allocated, zero, of local size */
    const sc_type_info *result_types[SC_MAX_FIXED_RESULTS];
    sc_random random;
    bool round;      /* results are rounded to their dtype by the caller; eval computes in f64 */
    char error[256]; /* set with `return false`: a run-time error (id out of range, cache overflow) */
} sc_eval;

/* Global index of element 0 of this leaf on this rank. */
int64_t sc_eval_offset(const sc_eval *eval, sc_dim leaf);

/* Rounds to nearest even into the dtype (f32, bf16, f16: with subnormals and overflow to inf; integers: truncation as a cast does, u8 and
 * i32 wrap; bool: != 0). f64 stays. */
double sc_round_to(sc_dtype dtype, double value);

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
 * `keep(m, value, user)` is true. Pending reductions are reduced when fetched; replicas that disagree set *agree false. */
void sc_interp_keep(sc_interp *interp, bool (*keep)(const sc_module *m, sc_value value, void *user), void *user);
sc_array sc_interp_get_value(const sc_interp *interp, sc_value value, bool *agree);

/* Bytes sent per rank so far by collectives over each set of axes are not counted here: see passes/comm_report.h. */

#endif
