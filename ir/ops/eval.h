/* Interface of the eval functions of ops.def (one op on one rank, in f64), and rounding to a
 * dtype. */
#ifndef SHARDC_IR_OPS_EVAL_H
#define SHARDC_IR_OPS_EVAL_H

#include "ir/ops/ops.h"
#include "support/array.h"

_Static_assert((int)SC_ARRAY_MAX_RANK == (int)SC_MAX_RANK, "an array holds any value");

/* Position in training, on which dropout masks depend in addition to the op and the element. */
typedef struct sc_random {
    uint64_t seed, step; /* only the low 32 bits of the step are used */
    uint32_t micro_batch;
} sc_random;

/* Input and output of an op's eval: the local arrays of one rank, with local sizes. Global
 * indices follow from the op's `offset` attribute; without it they are the local ones, so a pass
 * that forgets the attribute yields wrong values and is caught. */
typedef struct sc_eval {
    const sc_module *m;
    const sc_op *op;
    uint64_t rank; /* in the mesh; 0 in a global program */
    const sc_array *operands[SC_MAX_FIXED_OPERANDS];
    const sc_type_info *operand_types[SC_MAX_FIXED_OPERANDS]; /* with global sizes and placements */
    /* allocated by the caller with local sizes, zeroed */
    sc_array results[SC_MAX_FIXED_RESULTS];
    const sc_type_info *result_types[SC_MAX_FIXED_RESULTS];
    sc_random random;
    bool round; /* the caller rounds results to their dtype; eval itself computes in f64 */
    /* set when eval returns false: a run-time error (id out of range, cache overflow) */
    char error[256];
} sc_eval;

/* Which elements of a leaf the rank has, from the op's `offset` attribute. */
typedef struct sc_eval_shard {
    sc_shard_order order;
    int64_t number, local;
} sc_eval_shard;

sc_eval_shard sc_eval_shard_of(const sc_eval *eval, sc_dim leaf);
/* The global index of the rank's element i; and the reverse, -1 if the rank does not have it. */
int64_t sc_eval_position(const sc_eval_shard *shard, int64_t i);
int64_t sc_eval_place(const sc_eval_shard *shard, int64_t position);

/* Rounds to a dtype. f32, bf16, f16: to nearest even, with subnormals and overflow to inf.
 * Integers: truncation, as a cast does; u8 and i32 wrap. bool: != 0. f64: unchanged. */
double sc_round_to(sc_dtype dtype, double value);
void sc_round_array(sc_dtype dtype, double *data, int64_t count);

typedef bool sc_eval_fn(sc_eval *eval);

/* One for each function in the column; eval_none is no function, but the word for none. */
#define OP(name, in, roles, shape, eval, ...) sc_eval_fn eval_##eval;
#include "ir/ops/ops.def"
#undef OP

#endif
