/* Placement of a train step's cotangents, gradients and optimizer state. */
#include <string.h>

#include "ir/ops/forms.h"
#include "passes/propagate.h"

void sc_place_like(sc_propagation *p, sc_value value, sc_value like)
{
    sc_placing *placing = p->placing;
    placing->at[value] = placing->at[like];
    placing->closed[value] = ~(sc_sub_axis_set)0;
    if (placing->sub_axis_count > 0)
        memcpy(sc_cause_of(placing, value, 0), sc_cause_of(placing, like, 0),
               placing->sub_axis_count * sizeof(sc_cause));
}

/* The derivative of an op with a form has it for the same reason. */
static void copy_form_rules(sc_placing *placing, sc_op_id op, sc_op_id origin)
{
    for (uint32_t a = 0; a < placing->sub_axis_count; a++) {
        uint32_t rule = placing->lock_rules[(size_t)origin * placing->sub_axis_count + a];
        if (rule != SC_NONE && placing->is_form[rule])
            placing->lock_rules[(size_t)op * placing->sub_axis_count + a] = rule;
    }
}

/* A derivative splits the dims that its op splits, wherever it has them: the communication of the
 * backward pass mirrors that of the forward pass. A recomputed op splits nothing else either. */
static void lock_like(sc_propagation *p, sc_op_id op, sc_op_id origin, bool exactly)
{
    sc_factors factors, own;
    sc_assignment assignment;
    sc_op_factors(p->m, sc_op_at(p->m, origin), &factors);
    sc_op_factors(p->m, sc_op_at(p->m, op), &own);
    if (factors.count == 0)
        return;
    sc_assign(&p->assigner, origin, &factors, &assignment);
    sc_dim *locks = &p->placing->locks[(size_t)op * p->placing->sub_axis_count];
    if (exactly) {
        for (uint32_t a = 0; a < p->placing->sub_axis_count; a++)
            locks[a] = SC_LOCKED_OUT;
    }
    for (uint32_t f = 0; f < factors.count; f++) {
        bool has = false;
        for (uint32_t i = 0; i < own.count; i++)
            has = has ||
                  (own.list[i].dim == factors.list[f].dim && own.list[i].role != SC_ROLE_WHOLE);
        if (has) {
            for (uint32_t i = 0; i < assignment.split[f].count; i++)
                sc_lock_sub_axis(p, op, assignment.split[f].sub_axes[i], factors.list[f].dim, i);
        }
    }
    /* cotangents, where they belong */
    bool adds_up = (sc_op_traits(sc_op_at(p->m, op)) & SC_LINEAR) != 0;
    if (!adds_up) {
        for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
            if ((p->placing->withdrawn[origin] >> a & 1) != 0 && locks[a] == SC_NONE)
                locks[a] = SC_LOCKED_OUT;
        }
    }
    sc_lock_out_rest(p, op);
}

void sc_place_backward(sc_propagation *p, const sc_train_step *step)
{
    sc_module *m = p->m;
    sc_sym recompute = sc_intern_text(&m->context->names, "recompute");
    sc_for_each_op (m, step->micro, op) {
        if (p->stage_of[op] != SC_STAGE_BACKWARD)
            continue;
        for (uint32_t r = 0; r < m->ops.data[op].result_count; r++) {
            sc_value value = sc_result(m, op, r), like = sc_like_of(step, value);
            if (like != SC_NONE)
                sc_place_like(p, value, like);
        }
        sc_op_id origin = sc_origin_of(step, op);
        if (origin == SC_NONE || p->placing->sub_axis_count == 0)
            continue;
        lock_like(p, op, origin, sc_op_word(sc_op_at(m, op), SC_ATTR_phase) == recompute);
        sc_form_follow(m, op, origin);
        copy_form_rules(p->placing, op, origin);
    }
}

/* ---- state ---- */

