/* offload: copies state that is stored in host memory to the device where it is read, and back
 * after it is written.
 *
 *   %m = state_read "layers[0].w.m"          %m = state_read "layers[0].w.m"
 *   %n = add %m, %g                          %d = to_device %m {staging = 0}
 *   state_write %n "layers[0].w.m"     ->    %n = add %d, %g
 *                                            %h = to_host %n
 *                                            state_write %h "layers[0].w.m"
 *
 * States are copied a unit at a time: those of one stacked instance, or of neighbours outside
 * stacks, share a call; what a collective reads is a unit of its own. A parameter is copied once
 * for each unit that reads it, as a gathered one is, and casts of it are made where they are read.
 * Each kind of state has two staging areas on the device, which units take in turns: while one unit
 * computes, the next is copied in. A unit's copy follows the last reader of the unit that had its
 * area before, so
 *
 *   in 0, in 1, compute 0, out 0, in 2, compute 1, out 1, in 3, compute 2, ..
 *
 * A unit that is read before its area is free gets memory of its own. With `tune prefetch = 0` a
 * unit is copied where it is first read. Results are unchanged. Requires RESHARDS_EXPLICIT; needs
 * states that are marked `host`. Saved activations are in offload_act.c. Three walks. */
#include <string.h>

#include "passes/offload.h"
#include "passes/uses.h"

enum { AREAS = 2 };

/* A read of a host state: operand `operand` of `op` is the state, or a view or cast of it. */
typedef struct reading {
    uint32_t state, at; /* at: position of op */
    sc_op_id op;
    uint32_t operand;
} reading;

/* Readings whose states are copied together: [begin, end) of the list, in program order. */
typedef struct unit {
    uint32_t begin, end;
    uint32_t last;    /* position of the last op of its step: then its area is free */
    uint32_t done;    /* position of the last op before its new values are copied back */
    uint32_t count;   /* of its distinct states */
    uint32_t *states; /* in order of their first reading */
    sc_value *copies; /* by state in that order: on the device */
} unit;

typedef struct offload {
    sc_module *m;
    const sc_pass_env *env;
    sc_func_id func;
    const uint32_t *position; /* by op */
    sc_op_id *ops;            /* the function before the pass */
    uint32_t op_count;
    sc_value *source;       /* by value: the read that it is, or is a view or cast of; SC_NONE */
    sc_op_id *read, *write; /* by host state: the function's ops; SC_NONE */
    uint32_t *last_unit;    /* by host state: the last unit that reads it */
    sc_value *again;        /* by value: its copy or clone in the current unit */
    uint32_t *again_in;     /* by value: 1 + the unit of `again` */
    SC_VEC(reading) readings;
    SC_VEC(unit) units;
} offload;

static uint32_t host_state_of(const sc_module *m, sc_op_id op)
{
    const sc_op *o = sc_op_at(m, op);
    uint32_t state = (sc_op_traits(o) & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                         ? SC_NONE
                         : sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
    /* a slot is written and read by copies already */
    return state != SC_NONE && m->state.data[state].host &&
                   m->state.data[state].kind != SC_STATE_SLOT
               ? state
               : SC_NONE;
}

/* ---- what is read ---- */
/* Casts of parameters are made by each unit, so that only the stored elements are copied. */
static bool is_made_again(const offload *o, const sc_op *op)
{
    if (op->operand_count != 1 || o->source[op->operands[0]] == SC_NONE)
        return false;
    const sc_op *read = sc_op_at(o->m, sc_def(o->m, o->source[op->operands[0]]));
    return (sc_op_traits(op) & SC_VIEW) != 0 ||
           ((sc_op_traits(op) & SC_CONVERTS) != 0 && (sc_op_traits(read) & SC_PARAMETER) != 0);
}

static void note_op(offload *o, sc_op_id id, uint32_t at)
{
    const sc_module *m = o->m;
    const sc_op *op = sc_op_at(m, id);
    uint32_t state = host_state_of(m, id);
    bool writes = (sc_op_traits(op) & SC_STATE_WRITE) != 0;
    for (uint32_t r = 0; r < op->result_count; r++)
        o->source[op->first_result + r] = SC_NONE;
    if (state != SC_NONE && !writes) {
        if (o->read[state] == SC_NONE)
            o->read[state] = id;
        o->source[op->first_result] = sc_result(m, o->read[state], 0);
        return;
    }
    if (state != SC_NONE)
        o->write[state] = id;
    if (is_made_again(o, op)) {
        o->source[op->first_result] = o->source[op->operands[0]];
        return;
    }
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_value source = o->source[op->operands[i]];
        if (source != SC_NONE)
            *sc_vec_push(&m->context->arena, &o->readings) =
                (reading){host_state_of(m, sc_def(m, source)), at, id, i};
    }
}

