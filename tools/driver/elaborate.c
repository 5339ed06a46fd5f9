#include <string.h>

#include "tools/driver/driver.h"

sc_module *sc_driver_elaborate(sc_context *context, const sc_compiled *c, sc_sym entry,
                               bool trained, const sc_binding_list *sizes, sc_build_result *built,
                               sc_pipeline *pipeline)
{
    sc_binding_list bindings = {0};
    if (sizes != NULL)
        bindings = *sizes;
    else if (!trained)
        sc_plan_bindings(c->resolved, entry, &bindings);
    else if (!sc_plan_train_bindings(c->resolved, entry, &bindings))
        return NULL;
    sc_module *m = sc_module_new(context);
    sc_build_request request = {.model = c->model,
                                .entry = entry,
                                .bindings = &bindings,
                                .dtype_of = sc_plan_dtype_of,
                                .user = c->resolved,
                                .training = trained};
    memset(built, 0, sizeof *built);
    if (!sc_build_entry(c->program, &request, m, built) || context->diag.errors > c->errors_before)
        return NULL;
    m->states = SC_SHAPES;
    sc_plan_offload_params(c->resolved, m, entry);
    *sc_vec_push(&context->arena, &m->schedule) = (sc_call){.func = built->func};
    return sc_plan_pipeline(c->resolved, m, built, pipeline) ? m : NULL;
}
