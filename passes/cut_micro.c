/* Cuts the forward and backward pass of one micro-batch by chunk and direction. */
#include "passes/cut_stages.h"
#include "passes/cutting.h"
#include "passes/offload.h"
#include "passes/uses.h"

/* The functions of a chunk. Without a split of the backward pass, INPUT is all of it. */
enum { PART_FORWARD, PART_INPUT, PART_WEIGHT, PARTS };

typedef struct micro {
    sc_cutting *c;
    sc_segments segments;
    bool splits;                /* the schedule has I and W */
    sc_segment_id (*of)[PARTS]; /* by chunk */
    uint8_t *part;              /* by op */
    uint32_t *order;            /* by segment: when it runs among those of one micro-batch */
} micro;

/* ---- reshards at a cut ---- */

/* The chunk of all readers; SC_NO_CHUNK: they differ, or there are none. */
static uint16_t chunk_of_readers(const sc_module *m, const sc_readers *readers, sc_value value)
{
    uint16_t chunk = SC_NO_CHUNK;
    for (uint32_t r = readers->first[value]; r < readers->first[value + 1]; r++) {
        uint16_t reader = sc_op_at(m, readers->list[r])->chunk;
        if (reader == SC_NO_CHUNK || (chunk != SC_NO_CHUNK && chunk != reader))
            return SC_NO_CHUNK;
        chunk = reader;
    }
    return chunk;
}

/* A reshard at a cut runs on the side on which fewer bytes cross. */
static void choose_sides(sc_module *m, sc_func_id func)
{
    const sc_readers readers = sc_find_readers(m);
    sc_for_each_op_reverse (m, func, id) {
        sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & SC_RESHARD) == 0 || op->operand_count != 1)
            continue;
        sc_value from = op->operands[0], to = op->first_result;
        uint16_t made = sc_op_at(m, sc_def(m, from))->chunk,
                 read = chunk_of_readers(m, &readers, to);
        if (made == SC_NO_CHUNK || read == SC_NO_CHUNK || made == read)
            continue;
        bool grows =
            sc_type_local_bytes(m, sc_type_of(m, to)) > sc_type_local_bytes(m, sc_type_of(m, from));
        op->chunk = grows ? read : made;
    }
}

/* The last chunk of what the op reads; 0 if none of it has one. */
static uint16_t chunk_of_operands(const sc_module *m, const sc_op *op)
{
    uint16_t chunk = 0;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        uint16_t made = sc_op_at(m, sc_def(m, op->operands[i]))->chunk;
        chunk = made != SC_NO_CHUNK && made > chunk ? made : chunk;
    }
    return chunk;
}

/* Gives a chunk to collectives of values that belong to none, such as the gather of an input: the
 * first one that reads the result, or, if nothing does, that of the operands. */
static void complete_chunks(micro *x)
{
    sc_module *m = x->c->m;
    const sc_readers readers = sc_find_readers(m);
    sc_for_each_op_reverse (m, x->c->micro, id) {
        sc_op *op = sc_op_at(m, id);
        if (op->chunk != SC_NO_CHUNK || x->segments.repeats[id])
            continue;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            for (uint32_t u = readers.first[value]; u < readers.first[value + 1]; u++) {
                uint16_t reader = sc_op_at(m, readers.list[u])->chunk;
                op->chunk = reader < op->chunk ? reader : op->chunk;
            }
        }
    }
    sc_for_each_op (m, x->c->micro, id) {
        sc_op *op = sc_op_at(m, id);
        if (op->chunk == SC_NO_CHUNK && !x->segments.repeats[id] && !sc_op_has(op, SC_RETURNS))
            op->chunk = chunk_of_operands(m, op);
    }
}

/* ---- parts ---- */

/* An op belongs to the backward pass by its phase, or because it reads from that: what a pass
 * inserts there need not have a phase. */
static void find_backward(micro *x)
{
    const sc_module *m = x->c->m;
    x->part = sc_arena_array(&m->context->arena, m->ops.count, sizeof *x->part);
    sc_for_each_op (m, x->c->micro, id) {
        const sc_op *op = sc_op_at(m, id);
        sc_sym phase = sc_op_word(op, SC_ATTR_phase);
        bool is_backward = phase != 0 && phase != x->c->forward;
        for (uint32_t i = 0; i < op->operand_count; i++)
            is_backward = is_backward || x->part[sc_def(m, op->operands[i])] != PART_FORWARD;
        x->part[id] = is_backward ? PART_INPUT : PART_FORWARD;
    }
}

/* Values of the backward pass go from later chunks to earlier ones. What a later chunk reads, such
 * as a reshard of a value that it recomputes from, is computed there. */
