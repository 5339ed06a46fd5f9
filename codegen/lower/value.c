/* Services for rows of lowering.def: values and operands at indices, arguments, dims, checks and
 * nodes of the kernel under construction. */
#include <string.h>

#include "codegen/lower/internal.h"

/* ---- args ---- */
/* The last part of a value's path as a C identifier; "t" for values without a name. */
static sc_sym arg_name(sc_lowering *l, sc_value value)
{
    const sc_module *m = l->m;
    const char *path = sc_text(m->context, m->values.data[value].path), *last = strrchr(path, '.');
    char word[32] = "t";
    size_t n = 0;
    for (const char *c = last != NULL ? last + 1 : path; *c != 0 && n + 1 < sizeof word; c++) {
        if ((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
            *c == '_')
            word[n++] = *c;
    }
    word[n > 0 ? n : 1] = 0;
    /* the number makes the name unique among arguments and other identifiers of the C text */
    return sc_intern_printf(&l->m->context->names, "%s%s_%u",
                            word[0] >= '0' && word[0] <= '9' ? "t" : "", word, l->k->args.count);
}

static uint32_t add_arg(sc_lowering *l, sc_value value, sc_kernel_arg_mode mode, sc_value in_place)
{
    const sc_type_info *type = sc_lower_type(l, value);
    sc_kernel_arg arg = {
        .name = arg_name(l, value), .dtype = type->dtype, .mode = mode, .rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++)
        arg.sizes[i] = sc_type_local_size(l->m, type, i);
    *sc_vec_push(l->k->arena, &l->out->args) = (sc_lowered_arg){value, in_place};
    return sc_kernel_add_arg(l->k, &arg);
}

static uint32_t input_arg(sc_lowering *l, sc_value value)
{
    for (uint32_t i = 0; i < l->out->args.count; i++) {
        if (l->out->args.data[i].value == value && l->k->args.data[i].mode == SC_ARG_IN)
            return i;
    }
    return add_arg(l, value, SC_ARG_IN, SC_NONE);
}

uint32_t sc_lower_out(sc_lowering *l, sc_value value, sc_kernel_arg_mode mode, sc_value in_place)
{
    return add_arg(l, value, mode, in_place);
}

/* ---- dims ---- */
const char *sc_lower_dim_name(const sc_lowering *l, sc_dim dim)
{
    return sc_text(l->m->context, l->m->dims.data[dim].name);
}

uint32_t sc_lower_at(const sc_type_info *type, sc_dim dim)
{
    int at = sc_type_find_dim(type, dim);
    return at < 0 ? 0 : (uint32_t)at;
}

static uint32_t find_dim(const sc_lowering *l, sc_loop_dim dim)
{
    uint32_t i = 0;
    while (i < l->dims.count &&
           (l->dims.data[i].dim != dim.dim || l->dims.data[i].size != dim.size))
        i++;
    return i;
}

uint32_t sc_lower_add_dim(sc_lowering *l, sc_loop_dim dim)
{
    uint32_t at = find_dim(l, dim);
    if (at < l->dims.count)
        return at;
    *sc_vec_push(l->k->arena, &l->dims) = dim;
    return sc_kernel_add_dim(l->k, l->m->dims.data[dim.dim].name, dim.size);
}

void sc_lower_end_outer(sc_lowering *l)
{
    l->k->outer_count = l->dims.count;
}

sc_knode sc_lower_loop(sc_lowering *l, sc_loop_dim dim)
{
    return sc_kernel_index(l->k, sc_lower_add_dim(l, dim));
}

/* ---- ops of the kernel ---- */
uint32_t sc_lower_find_op(const sc_lowering *l, sc_op_id op)
{
    if (sc_op_int(sc_op_at(l->m, op), SC_ATTR_kernel, -1) != l->number)
        return l->op_count;
    uint32_t i = 0;
    while (i < l->op_count && l->ops[i] != op)
        i++;
    return i;
}

uint32_t sc_lower_fuse(const sc_lowering *l, uint32_t i)
{
    return sc_ops[sc_op_at(l->m, l->ops[i])->kind].fuse;
}

void sc_lower_add_scope(sc_strbuf *out, const char *scope)
{
    for (const char *c = scope; *c != 0; c++) {
        sc_strbuf_add_char(out, *c);
        if (*c == '[') {
            sc_strbuf_add_char(out, '*');
            while (c[1] != 0 && c[1] != ']')
                c++;
        }
    }
}

/* ---- values ---- */
static uint64_t memo_hash(const sc_lowering *l, sc_value value, const sc_knode *index)
{
    uint64_t hash = sc_hash_mix(value, l->guard);
    for (uint32_t i = 0; i < sc_lower_type(l, value)->rank; i++)
        hash = sc_hash_mix(hash, index[i]);
    return hash;
}

static bool is_here(sc_lowering *l, sc_value value, const sc_knode *index)
{
    sc_loop_dims dims = sc_loops_of(l->m, value);
    for (uint32_t i = 0; i < dims.count; i++) {
        if (find_dim(l, dims.dims[i]) == l->dims.count ||
            index[i] != sc_lower_loop(l, dims.dims[i]))
            return false;
    }
    return true;
}

static sc_knode make_value(sc_lowering *l, sc_value value, const sc_knode *index)
{
    sc_op_id def = sc_def(l->m, value);
    uint32_t at = sc_lower_find_op(l, def);
    if (at == l->op_count)
        return sc_kernel_load(l->k, input_arg(l, value), index, l->guard);
    /* a stored reduction need not be loaded back: the threads that hold it would wait for each
     * other */
    bool is_known = (sc_lower_fuse(l, at) & SC_FUSE_REDUCE) != 0 && l->item[at] != SC_NONE &&
                    sc_type_of(l->m, value)->dtype == sc_lower_dtype(l, value);
    if (l->saved[at] != 0 && !is_known && is_here(l, value, index))
        return sc_kernel_load(l->k, l->saved[at] - 1, index, l->guard);
    const sc_op *op = sc_op_at(l->m, def);
    if ((sc_lower_fuse(l, at) & SC_FUSE_REDUCE) != 0) {
        if (l->item[at] == SC_NONE || !is_here(l, value, index))
            l->error = "a reduction is read before it is complete, or at other indices";
        return l->item[at] == SC_NONE ? sc_kernel_constant(l->k, sc_lower_dtype(l, value), 0)
                                      : sc_kernel_reduced(l->k, l->item[at], false);
    }
    if (l->rows[op->kind].lower == NULL) {
        l->error = "an op of it has no row in lowering.def";
        return sc_kernel_constant(l->k, sc_lower_dtype(l, value), 0);
    }
    return sc_kernel_convert(l->k, l->rows[op->kind].lower(l, op, index), sc_lower_dtype(l, value));
}

sc_knode sc_lower_value(sc_lowering *l, sc_value value, const sc_knode *index)
{
    sc_arena *arena = l->k->arena;
    uint32_t rank = sc_lower_type(l, value)->rank;
    bool is_new;
    uint64_t hash = memo_hash(l, value, index);
    uint32_t *first = sc_map_insert(&l->memo_map, hash, SC_NONE, &is_new), known = *first;
    for (uint32_t i = known; i != SC_NONE; i = l->memo.data[i].next) {
        const sc_lower_memo *it = &l->memo.data[i];
        if (it->value == value && it->guard == l->guard &&
            (rank == 0 || memcmp(it->index, index, rank * sizeof *index) == 0))
            return it->node;
    }
    sc_knode *kept = sc_arena_array(arena, rank + 1, sizeof *kept), guard = l->guard;
    if (rank > 0)
        memcpy(kept, index, rank * sizeof *index);
    sc_knode node = make_value(l, value, kept);
    /* the map may have been reallocated */
    first = sc_map_insert(&l->memo_map, hash, SC_NONE, &is_new);
    *sc_vec_push(arena, &l->memo) = (sc_lower_memo){value, guard, node, kept, *first};
    *first = l->memo.count - 1;
    return node;
}

sc_knode sc_lower_guarded(sc_lowering *l, sc_value value, const sc_knode *index, sc_knode condition)
{
    sc_knode before = l->guard;
    l->guard = sc_lower_both(l, before, condition);
    sc_knode node = sc_lower_value(l, value, index);
    l->guard = before;
    return node;
}

void sc_lower_map_index(sc_lowering *l, const sc_type_info *from, const sc_type_info *to,
                        const sc_knode *index, sc_knode other, sc_knode *out)
{
    (void)l;
    for (uint32_t i = 0; i < from->rank; i++) {
        int at = sc_type_find_dim(to, from->dims[i].dim);
        out[i] = at < 0 ? other : index[at];
    }
}

sc_knode sc_lower_operand(sc_lowering *l, const sc_op *op, uint32_t i, const sc_knode *index)
{
    sc_knode own[SC_MAX_RANK] = {0};
    sc_lower_map_index(l, sc_lower_type(l, op->operands[i]), sc_lower_type(l, op->first_result),
                       index, sc_lower_integer(l, 0), own);
    return sc_lower_value(l, op->operands[i], own);
}

sc_knode sc_lower_here(sc_lowering *l, sc_value value)
{
    sc_knode index[SC_MAX_RANK] = {0};
    sc_loop_dims dims = sc_loops_of(l->m, value);
    for (uint32_t i = 0; i < dims.count; i++)
        index[i] = sc_lower_loop(l, dims.dims[i]);
    return sc_lower_value(l, value, index);
}

sc_value sc_lower_called(const sc_lowering *l, const sc_op *op, const char *word)
{
    uint32_t fixed = (uint32_t)sc_ops[op->kind].operands;
    int at = sc_op_operand_called(l->m, op, word, fixed);
    return at < 0 ? SC_NONE : op->operands[at];
}

/* The op's location: {where} for the kernel's own scope, else its scope, generalized over instances
 * that share the kernel. */
static const char *place_of(const sc_lowering *l, const sc_op *op)
{
    sc_strbuf text;
    sc_strbuf_init(&text, l->k->arena);
    const sc_op *last = sc_op_at(l->m, l->ops[l->op_count - 1]);
    if (op->scope == last->scope || op->scope == 0)
        return "{where}";
    sc_lower_add_scope(&text, sc_text(l->m->context, op->scope));
    return text.data;
}

void sc_lower_check(sc_lowering *l, const sc_op *op, sc_knode holds, sc_knode shown,
                    const char *format, ...)
{
    sc_arena *arena = l->k->arena;
    const int64_t most = ((int64_t)1 << (SC_IMAGE_VALUE_BITS - 1)) - 1;
    va_list args;
    va_start(args, format);
    const char *what = sc_arena_vprintf(arena, format, args);
    va_end(args);
    bool is_new;
    shown = sc_lower_2(l, SC_NODE_minimum, shown, sc_lower_integer(l, most));
    shown = sc_lower_2(l, SC_NODE_maximum, shown, sc_lower_integer(l, -most - 1));
    if (l->guard != SC_NONE)
        holds = sc_lower_2(l, SC_NODE_or, sc_lower_1(l, SC_NODE_not, l->guard), holds);
    sc_map_insert(&l->checked, holds, 0, &is_new);
    if (is_new)
        *sc_vec_push(arena, &l->checks) = (sc_pending_check){
            holds, shown,
            sc_arena_printf(arena, "%s in %s: %s", sc_ops[op->kind].name, place_of(l, op), what)};
}

void sc_lower_ids(sc_lowering *l, sc_value value, int64_t below)
{
    if (below > 0)
        *sc_vec_push(l->k->arena, &l->out->ids) = (sc_lowered_ids){value, below};
}

/* ---- nodes ---- */
sc_dtype sc_lower_dtype(const sc_lowering *l, sc_value value)
{
    return sc_kernel_dtype(sc_lower_type(l, value)->dtype);
}

sc_knode sc_lower_1(sc_lowering *l, sc_node_kind kind, sc_knode a)
{
    return sc_kernel_node_new(l->k, kind, &a, 1);
}

sc_knode sc_lower_2(sc_lowering *l, sc_node_kind kind, sc_knode a, sc_knode b)
{
    return sc_kernel_node_new(l->k, kind, (sc_knode[]){a, b}, 2);
}

sc_knode sc_lower_where(sc_lowering *l, sc_knode condition, sc_knode yes, sc_knode no)
{
    return sc_kernel_node_new(l->k, SC_NODE_where, (sc_knode[]){condition, yes, no}, 3);
}

sc_knode sc_lower_with(sc_lowering *l, sc_node_kind kind, sc_knode a, double number)
{
    return sc_lower_2(l, kind, a,
                      sc_kernel_constant(l->k, (sc_dtype)l->k->nodes.data[a].dtype, number));
}

sc_knode sc_lower_integer(sc_lowering *l, int64_t number)
{
    return sc_kernel_constant(l->k, SC_DTYPE_i64, (double)number);
}

sc_knode sc_lower_both(sc_lowering *l, sc_knode a, sc_knode b)
{
    return a == SC_NONE ? b : b == SC_NONE ? a : sc_lower_2(l, SC_NODE_and, a, b);
}

sc_knode sc_lower_within(sc_lowering *l, sc_knode index, int64_t size)
{
    return sc_lower_2(l, SC_NODE_and, sc_lower_2(l, SC_NODE_le, sc_lower_integer(l, 0), index),
                      sc_lower_2(l, SC_NODE_lt, index, sc_lower_integer(l, size)));
}

sc_image_terms sc_terms_of(const sc_module *m, const uint8_t *sub_axes, uint32_t count,
                           int64_t local)
{
    const sc_mesh *mesh = &m->mesh;
    sc_image_terms terms = {.terms =
                                sc_arena_array(&m->context->arena, count, sizeof *terms.terms)};
    int64_t times = local;
    for (uint32_t i = count; i-- > 0;) {
        if (mesh->sub_axes[sub_axes[i]].size > 1)
            terms.terms[terms.count++] =
                (sc_image_term){.divide = sc_mesh_world_stride(mesh, sub_axes[i]),
                                .modulo = mesh->sub_axes[sub_axes[i]].size,
                                .times = times};
        times *= (int64_t)mesh->sub_axes[sub_axes[i]].size;
    }
    return terms;
}

/* The members of a ring are the ranks along one axis, whose sub-axes are adjacent digits of the
 * rank: one digit. */
sc_image_terms sc_terms_from(const sc_module *m, const sc_sub_axis_list *sub_axes, int64_t local,
                             uint64_t back)
{
    if (back == 0)
        return sc_terms_of(m, sub_axes->sub_axes, sub_axes->count, local);
    uint64_t members = sc_sub_axis_list_size(&m->mesh, sub_axes);
    sc_image_term *term = sc_arena_alloc(&m->context->arena, sizeof *term);
    *term = (sc_image_term){
        .divide = sc_mesh_world_stride(&m->mesh, sub_axes->sub_axes[sub_axes->count - 1]),
        .modulo = members,
        .times = local,
        .plus = (members - back % members) % members};
    return (sc_image_terms){1, term};
}

static sc_image_terms negated(const sc_module *m, sc_image_terms terms)
{
    sc_image_terms out = {terms.count,
                          sc_arena_array(&m->context->arena, terms.count, sizeof *out.terms)};
    for (uint32_t i = 0; i < terms.count; i++) {
        out.terms[i] = terms.terms[i];
        out.terms[i].times = -terms.terms[i].times;
    }
    return out;
}

static sc_image_terms both(const sc_module *m, sc_image_terms a, sc_image_terms b)
{
    sc_image_terms out = {a.count + b.count,
                          sc_arena_array(&m->context->arena, a.count + b.count, sizeof *out.terms)};
    for (uint32_t i = 0; i < out.count; i++)
        out.terms[i] = i < a.count ? a.terms[i] : b.terms[i - a.count];
    return out;
}

/* Member i of part p: chunk c of the part is at 2 * members * p + c; the first chunk is number i,
 * the second, which is behind one chunk in what the member holds, 2 * members - 1 - i. */
sc_shard_places sc_shard_places_of(const sc_module *m, sc_dim dim, const sc_sub_axis_list *sub_axes,
                                   int64_t local, uint64_t back)
{
    const sc_shard_order order = sc_shard_order_of(m, dim, sub_axes);
    uint32_t begin, count;
    sc_find_zigzag(m, dim, sub_axes, &begin, &count);
    int64_t held = local * order.inner, chunk = held / 2;
    const uint8_t *all = sub_axes->sub_axes;
    sc_image_terms part = sc_terms_of(m, all, begin, order.members * held),
                   member = back == 0 ? sc_terms_of(m, all + begin, count, chunk)
                                      : sc_terms_from(m, sub_axes, chunk, back),
                   within =
                       sc_terms_of(m, all + begin + count, sub_axes->count - begin - count, local);
    return (sc_shard_places){.first = both(m, part, member),
                             .second = both(m, part, negated(m, member)),
                             .within = within,
                             .plus = (2 * order.members - 2) * chunk,
                             .chunk = chunk};
}

sc_knode sc_lower_rank_param(sc_lowering *l, sc_image_terms terms)
{
    if (terms.count == 0)
        return sc_lower_integer(l, 0);
    return sc_kernel_param(
        l->k, sc_kernel_add_param(l->k, &(sc_image_param){.kind = SC_PARAM_RANK, .terms = terms}));
}

/* What an index counts from; two of a zigzag. An index within what a member holds is `within` more
 * than one within the shard, and less than `chunk` in its first chunk. */
typedef struct shard_place {
    bool is_zigzag;
    sc_knode first, second, within;
    int64_t chunk;
} shard_place;

static shard_place place_of_zigzag(sc_lowering *l, const sc_sub_axis_list *sub_axes, sc_dim dim,
                                   int64_t local)
{
    const sc_shard_places places = sc_shard_places_of(l->m, dim, sub_axes, local, 0);
    sc_knode first = sc_lower_rank_param(l, places.first),
             second = sc_lower_rank_param(l, places.second);
    return (shard_place){.is_zigzag = true,
                         .first = first,
                         .second = sc_lower_with(l, SC_NODE_add, second, (double)places.plus),
                         .within = sc_lower_rank_param(l, places.within),
                         .chunk = places.chunk};
}

static shard_place find_place(sc_lowering *l, const sc_sub_axis_list *sub_axes, sc_dim dim,
                              int64_t local)
{
    if (sc_shard_order_of(l->m, dim, sub_axes).members > 1)
        return place_of_zigzag(l, sub_axes, dim, local);
    return (shard_place){.first = sc_lower_rank_param(
                             l, sc_terms_of(l->m, sub_axes->sub_axes, sub_axes->count, local))};
}

/* The sub-axes by which the op's `offset` splits the dim; none: the rank has all of it. */
static sc_sub_axis_list sub_axes_of(const sc_op *op, sc_dim dim)
{
    const sc_attr *offset = sc_op_attr(op, SC_ATTR_offset);
    if (offset != NULL) {
        for (uint32_t i = 0; i < offset->count; i++) {
            if (offset->splits[i].dim == dim)
                return offset->splits[i].sub_axes;
        }
    }
    return (sc_sub_axis_list){0};
}

sc_knode sc_lower_position(sc_lowering *l, const sc_op *op, sc_dim dim, int64_t local,
                           sc_knode index)
{
    const sc_sub_axis_list sub_axes = sub_axes_of(op, dim);
    return sc_lower_in_shard(l, dim, &sub_axes, local, index);
}

sc_knode sc_lower_in_shard(sc_lowering *l, sc_dim dim, const sc_sub_axis_list *sub_axes,
                           int64_t local, sc_knode index)
{
    const shard_place place = find_place(l, sub_axes, dim, local);
    if (!place.is_zigzag)
        return sc_lower_2(l, SC_NODE_add, index, place.first);
    sc_knode held = sc_lower_2(l, SC_NODE_add, index, place.within);
    sc_knode is_first = sc_lower_with(l, SC_NODE_lt, held, (double)place.chunk);
    sc_knode from = sc_lower_where(l, is_first, place.first, place.second);
    return sc_lower_2(l, SC_NODE_add, held, from);
}

sc_knode sc_lower_place(sc_lowering *l, const sc_op *op, sc_dim dim, int64_t local,
                        sc_knode position)
{
    const sc_sub_axis_list sub_axes = sub_axes_of(op, dim);
    const shard_place place = find_place(l, &sub_axes, dim, local);
    sc_knode there = sc_lower_2(l, SC_NODE_sub, position, place.first);
    if (!place.is_zigzag)
        return there;
    sc_knode behind = sc_lower_2(l, SC_NODE_sub, position, place.second);
    sc_knode is_second =
        sc_lower_within(l, sc_lower_with(l, SC_NODE_sub, behind, (double)place.chunk), place.chunk);
    sc_knode second = sc_lower_where(l, is_second, behind, sc_lower_integer(l, -2 * place.chunk));
    sc_knode held = sc_lower_where(l, sc_lower_within(l, there, place.chunk), there, second);
    return sc_lower_2(l, SC_NODE_sub, held, place.within);
}
