/* Contractions (program/gemm.h) in the form of cuBLASLt: column-major matmuls, one batch per call,
 *
 *   d = activation(alpha op(a) op(b) + bias), or d += alpha op(a) op(b) + bias,
 *   or d = alpha op(a) op(b) slope(aux)
 *
 * where the operand of the activation may also be stored in `aux` or, without bias and activation,
 * the sums of op(a)'s rows or of op(b)'s columns in a vector. Several calls in loops if the layout
 * leaves more than one batch dim. The compiler queries which contractions and epilogues have this
 * form, the runtime how to call the library. */
#ifndef SHARDC_PROGRAM_GEMM_BLAS_H
#define SHARDC_PROGRAM_GEMM_BLAS_H

#include "program/gemm.h"

enum {
    SC_MATMUL_LOOPS = 4,
    SC_MATMUL_MAX_CALLS = 4096,
    /* bytes: matrices whose (column-major) columns are a multiple of this apart are read at full
       speed */
    SC_MATMUL_ROW_UNIT = 16,
    /* elements: columns and matrices of aux must be a multiple of this apart */
    SC_MATMUL_AUX_UNIT = 8,
    /* For any matmul on a GPU, as the library's manual advises for compute capability 9.0. */
    SC_MATMUL_WORKSPACE = 32 << 20
};

/* A matrix in memory: column elements are adjacent, columns are `stride` elements apart, matrices
 * of the batch `batch_stride`. */
typedef struct sc_matmul_matrix {
    uint32_t operand; /* of the gemm: SC_GEMM_A, SC_GEMM_B, SC_GEMM_C */
    sc_dtype dtype;
    int64_t rows, columns, stride, batch_stride;
    bool is_transposed; /* in the matmul */
} sc_matmul_matrix;

typedef struct sc_matmul_loop {
    /* by operand of the gemm, in elements; 0: the same in every iteration */
    int64_t size, strides[SC_GEMM_OPERANDS];
} sc_matmul_loop;

typedef struct sc_matmul {
    int64_t rows, columns, depth; /* rows and columns of d; depth of the sums */
    int64_t batches;
    sc_matmul_matrix a, b, d;
    sc_dtype sum; /* f32, f64 */
    double alpha;
    bool accumulate;
    /* step of the gemm whose tensor is added to each column of d; SC_GEMM_MAX_STEPS: none */
    uint32_t bias;
    /* one that the library has, or its derivative; SC_GEMM_STEP_KINDS: none */
    sc_gemm_step_kind activation;
    /* step that stores the activation's operand, or is the derivative; SC_GEMM_MAX_STEPS: none */
    uint32_t aux;
    /* step that stores the sums of op(a)'s rows or op(b)'s columns; SC_GEMM_MAX_STEPS: none */
    uint32_t total;
    bool total_of_b;
    /* like d's: elements between its columns, between its matrices */
    int64_t aux_stride, aux_batch_stride;
    uint32_t loop_count;
    sc_matmul_loop loops[SC_MATMUL_LOOPS];
} sc_matmul;

/* Returns NULL, or why the (valid) gemm does not have this form, in words. */
const char *sc_matmul_of(const sc_gemm *gemm, sc_matmul *out);

/* Returns a matrix that the library accesses slowly with any algorithm, because its rows (in
 * row-major terms) do not begin at multiples of SC_MATMUL_ROW_UNIT; NULL if there is none. */
const sc_matmul_matrix *sc_matmul_uneven(const sc_matmul *form);

#endif