static void move_to_later_readers(micro *x)
{
    sc_module *m = x->c->m;
    const sc_readers readers = sc_find_readers(m);
    sc_for_each_op_reverse (m, x->c->micro, id) {
        sc_op *op = sc_op_at(m, id);
        if (x->part[id] == PART_FORWARD || op->chunk == SC_NO_CHUNK)
            continue;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            for (uint32_t u = readers.first[value]; u < readers.first[value + 1]; u++) {
                uint16_t reader = sc_op_at(m, readers.list[u])->chunk;
                op->chunk = reader != SC_NO_CHUNK && reader > op->chunk ? reader : op->chunk;
            }
        }
    }
}

/* An op of the backward pass is part of I if another chunk needs what comes of it. */
static void find_parts(micro *x)
{
    sc_module *m = x->c->m;
    const sc_readers readers = sc_find_readers(m);
    sc_for_each_op_reverse (m, x->c->micro, id) {
        const sc_op *op = sc_op_at(m, id);
        if (x->part[id] == PART_FORWARD)
            continue;
        x->part[id] = x->splits ? PART_WEIGHT : PART_INPUT;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = op->first_result + r;
            for (uint32_t u = readers.first[value]; u < readers.first[value + 1]; u++) {
                sc_op_id reader = readers.list[u];
                if (x->part[reader] == PART_INPUT || sc_op_at(m, reader)->chunk != op->chunk)
                    x->part[id] = PART_INPUT;
            }
        }
    }
}

static void add_segments(micro *x)
{
    sc_cutting *c = x->c;
    static const char *const split_names[PARTS] = {"F", "I", "W"};
    static const char *const whole_names[PARTS] = {"F", "B", NULL};
    const char *const *names = x->splits ? split_names : whole_names;
    uint32_t chunks = c->pipeline->schedule->chunks, count = 0;
    sc_func_id reuse = c->micro;
    x->of = sc_arena_array(&c->m->context->arena, chunks, sizeof *x->of);
    x->order = sc_arena_array(&c->m->context->arena, (size_t)chunks * PARTS, sizeof *x->order);
    for (uint32_t part = 0; part < PARTS; part++) {
        for (uint32_t i = 0; i < chunks; i++) {
            uint32_t chunk = part == PART_FORWARD ? i : chunks - 1 - i;
            bool is_there = names[part] != NULL && (part == PART_FORWARD || c->step != NULL);
            if (!is_there)
                continue;
            sc_sym name = sc_intern_printf(&c->m->context->names, "%s%u", names[part], chunk);
            x->of[chunk][part] =
                sc_segments_add(&x->segments, c->pipeline->schedule->rank_of[chunk], name, reuse);
            x->order[x->of[chunk][part]] = count++;
            reuse = SC_NONE;
        }
    }
}

static sc_segment_id segment_of(const micro *x, sc_op_id op)
{
    return x->of[sc_op_at(x->c->m, op)->chunk][x->part[op]];
}

/* Finds which segment of a stage receives what a segment sends: the first that needs any of it. */
static void find_receivers(micro *x, const sc_op_id *ops, uint32_t count)
{
    sc_module *m = x->c->m;
    sc_map first = {.arena = &m->context->arena}; /* sender << 32 | stage -> segment */
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(m, ops[i]);
        if (x->segments.repeats[ops[i]])
            continue;
        sc_segment_id to = segment_of(x, ops[i]);
        for (uint32_t o = 0; o < op->operand_count; o++) {
            sc_op_id def = sc_def(m, op->operands[o]);
            if (x->segments.repeats[def])
                continue;
            sc_segment_id from = segment_of(x, def);
            uint32_t stage = x->segments.list.data[to].stage;
            if (x->segments.list.data[from].stage == stage)
                continue;
            uint32_t *known = sc_map_insert(&first, (uint64_t)from << 32 | stage, to, NULL);
            *known = x->order[to] < x->order[*known] ? to : *known;
            sc_segments_set_receiver(&x->segments, from, *known);
        }
    }
}

/* ---- the schedule ---- */

/* A whole backward pass is both of its parts if other micro-batches have them apart. */
static void add_call(micro *x, const sc_action *action, uint32_t first_micro_batch)
{
    static const uint8_t begin[] = {[SC_ACTION_F] = PART_FORWARD,
                                    [SC_ACTION_B] = PART_INPUT,
                                    [SC_ACTION_I] = PART_INPUT,
                                    [SC_ACTION_W] = PART_WEIGHT};
    uint32_t end = begin[action->kind] + 1u;
    if (action->kind == SC_ACTION_B && x->splits)
        end = PARTS;
    for (uint32_t part = begin[action->kind]; part < end; part++) {
        sc_segment_id segment = x->of[action->chunk][part];
        *sc_vec_push(&x->c->m->context->arena, &x->c->m->schedule) =
            (sc_call){.func = x->segments.list.data[segment].func,
                      .microbatch = (int32_t)(first_micro_batch + action->micro_batch)};
    }
}

