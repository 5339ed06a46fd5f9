/* Ops that select, place and resize: gather and its transpose, onehot, topk, append, last, slice
 * and its transpose, concat. Indices are checked against global sizes, so a bad id is an error on
 * every rank. Elements outside a rank's shard give 0, and the ranks' results are summed. */
#include <math.h>
#include <string.h>

#include "ir/ops/eval_walk.h"

bool eval_gather(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim v;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_operand(eval, &walk, 1) || !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &v))
        return false;
    int at = sc_type_find_dim(eval->operand_types[0], v.dim);
    if (at < 0)
        return sc_eval_fail(eval, "the table lacks dim %s", sc_eval_dim_name(eval, v.dim));
    int64_t size = eval->operand_types[0]->dims[at].size;
    const sc_eval_shard shard = sc_eval_shard_of(eval, v.dim);
    sc_walk_start(&walk);
    do {
        double id = eval->operands[1]->data[walk.at[2]];
        if (!(id >= 0 && id < (double)size))
            return sc_eval_fail(eval, "id %.17g is outside 0 <= id < %s = %lld", id,
                                sc_eval_dim_name(eval, v.dim), (long long)size);
        int64_t local = sc_eval_place(&shard, (int64_t)id);
        if (local >= 0)
            eval->results[0].data[walk.at[0]] =
                eval->operands[0]->data[walk.at[1] + local * v.strides[1]];
    } while (sc_walk_next(&walk));
    return true;
}

/* Sums over the dims that the result lacks. */
bool eval_scatter_add(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim v;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 1) ||
        !sc_walk_add_result(eval, &walk, 0) || !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &v))
        return false;
    int64_t size = sc_eval_global_size(eval, v.dim);
    const sc_eval_shard shard = sc_eval_shard_of(eval, v.dim);
    sc_walk_start(&walk);
    do {
        double id = eval->operands[1]->data[walk.at[1]];
        if (!(id >= 0 && id < (double)size))
            return sc_eval_fail(eval, "id %.17g is outside 0 <= id < %s = %lld", id,
                                sc_eval_dim_name(eval, v.dim), (long long)size);
        int64_t local = sc_eval_place(&shard, (int64_t)id);
        if (local >= 0)
            eval->results[0].data[walk.at[2] + local * v.strides[2]] +=
                eval->operands[0]->data[walk.at[0]];
    } while (sc_walk_next(&walk));
    return true;
}

/* An id outside the dim gives a row of zeros. */
bool eval_onehot(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim v;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &v))
        return false;
    const sc_eval_shard shard = sc_eval_shard_of(eval, v.dim);
    sc_walk_start(&walk);
    do {
        double id = eval->operands[0]->data[walk.at[1]];
        for (int64_t i = 0; i < v.size; i++)
            eval->results[0].data[walk.at[0] + i * v.strides[0]] =
                id == (double)sc_eval_position(&shard, i);
    } while (sc_walk_next(&walk));
    return true;
}

/* topk's order: larger first; ties by lower index; NaN is -inf. */
static bool comes_before(const double *x, int64_t stride, int64_t i, int64_t j)
{
    double a = isnan(x[i * stride]) ? -INFINITY : x[i * stride],
           b = isnan(x[j * stride]) ? -INFINITY : x[j * stride];
    return a > b || (a == b && i < j);
}

/* Returns the best element after `previous` (-1: of all), or -1 if there is none. */
static int64_t next_best(const double *x, const sc_walk_dim *dim, int64_t stride, int64_t previous)
{
    int64_t best = -1;
    for (int64_t i = 0; i < dim->size; i++) {
        bool is_left = previous < 0 || comes_before(x, stride, previous, i);
        if (is_left && (best < 0 || comes_before(x, stride, i, best)))
            best = i;
    }
    return best;
}

