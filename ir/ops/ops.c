#include "ir/ops/ops.h"

#include <string.h>

#include "ir/ops/derive.h"
#include "ir/ops/eval.h"
#include "ir/ops/expand.h"
#include "ir/ops/roles.h"
#include "ir/ops/shapes.h"

/* The words of the last column. */
enum {
    ALONE = 0,
    FREE = SC_FUSE_FREE,
    VIEW = SC_FUSE_VIEW,
    MAP = SC_FUSE_MAP,
    REDUCE = SC_FUSE_REDUCE,
    ROOT = SC_FUSE_ROOT,
    EXPAND = SC_FUSE_EXPAND,
    DEAR = SC_FUSE_DEAR,
    INDEXED = SC_FUSE_INDEXED,
    EPILOGUE = SC_FUSE_EPILOGUE,
    CONTRACT = SC_FUSE_CONTRACT,
    MOVES = SC_FUSE_MOVES
};

const sc_op_row sc_ops[SC_OP_COUNT] = {
#define OP(name, in, traits, roles, shape, eval, expand, derive, fuse) {#name, in, traits, roles, shape, eval, expand, derive, fuse},
#include "ir/ops/ops.def"
#undef OP
};

const char *const sc_attr_names[SC_ATTR_COUNT] = {
#define ATTR(name, kind) #name,
#include "ir/attrs.def"
#undef ATTR
};

const sc_attr_kind sc_attr_kinds[SC_ATTR_COUNT] = {
#define ATTR(name, kind) SC_ATTR_KIND_##kind,
#include "ir/attrs.def"
#undef ATTR
};

bool sc_op_is_forward(const sc_module *m, const sc_op *op)
{
    const char *phase = sc_text(m->context, sc_op_word(op, SC_ATTR_phase));
    return phase[0] == 0 || strcmp(phase, "forward") == 0 || strcmp(phase, "recompute") == 0;
}

sc_dim sc_module_group_of(const sc_module *m, const sc_dim *leaves, uint32_t count)
{
    for (sc_dim d = 0; count > 1 && d < m->dims.count; d++) {
        const sc_dim_info *info = &m->dims.data[d];
        if (info->part_count == count && memcmp(info->parts, leaves, count * sizeof *leaves) == 0)
            return d;
    }
    return SC_NONE;
}

bool sc_is_made_anywhere(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if ((sc_op_traits(op) & SC_CONSTANT) != 0)
        return true;
    return (sc_op_traits(op) & SC_SPREADS) != 0 && sc_type_of(m, op->operands[0])->rank == 0;
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
    if (!sc_ops[request->kind].shape(request))
        return false;
    for (uint32_t r = 0; r < request->result_count; r++)
        request->results[r].placement = sc_placement_replicated();
    return true;
}

/* The size a new dim has in an existing result, for ops whose operands do not tell it. */
static int64_t existing_new_size(const sc_module *m, const sc_op *op)
{
    const sc_attr *to = sc_op_attr(op, SC_ATTR_to);
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
    return sc_op_new(request->m, func, before, request->kind, request->operands, request->operand_count, request->attrs,
                     request->attr_count, types, request->result_count, like);
}
