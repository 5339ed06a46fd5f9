/* Builds the descriptor of an attend or attend_grad and chooses its form. */
#include "codegen/attention/describe.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "codegen/lower/lower.h"
#include "support/hash.h"

typedef struct sc_attention_maker {
    const sc_module *m;
    const sc_op *op;
    sc_attention_desc *desc;
    const sc_type_info *types[SC_ATTENTION_ROLES]; /* NULL: absent */
} sc_attention_maker;

static void add_array(sc_attention_maker *maker, sc_attention_role role, sc_value value,
                      uint32_t arg)
{
    const sc_type_info *type = sc_type_of(maker->m, value);
    maker->types[role] = type;
    maker->desc->arrays[role] =
        (sc_attention_array){true, type->dtype, arg, sc_type_local_elements(maker->m, type)};
}

/* Adds an operand after the fixed ones, by name. */
static void add_called(sc_attention_maker *maker, const char *word, sc_attention_role role,
                       uint32_t fixed)
{
    int at = sc_op_operand_called(maker->m, maker->op, word, fixed);
    if (at >= 0)
        add_array(maker, role, maker->op->operands[at], (uint32_t)at);
}

/* The roles of an op's fixed operands and of its results. */
typedef struct op_roles {
    uint32_t operand_count, result_count; /* the last results may be absent */
    sc_attention_role operands[6], results[4];
} op_roles;

static const op_roles forward_roles = {.operand_count = 3,
                                       .result_count = 2,
                                       .operands = {SC_ATTENTION_Q, SC_ATTENTION_K, SC_ATTENTION_V},
                                       .results = {SC_ATTENTION_OUT, SC_ATTENTION_LSE}};

static const op_roles backward_roles = {
    .operand_count = 6,
    .result_count = 4,
    .operands = {SC_ATTENTION_Q, SC_ATTENTION_K, SC_ATTENTION_V, SC_ATTENTION_OUT, SC_ATTENTION_LSE,
                 SC_ATTENTION_D_OUT},
    .results = {SC_ATTENTION_D_Q, SC_ATTENTION_D_K, SC_ATTENTION_D_V, SC_ATTENTION_D_BIAS}};

static void add_arrays(sc_attention_maker *maker)
{
    const sc_op *op = maker->op;
    const op_roles *roles = maker->desc->is_grad ? &backward_roles : &forward_roles;
    uint32_t fixed = roles->operand_count;
    assert(fixed == (uint32_t)sc_ops[op->kind].operands);
    assert(op->result_count <= roles->result_count);
    for (uint32_t i = 0; i < fixed; i++)
        add_array(maker, roles->operands[i], op->operands[i], i);
    add_called(maker, "keep", SC_ATTENTION_KEEP, fixed);
    add_called(maker, "bias", SC_ATTENTION_BIAS, fixed);
    add_called(maker, "segments", SC_ATTENTION_SEGMENTS, fixed);
    add_called(maker, "key_segments", SC_ATTENTION_KEY_SEGMENTS, fixed);
    add_called(maker, "pos", SC_ATTENTION_POS, fixed);
    add_called(maker, "len", SC_ATTENTION_LEN, fixed);
    for (uint32_t i = 0; i < op->result_count; i++)
        add_array(maker, roles->results[i], op->first_result + i, op->operand_count + i);
    maker->desc->arg_count = op->operand_count + op->result_count;
}

static uint32_t add_param(sc_attention_desc *desc, const sc_image_param *param)
{
    desc->params[desc->param_count] = *param;
    return desc->param_count++;
}

static sc_attention_dim dim_of(sc_attention_maker *maker, sc_dim leaf)
{
    sc_attention_dim dim = {.name = sc_text(maker->m->context, maker->m->dims.data[leaf].name),
                            .size = 1,
                            .global = 1,
                            .first = SC_NONE,
                            .second = SC_NONE,
                            .within = SC_NONE};
    for (int role = 0; role < SC_ATTENTION_ROLES; role++) {
        const sc_type_info *type = maker->types[role];
        int at = type == NULL ? -1 : sc_type_find_dim(type, leaf);
        if (at < 0)
            continue;
        int64_t size = sc_type_local_size(maker->m, type, (uint32_t)at);
        if (dim.has == 0) {
            dim.size = size;
            dim.global = type->dims[at].size;
        }
        dim.has |= 1u << role;
        dim.in_all |= size != dim.size ? 1u << role : 0;
        dim.strides[role] = 1;
        for (uint32_t i = (uint32_t)at + 1; i < type->rank; i++)
            dim.strides[role] *= sc_type_local_size(maker->m, type, i);
    }
    return dim;
}

