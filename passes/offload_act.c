/* The part of `offload` that keeps saved activations in host memory.
 *
 *   %3 = dot[D] %x, %w                       %3 = dot[D] %x, %w
 *   ..                                       %8 = to_host %3
 *   %9 = relu_grad %g, %3 {backward}   ->    ..
 *                                            %d = to_device %8
 *                                            %9 = relu_grad %g, %d
 *
 * What the ops of a unit, an instance of the line's paths, compute in the forward pass and the
 * backward pass reads (recomputation included) is copied out once, after the last of it is there,
 * and copied in once, where the unit before it in the backward pass begins. Parameters, their casts
 * and gathers, and what is cheap to recompute, stay. In a pipeline a unit's values of each chunk
 * are copied by themselves, and read back by that chunk: they wait in host memory for its backward
 * pass, in a slot. What another chunk reads stays on the device. One walk. */
#include <stdlib.h>
#include <string.h>

#include "passes/offload.h"
#include "passes/uses.h"

/* ---- shared ---- */
sc_op_id sc_new_memory_copy(sc_module *m, sc_op_kind kind, const sc_value *values, uint32_t count,
                            sc_op_id before, sc_op_id like, sc_copy_reason reason)
{
    sc_type *types = sc_arena_array(&m->context->arena, count, sizeof *types);
    for (uint32_t i = 0; i < count; i++)
        types[i] = m->values.data[values[i]].type;
    sc_op_id copy = sc_op_new(m, sc_op_at(m, like)->func, before, kind, values, count, NULL, 0,
                              types, count, like);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, like), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, copy, *phase);
    if (reason.rule != 0)
        sc_op_set_attr(m, copy, sc_attr_int(SC_ATTR_rule, reason.rule - 1));
    sc_op_set_attr(m, copy,
                   sc_attr_text(SC_ATTR_why, sc_intern_text(&m->context->names, reason.why)));
    return copy;
}

/* Length of the stacked instance in a path; 0 outside stacks. */
static size_t instance_length(const char *path)
{
    const char *bracket = strchr(path, ']');
    return bracket == NULL ? 0 : (size_t)(bracket - path) + 1;
}

bool sc_same_instance(const char *a, const char *b)
{
    size_t length = instance_length(a);
    return length == instance_length(b) && memcmp(a, b, length) == 0;
}

bool sc_is_forward_op(const sc_module *m, const sc_op *op)
{
    const char *phase = sc_text(m->context, sc_op_word(op, SC_ATTR_phase));
    return phase[0] == 0 || strcmp(phase, "forward") == 0;
}

/* ---- what is saved ---- */
/* A read of a saved value in the backward pass. */
typedef struct saved_read {
    sc_op_id op;
    uint32_t operand, at;
    sc_value value;
} saved_read;

typedef struct saved_unit {
    uint32_t number;
    uint16_t chunk;
    uint32_t made, first; /* positions: of the last of its values, of their first reader */
    SC_VEC(sc_value) values;
    sc_op_id in;
} saved_unit;

typedef struct saving {
    sc_module *m;
    const sc_map *units_of; /* scope or path of a value -> unit */
    uint32_t *index;        /* by value: 1 + its place in its unit's values */
    uint32_t *unit_of;      /* by value that is saved */
    const bool *repeats;    /* by op; NULL: none */
    bool *is_backward;      /* by op */
    bool *stays;            /* by value: a parameter, or made of one by casts and collectives */
    sc_op_id *ops;
    uint32_t op_count;
    SC_VEC(saved_read) reads;
    SC_VEC(saved_unit) units;
    sc_map unit_map; /* number and chunk -> index in units */
} saving;

static bool is_saveable(const saving *s, sc_op_id id)
{
    const uint32_t never = SC_STATE_READ | SC_FROM_OUTSIDE | SC_CONSTANT | SC_VIEW | SC_EFFECT;
    const sc_op *op = sc_op_at(s->m, id);
    return (sc_op_traits(op) & never) == 0 && (s->repeats == NULL || !s->repeats[id]) &&
           (sc_ops[op->kind].fuse & SC_FUSE_FREE) == 0 && !s->is_backward[id] &&
           !sc_op_copies_memory((sc_op_kind)op->kind);
}

