/* How values get from one segment to another:
 *
 *   %7 = relu %6         F0                    %7 = relu %6                      F0, stage 0
 *   %8 = dot[D] %7, %2   F1, on stage 1   ->   send %7 {name = "x@F0>1"}
 *   %9 = mul %7, %8      B1, on stage 1        state_write %7 {name = "x@F0"}    for B0
 *   %10 = mul %7, %9     B0
 *                                              %7 = recv {name = "x@F0>1"}       F1, stage 1
 *                                              %8 = dot[D] %7, %2
 *                                              state_write %7 {name = "x@F1"}    for B1
 *
 * A value is sent once to a stage. The first segment there that needs anything of the sender
 * receives it, so that messages arrive in the order in which they are sent; later segments of the
 * stage find it in a slot. */
#include "passes/segments.h"

#include <stdlib.h>
#include <string.h>

#include "ir/ops/ops.h"
#include "passes/reason.h"

static uint64_t key_of(uint32_t thing, uint32_t place)
{
    return (uint64_t)thing << 32 | place;
}

sc_op_id *sc_take_ops(sc_module *m, sc_func_id func, uint32_t *count)
{
    sc_op_id *ops = sc_arena_array(&m->context->arena, m->ops.count + 1u, sizeof *ops);
    *count = 0;
    sc_for_each_op (m, func, op) {
        ops[(*count)++] = op;
        sc_op_unlink(m, op);
    }
    return ops;
}

void sc_segments_begin(sc_segments *s, sc_module *m, const sc_train_step *step)
{
    sc_arena *arena = &m->context->arena;
    *s = (sc_segments){.m = m, .step = step};
    s->local.arena = s->home.arena = s->made.arena = s->slot.arena = s->receiver.arena =
        s->is_placed.arena = s->in_head.arena = s->named.arena = arena;
}

void sc_segments_find_repeats(sc_segments *s, sc_func_id func, bool gathers)
{
    sc_module *m = s->m;
    s->repeats = sc_arena_array(&m->context->arena, m->ops.count, sizeof *s->repeats);
    s->operands = sc_arena_array(&m->context->arena, m->ops.count, sizeof *s->operands);
    bool *of_parameter = sc_arena_array(&m->context->arena, m->ops.count, sizeof *of_parameter);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        s->operands[id] = op->operands;
        uint32_t traits = sc_op_traits(op);
        bool is_parameters = true, repeats = true;
        of_parameter[id] = (traits & SC_PARAMETER) != 0;
        for (uint32_t i = 0; i < op->operand_count; i++) {
            const sc_op *def = sc_op_at(m, sc_def(m, op->operands[i]));
            repeats = repeats && s->repeats[sc_def(m, op->operands[i])];
            of_parameter[id] = of_parameter[id] || of_parameter[sc_def(m, op->operands[i])];
            is_parameters =
                is_parameters &&
                (sc_op_traits(def) & (SC_PARAMETER | SC_CONVERTS | SC_VIEW | SC_RESHARD)) != 0;
        }
        bool is_local = (traits & (SC_VIEW | SC_CONVERTS | SC_SPREADS)) != 0 ||
                        (traits & (SC_RESHARD | SC_COLLECTIVE)) == SC_RESHARD ||
                        (op->result_count > 0 && !of_parameter[id] &&
                         sc_type_of(m, op->first_result)->rank == 0);
        if (op->operand_count == 0)
            repeats = (traits & (SC_STATE_READ | SC_CONSTANT | SC_FROM_OUTSIDE)) != 0;
        else if ((traits & SC_COLLECTIVE) != 0)
            repeats = repeats && gathers && is_parameters;
        else
            repeats = repeats && (traits & (SC_EFFECT | SC_RANDOM)) == 0 &&
                      !sc_op_copies_memory((sc_op_kind)op->kind) &&
                      (is_local || op->chunk == SC_NO_CHUNK);
        s->repeats[id] = repeats;
    }
}

sc_segment_id sc_segments_add(sc_segments *s, uint32_t stage, sc_sym name, sc_func_id reuse)
{
    sc_func_id func = reuse == SC_NONE ? sc_module_add_func(s->m, name) : reuse;
    s->m->funcs.data[func].name = name;
    s->m->funcs.data[func].stage = stage;
    *sc_vec_push(&s->m->context->arena, &s->list) = (sc_segment){func, stage, SC_NONE};
    return s->list.count - 1;
}

