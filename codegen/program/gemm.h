/* A `dot` of the per-rank IR as a contraction (program/gemm.h). Sizes are local ones; operands are dense and row-major over their types'
 * dims, the leaves of composites. A dim of both operands and of the result is a batch dim.
 *
 * The gemm's dims are those of the result as it is stored, in order, and then the contracted ones: `dims` says which is which, so that
 * what the compiler fuses onto the result is named by dims, too. */
#ifndef SHARDC_CODEGEN_PROGRAM_GEMM_H
#define SHARDC_CODEGEN_PROGRAM_GEMM_H

#include "ir/graph.h"
#include "program/gemm.h"

typedef struct sc_contraction {
    sc_gemm gemm; /* `accumulate` is the caller's to set */
    sc_dim dims[SC_GEMM_MAX_DIMS];
} sc_contraction;

/* The dtype that products of this dtype are summed in: f32 for f32, bf16 and f16; f64; i64 for integers. */
sc_dtype sc_contract_sum(sc_dtype dtype);

/* stored_as: dtype and order of dims in which c is to be stored, when they are not the result's own (a transpose, a cast or `wide` folded
 * in); NULL: the result's type. False when there is no such contraction: another op, more dims than a descriptor has, `stored_as` has
 * other dims than the result, or other sizes on a rank. */
bool sc_contract(const sc_module *m, const sc_op *op, const sc_type_info *stored_as, sc_contraction *out);

/* Appends a step; false, and nothing is changed, when it does not fit: no room, a dtype that the sum does not go with, a tensor that has a
 * dim that c lacks or another size of it on a rank. A tensor is dense and row-major over its type; c's dims that it lacks are broadcast. */
bool sc_contract_add_tensor(const sc_module *m, sc_contraction *contraction, sc_gemm_step_kind kind, const sc_type_info *tensor);
/* A step that sums an operand, of type `own`, over all that is contracted: the result of a sum whose operand has the dims of `own` in the
 * same places, maybe under other names. */
bool sc_contract_add_sum(const sc_module *m, sc_contraction *contraction, sc_gemm_operand operand, const sc_type_info *own,
                         const sc_type_info *summed, const sc_type_info *result);
bool sc_contract_add_scale(sc_contraction *contraction, double scale);
bool sc_contract_add_activation(sc_contraction *contraction, sc_gemm_step_kind kind);

#endif
