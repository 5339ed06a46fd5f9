#include "passes/packing.h"

#include "passes/parts.h"
#include "passes/row_groups.h"

enum { ROWS };

bool sc_is_packed(const sc_packing *p, sc_value value)
{
    return value < p->count && p->sent[value] != SC_NONE;
}

bool sc_is_packed_in(const sc_packing *p, sc_value value, uint32_t number)
{
    return sc_is_packed(p, value) && p->group[value] == number;
}

bool sc_has_id_of_choices(const sc_packing *p, const sc_choice_group *group, const sc_op *op)
{
    return sc_op_takes_ids((sc_op_kind)op->kind, 1) &&
           sc_count_choice_dims(group, sc_type_of(p->m, op->operands[1])) == group->dim_count;
}

/* True if an operand is a sum that is pending over ranks of the group and is not in its slots. */
static bool reads_other_terms(const sc_packing *p, uint32_t number, const sc_op *op)
{
    bool found = false;
    for (uint32_t o = 0; o < op->operand_count; o++)
        found =
            found || (!sc_is_packed_in(p, op->operands[o], number) &&
                      sc_is_pending(&p->groups.data[number], sc_type_of(p->m, op->operands[o])));
    return found;
}

/* True if a reshard changes neither which ranks have choices nor which have terms of sums. */
static bool stays(const sc_packing *p, const sc_choice_group *group, const sc_op *op)
{
    const sc_type_info *from = sc_type_of(p->m, op->operands[0]),
                       *to = sc_type_of(p->m, op->first_result);
    bool same = true;
    for (uint32_t d = 0; d <= group->dim_count; d++) {
        sc_dim dim = d < group->dim_count ? group->dims[d] : group->part;
        const sc_sub_axis_list a = sc_split_of(from, dim), b = sc_split_of(to, dim);
        same = same && sc_sub_axis_list_equal(&a, &b);
    }
    for (uint32_t a = 0; a < group->over.count; a++)
        same = same && sc_is_partial(from->placement.on[group->over.sub_axes[a]]) ==
                           sc_is_partial(to->placement.on[group->over.sub_axes[a]]);
    return same;
}

/* The number of dims of choices that an op names, and whether one of them is split. */
static uint32_t count_named(const sc_packing *p, const sc_choice_group *group, const sc_op *op,
                            bool *is_split)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const uint32_t end = dims == NULL ? 0 : dims->count;
    uint32_t count = 0;
    *is_split = false;
    for (uint32_t d = 0; d < end; d++) {
        if (!sc_is_choice_dim(group, dims->dims[d]))
            continue;
        count++;
        *is_split =
            *is_split || sc_split_of(sc_type_of(p->m, group->places), dims->dims[d]).count > 0;
    }
    return count;
}

/* Reductions and contractions, of dims that are no choices' or of some that are. */
static sc_packing_way way_of_sum(const sc_packing *p, const sc_choice_group *group, const sc_op *op)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const uint32_t has = sc_count_choice_dims(group, sc_type_of(p->m, op->first_result)),
                   all = group->dim_count, count = dims == NULL ? 0 : dims->count;
    bool is_split, is_dot = (sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) != 0;
    const uint32_t named = count_named(p, group, op, &is_split);
    if (named == 0 && has == all)
        return SC_PACK_COMPUTE;
    bool has_numbers = sc_dtype_is_float(sc_type_of(p->m, op->first_result)->dtype);
    return named > 0 && named == count && has == all - named && has > 0 && !is_split &&
                   (has_numbers || !is_dot)
               ? SC_PACK_COMBINE
               : SC_PACK_READ_BACK;
}

sc_packing_way sc_way_of_packing(const sc_packing *p, uint32_t number, const sc_op *op)
{
    const sc_choice_group *group = &p->groups.data[number];
    if (op->result_count != 1 || op->operand_count > SC_MAX_FIXED_OPERANDS ||
        sc_op_has(op, SC_EFFECT) || reads_other_terms(p, number, op))
        return SC_PACK_READ_BACK;
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    if (sc_op_has(op, SC_RESHARD))
        return op->operand_count == 1 && stays(p, group, op) ? SC_PACK_COMPUTE : SC_PACK_READ_BACK;
    if (sc_is_routed(op))
        return sc_is_weight_gradient(p->m, op) ? SC_PACK_READ_SLOTS : SC_PACK_COMPUTE;
    const sc_type_info *type = sc_type_of(p->m, op->first_result);
    if (sc_op_takes_ids((sc_op_kind)op->kind, 1) && sc_op_has(op, SC_LINEAR_FIRST))
        return sc_has_id_of_choices(p, group, op) &&
                       sc_is_packed_in(p, op->operands[ROWS], number) &&
                       sc_count_choice_dims(group, type) == 0
                   ? SC_PACK_READ_SLOTS
                   : SC_PACK_READ_BACK;
    if (sc_op_is_sum((sc_op_kind)op->kind) && dims->count == 1 && dims->dims[0] == group->part)
        return SC_PACK_PASS_ON;
    if (sc_op_is_sum((sc_op_kind)op->kind) || (sc_ops[op->kind].fuse & SC_FUSE_CONTRACT) != 0)
        return way_of_sum(p, group, op);
    return sc_is_rowwise(op) && sc_count_choice_dims(group, type) == group->dim_count
               ? SC_PACK_COMPUTE
               : SC_PACK_READ_BACK;
}
