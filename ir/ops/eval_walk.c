#include "ir/ops/eval_walk.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "support/number.h"

bool sc_eval_fail(sc_eval *eval, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sc_vsnprintf(eval->error, sizeof eval->error, format, args);
    va_end(args);
    return false;
}

const char *sc_eval_dim_name(const sc_eval *eval, sc_dim dim)
{
    return sc_text(eval->m->context, eval->m->dims.data[dim].name);
}

/* Returns the local size of a leaf, from any operand or result that has it. */
static int64_t local_size(const sc_eval *eval, sc_dim leaf)
{
    for (uint32_t i = 0; i < eval->op->operand_count; i++) {
        int at = sc_type_find_dim(eval->operand_types[i], leaf);
        if (at >= 0)
            return eval->operands[i]->sizes[at];
    }
    for (uint32_t i = 0; i < eval->op->result_count; i++) {
        int at = sc_type_find_dim(eval->result_types[i], leaf);
        if (at >= 0)
            return eval->results[i].sizes[at];
    }
    return 0;
}

int64_t sc_eval_global_size(const sc_eval *eval, sc_dim leaf)
{
    for (uint32_t i = 0; i < eval->op->operand_count + eval->op->result_count; i++) {
        bool is_operand = i < eval->op->operand_count;
        const sc_type_info *type =
            is_operand ? eval->operand_types[i] : eval->result_types[i - eval->op->operand_count];
        int at = sc_type_find_dim(type, leaf);
        if (at >= 0)
            return type->dims[at].size;
    }
    return 0;
}

/* Returns the dim whose split places the leaf's elements: in a ring, keys are split as queries are.
 */
static sc_dim split_like(const sc_eval *eval, sc_dim leaf)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims),
                  *to = sc_op_attr(eval->op, SC_ATTR_to);
    bool is_of_keys = sc_op_attr(eval->op, SC_ATTR_ring) != NULL && dims->dims[0] == leaf;
    return is_of_keys && to != NULL ? to->dims[0] : leaf;
}

sc_eval_shard sc_eval_shard_of(const sc_eval *eval, sc_dim leaf)
{
    const sc_attr *offset = sc_op_attr(eval->op, SC_ATTR_offset);
    sc_eval_shard shard = {{1, 1, 1}, 0, local_size(eval, leaf)};
    if (offset == NULL)
        return shard;
    sc_dim split = split_like(eval, leaf);
    for (uint32_t i = 0; i < offset->count; i++) {
        if (offset->splits[i].dim != split)
            continue;
        const sc_mesh *mesh = &eval->m->mesh;
        const sc_sub_axis_list *sub_axes = &offset->splits[i].sub_axes;
        int64_t members = (int64_t)sc_sub_axis_list_size(mesh, sub_axes),
                back = leaf == split ? 0 : sc_op_int(eval->op, SC_ATTR_block, 0);
        shard.order = sc_shard_order_of(eval->m, leaf, sub_axes);
        /* on one device all of it is there, in order */
        if (shard.order.members > 1 && shard.local == sc_eval_global_size(eval, leaf))
            return (sc_eval_shard){{1, 1, 1}, 0, shard.local};
        shard.number = (sc_shard_number(mesh, sub_axes, eval->rank) + members - back) % members;
    }
    return shard;
}

int64_t sc_eval_position(const sc_eval_shard *shard, int64_t i)
{
    return sc_shard_position(&shard->order, shard->number, shard->local, i);
}

int64_t sc_eval_place(const sc_eval_shard *shard, int64_t position)
{
    return sc_shard_find(&shard->order, shard->number, shard->local, position);
}

void sc_walk_init(sc_walk *walk)
{
    walk->rank = walk->arrays = 0;
    walk->part = SC_NONE;
}

static sc_walk_dim *find_dim(sc_walk *walk, sc_dim dim)
{
    for (uint32_t i = 0; i < walk->rank; i++) {
        if (walk->dims[i].dim == dim)
            return &walk->dims[i];
    }
    return NULL;
}

static bool add_dim(sc_eval *eval, sc_walk *walk, sc_dim dim, int64_t size, int64_t stride)
{
    sc_walk_dim *known = find_dim(walk, dim);
    size = dim == walk->part ? walk->part_size : size;
    if (known == NULL) {
        if (walk->rank == SC_WALK_DIMS)
            return sc_eval_fail(eval, "more than %d dims", (int)SC_WALK_DIMS);
        known = &walk->dims[walk->rank++];
        *known = (sc_walk_dim){.dim = dim, .size = size};
    }
    if (known->size != size)
        return sc_eval_fail(
            eval, "dim %s is %lld in one operand or result and %lld in another on this rank",
            sc_eval_dim_name(eval, dim), (long long)known->size, (long long)size);
    known->strides[walk->arrays] = stride;
    return true;
}

bool sc_walk_add(sc_eval *eval, sc_walk *walk, const sc_array *array, const sc_type_info *type)
{
    int64_t stride = 1;
    int64_t strides[SC_MAX_RANK];
    for (uint32_t i = array == NULL ? 0 : array->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= array->sizes[i];
    }
    if (array != NULL) {
        for (uint32_t i = 0; i < array->rank; i++) {
            if (!add_dim(eval, walk, type->dims[i].dim, array->sizes[i], strides[i]))
                return false;
        }
    }
    walk->arrays++;
    return true;
}