/* By state: the value that reads it in a function; SC_NONE: none. */
static sc_value *readers_of_state(const sc_module *m, sc_func_id func)
{
    sc_value *readers = sc_arena_array(&m->context->arena, m->state.count, sizeof *readers);
    memset(readers, 0xff, m->state.count * sizeof *readers);
    sc_for_each_op (m, func, op) {
        if ((sc_op_traits(sc_op_at(m, op)) & SC_STATE_READ) != 0)
            readers[sc_module_find_state(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name))] =
                sc_result(m, op, 0);
    }
    return readers;
}

uint32_t sc_param_of_state(const sc_train_step *step, uint32_t state)
{
    return state < step->param_of.count ? step->param_of.data[state] : SC_NONE;
}

/* A gradient and its parameter have the same dims in the same order. */
void sc_place_state(sc_propagation *p, const sc_train_step *step)
{
    const sc_module *m = p->m;
    const sc_value *used = readers_of_state(m, step->micro),
                   *read = readers_of_state(m, step->update);
    for (uint32_t s = 0; s < m->state.count; s++) {
        uint32_t param = sc_param_of_state(step, s);
        if (param != SC_NONE && read[s] != SC_NONE && used[param] != SC_NONE)
            sc_place_like(p, read[s], used[param]);
    }
}

static bool *with_own_lines(const sc_propagation *p, const sc_seeds *seeds)
{
    bool *own = sc_arena_array(&p->m->context->arena, p->placing->value_count, sizeof *own);
    for (uint32_t i = 0; i < seeds->list.count; i++)
        own[seeds->list.data[i].value] =
            own[seeds->list.data[i].value] || seeds->list.data[i].strength == SC_SEED_STORAGE;
    return own;
}

/* Places every value in `micro` that has the stored form of the gradient. */
static void place_stored_gradients(sc_propagation *p, const sc_train_step *step,
                                   const sc_value *read)
{
    const sc_module *m = p->m;
    sc_for_each_op (m, step->micro, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t traits = sc_op_traits(o);
        uint32_t state = (traits & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                             ? SC_NONE
                             : sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
        if (state == SC_NONE || m->state.data[state].kind != SC_STATE_GRAD ||
            read[state] == SC_NONE)
            continue;
        sc_value value = (traits & SC_STATE_READ) != 0 ? o->first_result : o->operands[0];
        sc_place_like(p, value, read[state]);
        const sc_op *sum = sc_op_at(m, sc_def(m, value));
        /* and the value added to it */
        if ((traits & SC_STATE_WRITE) != 0 && sum->operand_count == 2)
            sc_place_like(p, sum->operands[1], read[state]);
    }
}

void sc_settle_state(sc_propagation *p, const sc_train_step *step, const sc_seeds *seeds)
{
    sc_module *m = p->m;
    const sc_value *used = readers_of_state(m, step->micro),
                   *read = readers_of_state(m, step->update);
    const bool *own = with_own_lines(p, seeds);
    uint32_t *gradients = sc_arena_array(&m->context->arena, m->state.count, sizeof *gradients);
    for (uint32_t s = 0; s < m->state.count; s++) {
        if (m->state.data[s].kind == SC_STATE_GRAD && read[s] != SC_NONE &&
            sc_param_of_state(step, s) != SC_NONE) {
            gradients[sc_param_of_state(step, s)] = s;
            if (!own[read[s]])
                sc_place_like(p, read[s], used[sc_param_of_state(step, s)]);
        }
    }
    for (uint32_t s = 0; s < m->state.count; s++) {
        uint32_t param = sc_param_of_state(step, s);
        if (read[s] == SC_NONE)
            continue;
        if (m->state.data[s].kind == SC_STATE_OPT && param != SC_NONE && !own[read[s]])
            sc_place_like(p, read[s], read[gradients[param]]);
        if (m->state.data[s].kind == SC_STATE_PARAM && used[s] != SC_NONE)
            sc_place_like(p, read[s], used[s]);
        m->state.data[s].type =
            sc_type_with_placement(m, m->state.data[s].type, &p->placing->at[read[s]]);
    }
    place_stored_gradients(p, step, read);
}
