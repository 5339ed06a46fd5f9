/* Result types of every op from its operands and attributes. Each function fills request->results
 * or sets an error. Sizes of 0 (not bound yet) match any size. */
#include "ir/ops/shapes.h"

#include <string.h>

#include "ir/ops/rope_scaling.h"
#include "ir/print_type.h"

static const sc_type_info *operand(const sc_shape_request *request, uint32_t i)
{
    return sc_type_of(request->m, request->operands[i]);
}

static const sc_attr *attribute(const sc_shape_request *request, sc_attr_key key)
{
    for (uint32_t i = 0; i < request->attr_count; i++) {
        if (request->attrs[i].key == key)
            return &request->attrs[i];
    }
    return NULL;
}

static const char *dim_name(const sc_module *m, sc_dim dim)
{
    return sc_text(m->context, m->dims.data[dim].name);
}

static const char *operand_text(const sc_shape_request *request, uint32_t i)
{
    return sc_type_text(request->m, request->m->values.data[request->operands[i]].type);
}

#define fail(request, ...)                                                                         \
    ((request)->error = sc_arena_printf(&(request)->m->context->arena, __VA_ARGS__), false)

static const char *op_name(const sc_shape_request *request)
{
    return sc_ops[request->kind].name;
}

static void one_result(sc_shape_request *request, const sc_type_info *type)
{
    request->results[0] = *type;
    request->result_count = 1;
}

bool shape_nothing(sc_shape_request *request)
{
    request->result_count = 0;
    return true;
}

bool shape_same(sc_shape_request *request)
{
    one_result(request, operand(request, 0));
    return true;
}

static bool wants_float(sc_shape_request *request, uint32_t i)
{
    if (sc_dtype_is_float(operand(request, i)->dtype))
        return true;
    return fail(request, "%s needs a float dtype, but operand %u is %s", op_name(request), i + 1,
                operand_text(request, i));
}

bool shape_float(sc_shape_request *request)
{
    return wants_float(request, 0) && shape_same(request);
}

/* Kernels represent interleaved pairs as a separate dim, so the rank must have room for one. */
bool shape_rope(sc_shape_request *request)
{
    const sc_attr *pairs = attribute(request, SC_ATTR_pairs),
                  *dims = attribute(request, SC_ATTR_dims);
    const sc_type_info *x = operand(request, 0);
    const int at = dims == NULL || dims->count != 2 ? -1 : sc_type_find_dim(x, dims->dims[1]);
    sc_rope_scaling scaling;
    const char *wrong = sc_rope_scaling_of(request->m, request->attrs, request->attr_count,
                                           at < 0 ? 0 : x->dims[at].size / 2, &scaling);
    if (wrong != NULL)
        return fail(request, "%s: %s", op_name(request), wrong);
    bool unfolds =
        pairs != NULL && strcmp(sc_text(request->m->context, pairs->text), "interleaved") == 0;
    if (unfolds && operand(request, 0)->rank == SC_MAX_RANK)
        return fail(request,
                    "%s: a value of interleaved pairs has at most %d dims, but this one has %d",
                    op_name(request), SC_MAX_RANK - 1, SC_MAX_RANK);
    return shape_same(request);
}

/* Appends a dim of operand `from` to a result. Equal names must have equal sizes and the same
 * composite. */
static bool add_dim(sc_shape_request *request, sc_type_info *type, const sc_type_dim *dim)
{
    const sc_module *m = request->m;
    int i = sc_type_find_dim(type, dim->dim);
    if (i >= 0) {
        if (type->dims[i].size == 0)
            type->dims[i].size = dim->size;
        if (dim->size != 0 && type->dims[i].size != dim->size)
            return fail(request, "%s: dim %s has size %lld in one operand and %lld in another",
                        op_name(request), dim_name(m, dim->dim), (long long)type->dims[i].size,
                        (long long)dim->size);
        if (type->dims[i].group != dim->group) {
            sc_dim group = type->dims[i].group != SC_NONE ? type->dims[i].group : dim->group;
            return fail(request,
                        "%s: %s is a dim of one operand and a part of %s in another; use "
                        "split[%s](..) on the one that has %s",
                        op_name(request), dim_name(m, dim->dim), dim_name(m, group),
                        dim_name(m, group), dim_name(m, group));
        }
        return true;
    }
    if (type->rank == SC_MAX_RANK)
        return fail(request, "%s: the result would have more than %d dims", op_name(request),
                    SC_MAX_RANK);
    type->dims[type->rank++] = *dim;
    return true;
}

