#include "ir/graph.h"

#include <string.h>

#include "support/float16.h"

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

sc_module *sc_module_new(sc_context *context)
{
    sc_module *m = sc_arena_alloc(&context->arena, sizeof *m);
    m->context = context;
    m->type_map.arena = m->dim_map.arena = m->state_map.arena = &context->arena;
    return m;
}

sc_dim sc_module_add_dim(sc_module *m, sc_sym name)
{
    sc_dim dim = m->dims.count;
    *sc_vec_push(&m->context->arena, &m->dims) =
        (sc_dim_info){.name = name, .alias_of = SC_NONE, .part_of = SC_NONE};
    sc_map_insert(&m->dim_map, name, dim, NULL);
    return dim;
}

uint32_t sc_module_add_rule(sc_module *m, const char *text, sc_loc loc)
{
    sc_context *context = m->context;
    sc_line place = sc_sources_line(&context->sources, loc.begin);
    *sc_vec_push(&context->arena, &m->rules) = (sc_rule_ref){
        .text = sc_intern_text(&context->names, text),
        .file = sc_intern_text(&context->names, place.source == NULL ? "" : place.source->name),
        .line = place.line,
        .loc = loc};
    return m->rules.count - 1;
}

sc_dim sc_module_find_dim(const sc_module *m, sc_sym name)
{
    const uint32_t *dim = sc_map_find(&m->dim_map, name);
    return dim == NULL ? SC_NONE : *dim;
}

sc_dim sc_module_group_of(const sc_module *m, const sc_dim *leaves, uint32_t count)
{
    if (count < 2)
        return SC_NONE;
    for (sc_dim d = 0; d < m->dims.count; d++) {
        const sc_dim_info *info = &m->dims.data[d];
        if (info->part_count == count && memcmp(info->parts, leaves, count * sizeof *leaves) == 0)
            return d;
    }
    return SC_NONE;
}

static uint64_t hash_type(const sc_type_info *info)
{
    uint64_t hash = sc_hash_mix(info->dtype, info->rank);
    for (uint32_t i = 0; i < info->rank; i++) {
        hash = sc_hash_mix(hash, ((uint64_t)info->dims[i].dim << 32) | info->dims[i].group);
        hash = sc_hash_mix(hash, (uint64_t)info->dims[i].size);
    }
    return sc_hash_bytes(&info->placement, sizeof info->placement, hash);
}

static bool same_type(const sc_type_info *a, const sc_type_info *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank ||
        !sc_placement_equal(&a->placement, &b->placement))
        return false;
    for (uint32_t i = 0; i < a->rank; i++) {
        if (a->dims[i].dim != b->dims[i].dim || a->dims[i].group != b->dims[i].group ||
            a->dims[i].size != b->dims[i].size)
            return false;
    }
    return true;
}

sc_type sc_type_intern(sc_module *m, const sc_type_info *info)
{
    bool is_new;
    uint32_t *slot = sc_map_insert(&m->type_map, hash_type(info), SC_NONE, &is_new);
    for (uint32_t t = *slot; t != SC_NONE; t = m->type_next.data[t]) {
        if (same_type(&m->types.data[t], info))
            return t;
    }
    sc_type type = m->types.count;
    sc_type_info *copy = sc_vec_push(&m->context->arena, &m->types);
    memset(copy, 0, sizeof *copy);
    copy->dtype = info->dtype;
    copy->rank = info->rank;
    memcpy(copy->dims, info->dims, info->rank * sizeof *info->dims);
    copy->placement = info->placement;
    *sc_vec_push(&m->context->arena, &m->type_next) = *slot;
    *slot = type;
    return type;
}

sc_type sc_type_with_dtype(sc_module *m, sc_type type, sc_dtype dtype)
{
    sc_type_info info = m->types.data[type];
    info.dtype = dtype;
    return sc_type_intern(m, &info);
}

sc_type sc_type_with_placement(sc_module *m, sc_type type, const sc_placement *placement)
{
    sc_type_info info = m->types.data[type];
    info.placement = *placement;
    return sc_type_intern(m, &info);
}

uint32_t sc_module_add_state(sc_module *m, const sc_state *state)
{
    uint32_t index = m->state.count;
    *sc_vec_push(&m->context->arena, &m->state) = *state;
    sc_map_insert(&m->state_map, state->path, index, NULL);
    return index;
}

uint32_t sc_module_find_state(const sc_module *m, sc_sym path)
{
    const uint32_t *state = sc_map_find(&m->state_map, path);
    return state == NULL ? SC_NONE : *state;
}

bool sc_module_is_cut(const sc_module *m)
{
    return m->schedule.count > 0 &&
           m->funcs.data[m->schedule.data[0].func].stage != SC_ALL_STAGES_RUN;
}

sc_func_id sc_module_add_func(sc_module *m, sc_sym name)
{
    sc_func_id func = m->funcs.count;
    *sc_vec_push(&m->context->arena, &m->funcs) =
        (sc_func){.name = name, .stage = SC_ALL_STAGES_RUN, .first = SC_NONE, .last = SC_NONE};
    return func;
}