static const sc_sub_axis_list *sub_axes_of(const sc_attention_maker *maker, sc_dim leaf)
{
    const sc_attr *offset = sc_op_attr(maker->op, SC_ATTR_offset);
    if (offset == NULL)
        return NULL;
    for (uint32_t i = 0; i < offset->count; i++) {
        if (offset->splits[i].dim == leaf)
            return &offset->splits[i].sub_axes;
    }
    return NULL;
}

static uint32_t rank_param(sc_attention_maker *maker, sc_image_terms terms)
{
    return terms.count == 0
               ? SC_NONE
               : add_param(maker->desc, &(sc_image_param){.kind = SC_PARAM_RANK, .terms = terms});
}

/* Places a shard of a dim; the terms count from the member `back` before the rank's own. */
static void set_place(sc_attention_maker *maker, sc_attention_dim *dim, sc_dim leaf,
                      const sc_sub_axis_list *sub_axes, uint64_t back)
{
    const sc_module *m = maker->m;
    const sc_mesh *mesh = &m->mesh;
    const sc_shard_order order = sc_shard_order_of(m, leaf, sub_axes);
    dim->is_uneven = (int64_t)sc_sub_axis_list_size(mesh, sub_axes) * dim->size != dim->global;
    if (order.members == 1) {
        dim->first = rank_param(maker, sc_terms_from(m, sub_axes, dim->size, back));
        return;
    }
    const sc_shard_places places = sc_shard_places_of(m, leaf, sub_axes, dim->size, back);
    dim->first = rank_param(maker, places.first);
    dim->second = rank_param(maker, places.second);
    dim->within = rank_param(maker, places.within);
    dim->chunk = places.chunk;
    dim->plus = places.plus;
}

static sc_attention_dim query_dim_of(sc_attention_maker *maker, sc_dim leaf)
{
    sc_attention_dim dim = dim_of(maker, leaf);
    const sc_sub_axis_list *sub_axes = sub_axes_of(maker, leaf);
    if (sub_axes != NULL)
        set_place(maker, &dim, leaf, sub_axes, 0);
    return dim;
}

/* In a ring the keys are the block of another member. */
static sc_attention_dim key_dim_of(sc_attention_maker *maker, sc_dim leaf, sc_dim queries)
{
    sc_attention_dim dim = dim_of(maker, leaf);
    const sc_sub_axis_list *ring = sub_axes_of(maker, queries);
    if (ring != NULL && sc_op_attr(maker->op, SC_ATTR_ring) != NULL)
        set_place(maker, &dim, leaf, ring, (uint64_t)sc_op_int(maker->op, SC_ATTR_block, 0));
    return dim;
}

static bool take_dims(sc_attention_maker *maker)
{
    sc_attention_desc *desc = maker->desc;
    const sc_attr *dims = sc_op_attr(maker->op, SC_ATTR_dims),
                  *to = sc_op_attr(maker->op, SC_ATTR_to);
    if (dims == NULL || dims->count != 2)
        return false;
    sc_dim t = dims->dims[0], e = dims->dims[1];
    const sc_type_info *q = maker->types[SC_ATTENTION_Q], *k = maker->types[SC_ATTENTION_K],
                       *v = maker->types[SC_ATTENTION_V];
    assert(q != NULL && k != NULL && v != NULL);
    desc->t = key_dim_of(maker, t, to == NULL || to->count != 1 ? SC_NONE : to->dims[0]);
    desc->e = dim_of(maker, e);
    desc->position = desc->own_e = SC_NONE;
    for (uint32_t i = 0; i < q->rank; i++) {
        if (q->dims[i].dim == e)
            continue;
        if (to != NULL && to->count == 1 && to->dims[0] == q->dims[i].dim)
            desc->position = desc->query_count;
        desc->queries[desc->query_count++] = query_dim_of(maker, q->dims[i].dim);
    }
    for (uint32_t i = 0; i < v->rank; i++) {
        sc_dim dim = v->dims[i].dim;
        desc->own_e = dim == e ? desc->own_count : desc->own_e;
        if (dim == e || (dim != t && sc_type_find_dim(q, dim) < 0 && sc_type_find_dim(k, dim) < 0))
            desc->own[desc->own_count++] = dim_of(maker, dim);
    }
    return true;
}

