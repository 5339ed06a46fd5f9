/* hoist-gathers: gathers parameters once per step, not once per micro-batch, if their copies are
 * kept for the whole step. Each stage of a pipeline has a `begin` of its own, for all its chunks.
 *
 *   micro:  %3 = all_gather %w {per_step = 1}   begin:  %1 = all_gather %w
 *                                          ->           state_write %1 {name = "w.gathered"}
 *                                               micro:  %3 = state_read {name = "w.gathered"}
 *
 * The operand of such a gather (a stored parameter and its cast, or the result of an earlier
 * collective of its path) does not change between micro-batches. `begin` runs before the first of
 * them and keeps only the values that `micro` reads. No-op with one micro-batch. Requires
 * RESHARDS_EXPLICIT. */
#include <string.h>

#include "passes/pass.h"

typedef struct hoisting {
    sc_module *m;
    sc_func_id micro; /* the function that ops move from */
    uint32_t stage;   /* that runs it */
    sc_func_id begin; /* of the stage; SC_NONE until an op moves there */
    sc_value *moved;  /* by value at the start: its copy in `begin` */
    sc_value *map;    /* by value at the start: its replacement in the function */
    /* by value at the start: read in the function by an op that does not move, directly or through
     * a cast */
    bool *is_read;
    bool *hoists;   /* by op at the start */
    sc_map written; /* names of the copies that `begin` writes */
    uint32_t count, op_count;
} hoisting;

static sc_func_id begin_of(hoisting *h)
{
    sc_interner *names = &h->m->context->names;
    if (h->begin != SC_NONE)
        return h->begin;
    h->begin = sc_module_add_func(h->m, h->stage == SC_ALL_STAGES_RUN
                                            ? sc_intern_text(names, "begin")
                                            : sc_intern_printf(names, "begin%u", h->stage));
    h->m->funcs.data[h->begin].stage = h->stage;
    return h->begin;
}

/* Copies an op to the end of `begin`, after its operands. */
static sc_op_id copy_op(hoisting *h, sc_op_id id)
{
    sc_module *m = h->m;
    const sc_op op = *sc_op_at(m, id);
    sc_arena *arena = &m->context->arena;
    sc_value *operands = sc_arena_array(arena, op.operand_count + 1u, sizeof *operands);
    sc_type *types = sc_arena_array(arena, op.result_count, sizeof *types);
    for (uint32_t i = 0; i < op.operand_count; i++) {
        if (h->moved[op.operands[i]] == SC_NONE)
            copy_op(h, sc_def(m, op.operands[i]));
        operands[i] = h->moved[op.operands[i]];
    }
    for (uint32_t r = 0; r < op.result_count; r++)
        types[r] = m->values.data[op.first_result + r].type;
    sc_op_id made =
        sc_op_new(m, begin_of(h), SC_NONE, (sc_op_kind)op.kind, operands, op.operand_count,
                  op.attrs, op.attr_count, types, op.result_count, id);
    for (uint32_t r = 0; r < op.result_count; r++)
        h->moved[op.first_result + r] = sc_result(m, made, r);
    return made;
}

/* Returns the parameter behind casts and collectives. */
static sc_sym param_behind(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    while ((sc_op_traits(op) & SC_STATE_READ) == 0) {
        value = op->operands[value - op->first_result];
        op = sc_op_at(m, sc_def(m, value));
    }
    return sc_op_word(op, SC_ATTR_name);
}

/* True for a stored parameter, its cast, or the result of a collective that moves. */
static bool is_there_before(const hoisting *h, sc_value value)
{
    const sc_op *op = sc_op_at(h->m, sc_def(h->m, value));
    if ((sc_op_traits(op) & SC_STATE_READ) != 0 || h->hoists[sc_def(h->m, value)])
        return true;
    return op->operand_count == 1 && (sc_op_traits(op) & SC_CONVERTS) != 0 &&
           is_there_before(h, op->operands[0]);
}

static bool can_hoist(const hoisting *h, sc_op_id id)
{
    const sc_op *op = sc_op_at(h->m, id);
    bool can = (sc_op_traits(op) & SC_COLLECTIVE) != 0 && sc_op_attr(op, SC_ATTR_per_step) != NULL;
    for (uint32_t i = 0; can && i < op->operand_count; i++)
        can = is_there_before(h, op->operands[i]);
    return can;
}

/* Returns the state of a parameter's gathered copy: one per type. */
static sc_sym gathered_state(hoisting *h, sc_sym param, sc_type type, sc_loc loc)
{
    sc_module *m = h->m;
    for (uint32_t n = 1;; n++) {
        const char *text = sc_text(m->context, param);
        sc_sym name = n == 1 ? sc_intern_printf(&m->context->names, "%s.gathered", text)
                             : sc_intern_printf(&m->context->names, "%s.gathered%u", text, n);
        uint32_t state = sc_module_find_state(m, name);
        if (state == SC_NONE)
            sc_module_add_state(m, &(sc_state){.path = name,
                                               .kind = SC_STATE_GATHERED,
                                               .type = type,
                                               .init = SC_INIT_ZEROS,
                                               .loc = loc});
        if (state == SC_NONE || m->state.data[state].type == type)
            return name;
    }
}

