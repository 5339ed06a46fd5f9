#include "tools/run/weight_shape.h"

/* ---- roles of dims ---- */

/* Returns the parameter that a value is, through casts and views; SC_NONE if it is none. */
static uint32_t state_of(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    while (sc_op_is_operand(op))
        op = sc_op_at(m, sc_def(m, op->operands[0]));
    return sc_op_has(op, SC_PARAMETER) ? sc_module_find_state(m, sc_op_word(op, SC_ATTR_name))
                                       : SC_NONE;
}

static bool is_named(const sc_op *op, sc_dim dim)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
            if (dims->dims[i] == dim)
                return true;
        }
    }
    return false;
}

static void add_roles(const sc_module *m, const sc_op *op, uint32_t operand, sc_weight_roles *roles)
{
    uint32_t state = state_of(m, op->operands[operand]);
    if (state == SC_NONE)
        return;
    const sc_type_info *type = sc_state_type(m, state),
                       *other = sc_type_of(m, op->operands[1 - operand]);
    bool contracts = sc_ops[op->kind].bound == SC_BOUND_contracted;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (is_named(op, type->dims[i].dim))
            roles->of[state][i] |= contracts ? SC_ROLE_CONTRACTED : SC_ROLE_GATHERED;
        else if (sc_type_find_dim(other, type->dims[i].dim) >= 0)
            roles->of[state][i] |= SC_ROLE_ALONE;
    }
}

static void add_input(const sc_module *m, const sc_type_info *input, sc_weight_roles *roles)
{
    for (uint32_t state = 0; state < m->state.count; state++) {
        const sc_type_info *type = sc_state_type(m, state);
        for (uint32_t i = 0; i < type->rank; i++)
            roles->of[state][i] |=
                sc_type_find_dim(input, type->dims[i].dim) >= 0 ? SC_ROLE_ALONE : 0;
    }
}

void sc_weight_roles_find(const sc_module *m, sc_weight_roles *out)
{
    out->of = sc_arena_array(&m->context->arena, m->state.count + 1u, sizeof *out->of);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, id) {
            const sc_op *op = sc_op_at(m, id);
            bool contracts = sc_ops[op->kind].bound == SC_BOUND_contracted;
            if (sc_op_has(op, SC_FROM_OUTSIDE))
                add_input(m, sc_type_of(m, sc_result(m, id, 0)), out);
            if (contracts || sc_op_is_table((sc_op_kind)op->kind, 0))
                add_roles(m, op, 0, out);
            if (contracts)
                add_roles(m, op, 1, out);
        }
    }
}

/* ---- shapes ---- */

/* Returns the dim with this stride; -1: none, so it is a part. Dims of size 1 are skipped. */
static int dim_at(const sc_weight_layout *layout, const sc_type_info *type, int64_t stride)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!layout->indexed[i] && type->dims[i].size > 1 && layout->strides[i] == stride)
            return (int)i;
    }
    return -1;
}

uint32_t sc_weight_shape(const sc_weight_layout *layout, const sc_type_info *type,
                         const uint8_t *roles, uint64_t *shape)
{
    int64_t begin = 1;
    uint32_t rank = 0;
    int below = dim_at(layout, type, 1);
    for (uint32_t b = 0; b < layout->boundary_count; b++) {
        int64_t end = layout->boundaries[b];
        int above = dim_at(layout, type, end);
        bool is_end = end == layout->elements;
        /* a part belongs to the axis of the dim beside it: below it, else above */
        bool merges = above < 0 || below < 0 ||
                      (roles[above] == roles[below] && (roles[above] & SC_ROLE_ALONE) == 0);
        if (above >= 0)
            below = above;
        if (end == begin || (!is_end && merges))
            continue;
        shape[rank++] = (uint64_t)(end / begin);
        begin = end;
    }
    if (rank == 0 && layout->boundary_count > 0)
        shape[rank++] = 1;
    for (uint32_t i = 0; i < rank / 2; i++) {
        uint64_t kept = shape[i];
        shape[i] = shape[rank - 1 - i];
        shape[rank - 1 - i] = kept;
    }
    return rank;
}
