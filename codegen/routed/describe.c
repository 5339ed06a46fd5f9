#include "codegen/lower/lower.h"
#include "codegen/routed/routed.h"

/* What a dim is to the op. */
typedef enum part { ROW, OWN, COLUMN, EXPERT, PARTS, OTHER } part;

typedef struct maker {
    const sc_module *m;
    const sc_op *op;
    const sc_type_info *types[SC_ROUTED_ARRAYS];
    sc_routed_desc *desc;
} maker;

static bool has(const maker *k, sc_routed_array array, sc_dim dim)
{
    return sc_type_find_dim(k->types[array], dim) >= 0;
}

static part part_of(const maker *k, sc_dim dim)
{
    bool is_named = sc_attr_has_dim(sc_op_attr(k->op, SC_ATTR_dims), dim),
         in_x = has(k, SC_ROUTED_X, dim), in_y = has(k, SC_ROUTED_Y, dim);
    if (sc_attr_has_dim(sc_op_attr(k->op, SC_ATTR_to), dim))
        return EXPERT;
    if (sc_attr_has_dim(sc_op_attr(k->op, SC_ATTR_parts), dim))
        return PARTS;
    if (k->desc->is_grad ? is_named : !in_y)
        return ROW;
    if (is_named)
        return OWN;
    return in_x && in_y ? OTHER : in_x ? OWN : in_y ? COLUMN : OTHER;
}

/* The dim in each array, dense and row-major. */
static sc_routed_dim dim_of(const maker *k, sc_dim dim)
{
    sc_routed_dim out = {.size = 1};
    for (int a = 0; a < SC_ROUTED_ARRAYS; a++) {
        int at = sc_type_find_dim(k->types[a], dim);
        if (at < 0)
            continue;
        out.size = sc_type_local_size(k->m, k->types[a], (uint32_t)at);
        out.strides[a] = 1;
        for (uint32_t i = (uint32_t)at + 1; i < k->types[a]->rank; i++)
            out.strides[a] *= sc_type_local_size(k->m, k->types[a], i);
    }
    return out;
}

/* Makes one dim of `all` and a more minor one; false if an array has a gap between them. */
static bool merge(sc_routed_dim *all, const sc_routed_dim *minor)
{
    const sc_routed_dim major = *all;
    bool fits = true;
    if (minor->size == 1)
        return true;
    *all = *minor;
    if (major.size == 1)
        return true;
    all->size *= major.size;
    for (int a = 0; a < SC_ROUTED_ARRAYS; a++)
        fits = fits && major.strides[a] == minor->strides[a] * minor->size;
    return fits;
}

static const char *take(maker *k, sc_dim dim)
{
    sc_routed_desc *desc = k->desc;
    const sc_routed_dim one = dim_of(k, dim);
    switch (part_of(k, dim)) {
    case ROW:
        desc->row_dims[desc->row_dim_count++] = one;
        return NULL;
    case EXPERT:
        desc->experts = one;
        return NULL;
    case OWN:
        return merge(&desc->own, &one) ? NULL : "dims of x that weights have lie apart";
    case COLUMN:
        return merge(&desc->columns, &one) ? NULL : "dims of the result lie apart";
    case PARTS:
        return one.size == 1 ? NULL : "a rank has rows of several parts of the experts";
    case OTHER:
        break;
    }
    return "x, the weights and the result share a dim";
}

static const char *take_dims(maker *k)
{
    for (int a = 0; a < SC_ROUTED_ARRAYS; a++) {
        for (uint32_t i = 0; i < k->types[a]->rank; i++) {
            bool is_known = false;
            for (int before = 0; before < a; before++)
                is_known = is_known || has(k, (sc_routed_array)before, k->types[a]->dims[i].dim);
            const char *why = is_known ? NULL : take(k, k->types[a]->dims[i].dim);
            if (why != NULL)
                return why;
        }
    }
    return NULL;
}

static void find_offset(maker *k, sc_dim experts)
{
    const sc_attr *offset = sc_op_attr(k->op, SC_ATTR_offset);
    uint32_t count = offset == NULL ? 0 : offset->count;
    for (uint32_t i = 0; i < count; i++) {
        const sc_sub_axis_list *over = &offset->splits[i].sub_axes;
        if (offset->splits[i].dim != experts)
            continue;
        k->desc->has_offset = true;
        k->desc->first = (sc_image_param){
            .kind = SC_PARAM_RANK,
            .terms = sc_terms_of(k->m, over->sub_axes, over->count, k->desc->experts.size)};
    }
}

const char *sc_routed_describe(const sc_module *m, sc_op_id op, sc_routed_desc *out)
{
    const sc_op *o = sc_op_at(m, op);
    maker k = {.m = m, .op = o, .desc = out};
    sc_dim experts = sc_op_attr(o, SC_ATTR_to)->dims[0];
    *out = (sc_routed_desc){.own = {.size = 1}, .columns = {.size = 1}};
    for (int a = 0; a < SC_ROUTED_ARRAYS; a++) {
        k.types[a] = sc_type_of(m, a < SC_ROUTED_OUT ? o->operands[a] : o->first_result);
        out->dtypes[a] = k.types[a]->dtype;
    }
    out->is_grad = has(&k, SC_ROUTED_OUT, experts);
    if (!sc_dtype_is_float(out->dtypes[SC_ROUTED_X]))
        return "integers are multiplied one by one";
    const char *why = take_dims(&k);
    if (why != NULL)
        return why;
    const sc_type_info *of = k.types[out->is_grad ? SC_ROUTED_OUT : SC_ROUTED_Y];
    out->below = of->dims[sc_type_find_dim(of, experts)].size;
    const sc_attr *parts = sc_op_attr(o, SC_ATTR_parts);
    bool may_lack = parts != NULL && has(&k, SC_ROUTED_IDS, parts->dims[0]);
    out->least = may_lack ? -1 : 0;
    out->check = sc_arena_printf(
        &m->context->arena, "%s in {where}: id {value} is outside 0 <= id < %s = %lld",
        sc_ops[o->kind].name, sc_text(m->context, m->dims.data[experts].name),
        (long long)out->below);
    find_offset(&k, experts);
    int64_t rows = 1;
    for (uint32_t i = 0; i < out->row_dim_count; i++)
        rows *= out->row_dims[i].size;
    /* where each id's rows begin, and its blocks; two offsets of each row */
    out->scratch_bytes = (2 * (out->experts.size + 2) + 2 * rows) * (int64_t)sizeof(int64_t);
    return NULL;
}
