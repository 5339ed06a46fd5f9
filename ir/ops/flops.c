#include "ir/ops/flops.h"

#include <math.h>

static double elements(const sc_module *m, sc_value value, sc_size_of *size)
{
    const sc_type_info *type = sc_type_of(m, value);
    double product = 1;
    for (uint32_t i = 0; i < type->rank; i++)
        product *= (double)size(m, type, i);
    return product;
}

/* Product of the sizes of the op's named dims, as in the operand. */
static double named_sizes(const sc_module *m, const sc_op *op, uint32_t operand, sc_size_of *size)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *type = sc_type_of(m, op->operands[operand]);
    double product = 1;
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
            int at = sc_type_find_dim(type, dims->dims[i]);
            product *= at < 0 ? 1 : (double)size(m, type, (uint32_t)at);
        }
    }
    return product;
}

double flops_dot(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    return 2 * elements(m, op->first_result, size) * named_sizes(m, op, 0, size);
}

/* The part of an op's rows that a rank has, under even routing: as large as its part of the
 * experts, of which `with` has the dim; of rows in slots those that are there. */
static double even_part(const sc_module *m, const sc_op *op, sc_value with, sc_size_of *size)
{
    const sc_type_info *type = sc_type_of(m, with);
    int at = sc_type_find_dim(type, sc_op_attr(op, SC_ATTR_to)->dims[0]);
    double part = at < 0 ? 1 : (double)size(m, type, (uint32_t)at) / (double)type->dims[at].size;
    return sc_op_number(op, SC_ATTR_even, fmin(1, part));
}

double flops_routed_dot(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    return flops_dot(m, op, size) * even_part(m, op, op->operands[1], size);
}

/* One product of the dims of rows, of x and of dy. */
double flops_routed_grad(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    const sc_type_info *types[] = {sc_type_of(m, op->operands[1]), sc_type_of(m, op->operands[2])};
    double product =
        2 * elements(m, op->operands[0], size) * even_part(m, op, op->first_result, size);
    sc_dim counted[2 * SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t t = 0; t < 2; t++) {
        for (uint32_t i = 0; i < types[t]->rank; i++) {
            sc_dim dim = types[t]->dims[i].dim;
            bool known = sc_type_find_dim(sc_type_of(m, op->operands[0]), dim) >= 0;
            for (uint32_t k = 0; k < count; k++)
                known = known || counted[k] == dim;
            if (known)
                continue;
            counted[count++] = dim;
            product *= (double)size(m, types[t], i);
        }
    }
    return product;
}

/* Number of keys per query of attend[T, E]. */
static double key_count(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    const sc_type_info *keys = sc_type_of(m, op->operands[1]);
    int at = dims == NULL || dims->count == 0 ? -1 : sc_type_find_dim(keys, dims->dims[0]);
    return at < 0 ? 1 : (double)size(m, keys, (uint32_t)at);
}

double flops_attend(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    double keys = 2 * key_count(m, op, size);
    return elements(m, op->operands[0], size) * keys + elements(m, op->first_result, size) * keys;
}

/* Five matmuls, because scores are recomputed: three with the dims of queries, two with those of
 * the result. */
double flops_attend_grad(const sc_module *m, const sc_op *op, sc_size_of *size)
{
    double keys = 2 * key_count(m, op, size), scores = elements(m, op->operands[0], size) * keys,
           sums = elements(m, op->operands[3], size) * keys;
    return 3 * scores + 2 * sums;
}
