#include "passes/pass.h"

#include <string.h>

#include "ir/ops/verify.h"

const sc_pass sc_passes[SC_PASS_COUNT] = {
#define PASS(id, name, kernels, needs, establishes, invalidates, summary)                          \
    {name, kernels, needs, establishes, invalidates, summary, sc_run_##id},
#include "passes/passes.def"
#undef PASS
};

const sc_pass *sc_pass_find(const char *name)
{
    for (size_t i = 0; i < SC_PASS_COUNT; i++) {
        if (strcmp(sc_passes[i].name, name) == 0)
            return &sc_passes[i];
    }
    return NULL;
}

bool sc_pass_run(sc_module *m, const sc_pass *pass, sc_pass_env *env)
{
    if ((m->states & pass->needs) != pass->needs) {
        sc_report(&m->context->diag, SC_D_ir_invalid, (sc_loc){0}, pass->name,
                  "the module is not in the state that this pass needs", NULL);
        return false;
    }
    if (!pass->run(m, env))
        return false;
    m->states = (m->states | pass->establishes) & ~pass->invalidates;
    return env->no_verify || sc_verify_module(m, pass->name);
}

bool sc_pipeline_run(sc_module *m, sc_pass_env *env, const char *last,
                     void (*after)(sc_module *m, const sc_pass *pass, void *user), void *user)
{
    const sc_pass *target = last == NULL ? NULL : sc_pass_find(last);
    for (size_t i = 0; i < SC_PASS_COUNT; i++) {
        if (sc_passes[i].kernels && (target == NULL || !target->kernels))
            continue;
        if (!sc_pass_run(m, &sc_passes[i], env))
            return false;
        if (after != NULL)
            after(m, &sc_passes[i], user);
        if (&sc_passes[i] == target)
            break;
    }
    return true;
}
