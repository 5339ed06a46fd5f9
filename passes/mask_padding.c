/* mask-padding: the padding of an uneven shard is undefined. This pass masks it for ops that reduce
 * over it or check it.
 *
 *   %2 = sum[V] %1 : f32[B]{sum:tp}         %3 = mask[V] %1 {value = 0.0} : f32[B, V=25/97@tp]
 *                                     ->    %2 = sum[V] %3 : f32[B]{sum:tp}
 *
 * The mask value is 0 for a sum, -inf for a max, +inf for a min, and 0 for an op that rejects
 * integers out of range. Unsplit dims have no padding: a gather drops it. Ops that read a global
 * index on a dim (a vocabulary gather) never read the padding and need no mask. A value is masked
 * once per neutral element. Requires RESHARDS_EXPLICIT. One walk. */
#include <math.h>

#include "passes/pass.h"

typedef struct masking {
    sc_module *m;
    sc_map made; /* value << 2 | neutral element -> the masked value */
} masking;

typedef enum neutral { NEUTRAL_ZERO, NEUTRAL_LOWEST, NEUTRAL_HIGHEST } neutral;

static double neutral_value(sc_dtype dtype, neutral which)
{
    if (which == NEUTRAL_ZERO)
        return 0;
    double highest =
        sc_dtype_is_float(dtype) ? (double)INFINITY : ldexp(1, sc_dtypes[dtype].significand) - 1;
    return which == NEUTRAL_HIGHEST ? highest : sc_dtype_is_float(dtype) ? -highest : -highest - 1;
}

static uint32_t uneven_dims(const sc_module *m, const sc_type_info *type, sc_dim *dims)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (sc_type_is_uneven(m, type, i))
            dims[count++] = type->dims[i].dim;
    }
    return count;
}

/* Masks all uneven dims of the operand, right before the reader. */
static void mask_operand(masking *masked, sc_op_id reader, uint32_t operand, neutral which)
{
    sc_module *m = masked->m;
    sc_value value = m->ops.data[reader].operands[operand];
    sc_dim dims[SC_MAX_RANK];
    uint32_t count = uneven_dims(m, sc_type_of(m, value), dims);
    bool is_new;
    uint32_t *slot = sc_map_insert(&masked->made, (uint64_t)value << 2 | which, SC_NONE, &is_new);
    if (is_new) {
        sc_attr attrs[] = {
            sc_attr_dims(m, SC_ATTR_dims, dims, count),
            sc_attr_number(SC_ATTR_value, neutral_value(sc_type_of(m, value)->dtype, which))};
        sc_type type = m->values.data[value].type;
        sc_op_id op = sc_op_new(m, m->ops.data[reader].func, reader, SC_OP_mask, &value, 1, attrs,
                                2, &type, 1, reader);
        *slot = sc_result(m, op, 0);
    }
    m->ops.data[reader].operands[operand] = *slot;
}

static bool is_uneven_factor(const sc_module *m, const sc_op *op, const sc_factor *factor,
                             uint32_t operand)
{
    return factor->operand[operand] >= 0 &&
           sc_type_is_uneven(m, sc_type_of(m, op->operands[operand]),
                             (uint32_t)factor->operand[operand]);
}

static void visit(masking *masked, sc_op_id id)
{
    sc_module *m = masked->m;
    sc_factors factors;
    sc_op_factors(m, sc_op_at(m, id), &factors);
    bool checks = (sc_op_traits(sc_op_at(m, id)) & SC_CHECKS_INTEGERS) != 0;
    for (uint32_t f = 0; f < factors.count; f++) {
        const sc_factor *factor = &factors.list[f];
        for (uint32_t o = 0; o < sc_op_at(m, id)->operand_count; o++) {
            const sc_op *op = sc_op_at(m, id);
            if (!is_uneven_factor(m, op, factor, o))
                continue;
            bool integers = !sc_dtype_is_float(sc_type_of(m, op->operands[o])->dtype);
            if ((checks && integers) || (factor->role == SC_ROLE_SUMS && !factor->offset))
                mask_operand(masked, id, o, NEUTRAL_ZERO);
            else if (factor->role == SC_ROLE_MAXES || factor->role == SC_ROLE_MINS)
                mask_operand(masked, id, o,
                             factor->role == SC_ROLE_MAXES ? NEUTRAL_LOWEST : NEUTRAL_HIGHEST);
        }
    }
}

bool sc_run_mask_padding(sc_module *m, sc_pass_env *env)
{
    (void)env;
    masking masked = {.m = m};
    masked.made.arena = &m->context->arena;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op)
            visit(&masked, op);
    }
    return true;
}
