/* place-update: places the optimizer step once the storage and the partial axes of gradients are
 * known. State keeps its placement; a gradient is resharded to the placement of the optimizer
 * state. */
#include <string.h>

#include "passes/propagate.h"

static void place_at(sc_propagation *p, sc_value value, const sc_placement *at)
{
    p->placing->at[value] = *at;
    p->placing->closed[value] = ~(sc_sub_axis_set)0;
}

/* By parameter: the placement of its optimizer state, or of its gradient if it has none. */
static sc_placement *places_of_steps(const sc_propagation *p, const sc_train_step *step)
{
    const sc_module *m = p->m;
    sc_placement *places = sc_arena_array(&m->context->arena, m->state.count, sizeof *places);
    for (int kind = SC_STATE_GRAD; kind <= SC_STATE_OPT; kind++) {
        for (uint32_t s = 0; s < m->state.count; s++) {
            if ((int)m->state.data[s].kind != kind || sc_param_of_state(step, s) == SC_NONE)
                continue;
            sc_placement *at = &places[sc_param_of_state(step, s)];
            *at = sc_state_type(m, s)->placement;
            for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++)
                at->on[a] = sc_is_partial(at->on[a]) ? SC_ON_NOTHING : at->on[a];
        }
    }
    return places;
}

/* By state: the value that `micro` writes to it. */
static sc_value *writers_of_state(const sc_module *m, sc_func_id func)
{
    sc_value *writers = sc_arena_array(&m->context->arena, m->state.count, sizeof *writers);
    memset(writers, 0xff, m->state.count * sizeof *writers);
    sc_for_each_op (m, func, op) {
        if ((sc_op_traits(sc_op_at(m, op)) & SC_STATE_WRITE) != 0)
            writers[sc_module_find_state(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name))] =
                sc_op_at(m, op)->operands[0];
    }
    return writers;
}

static void place_update(sc_propagation *p, const sc_train_step *step)
{
    const sc_module *m = p->m;
    const sc_value *written = writers_of_state(m, step->micro);
    const sc_placement *places = places_of_steps(p, step);
    sc_for_each_op (m, step->update, op) {
        const sc_op *o = sc_op_at(m, op);
        uint32_t traits = sc_op_traits(o);
        uint32_t state = (traits & (SC_STATE_READ | SC_STATE_WRITE)) == 0
                             ? SC_NONE
                             : sc_module_find_state(m, sc_op_word(o, SC_ATTR_name));
        if (state == SC_NONE)
            continue;
        const sc_placement at = sc_state_type(m, state)->placement;
        if ((traits & SC_STATE_READ) != 0) {
            if (written[state] != SC_NONE)
                sc_place_like(p, o->first_result, written[state]); /* for its causes */
            place_at(p, o->first_result, &at);
        }
        if ((traits & SC_STATE_WRITE) != 0 && m->state.data[state].kind == SC_STATE_PARAM)
            place_at(p, o->operands[0], &at);
        if ((traits & SC_STATE_READ) != 0 && m->state.data[state].kind == SC_STATE_GRAD) {
            const sc_placement wanted = places[sc_param_of_state(step, state)];
            for (uint32_t u = p->user_begin[o->first_result];
                 u < p->user_begin[o->first_result + 1]; u++)
                place_at(p, sc_result(m, p->users[u], 0), &wanted);
        }
    }
}

bool sc_run_place_update(sc_module *m, sc_pass_env *env)
{
    if (env->step == NULL)
        return true;
    sc_propagation p = {.m = m};
    sc_propagation_init(&p, env);
    place_update(&p, env->step);
    sc_propagation_begin(&p, SC_STAGE_UPDATE);
    sc_propagation_run(&p);
    sc_propagation_finish(&p, env->step->update);
    return true;
}