static bool broadcast(sc_shape_request *request, uint32_t first, uint32_t count, sc_type_info *type)
{
    *type = *operand(request, first);
    for (uint32_t o = first + 1; o < first + count; o++) {
        const sc_type_info *other = operand(request, o);
        for (uint32_t i = 0; i < other->rank; i++) {
            if (!add_dim(request, type, &other->dims[i]))
                return false;
        }
    }
    return true;
}

static bool same_dtypes(sc_shape_request *request, uint32_t a, uint32_t b)
{
    if (operand(request, a)->dtype == operand(request, b)->dtype)
        return true;
    return fail(request, "%s needs operands of one dtype, but they are %s and %s", op_name(request),
                operand_text(request, a), operand_text(request, b));
}

bool shape_broadcast(sc_shape_request *request)
{
    sc_type_info type;
    if (!same_dtypes(request, 0, 1) || !broadcast(request, 0, 2, &type))
        return false;
    if (type.dtype == SC_DTYPE_bool)
        return fail(request, "%s does not take bools; convert them with cast(x, f32)",
                    op_name(request));
    one_result(request, &type);
    return true;
}

bool shape_slope(sc_shape_request *request)
{
    return wants_float(request, 0) && shape_broadcast(request);
}

bool shape_compare(sc_shape_request *request)
{
    sc_type_info type;
    if (!same_dtypes(request, 0, 1) || !broadcast(request, 0, 2, &type))
        return false;
    type.dtype = SC_DTYPE_bool;
    one_result(request, &type);
    return true;
}

bool shape_logical(sc_shape_request *request)
{
    sc_type_info type;
    for (uint32_t i = 0; i < request->operand_count; i++) {
        if (operand(request, i)->dtype != SC_DTYPE_bool)
            return fail(request, "%s needs bools, but operand %u is %s", op_name(request), i + 1,
                        operand_text(request, i));
    }
    if (!broadcast(request, 0, request->operand_count, &type))
        return false;
    one_result(request, &type);
    return true;
}

bool shape_where(sc_shape_request *request)
{
    sc_type_info type;
    if (operand(request, 0)->dtype != SC_DTYPE_bool)
        return fail(request, "where needs a bool condition, but operand 1 is %s",
                    operand_text(request, 0));
    if (!same_dtypes(request, 1, 2) || !broadcast(request, 0, 3, &type))
        return false;
    type.dtype = operand(request, 1)->dtype;
    one_result(request, &type);
    return true;
}

/* True if each dim of the list is in operand o. */
static bool has_dims(sc_shape_request *request, const sc_attr *dims, uint32_t o)
{
    if (dims == NULL)
        return fail(request, "%s: its dims are missing", op_name(request));
    for (uint32_t i = 0; i < dims->count; i++) {
        if (sc_type_find_dim(operand(request, o), dims->dims[i]) < 0)
            return fail(request, "%s: operand %u, %s, has no dim %s", op_name(request), o + 1,
                        operand_text(request, o), dim_name(request->m, dims->dims[i]));
    }
    return true;
}

/* Ungroups leaves whose composite is no longer complete. */
static void drop_broken_groups(const sc_module *m, sc_type_info *type)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        uint32_t leaves = 0;
        for (uint32_t j = 0; j < type->rank; j++)
            leaves += type->dims[j].group == type->dims[i].group;
        if (type->dims[i].group != SC_NONE && leaves < m->dims.data[type->dims[i].group].part_count)
            type->dims[i].group = SC_NONE;
    }
}

/* Removes the listed dims. */
static void remove_dims(const sc_module *m, sc_type_info *type, const sc_attr *dims)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!sc_attr_has_dim(dims, type->dims[i].dim))
            type->dims[kept++] = type->dims[i];
    }
    type->rank = kept;
    drop_broken_groups(m, type);
}

static bool is_set(const sc_shape_request *request, sc_attr_key key)
{
    const sc_attr *attr = attribute(request, key);
    return attr != NULL && attr->integer != 0;
}

