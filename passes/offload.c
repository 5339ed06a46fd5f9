/* offload: copies state that is stored in host memory to the device before it is read, and back
 * after it is written.
 *
 *   %m = state_read "layers[0].w.m"          %m = state_read "layers[0].w.m"
 *   %n = add %m, %g                          %d = to_device %m {staging = 0}
 *   state_write %n "layers[0].w.m"     ->    %n = add %d, %g
 *                                            %h = to_host %n
 *                                            state_write %h "layers[0].w.m"
 *
 * States are copied a unit at a time: those of one stacked instance, or of neighbours outside
 * stacks, share a call. Each kind of state has two staging areas on the device, which units take in
 * turns: while one unit computes, the next is copied in. A unit's copy follows the last reader of
 * the unit that had its area before, so
 *
 *   in 0, in 1, compute 0, out 0, in 2, compute 1, out 1, in 3, compute 2, ..
 *
 * A unit that is read before its area is free gets memory of its own. With `tune prefetch = 0` a
 * unit is copied where it is first read. Results are unchanged. Requires RESHARDS_EXPLICIT; needs
 * states that are marked `host`. Two walks. */
#include <stdlib.h>
#include <string.h>

#include "passes/pass.h"
#include "passes/uses.h"

enum { AREAS = 2 };

/* A state that the function reads, or reads and writes. */
typedef struct moved {
    uint32_t state, first, last; /* positions of its first and last reader */
    sc_op_id read, write;        /* write: SC_NONE if it is only read */
} moved;

/* States that are copied together: [begin, end) of the sorted list. */
typedef struct group {
    uint32_t begin, end;
    uint32_t first, last; /* positions of its first reader, of the last op of its step */
    sc_op_id in;          /* its copy to the device */
} group;

typedef struct offload {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    const uint32_t *position; /* by op */
    sc_op_id *ops;            /* the function before the pass */
    uint32_t op_count;
    sc_value *root;  /* by value: the value that it is a view of */
    uint32_t *first; /* by root: positions of its first and last reader */
    uint32_t *last;
    moved *list;
    uint32_t count;
} offload;

/* ---- what is moved ---- */
static uint32_t state_of(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    uint32_t state = (sc_op_traits(o) & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                         ? SC_NONE
                         : sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    return state != SC_NONE && m->state.data[state].host ? state : SC_NONE;
}

static bool writes_state(const sc_module *m, sc_op_id op)
{
    return (sc_op_traits(sc_op_at(m, op)) & SC_STATE_WRITE) != 0;
}

/* Lists the function's ops, and the readers of each value; a view is read where its operand is. */
static void find_readers(offload *o)
{
    const sc_module *m = o->m;
    o->op_count = 0;
    sc_for_each_op (m, o->func, id) {
        const sc_op *op = sc_op_at(m, id);
        uint32_t at = o->op_count;
        o->ops[o->op_count++] = id;
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_value root = o->root[op->operands[i]];
            o->first[root] = o->first[root] == SC_NONE ? at : o->first[root];
            o->last[root] = at;
        }
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            o->root[value] = (sc_op_traits(op) & SC_VIEW) != 0 ? o->root[op->operands[0]] : value;
            o->first[value] = SC_NONE;
        }
    }
}

static int by_first_reader(const void *a, const void *b)
{
    const moved *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->state < y->state ? -1 : x->state > y->state;
}

static void find_moved(offload *o)
{
    const sc_module *m = o->m;
    uint32_t *of_state = sc_arena_array(&m->context->arena, m->state.count, sizeof *of_state);
    memset(of_state, 0xff, m->state.count * sizeof *of_state);
    o->count = 0;
    for (uint32_t i = 0; i < o->op_count; i++) {
        uint32_t state = state_of(m, o->ops[i]);
        if (state == SC_NONE)
            continue;
        if (writes_state(m, o->ops[i])) {
            if (of_state[state] != SC_NONE)
                o->list[of_state[state]].write = o->ops[i];
            continue;
        }
        sc_value value = sc_result(m, o->ops[i], 0);
        if (o->first[value] == SC_NONE)
            continue; /* nothing reads it */
        of_state[state] = o->count;
        o->list[o->count++] = (moved){state, o->first[value], o->last[value], o->ops[i], SC_NONE};
    }
    if (o->count > 0)
        qsort(o->list, o->count, sizeof *o->list, by_first_reader);
}

