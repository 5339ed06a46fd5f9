/* Cuts `update` by stage.
 *
 *   U0_0: squares of stage 0's gradients, sent      U0_1: squares, norm, factor of gradients, sent
 *   U1_0: one step of stage 0's parameters          U1_1: one step of stage 1's; returns the
 * results
 *
 * The update runs in sweeps over the stages, the stage of the results last in each. An op runs
 * where its tensors are; numbers are combined on the stage of the results. What only state needs is
 * done in the last sweep, so that nothing is kept between sweeps without need. A parameter of
 * several stages is stepped on each of them from the same sum of gradients, so its copies stay
 * equal. Five walks. */
#include <string.h>

#include "passes/cutting.h"

typedef struct update_cut {
    sc_cutting *c;
    sc_func_id func;
    sc_segments segments;
    uint64_t *can;     /* by op: the stages that have its operands */
    uint64_t *runs;    /* by op: the stages that run it; 0: none needs it */
    uint32_t *sweep;   /* by op */
    uint32_t last;     /* sweep */
    sc_segment_id *of; /* sweep x stage; SC_NONE: no such segment yet */
    uint32_t stages;
} update_cut;

static uint64_t bit(uint32_t stage)
{
    return UINT64_C(1) << stage;
}

static uint32_t lowest(uint64_t set)
{
    uint32_t stage = 0;
    while ((set >> stage & 1) == 0)
        stage++;
    return stage;
}

/* True if the second stage comes after the first in a sweep. */
static bool is_later(const update_cut *u, uint32_t first, uint32_t second)
{
    return second == u->c->results || (first != u->c->results && first < second);
}

/* Of the stages that run an op, the one that sends its result to others. */
static uint32_t sender(const update_cut *u, uint64_t runs)
{
    return (runs & bit(u->c->results)) != 0 ? u->c->results : lowest(runs);
}

/* ---- where an op can run ---- */

/* Of ops that combine tensors of different stages, those of the largest tensor; of tensors of equal
 * size, all: each gets the other's. */
static uint64_t stages_of_tensors(const update_cut *u, const sc_op *op)
{
    const sc_module *m = u->c->m;
    uint64_t common = UINT64_MAX, largest_can = 0;
    int64_t largest = 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_type_info *type = sc_type_of(m, op->operands[i]);
        uint64_t can = u->can[sc_def(m, op->operands[i])];
        if (type->rank == 0)
            continue;
        int64_t elements = sc_type_local_elements(m, type);
        common &= can;
        if (elements > largest)
            largest_can = can;
        else if (elements == largest)
            largest_can |= can;
        largest = elements > largest ? elements : largest;
    }
    return common != 0 ? common : largest_can;
}

static uint64_t stages_of(const update_cut *u, const sc_op *op)
{
    const sc_module *m = u->c->m;
    uint64_t numbers = UINT64_MAX;
    bool has_tensor = false;
    if ((sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) != 0)
        return u->c->owners[sc_module_find_state(m, sc_op_word(op, SC_ATTR_name))];
    for (uint32_t i = 0; i < op->operand_count; i++) {
        has_tensor = has_tensor || sc_type_of(m, op->operands[i])->rank > 0;
        numbers &= u->can[sc_def(m, op->operands[i])];
    }
    if ((sc_op_traits(op) & SC_RETURNS) != 0)
        return bit(u->c->results);
    return has_tensor ? stages_of_tensors(u, op) : numbers != 0 ? numbers : bit(u->c->results);
}

/* Finds the stages that run each op: those that need the result and can compute it, else one. */
static void find_runs(update_cut *u)
{
    const sc_module *m = u->c->m;
    sc_for_each_op (m, u->func, id)
        u->can[id] = stages_of(u, sc_op_at(m, id));
    sc_for_each_op_reverse (m, u->func, id) {
        const sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & SC_EFFECT) != 0)
            u->runs[id] = u->can[id];
        if (u->runs[id] == 0)
            continue;
        uint64_t here = u->runs[id] & u->can[id];
        if (here != u->runs[id]) /* the others receive it */
            here |= bit(sender(u, here != 0 ? here : u->can[id]));
        u->runs[id] = here;
        for (uint32_t i = 0; i < op->operand_count; i++)
            u->runs[sc_def(m, op->operands[i])] |= here;
    }
}

/* ---- when it runs ---- */

/* Sweeps between an operand and its reader on this stage: 1 if it comes from a later stage. */
static uint32_t delay(const update_cut *u, sc_op_id operand, uint32_t stage)
{
    uint64_t runs = u->runs[operand];
    return (runs & bit(stage)) != 0 || is_later(u, sender(u, runs), stage) ? 0 : 1;
}

static uint32_t longest_delay(const update_cut *u, sc_op_id operand, uint64_t stages)
{
    uint32_t longest = 0;
    for (uint32_t stage = 0; stage < u->stages && longest == 0; stage++) {
        if ((stages >> stage & 1) != 0)
            longest = delay(u, operand, stage);
    }
    return longest;
}