static void find_readings(offload *o)
{
    o->op_count = o->readings.count = o->units.count = 0;
    memset(o->read, 0xff, o->m->state.count * sizeof *o->read);
    memset(o->write, 0xff, o->m->state.count * sizeof *o->write);
    sc_for_each_op (o->m, o->func, id) {
        note_op(o, id, o->op_count);
        o->ops[o->op_count++] = id;
    }
}

/* ---- units ---- */
static bool same_unit(const offload *o, const reading *a, const reading *b)
{
    const sc_module *m = o->m;
    const sc_state *x = &m->state.data[a->state], *y = &m->state.data[b->state];
    const sc_op *p = sc_op_at(m, a->op), *q = sc_op_at(m, b->op);
    bool moves = ((sc_op_traits(p) | sc_op_traits(q)) & SC_COLLECTIVE) != 0;
    return x->kind == y->kind && (moves ? a->op == b->op : true) &&
           sc_is_forward_op(m, p) == sc_is_forward_op(m, q) &&
           sc_same_instance(sc_text(m->context, x->path), sc_text(m->context, y->path));
}

/* Adds the readings of one kind of state in program order, cut into units. */
static void add_units(offload *o, const reading *list, uint32_t count)
{
    sc_arena *arena = &o->m->context->arena;
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || !same_unit(o, &list[i - 1], &list[i]))
            *sc_vec_push(arena, &o->units) = (unit){.begin = o->readings.count};
        *sc_vec_push(arena, &o->readings) = list[i];
        unit *u = &o->units.data[o->units.count - 1];
        u->end = o->readings.count;
        u->last = list[i].at;
        o->last_unit[list[i].state] = o->units.count - 1;
    }
}

static void find_units(offload *o)
{
    sc_arena *arena = &o->m->context->arena;
    uint32_t all = o->readings.count;
    reading *list = sc_arena_array(arena, all, sizeof *list),
            *of_kind = sc_arena_array(arena, all, sizeof *of_kind);
    if (all > 0)
        memcpy(list, o->readings.data, all * sizeof *list);
    o->readings.count = 0;
    for (uint32_t k = 0; k < SC_STATE_KINDS; k++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < all; i++) {
            if ((uint32_t)o->m->state.data[list[i].state].kind == k)
                of_kind[count++] = list[i];
        }
        add_units(o, of_kind, count);
    }
}

static void list_states(offload *o, uint32_t index)
{
    sc_arena *arena = &o->m->context->arena;
    unit *u = &o->units.data[index];
    u->states = sc_arena_array(arena, u->end - u->begin, sizeof *u->states);
    u->copies = sc_arena_array(arena, u->end - u->begin, sizeof *u->copies);
    for (uint32_t i = u->begin; i < u->end; i++) {
        uint32_t state = o->readings.data[i].state;
        sc_value value = sc_result(o->m, o->read[state], 0);
        if (o->again_in[value] == index + 1)
            continue;
        o->again_in[value] = index + 1;
        u->states[u->count++] = state;
    }
}

/* True if the unit copies a new value of one of its states back. */
static bool writes(const offload *o, uint32_t index, uint32_t state)
{
    return o->write[state] != SC_NONE && o->last_unit[state] == index;
}

/* A unit's step ends with the last op that follows from its states, up to writes and collectives:
 * the new value of a parameter is computed in one kernel with that of its state. */
static void find_steps(offload *o, sc_state_kind kind)
{
    const sc_module *m = o->m;
    uint32_t *of = sc_arena_array(&m->context->arena, m->values.count, sizeof *of), next = 0;
    memset(of, 0xff, m->values.count * sizeof *of);
    for (uint32_t u = 0; u < o->units.count; u++) {
        const unit *one = &o->units.data[u];
        for (uint32_t s = 0; s < one->count; s++) {
            if (writes(o, u, one->states[s]) && m->state.data[one->states[s]].kind == kind)
                of[sc_result(m, o->read[one->states[s]], 0)] = u;
        }
    }
    for (; next < o->op_count; next++) {
        const sc_op *op = sc_op_at(m, o->ops[next]);
        uint32_t from = SC_NONE;
        if ((sc_op_traits(op) & (SC_EFFECT | SC_RESHARD)) != 0)
            continue;
        for (uint32_t i = 0; i < op->operand_count; i++)
            from = of[op->operands[i]] != SC_NONE ? of[op->operands[i]] : from;
        if (from == SC_NONE)
            continue;
        unit *u = &o->units.data[from];
        u->last = next > u->last ? next : u->last;
        for (uint32_t r = 0; r < op->result_count; r++)
            of[op->first_result + r] = from;
    }
}