/* Length of the stacked instance in a path: `layers[3]` in layers[3].attn.wq.m; 0 outside stacks.
 */
static size_t instance_length(const char *path)
{
    const char *bracket = strchr(path, ']');
    return bracket == NULL ? 0 : (size_t)(bracket - path) + 1;
}

static bool same_group(const sc_module *m, uint32_t a, uint32_t b)
{
    const sc_state *x = &m->state.data[a], *y = &m->state.data[b];
    const char *p = sc_text(m->context, x->path), *q = sc_text(m->context, y->path);
    size_t length = instance_length(p);
    return x->kind == y->kind && length == instance_length(q) && memcmp(p, q, length) == 0;
}

/* Position of the last op that must run before the unit's new values are copied back: the readers
 * of the old values, and what computes the new ones. */
static uint32_t end_of(const offload *o, const moved *one)
{
    if (one->write == SC_NONE)
        return one->last;
    uint32_t made = o->position[sc_def(o->m, o->root[sc_op_at(o->m, one->write)->operands[0]])];
    return made > one->last ? made : one->last;
}

/* A unit's step ends with the last op that follows from its states, up to writes and collectives:
 * the new value of a parameter is computed in one kernel with that of its state. */
static void find_steps(const offload *o, group *groups, uint32_t count)
{
    const sc_module *m = o->m;
    uint32_t *of = sc_arena_array(&m->context->arena, m->values.count, sizeof *of);
    memset(of, 0xff, m->values.count * sizeof *of);
    for (uint32_t g = 0; g < count; g++) {
        for (uint32_t i = groups[g].begin; i < groups[g].end; i++)
            of[sc_result(m, o->list[i].read, 0)] = g;
    }
    for (uint32_t at = 0; at < o->op_count; at++) {
        const sc_op *op = sc_op_at(m, o->ops[at]);
        uint32_t from = SC_NONE;
        if ((sc_op_traits(op) & (SC_EFFECT | SC_RESHARD)) != 0)
            continue;
        for (uint32_t i = 0; i < op->operand_count; i++)
            from = of[op->operands[i]] != SC_NONE ? of[op->operands[i]] : from;
        if (from == SC_NONE)
            continue;
        groups[from].last = at > groups[from].last ? at : groups[from].last;
        for (uint32_t r = 0; r < op->result_count; r++)
            of[op->first_result + r] = from;
    }
}

static uint32_t find_groups(const offload *o, group *groups)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->count; i++) {
        const moved *one = &o->list[i];
        if (i == 0 || !same_group(o->m, one[-1].state, one->state))
            groups[count++] = (group){.begin = i, .first = one->first, .in = SC_NONE};
        group *g = &groups[count - 1];
        g->end = i + 1;
        g->last = end_of(o, one) > g->last ? end_of(o, one) : g->last;
    }
    find_steps(o, groups, count);
    return count;
}

/* ---- the copies ---- */
/* The first op from this position on that stays where it is. */
static sc_op_id anchor(const offload *o, uint32_t at)
{
    while (state_of(o->m, o->ops[at]) != SC_NONE)
        at++;
    return o->ops[at]; /* at the latest `return` */
}

static sc_op_id new_copy(const offload *o, sc_op_kind kind, const group *g, const sc_value *values,
                         uint32_t count, sc_op_id before)
{
    sc_module *m = o->m;
    sc_type *types = sc_arena_array(&m->context->arena, count, sizeof *types);
    for (uint32_t i = 0; i < count; i++)
        types[i] = m->values.data[values[i]].type;
    sc_op_id like = o->ops[g->first];
    sc_op_id copy = sc_op_new(m, o->func, before, kind, values, count, NULL, 0, types, count, like);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, like), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, copy, *phase);
    const sc_state *state = &m->state.data[o->list[g->begin].state];
    sc_op_set_attr(m, copy,
                   sc_attr_text(SC_ATTR_why, sc_intern_printf(&m->context->names,
                                                              "offload %s; stored in host memory",
                                                              sc_state_kind_names[state->kind])));
    return copy;
}

