/* Ops that read their operands at the indices of the result. */
#include "codegen/lower/rows.h"

#include "codegen/lower/activation.h"

#include <math.h>
#include <string.h>

#include "support/hash.h"

static sc_dtype dtype_of(const sc_lowering *l, sc_knode node)
{
    return (sc_dtype)l->k->nodes.data[node].dtype;
}

sc_knode lower_constant(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    (void)index;
    return sc_kernel_constant(l->k, sc_lower_dtype(l, op->first_result),
                              sc_op_number(op, SC_ATTR_value, 0));
}

/* The global index along the one dim. */
sc_knode lower_index(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->first_result);
    sc_dim dim = sc_op_attr(op, SC_ATTR_dims)->dims[0];
    uint32_t at = sc_lower_at(type, dim);
    sc_knode position =
        sc_lower_position(l, op, dim, sc_type_local_size(l->m, type, at), index[at]);
    return sc_kernel_convert(l->k, position, sc_lower_dtype(l, op->first_result));
}

sc_knode lower_same(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    return sc_lower_operand(l, op, 0, index);
}

/* Wraps integers narrower than their arithmetic dtype. */
static sc_knode wrapped(sc_lowering *l, const sc_op *op, sc_knode node)
{
    return sc_lower_type(l, op->first_result)->dtype == SC_DTYPE_u8
               ? sc_lower_with(l, SC_NODE_mod, node, 256)
               : node;
}

sc_knode lower_cast(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode x = sc_lower_operand(l, op, 0, index);
    sc_dtype to = sc_lower_dtype(l, op->first_result);
    if (sc_lower_type(l, op->first_result)->dtype == SC_DTYPE_u8 &&
        sc_dtype_is_float(dtype_of(l, x)))
        to = SC_DTYPE_i64; /* so that large floats wrap to a byte */
    return sc_kernel_convert(l->k, wrapped(l, op, sc_kernel_convert(l->k, x, to)),
                             sc_lower_dtype(l, op->first_result));
}

sc_knode lower_node(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode operands[3];
    for (uint32_t i = 0; i < op->operand_count && i < 3; i++)
        operands[i] = sc_kernel_convert(l->k, sc_lower_operand(l, op, i, index),
                                        sc_lower_dtype(l, op->first_result));
    return wrapped(l, op,
                   sc_kernel_node_new(l->k, l->rows[op->kind].node, operands, op->operand_count));
}

static sc_knode in_result_dtype(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    return sc_kernel_convert(l->k, sc_lower_operand(l, op, 0, index),
                             sc_lower_dtype(l, op->first_result));
}

/* The activation of an op that is one or its derivative. */
static const sc_gemm_step_kind activations[SC_OP_COUNT] = {
#define ACTIVATION(name, NAME, ...) [SC_OP_##name] = SC_GEMM_##NAME,
#include "program/activations.def"
#define ACTIVATION(...)
#define ACTIVATION_SLOPE(name, NAME, ...) [SC_OP_##name##_grad] = SC_GEMM_##NAME,
#include "program/activations.def"
};

sc_knode lower_activation(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    return wrapped(l, op,
                   sc_activation_node(l->k, activations[op->kind], in_result_dtype(l, op, index)));
}

/* The second operand is where the derivative is taken. */
sc_knode lower_slope(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode x = sc_kernel_convert(l->k, sc_lower_operand(l, op, 1, index),
                                   sc_lower_dtype(l, op->first_result));
    return sc_slope_node(l->k, activations[op->kind], in_result_dtype(l, op, index), x);
}

sc_knode lower_pow(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode x = in_result_dtype(l, op, index);
    double exponent = sc_op_number(op, SC_ATTR_exponent, 1);
    if (exponent == 2)
        return sc_lower_2(l, SC_NODE_mul, x, x);
    return exponent == 1 ? x : sc_lower_with(l, SC_NODE_pow, x, exponent);
}

/* The wider dtype of two that are compared; bools as integers. */
static sc_dtype common_dtype(sc_dtype a, sc_dtype b)
{
    static const sc_dtype order[] = {SC_DTYPE_f64, SC_DTYPE_f32, SC_DTYPE_i64};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (a == order[i] || b == order[i])
            return order[i];
    }
    return SC_DTYPE_i32;
}

sc_knode lower_compare(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode x = sc_lower_operand(l, op, 0, index), y = sc_lower_operand(l, op, 1, index);
    sc_dtype dtype = common_dtype(dtype_of(l, x), dtype_of(l, y));
    return sc_lower_2(l, l->rows[op->kind].node, sc_kernel_convert(l->k, x, dtype),
                      sc_kernel_convert(l->k, y, dtype));
}