static void find_ends(offload *o)
{
    const sc_module *m = o->m;
    for (uint32_t u = 0; u < o->units.count; u++) {
        unit *one = &o->units.data[u];
        one->done = one->last;
        for (uint32_t s = 0; s < one->count; s++) {
            if (!writes(o, u, one->states[s]))
                continue;
            sc_value value = sc_op_at(m, o->write[one->states[s]])->operands[0];
            while ((sc_op_traits(sc_op_at(m, sc_def(m, value))) & SC_VIEW) != 0)
                value = sc_op_at(m, sc_def(m, value))->operands[0];
            uint32_t made = o->position[sc_def(m, value)];
            one->done = made > one->done ? made : one->done;
        }
    }
}

/* ---- the copies ---- */
/* The first op from this position on that stays where it is; at the latest `return`. */
static sc_op_id anchor(const offload *o, uint32_t at)
{
    while (host_state_of(o->m, o->ops[at]) != SC_NONE)
        at++;
    return o->ops[at];
}

static sc_copy_reason why(const sc_module *m, uint32_t state)
{
    return (sc_copy_reason){sc_arena_printf(&m->context->arena, "offload %s; stored in host memory",
                                            sc_state_kind_names[m->state.data[state].kind]),
                            m->state.data[state].host_rule};
}

/* Copies a unit in. staging: SC_NONE for memory of its own. */
static void copy_in(const offload *o, unit *u, sc_op_id before, uint32_t staging)
{
    sc_module *m = o->m;
    for (uint32_t s = 0; s < u->count; s++)
        u->copies[s] = sc_result(m, o->read[u->states[s]], 0);
    sc_op_id in = sc_new_memory_copy(m, SC_OP_to_device, u->copies, u->count, before,
                                     o->readings.data[u->begin].op, why(m, u->states[0]));
    if (staging != SC_NONE)
        sc_op_set_attr(m, in, sc_attr_int(SC_ATTR_staging, staging));
    for (uint32_t s = 0; s < u->count; s++)
        u->copies[s] = sc_result(m, in, s);
}

/* Copies a unit's new values back. */
static void copy_out(const offload *o, uint32_t index, sc_op_id before)
{
    sc_module *m = o->m;
    const unit *u = &o->units.data[index];
    sc_value *values = sc_arena_array(&m->context->arena, u->count, sizeof *values);
    uint32_t count = 0;
    for (uint32_t s = 0; s < u->count; s++) {
        if (writes(o, index, u->states[s]))
            values[count++] = sc_op_at(m, o->write[u->states[s]])->operands[0];
    }
    if (count == 0)
        return;
    sc_op_id out = sc_new_memory_copy(m, SC_OP_to_host, values, count, before,
                                      o->readings.data[u->begin].op, why(m, u->states[0]));
    count = 0;
    for (uint32_t s = 0; s < u->count; s++) {
        if (!writes(o, index, u->states[s]))
            continue;
        sc_op_at(m, o->write[u->states[s]])->operands[0] = sc_result(m, out, count++);
        sc_op_move(m, o->write[u->states[s]], before);
    }
}

/* Copies new values of states that the function does not read: those of an instance together. */
static void copy_unread(const offload *o)
{
    sc_module *m = o->m;
    sc_value *values = sc_arena_array(&m->context->arena, m->state.count, sizeof *values);
    sc_op_id *ops = sc_arena_array(&m->context->arena, m->state.count, sizeof *ops);
    uint32_t count = 0, last = SC_NONE;
    for (uint32_t i = 0; i < o->op_count; i++) {
        uint32_t state = host_state_of(m, o->ops[i]);
        bool counts =
            state != SC_NONE && o->write[state] == o->ops[i] && o->last_unit[state] == SC_NONE;
        bool ends = count > 0 &&
                    (!counts || !sc_same_instance(sc_text(m->context, m->state.data[last].path),
                                                  sc_text(m->context, m->state.data[state].path)));
        if (ends) {
            sc_op_id out =
                sc_new_memory_copy(m, SC_OP_to_host, values, count, ops[0], ops[0], why(m, last));
            for (uint32_t k = 0; k < count; k++)
                sc_op_at(m, ops[k])->operands[0] = sc_result(m, out, k);
            count = 0;
        }
        if (counts) {
            values[count] = sc_op_at(m, o->ops[i])->operands[0];
            ops[count++] = o->ops[i];
            last = state;
        }
    }
}