/* The dtype in which sums over a float dtype are accumulated. */
static sc_dtype wide_dtype(sc_dtype dtype)
{
    return dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

/* With the attribute `wide`, narrow floats become f32. */
static void widen(const sc_shape_request *request, sc_type_info *type)
{
    if (is_set(request, SC_ATTR_wide) && sc_dtype_is_float(type->dtype))
        type->dtype = wide_dtype(type->dtype);
}

/* True if the operand has ids for the only dim of the list. */
static bool wants_ids(sc_shape_request *request, const sc_attr *dims, uint32_t i)
{
    if (dims->count != 1)
        return fail(request, "%s works along one plain dim", op_name(request));
    if (sc_dtypes[operand(request, i)->dtype].kind == SC_DTYPE_INT &&
        sc_type_find_dim(operand(request, i), dims->dims[0]) < 0)
        return true;
    return fail(request, "%s needs integer ids without dim %s, but they are %s", op_name(request),
                dim_name(request->m, dims->dims[0]), operand_text(request, i));
}

static bool wants_numbers(sc_shape_request *request)
{
    if (operand(request, 0)->dtype != SC_DTYPE_bool)
        return true;
    return fail(request, "%s does not take bools; convert them with cast(x, f32)",
                op_name(request));
}

bool shape_dot(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    sc_type_info type;
    if (!same_dtypes(request, 0, 1) || !has_dims(request, dims, 0) || !has_dims(request, dims, 1) ||
        !broadcast(request, 0, 2, &type) || !wants_numbers(request))
        return false;
    widen(request, &type);
    remove_dims(request->m, &type, dims);
    one_result(request, &type);
    return true;
}

/* Takes the dim of parts from the type of x, and puts it first if the result has it. */
static bool move_parts(sc_shape_request *request, const sc_attr *parts, sc_type_info *type)
{
    if (parts == NULL)
        return true;
    const sc_type_info x = *type;
    remove_dims(request->m, type, parts);
    if (request->new_size == 0)
        return true;
    sc_type_info moved = {.dtype = x.dtype, .placement = x.placement};
    moved.dims[moved.rank++] = (sc_type_dim){parts->dims[0], SC_NONE, request->new_size};
    int at = sc_type_find_dim(&x, parts->dims[0]);
    if (at >= 0 && !add_dim(request, &moved, &x.dims[at]))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!add_dim(request, &moved, &type->dims[i]))
            return false;
    }
    *type = moved;
    return true;
}

/* Parts are numbered by a dim that the weights do not have. */
static bool wants_parts(sc_shape_request *request, const sc_attr *parts)
{
    if (parts == NULL ||
        (parts->count == 1 && sc_type_find_dim(operand(request, 1), parts->dims[0]) < 0))
        return true;
    return fail(request, "%s: parts are one dim, of rows, ids and the result", op_name(request));
}

/* The dim of parts, then the dims of x and of the ids, then those of w, without the contracted ones
 * and the indexed one. */
bool shape_routed_dot(sc_shape_request *request)
{
    enum { X, W, IDS };
    const sc_attr *dims = attribute(request, SC_ATTR_dims), *to = attribute(request, SC_ATTR_to);
    const sc_type_info *ids = operand(request, IDS);
    sc_type_info type = *operand(request, X);
    if (!same_dtypes(request, X, W) || !has_dims(request, dims, X) || !has_dims(request, dims, W) ||
        !has_dims(request, to, W))
        return false;
    if (!wants_numbers(request) || !wants_ids(request, to, IDS))
        return false;
    if (sc_type_find_dim(&type, to->dims[0]) >= 0)
        return fail(request, "%s: %s indexes the weights, and x has it too", op_name(request),
                    dim_name(request->m, to->dims[0]));
    const sc_attr *parts = attribute(request, SC_ATTR_parts);
    if (!wants_parts(request, parts) || !move_parts(request, parts, &type))
        return false;
    for (uint32_t i = 0; i < ids->rank; i++) {
        if (sc_type_find_dim(operand(request, W), ids->dims[i].dim) >= 0)
            return fail(request, "%s: ids and weights both have %s", op_name(request),
                        dim_name(request->m, ids->dims[i].dim));
        if (!sc_attr_has_dim(parts, ids->dims[i].dim) && !add_dim(request, &type, &ids->dims[i]))
            return false;
    }
    for (uint32_t i = 0; i < operand(request, W)->rank; i++) {
        const sc_type_dim *dim = &operand(request, W)->dims[i];
        if (dim->dim != to->dims[0] && !add_dim(request, &type, dim))
            return false;
    }
    widen(request, &type);
    remove_dims(request->m, &type, dims);
    one_result(request, &type);
    return true;
}

