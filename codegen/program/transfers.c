/* Copies between device and host memory: a start and, before the first reader, a finish, as for a
 * collective.
 *
 * Each kind of state has two staging areas on the device, buffers that live as long as states do;
 * an area is as large as the largest copy into it. A new value of a state is computed in the old
 * one's place there if that has no later reader. A copy waits for collectives in flight that still
 * use one of its buffers; earlier copies run before it anyway. */
#include <string.h>

#include "codegen/program/internal.h"

static int64_t aligned(int64_t bytes)
{
    return (bytes + SC_IMAGE_ALIGN - 1) / SC_IMAGE_ALIGN * SC_IMAGE_ALIGN;
}

/* The state that the copy reads; SC_NONE: none. */
static uint32_t state_read_by(const sc_module *m, const sc_op *copy, uint32_t i)
{
    const sc_op *read = sc_op_at(m, sc_def(m, copy->operands[i]));
    return (sc_op_traits(read) & SC_STATE_READ) == 0
               ? SC_NONE
               : sc_module_find_state(m, sc_op_word(read, SC_ATTR_name));
}

/* ---- staging areas ---- */
/* Returns the area's buffer, of at least this size. */
static uint32_t area_of(sc_generator *g, sc_state_kind kind, uint32_t area, int64_t bytes)
{
    uint32_t *made = &g->staging[kind][area];
    if (*made == 0)
        *made = 1 + sc_generator_buffer(g, sc_generator_kind_of_state(kind), 0,
                                        sc_arena_printf(g->arena, "staging of %s, area %u",
                                                        sc_state_kind_names[kind], area));
    sc_image_buffer *buffer = &g->buffers.data[*made - 1];
    buffer->bytes = bytes > buffer->bytes ? bytes : buffer->bytes;
    return *made - 1;
}

void sc_generator_find_staged(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_generator_func *f = &g->func;
    uint32_t next[SC_STATE_KINDS][SC_STAGING_AREAS];
    f->staged = sc_arena_array(g->arena, m->state.count, sizeof *f->staged);
    f->staged_until = sc_arena_array(g->arena, m->ops.count, sizeof *f->staged_until);
    for (uint32_t k = 0; k < SC_STATE_KINDS; k++)
        next[k][0] = next[k][1] = SC_LASTS;
    sc_for_each_op_reverse (m, f->id, op) {
        const sc_op *o = sc_op_at(m, op);
        if (!sc_op_copies_memory((sc_op_kind)o->kind) || sc_op_attr(o, SC_ATTR_staging) == NULL)
            continue;
        for (uint32_t i = 0; i < o->operand_count; i++)
            f->staged[state_read_by(m, o, i)].is_staged = true;
        sc_state_kind kind = m->state.data[state_read_by(m, o, 0)].kind;
        uint32_t area = (uint32_t)sc_op_int(o, SC_ATTR_staging, 0);
        f->staged_until[op] = next[kind][area];
        next[kind][area] = f->unit_of[op];
    }
}

/* Gives the results of a copy their places in its area, one after the other. */
static void place_staged(sc_generator *g, sc_op_id op)
{
    const sc_module *m = g->m;
    const sc_op *o = sc_op_at(m, op);
    int64_t at = 0;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        uint32_t state = state_read_by(m, o, i);
        int64_t end = at + aligned(sc_type_local_bytes(m, sc_state_type(m, state)));
        sc_image_ref place = {
            area_of(g, m->state.data[state].kind, (uint32_t)sc_op_int(o, SC_ATTR_staging, 0), end),
            at};
        g->func.place[o->first_result + i] = place;
        g->func.staged[state] = (sc_staged_state){true, true, place, g->func.staged_until[op]};
        g->func.state_last_read[state] = g->func.last_read[o->first_result + i];
        at = end;
    }
}