/* Returns the unit's copy of a read, or its own view or cast of it. */
static sc_value made_again(offload *o, uint32_t index, sc_value value, sc_op_id before)
{
    sc_module *m = o->m;
    if ((sc_op_traits(sc_op_at(m, sc_def(m, value))) & SC_STATE_READ) != 0)
        value = o->source[value]; /* the first of several reads */
    if (o->again_in[value] == index + 1)
        return o->again[value];
    const sc_op like = *sc_op_at(m, sc_def(m, value));
    sc_value operand = made_again(o, index, like.operands[0], before);
    sc_type type = m->values.data[value].type;
    sc_op_id clone = sc_op_new(m, o->func, before, (sc_op_kind)like.kind, &operand, 1, like.attrs,
                               like.attr_count, &type, 1, sc_def(m, value));
    const sc_attr *phase = sc_op_attr(sc_op_at(m, before), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, clone, *phase);
    m->values.data[sc_result(m, clone, 0)].path = m->values.data[value].path;
    o->again_in[value] = index + 1;
    return o->again[value] = sc_result(m, clone, 0);
}

static void redirect(offload *o, uint32_t index)
{
    sc_module *m = o->m;
    const unit *u = &o->units.data[index];
    for (uint32_t s = 0; s < u->count; s++) {
        sc_value read = sc_result(m, o->read[u->states[s]], 0);
        o->again[read] = u->copies[s];
        o->again_in[read] = index + 1;
    }
    for (uint32_t i = u->begin; i < u->end; i++) {
        const reading *r = &o->readings.data[i];
        sc_value value = sc_op_at(m, r->op)->operands[r->operand];
        sc_value copy = made_again(o, index, value, r->op);
        sc_op_at(m, r->op)->operands[r->operand] = copy;
    }
}

/* Removes the reads of states other than the first of each, and views and casts that each unit has
 * made for itself; the reads that are left begin the function. */
static void remove_old(const offload *o)
{
    sc_module *m = o->m;
    for (uint32_t i = 0; i < o->op_count; i++) {
        const sc_op *op = sc_op_at(m, o->ops[i]);
        if (op->result_count != 1 || o->source[op->first_result] == SC_NONE)
            continue;
        sc_value source = o->source[op->first_result];
        if (sc_def(m, source) != o->ops[i])
            sc_op_unlink(m, o->ops[i]);
        else if (m->funcs.data[o->func].first != o->ops[i])
            sc_op_move(m, o->ops[i], m->funcs.data[o->func].first);
    }
}

static void add_copies(offload *o)
{
    /* by kind of state and area: the first position at which it is free */
    uint32_t free_at[SC_STATE_KINDS][AREAS] = {{0}}, taken[SC_STATE_KINDS] = {0};
    for (uint32_t u = 0; u < o->units.count; u++) {
        unit *one = &o->units.data[u];
        sc_state_kind kind = o->m->state.data[one->states[0]].kind;
        uint32_t area = taken[kind] % AREAS, from = free_at[kind][area],
                 first = o->readings.data[one->begin].at;
        bool is_free = from <= first;
        uint32_t at = is_free && o->env->prefetch > 0 ? from : first;
        copy_in(o, one, anchor(o, at), is_free ? area : SC_NONE);
        copy_out(o, u, anchor(o, one->done + 1));
        redirect(o, u);
        if (is_free) {
            free_at[kind][area] = one->last + 1;
            taken[kind]++;
        }
    }
    remove_old(o);
}

static void offload_states(offload *o)
{
    find_readings(o);
    memset(o->last_unit, 0xff, o->m->state.count * sizeof *o->last_unit);
    memset(o->again_in, 0, o->m->values.count * sizeof *o->again_in);
    find_units(o);
    for (uint32_t u = 0; u < o->units.count; u++)
        list_states(o, u);
    for (uint32_t k = 0; k < SC_STATE_KINDS; k++)
        find_steps(o, (sc_state_kind)k);
    find_ends(o);
    memset(o->again_in, 0, o->m->values.count * sizeof *o->again_in);
    copy_unread(o);
    add_copies(o);
}

/* ---- after fusion ---- */
/* The copies into staging areas of one function, by op: their first and last readers, and the
 * places of these in the function. */