/* Returns the copy that each result is read from; 0 for results that nothing reads. */
static sc_sym *find_copies(hoisting *h, const sc_op *op)
{
    sc_module *m = h->m;
    sc_sym *names = sc_arena_array(&m->context->arena, op->result_count, sizeof *names);
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        if (h->is_read[value])
            names[r] = gathered_state(h, param_behind(m, op->operands[r]),
                                      m->values.data[value].type, op->loc);
    }
    return names;
}

/* Another function of the stage may have the same gathers. */
static void write_copies(hoisting *h, sc_op_id id, const sc_sym *names)
{
    sc_module *m = h->m;
    const sc_op op = *sc_op_at(m, id);
    bool is_copied = false;
    for (uint32_t r = 0; r < op.result_count; r++) {
        bool is_new = false;
        if (names[r] != 0)
            sc_map_insert(&h->written, names[r], 0, &is_new);
        if (!is_new)
            continue;
        if (!is_copied)
            copy_op(h, id);
        is_copied = true;
        sc_attr attr = sc_attr_text(SC_ATTR_name, names[r]);
        sc_op_new(m, begin_of(h), SC_NONE, SC_OP_state_write, &h->moved[op.first_result + r], 1,
                  &attr, 1, NULL, 0, id);
    }
}

static void hoist(hoisting *h, sc_op_id id)
{
    sc_module *m = h->m;
    const sc_op op = *sc_op_at(m, id);
    const sc_sym *names = find_copies(h, &op);
    write_copies(h, id, names);
    for (uint32_t r = 0; r < op.result_count; r++) {
        sc_value value = op.first_result + r;
        if (names[r] == 0)
            continue;
        sc_type type = m->values.data[value].type;
        sc_attr attr = sc_attr_text(SC_ATTR_name, names[r]);
        sc_op_id read =
            sc_op_new(m, h->micro, id, SC_OP_state_read, NULL, 0, &attr, 1, &type, 1, id);
        h->map[value] = sc_result(m, read, 0);
    }
    sc_op_unlink(m, id);
}

/* Finds the ops that move and which of their results the rest reads. */
static void find_hoisted(hoisting *h)
{
    const sc_module *m = h->m;
    sc_for_each_op (m, h->micro, op) {
        const sc_op *o = sc_op_at(m, op);
        h->hoists[op] = can_hoist(h, op);
        if (h->hoists[op])
            continue;
        for (uint32_t i = 0; i < o->operand_count; i++)
            h->is_read[o->operands[i]] = true;
    }
}

static void hoist_from(hoisting *h, sc_func_id func)
{
    sc_module *m = h->m;
    h->micro = func;
    find_hoisted(h);
    sc_for_each_op (m, func, op) {
        if (op < h->op_count && h->hoists[op])
            hoist(h, op);
    }
    sc_func_replace_uses(m, func, h->map, h->count);
}

static void call_first(sc_module *m, sc_func_id func)
{
    sc_op_new(m, func, SC_NONE, SC_OP_return, NULL, 0, NULL, 0, NULL, 0, SC_NONE);
    sc_vec_push(&m->context->arena, &m->schedule);
    memmove(&m->schedule.data[1], &m->schedule.data[0],
            (m->schedule.count - 1) * sizeof *m->schedule.data);
    m->schedule.data[0] = (sc_call){.func = func, .microbatch = -1};
}

/* Gathers that are kept for the step are only in functions of micro-batches. */
bool sc_run_hoist_gathers(sc_module *m, sc_pass_env *env)
{
    if (env->step == NULL || (env->step->training->micro_batches < 2 && env->pipeline == NULL))
        return true;
    sc_arena *arena = &m->context->arena;
    const uint32_t funcs = m->funcs.count;
    const bool has_stages = env->pipeline != NULL;
    hoisting h = {.m = m, .count = m->values.count, .op_count = m->ops.count};
    h.moved = sc_arena_array(arena, h.count, sizeof *h.moved);
    h.map = sc_arena_array(arena, h.count, sizeof *h.map);
    memset(h.moved, 0xff, h.count * sizeof *h.moved);
    memset(h.map, 0xff, h.count * sizeof *h.map);
    h.is_read = sc_arena_array(arena, h.count, sizeof *h.is_read);
    h.hoists = sc_arena_array(arena, m->ops.count, sizeof *h.hoists);
    for (uint32_t stage = sc_mesh_stages(&m->mesh); stage-- > 0;) {
        h.stage = has_stages ? stage : SC_ALL_STAGES_RUN;
        h.begin = SC_NONE;
        h.written = (sc_map){.arena = arena};
        for (sc_func_id f = 0; f < funcs; f++) {
            if (m->funcs.data[f].stage == h.stage)
                hoist_from(&h, f);
        }
        if (h.begin != SC_NONE)
            call_first(m, h.begin);
    }
    return true;
}