bool shape_reduce(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    if (!has_dims(request, dims, 0))
        return false;
    sc_type_info type = *operand(request, 0);
    if (type.dtype == SC_DTYPE_bool && request->kind == SC_OP_sum)
        return fail(request, "sum does not take bools; convert them with cast(x, f32)");
    remove_dims(request->m, &type, dims);
    one_result(request, &type);
    return true;
}

bool shape_argmax(sc_shape_request *request)
{
    if (!shape_reduce(request))
        return false;
    if (attribute(request, SC_ATTR_dims)->count != 1)
        return fail(request, "argmax works along one plain dim");
    request->results[0].dtype = SC_DTYPE_i32;
    return true;
}

bool shape_logsumexp(sc_shape_request *request)
{
    return wants_float(request, 0) && shape_reduce(request);
}

bool shape_xent(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    sc_type_info type;
    if (!wants_float(request, 0) || !has_dims(request, dims, 0))
        return false;
    if (dims->count != 1)
        return fail(request, "xent works along one plain dim");
    if (sc_dtypes[operand(request, 1)->dtype].kind != SC_DTYPE_INT ||
        sc_type_find_dim(operand(request, 1), dims->dims[0]) >= 0)
        return fail(request, "xent needs integer targets without dim %s, but they are %s",
                    dim_name(request->m, dims->dims[0]), operand_text(request, 1));
    if (!broadcast(request, 0, 2, &type))
        return false;
    type.dtype = wide_dtype(operand(request, 0)->dtype);
    remove_dims(request->m, &type, dims);
    one_result(request, &type);
    if (is_set(request, SC_ATTR_lse))
        request->results[request->result_count++] = type;
    return true;
}

/* Copies `source`, replacing the dim at `at` by `replacement` (the leaves of a composite are
 * consecutive from there). */
static bool replace_dim(sc_shape_request *request, const sc_type_info *source, uint32_t at,
                        uint32_t removed, const sc_type_dim *replacement, uint32_t count,
                        sc_type_info *type)
{
    *type = *source;
    type->rank = 0;
    for (uint32_t i = 0; i < source->rank; i++) {
        if (i == at) {
            for (uint32_t r = 0; r < count; r++) {
                if (!add_dim(request, type, &replacement[r]))
                    return false;
            }
        }
        if (i >= at && i < at + removed)
            continue;
        if (sc_type_find_dim(type, source->dims[i].dim) >= 0)
            return fail(request, "%s: the result would have dim %s twice", op_name(request),
                        dim_name(request->m, source->dims[i].dim));
        if (!add_dim(request, type, &source->dims[i]))
            return false;
    }
    drop_broken_groups(request->m, type);
    return true;
}

bool shape_gather(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    if (!has_dims(request, dims, 0))
        return false;
    const sc_type_info *table = operand(request, 0), *ids = operand(request, 1);
    if (!wants_ids(request, dims, 1))
        return false;
    sc_type_dim fresh[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < ids->rank; i++) {
        if (sc_type_find_dim(table, ids->dims[i].dim) < 0)
            fresh[count++] = ids->dims[i];
    }
    sc_type_info type;
    uint32_t at = (uint32_t)sc_type_find_dim(table, dims->dims[0]);
    if (!replace_dim(request, table, at, 1, fresh, count, &type))
        return false;
    one_result(request, &type);
    return true;
}

bool shape_onehot(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    sc_type_info type = *operand(request, 0);
    if (dims == NULL || dims->count != 1)
        return fail(request, "onehot works along one plain dim");
    if (sc_dtypes[type.dtype].kind != SC_DTYPE_INT || sc_type_find_dim(&type, dims->dims[0]) >= 0)
        return fail(request, "onehot needs integers without dim %s, but they are %s",
                    dim_name(request->m, dims->dims[0]), operand_text(request, 0));
    if (!add_dim(request, &type, &(sc_type_dim){dims->dims[0], SC_NONE, request->new_size}))
        return false;
    type.dtype = SC_DTYPE_f32;
    one_result(request, &type);
    return true;
}