sc_knode lower_logical(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_knode operands[2];
    for (uint32_t i = 0; i < op->operand_count && i < 2; i++)
        operands[i] = sc_kernel_convert(l->k, sc_lower_operand(l, op, i, index), SC_DTYPE_bool);
    return sc_kernel_node_new(l->k, l->rows[op->kind].node, operands, op->operand_count);
}

sc_knode lower_where(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    sc_dtype dtype = sc_lower_dtype(l, op->first_result);
    sc_knode condition = sc_kernel_convert(l->k, sc_lower_operand(l, op, 0, index), SC_DTYPE_bool);
    sc_knode yes = sc_kernel_convert(l->k, sc_lower_operand(l, op, 1, index), dtype);
    sc_knode no = sc_kernel_convert(l->k, sc_lower_operand(l, op, 2, index), dtype);
    return sc_lower_where(l, condition, yes, no);
}

/* Where an index is beyond the global size of one of the dims: the given value. */
sc_knode lower_mask(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->first_result);
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    sc_knode real = SC_NONE, x = sc_lower_operand(l, op, 0, index);
    if (dims != NULL) {
        for (uint32_t d = 0; d < dims->count; d++) {
            uint32_t at = sc_lower_at(type, dims->dims[d]);
            sc_knode global = sc_lower_position(l, op, dims->dims[d],
                                                sc_type_local_size(l->m, type, at), index[at]);
            real = sc_lower_both(
                l, real,
                sc_lower_2(l, SC_NODE_lt, global, sc_lower_integer(l, type->dims[at].size)));
        }
    }
    sc_knode value = sc_kernel_constant(l->k, dtype_of(l, x), sc_op_number(op, SC_ATTR_value, 0));
    return real == SC_NONE ? x : sc_lower_where(l, real, x, value);
}

/* The dropout mask depends on the seed, the op's path, the step, the micro-batch and the element's
 * index in the global array. */
sc_knode lower_dropout(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_type_info *type = sc_lower_type(l, op->operands[0]);
    double p = sc_op_number(op, SC_ATTR_p, 0);
    sc_knode x = sc_lower_operand(l, op, 0, index), element = sc_lower_integer(l, 0),
             own[SC_MAX_RANK];
    if (p == 0)
        return x;
    sc_lower_map_index(l, type, sc_lower_type(l, op->first_result), index, sc_lower_integer(l, 0),
                       own);
    int64_t stride = 1;
    for (uint32_t i = type->rank; i-- > 0; stride *= type->dims[i].size) {
        sc_knode global =
            sc_lower_position(l, op, type->dims[i].dim, sc_type_local_size(l->m, type, i), own[i]);
        element =
            sc_lower_2(l, SC_NODE_add,
                       sc_lower_2(l, SC_NODE_mul, global, sc_lower_integer(l, stride)), element);
    }
    const char *path = sc_text(l->m->context, sc_op_word(op, SC_ATTR_seed));
    uint32_t key = sc_kernel_add_param(
        l->k, &(sc_image_param){.kind = SC_PARAM_KEY, .path_hash = sc_fnv1a64(path, strlen(path))});
    uint32_t step = sc_kernel_add_param(l->k, &(sc_image_param){.kind = SC_PARAM_STEP});
    uint32_t micro_batch =
        sc_kernel_add_param(l->k, &(sc_image_param){.kind = SC_PARAM_MICRO_BATCH});
    sc_knode random =
        sc_kernel_random(l->k, element, sc_kernel_param(l->k, key), sc_kernel_param(l->k, step),
                         sc_kernel_param(l->k, micro_batch));
    sc_knode kept = sc_lower_with(l, SC_NODE_ge, random, p);
    return sc_lower_where(l, kept, sc_lower_with(l, SC_NODE_mul, x, 1 / (1 - p)),
                          sc_kernel_constant(l->k, dtype_of(l, x), 0));
}

/* A term of a partial sum, contributed by the first rank of each group. */
sc_knode lower_to_partial(sc_lowering *l, const sc_op *op, const sc_knode *index)
{
    const sc_attr *over = sc_op_attr(op, SC_ATTR_over);
    sc_knode x = sc_lower_operand(l, op, 0, index);
    sc_knode member = sc_lower_rank_param(l, sc_terms_of(l->m, over->sub_axes, over->count, 1));
    return sc_lower_where(l, sc_lower_with(l, SC_NODE_eq, member, 0), x,
                          sc_kernel_constant(l->k, dtype_of(l, x), 0));
}