/* Copies a unit in, with the reads that it needs. staging: SC_NONE for memory of its own. */
static void copy_in(const offload *o, group *g, sc_op_id before, uint32_t staging)
{
    sc_module *m = o->m;
    sc_value *values = sc_arena_array(&m->context->arena, g->end - g->begin, sizeof *values);
    for (uint32_t i = g->begin; i < g->end; i++) {
        sc_op_move(m, o->list[i].read, before);
        values[i - g->begin] = sc_result(m, o->list[i].read, 0);
    }
    g->in = new_copy(o, SC_OP_to_device, g, values, g->end - g->begin, before);
    if (staging != SC_NONE)
        sc_op_set_attr(m, g->in, sc_attr_int(SC_ATTR_staging, staging));
}

/* Copies a unit's new values back. */
static void copy_out(const offload *o, const group *g, sc_op_id before)
{
    sc_module *m = o->m;
    sc_value *values = sc_arena_array(&m->context->arena, g->end - g->begin, sizeof *values);
    uint32_t count = 0;
    for (uint32_t i = g->begin; i < g->end; i++) {
        if (o->list[i].write != SC_NONE)
            values[count++] = sc_op_at(m, o->list[i].write)->operands[0];
    }
    if (count == 0)
        return;
    sc_op_id out = new_copy(o, SC_OP_to_host, g, values, count, before);
    count = 0;
    for (uint32_t i = g->begin; i < g->end; i++) {
        if (o->list[i].write == SC_NONE)
            continue;
        sc_op_at(m, o->list[i].write)->operands[0] = sc_result(m, out, count++);
        sc_op_move(m, o->list[i].write, before);
    }
}

/* Readers of the stored states read the copies instead; the copies read the states. */
static void redirect(const offload *o, const group *groups, uint32_t count)
{
    sc_module *m = o->m;
    uint32_t values;
    sc_value *map = sc_new_value_map(m, &values);
    for (uint32_t g = 0; g < count; g++) {
        for (uint32_t i = groups[g].begin; i < groups[g].end; i++)
            map[sc_result(m, o->list[i].read, 0)] = sc_result(m, groups[g].in, i - groups[g].begin);
    }
    sc_func_replace_uses(m, o->func, map, values);
    for (uint32_t g = 0; g < count; g++) {
        for (uint32_t i = groups[g].begin; i < groups[g].end; i++)
            sc_op_at(m, groups[g].in)->operands[i - groups[g].begin] =
                sc_result(m, o->list[i].read, 0);
    }
}

static void add_copies(const offload *o, group *groups, uint32_t count)
{
    /* by kind of state and area: the first position at which it is free */
    uint32_t free_at[SC_STATE_KINDS][AREAS] = {{0}}, taken[SC_STATE_KINDS] = {0};
    for (uint32_t g = 0; g < count; g++) {
        group *one = &groups[g];
        sc_state_kind kind = o->m->state.data[o->list[one->begin].state].kind;
        uint32_t area = taken[kind] % AREAS, from = free_at[kind][area];
        bool is_free = from <= one->first;
        uint32_t at = is_free && o->env->prefetch > 0 ? from : one->first;
        copy_in(o, one, anchor(o, at), is_free ? area : SC_NONE);
        copy_out(o, one, anchor(o, one->last + 1));
        if (is_free) {
            free_at[kind][area] = one->last + 1;
            taken[kind]++;
        }
    }
    redirect(o, groups, count);
}

bool sc_run_offload(sc_module *m, sc_pass_env *env)
{
    sc_arena *arena = &m->context->arena;
    bool moves = false;
    for (uint32_t s = 0; s < m->state.count; s++)
        moves = moves || m->state.data[s].host;
    if (!moves)
        return true;
    offload o = {.m = m, .env = env, .position = sc_number_ops(m)};
    o.ops = sc_arena_array(arena, m->ops.count, sizeof *o.ops);
    o.root = sc_arena_array(arena, m->values.count, sizeof *o.root);
    o.first = sc_arena_array(arena, m->values.count, sizeof *o.first);
    o.last = sc_arena_array(arena, m->values.count, sizeof *o.last);
    o.list = sc_arena_array(arena, m->state.count, sizeof *o.list);
    group *groups = sc_arena_array(arena, m->state.count, sizeof *groups);
    for (o.func = 0; o.func < m->funcs.count; o.func++) {
        find_readers(&o);
        find_moved(&o);
        uint32_t count = find_groups(&o, groups);
        if (count > 0)
            add_copies(&o, groups, count);
    }
    return true;
}