/* The unit that saves a value: of its path, or of the scope that computes it; SC_NONE: none. */
static uint32_t unit_of_value(const saving *s, const sc_op *op, sc_value value)
{
    sc_sym path = s->m->values.data[value].path;
    const uint32_t *by_path = path == 0 ? NULL : sc_map_find(s->units_of, path),
                   *by_scope = sc_map_find(s->units_of, op->scope);
    return by_path != NULL ? *by_path : by_scope != NULL ? *by_scope : SC_NONE;
}

/* An op belongs to the backward pass by its phase, or because it reads from that: what a pass
 * inserts there need not have a phase. */
static void find_backward(saving *s, sc_func_id func)
{
    sc_module *m = s->m;
    s->is_backward = sc_arena_array(&m->context->arena, m->ops.count, sizeof *s->is_backward);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        bool is = !sc_is_forward_op(m, op);
        for (uint32_t i = 0; i < op->operand_count; i++)
            is = is || s->is_backward[sc_def(m, op->operands[i])];
        s->is_backward[id] = is;
    }
}

static void note_results(saving *s, sc_op_id id)
{
    const sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, id);
    bool passes = (sc_op_traits(op) & (SC_VIEW | SC_CONVERTS | SC_RESHARD)) != 0;
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        s->stays[value] = (sc_op_traits(op) & SC_STATE_READ) != 0 ||
                          (passes && r < op->operand_count && s->stays[op->operands[r]]);
        s->unit_of[value] = !s->stays[value] && is_saveable(s, id) && sc_type_of(m, value)->rank > 0
                                ? unit_of_value(s, op, value)
                                : SC_NONE;
    }
}

static uint64_t key_of(uint32_t number, uint16_t chunk)
{
    return (uint64_t)number << 16 | chunk;
}

/* The unit that a value is saved with. */
static saved_unit *saved_with(saving *s, sc_value value)
{
    bool is_new;
    uint32_t number = s->unit_of[value];
    uint16_t chunk = sc_op_at(s->m, sc_def(s->m, value))->chunk;
    uint32_t at = *sc_map_insert(&s->unit_map, key_of(number, chunk), s->units.count, &is_new);
    if (is_new)
        *sc_vec_push(&s->m->context->arena, &s->units) =
            (saved_unit){.number = number, .chunk = chunk, .first = SC_NONE};
    return &s->units.data[at];
}

/* True if the op reads the saved value itself, which another chunk does not. */
static bool reads_saved(const saving *s, const sc_op *reader, sc_value value)
{
    return s->unit_of[value] != SC_NONE &&
           reader->chunk == sc_op_at(s->m, sc_def(s->m, value))->chunk;
}

/* Notes the backward reads of saved values; a view of one is read where it is. */
static void note_reads(saving *s, sc_op_id id, uint32_t at, const uint32_t *position)
{
    const sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, id);
    if (!s->is_backward[id] || (sc_op_traits(op) & SC_EFFECT) != 0)
        return;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_value value = op->operands[i];
        if (!reads_saved(s, op, value))
            continue;
        saved_unit *unit = saved_with(s, value);
        uint32_t made = position[sc_def(m, value)];
        if (unit->first != SC_NONE && made >= unit->first) {
            s->unit_of[value] = SC_NONE; /* the unit is back by then */
            continue;
        }
        if (s->index[value] == 0) {
            *sc_vec_push(&m->context->arena, &unit->values) = value;
            s->index[value] = unit->values.count;
        }
        unit->made = made > unit->made ? made : unit->made;
        unit->first = at < unit->first ? at : unit->first;
        *sc_vec_push(&m->context->arena, &s->reads) = (saved_read){id, i, at, value};
    }
}

