/* Builds GEMM descriptors from contractions of the per-rank IR. */
#include "codegen/program/gemm.h"

#include <string.h>

#include "ir/ops/ops.h"

sc_dtype sc_contract_sum(sc_dtype dtype)
{
    if (!sc_dtype_is_float(dtype))
        return SC_DTYPE_i64;
    return dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

/* Strides of a dense array with the type's local sizes; false on overflow. */
static bool dense_strides(const sc_module *m, const sc_type_info *type,
                          int64_t strides[SC_MAX_RANK])
{
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0;) {
        strides[i] = stride;
        if (__builtin_mul_overflow(stride, sc_type_local_size(m, type, i), &stride))
            return false;
    }
    return true;
}

static int find_dim(const sc_contraction *contraction, sc_dim dim)
{
    for (uint32_t i = 0; i < contraction->gemm.dim_count; i++) {
        if (contraction->dims[i] == dim)
            return (int)i;
    }
    return -1;
}

/* Sets an operand's stride along every dim, and appends the dims that c lacks: the contracted
 * ones. */
static bool add_operand(const sc_module *m, sc_contraction *contraction, sc_gemm_operand operand,
                        const sc_type_info *type)
{
    sc_gemm *gemm = &contraction->gemm;
    int64_t strides[SC_MAX_RANK];
    if (!dense_strides(m, type, strides))
        return false;
    gemm->dtypes[operand] = type->dtype;
    for (uint32_t i = 0; i < type->rank; i++) {
        int at = find_dim(contraction, type->dims[i].dim);
        int64_t size = sc_type_local_size(m, type, i);
        if (at < 0 && gemm->dim_count == SC_GEMM_MAX_DIMS)
            return false;
        if (at < 0) {
            at = (int)gemm->dim_count++;
            contraction->dims[at] = type->dims[i].dim;
            gemm->dims[at] = (sc_gemm_dim){.size = size, .role = SC_GEMM_K};
        }
        if (gemm->dims[at].size != size)
            return false;
        gemm->dims[at].strides[operand] = strides[i];
    }
    return true;
}

/* c has the result's dims, in the order of `stored_as`. */
static bool add_result(const sc_module *m, sc_contraction *contraction, const sc_type_info *result,
                       const sc_type_info *stored_as)
{
    if (stored_as->rank != result->rank || !add_operand(m, contraction, SC_GEMM_C, stored_as))
        return false;
    for (uint32_t i = 0; i < result->rank; i++) {
        int at = find_dim(contraction, result->dims[i].dim);
        if (at < 0 || contraction->gemm.dims[at].size != sc_type_local_size(m, result, i))
            return false;
    }
    return true;
}

/* A product of a piece is done as a part of that of all the ring's pieces. */
static void set_pieces(const sc_module *m, const sc_op *op, sc_contraction *contraction)
{
    const sc_attr *ring = sc_op_attr(op, SC_ATTR_ring), *piece = sc_op_attr(op, SC_ATTR_piece);
    if (ring == NULL || piece == NULL)
        return;
    int64_t members = 1;
    for (uint32_t a = 0; a < ring->count; a++)
        members *= (int64_t)m->mesh.sub_axes[ring->sub_axes[a]].size;
    for (uint32_t i = 0; i < contraction->gemm.dim_count; i++) {
        if (sc_attr_has_dim(piece, contraction->dims[i]))
            contraction->gemm.dims[i].others = members - 1;
    }
}

bool sc_contract(const sc_module *m, const sc_op *op, const sc_type_info *stored_as,
                 sc_contraction *out)
{
    memset(out, 0, sizeof *out);
    if ((sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) == 0)
        return false;
    const sc_type_info *a = sc_type_of(m, op->operands[0]), *b = sc_type_of(m, op->operands[1]),
                       *result = sc_type_of(m, op->first_result);
    if (!add_result(m, out, result, stored_as != NULL ? stored_as : result) ||
        !add_operand(m, out, SC_GEMM_A, a) || !add_operand(m, out, SC_GEMM_B, b))
        return false;
    sc_gemm *gemm = &out->gemm;
    gemm->sum = sc_contract_sum(a->dtype);
    for (uint32_t i = 0; i < gemm->dim_count; i++) {
        bool in_a = sc_type_find_dim(a, out->dims[i]) >= 0,
             in_b = sc_type_find_dim(b, out->dims[i]) >= 0;
        if (sc_type_find_dim(result, out->dims[i]) >= 0)
            gemm->dims[i].role = in_a && in_b ? SC_GEMM_BATCH : in_a ? SC_GEMM_M : SC_GEMM_N;
    }
    set_pieces(m, op, out);
    return sc_gemm_valid(gemm);
}

static bool append(sc_contraction *contraction, const sc_gemm_step *step)
{
    sc_gemm *gemm = &contraction->gemm;
    if (gemm->step_count == SC_GEMM_MAX_STEPS)
        return false;
    gemm->steps[gemm->step_count++] = *step;
    if (sc_gemm_valid(gemm))
        return true;
    memset(&gemm->steps[--gemm->step_count], 0, sizeof *step);
    return false;
}

bool sc_contract_add_tensor(const sc_module *m, sc_contraction *contraction, sc_gemm_step_kind kind,
                            const sc_type_info *tensor)
{
    sc_gemm_step step = {.kind = kind, .dtype = tensor->dtype};
    int64_t strides[SC_MAX_RANK];
    if (!sc_gemm_step_has_tensor(kind) || !dense_strides(m, tensor, strides))
        return false;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        int at = find_dim(contraction, tensor->dims[i].dim);
        if (at < 0 || contraction->gemm.dims[at].size != sc_type_local_size(m, tensor, i))
            return false;
        step.strides[at] = strides[i];
    }
    return append(contraction, &step);
}

bool sc_contract_add_sum(const sc_module *m, sc_contraction *contraction, sc_gemm_operand operand,
                         const sc_type_info *own, const sc_type_info *summed,
                         const sc_type_info *result)
{
    sc_gemm_step step = {.kind = operand == SC_GEMM_A ? SC_GEMM_SUM_A : SC_GEMM_SUM_B,
                         .dtype = result->dtype};
    int64_t strides[SC_MAX_RANK];
    if (!dense_strides(m, result, strides))
        return false;
    for (uint32_t i = 0; i < summed->rank; i++) {
        int at = find_dim(contraction, own->dims[i].dim),
            to = sc_type_find_dim(result, summed->dims[i].dim);
        if (at < 0)
            return false;
        step.strides[at] = to < 0 ? 0 : strides[to];
    }
    return append(contraction, &step);
}

bool sc_contract_add_scale(sc_contraction *contraction, double scale)
{
    return append(contraction, &(sc_gemm_step){.kind = SC_GEMM_SCALE, .scale = scale});
}

bool sc_contract_add_activation(sc_contraction *contraction, sc_gemm_step_kind kind)
{
    bool activation = !sc_gemm_step_has_tensor(kind) && kind != SC_GEMM_SCALE;
    return activation && append(contraction, &(sc_gemm_step){.kind = kind});
}