/* Replaces the plain dim `dims` by the plain dim `to` of the given size. */
static bool resize(sc_shape_request *request, int64_t size, sc_type_info *type)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims), *to = attribute(request, SC_ATTR_to);
    if (!has_dims(request, dims, 0))
        return false;
    if (dims->count != 1 || to == NULL || to->count != 1)
        return fail(request, "%s works along one plain dim", op_name(request));
    uint32_t at = (uint32_t)sc_type_find_dim(operand(request, 0), dims->dims[0]);
    return replace_dim(request, operand(request, 0), at, 1,
                       &(sc_type_dim){to->dims[0], SC_NONE, size}, 1, type);
}

static int64_t dim_size(const sc_type_info *type, sc_dim dim)
{
    int i = sc_type_find_dim(type, dim);
    return i < 0 ? 0 : type->dims[i].size;
}

bool shape_topk(sc_shape_request *request)
{
    sc_type_info type;
    if (!resize(request, request->new_size, &type))
        return false;
    int64_t size = dim_size(operand(request, 0), attribute(request, SC_ATTR_dims)->dims[0]);
    if (size != 0 && request->new_size > size)
        return fail(request, "topk cannot take %lld of %lld", (long long)request->new_size,
                    (long long)size);
    request->results[0] = request->results[1] = type;
    request->results[1].dtype = SC_DTYPE_i32;
    request->result_count = 2;
    return true;
}

bool shape_slice(sc_shape_request *request)
{
    sc_type_info type;
    if (!resize(request, request->new_size, &type))
        return false;
    const sc_attr *from = attribute(request, SC_ATTR_from);
    int64_t size = dim_size(operand(request, 0), attribute(request, SC_ATTR_dims)->dims[0]),
            first = from == NULL ? 0 : from->integer;
    if (first < 0)
        return fail(request, "slice must begin at 0 or later, not at %lld", (long long)first);
    if (size != 0 && request->new_size != 0 && first > size - request->new_size)
        return fail(request, "slice takes %lld elements from %lld on of a dim of %lld",
                    (long long)request->new_size, (long long)first, (long long)size);
    one_result(request, &type);
    return true;
}

bool shape_concat(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims),
                  *second = attribute(request, SC_ATTR_from_dims);
    if (!same_dtypes(request, 0, 1) || !has_dims(request, dims, 0) || !has_dims(request, second, 1))
        return false;
    if (second->count != 1 || dims->count != 1)
        return fail(request, "concat works along one plain dim");
    int64_t a = dim_size(operand(request, 0), dims->dims[0]),
            b = dim_size(operand(request, 1), second->dims[0]);
    sc_type_info type;
    if (!resize(request, a != 0 && b != 0 ? a + b : 0, &type))
        return false;
    if (a != 0 && b != 0 && request->new_size != 0 && request->new_size != a + b)
        return fail(request, "concat makes %lld of %lld and %lld, but %s has size %lld",
                    (long long)(a + b), (long long)a, (long long)b,
                    dim_name(request->m, attribute(request, SC_ATTR_to)->dims[0]),
                    (long long)request->new_size);
    const sc_type_info *other = operand(request, 1);
    for (uint32_t i = 0; i < other->rank; i++) {
        if (other->dims[i].dim != second->dims[0] && !add_dim(request, &type, &other->dims[i]))
            return false;
    }
    one_result(request, &type);
    return true;
}

static int64_t product(const sc_type_info *type, uint32_t at, uint32_t count)
{
    int64_t size = 1;
    for (uint32_t i = at; i < at + count && i < type->rank; i++)
        size *= type->dims[i].size;
    return size;
}

/* The leaves of `dims` must be adjacent. Leaves of `to` that pair up take their sizes; a single
 * plain `to` takes the product. */