/* ---- copies ---- */
/* Waits for collectives in flight that touch a buffer of the copy. */
static bool finish_users(sc_generator *g, const sc_image_ref *args, uint32_t count)
{
    for (uint32_t f = g->func.finished; f < g->func.in_flight.count; f++) {
        uint32_t start = g->func.in_flight.data[f].instr;
        bool shares = false;
        if (start == SC_NONE || g->func.instrs.data[start].kind == SC_INSTR_TRANSFER)
            continue;
        const sc_image_instr *instr = &g->func.instrs.data[start];
        for (uint32_t i = 0; i < instr->arg_count; i++) {
            for (uint32_t k = 0; k < count; k++)
                shares = shares || instr->args[i].buffer == args[k].buffer;
        }
        if (shares && !sc_generator_finish(g, f))
            return false;
    }
    return true;
}

static bool start(sc_generator *g, sc_op_id op, const sc_image_ref *args)
{
    const sc_op *o = sc_op_at(g->m, op);
    sc_in_flight in_flight = {
        .op = op,
        .received = sc_arena_array(g->arena, o->result_count, sizeof *in_flight.received),
        .unpack = sc_arena_array(g->arena, o->result_count, sizeof *in_flight.unpack)};
    if (!finish_users(g, args, 2 * o->operand_count) || !sc_generator_bound_in_flight(g))
        return false;
    in_flight.instr = g->func.instrs.count;
    sc_generator_instr(g, SC_INSTR_TRANSFER, op, 0, args, 2 * o->operand_count);
    for (uint32_t r = 0; r < o->result_count; r++)
        g->func.in_flight_of[o->first_result + r] = g->func.in_flight.count + 1;
    *sc_vec_push(g->arena, &g->func.in_flight) = in_flight;
    return true;
}

bool sc_generate_to_device(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    sc_image_ref *args = sc_arena_array(g->arena, 2 * (size_t)o->operand_count, sizeof *args);
    bool is_staged = sc_op_attr(o, SC_ATTR_staging) != NULL;
    if (is_staged)
        place_staged(g, op);
    for (uint32_t i = 0; i < o->operand_count; i++) {
        args[2 * i] = sc_generator_read(g, o->operands[i]);
        args[2 * i + 1] = is_staged
                              ? sc_generator_read(g, o->first_result + i)
                              : sc_generator_write(g, o->first_result + i, SC_BUFFER_ACT, false);
    }
    return start(g, op, args);
}

/* Waits for earlier copies of activations to the host, so that what they copy is freed: the device
 * keeps those of two units. */
static bool finish_activations(sc_generator *g)
{
    for (uint32_t f = g->func.finished; f < g->func.in_flight.count; f++) {
        const sc_op *o = sc_op_at(g->m, g->func.in_flight.data[f].op);
        bool leaves = sc_op_copies_memory((sc_op_kind)o->kind) &&
                      sc_value_is_in_host(g->m, o->first_result) &&
                      g->func.becomes[o->first_result] == SC_NONE;
        if (leaves && !sc_generator_finish(g, f))
            return false;
    }
    return true;
}

bool sc_generate_to_host(sc_generator *g, sc_op_id op)
{
    const sc_op *o = sc_op_at(g->m, op);
    sc_image_ref *args = sc_arena_array(g->arena, 2 * (size_t)o->operand_count, sizeof *args);
    if (g->func.becomes[o->first_result] == SC_NONE && !finish_activations(g))
        return false;
    for (uint32_t i = 0; i < o->operand_count; i++) {
        sc_value result = o->first_result + i;
        uint32_t state = g->func.becomes[result];
        args[2 * i] = sc_generator_read(g, o->operands[i]);
        if (state != SC_NONE) {
            g->func.place[result] = (sc_image_ref){g->state_buffer[state], 0};
        } else {
            sc_generator_write(g, result, SC_BUFFER_ACT, false);
            g->buffers.data[sc_generator_read(g, result).buffer].host = true;
        }
        args[2 * i + 1] = sc_generator_read(g, result);
    }
    return start(g, op, args);
}
