/* Messages between stages: starts, waits and room (codegen/program/exchange.h). What is sent or
 * received is in slots: buffers that live from call to call. A value that the backward pass reads
 * is sent from the slot that keeps it, and received there. */
#include <string.h>

#include "codegen/program/internal.h"

static bool is_slot(const sc_generator *g, sc_image_ref at)
{
    return g->buffers.data[at.buffer].kind == SC_BUFFER_SLOT;
}

/* A slot for a value that is sent or received, with the copies of what it is at its root. */
static sc_image_ref new_slot(sc_generator *g, sc_value value)
{
    int64_t bytes = sc_type_local_bytes(g->m, sc_type_of(g->m, value));
    uint32_t buffer = sc_generator_buffer(g, SC_BUFFER_SLOT, bytes, sc_generator_name(g, value));
    g->buffers.data[buffer].copies = g->exchanges->copies_of_value[sc_root_of(g->m, value)];
    return (sc_image_ref){buffer, 0};
}

/* ---- boundaries ---- */

static bool is_before(const sc_image_boundary *a, const sc_image_boundary *b)
{
    if (a->is_receive != b->is_receive)
        return b->is_receive;
    return a->peer != b->peer ? a->peer < b->peer : a->number < b->number;
}

/* Adds this stage's end of a boundary in its place, or finds it: messages of several parts of a
 * program share boundaries. */
static void add_boundary(sc_generator *g, const sc_image_boundary *boundary)
{
    uint32_t at = 0;
    while (at < g->boundaries.count && is_before(&g->boundaries.data[at], boundary))
        at++;
    if (at < g->boundaries.count && !is_before(boundary, &g->boundaries.data[at])) {
        uint32_t *slots = &g->boundaries.data[at].slots;
        *slots = boundary->slots > *slots ? boundary->slots : *slots;
        return;
    }
    sc_vec_push(g->arena, &g->boundaries);
    memmove(&g->boundaries.data[at + 1], &g->boundaries.data[at],
            (g->boundaries.count - 1 - at) * sizeof *g->boundaries.data);
    g->boundaries.data[at] = *boundary;
}

static sc_image_boundary end_of(const sc_generator *g, const sc_exchange *exchange)
{
    bool is_receive = exchange->to_stage == g->stage;
    return (sc_image_boundary){.is_receive = is_receive,
                               .peer = is_receive ? exchange->from_stage : exchange->to_stage,
                               .number = exchange->number,
                               .slots = is_receive ? 1 : exchange->slots};
}

static bool is_here(const sc_generator *g, const sc_exchange *exchange)
{
    return exchange->from_stage == g->stage || exchange->to_stage == g->stage;
}

void sc_generator_add_boundaries(sc_generator *g, const sc_exchanges *exchanges)
{
    for (uint32_t e = 0; e < exchanges->list.count; e++) {
        const sc_exchange *exchange = &exchanges->list.data[e];
        const sc_image_boundary end = end_of(g, exchange);
        if (is_here(g, exchange))
            add_boundary(g, &end);
    }
}

static uint32_t boundary_of(const sc_generator *g, const sc_exchange *exchange)
{
    const sc_image_boundary end = end_of(g, exchange);
    uint32_t at = 0;
    while (is_before(&g->boundaries.data[at], &end))
        at++;
    return at;
}

/* ---- messages ---- */

static void start(sc_generator *g, const sc_exchange *exchange, const sc_op_id *ops, uint32_t count,
                  const sc_image_ref *args)
{
    const sc_attr *why = sc_op_attr(sc_op_at(g->m, ops[0]), SC_ATTR_why);
    sc_image_message message = {
        .boundary = boundary_of(g, exchange),
        .part_count = count,
        .dtypes = sc_arena_array(g->arena, count, sizeof *message.dtypes),
        .counts = sc_arena_array(g->arena, count, sizeof *message.counts),
        .why = why == NULL ? "" : sc_text(g->m->context, why->text),
    };
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(g->m, ops[i]);
        const sc_type_info *type =
            sc_type_of(g->m, op->operand_count > 0 ? op->operands[0] : op->first_result);
        message.dtypes[i] = type->dtype;
        message.counts[i] = sc_type_local_elements(g->m, type);
    }
    *sc_vec_push(g->arena, &g->messages) = message;
    sc_generator_instr(g, SC_INSTR_MESSAGE, ops[0], g->messages.count - 1, args, count);
}