bool shape_rename(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims), *to = attribute(request, SC_ATTR_to);
    if (!has_dims(request, dims, 0) || to == NULL || to->count == 0 || dims->count == 0)
        return request->error != NULL ? false : fail(request, "rename: its dims are missing");
    const sc_type_info *source = operand(request, 0);
    uint32_t at = (uint32_t)sc_type_find_dim(source, dims->dims[0]);
    for (uint32_t i = 0; i < dims->count; i++) {
        if (at + i >= source->rank || source->dims[at + i].dim != dims->dims[i])
            return fail(request, "rename: these dims are not adjacent in %s",
                        operand_text(request, 0));
    }
    if (to->count != dims->count && to->count != 1)
        return fail(request, "rename: the two sides are composites of different parts");
    sc_type_dim fresh[SC_MAX_RANK];
    sc_dim group = sc_module_group_of(request->m, to->dims, to->count);
    for (uint32_t i = 0; i < to->count; i++) {
        int64_t size =
            to->count == dims->count ? source->dims[at + i].size : product(source, at, dims->count);
        fresh[i] = (sc_type_dim){to->dims[i], group, size};
    }
    sc_type_info type;
    if (!replace_dim(request, source, at, dims->count, fresh, to->count, &type))
        return false;
    one_result(request, &type);
    return true;
}

/* One result for each operand, of its type. */
bool shape_each(sc_shape_request *request)
{
    if (request->operand_count == 0 || request->operand_count > SC_MAX_FIXED_RESULTS)
        return fail(request, "%s takes 1 to %d operands", op_name(request),
                    (int)SC_MAX_FIXED_RESULTS);
    for (uint32_t i = 0; i < request->operand_count; i++)
        request->results[i] = *operand(request, i);
    request->result_count = request->operand_count;
    return true;
}

bool shape_append(sc_shape_request *request)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims), *to = attribute(request, SC_ATTR_to);
    if (!same_dtypes(request, 0, 1) || !has_dims(request, dims, 1) || !has_dims(request, to, 0))
        return false;
    const sc_type_info *cache = operand(request, 0), *x = operand(request, 1);
    if (dims->count != 1 || to->count != 1 || cache->rank != x->rank)
        return fail(request, "append needs %s to be %s but for its position dim",
                    operand_text(request, 1), operand_text(request, 0));
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->dims[i].dim != dims->dims[0] && sc_type_find_dim(cache, x->dims[i].dim) < 0)
            return fail(request, "append: the cache, %s, has no dim %s", operand_text(request, 0),
                        dim_name(request->m, x->dims[i].dim));
    }
    one_result(request, cache);
    return true;
}

/* The type of q with E replaced by v's own dims (or v's own E). */
static bool attended(sc_shape_request *request, sc_type_info *out)
{
    const sc_attr *dims = attribute(request, SC_ATTR_dims);
    if (!same_dtypes(request, 0, 1) || !same_dtypes(request, 0, 2) || !wants_float(request, 0))
        return false;
    if (dims == NULL || dims->count != 2)
        return fail(request, "attend works over one key dim and one head dim: attend[T, E]");
    const sc_type_info *q = operand(request, 0), *k = operand(request, 1), *v = operand(request, 2);
    sc_dim t = dims->dims[0], e = dims->dims[1];
    if (sc_type_find_dim(k, t) < 0 || sc_type_find_dim(v, t) < 0 || sc_type_find_dim(q, e) < 0 ||
        sc_type_find_dim(k, e) < 0 || sc_type_find_dim(q, t) >= 0)
        return fail(request,
                    "attend[%s, %s] needs %s in keys and values only and %s in queries and keys, "
                    "but they are %s, %s and %s",
                    dim_name(request->m, t), dim_name(request->m, e), dim_name(request->m, t),
                    dim_name(request->m, e), operand_text(request, 0), operand_text(request, 1),
                    operand_text(request, 2));
    for (uint32_t i = 0; i < k->rank; i++) {
        if (k->dims[i].dim != t && sc_type_find_dim(q, k->dims[i].dim) < 0)
            return fail(request, "attend: the keys, %s, have dim %s, which the queries, %s, lack",
                        operand_text(request, 1), dim_name(request->m, k->dims[i].dim),
                        operand_text(request, 0));
        int j = sc_type_find_dim(q, k->dims[i].dim);
        if (j >= 0 && q->dims[j].size != k->dims[i].size && q->dims[j].size != 0 &&
            k->dims[i].size != 0)
            return fail(request, "attend: dim %s has two sizes",
                        dim_name(request->m, k->dims[i].dim));
    }
    sc_type_dim fresh[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < v->rank; i++) {
        if (v->dims[i].dim == e || (v->dims[i].dim != t && sc_type_find_dim(q, v->dims[i].dim) < 0))
            fresh[count++] = v->dims[i];
    }
    return replace_dim(request, q, (uint32_t)sc_type_find_dim(q, e), 1, fresh, count, out);
}

