#include "tools/verify/error_bounds.h"

#include <math.h>

static double size_of(const sc_module *m, const sc_op *op, sc_attr_key key)
{
    const sc_attr *dims = sc_op_attr(op, key);
    double product = 1;
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
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
static double bound_of(const sc_module *m, const sc_op *op, const sc_error_bounds *all)
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

static sc_error_bounds bounds_of(const sc_module *m, const sc_op *op, sc_value result,
                                 const sc_error_bounds *all)
{
    const sc_dtype_row *dtype = &sc_dtypes[sc_type_of(m, result)->dtype];
    sc_error_bounds bounds = {.exact = (sc_op_traits(op) & SC_EXACT) != 0,
                              .bound = bound_of(m, op, all),
                              .decided = is_decision(m, op, result)};
    bounds.unit = dtype->kind == SC_DTYPE_FLOAT ? ldexp(1, -dtype->significand) : 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_error_bounds *from = &all[op->operands[i]];
        bounds.exact &= from->exact;
        bounds.decided |= from->decided;
        bounds.depth = from->depth > bounds.depth ? from->depth : bounds.depth;
        bounds.unit = fmax(bounds.unit, from->unit);
    }
    if (sc_ops[op->kind].bound == SC_BOUND_value)
        bounds.exact &=
            nearbyint(sc_op_number(op, SC_ATTR_value, 0)) == sc_op_number(op, SC_ATTR_value, 0);
    bounds.exact &= bounds.bound < 0x1p53;
    bounds.depth += (sc_op_traits(op) & SC_VIEW) == 0;
    return bounds;
}

sc_error_bounds *sc_error_bounds_find(const sc_module *m, sc_func_id func,
                                      const sc_random_inputs *distributions)
{
    sc_error_bounds *all = sc_arena_array(&m->context->arena, m->values.count + 1u, sizeof *all);
    uint32_t input = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t r = 0; r < op->result_count; r++)
            all[op->first_result + r] = bounds_of(m, op, op->first_result + r, all);
        const sc_distribution *distribution = NULL;
        uint32_t state = (sc_op_traits(op) & SC_STATE_READ) != 0
                             ? sc_module_find_state(m, sc_op_word(op, SC_ATTR_name))
                             : SC_NONE;
        if (sc_op_has(op, SC_FROM_OUTSIDE))
            distribution = &distributions->inputs.data[input++];
        else if (state != SC_NONE)
            distribution = &distributions->state[state];
        if (distribution != NULL) {
            all[op->first_result].exact = true;
            all[op->first_result].bound = sc_random_bound(distribution);
        }
    }
    return all;
}
