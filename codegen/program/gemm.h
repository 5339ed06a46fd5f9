/* A `dot` of the per-rank IR as a GEMM descriptor (program/gemm.h). Sizes are local; operands are
 * dense and row-major over their types' dims, the leaves of composites. A dim of both operands and
 * of the result is a batch dim.
 *
 * The GEMM's dims are those of the stored result, in order, then the contracted ones. `dims` maps
 * them to dims of the module, so that fused epilogue steps can be matched by dim. */
#ifndef SHARDC_CODEGEN_PROGRAM_GEMM_H
#define SHARDC_CODEGEN_PROGRAM_GEMM_H

#include "ir/graph.h"
#include "program/gemm.h"

typedef struct sc_contraction {
    sc_gemm gemm; /* `accumulate` is set by the caller */
    sc_dim dims[SC_GEMM_MAX_DIMS];
} sc_contraction;

/* The dtype in which products of this dtype are summed: f32 for f32, bf16 and f16; f64; i64 for
 * integers. */
sc_dtype sc_contract_sum(sc_dtype dtype);

/* stored_as: dtype and dim order in which c is stored, if they differ from the result's (a folded
 * transpose, cast or `wide`); NULL: the result's type. False if there is no such contraction:
 * another op, more dims than a descriptor has, `stored_as` has other dims than the result or other
 * local sizes. */
bool sc_contract(const sc_module *m, const sc_op *op, const sc_type_info *stored_as,
                 sc_contraction *out);

/* Appends a step. False, with nothing changed, if it does not fit: no room, a dtype that cannot be
 * combined with the sum, a tensor with a dim that c lacks or of another local size. A tensor is
 * dense and row-major over its type; dims of c that it lacks are broadcast. */
bool sc_contract_add_tensor(const sc_module *m, sc_contraction *contraction, sc_gemm_step_kind kind,
                            const sc_type_info *tensor);
/* Appends a step that sums an operand, of type `own`, over all contracted dims: the result of a sum
 * whose operand has the dims of `own` in the same positions, maybe under other names. */
bool sc_contract_add_sum(const sc_module *m, sc_contraction *contraction, sc_gemm_operand operand,
                         const sc_type_info *own, const sc_type_info *summed,
                         const sc_type_info *result);
bool sc_contract_add_scale(sc_contraction *contraction, double scale);
bool sc_contract_add_activation(sc_contraction *contraction, sc_gemm_step_kind kind);

#endif
