/* Look-ups of values while a function is generated, and plain appends to the program's lists. */
#include "codegen/program/generator.h"

#include <string.h>

#include "codegen/lower/lower.h"

bool sc_generator_is_cuda(const sc_generator *g)
{
    return g->options->target != NULL && sc_target_is_cuda(g->options->target);
}

/* ---- values of the program's interface ---- */
static sc_image_terms terms_where(const sc_module *m, const sc_placement *at,
                                  bool (*wanted)(uint8_t on))
{
    uint8_t sub_axes[SC_MAX_SUB_AXES];
    uint32_t count = 0;
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        if (wanted(at->on[a]))
            sub_axes[count++] = (uint8_t)a;
    }
    return sc_terms_of(m, sub_axes, count, 1);
}

static bool is_nothing(uint8_t on)
{
    return on == SC_ON_NOTHING;
}

sc_image_tensor sc_generator_tensor(const sc_generator *g, const sc_type_info *type)
{
    const sc_module *m = g->m;
    sc_image_tensor tensor = {.dtype = type->dtype, .rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++) {
        sc_sub_axis_list list = sc_placement_dim(&type->placement, i);
        int64_t local = sc_type_local_size(m, type, i);
        tensor.dims[i] =
            (sc_image_dim){.name = sc_text(m->context, m->dims.data[type->dims[i].dim].name),
                           .size = type->dims[i].size,
                           .local = local,
                           .first = sc_terms_of(m, list.sub_axes, list.count, local),
                           .order = sc_shard_order_of(m, type->dims[i].dim, &list)};
    }
    tensor.replica = terms_where(m, &type->placement, is_nothing);
    tensor.part = terms_where(m, &type->placement, sc_is_partial);
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        uint8_t on = type->placement.on[a];
        tensor.partial = on == SC_PARTIAL_SUM   ? SC_IMAGE_SUM
                         : on == SC_PARTIAL_MAX ? SC_IMAGE_MAX
                         : on == SC_PARTIAL_MIN ? SC_IMAGE_MIN
                                                : tensor.partial;
    }
    return tensor;
}

const char *sc_generator_name(const sc_generator *g, sc_value value)
{
    const char *path = sc_text(g->m->context, g->m->values.data[value].path);
    const sc_op *def = sc_op_at(g->m, sc_def(g->m, value));
    const char *scope = sc_text(g->m->context, def->scope), *name = sc_ops[def->kind].name;
    if (path[0] != 0)
        return path;
    if ((sc_ops[def->kind].traits & SC_COLLECTIVE) != 0)
        return sc_arena_printf(g->arena, "%s of %s", name,
                               sc_generator_name(g, def->operands[g->m->values.data[value].index]));
    return scope[0] == 0
               ? name
               : sc_arena_printf(g->arena, "%s %s in %s",
                                 strchr("aeiou", name[0]) != NULL ? "an" : "a", name, scope);
}

/* ---- buffers and places ---- */
uint32_t sc_generator_buffer(sc_generator *g, sc_image_buffer_kind kind, int64_t bytes,
                             const char *name)
{
    *sc_vec_push(g->arena, &g->buffers) =
        (sc_image_buffer){.kind = kind, .bytes = bytes, .copies = 1, .name = name};
    *sc_vec_push(g->arena, &g->out->buffer_locs) = g->unit.loc;
    return g->buffers.count - 1;
}

sc_image_ref sc_generator_read(const sc_generator *g, sc_value value)
{
    return g->func.place[value];
}

sc_image_ref sc_generator_place_of_state(const sc_generator *g, uint32_t state)
{
    return g->m->state.data[state].host ? g->func.staged[state].place
                                        : (sc_image_ref){g->state_buffer[state], 0};
}

bool sc_generator_overwrites(const sc_generator *g, sc_value result, sc_value operand)
{
    uint32_t state = g->func.target[result];
    if (state == SC_NONE)
        return false;
    sc_image_ref to = sc_generator_place_of_state(g, state), from = g->func.place[operand];
    return from.buffer == to.buffer && from.at == to.at;
}

