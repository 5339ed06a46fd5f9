/* State that a train step adds to the model's: gradients, optimizer state, scalars. */
#include "ir/ops/build.h"
#include "passes/train_step.h"

sc_sym sc_state_name_of(sc_module *m, uint32_t param, const char *suffix)
{
    return sc_intern_printf(&m->context->names, "%s.%s",
                            sc_text(m->context, m->state.data[param].path), suffix);
}

uint32_t sc_step_state(sc_module *m, sc_train_step *step, sc_sym name, sc_state_kind kind,
                       const sc_type_info *type, uint32_t param)
{
    uint32_t known = sc_module_find_state(m, name);
    if (known != SC_NONE)
        return known;
    sc_type_info whole = *type;
    whole.placement = sc_placement_replicated();
    sc_state state = {
        .path = name, .kind = kind, .type = sc_type_intern(m, &whole), .init = SC_INIT_ZEROS};
    if (param != SC_NONE)
        state.loc = m->state.data[param].loc;
    uint32_t index = sc_module_add_state(m, &state);
    while (step->param_of.count <= index)
        *sc_vec_push(&m->context->arena, &step->param_of) = SC_NONE;
    step->param_of.data[index] = param;
    return index;
}

sc_value sc_read_scaling(sc_emitter *e, sc_train_step *step, const char *name, double initial)
{
    sc_type_info type = {.dtype = SC_DTYPE_f64};
    sc_sym symbol = sc_intern_text(&e->m->context->names, name);
    sc_state *state =
        &e->m->state.data[sc_step_state(e->m, step, symbol, SC_STATE_OPT, &type, SC_NONE)];
    state->init = SC_INIT_CONSTANT;
    state->init_args[0] = initial;
    sc_attr attr = sc_attr_text(SC_ATTR_name, symbol);
    return sc_make_as(e, SC_OP_state_read, NULL, 0, &attr, 1, &type);
}