/* True if every dim of every array has a part in the op. */
static bool dims_are_known(const sc_attention_maker *maker)
{
    const sc_attention_desc *desc = maker->desc;
    for (int role = 0; role < SC_ATTENTION_ROLES; role++) {
        uint32_t bit = 1u << role, seen = ((desc->t.has | desc->e.has) & bit) != 0;
        seen += (desc->t.has & desc->e.has & bit) != 0;
        for (uint32_t i = 0; i < desc->query_count; i++)
            seen += (desc->queries[i].has & bit) != 0;
        for (uint32_t i = 0; i < desc->own_count; i++)
            seen += i != desc->own_e && (desc->own[i].has & bit) != 0;
        if (maker->types[role] != NULL && seen != maker->types[role]->rank)
            return false;
    }
    return true;
}

static bool read_mask(sc_attention_maker *maker)
{
    sc_attention_desc *desc = maker->desc;
    const char *mask = sc_text(maker->m->context, sc_op_word(maker->op, SC_ATTR_mask));
    bool is_window = strcmp(mask, "window") == 0;
    desc->is_causal = is_window || strcmp(mask, "causal") == 0;
    desc->window = is_window ? sc_op_int(maker->op, SC_ATTR_window, 0) : -1;
    return desc->is_causal ? sc_op_attr(maker->op, SC_ATTR_to) != NULL
                           : mask[0] == 0 || strcmp(mask, "none") == 0;
}

/* Dropout numbers weights as elements of an array over q's dims without E, then T, with global
 * sizes. */
static void read_dropout(sc_attention_maker *maker)
{
    sc_attention_desc *desc = maker->desc;
    desc->p = sc_op_number(maker->op, SC_ATTR_p, 0);
    if (desc->p == 0)
        return;
    int64_t stride = desc->t.global;
    desc->t.dropout_stride = 1;
    for (uint32_t i = desc->query_count; i-- > 0; stride *= desc->queries[i].global)
        desc->queries[i].dropout_stride = stride;
}

static void add_random(sc_attention_maker *maker)
{
    if (maker->desc->p == 0)
        return;
    const char *path = sc_text(maker->m->context, sc_op_word(maker->op, SC_ATTR_seed));
    maker->desc->key_param =
        add_param(maker->desc, &(sc_image_param){.kind = SC_PARAM_KEY,
                                                 .path_hash = sc_fnv1a64(path, strlen(path))});
    add_param(maker->desc, &(sc_image_param){.kind = SC_PARAM_STEP});
    add_param(maker->desc, &(sc_image_param){.kind = SC_PARAM_MICRO_BATCH});
}

/* ---- forms ---- */

/* A query dim that keys or values have. A *unit* is one point of all of these, with its own keys
 * and values. */
bool sc_attention_is_unit(const sc_attention_dim *dim)
{
    return (dim->has & (1u << SC_ATTENTION_K | 1u << SC_ATTENTION_V)) != 0;
}

bool sc_attention_shares_keys(const sc_attention_desc *desc)
{
    uint32_t both = 1u << SC_ATTENTION_K | 1u << SC_ATTENTION_V;
    for (uint32_t i = 0; i < desc->query_count; i++) {
        if (sc_attention_is_unit(&desc->queries[i]) && (desc->queries[i].has & both) != both)
            return true;
    }
    return false;
}

int64_t sc_attention_units(const sc_attention_desc *desc)
{
    int64_t units = 1;
    for (uint32_t i = 0; i < desc->query_count; i++)
        units *= sc_attention_is_unit(&desc->queries[i]) ? desc->queries[i].size : 1;
    return units;
}

int64_t sc_attention_rows(const sc_attention_desc *desc)
{
    int64_t rows = 1;
    for (uint32_t i = 0; i < desc->query_count; i++)
        rows *= sc_attention_is_unit(&desc->queries[i]) ? 1 : desc->queries[i].size;
    return rows;
}

int64_t sc_attention_own_size(const sc_attention_desc *desc)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < desc->own_count; i++)
        size *= desc->own[i].size;
    return size;
}

enum { MAX_HEAD = 512, FEW_QUERIES = 8 /* per unit: most queries for the decode form */ };

static const char *reason_for_simple(const sc_attention_desc *desc)
{
    if (desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_f64)
        return "f64";
    if (desc->arrays[SC_ATTENTION_D_BIAS].is_there)
        return "the bias has a gradient";
    if (desc->own_count != 1)
        return "values have several dims, or none, besides those of keys";
    if (desc->e.size > MAX_HEAD || desc->own[0].size > MAX_HEAD)
        return "a head has more than 512 elements";
    if (desc->t.size > INT32_MAX - SC_ATTENTION_TILE)
        return "positions of keys do not fit 32 bits";
    if (desc->is_grad && sc_attention_shares_keys(desc))
        return "keys and values are shared by different queries";
    if (desc->t.chunk > 0 && desc->p > 0)
        return "there is dropout, and keys of a ring are not all side by side";
    return NULL;
}