bool eval_topk(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim from, to;
    sc_walk_init(&walk);
    if (!sc_walk_add_operand(eval, &walk, 0) || !sc_walk_add_result(eval, &walk, 0) ||
        !sc_walk_add_result(eval, &walk, 1) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &from) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_to, &to))
        return false;
    if (to.size > from.size)
        return sc_eval_fail(eval, "%lld of %lld elements", (long long)to.size,
                            (long long)from.size);
    const sc_eval_shard shard = sc_eval_shard_of(eval, from.dim);
    sc_walk_start(&walk);
    do {
        const double *x = eval->operands[0]->data + walk.at[0];
        int64_t pick = -1;
        for (int64_t q = 0; q < to.size; q++) {
            pick = next_best(x, &from, from.strides[0], pick);
            eval->results[0].data[walk.at[1] + q * to.strides[1]] = x[pick * from.strides[0]];
            eval->results[1].data[walk.at[2] + q * to.strides[2]] =
                (double)sc_eval_position(&shard, pick);
        }
    } while (sc_walk_next(&walk));
    return true;
}

/* Destination of the rows of an append: row s of x goes to a cache row t, for one row of pos and
 * len. */
typedef struct sc_append {
    sc_walk_dim t, s;
    int64_t t_size; /* global */
    sc_eval_shard t_shard, s_shard;
    const double *pos, *len; /* NULL: 0 and all rows */
} sc_append;

static bool append_row(sc_eval *eval, const sc_append *append, const int64_t at[4])
{
    double position = append->pos == NULL ? 0 : append->pos[at[2]],
           length = append->len == NULL ? INFINITY : append->len[at[3]];
    for (int64_t i = 0; i < append->s.size; i++) {
        double row = (double)sc_eval_position(&append->s_shard, i), t = position + row;
        if (row >= length)
            break;
        if (!(t >= 0 && t < (double)append->t_size))
            return sc_eval_fail(eval,
                                "row %lld is at position %.17g, outside its capacity %s = %lld",
                                (long long)at[2], t, sc_eval_dim_name(eval, append->t.dim),
                                (long long)append->t_size);
        int64_t local = sc_eval_place(&append->t_shard, (int64_t)t);
        if (local >= 0)
            eval->results[0].data[at[0] + local * append->t.strides[0]] =
                eval->operands[1]->data[at[1] + i * append->s.strides[1]];
    }
    return true;
}

/* The row in an error message is the local index in pos, whose only dim has stride 1. */
bool eval_append(sc_eval *eval)
{
    sc_walk walk;
    sc_append append;
    if (eval->operands[0]->count != eval->results[0].count)
        return sc_eval_fail(eval, "the cache and the result differ in size");
    memcpy(eval->results[0].data, eval->operands[0]->data,
           (size_t)eval->results[0].count * sizeof *eval->results[0].data);
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 1) ||
        !sc_walk_add_called(eval, &walk, "pos", &append.pos) ||
        !sc_walk_add_called(eval, &walk, "len", &append.len) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_to, &append.t) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &append.s))
        return false;
    int at = sc_type_find_dim(eval->result_types[0], append.t.dim);
    if (at < 0)
        return sc_eval_fail(eval, "the cache lacks dim %s", sc_eval_dim_name(eval, append.t.dim));
    append.t_size = eval->result_types[0]->dims[at].size;
    append.t_shard = sc_eval_shard_of(eval, append.t.dim);
    append.s_shard = sc_eval_shard_of(eval, append.s.dim);
    sc_walk_start(&walk);
    do {
        if (!append_row(eval, &append, walk.at))
            return false;
    } while (sc_walk_next(&walk));
    return true;
}

/* A row of length 0 has no last element: zeros. */
bool eval_last(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim s;
    const double *len;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_called(eval, &walk, "len", &len) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &s))
        return false;
    int dim = sc_type_find_dim(eval->operand_types[0], s.dim);
    if (dim < 0)
        return sc_eval_fail(eval, "the operand lacks dim %s", sc_eval_dim_name(eval, s.dim));
    int64_t size = eval->operand_types[0]->dims[dim].size;
    const sc_eval_shard shard = sc_eval_shard_of(eval, s.dim);
    sc_walk_start(&walk);
    do {
        double length = len == NULL ? (double)size : len[walk.at[2]];
        if (!(length >= 0 && length <= (double)size))
            return sc_eval_fail(eval, "length %.17g is outside 0 <= length <= %s = %lld", length,
                                sc_eval_dim_name(eval, s.dim), (long long)size);
        int64_t local = length < 1 ? -1 : sc_eval_place(&shard, (int64_t)length - 1);
        if (local >= 0)
            eval->results[0].data[walk.at[0]] =
                eval->operands[0]->data[walk.at[1] + local * s.strides[1]];
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_slice(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim from, to;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &from) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_to, &to))
        return false;
    int64_t first = sc_op_int(eval->op, SC_ATTR_from, 0);
    if (first < 0 || first > from.size - to.size)
        return sc_eval_fail(eval, "elements %lld to %lld of %lld", (long long)first,
                            (long long)first + (long long)to.size, (long long)from.size);
    sc_walk_start(&walk);
    do {
        for (int64_t i = 0; i < to.size; i++)
            eval->results[0].data[walk.at[0] + i * to.strides[0]] =
                eval->operands[0]->data[walk.at[1] + (first + i) * from.strides[1]];
    } while (sc_walk_next(&walk));
    return true;
}

