/* The states of a program. A state that several modules declare is shared and must be the same in
 * all. */
#include <string.h>

#include "codegen/program/internal.h"

sc_image_buffer_kind sc_generator_kind_of_state(sc_state_kind kind)
{
    static const sc_image_buffer_kind kinds[SC_STATE_KINDS] = {
        [SC_STATE_PARAM] = SC_BUFFER_PARAM,        [SC_STATE_CACHE] = SC_BUFFER_CACHE,
        [SC_STATE_GRAD] = SC_BUFFER_GRAD,          [SC_STATE_OPT] = SC_BUFFER_OPT,
        [SC_STATE_SCALAR] = SC_BUFFER_OTHER_STATE, [SC_STATE_GATHERED] = SC_BUFFER_OTHER_STATE,
        [SC_STATE_SUM] = SC_BUFFER_OTHER_STATE,    [SC_STATE_SLOT] = SC_BUFFER_SLOT};
    return kinds[kind];
}

static bool same_terms(const sc_image_terms *a, const sc_image_terms *b)
{
    return a->count == b->count &&
           (a->count == 0 || memcmp(a->terms, b->terms, a->count * sizeof *a->terms) == 0);
}

static bool same_tensor(const sc_image_tensor *a, const sc_image_tensor *b)
{
    bool same = a->dtype == b->dtype && a->rank == b->rank && a->partial == b->partial;
    for (uint32_t i = 0; same && i < a->rank; i++)
        same = strcmp(a->dims[i].name, b->dims[i].name) == 0 &&
               a->dims[i].size == b->dims[i].size && a->dims[i].local == b->dims[i].local &&
               a->dims[i].order.members == b->dims[i].order.members &&
               same_terms(&a->dims[i].first, &b->dims[i].first);
    return same && same_terms(&a->replica, &b->replica) && same_terms(&a->part, &b->part);
}

static uint32_t find_state(const sc_generator *g, const char *path)
{
    uint32_t found = 0;
    while (found < g->states.count && strcmp(g->states.data[found].path, path) != 0)
        found++;
    return found < g->states.count ? found : SC_NONE;
}

/* Adds a state of the module, or finds the one that another module added. */
static bool add_state(sc_generator *g, const sc_state *state, uint32_t *out_buffer)
{
    sc_module *m = g->m;
    const sc_type_info *type = &m->types.data[state->type];
    const char *path = sc_text(m->context, state->path);
    sc_image_tensor tensor = sc_generator_tensor(g, type);
    uint32_t found = g->is_first_part ? SC_NONE : find_state(g, path);
    if (found == SC_NONE) {
        *out_buffer = sc_generator_buffer(g, sc_generator_kind_of_state(state->kind),
                                          sc_type_local_bytes(m, type), path);
        *sc_vec_push(g->arena, &g->states) =
            (sc_image_state){.path = path,
                             .kind = (uint8_t)state->kind,
                             .init = (uint8_t)state->init,
                             .init_args = {state->init_args[0], state->init_args[1]},
                             .tensor = tensor,
                             .buffer = *out_buffer,
                             .master = SC_NONE};
        g->buffers.data[*out_buffer].host = state->host;
        return true;
    }
    *out_buffer = g->states.data[found].buffer;
    if (g->states.data[found].kind == (uint8_t)state->kind &&
        g->buffers.data[*out_buffer].host == state->host &&
        same_tensor(&g->states.data[found].tensor, &tensor))
        return true;
    sc_report(
        &m->context->diag, SC_D_ir_invalid, state->loc, "code generation",
        sc_arena_printf(g->arena, "'%s' is not the same in all functions of the program", path),
        NULL);
    return false;
}

/* By state: true if a function of this stage uses it, or if the first stage has it because no
 * function uses it. */
static bool *find_used(const sc_generator *g)
{
    const sc_module *m = g->m;
    bool *here = sc_arena_array(g->arena, m->state.count + 1u, sizeof *here),
         *anywhere = sc_arena_array(g->arena, m->state.count + 1u, sizeof *anywhere);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0)
            continue;
        uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
        anywhere[state] = true;
        here[state] = here[state] || m->funcs.data[op->func].stage == g->stage;
    }
    for (uint32_t s = 0; s < m->state.count; s++)
        here[s] = here[s] || (!anywhere[s] && (g->stage == 0 || g->stage == SC_ALL_STAGES_RUN));
    return here;
}

/* A slot is no state of the program: only its functions know it. */
static void add_slot(sc_generator *g, uint32_t state)
{
    const sc_state *slot = &g->m->state.data[state];
    g->unit.loc = slot->loc;
    uint32_t buffer = sc_generator_buffer(g, SC_BUFFER_SLOT,
                                          sc_type_local_bytes(g->m, sc_state_type(g->m, state)),
                                          sc_text(g->m->context, slot->path));
    g->buffers.data[buffer].copies = g->exchanges->copies_of_state[state];
    g->buffers.data[buffer].host = slot->host;
    g->state_buffer[state] = buffer;
}

static void find_slots(sc_generator *g)
{
    const sc_module *m = g->m;
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        uint32_t state = (sc_op_traits(op) & SC_STATE_WRITE) == 0
                             ? SC_NONE
                             : sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
        if (state != SC_NONE && m->state.data[state].kind == SC_STATE_SLOT)
            g->slot_of[op->operands[0]] = state;
    }
}

bool sc_generator_add_states(sc_generator *g)
{
    sc_module *m = g->m;
    const bool *used = find_used(g);
    g->state_buffer = sc_arena_array(g->arena, m->state.count, sizeof *g->state_buffer);
    for (uint32_t s = 0; s < m->state.count; s++) {
        bool is_slot = m->state.data[s].kind == SC_STATE_SLOT;
        g->state_buffer[s] = SC_NONE;
        if (used[s] && is_slot)
            add_slot(g, s);
        if (used[s] && !is_slot && !add_state(g, &m->state.data[s], &g->state_buffer[s]))
            return false;
    }
    if (g->exchanges != NULL)
        find_slots(g);
    for (uint32_t s = 0; s < m->state.count; s++) {
        if (!used[s])
            continue;
        const char *path = sc_text(m->context, m->state.data[s].path);
        uint32_t wide =
            sc_module_find_state(m, sc_intern_printf(&m->context->names, "%s.master", path));
        if (m->state.data[s].kind == SC_STATE_PARAM && wide != SC_NONE)
            g->states.data[find_state(g, path)].master =
                find_state(g, sc_text(m->context, m->state.data[wide].path));
    }
    return true;
}