static void link_before(sc_module *m, sc_op_id op, sc_op_id before)
{
    sc_func *func = &m->funcs.data[m->ops.data[op].func];
    sc_op_id prev = before == SC_NONE ? func->last : m->ops.data[before].prev;
    m->ops.data[op].prev = prev;
    m->ops.data[op].next = before;
    if (prev == SC_NONE)
        func->first = op;
    else
        m->ops.data[prev].next = op;
    if (before == SC_NONE)
        func->last = op;
    else
        m->ops.data[before].prev = op;
}

static void sort_attrs(sc_attr *attrs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        sc_attr attr = attrs[i];
        uint32_t j = i;
        for (; j > 0 && attrs[j - 1].key > attr.key; j--)
            attrs[j] = attrs[j - 1];
        attrs[j] = attr;
    }
}

sc_op_id sc_op_new(sc_module *m, sc_func_id func, sc_op_id before, sc_op_kind kind,
                   const sc_value *operands, uint32_t operand_count, const sc_attr *attrs,
                   uint32_t attr_count, const sc_type *result_types, uint32_t result_count,
                   sc_op_id like)
{
    sc_arena *arena = &m->context->arena;
    sc_op_id id = m->ops.count;
    sc_op op = {.kind = (uint16_t)kind,
                .attr_count = (uint16_t)attr_count,
                .chunk = SC_NO_CHUNK,
                .operand_count = operand_count,
                .result_count = result_count,
                .first_result = m->values.count,
                .func = func};
    op.operands = sc_arena_array(arena, operand_count, sizeof *op.operands);
    if (operand_count > 0)
        memcpy(op.operands, operands, operand_count * sizeof *operands);
    op.attrs = sc_arena_array(arena, attr_count, sizeof *op.attrs);
    if (attr_count > 0)
        memcpy(op.attrs, attrs, attr_count * sizeof *attrs);
    sort_attrs(op.attrs, attr_count);
    if (like != SC_NONE) {
        op.loc = m->ops.data[like].loc;
        op.scope = m->ops.data[like].scope;
        op.chunk = m->ops.data[like].chunk;
    }
    *sc_vec_push(arena, &m->ops) = op;
    for (uint32_t i = 0; i < result_count; i++)
        *sc_vec_push(arena, &m->values) =
            (sc_value_info){.type = result_types[i], .def = id, .index = i};
    link_before(m, id, before);
    return id;
}

void sc_op_unlink(sc_module *m, sc_op_id id)
{
    sc_op *op = &m->ops.data[id];
    sc_func *func = &m->funcs.data[op->func];
    if (op->prev == SC_NONE)
        func->first = op->next;
    else
        m->ops.data[op->prev].next = op->next;
    if (op->next == SC_NONE)
        func->last = op->prev;
    else
        m->ops.data[op->next].prev = op->prev;
    op->prev = op->next = SC_NONE;
}

void sc_op_move(sc_module *m, sc_op_id op, sc_op_id before)
{
    if (op == before)
        return;
    sc_op_unlink(m, op);
    link_before(m, op, before);
}

void sc_op_append(sc_module *m, sc_op_id op, sc_func_id func)
{
    m->ops.data[op].func = func;
    link_before(m, op, SC_NONE);
}

const sc_attr *sc_op_attr(const sc_op *op, sc_attr_key key)
{
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].key == key)
            return &op->attrs[i];
    }
    return NULL;
}

int64_t sc_op_int(const sc_op *op, sc_attr_key key, int64_t otherwise)
{
    const sc_attr *attr = sc_op_attr(op, key);
    return attr == NULL ? otherwise : attr->integer;
}

double sc_op_number(const sc_op *op, sc_attr_key key, double otherwise)
{
    const sc_attr *attr = sc_op_attr(op, key);
    return attr == NULL ? otherwise : attr->number;
}

sc_sym sc_op_word(const sc_op *op, sc_attr_key key)
{
    const sc_attr *attr = sc_op_attr(op, key);
    return attr == NULL ? 0 : attr->text;
}

void sc_op_set_attr(sc_module *m, sc_op_id id, sc_attr attr)
{
    sc_op *op = &m->ops.data[id];
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].key == attr.key) {
            op->attrs[i] = attr;
            return;
        }
    }
    sc_attr *attrs = sc_arena_array(&m->context->arena, op->attr_count + 1u, sizeof *attrs);
    op = &m->ops.data[id];
    if (op->attr_count > 0)
        memcpy(attrs, op->attrs, op->attr_count * sizeof *attrs);
    attrs[op->attr_count++] = attr;
    sort_attrs(attrs, op->attr_count);
    op->attrs = attrs;
}

void sc_op_drop_attr(sc_module *m, sc_op_id id, sc_attr_key key)
{
    sc_op *op = &m->ops.data[id];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (op->attrs[i].key != key)
            op->attrs[kept++] = op->attrs[i];
    }
    op->attr_count = (uint16_t)kept;
}

