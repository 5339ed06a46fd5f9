/* Result type inference through the `shape` column of the table, and construction of ops with
 * inferred types. */
#include "ir/ops/shapes.h"

#define shape_none NULL /* the word for no function in ops.def */

static sc_shape_fn *const shapes[SC_OP_COUNT] = {
#define OP(name, in, roles, shape, ...) shape_##shape,
#include "ir/ops/ops.def"
#undef OP
};

bool sc_op_is_inferred(sc_op_kind kind)
{
    return shapes[kind] != NULL;
}

static bool infer(sc_shape_request *request)
{
    request->error = NULL;
    request->error_id = SC_D_bad_operand;
    int wanted = sc_ops[request->kind].operands;
    if (wanted != SC_ANY && request->operand_count < (uint32_t)wanted) {
        request->error = "too few operands";
        return false;
    }
    if (!shapes[request->kind](request))
        return false;
    for (uint32_t r = 0; r < request->result_count; r++)
        request->results[r].placement = sc_placement_replicated();
    return true;
}

/* Returns the size of a created dim in an existing result, for ops whose operands do not determine
 * it. */
static int64_t existing_new_size(const sc_module *m, const sc_op *op)
{
    const sc_attr *to = sc_op_attr(op, SC_ATTR_parts);
    to = to != NULL ? to : sc_op_attr(op, SC_ATTR_to);
    to = to != NULL ? to : sc_op_attr(op, SC_ATTR_dims);
    if (to == NULL || to->count != 1 || op->result_count == 0)
        return 0;
    const sc_type_info *type = sc_type_of(m, op->first_result);
    int i = sc_type_find_dim(type, to->dims[0]);
    return i < 0 ? 0 : type->dims[i].size;
}

bool sc_op_infer(sc_module *m, sc_op_id id, sc_shape_request *request)
{
    const sc_op *op = sc_op_at(m, id);
    *request = (sc_shape_request){.m = m,
                                  .kind = (sc_op_kind)op->kind,
                                  .operands = op->operands,
                                  .operand_count = op->operand_count,
                                  .attrs = op->attrs,
                                  .attr_count = op->attr_count,
                                  .new_size = existing_new_size(m, op)};
    return infer(request);
}

sc_op_id sc_op_build(sc_shape_request *request, sc_func_id func, sc_op_id before, sc_op_id like)
{
    if (!infer(request))
        return SC_NONE;
    sc_type types[SC_MAX_FIXED_RESULTS];
    for (uint32_t r = 0; r < request->result_count; r++)
        types[r] = sc_type_intern(request->m, &request->results[r]);
    return sc_op_new(request->m, func, before, request->kind, request->operands,
                     request->operand_count, request->attrs, request->attr_count, types,
                     request->result_count, like);
}