bool sc_generator_is_input(const sc_generator_func *f, uint32_t buffer)
{
    for (uint32_t i = 0; i < f->inputs.count; i++) {
        if (f->inputs.data[i].buffer == buffer)
            return true;
    }
    return false;
}

bool sc_generator_is_state(const sc_generator *g, uint32_t buffer)
{
    return g->buffers.data[buffer].kind < SC_BUFFER_ACT;
}

/* True if the state is in a staging area that nothing in flight uses. */
static bool is_free(const sc_generator *g, const sc_staged_state *staged)
{
    bool used = !staged->is_filled;
    for (uint32_t f = g->func.finished; f < g->func.in_flight.count; f++) {
        uint32_t start = g->func.in_flight.data[f].instr;
        if (start == SC_NONE || used)
            continue;
        const sc_image_instr *instr = &g->func.instrs.data[start];
        for (uint32_t i = 0; i < instr->arg_count; i++)
            used = used || instr->args[i].buffer == staged->place.buffer;
    }
    return !used;
}

sc_image_ref sc_generator_write(sc_generator *g, sc_value value, sc_image_buffer_kind kind,
                                bool may_share)
{
    uint32_t state = g->func.target[value];
    if (state != SC_NONE) {
        uint32_t last = g->func.state_last_read[state],
                 *last_read = &g->func.last_read[g->func.root[value]];
        bool host = g->m->state.data[state].host,
             fits = !host || (kind != SC_BUFFER_COMM && is_free(g, &g->func.staged[state]) &&
                              *last_read < g->func.staged[state].until);
        if (fits && (last < g->unit.number || (last == g->unit.number && may_share))) {
            g->func.state_last_read[state] = *last_read;
            return g->func.place[value] = sc_generator_place_of_state(g, state);
        }
        g->func.target[value] = SC_NONE;
        if (!host) /* it is copied to the state at the end */
            *last_read = SC_LASTS;
    }
    if (g->exchanges != NULL && g->func.sent_place[value].buffer != SC_NONE)
        return g->func.place[value] = g->func.sent_place[value];
    int64_t bytes = sc_type_local_bytes(g->m, sc_type_of(g->m, value));
    return g->func.place[value] =
               (sc_image_ref){sc_generator_buffer(g, kind, bytes, sc_generator_name(g, value)), 0};
}

/* ---- instructions ---- */
sc_image_instr *sc_generator_instr(sc_generator *g, sc_image_instr_kind kind, sc_op_id op,
                                   uint32_t index, const sc_image_ref *args, uint32_t arg_count)
{
    const sc_op *o = sc_op_at(g->m, op);
    const char *phase = sc_text(g->m->context, sc_op_word(o, SC_ATTR_phase));
    sc_image_instr *made = sc_vec_push(g->arena, &g->func.instrs);
    *made = (sc_image_instr){
        .kind = kind,
        .stream = kind == SC_INSTR_COLLECTIVE ? 1
                  : kind == SC_INSTR_TRANSFER ? 2
                                              : 0,
        .instead = g->unit.instead,
        .index = index,
        .arg_count = arg_count,
        .args = sc_arena_array(g->arena, arg_count, sizeof *args),
        .where =
            sc_text(g->m->context, o->scope != 0 ? o->scope : g->m->funcs.data[g->func.id].name),
        .phase = phase[0] != 0 ? phase : "forward"};
    if (arg_count > 0)
        memcpy(made->args, args, arg_count * sizeof *args);
    return made;
}

void sc_generator_copy(sc_generator *g, sc_op_id op, sc_image_ref from, sc_image_ref to)
{
    sc_generator_instr(g, SC_INSTR_COPY, op, 0, (sc_image_ref[]){from, to}, 2);
}