/* ---- receiving ---- */

/* Where a received value arrives: in the slot that keeps it, or one of its own. */
static sc_image_ref place_of_received(sc_generator *g, sc_op_id op)
{
    sc_value value = sc_op_at(g->m, op)->first_result;
    uint32_t slot = g->slot_of[value];
    if (g->received[op].buffer == SC_NONE)
        g->received[op] =
            slot != SC_NONE ? (sc_image_ref){g->state_buffer[slot], 0} : new_slot(g, value);
    return g->received[op];
}

static const sc_image_ref *places_of_received(sc_generator *g, const sc_exchange *exchange)
{
    sc_image_ref *args = sc_arena_array(g->arena, exchange->recvs.count, sizeof *args);
    for (uint32_t i = 0; i < exchange->recvs.count; i++)
        args[i] = place_of_received(g, exchange->recvs.data[i]);
    return args;
}

void sc_generator_start_receive(sc_generator *g, const sc_exchange *exchange)
{
    start(g, exchange, exchange->recvs.data, exchange->recvs.count,
          places_of_received(g, exchange));
}

/* The first value of a message starts to receive it, if no call before has; the first reader of one
 * waits for it. */
bool sc_generate_recv(sc_generator *g, sc_op_id op)
{
    uint32_t number = g->exchanges->of_op[op];
    const sc_exchange *exchange = &g->exchanges->list.data[number];
    sc_value value = sc_op_at(g->m, op)->first_result;
    if (exchange->starts_in_func && exchange->recvs.data[0] == op)
        sc_generator_start_receive(g, exchange);
    g->func.place[value] = place_of_received(g, op);
    g->func.arrives_with[value] = number + 1;
    return true;
}

bool sc_generator_wait_for_message(sc_generator *g, sc_value root)
{
    uint32_t number = g->func.arrives_with[root];
    if (number == 0)
        return true;
    const sc_exchange *exchange = &g->exchanges->list.data[number - 1];
    const sc_loc loc = g->unit.loc;
    g->unit.loc = sc_op_at(g->m, exchange->recvs.data[0])->loc;
    sc_generator_instr(g, SC_INSTR_WAIT, exchange->recvs.data[0], boundary_of(g, exchange),
                       places_of_received(g, exchange), exchange->recvs.count);
    g->unit.loc = loc;
    for (uint32_t i = 0; i < exchange->recvs.count; i++)
        g->func.arrives_with[sc_op_at(g->m, exchange->recvs.data[i])->first_result] = 0;
    return true;
}

/* ---- sending ---- */

/* Gives a value that the function computes, and that no slot keeps, one to be computed in, with at
 * least so many copies. */
static void compute_in_slot(sc_generator *g, sc_value value, uint32_t copies)
{
    sc_generator_func *f = &g->func;
    sc_value root = f->root[value];
    const sc_op *def = sc_op_at(g->m, sc_def(g->m, root));
    bool is_computed = (sc_op_traits(def) & (SC_STATE_READ | SC_FROM_OUTSIDE)) == 0 &&
                       !sc_op_transfers((sc_op_kind)def->kind);
    if (is_computed && f->target[root] == SC_NONE && f->sent_place[root].buffer == SC_NONE)
        f->sent_place[root] = new_slot(g, value);
    if (f->sent_place[root].buffer == SC_NONE)
        return;
    uint32_t *has = &g->buffers.data[f->sent_place[root].buffer].copies;
    *has = *has < copies ? copies : *has;
}

