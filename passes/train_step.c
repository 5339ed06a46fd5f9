/* train-step: builds `micro` and `update` from a global forward program.
 *
 *   micro:   forward, backward, then per parameter     update:  g = gradient, reduced; norm of all
 *            w.grad += gradient                                 p, m, v .. = one optimizer step
 *            total += objective                                 return loss, norm, metrics
 *
 * With one micro-batch nothing is accumulated or reset. */
#include "passes/train_step.h"

#include "ir/ops/build.h"
#include "passes/pass.h"

/* The exponent range of f16 is too small for the gradients of most models. */
static bool needs_scaling(const sc_module *m)
{
    bool found = false;
    for (sc_value v = 0; v < m->values.count && !found; v++)
        found = sc_type_of(m, v)->dtype == SC_DTYPE_f16;
    return found;
}

static void mark_backward(sc_emitter *e, sc_op_id made)
{
    sc_op_set_attr(e->m, made,
                   sc_attr_text(SC_ATTR_phase, sc_intern_text(&e->m->context->names, "backward")));
}

/* state (+)= value, at the end of the function. */
static void accumulate(sc_emitter *e, sc_train_step *step, sc_sym name, sc_state_kind kind,
                       sc_value value, uint32_t param)
{
    sc_module *m = e->m;
    const sc_type_info type = *sc_type_of(m, value);
    sc_step_state(m, step, name, kind, &type, param);
    sc_attr attr = sc_attr_text(SC_ATTR_name, name);
    if (step->training->micro_batches > 1) {
        sc_value so_far = sc_make_as(e, SC_OP_state_read, NULL, 0, &attr, 1, &type);
        value = sc_make2(e, SC_OP_add, so_far, value);
    }
    sc_op_new(m, e->func, SC_NONE, SC_OP_state_write, &value, 1, &attr, 1, NULL, 0, e->like);
    mark_backward(e, m->funcs.data[e->func].last);
}

static void accumulate_gradients(sc_emitter *e, sc_train_step *step, const sc_gradients *gradients)
{
    /* gradients of the last layer are ready first */
    for (uint32_t i = step->training->params.count; i-- > 0;) {
        uint32_t state = step->training->params.data[i].state;
        for (uint32_t g = gradients->first[state]; g != SC_NONE; g = gradients->list.data[g].next) {
            const sc_gradient *gradient = &gradients->list.data[g];
            e->like = sc_def(e->m, gradient->value);
            accumulate(e, step, gradient->name, SC_STATE_GRAD, gradient->value, state);
        }
    }
}

/* total, weight, metric0, ..: scalars in f32 or wider. */
static void accumulate_results(sc_emitter *e, sc_train_step *step, const sc_value *results,
                               uint32_t count)
{
    sc_context *context = e->m->context;
    for (uint32_t i = 0; i < count; i++) {
        if (sc_type_of(e->m, results[i])->rank > 0)
            continue;
        sc_sym name = i < 2 ? sc_intern_text(&context->names, i == 0 ? "total" : "weight")
                            : sc_intern_printf(&context->names, "metric%u", i - 2);
        e->like = sc_def(e->m, results[i]);
        sc_value wide = sc_make_cast(e, results[i], sc_wide(sc_type_of(e->m, results[i])->dtype));
        accumulate(e, step, name, SC_STATE_SUM, wide, SC_NONE);
    }
}

bool sc_train_step_build(sc_module *m, sc_func_id entry, const sc_training *training,
                         sc_train_step *out)
{
    sc_arena *arena = &m->context->arena;
    sc_gradients gradients;
    /* ops that lead to no result have no gradient, and may be meaningless in a micro-batch */
    sc_run_drop_dead(m, NULL);
    *out = (sc_train_step){.micro = entry, .training = training, .scales = needs_scaling(m)};
    while (out->param_of.count < m->state.count)
        *sc_vec_push(arena, &out->param_of) = SC_NONE;
    sc_op_id end = m->funcs.data[entry].last;
    const sc_op returned = *sc_op_at(m, end);
    if (!sc_differentiate(m, entry, training, out, &gradients))
        return false;
    sc_emitter e = {.m = m, .func = entry, .before = SC_NONE, .like = end, .made = mark_backward};
    accumulate_results(&e, out, returned.operands, returned.operand_count);
    accumulate_gradients(&e, out, &gradients);
    sc_op_new(m, entry, SC_NONE, SC_OP_return, NULL, 0, NULL, 0, NULL, 0, end);
    m->funcs.data[entry].name = sc_intern_text(&m->context->names, "micro");
    out->update = sc_module_add_func(m, sc_intern_text(&m->context->names, "update"));
    sc_build_update(m, training, out, &gradients, returned.operand_count);
    m->schedule.count = 0;
    for (int64_t i = 0; i < training->micro_batches; i++)
        *sc_vec_push(arena, &m->schedule) = (sc_call){.func = entry, .microbatch = (int32_t)i};
    *sc_vec_push(arena, &m->schedule) = (sc_call){.func = out->update, .microbatch = -1};
    return true;
}