int sc_op_operand_called(const sc_module *m, const sc_op *op, const char *word, uint32_t fixed)
{
    const sc_attr *with = sc_op_attr(op, SC_ATTR_with);
    if (with != NULL) {
        for (uint32_t i = 0; i < with->count; i++) {
            if (strcmp(sc_text(m->context, with->words[i]), word) == 0)
                return (int)(fixed + i);
        }
    }
    return -1;
}

sc_attr sc_attr_int(sc_attr_key key, int64_t value)
{
    return (sc_attr){.key = (uint16_t)key, .integer = value};
}

sc_attr sc_attr_number(sc_attr_key key, double value)
{
    return (sc_attr){.key = (uint16_t)key, .number = value};
}

sc_attr sc_attr_text(sc_attr_key key, sc_sym value)
{
    return (sc_attr){.key = (uint16_t)key, .text = value};
}

static void *copy_list(sc_module *m, const void *items, uint32_t count, size_t size)
{
    void *copy = sc_arena_array(&m->context->arena, count, size);
    if (count > 0)
        memcpy(copy, items, count * size);
    return copy;
}

sc_attr sc_attr_dims(sc_module *m, sc_attr_key key, const sc_dim *dims, uint32_t count)
{
    return (sc_attr){
        .key = (uint16_t)key, .count = count, .dims = copy_list(m, dims, count, sizeof *dims)};
}

sc_attr sc_attr_sub_axes(sc_module *m, sc_attr_key key, const uint8_t *sub_axes, uint32_t count)
{
    return (sc_attr){.key = (uint16_t)key,
                     .count = count,
                     .sub_axes = copy_list(m, sub_axes, count, sizeof *sub_axes)};
}

sc_attr sc_attr_numbers(sc_module *m, sc_attr_key key, const double *numbers, uint32_t count)
{
    return (sc_attr){.key = (uint16_t)key,
                     .count = count,
                     .numbers = copy_list(m, numbers, count, sizeof *numbers)};
}

sc_attr sc_attr_ints(sc_module *m, sc_attr_key key, const int64_t *ints, uint32_t count)
{
    return (sc_attr){
        .key = (uint16_t)key, .count = count, .ints = copy_list(m, ints, count, sizeof *ints)};
}

sc_attr sc_attr_words(sc_module *m, sc_attr_key key, const sc_sym *words, uint32_t count)
{
    return (sc_attr){
        .key = (uint16_t)key, .count = count, .words = copy_list(m, words, count, sizeof *words)};
}

sc_attr sc_attr_splits(sc_module *m, sc_attr_key key, const sc_split *splits, uint32_t count)
{
    return (sc_attr){.key = (uint16_t)key,
                     .count = count,
                     .splits = copy_list(m, splits, count, sizeof *splits)};
}

bool sc_attr_equal(const sc_attr *a, const sc_attr *b)
{
    static const size_t item_sizes[] = {[SC_ATTR_KIND_DIMS] = sizeof(sc_dim),
                                        [SC_ATTR_KIND_INTS] = sizeof(int64_t),
                                        [SC_ATTR_KIND_FLOATS] = sizeof(double),
                                        [SC_ATTR_KIND_WORDS] = sizeof(sc_sym),
                                        [SC_ATTR_KIND_SUB_AXES] = sizeof(uint8_t)};
    if (a->key != b->key || a->count != b->count)
        return false;
    sc_attr_kind kind = sc_attr_kinds[a->key];
    switch (kind) {
    case SC_ATTR_KIND_INT:
        return a->integer == b->integer;
    case SC_ATTR_KIND_FLOAT:
        return sc_bits_of_f64(a->number) == sc_bits_of_f64(b->number);
    case SC_ATTR_KIND_WORD:
    case SC_ATTR_KIND_TEXT:
        return a->text == b->text;
    case SC_ATTR_KIND_SPLITS: /* a length prefix, then the elements */
        for (uint32_t i = 0; i < a->count; i++) {
            if (a->splits[i].dim != b->splits[i].dim ||
                !sc_sub_axis_list_equal(&a->splits[i].sub_axes, &b->splits[i].sub_axes))
                return false;
        }
        return true;
    default:
        return a->count == 0 || memcmp(a->dims, b->dims, a->count * item_sizes[kind]) == 0;
    }
}

bool sc_attr_has_dim(const sc_attr *dims, sc_dim dim)
{
    if (dims != NULL) {
        for (uint32_t i = 0; i < dims->count; i++) {
            if (dims->dims[i] == dim)
                return true;
        }
    }
    return false;
}

static sc_value resolve(const sc_value *map, uint32_t map_count, sc_value value)
{
    while (value < map_count && map[value] != SC_NONE)
        value = map[value];
    return value;
}

uint32_t *sc_count_uses(sc_module *m)
{
    uint32_t *uses = sc_arena_array(&m->context->arena, m->values.count, sizeof *uses);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
                uses[m->ops.data[op].operands[i]]++;
        }
    }
    return uses;
}

void sc_func_replace_uses(sc_module *m, sc_func_id func, const sc_value *map, uint32_t map_count)
{
    sc_for_each_op (m, func, op) {
        for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
            m->ops.data[op].operands[i] = resolve(map, map_count, m->ops.data[op].operands[i]);
    }
}