void sc_segments_set_receiver(sc_segments *s, sc_segment_id from, sc_segment_id to)
{
    *sc_map_insert(&s->receiver, key_of(from, s->list.data[to].stage), to, NULL) = to;
}

/* Notes that a segment has a value, as `here`. */
static void set_local(sc_segments *s, sc_value value, sc_segment_id segment, sc_value here)
{
    *sc_map_insert(&s->local, key_of(value, segment), here, NULL) = here;
    sc_map_insert(&s->home, key_of(value, s->list.data[segment].stage), segment, NULL);
    sc_map_insert(&s->made, value, segment, NULL);
}

/* What the value, or the value that it is made of by a cast or a reshard, is a cotangent of. */
static sc_value like_of(const sc_segments *s, sc_value value)
{
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    sc_value like = sc_like_of(s->step, value);
    return like == SC_NONE && op->operand_count == 1 && (sc_op_traits(op) & SC_NAMESAKE) != 0
               ? like_of(s, op->operands[0])
               : like;
}

sc_sym sc_segments_path_of(const sc_segments *s, sc_value value)
{
    sc_module *m = s->m;
    sc_sym path = sc_value_path(m, value);
    sc_value like = path != 0 ? SC_NONE : like_of(s, value);
    sc_sym of = like == SC_NONE ? 0 : sc_value_path(m, like);
    return of == 0 ? path
                   : sc_intern_printf(&m->context->names, "%s.grad", sc_text(m->context, of));
}

/* The same, or what computes the value. */
static const char *title_of(const sc_segments *s, sc_value value)
{
    const sc_module *m = s->m;
    const sc_op *def = sc_op_at(m, sc_def(m, value));
    if (sc_op_copies_memory((sc_op_kind)def->kind)) /* is called what is copied */
        return title_of(s, s->operands[sc_def(m, value)][value - def->first_result]);
    sc_sym path = sc_segments_path_of(s, value);
    return path != 0 ? sc_text(m->context, path) : sc_ops[sc_op_at(m, sc_def(m, value))->kind].name;
}

/* layers[3].h@F0, made unique: layers[3].h.2@F0. */
static sc_sym name_in(sc_segments *s, sc_value value, sc_segment_id segment)
{
    sc_module *m = s->m;
    const char *func = sc_text(m->context, m->funcs.data[s->list.data[segment].func].name),
               *base = title_of(s, value);
    sc_sym name = sc_intern_printf(&m->context->names, "%s@%s", base, func);
    bool is_new;
    uint32_t *count = sc_map_insert(&s->named, name, 1, &is_new);
    if (is_new && sc_module_find_state(m, name) == SC_NONE)
        return name;
    do {
        name = sc_intern_printf(&m->context->names, "%s.%u@%s", base, ++*count, func);
    } while (sc_module_find_state(m, name) != SC_NONE);
    return name;
}

static sc_value read_value(sc_segments *s, sc_value value, sc_segment_id segment);

/* Appends the op to the segment: itself the first time, then copies. */
static void put(sc_segments *s, sc_op_id id, sc_segment_id segment)
{
    sc_module *m = s->m;
    const sc_op op = *sc_op_at(m, id);
    sc_arena *arena = &m->context->arena;
    sc_func_id func = s->list.data[segment].func;
    bool is_first;
    sc_value *operands = sc_arena_array(arena, op.operand_count + 1u, sizeof *operands);
    for (uint32_t i = 0; i < op.operand_count; i++)
        operands[i] = read_value(s, s->operands[id][i], segment);
    sc_map_insert(&s->is_placed, id, segment, &is_first);
    sc_op_id here = id;
    if (is_first) {
        sc_op_append(m, id, func);
        sc_op_at(m, id)->operands = operands;
    } else {
        sc_type *types = sc_arena_array(arena, op.result_count, sizeof *types);
        for (uint32_t r = 0; r < op.result_count; r++)
            types[r] = m->values.data[op.first_result + r].type;
        here = sc_op_new(m, func, SC_NONE, (sc_op_kind)op.kind, operands, op.operand_count,
                         op.attrs, op.attr_count, types, op.result_count, id);
        for (uint32_t r = 0; r < op.result_count; r++)
            m->values.data[sc_result(m, here, r)].path = m->values.data[op.first_result + r].path;
    }
    for (uint32_t r = 0; r < op.result_count; r++)
        set_local(s, op.first_result + r, segment, sc_result(m, here, r));
}

