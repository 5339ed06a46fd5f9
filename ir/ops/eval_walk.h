/* Walking arrays by dim names. A walk is the union of the dims of its arrays, in the order in which they were first seen, with one
 * offset per array: an array that lacks a dim stands still while the others move along it. That is all of broadcasting. */
#ifndef SHARDC_IR_OPS_EVAL_WALK_H
#define SHARDC_IR_OPS_EVAL_WALK_H

#include "ir/ops/eval.h"

enum { SC_WALK_ARRAYS = 16, SC_WALK_DIMS = SC_MAX_FACTORS };

typedef struct sc_walk_dim {
    sc_dim dim;
    int64_t size, index;
    int64_t strides[SC_WALK_ARRAYS]; /* 0 where the array lacks the dim */
} sc_walk_dim;

typedef struct sc_walk {
    uint32_t rank, arrays;
    sc_walk_dim dims[SC_WALK_DIMS];
    int64_t at[SC_WALK_ARRAYS]; /* where each array stands */
} sc_walk;

/* Sets eval->error and returns false. */
bool sc_eval_fail(sc_eval *eval, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sc_eval_dim_name(const sc_eval *eval, sc_dim dim);
/* Size of a leaf over all ranks, of whichever operand or result has it; 0 when none does. */
int64_t sc_eval_global_size(const sc_eval *eval, sc_dim leaf);

void sc_walk_init(sc_walk *walk);
/* Adds one array; false when a dim has two sizes. An absent one (NULL) counts as a scalar that nobody reads. */
bool sc_walk_add(sc_eval *eval, sc_walk *walk, const sc_array *array, const sc_type_info *type);
bool sc_walk_add_result(sc_eval *eval, sc_walk *walk, uint32_t result);
/* The same, or an absent array when the op has no such result. */
bool sc_walk_add_optional(sc_eval *eval, sc_walk *walk, uint32_t result);
bool sc_walk_add_operand(sc_eval *eval, sc_walk *walk, uint32_t operand);
/* Adds the operand called `word` in attribute `with`, or a NULL; *data is its elements or NULL. */
bool sc_walk_add_called(sc_eval *eval, sc_walk *walk, const char *word, const double **data);

/* Takes a dim out of the walk, for a loop of its own. False, with an error, when it is not there. */
bool sc_walk_take(sc_eval *eval, sc_walk *walk, sc_dim dim, sc_walk_dim *taken);
/* Takes the op's only dim of this attribute. */
bool sc_walk_take_attr(sc_eval *eval, sc_walk *walk, sc_attr_key key, sc_walk_dim *taken);
/* Moves the dims of the attribute `dims` into a walk of their own over the same arrays. */
bool sc_walk_split(sc_eval *eval, sc_walk *walk, sc_walk *inner);
/* Merges dims that every array passes as one. */
void sc_walk_collapse(sc_walk *walk);
/* Collapses and takes the innermost dim: size 1 when there is none. */
sc_walk_dim sc_walk_take_row(sc_walk *walk);
/* The index on a dim where the walk stands, or 0 when it has none. */
int64_t sc_walk_index(const sc_walk *walk, sc_dim dim);

/* start; do { .. walk.at[..] .. } while (next): row-major. No size is 0. */
void sc_walk_start(sc_walk *walk);
bool sc_walk_next(sc_walk *walk);

#endif
