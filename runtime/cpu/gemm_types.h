/* Internal types of GEMMs, shared by runtime/cpu/gemm*.c only. */
#ifndef SHARDC_RUNTIME_CPU_GEMM_TYPES_H
#define SHARDC_RUNTIME_CPU_GEMM_TYPES_H

#include <stddef.h>

#include "program/gemm_blocks.h"
#include "runtime/cpu/gemm.h"

enum { SC_GEMM_ARRAYS = SC_GEMM_OPERANDS + SC_GEMM_MAX_STEPS };

/* Treats all dims of a role as one index, last dim fastest, and gives the position of element i in
 * one array. */
typedef struct sc_gemm_walk {
    int64_t stride;
    const int64_t *offsets; /* NULL: index * stride */
} sc_gemm_walk;

static inline int64_t sc_gemm_at(const sc_gemm_walk *walk, int64_t i)
{
    return walk->offsets != NULL ? walk->offsets[i] : i * walk->stride;
}

static inline bool sc_gemm_runs(const sc_gemm_walk *walk)
{
    return walk->offsets == NULL && walk->stride == 1;
}

typedef struct sc_gemm_kernels sc_gemm_kernels;

struct sc_gemm_plan {
    sc_gemm gemm; /* canonical */
    bool swapped;
    sc_gemm_blocks blocks;
    int64_t sizes[SC_GEMM_ROLES];
    sc_gemm_walk walks[SC_GEMM_ROLES][SC_GEMM_ARRAYS];
    int64_t *offsets; /* memory that the walks point into */
    const sc_gemm_kernels *kernels;
    struct sc_gemm_onednn *onednn; /* NULL: plain kernels */
    uint32_t onednn_steps;         /* number of leading steps that it applies itself */
    char name[48];
};

/* Rows of a, or columns of b, along k. */
typedef struct sc_gemm_lines {
    const void *data;
    sc_dtype dtype;
    sc_gemm_walk line, depth;
} sc_gemm_lines;

/* A part of c over one block of k. */
typedef struct sc_gemm_block {
    const sc_gemm_plan *plan;
    const void *a, *b; /* packed: the tiles of the part's first row and of its first column */
    int64_t depth;
    int64_t row, rows, column, columns;
    void *c; /* of the batch; also the steps' tensors */
    const void *steps[SC_GEMM_MAX_STEPS];
    void *beside; /* the partial sum of its first element; NULL: partial sums are kept in c */
    int64_t beside_stride;
    bool first, last; /* of the blocks of k */
} sc_gemm_block;

/* Columns of c computed for all rows from b in place, over all of k or a part of it. */
typedef struct sc_gemm_strip {
    const sc_gemm_plan *plan;
    const float *a; /* term 0 of row 0; rows are contiguous along k */
    int64_t a_stride;
    const void *b;
    int64_t column, columns; /* columns times rows is at most SC_GEMM_STRIP */
    int64_t term, terms;
    float *parts; /* partial sums of the batch; NULL: k is not split */
    void *c;
    const void *steps[SC_GEMM_MAX_STEPS];
} sc_gemm_strip;

/* Functions specific to an instruction set and an accumulator type: runtime/cpu/gemm_kernels.inc,
 * compiled for each. */
struct sc_gemm_kernels {
    const char *name;
    int rows, columns; /* of a tile */
    /* Packs whole tiles of lines, filling missing lines with zeros: [tile][depth][rows or
     * columns]. */
    void (*pack_rows)(const sc_gemm_lines *lines, int64_t line, int64_t count, int64_t first,
                      int64_t depth, void *out);
    void (*pack_columns)(const sc_gemm_lines *lines, int64_t line, int64_t count, int64_t first,
                         int64_t depth, void *out);
    void (*multiply)(const sc_gemm_block *block);
    /* Copies one line in the accumulator type, padded with zeros up to `padded`. */
    void (*copy_line)(const sc_gemm_lines *lines, int64_t line, int64_t depth, int64_t padded,
                      void *out);
    /* Stores the sum of a line as element `at` of an array. */
    void (*sum_line)(const sc_gemm_lines *lines, int64_t line, int64_t depth, sc_dtype dtype,
                     void *out, int64_t at);
    void (*multiply_strip)(const sc_gemm_strip *strip); /* NULL: no skinny form */
    /* computes c from the partial sums, after all of k */
    void (*add_parts)(const sc_gemm_strip *strip);
    /* Applies the epilogue steps from `first` on to the contents of c. Reads only the block's rows,
     * columns and arrays. */
    void (*finish)(const sc_gemm_block *block, uint32_t first);
};

extern const sc_gemm_kernels sc_gemm_f32_base, sc_gemm_f32_avx2, sc_gemm_f32_avx512,
    sc_gemm_f64_base, sc_gemm_f64_avx2, sc_gemm_f64_avx512, sc_gemm_i64_base;

/* Computes the epilogue steps that are sums of an operand. */
void sc_gemm_sum_plain(const sc_gemm_plan *plan, const void *a, const void *b,
                       const void *const *steps);
/* Applies the epilogue steps from `first` on to the contents of c. */
void sc_gemm_finish_plain(const sc_gemm_plan *plan, void *c, const void *const *steps,
                          uint32_t first);
void sc_gemm_run_plain(const sc_gemm_plan *plan, const void *a, const void *b, void *c,
                       const void *const *steps, void *scratch);

#endif
