/* State: what calls keep from one to the next, on each stage that uses it; slots by micro-batch. */
#include <stdlib.h>
#include <string.h>

#include "ir/interp/internal.h"

/* ---- where it is ---- */

static sc_held *held_on(const sc_interp *interp, uint32_t stage, uint32_t state)
{
    return &interp->state[(size_t)stage * interp->state_count + state];
}

static bool is_slot(const sc_interp *interp, uint32_t state)
{
    return interp->m->state.data[state].kind == SC_STATE_SLOT;
}

/* Marks the stages whose functions use each state, the first stage if there are none. */
static void find_users(const sc_interp *interp, bool *used)
{
    const sc_module *m = interp->m;
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        bool of_state = (sc_op_traits(op) & (SC_STATE_READ | SC_STATE_WRITE)) != 0;
        uint32_t state = of_state ? sc_module_find_state(m, sc_op_word(op, SC_ATTR_name)) : SC_NONE,
                 stage = sc_interp_stage_of(m, op->func);
        if (state != SC_NONE && stage < interp->stages)
            used[(size_t)stage * interp->state_count + state] = true;
    }
    for (uint32_t s = 0; s < interp->state_count; s++) {
        bool any = false;
        for (uint32_t stage = 0; stage < interp->stages; stage++)
            any = any || used[(size_t)stage * interp->state_count + s];
        used[s] = used[s] || !any;
    }
}

/* State of unknown size has no data; an op that reads it fails. */
static bool make_all(sc_interp *interp, const bool *used)
{
    for (size_t i = 0; i < (size_t)interp->stages * interp->state_count; i++) {
        uint32_t s = (uint32_t)(i % interp->state_count);
        sc_layout layout;
        interp->state[i].type = interp->m->state.data[s].type;
        if (!used[i] || is_slot(interp, s) ||
            !sc_interp_find_layout(interp, interp->state[i].type, &layout))
            continue;
        interp->state[i].data = sc_interp_new_data(interp, &layout);
        if (interp->state[i].data == NULL)
            return false;
    }
    return true;
}

bool sc_interp_make_state(sc_interp *interp)
{
    uint32_t count = interp->m->state.count;
    size_t all = (size_t)interp->stages * count + 1;
    bool *used = calloc(all, sizeof *used);
    interp->state = calloc(all, sizeof *interp->state);
    interp->slots = calloc(count + 1u, sizeof *interp->slots);
    bool ok = used != NULL && interp->state != NULL && interp->slots != NULL;
    interp->state_count = ok ? count : 0;
    if (ok)
        find_users(interp, used);
    ok = ok && make_all(interp, used);
    free(used);
    return ok;
}

void sc_interp_drop_state(sc_interp *interp)
{
    for (uint32_t s = 0; s < interp->state_count; s++) {
        for (uint32_t stage = 0; stage < interp->stages; stage++)
            free(held_on(interp, stage, s)->data);
        for (uint32_t i = 0; i < interp->slots[s].count; i++)
            free(interp->slots[s].copies[i].data);
        free(interp->slots[s].copies);
    }
    for (uint32_t i = 0; i < interp->sent_count; i++)
        free(interp->sent[i].value.data);
    free(interp->state);
    free(interp->slots);
    free(interp->sent);
}

/* ---- reading and writing ---- */

/* Returns the current micro-batch's copy of a slot, without data if nothing has been written; NULL
 * if out of memory. */
static sc_held *slot_copy(sc_interp *interp, uint32_t state)
{
    sc_slot_copies *slot = &interp->slots[state];
    uint32_t at = (uint32_t)(interp->micro_batch + 1);
    if (at >= slot->count) {
        sc_held *copies = sc_interp_grown(slot->copies, slot->count, at + 1, sizeof *slot->copies);
        if (copies == NULL)
            return NULL;
        for (uint32_t i = slot->count; i <= at; i++)
            copies[i].type = interp->m->state.data[state].type;
        *slot = (sc_slot_copies){copies, at + 1};
    }
    return &slot->copies[at];
}

/* Returns the state that the op names on the stage of the run, if its type matches `type`; NULL
 * after an error. */
