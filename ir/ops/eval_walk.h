/* Iterates over arrays by dim name. The dims of a walk are the union of its arrays' dims, in the
 * order in which they were first added, with one offset per array. An array that lacks a dim has
 * stride 0 along it, which implements broadcasting. */
#ifndef SHARDC_IR_OPS_EVAL_WALK_H
#define SHARDC_IR_OPS_EVAL_WALK_H

#include "ir/ops/eval.h"

enum { SC_WALK_ARRAYS = 17, SC_WALK_DIMS = SC_MAX_FACTORS };

typedef struct sc_walk_dim {
    sc_dim dim;
    int64_t size, index;
    int64_t strides[SC_WALK_ARRAYS]; /* 0 if the array lacks the dim */
} sc_walk_dim;

typedef struct sc_walk {
    uint32_t rank, arrays;
    /* a dim along which the walk goes over part_size elements of every array, however many the
     * array has; SC_NONE: none */
    sc_dim part;
    int64_t part_size;
    sc_walk_dim dims[SC_WALK_DIMS];
    int64_t at[SC_WALK_ARRAYS]; /* current offset in each array */
} sc_walk;

/* Sets eval->error and returns false. */
bool sc_eval_fail(sc_eval *eval, const char *format, ...) __attribute__((format(printf, 2, 3)));
const char *sc_eval_dim_name(const sc_eval *eval, sc_dim dim);
/* Returns the size of a leaf over all ranks, from the first operand or result that has it; 0 if
 * none has. */
int64_t sc_eval_global_size(const sc_eval *eval, sc_dim leaf);

void sc_walk_init(sc_walk *walk);
/* Adds an array; false if a dim has two sizes. An absent array (NULL) is treated as a scalar that
 * is never read. */
bool sc_walk_add(sc_eval *eval, sc_walk *walk, const sc_array *array, const sc_type_info *type);
bool sc_walk_add_result(sc_eval *eval, sc_walk *walk, uint32_t result);
/* The same; adds an absent array if the op has no such result. */
bool sc_walk_add_optional(sc_eval *eval, sc_walk *walk, uint32_t result);
bool sc_walk_add_operand(sc_eval *eval, sc_walk *walk, uint32_t operand);
/* Adds the operand that attribute `with` names `word`, or an absent array; *data is its elements or
 * NULL. */
bool sc_walk_add_called(sc_eval *eval, sc_walk *walk, const char *word, const double **data);

/* Removes a dim from the walk, for a separate loop. False, with an error, if the walk does not have
 * it. */
bool sc_walk_take(sc_eval *eval, sc_walk *walk, sc_dim dim, sc_walk_dim *taken);
/* Takes the only dim of this attribute. */
bool sc_walk_take_attr(sc_eval *eval, sc_walk *walk, sc_attr_key key, sc_walk_dim *taken);
/* Moves the dims of attribute `dims` to a separate walk over the same arrays. */
bool sc_walk_split(sc_eval *eval, sc_walk *walk, sc_walk *inner);
/* Merges adjacent dims that are contiguous in every array. */
void sc_walk_collapse(sc_walk *walk);
/* Collapses and takes the innermost dim; size 1 if there is none. */
sc_walk_dim sc_walk_take_row(sc_walk *walk);
/* Returns the current index on a dim, or 0 if the walk lacks it. */
int64_t sc_walk_index(const sc_walk *walk, sc_dim dim);

/* Row-major iteration: start; do { .. walk.at[..] .. } while (next). Sizes must not be 0. */
void sc_walk_start(sc_walk *walk);
bool sc_walk_next(sc_walk *walk);

#endif
