/* The optimizers of a train step, for applications that drive sessions themselves: see include/shardc/runtime.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/facts.h"
#include "shardc/runtime.h"
#include "support/context.h"
#include "support/optimizer.h"

struct sc_stepper {
    sc_context context; /* of the facts */
    const sc_executable *program;
    sc_facts facts;
    const char *wrong;
};

static sc_status fail(sc_error *error, sc_status status, const char *text)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", text);
    }
    return status;
}

static void read_facts(sc_context *context, void *user)
{
    sc_stepper *s = user;
    s->wrong = sc_facts_read(sc_executable_facts(s->program), &context->arena, &s->facts);
    if (s->wrong == NULL && s->facts.train.groups.count == 0)
        s->wrong = "the program is no train step: nothing in it is optimized";
}

sc_status sc_stepper_new(const sc_executable *program, sc_stepper **out, sc_error *error)
{
    sc_stepper *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(error, SC_ERROR_MEMORY, "out of memory");
    s->program = program;
    bool fine = sc_context_run(&s->context, 0, read_facts, s);
    if (fine && s->wrong == NULL) {
        *out = s;
        return SC_OK;
    }
    sc_status status = fine ? fail(error, SC_ERROR_ARGUMENT, s->wrong) : fail(error, SC_ERROR_MEMORY, "out of memory");
    sc_stepper_free(s);
    return status;
}

void sc_stepper_free(sc_stepper *s)
{
    if (s == NULL)
        return;
    sc_context_free(&s->context);
    free(s);
}

/* With loss scaling, steps that were not taken do not count for the optimizer. */
static sc_status count_taken(sc_stepper *s, sc_session *session, uint64_t step, int64_t *taken, sc_error *error)
{
    uint32_t state = s->facts.train.scales ? sc_executable_find_state(s->program, SC_SCALE_TAKEN_STATE) : SC_NOT_FOUND;
    double value;
    *taken = (int64_t)step - 1;
    if (state == SC_NOT_FOUND)
        return SC_OK;
    sc_status status = sc_session_get_state(session, state, &value, "f64", error);
    *taken = status == SC_OK ? (int64_t)value : *taken;
    return status;
}

sc_status sc_stepper_begin(sc_stepper *s, sc_session *session, uint64_t seed, uint64_t step, sc_error *error)
{
    int64_t taken;
    if (step == 0)
        return fail(error, SC_ERROR_ARGUMENT, "steps are counted from 1");
    sc_status status = count_taken(s, session, step, &taken, error);
    for (uint32_t g = 0; status == SC_OK && g < s->facts.train.groups.count; g++) {
        const sc_optimizer_settings *group = &s->facts.train.groups.data[g];
        double scalars[SC_SCALAR_COUNT];
        sc_optimizer_scalars(group, taken + 1, scalars);
        scalars[SC_SCALAR_LR] = sc_rate_at(&group->lr, (int64_t)step);
        for (uint32_t i = 0; status == SC_OK && i < SC_SCALAR_COUNT; i++) {
            char name[64];
            snprintf(name, sizeof name, "optimizer%u.%s", g, sc_scalar_names[i]);
            uint32_t state = sc_executable_find_state(s->program, name);
            if (state != SC_NOT_FOUND)
                status = sc_session_set_state(session, state, &scalars[i], "f64", error);
        }
    }
    sc_session_set_random(session, seed, step, 0);
    return status;
}