/* Finds what the function sends. That, and results that outlive the call, are computed in slots. */
void sc_generator_find_sent(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_generator_func *f = &g->func;
    sc_for_each_op (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t kept = g->batches != NULL && sc_op_has(o, SC_RETURNS) ? o->operand_count : 0;
        for (uint32_t i = 0; i < kept; i++)
            compute_in_slot(g, o->operands[i], g->batches->count);
        if (!sc_op_transfers((sc_op_kind)o->kind) || o->operand_count == 0)
            continue;
        sc_value root = f->root[o->operands[0]];
        f->next_send[op] = f->first_send[root];
        f->first_send[root] = op;
        compute_in_slot(g, o->operands[0], 1);
    }
}

/* ---- results of micro-batches ---- */

/* Where a result is kept until all micro-batches have run: where it is, if that is a slot with a
 * copy for each; otherwise it is copied. */
sc_image_ref sc_generator_keep_result(sc_generator *g, sc_op_id op, sc_value value)
{
    sc_image_ref at = sc_generator_read(g, value);
    if (is_slot(g, at) && g->buffers.data[at.buffer].copies >= g->batches->count)
        return at;
    sc_image_ref to = new_slot(g, value);
    g->buffers.data[to.buffer].copies = g->batches->count;
    sc_generator_copy(g, op, at, to);
    return to;
}

static void add_room(sc_generator *g, uint32_t number, sc_op_id op)
{
    const sc_exchange *exchange = &g->exchanges->list.data[number];
    sc_image_ref *args = sc_arena_array(g->arena, exchange->sends.count, sizeof *args);
    uint32_t count = 0;
    if (g->func.has_room[number])
        return;
    g->func.has_room[number] = true;
    for (uint32_t i = 0; i < exchange->sends.count; i++) {
        sc_value root = g->func.root[sc_op_at(g->m, exchange->sends.data[i])->operands[0]];
        if (g->func.sent_place[root].buffer != SC_NONE)
            args[count++] = g->func.sent_place[root];
    }
    sc_generator_instr(g, SC_INSTR_ROOM, op, boundary_of(g, exchange), args, count);
}

void sc_generator_make_room(sc_generator *g, const sc_op_id *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const sc_op *op = sc_op_at(g->m, ops[i]);
        uint32_t computed = sc_op_transfers((sc_op_kind)op->kind) ? 0 : op->result_count;
        for (uint32_t r = 0; r < computed; r++) {
            sc_op_id send = g->func.first_send[op->first_result + r];
            for (; send != SC_NONE; send = g->func.next_send[send])
                add_room(g, g->exchanges->of_op[send], ops[i]);
        }
    }
}

/* Where it is sent from. A state may change while it is sent, and what was not computed in its slot
 * does not last: both are copied. */
static bool place_to_send(sc_generator *g, sc_op_id op, sc_image_ref *out)
{
    sc_value value = sc_op_at(g->m, op)->operands[0];
    sc_image_ref at = *out = sc_generator_read(g, value);
    if (is_slot(g, at))
        return true;
    *out = new_slot(g, value);
    if (g->buffers.data[at.buffer].bytes - at.at > g->buffers.data[out->buffer].bytes)
        return sc_generator_copy_value(g, op, value, at, *out); /* from a staging area */
    sc_generator_copy(g, op, at, *out);
    return true;
}

/* The last value of a message starts to send it. */
bool sc_generate_send(sc_generator *g, sc_op_id op)
{
    uint32_t number = g->exchanges->of_op[op];
    const sc_exchange *exchange = &g->exchanges->list.data[number];
    add_room(g, number, op);
    if (!place_to_send(g, op, &g->sent[op]))
        return false;
    if (++g->func.sent_count[number] < exchange->sends.count)
        return true;
    sc_image_ref *args = sc_arena_array(g->arena, exchange->sends.count, sizeof *args);
    for (uint32_t i = 0; i < exchange->sends.count; i++)
        args[i] = g->sent[exchange->sends.data[i]];
    start(g, exchange, exchange->sends.data, exchange->sends.count, args);
    return true;
}
