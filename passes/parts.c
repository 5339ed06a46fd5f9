#include "passes/parts.h"

#include "ir/ops/ops.h"

enum { IDS = 2 };

sc_dim sc_numbered_dim(sc_module *m, sc_dim of, const char *word, int64_t count)
{
    sc_sym name =
        sc_intern_printf(&m->context->names, "%s.%s%lld",
                         sc_text(m->context, m->dims.data[of].name), word, (long long)count);
    sc_dim known = sc_module_find_dim(m, name);
    return known != SC_NONE ? known : sc_module_add_dim(m, name);
}

sc_dim sc_parts_dim(sc_module *m, sc_dim experts, int64_t count)
{
    return sc_numbered_dim(m, experts, "by", count);
}

int64_t sc_part_size(const sc_module *m, sc_value with_experts, sc_dim experts, int64_t count)
{
    const sc_type_info *with = sc_type_of(m, with_experts);
    int64_t size = with->dims[sc_type_find_dim(with, experts)].size;
    return sc_dim_padded(m, experts, size) / count;
}

bool sc_is_routed(const sc_op *op)
{
    return sc_op_takes_ids((sc_op_kind)op->kind, IDS);
}

bool sc_is_weight_gradient(const sc_module *m, const sc_op *op)
{
    sc_dim experts = sc_op_attr(op, SC_ATTR_to)->dims[0];
    return sc_type_find_dim(sc_type_of(m, op->first_result), experts) >= 0;
}

bool sc_is_rowwise(const sc_op *op)
{
    return sc_op_has(op, SC_ELEMENTWISE) && !sc_op_has(op, SC_CONSTANT | SC_RANDOM) &&
           op->result_count == 1;
}

sc_value sc_behind_names(const sc_module *m, const sc_train_step *step, sc_value value)
{
    for (;;) {
        sc_value like = sc_like_of(step, value);
        const sc_op *op = sc_op_at(m, sc_def(m, value));
        if (like != SC_NONE)
            value = like;
        else if (sc_op_is_operand(op) && sc_op_has(op, SC_VIEW))
            value = op->operands[0];
        else
            return value;
    }
}

sc_value sc_ids_root(const sc_module *m, const sc_train_step *step, sc_value ids)
{
    for (;;) {
        ids = sc_behind_names(m, step, ids);
        const sc_op *op = sc_op_at(m, sc_def(m, ids));
        if (!sc_op_has(op, SC_RESHARD) || op->operand_count != 1)
            return ids;
        ids = op->operands[0];
    }
}
