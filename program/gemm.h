/* One contraction as plain data: what the compiler writes into a program and the runtime executes.
 *
 *     c[batch, m, n] (+)= epilogue(sum over k of a[batch, m, k] * b[batch, k, n])
 *
 * Each role may have any number of dims, also none (no m: a row; no k: an outer product; nothing at all: two scalars). A dim has its size
 * and its stride in every operand, in elements: an operand's element stands at the sum of index times stride. Sizes may be 0: without m,
 * n or batch there is no c; over no k the sum is 0, and the epilogue still applies. */
#ifndef SHARDC_PROGRAM_GEMM_H
#define SHARDC_PROGRAM_GEMM_H

#include <stdbool.h>
#include <stdint.h>

#include "support/dtype.h"
#include "support/strbuf.h"

enum { SC_GEMM_MAX_DIMS = 24, SC_GEMM_MAX_STEPS = 8 };

/* batch: in a, b and c; m: in a and c; n: in b and c; k: in a and b. */
typedef enum sc_gemm_role { SC_GEMM_BATCH, SC_GEMM_M, SC_GEMM_N, SC_GEMM_K, SC_GEMM_ROLES } sc_gemm_role;

typedef enum sc_gemm_operand { SC_GEMM_A, SC_GEMM_B, SC_GEMM_C, SC_GEMM_OPERANDS } sc_gemm_operand;

typedef struct sc_gemm_dim {
    int64_t size;
    sc_gemm_role role;
    int64_t strides[SC_GEMM_OPERANDS]; /* not negative; 0 where the operand lacks the dim. Of a batch dim a's or b's may be 0: broadcast */
} sc_gemm_dim;

typedef enum sc_gemm_step_kind {
    SC_GEMM_ADD,   /* a tensor */
    SC_GEMM_MUL,   /* by a tensor */
    SC_GEMM_STORE, /* a tensor becomes what stands there so far, which goes on as it was: what a derivative reads later */
    SC_GEMM_SUM_A, /* a tensor [batch, m] becomes the sum of a over k: a bias' gradient, beside that of weights. c goes on as it was */
    SC_GEMM_SUM_B, /* a tensor [batch, n] becomes the sum of b over k */
    SC_GEMM_SCALE, /* by a number */
    SC_GEMM_RELU,  /* integers have the steps up to here */
    SC_GEMM_GELU,  /* by the error function */
    SC_GEMM_GELU_TANH,
    SC_GEMM_SILU,
    SC_GEMM_TANH,
    SC_GEMM_SIGMOID,
    SC_GEMM_RELU_GRAD, /* times the activation's derivative at a tensor, as are those below */
    SC_GEMM_GELU_GRAD,
    SC_GEMM_GELU_TANH_GRAD,
    SC_GEMM_SILU_GRAD,
    SC_GEMM_STEP_KINDS
} sc_gemm_step_kind;

/* One step of the epilogue, on values in the dtype of the accumulation. */
typedef struct sc_gemm_step {
    sc_gemm_step_kind kind;
    sc_dtype dtype;                    /* of the tensor */
    double scale;                      /* SCALE; for an accumulation in integers a whole number */
    int64_t strides[SC_GEMM_MAX_DIMS]; /* of the tensor, by dim of the descriptor; 0: broadcast (and for every k). STORE: as c's. SUM_A,
                                          SUM_B: 0 where the tensor lacks the dim */
} sc_gemm_step;

typedef struct sc_gemm {
    uint32_t dim_count;
    sc_gemm_dim dims[SC_GEMM_MAX_DIMS];
    sc_dtype dtypes[SC_GEMM_OPERANDS];
    sc_dtype sum;    /* of products and epilogue: f64, f32, or i64 where all dtypes are integers */
    bool accumulate; /* c += ..: what c held is added last, before the one rounding to c's dtype */
    uint32_t step_count;
    sc_gemm_step steps[SC_GEMM_MAX_STEPS];
} sc_gemm;

/* Whether the kind has a tensor; whether it writes that, and reads it not. */
bool sc_gemm_step_has_tensor(sc_gemm_step_kind kind);
bool sc_gemm_step_writes(sc_gemm_step_kind kind);
/* The operand whose sum over k a step is; SC_GEMM_OPERANDS: it is none. */
sc_gemm_operand sc_gemm_step_sums(sc_gemm_step_kind kind);
/* The activation whose derivative a kind multiplies by; SC_GEMM_STEP_KINDS: of none. */
sc_gemm_step_kind sc_gemm_step_slope_of(sc_gemm_step_kind kind);

/* NULL, or why nothing can execute it: counts and enums out of range, strides that contradict the roles, an overflow of the extents, two
 * elements of c (of what a step stores) in one place, dtypes that do not go together. Everything else here wants a valid descriptor. */
const char *sc_gemm_invalid(const sc_gemm *gemm);
static inline bool sc_gemm_valid(const sc_gemm *gemm)
{
    return sc_gemm_invalid(gemm) == 0;
}

/* Product of the sizes of a role's dims, 1 without any. */
int64_t sc_gemm_size(const sc_gemm *gemm, sc_gemm_role role);
/* How many elements an operand spans: 1 more than the last one's offset; 0 when it has none. */
int64_t sc_gemm_extent(const sc_gemm *gemm, sc_gemm_operand operand);
int64_t sc_gemm_step_extent(const sc_gemm *gemm, uint32_t step);
/* Multiplications and additions; a double, since a product of sizes may exceed 64 bits. */
double sc_gemm_flops(const sc_gemm *gemm);

/* The same contraction with as few dims as its layouts allow: dims of size 1 are dropped, batch dims that one operand broadcasts become
 * m or n, dims of a role that are contiguous in all operands are merged, an empty role is one dim of size 0. Roles stand in order batch, m,
 * n, k, within each the slowest of c (of a, for k) first, and c's fastest dim of m and n is an n: a and b are swapped for it (*out_swapped;
 * the caller then gives them so). Descriptors that differ only in such ways come out equal. */
sc_gemm sc_gemm_canonical(const sc_gemm *gemm, bool *out_swapped);

/* gemm f32 [m 1024 | n 3072 | k 768] a(768,1) b(1,3072) c(3072,1) + (0,1) gelu
 * Sizes by role, then for each operand the strides of the dims that it may have, in the same order; dtypes once when all are equal, else
 * at each operand; `sum f64` after them where that is not the operands' own. `c += (..)` accumulates. */
void sc_gemm_print(const sc_gemm *gemm, sc_strbuf *out);

#endif
