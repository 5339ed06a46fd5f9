/* Contractions (program/gemm.h) as cuBLASLt takes them: matmuls stored by columns, a batch of them a call,
 *
 *     d = activation(alpha op(a) op(b) + bias), or d += alpha op(a) op(b) + bias, or d = alpha op(a) op(b) slope(aux)
 *
 * where what the activation is applied to may become `aux`, too, or, without a bias and an activation, the sums of op(a)'s rows or of
 * op(b)'s columns a vector,
 * over some loops of calls where layouts leave more than one batch dim. The compiler asks which contractions and which of their epilogues
 * are of this form; the runtime how to call. */
#ifndef SHARDC_PROGRAM_GEMM_BLAS_H
#define SHARDC_PROGRAM_GEMM_BLAS_H

#include "program/gemm.h"

enum {
    SC_MATMUL_LOOPS = 4,
    SC_MATMUL_MAX_CALLS = 4096,
    SC_MATMUL_ROW_UNIT = 16, /* bytes: whose columns, as the library counts, are so far apart, or a multiple of it, is read fast */
    SC_MATMUL_AUX_UNIT = 8,  /* columns and matrices of aux are as many elements apart, or a multiple of it */
    /* Of a product on a GPU, whatever its sizes: as the library's manual advises for those of capability 9.0. */
    SC_MATMUL_WORKSPACE = 32 << 20
};

/* As it stands in memory: elements of a column are neighbours, columns are `stride` elements apart, matrices of the batch `batch_stride`.
 */
typedef struct sc_matmul_matrix {
    uint32_t operand; /* of the gemm: SC_GEMM_A, SC_GEMM_B, SC_GEMM_C */
    sc_dtype dtype;
    int64_t rows, columns, stride, batch_stride;
    bool is_transposed; /* in the product */
} sc_matmul_matrix;

typedef struct sc_matmul_loop {
    int64_t size, strides[SC_GEMM_OPERANDS]; /* by operand of the gemm, in elements; 0: the same for all */
} sc_matmul_loop;

typedef struct sc_matmul {
    int64_t rows, columns, depth; /* of d, and of the sums */
    int64_t batches;
    sc_matmul_matrix a, b, d;
    sc_dtype sum; /* f32, f64 */
    double alpha;
    bool accumulate;
    uint32_t bias;                /* step of the gemm whose tensor is added to each column of d; SC_GEMM_MAX_STEPS: none */
    sc_gemm_step_kind activation; /* RELU, GELU_TANH, GELU_TANH_GRAD; SC_GEMM_STEP_KINDS: none */
    uint32_t aux;                 /* step that stores what GELU_TANH is applied to, or is GELU_TANH_GRAD; SC_GEMM_MAX_STEPS: none */
    uint32_t total;               /* step whose tensor becomes the sums of op(a)'s rows, or op(b)'s columns; SC_GEMM_MAX_STEPS: none */
    bool total_of_b;
    int64_t aux_stride, aux_batch_stride; /* as d's: elements between its columns, between its matrices */
    uint32_t loop_count;
    sc_matmul_loop loops[SC_MATMUL_LOOPS];
} sc_matmul;

/* NULL, or why the (valid) gemm is not of this form, in words. */
const char *sc_matmul_of(const sc_gemm *gemm, sc_matmul *out);

/* A matrix that the library reads or writes slowly, whatever algorithm it takes: its columns, rows as programs count, do not begin at
 * multiples of SC_MATMUL_ROW_UNIT. NULL: there is none. */
const sc_matmul_matrix *sc_matmul_uneven(const sc_matmul *form);

#endif