static sc_held *find_state(sc_interp *interp, sc_op_id id, sc_type type)
{
    const sc_module *m = interp->m;
    sc_sym name = sc_op_word(sc_op_at(m, id), SC_ATTR_name);
    uint32_t state = sc_module_find_state(m, name);
    bool is_known = state < interp->state_count, slot = is_known && is_slot(interp, state);
    sc_held *held = slot       ? slot_copy(interp, state)
                    : is_known ? held_on(interp, interp->stage, state)
                               : NULL;
    if (held == NULL || (!slot && held->data == NULL)) {
        sc_interp_fail(interp, id, SC_NO_RANK, "there is no state '%s', or its sizes are not known",
                       sc_text(m->context, name));
        return NULL;
    }
    if (!sc_interp_same_shards(interp, held->type, type)) {
        sc_interp_fail(interp, id, SC_NO_RANK, "state '%s' has another shape or placement",
                       sc_text(m->context, name));
        return NULL;
    }
    return held;
}

bool sc_interp_read_state(sc_interp *interp, sc_op_id id)
{
    const sc_held *result = &interp->values[sc_result(interp->m, id, 0)];
    const sc_held *state = find_state(interp, id, result->type);
    if (state == NULL)
        return false;
    if (state->data == NULL)
        return sc_interp_fail(
            interp, id, SC_NO_RANK, "slot '%s' of micro-batch %d has not been written",
            sc_text(interp->m->context, sc_op_word(sc_op_at(interp->m, id), SC_ATTR_name)),
            (int)interp->micro_batch);
    return sc_row_copy(result->data, state->data,
                       (int64_t)interp->ranks * sc_interp_layout(interp, result->type)->count);
}

/* State changes at the end of the run: see sc_interp_commit. */
bool sc_interp_write_state(sc_interp *interp, sc_op_id id)
{
    return find_state(interp, id, interp->values[sc_op_at(interp->m, id)->operands[0]].type) !=
           NULL;
}

bool sc_interp_commit(sc_interp *interp, sc_func_id func)
{
    sc_for_each_op (interp->m, func, id) {
        const sc_op *op = sc_op_at(interp->m, id);
        if ((sc_op_traits(op) & SC_STATE_WRITE) == 0)
            continue;
        const sc_held *value = &interp->values[op->operands[0]];
        const sc_layout *layout = &interp->layouts[value->type];
        sc_held *state = find_state(interp, id, value->type);
        if (state != NULL && state->data == NULL)
            state->data = sc_interp_new_data(interp, layout);
        if (state == NULL || state->data == NULL)
            return false;
        sc_row_copy(state->data, value->data, (int64_t)interp->ranks * layout->count);
    }
    return true;
}

/* ---- from and to global values ---- */

bool sc_interp_set_state(sc_interp *interp, uint32_t state, const double *global)
{
    bool any = false;
    sc_layout layout;
    if (state >= interp->state_count ||
        !sc_interp_find_layout(interp, interp->m->state.data[state].type, &layout))
        return false;
    for (uint32_t stage = 0; stage < interp->stages; stage++) {
        sc_held *held = held_on(interp, stage, state);
        if (held->data == NULL)
            continue;
        any = true;
        memset(held->data, 0, (size_t)interp->ranks * (size_t)layout.count * sizeof *held->data);
        sc_interp_split(interp, held->type, global, held->data);
        sc_interp_round(interp, held, &layout);
    }
    return any;
}

sc_array sc_interp_fetch(const sc_interp *interp, const sc_held *held, bool *agree)
{
    const sc_type_info *type = &interp->m->types.data[held->type];
    int64_t sizes[SC_MAX_RANK], first, second;
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    if (agree != NULL)
        *agree = true;
    if (held->data == NULL)
        return (sc_array){0};
    sc_array array = sc_array_new(type->rank, sizes);
    if (array.data != NULL &&
        !sc_interp_assemble(interp, held->type, held->data, array.data, &first, &second) &&
        agree != NULL)
        *agree = false;
    return array;
}

sc_array sc_interp_get_state(const sc_interp *interp, uint32_t state, bool *agree)
{
    sc_array first = {0};
    if (agree != NULL)
        *agree = true;
    if (state >= interp->state_count)
        return first;
    for (uint32_t stage = 0; stage < interp->stages; stage++) {
        bool ranks_agree = true;
        sc_array copy = sc_interp_fetch(interp, held_on(interp, stage, state), &ranks_agree);
        if (copy.data == NULL)
            continue;
        bool same = first.data == NULL || sc_row_agrees(first.data, copy.data, copy.count);
        if (agree != NULL)
            *agree = *agree && ranks_agree && same;
        sc_array_free(first.data == NULL ? &(sc_array){0} : &copy);
        first = first.data == NULL ? copy : first;
    }
    return first;
}