bool eval_unslice(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim part, whole;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &part) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_to, &whole))
        return false;
    int64_t first = sc_op_int(eval->op, SC_ATTR_from, 0);
    if (first < 0 || first + part.size > whole.size)
        return sc_eval_fail(eval, "%lld elements from %lld on do not fit into %lld",
                            (long long)part.size, (long long)first, (long long)whole.size);
    sc_walk_start(&walk);
    do {
        for (int64_t i = 0; i < part.size; i++)
            eval->results[0].data[walk.at[0] + (first + i) * whole.strides[0]] =
                eval->operands[0]->data[walk.at[1] + i * part.strides[1]];
    } while (sc_walk_next(&walk));
    return true;
}

/* Both operands may have the same name for the joined dim. */
static bool take_second(sc_eval *eval, sc_walk *walk, const sc_walk_dim *first, sc_walk_dim *second)
{
    const sc_attr *attr = sc_op_attr(eval->op, SC_ATTR_from_dims);
    *second = *first;
    return (attr != NULL && attr->count == 1 && attr->dims[0] == first->dim) ||
           sc_walk_take_attr(eval, walk, SC_ATTR_from_dims, second);
}

bool eval_concat(sc_eval *eval)
{
    sc_walk walk;
    sc_walk_dim first, second, to;
    sc_walk_init(&walk);
    if (!sc_walk_add_result(eval, &walk, 0) || !sc_walk_add_operand(eval, &walk, 0) ||
        !sc_walk_add_operand(eval, &walk, 1) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_dims, &first) ||
        !take_second(eval, &walk, &first, &second) ||
        !sc_walk_take_attr(eval, &walk, SC_ATTR_to, &to))
        return false;
    if (first.size + second.size != to.size)
        return sc_eval_fail(eval, "%lld and %lld elements make %lld", (long long)first.size,
                            (long long)second.size, (long long)to.size);
    sc_walk_start(&walk);
    do {
        for (int64_t i = 0; i < to.size; i++) {
            bool is_second = i >= first.size;
            const double *x =
                is_second
                    ? eval->operands[1]->data + walk.at[2] + (i - first.size) * second.strides[2]
                    : eval->operands[0]->data + walk.at[1] + i * first.strides[1];
            eval->results[0].data[walk.at[0] + i * to.strides[0]] = *x;
        }
    } while (sc_walk_next(&walk));
    return true;
}

/* Sets elements beyond the global size of any of `dims` to `value`: the neutral element of the
 * reduction that reads the padding. */
bool eval_mask(sc_eval *eval)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    const sc_array *x = eval->operands[0];
    const sc_type_info *type = eval->operand_types[0];
    double value = sc_op_number(eval->op, SC_ATTR_value, 0);
    int64_t real[SC_MAX_RANK], index[SC_MAX_RANK] = {0};
    for (uint32_t i = 0; i < x->rank; i++) {
        real[i] = x->sizes[i];
        if (dims != NULL) {
            for (uint32_t d = 0; d < dims->count; d++) {
                const sc_eval_shard shard = sc_eval_shard_of(eval, type->dims[i].dim);
                int64_t left = type->dims[i].size - sc_eval_position(&shard, 0);
                if (dims->dims[d] == type->dims[i].dim && left < real[i])
                    real[i] = left;
            }
        }
    }
    for (int64_t at = 0; at < x->count; at++) {
        bool beyond = false;
        for (uint32_t i = 0; i < x->rank; i++)
            beyond = beyond || index[i] >= real[i];
        eval->results[0].data[at] = beyond ? value : x->data[at];
        for (uint32_t i = x->rank; i-- > 0 && ++index[i] == x->sizes[i];)
            index[i] = 0;
    }
    return true;
}