typedef struct staging {
    sc_module *m;
    sc_op_id *by; /* by value: the copy that it is a result of, or a view of one; SC_NONE */
    sc_op_id *first, *last;
    uint32_t *position; /* by op */
} staging;

static void find_staged_readers(staging *s, sc_func_id func)
{
    const sc_module *m = s->m;
    uint32_t next = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        s->position[id] = next++;
        s->first[id] = SC_NONE;
        s->last[id] = id;
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_op_id copy = s->by[op->operands[i]];
            if (copy == SC_NONE)
                continue;
            s->first[copy] = s->first[copy] == SC_NONE ? id : s->first[copy];
            s->last[copy] = id;
            if ((sc_op_traits(op) & SC_VIEW) != 0)
                s->by[op->first_result] = copy;
        }
        for (uint32_t r = 0; r < op->result_count; r++) {
            if (sc_op_attr(op, SC_ATTR_staging) != NULL)
                s->by[op->first_result + r] = id;
        }
    }
}

static int64_t kernel_of(const sc_module *m, sc_op_id op)
{
    return op == SC_NONE ? -1 : sc_op_int(sc_op_at(m, op), SC_ATTR_kernel, -1);
}

/* Lets the copy fill its area after the last reader of what another copy has left there; false if
 * it is read itself by then. */
static bool follows(staging *s, sc_op_id copy, sc_op_id before)
{
    sc_op_id behind = s->last[before], first = s->first[copy];
    int64_t kernel = kernel_of(s->m, behind);
    if (s->position[behind] < s->position[copy])
        return true;
    if (first != SC_NONE && (s->position[first] <= s->position[behind] ||
                             (kernel >= 0 && kernel_of(s->m, first) == kernel)))
        return false;
    sc_op_id to = sc_op_at(s->m, behind)->next;
    if (kernel >= 0) {
        while (kernel_of(s->m, to) == kernel)
            to = sc_op_at(s->m, to)->next;
    }
    sc_op_move(s->m, copy, to);
    return true;
}

void sc_order_staged_copies(sc_module *m, sc_func_id func)
{
    sc_arena *scratch = &m->context->scratch;
    const sc_arena_mark mark = sc_arena_mark_here(scratch);
    staging s = {.m = m,
                 .by = sc_arena_array(scratch, m->values.count, sizeof *s.by),
                 .first = sc_arena_array(scratch, m->ops.count, sizeof *s.first),
                 .last = sc_arena_array(scratch, m->ops.count, sizeof *s.last),
                 .position = sc_arena_array(scratch, m->ops.count, sizeof *s.position)};
    sc_op_id filled[SC_STATE_KINDS * AREAS];
    memset(s.by, 0xff, m->values.count * sizeof *s.by);
    memset(filled, 0xff, sizeof filled);
    find_staged_readers(&s, func);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_attr(op, SC_ATTR_staging) == NULL)
            continue;
        uint32_t state = host_state_of(m, sc_def(m, op->operands[0]));
        sc_op_id *before = &filled[(uint32_t)m->state.data[state].kind * AREAS +
                                   (uint32_t)sc_op_int(op, SC_ATTR_staging, 0)];
        if (*before == id) /* it was moved here */
            continue;
        if (*before == SC_NONE || follows(&s, id, *before))
            *before = id;
        else
            sc_op_drop_attr(m, id, SC_ATTR_staging);
    }
    sc_arena_release(scratch, mark);
}

bool sc_run_offload(sc_module *m, sc_pass_env *env)
{
    sc_arena *arena = &m->context->arena;
    bool moves = false;
    if (env->step != NULL && !sc_module_is_cut(m))
        sc_offload_activations(m, env->step, env->prefetch, NULL);
    for (uint32_t s = 0; s < m->state.count; s++)
        moves = moves || m->state.data[s].host;
    if (!moves)
        return true;
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        offload o = {.m = m, .env = env, .func = f, .position = sc_number_ops(m)};
        o.ops = sc_arena_array(arena, m->ops.count, sizeof *o.ops);
        o.source = sc_arena_array(arena, m->values.count, sizeof *o.source);
        o.again = sc_arena_array(arena, m->values.count, sizeof *o.again);
        o.again_in = sc_arena_array(arena, m->values.count, sizeof *o.again_in);
        o.read = sc_arena_array(arena, m->state.count, sizeof *o.read);
        o.write = sc_arena_array(arena, m->state.count, sizeof *o.write);
        o.last_unit = sc_arena_array(arena, m->state.count, sizeof *o.last_unit);
        offload_states(&o);
    }
    return true;
}