/* Finds the number of sweeps, then runs each op in the latest one possible. */
static void find_sweeps(update_cut *u)
{
    const sc_module *m = u->c->m;
    sc_for_each_op (m, u->func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count && u->runs[id] != 0; i++) {
            sc_op_id def = sc_def(m, op->operands[i]);
            uint32_t earliest = u->sweep[def] + longest_delay(u, def, u->runs[id]);
            u->sweep[id] = earliest > u->sweep[id] ? earliest : u->sweep[id];
        }
        u->last = u->sweep[id] > u->last ? u->sweep[id] : u->last;
    }
    sc_for_each_op (m, u->func, id)
        u->sweep[id] = u->last;
    sc_for_each_op_reverse (m, u->func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count && u->runs[id] != 0; i++) {
            sc_op_id def = sc_def(m, op->operands[i]);
            uint32_t latest = u->sweep[id] - longest_delay(u, def, u->runs[id]);
            u->sweep[def] = latest < u->sweep[def] ? latest : u->sweep[def];
        }
    }
}

/* ---- functions ---- */

static sc_segment_id segment_of(update_cut *u, uint32_t sweep, uint32_t stage)
{
    sc_segment_id *known = &u->of[sweep * u->stages + stage];
    if (*known != SC_NONE)
        return *known;
    sc_sym name = sc_intern_printf(&u->c->m->context->names, "U%u_%u", sweep, stage);
    return *known = sc_segments_add(&u->segments, stage, name,
                                    u->segments.list.count == 0 ? u->func : SC_NONE);
}

/* What a stage sends in a sweep is received in the first function of the other that comes after. */
static void set_receivers(update_cut *u, sc_op_id id)
{
    const sc_op *op = sc_op_at(u->c->m, id);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_op_id def = sc_def(u->c->m, op->operands[i]);
        for (uint32_t stage = 0; stage < u->stages; stage++) {
            if ((u->runs[id] >> stage & 1) == 0 || (u->runs[def] >> stage & 1) != 0)
                continue;
            uint32_t from = sender(u, u->runs[def]), sweep = u->sweep[def] + delay(u, def, stage);
            sc_segments_set_receiver(&u->segments, segment_of(u, u->sweep[def], from),
                                     segment_of(u, sweep, stage));
        }
    }
}

/* Places an op on each stage that runs it, the sender first: others receive from there. */
static void place(update_cut *u, sc_op_id id)
{
    uint64_t runs = u->runs[id];
    uint32_t first = sender(u, runs);
    sc_segments_place(&u->segments, id, segment_of(u, u->sweep[id], first));
    for (uint32_t stage = 0; stage < u->stages; stage++) {
        if (stage != first && (runs >> stage & 1) != 0)
            sc_segments_place(&u->segments, id, segment_of(u, u->sweep[id], stage));
    }
}

/* True if a stage that cannot compute the op reads its result. */
static bool is_sent(const update_cut *u, const bool *sent, sc_op_id id)
{
    return sent[id] || !u->segments.repeats[id];
}

static void add_calls(const update_cut *u)
{
    sc_module *m = u->c->m;
    for (uint32_t sweep = 0; sweep <= u->last; sweep++) {
        for (uint32_t k = 0; k < u->stages; k++) {
            /* the stage of the results is the last one */
            uint32_t stage = k + 1 == u->stages ? u->c->results : k < u->c->results ? k : k + 1;
            sc_segment_id segment = u->of[sweep * u->stages + stage];
            if (segment != SC_NONE)
                *sc_vec_push(&m->context->arena, &m->schedule) =
                    (sc_call){.func = u->segments.list.data[segment].func, .microbatch = -1};
        }
    }
}

/* Finds the ops whose results go to other stages. */
static bool *find_sent(const update_cut *u)
{
    const sc_module *m = u->c->m;
    bool *sent = sc_arena_array(&m->context->arena, m->ops.count, sizeof *sent);
    sc_for_each_op (m, u->func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_op_id def = sc_def(m, op->operands[i]);
            sent[def] = sent[def] || (u->runs[id] & ~u->can[def]) != 0;
        }
    }
    return sent;
}

void sc_cut_update(sc_cutting *c)
{
    sc_module *m = c->m;
    sc_arena *arena = &m->context->arena;
    update_cut u = {.c = c, .func = c->step->update, .stages = c->pipeline->schedule->ranks};
    uint32_t count;
    u.can = sc_arena_array(arena, m->ops.count, sizeof *u.can);
    u.runs = sc_arena_array(arena, m->ops.count, sizeof *u.runs);
    u.sweep = sc_arena_array(arena, m->ops.count, sizeof *u.sweep);
    find_runs(&u);
    find_sweeps(&u);
    const bool *sent = find_sent(&u);
    sc_segments_begin(&u.segments, m, c->step);
    sc_segments_find_repeats(&u.segments, u.func, false);
    u.segments.stages = u.can;
    u.of = sc_arena_array(arena, (size_t)(u.last + 1) * u.stages, sizeof *u.of);
    memset(u.of, 0xff, (size_t)(u.last + 1) * u.stages * sizeof *u.of);
    sc_op_id *ops = sc_take_ops(m, u.func, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (u.runs[ops[i]] != 0 && is_sent(&u, sent, ops[i]))
            set_receivers(&u, ops[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (u.runs[ops[i]] != 0 && is_sent(&u, sent, ops[i]))
            place(&u, ops[i]);
    }
    sc_segments_finish(&u.segments);
    add_calls(&u);
}
