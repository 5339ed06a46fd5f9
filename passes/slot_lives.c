#include "passes/slot_lives.h"

#include <assert.h>
#include <string.h>

/* Returns the slot that the op reads or writes; SC_NONE: none. */
static uint32_t slot_of(const sc_module *m, const sc_op *op)
{
    uint32_t state = (sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                         ? SC_NONE
                         : sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
    return state == SC_NONE || m->state.data[state].kind != SC_STATE_SLOT ? SC_NONE : state;
}

/* The ops of a function that use slots. */
typedef struct users {
    SC_VEC(sc_op_id) ops;
    uint32_t *first; /* by function; one entry more */
} users;

static void find_users(const sc_module *m, uint32_t stage, users *out)
{
    sc_arena *arena = &m->context->arena;
    *out = (users){.first = sc_arena_array(arena, m->funcs.count + 1u, sizeof *out->first)};
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        out->first[f] = out->ops.count;
        if (m->funcs.data[f].stage != stage)
            continue;
        sc_for_each_op (m, f, op) {
            if (slot_of(m, sc_op_at(m, op)) != SC_NONE)
                *sc_vec_push(arena, &out->ops) = op;
        }
    }
    out->first[m->funcs.count] = out->ops.count;
}

static void extend(const sc_module *m, sc_map *known, const sc_op *op, uint32_t call,
                   sc_slot_lives *out)
{
    uint32_t slot = slot_of(m, op);
    bool is_new;
    uint64_t key = (uint64_t)slot << 32 | (uint32_t)m->schedule.data[call].microbatch;
    uint32_t at = *sc_map_insert(known, key, out->list.count, &is_new);
    if (is_new)
        *sc_vec_push(&m->context->arena, &out->list) = (sc_slot_life){.state = slot, .first = call};
    out->list.data[at].last = call;
}

void sc_slot_lives_find(const sc_module *m, uint32_t stage, sc_slot_lives *out)
{
    sc_arena *arena = &m->context->arena;
    sc_map known = {.arena = arena}; /* slot and micro-batch -> life */
    users u;
    find_users(m, stage, &u);
    *out = (sc_slot_lives){
        .bytes = sc_arena_array(arena, m->schedule.count + 1u, sizeof *out->bytes),
        .host_bytes = sc_arena_array(arena, m->schedule.count + 1u, sizeof *out->bytes)};
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        sc_func_id func = m->schedule.data[i].func;
        for (uint32_t k = u.first[func]; k < u.first[func + 1]; k++) {
            assert(u.ops.data != NULL);
            extend(m, &known, sc_op_at(m, u.ops.data[k]), i, out);
        }
    }
    for (uint32_t i = 0; i < out->list.count; i++) {
        const sc_slot_life *life = &out->list.data[i];
        int64_t bytes = sc_type_local_bytes(m, sc_state_type(m, life->state));
        int64_t *of = m->state.data[life->state].host ? out->host_bytes : out->bytes;
        of[life->first] += bytes;
        of[life->last + 1] -= bytes;
    }
    for (uint32_t i = 1; i < m->schedule.count; i++) {
        out->bytes[i] += out->bytes[i - 1];
        out->host_bytes[i] += out->host_bytes[i - 1];
    }
}

bool *sc_states_of_stage(const sc_module *m, uint32_t stage)
{
    sc_arena *arena = &m->context->arena;
    bool *here = sc_arena_array(arena, m->state.count + 1u, sizeof *here),
         *anywhere = sc_arena_array(arena, m->state.count + 1u, sizeof *anywhere);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        uint32_t state = (sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                             ? SC_NONE
                             : sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
        if (state == SC_NONE)
            continue;
        anywhere[state] = true;
        here[state] = here[state] || m->funcs.data[op->func].stage == stage;
    }
    for (uint32_t s = 0; s < m->state.count; s++)
        here[s] = here[s] || stage == SC_ALL_STAGES_RUN || (stage == 0 && !anywhere[s]);
    return here;
}