/* `rounds` times the micro-batches of the schedule. */
static void add_calls(micro *x, const sc_pipeline_schedule *schedule, uint32_t rounds)
{
    sc_arena *arena = &x->c->m->context->arena;
    uint32_t total = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        total += schedule->actions[r].list.count;
    sc_action *actions = sc_arena_array(arena, total + 1u, sizeof *actions);
    uint32_t count = sc_merge_actions(arena, schedule, actions);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < count; i++)
            add_call(x, &actions[i], round * schedule->micro_batches);
    }
}

/* The schedule without its backward passes. What is left is in an order that its data allows. */
static sc_pipeline_schedule forward_of(sc_arena *arena, const sc_pipeline_schedule *schedule)
{
    sc_pipeline_schedule forward = *schedule;
    forward.actions = sc_arena_array(arena, schedule->ranks, sizeof *forward.actions);
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        for (uint32_t i = 0; i < schedule->actions[r].list.count; i++) {
            sc_action action = schedule->actions[r].list.data[i];
            if (action.kind == SC_ACTION_F)
                *sc_vec_push(arena, &forward.actions[r].list) = action;
        }
    }
    return forward;
}

/* An entry that is not trained runs forward: its micro-batches in the order in which a step runs
 * them forward, or as one. */
static void add_forward_calls(micro *x)
{
    sc_arena *arena = &x->c->m->context->arena;
    const sc_pipeline_schedule *schedule = x->c->pipeline->schedule;
    const sc_pipeline_schedule forward = forward_of(arena, schedule);
    if (x->c->batches > 1)
        add_calls(x, &forward, 1);
    for (uint32_t chunk = 0; x->c->batches == 1 && chunk < schedule->chunks; chunk++)
        *sc_vec_push(arena, &x->c->m->schedule) =
            (sc_call){.func = x->segments.list.data[x->of[chunk][PART_FORWARD]].func};
}

static bool has_split_backward(const sc_pipeline_schedule *schedule)
{
    for (uint32_t r = 0; r < schedule->ranks; r++) {
        for (uint32_t i = 0; i < schedule->actions[r].list.count; i++) {
            if (schedule->actions[r].list.data[i].kind == SC_ACTION_W)
                return true;
        }
    }
    return false;
}

/* True for ops that have a place in the order of their chunk: all but those that repeat, except
 * gathers. A train step's pass returns nothing. */
static bool is_placed(const micro *x, sc_op_id id)
{
    const sc_op *op = sc_op_at(x->c->m, id);
    if (x->segments.repeats[id])
        return op->chunk != SC_NO_CHUNK && sc_op_has(op, SC_RESHARD);
    return x->c->step == NULL || !sc_op_has(op, SC_RETURNS);
}

/* Finds the chunk of every op, and which belong to the backward pass. */
static void analyse(micro *x)
{
    sc_module *m = x->c->m;
    sc_segments_begin(&x->segments, m, x->c->step);
    sc_segments_find_repeats(&x->segments, x->c->micro, true);
    complete_chunks(x);
    choose_sides(m, x->c->micro);
    find_backward(x);
    move_to_later_readers(x);
}

void sc_cut_micro(sc_cutting *c)
{
    sc_module *m = c->m;
    micro x = {.c = c, .splits = c->step != NULL && has_split_backward(c->pipeline->schedule)};
    uint32_t count;
    analyse(&x);
    if (c->step != NULL && c->step->training->act_host.count > 0) {
        sc_offload_activations(m, c->step, c->prefetch, x.segments.repeats);
        analyse(&x); /* the copies, too */
    }
    if (sc_send_parts(c, &x.segments, x.part)) { /* the tables are by op */
        sc_segments_find_repeats(&x.segments, c->micro, true);
        find_backward(&x);
    }
    find_parts(&x);
    sc_op_id *ops = sc_take_ops(m, c->micro, &count);
    add_segments(&x);
    find_receivers(&x, ops, count);
    for (uint32_t i = 0; i < count; i++) {
        if (is_placed(&x, ops[i]))
            sc_segments_place(&x.segments, ops[i], segment_of(&x, ops[i]));
    }
    sc_segments_finish(&x.segments);
    m->schedule.count = 0;
    if (c->step != NULL)
        add_calls(&x, c->pipeline->schedule,
                  (uint32_t)c->step->training->micro_batches /
                      c->pipeline->schedule->micro_batches);
    else
        add_forward_calls(&x);
}