/* Moves a repeated gather and what it reads to the start of its segment: between other collectives
 * it would keep those from sharing a call. */
static void move_to_head(sc_segments *s, sc_op_id id, sc_segment_id segment)
{
    sc_module *m = s->m;
    sc_op_id *head = &s->list.data[segment].head;
    bool is_new;
    sc_map_insert(&s->in_head, id, 0, &is_new);
    if (!is_new)
        return;
    for (uint32_t i = 0; i < sc_op_at(m, id)->operand_count; i++)
        move_to_head(s, sc_def(m, sc_op_at(m, id)->operands[i]), segment);
    sc_op_id before = *head == SC_NONE ? m->funcs.data[s->list.data[segment].func].first
                                       : sc_op_at(m, *head)->next;
    sc_op_move(m, id, before);
    *head = id;
}

/* Receives a value in the stage's first segment that needs anything of its maker. */
static sc_segment_id receive(sc_segments *s, sc_value value, sc_segment_id segment)
{
    sc_module *m = s->m;
    uint32_t stage = s->list.data[segment].stage;
    sc_segment_id from = *sc_map_find(&s->made, value),
                  to = *sc_map_insert(&s->receiver, key_of(from, stage), segment, NULL);
    sc_type type = m->values.data[value].type;
    sc_value sent = *sc_map_find(&s->local, key_of(value, from));
    sc_op_id recv = sc_op_new(m, s->list.data[to].func, SC_NONE, SC_OP_recv, NULL, 0, NULL, 0,
                              &type, 1, sc_def(m, value));
    m->values.data[sc_result(m, recv, 0)].path = m->values.data[value].path;
    *sc_vec_push(&m->context->arena, &s->transfers) =
        (sc_segment_transfer){from, to, value, sent, recv};
    set_local(s, value, to, sc_result(m, recv, 0));
    return to;
}

/* The value read from the slot in which its home leaves it. */
static sc_value read_slot(sc_segments *s, sc_value value, sc_segment_id home, sc_segment_id segment)
{
    sc_module *m = s->m;
    bool is_new;
    sc_type type = m->values.data[value].type;
    uint32_t *slot =
        sc_map_insert(&s->slot, key_of(value, s->list.data[home].stage), s->slots.count, &is_new);
    if (is_new) {
        sc_sym name = name_in(s, value, home);
        const sc_op *def = sc_op_at(m, sc_def(m, value));
        bool is_in_host = sc_value_is_in_host(m, value);
        sc_module_add_state(
            m, &(sc_state){.path = name,
                           .kind = SC_STATE_SLOT,
                           .type = type,
                           .init = SC_INIT_ZEROS,
                           .loc = def->loc,
                           .host = is_in_host,
                           .host_rule =
                               is_in_host ? (uint32_t)sc_op_int(def, SC_ATTR_rule, -1) + 1 : 0});
        *sc_vec_push(&m->context->arena, &s->slots) =
            (sc_segment_slot){home, *sc_map_find(&s->local, key_of(value, home)), name};
    }
    sc_attr attr = sc_attr_text(SC_ATTR_name, s->slots.data[*slot].name);
    sc_op_id read = sc_op_new(m, s->list.data[segment].func, SC_NONE, SC_OP_state_read, NULL, 0,
                              &attr, 1, &type, 1, sc_def(m, value));
    m->values.data[sc_result(m, read, 0)].path = m->values.data[value].path;
    return sc_result(m, read, 0);
}