bool sc_walk_add_result(sc_eval *eval, sc_walk *walk, uint32_t result)
{
    if (result >= eval->op->result_count)
        return sc_eval_fail(eval, "its result %u is missing", result + 1);
    return sc_walk_add(eval, walk, &eval->results[result], eval->result_types[result]);
}

bool sc_walk_add_optional(sc_eval *eval, sc_walk *walk, uint32_t result)
{
    return result < eval->op->result_count ? sc_walk_add_result(eval, walk, result)
                                           : sc_walk_add(eval, walk, NULL, NULL);
}

bool sc_walk_add_operand(sc_eval *eval, sc_walk *walk, uint32_t operand)
{
    return sc_walk_add(eval, walk, eval->operands[operand], eval->operand_types[operand]);
}

bool sc_walk_add_called(sc_eval *eval, sc_walk *walk, const char *word, const double **data)
{
    uint32_t fixed = (uint32_t)sc_ops[eval->op->kind].operands;
    int operand = sc_op_operand_called(eval->m, eval->op, word, fixed);
    if (operand >= (int)eval->op->operand_count)
        return sc_eval_fail(eval, "its operand %s is missing", word);
    *data = operand < 0 ? NULL : eval->operands[operand]->data;
    return operand < 0 ? sc_walk_add(eval, walk, NULL, NULL)
                       : sc_walk_add_operand(eval, walk, (uint32_t)operand);
}

bool sc_walk_take(sc_eval *eval, sc_walk *walk, sc_dim dim, sc_walk_dim *taken)
{
    sc_walk_dim *found = find_dim(walk, dim);
    if (found == NULL)
        return sc_eval_fail(eval, "no operand or result has dim %s", sc_eval_dim_name(eval, dim));
    *taken = *found;
    walk->rank--;
    memmove(found, found + 1, (size_t)(walk->dims + walk->rank - found) * sizeof *found);
    return true;
}

bool sc_walk_take_attr(sc_eval *eval, sc_walk *walk, sc_attr_key key, sc_walk_dim *taken)
{
    const sc_attr *attr = sc_op_attr(eval->op, key);
    if (attr == NULL || attr->count != 1)
        return sc_eval_fail(eval, "attribute %s needs to be one dim", sc_attr_names[key]);
    return sc_walk_take(eval, walk, attr->dims[0], taken);
}

bool sc_walk_split(sc_eval *eval, sc_walk *walk, sc_walk *inner)
{
    const sc_attr *dims = sc_op_attr(eval->op, SC_ATTR_dims);
    sc_walk_init(inner);
    inner->arrays = walk->arrays;
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
            if (!sc_walk_take(eval, walk, dims->dims[i], &inner->dims[inner->rank]))
                return false;
            inner->rank++;
        }
    }
    sc_walk_collapse(inner);
    return true;
}

static bool passes_as_one(const sc_walk *walk, const sc_walk_dim *major, const sc_walk_dim *minor)
{
    for (uint32_t a = 0; a < walk->arrays; a++) {
        if (major->strides[a] != minor->strides[a] * minor->size)
            return false;
    }
    return true;
}

void sc_walk_collapse(sc_walk *walk)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < walk->rank; i++) {
        sc_walk_dim *last = kept == 0 ? NULL : &walk->dims[kept - 1];
        const sc_walk_dim *dim = &walk->dims[i];
        if (dim->size == 1)
            continue;
        if (last != NULL && passes_as_one(walk, last, dim)) {
            int64_t size = last->size;
            *last = *dim;
            last->size *= size;
        } else if (kept++ != i) {
            walk->dims[kept - 1] = *dim;
        }
    }
    walk->rank = kept;
}

sc_walk_dim sc_walk_take_row(sc_walk *walk)
{
    sc_walk_collapse(walk);
    if (walk->rank == 0)
        return (sc_walk_dim){.dim = SC_NONE, .size = 1};
    return walk->dims[--walk->rank];
}

int64_t sc_walk_index(const sc_walk *walk, sc_dim dim)
{
    for (uint32_t i = 0; i < walk->rank; i++) {
        if (walk->dims[i].dim == dim)
            return walk->dims[i].index;
    }
    return 0;
}

void sc_walk_start(sc_walk *walk)
{
    memset(walk->at, 0, sizeof walk->at);
    for (uint32_t i = 0; i < walk->rank; i++)
        walk->dims[i].index = 0;
}

bool sc_walk_next(sc_walk *walk)
{
    for (uint32_t i = walk->rank; i-- > 0;) {
        sc_walk_dim *dim = &walk->dims[i];
        bool wraps = ++dim->index == dim->size;
        int64_t steps = wraps ? 1 - dim->size : 1;
        for (uint32_t a = 0; a < walk->arrays; a++)
            walk->at[a] += steps * dim->strides[a];
        if (!wraps)
            return true;
        dim->index = 0;
    }
    return false;
}