/* For a forward view that the backward pass reads, there is a view of the value itself there. */
static void copy_views(saving *s, sc_op_id id)
{
    sc_module *m = s->m;
    if (!s->is_backward[id])
        return;
    for (uint32_t i = 0; i < sc_op_at(m, id)->operand_count; i++) {
        sc_value value = sc_op_at(m, id)->operands[i];
        const sc_op view = *sc_op_at(m, sc_def(m, value));
        if ((sc_op_traits(&view) & SC_VIEW) == 0 || s->is_backward[sc_def(m, value)])
            continue;
        sc_value root = view.operands[0];
        if (root >= m->values.count || !reads_saved(s, sc_op_at(m, id), root))
            continue;
        sc_type type = m->values.data[value].type;
        sc_op_id clone = sc_op_new(m, view.func, id, (sc_op_kind)view.kind, &root, 1, view.attrs,
                                   view.attr_count, &type, 1, sc_def(m, value));
        const sc_attr *phase = sc_op_attr(sc_op_at(m, id), SC_ATTR_phase);
        if (phase != NULL)
            sc_op_set_attr(m, clone, *phase);
        sc_op_at(m, clone)->chunk = sc_op_at(m, id)->chunk;
        sc_op_at(m, id)->operands[i] = sc_result(m, clone, 0);
    }
}

/* ---- the copies ---- */
static int by_first_read(const void *a, const void *b)
{
    const saved_unit *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->number != y->number ? (x->number > y->number) - (x->number < y->number)
                                  : (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static void add_copies(saving *s, const sc_training *training, uint32_t prefetch)
{
    sc_module *m = s->m;
    sc_copy_reason why = {"offload act; kept in host memory from the forward to the backward pass",
                          0};
    if (s->units.count > 0)
        qsort(s->units.data, s->units.count, sizeof *s->units.data, by_first_read);
    for (uint32_t u = 0; u < s->units.count; u++) {
        saved_unit *unit = &s->units.data[u];
        sc_op_id made = s->ops[unit->made], read = s->ops[unit->first];
        why.rule = 1 + training->act_rules.data[unit->number];
        uint32_t ahead = prefetch > 0 && u > 0 ? s->units.data[u - 1].first : unit->first;
        ahead = ahead > unit->made ? ahead : unit->made + 1;
        sc_op_id to_host =
            sc_new_memory_copy(m, SC_OP_to_host, unit->values.data, unit->values.count,
                               s->ops[unit->made + 1], made, why);
        sc_value *out = sc_arena_array(&m->context->arena, unit->values.count, sizeof *out);
        for (uint32_t i = 0; i < unit->values.count; i++)
            out[i] = sc_result(m, to_host, i);
        unit->in = sc_new_memory_copy(m, SC_OP_to_device, out, unit->values.count, s->ops[ahead],
                                      read, why);
        *sc_map_find(&s->unit_map, key_of(unit->number, unit->chunk)) = u; /* as sorted */
    }
    for (uint32_t r = 0; r < s->reads.count; r++) {
        const saved_read *one = &s->reads.data[r];
        sc_op_at(m, one->op)->operands[one->operand] =
            sc_result(m, saved_with(s, one->value)->in, s->index[one->value] - 1);
    }
}

void sc_offload_activations(sc_module *m, const sc_train_step *step, uint32_t prefetch,
                            const bool *repeats)
{
    sc_arena *arena = &m->context->arena;
    const sc_func_id func = step->micro;
    saving s = {.m = m,
                .units_of = &step->training->act_host,
                .repeats = repeats,
                .unit_map = {.arena = arena}};
    if (s.units_of->count == 0)
        return;
    find_backward(&s, func);
    s.stays = sc_arena_array(arena, m->values.count, sizeof *s.stays);
    s.unit_of = sc_arena_array(arena, m->values.count, sizeof *s.unit_of);
    memset(s.unit_of, 0xff, m->values.count * sizeof *s.unit_of);
    uint32_t values = m->values.count;
    sc_for_each_op (m, func, id)
        note_results(&s, id);
    sc_for_each_op (m, func, id)
        copy_views(&s, id);
    s.index = sc_arena_array(arena, m->values.count, sizeof *s.index);
    uint32_t *unit_of = sc_arena_array(arena, m->values.count, sizeof *unit_of);
    memset(unit_of, 0xff, m->values.count * sizeof *unit_of);
    memcpy(unit_of, s.unit_of, values * sizeof *unit_of);
    s.unit_of = unit_of; /* what copy_views made is not saved */
    find_backward(&s, func);
    s.ops = sc_arena_array(arena, m->ops.count, sizeof *s.ops);
    const uint32_t *position = sc_number_ops(m);
    sc_for_each_op (m, func, id) {
        note_reads(&s, id, s.op_count, position);
        s.ops[s.op_count++] = id;
    }
    add_copies(&s, step->training, prefetch);
}