/* The type of the logsumexp over keys, one per query. */
static sc_type_info log_sum_type(const sc_shape_request *request)
{
    sc_type_info type = *operand(request, 0);
    remove_dims(request->m, &type, attribute(request, SC_ATTR_dims));
    type.dtype = wide_dtype(type.dtype);
    return type;
}

/* Returns the operand that attribute `with` names `word`, after `fixed` others, or SC_NONE. */
static uint32_t operand_called(const sc_shape_request *request, const char *word, uint32_t fixed)
{
    const sc_attr *with = attribute(request, SC_ATTR_with);
    if (with != NULL) {
        for (uint32_t i = 0; i < with->count && fixed + i < request->operand_count; i++) {
            if (strcmp(sc_text(request->m->context, with->words[i]), word) == 0)
                return fixed + i;
        }
    }
    return SC_NONE;
}

/* Sinks have some of the dims of the logsumexp. */
static bool sinks_fit(sc_shape_request *request, uint32_t fixed)
{
    uint32_t at = operand_called(request, "sinks", fixed);
    if (at == SC_NONE)
        return true;
    const sc_type_info *sinks = operand(request, at), rows = log_sum_type(request);
    bool fits = sc_dtype_is_float(sinks->dtype);
    for (uint32_t i = 0; i < sinks->rank; i++) {
        int d = sc_type_find_dim(&rows, sinks->dims[i].dim);
        fits = fits && d >= 0 && rows.dims[d].group == sinks->dims[i].group &&
               (rows.dims[d].size == sinks->dims[i].size || rows.dims[d].size == 0 ||
                sinks->dims[i].size == 0);
    }
    if (fits)
        return true;
    return fail(request, "attend: sinks have dims of the queries, %s, other than %s, but are %s",
                operand_text(request, 0),
                dim_name(request->m, attribute(request, SC_ATTR_dims)->dims[1]),
                operand_text(request, at));
}

bool shape_attend(sc_shape_request *request)
{
    enum { FIXED = 3 };
    sc_type_info type;
    if (!attended(request, &type) || !sinks_fit(request, FIXED))
        return false;
    widen(request, &type);
    one_result(request, &type);
    if (is_set(request, SC_ATTR_lse))
        request->results[request->result_count++] = log_sum_type(request);
    return true;
}

/* True if operand i has `type`, ignoring placement and unknown sizes. */
static bool wants_type(sc_shape_request *request, uint32_t i, sc_type_info type)
{
    const sc_type_info *given = operand(request, i);
    bool same = given->dtype == type.dtype && given->rank == type.rank;
    for (uint32_t d = 0; same && d < type.rank; d++)
        same = given->dims[d].dim == type.dims[d].dim &&
               (given->dims[d].size == type.dims[d].size || given->dims[d].size == 0 ||
                type.dims[d].size == 0);
    if (same)
        return true;
    type.placement = sc_placement_replicated();
    return fail(request, "%s: operand %u is %s, but should be %s", op_name(request), i + 1,
                operand_text(request, i),
                sc_type_text(request->m, sc_type_intern(request->m, &type)));
}

/* Cotangents of q, k, v and, if it is a float, bias. */
bool shape_attend_grad(sc_shape_request *request)
{
    enum { Q, K, V, OUT, LSE, D_OUT, FIXED };
    sc_type_info out;
    if (!attended(request, &out) || !wants_type(request, OUT, out) ||
        !wants_type(request, LSE, log_sum_type(request)) || !wants_type(request, D_OUT, out))
        return false;
    uint32_t bias = operand_called(request, "bias", FIXED);
    for (uint32_t i = Q; i <= V; i++)
        request->results[i] = *operand(request, i);
    request->result_count = 3;
    if (bias != SC_NONE && sc_dtype_is_float(operand(request, bias)->dtype))
        request->results[request->result_count++] = *operand(request, bias);
    for (uint32_t i = 0; i < request->result_count; i++)
        widen(request, &request->results[i]);
    return true;
}