/* The value as the segment has it, fetched if it does not have it yet. */
static sc_value read_value(sc_segments *s, sc_value value, sc_segment_id segment)
{
    const uint32_t *known = sc_map_find(&s->local, key_of(value, segment));
    sc_op_id def = sc_def(s->m, value);
    uint32_t stage = s->list.data[segment].stage;
    if (known != NULL)
        return *known;
    if (s->repeats[def] && (s->stages == NULL || (s->stages[def] >> stage & 1) != 0)) {
        put(s, def, segment);
        sc_value here = *sc_map_find(&s->local, key_of(value, segment));
        if ((sc_op_traits(sc_op_at(s->m, def)) & SC_RESHARD) != 0)
            move_to_head(s, sc_def(s->m, here), segment);
        return here;
    }
    const uint32_t *home = sc_map_find(&s->home, key_of(value, stage));
    sc_segment_id at = home != NULL ? *home : receive(s, value, segment);
    if (at != segment) {
        sc_value read = read_slot(s, value, at, segment);
        set_local(s, value, segment, read);
    }
    return *sc_map_find(&s->local, key_of(value, segment));
}

void sc_segments_place(sc_segments *s, sc_op_id op, sc_segment_id segment)
{
    const sc_op *placed = sc_op_at(s->m, op);
    bool is_there = placed->result_count > 0 &&
                    sc_map_find(&s->local, key_of(placed->first_result, segment)) != NULL;
    if (!is_there)
        put(s, op, segment);
}

/* ---- sends and returns ---- */

static int by_sender(const void *a, const void *b)
{
    const sc_segment_transfer *x = a, *y = b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

static void end_function(const sc_segments *s, const sc_segment *segment)
{
    sc_module *m = s->m;
    sc_op_id last = m->funcs.data[segment->func].last;
    if (last == SC_NONE || (sc_op_traits(sc_op_at(m, last)) & SC_RETURNS) == 0)
        sc_op_new(m, segment->func, SC_NONE, SC_OP_return, NULL, 0, NULL, 0, NULL, 0, SC_NONE);
}

static void add_send(const sc_segments *s, const sc_segment_transfer *transfer)
{
    sc_module *m = s->m;
    const sc_segment *from = &s->list.data[transfer->from], *to = &s->list.data[transfer->to];
    sc_interner *names = &m->context->names;
    sc_sym path = sc_segments_path_of(s, transfer->value);
    sc_op_id def = sc_def(m, transfer->value);
    const char *base = title_of(s, transfer->value);
    /* the number of the value tells apart values of one name */
    sc_sym name = sc_intern_printf(names, "%s@%s>%u.%u", base,
                                   sc_text(m->context, m->funcs.data[from->func].name), to->stage,
                                   (uint32_t)(transfer - s->transfers.data)),
           why = sc_intern_printf(names, "computed on stage %u, read on stage %u", from->stage,
                                  to->stage);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, def), SC_ATTR_phase);
    sc_attr attrs[5] = {sc_attr_text(SC_ATTR_name, name), sc_attr_int(SC_ATTR_stage, to->stage),
                        sc_attr_text(SC_ATTR_why, why)};
    uint32_t count = 3;
    if (path != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_moves, path);
    if (phase != NULL)
        attrs[count++] = *phase;
    sc_op_new(m, from->func, m->funcs.data[from->func].last, SC_OP_send, &transfer->sent, 1, attrs,
              count, NULL, 0, def);
    attrs[1] = sc_attr_int(SC_ATTR_stage, from->stage);
    for (uint32_t i = 0; i < count; i++)
        sc_op_set_attr(m, transfer->recv, attrs[i]);
}

void sc_segments_finish(sc_segments *s)
{
    sc_module *m = s->m;
    for (uint32_t i = 0; i < s->list.count; i++)
        end_function(s, &s->list.data[i]);
    if (s->transfers.count > 0)
        qsort(s->transfers.data, s->transfers.count, sizeof *s->transfers.data, by_sender);
    for (uint32_t i = 0; i < s->transfers.count; i++)
        add_send(s, &s->transfers.data[i]);
    /* before everything else, and the earliest sent first */
    for (uint32_t i = s->transfers.count; i-- > 0;) {
        sc_func_id func = s->list.data[s->transfers.data[i].to].func;
        sc_op_move(m, s->transfers.data[i].recv, m->funcs.data[func].first);
    }
    for (uint32_t i = 0; i < s->slots.count; i++) {
        const sc_segment_slot *slot = &s->slots.data[i];
        sc_func_id func = s->list.data[slot->from].func;
        sc_attr attr = sc_attr_text(SC_ATTR_name, slot->name);
        sc_op_new(m, func, m->funcs.data[func].last, SC_OP_state_write, &slot->value, 1, &attr, 1,
                  NULL, 0, sc_def(m, slot->value));
    }
}
