#include "tools/verify/error_bounds.h"

#include <math.h>

static double size_of(const sc_module *m, const sc_op *op, sc_attr_key key)
{
    const sc_attr *dims = sc_op_attr(op, key);
    double product = 1;
    for (uint32_t i = 0; dims != NULL && i < dims->count; i++) {
        for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
            const sc_type_info *type =
                sc_type_of(m, v < op->operand_count ? op->operands[v]
                                                    : op->first_result + v - op->operand_count);
            int at = sc_type_find_dim(type, dims->dims[i]);
            if (at >= 0) {
                product *= (double)type->dims[at].size;
                break;
            }
        }
    }
    return product;
}

/* Product of the sizes of operand 0's dims that the result lacks. */
static double size_summed(const sc_module *m, const sc_op *op)
{
    const sc_type_info *result = sc_type_of(m, op->first_result),
                       *x = sc_type_of(m, op->operands[0]);
    double product = 1;
    for (uint32_t i = 0; i < x->rank; i++)
        product *= sc_type_find_dim(result, x->dims[i].dim) < 0 ? (double)x->dims[i].size : 1;
    return product;
}

/* Bounds the result and its partial sums in any order, by adding magnitudes. */
static double bound_of(const sc_module *m, const sc_op *op, const sc_reach *all)
{
    double a = op->operand_count > 0 ? all[op->operands[0]].bound : 0,
           b = op->operand_count > 1 ? all[op->operands[1]].bound : 0, largest = 1;
    for (uint32_t i = 0; i < op->operand_count; i++)
        largest = fmax(largest, all[op->operands[i]].bound);
    switch (sc_ops[op->kind].bound) {
    case SC_BOUND_value:
        return fabs(sc_op_number(op, SC_ATTR_value, 0));
    case SC_BOUND_contracted:
        return size_of(m, op, SC_ATTR_dims) * a * b;
    case SC_BOUND_multiplied:
        return a * b;
    case SC_BOUND_added:
    case SC_BOUND_subtracted:
        return a + b;
    case SC_BOUND_summed:
        return size_of(m, op, SC_ATTR_dims) * a;
    case SC_BOUND_scattered:
        return size_summed(m, op) * a;
    case SC_BOUND_position:
        return fmax(a, size_of(m, op, SC_ATTR_dims));
    case SC_BOUND_largest:
    case SC_BOUND_any: /* never exact, and the bound is for exact values */
        return largest;
    }
    return INFINITY;
}

static bool is_decision(const sc_module *m, const sc_op *op, sc_value result)
{
    if (op->operand_count == 0 || !sc_dtype_is_float(sc_type_of(m, op->operands[0])->dtype))
        return false;
    return sc_op_has(op, SC_COMPARES | SC_DECIDES) ||
           !sc_dtype_is_float(sc_type_of(m, result)->dtype);
}

static sc_reach reach_of(const sc_module *m, const sc_op *op, sc_value result, const sc_reach *all)
{
    const sc_dtype_row *dtype = &sc_dtypes[sc_type_of(m, result)->dtype];
    sc_reach reach = {.exact = (sc_op_traits(op) & SC_EXACT) != 0,
                      .bound = bound_of(m, op, all),
                      .decided = is_decision(m, op, result)};
    reach.unit = dtype->kind == SC_DTYPE_FLOAT ? ldexp(1, -dtype->significand) : 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_reach *from = &all[op->operands[i]];
        reach.exact &= from->exact;
        reach.decided |= from->decided;
        reach.depth = from->depth > reach.depth ? from->depth : reach.depth;
        reach.unit = fmax(reach.unit, from->unit);
    }
    if (sc_ops[op->kind].bound == SC_BOUND_value)
        reach.exact &=
            nearbyint(sc_op_number(op, SC_ATTR_value, 0)) == sc_op_number(op, SC_ATTR_value, 0);
    reach.exact &= reach.bound < 0x1p53;
    reach.depth += (sc_op_traits(op) & SC_VIEW) == 0;
    return reach;
}

sc_reach *sc_reach_find(const sc_module *m, sc_func_id func, const sc_draws *draws)
{
    sc_reach *all = sc_arena_array(&m->context->arena, m->values.count + 1u, sizeof *all);
    uint32_t input = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t r = 0; r < op->result_count; r++)
            all[op->first_result + r] = reach_of(m, op, op->first_result + r, all);
        const sc_draw *draw = NULL;
        uint32_t state = (sc_op_traits(op) & SC_STATE_READ) != 0
                             ? sc_module_find_state(m, sc_op_word(op, SC_ATTR_name))
                             : SC_NONE;
        if (sc_op_has(op, SC_FROM_OUTSIDE))
            draw = &draws->inputs.data[input++];
        else if (state != SC_NONE)
            draw = &draws->state[state];
        if (draw != NULL) {
            all[op->first_result].exact = true;
            all[op->first_result].bound = sc_draw_bound(draw);
        }
    }
    return all;
}
