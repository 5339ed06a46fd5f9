/* One contraction as plain data, written into programs by the compiler and executed by the runtime:
 *
 *   c[batch, m, n] (+)= epilogue(sum over k of a[batch, m, k] * b[batch, k, n])
 *
 * Each role may have any number of dims, including none (no m: a row; no k: an outer product; none
 * at all: two scalars). A dim has its size and a stride in each operand, in elements; an element's
 * offset is the sum of index times stride. Sizes may be 0: with an empty m, n or batch c is empty;
 * with an empty k the sum is 0 and the epilogue still applies. */
#ifndef SHARDC_PROGRAM_GEMM_H
#define SHARDC_PROGRAM_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/strbuf.h"

enum { SC_GEMM_MAX_DIMS = 24, SC_GEMM_MAX_STEPS = 8 };

/* batch: in a, b and c; m: in a and c; n: in b and c; k: in a and b. */
typedef enum sc_gemm_role {
    SC_GEMM_BATCH,
    SC_GEMM_M,
    SC_GEMM_N,
    SC_GEMM_K,
    SC_GEMM_ROLES
} sc_gemm_role;

typedef enum sc_gemm_operand { SC_GEMM_A, SC_GEMM_B, SC_GEMM_C, SC_GEMM_OPERANDS } sc_gemm_operand;

typedef struct sc_gemm_dim {
    int64_t size;
    sc_gemm_role role;
    /* nonnegative; 0 if the operand lacks the dim, or (a, b) broadcasts a batch dim */
    int64_t strides[SC_GEMM_OPERANDS];
    /* The dim is a piece of one that has so many other pieces of this size: the product is cut into
     * blocks, and summed, as if it were all of them. So a product of pieces has the bits of that of
     * the whole */
    int64_t others;
} sc_gemm_dim;

typedef enum sc_gemm_step_kind {
    SC_GEMM_ADD, /* adds a tensor */
    SC_GEMM_MUL, /* multiplies by a tensor */
    /* stores the current value to a tensor and passes it on unchanged: read later by a derivative
     */
    SC_GEMM_STORE,
    /* stores the sum of a over k to a tensor [batch, m] (a bias gradient, with that of weights); c
       is unchanged */
    SC_GEMM_SUM_A,
    SC_GEMM_SUM_B, /* stores the sum of b over k to a tensor [batch, n] */
    SC_GEMM_SCALE, /* multiplies by a number */
#define ACTIVATION(name, NAME, ...) SC_GEMM_##NAME,
#include "program/activations.def"
/* multiply by the activation's derivative at a tensor */
#define ACTIVATION(...)
#define ACTIVATION_SLOPE(name, NAME, ...) SC_GEMM_##NAME##_GRAD,
#include "program/activations.def"
    SC_GEMM_STEP_KINDS
} sc_gemm_step_kind;

/* One epilogue step, on values in the accumulation dtype. */
typedef struct sc_gemm_step {
    sc_gemm_step_kind kind;
    sc_dtype dtype;                    /* of the tensor */
    double scale;                      /* SCALE; a whole number if accumulating in integers */
    int64_t strides[SC_GEMM_MAX_DIMS]; /* of the tensor, by dim of the descriptor; 0: broadcast (and
                                          for every k). STORE: like c's. SUM_A, SUM_B: 0 if the
                                          tensor lacks the dim */
} sc_gemm_step;

typedef struct sc_gemm {
    uint32_t dim_count;
    sc_gemm_dim dims[SC_GEMM_MAX_DIMS];
    sc_dtype dtypes[SC_GEMM_OPERANDS];
    /* dtype of accumulation and epilogue: f64, f32, or i64 if all dtypes are integers */
    sc_dtype sum;
    bool accumulate; /* c += ..: the old c is added last, before the single rounding to c's dtype */
    uint32_t step_count;
    sc_gemm_step steps[SC_GEMM_MAX_STEPS];
} sc_gemm;

/* True if the kind has a tensor; true if it writes that tensor instead of reading it. */
bool sc_gemm_step_has_tensor(sc_gemm_step_kind kind);
bool sc_gemm_step_writes(sc_gemm_step_kind kind);
/* Returns the operand that a step sums over k, or SC_GEMM_OPERANDS. */
sc_gemm_operand sc_gemm_step_sums(sc_gemm_step_kind kind);
/* Returns the activation whose derivative the kind multiplies by, or SC_GEMM_STEP_KINDS. */
sc_gemm_step_kind sc_gemm_step_slope_of(sc_gemm_step_kind kind);

/* Returns NULL, or why the descriptor is invalid: counts and enums out of range, strides that
 * contradict the roles, an overflow of the extents, overlapping elements in c or in a tensor that a
 * step stores, incompatible dtypes. All other functions here require a valid descriptor. */
const char *sc_gemm_invalid(const sc_gemm *gemm);
static inline bool sc_gemm_valid(const sc_gemm *gemm)
{
    return sc_gemm_invalid(gemm) == 0;
}

/* Product of the sizes of a role's dims; 1 if it has none. */
int64_t sc_gemm_size(const sc_gemm *gemm, sc_gemm_role role);
/* The same with all pieces of the dims that are pieces. */
int64_t sc_gemm_whole(const sc_gemm *gemm, sc_gemm_role role);
/* Number of elements that an operand spans: the last element's offset plus 1; 0 if it is empty. */
int64_t sc_gemm_extent(const sc_gemm *gemm, sc_gemm_operand operand);
int64_t sc_gemm_step_extent(const sc_gemm *gemm, uint32_t step);
/* Multiplications and additions; a double, since the product of sizes may exceed 64 bits. */
double sc_gemm_flops(const sc_gemm *gemm);

/* Returns the same contraction with as few dims as its layouts allow: dims of size 1 are dropped,
 * batch dims that one operand broadcasts become m or n, dims of a role that are contiguous in all
 * operands are merged, an empty role becomes one dim of size 0. Roles are in the order batch, m, n,
 * k; within each the slowest of c (of a, for k) comes first. The fastest dim of c among m and n is
 * an n: a and b are swapped for that if necessary (*out_swapped; the caller must then swap them
 * too). Descriptors that differ only in these respects have equal canonical forms. */
sc_gemm sc_gemm_canonical(const sc_gemm *gemm, bool *out_swapped);

/* Prints a descriptor:
 *
 *   gemm f32 [m 1024 | n 3072 | k 768] a(768,1) b(1,3072) c(3072,1) + (0,1) gelu
 *
 * Sizes by role, then for each operand the strides of the dims that it may have, in the same order.
 * Dtypes once if all are equal, otherwise at each operand; `sum f64` follows if that is not the
 * operands' own. `c += (..)` accumulates. */
void sc_gemm_print(const sc_gemm *gemm, sc_strbuf *out);

#endif