bool sc_attention_is_summed(const sc_attention_desc *desc, sc_attention_role role)
{
    return role >= SC_ATTENTION_D_Q && desc->arrays[role].is_there &&
           (role != SC_ATTENTION_D_Q || desc->form == SC_ATTENTION_SIMPLE);
}

static sc_dtype real_dtype(const sc_attention_desc *desc)
{
    return desc->arrays[SC_ATTENTION_Q].dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
}

bool sc_attention_needs_sum(const sc_attention_desc *desc, sc_attention_role role)
{
    return sc_attention_is_summed(desc, role) && desc->arrays[role].dtype != real_dtype(desc);
}

int64_t sc_attention_sum_at(const sc_attention_desc *desc, sc_attention_role role)
{
    int64_t at = 0;
    for (int before = SC_ATTENTION_D_Q; before < (int)role; before++)
        at += sc_attention_needs_sum(desc, (sc_attention_role)before)
                  ? (desc->arrays[before].count + 15) / 16 * 16
                  : 0;
    return at;
}

enum { CHUNK_KEYS = 512, CHUNK_KEYS_OF_FEW = 256, FEW_UNITS = 16, MOST_CHUNKS = 64 };

int64_t sc_attention_decode_chunks(const sc_attention_desc *desc)
{
    int64_t keys = sc_attention_units(desc) < FEW_UNITS ? CHUNK_KEYS_OF_FEW : CHUNK_KEYS,
            chunks = (desc->t.size + keys - 1) / keys;
    return chunks > MOST_CHUNKS ? MOST_CHUNKS : chunks;
}

int64_t sc_attention_decode_part(const sc_attention_desc *desc)
{
    return (desc->own[0].size + 2 + 15) / 16 * 16;
}

int64_t sc_attention_decode_scratch(const sc_attention_desc *desc)
{
    int64_t chunks = sc_attention_decode_chunks(desc);
    return chunks == 1 ? 0
                       : 4 * sc_attention_units(desc) * chunks * sc_attention_rows(desc) *
                             sc_attention_decode_part(desc);
}

static void plan_scratch(sc_attention_desc *desc)
{
    desc->scratch_bytes =
        sc_dtypes[real_dtype(desc)].bytes * sc_attention_sum_at(desc, SC_ATTENTION_ROLES);
    if (desc->form == SC_ATTENTION_DECODE)
        desc->scratch_bytes = sc_attention_decode_scratch(desc);
}

void sc_attention_make_simple(sc_attention_desc *desc)
{
    desc->form = SC_ATTENTION_SIMPLE;
    desc->why_simple = desc->why_simple == NULL ? "it was requested" : desc->why_simple;
    plan_scratch(desc);
}

double sc_attention_visible_part(const sc_attention_desc *desc)
{
    double keys = (double)desc->t.global;
    if (!desc->is_causal || keys <= 1 || desc->form == SC_ATTENTION_DECODE)
        return 1;
    double window = desc->window > 0 && (double)desc->window < keys ? (double)desc->window : keys,
           pairs = window * (window + 1) / 2 + (keys - window) * window;
    return pairs / (keys * keys);
}

sc_attention_desc *sc_attention_describe(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    sc_attention_maker maker = {
        .m = m, .op = o, .desc = sc_arena_alloc(&m->context->arena, sizeof *maker.desc)};
    sc_attention_desc *desc = maker.desc;
    desc->is_grad = (sc_op_traits(o) & SC_KEEPS_LSE) == 0; /* attend_grad reads the saved LSE */
    add_arrays(&maker);
    if (!take_dims(&maker) || !dims_are_known(&maker) || !read_mask(&maker))
        return NULL;
    read_dropout(&maker);
    add_random(&maker);
    desc->scale = sc_op_number(o, SC_ATTR_scale, 1 / sqrt((double)desc->e.size));
    desc->softcap = sc_op_number(o, SC_ATTR_softcap, 0);
    desc->why_simple = reason_for_simple(desc);
    desc->form = desc->why_simple != NULL ? SC_ATTENTION_SIMPLE : SC_ATTENTION_TILED;
    if (desc->form == SC_ATTENTION_TILED && !desc->is_grad &&
        sc_attention_rows(desc) <= FEW_QUERIES)
        desc->form = SC_ATTENTION_DECODE;
    plan_scratch(desc);
    return desc;
}
