/* Optimizer scalars of a train step, for applications that run sessions themselves: see
 * include/shardc/runtime.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/optimizer.h"
#include "runtime/drive/facts.h"
#include "shardc/runtime.h"
#include "support/context.h"

struct shardc_stepper {
    sc_context context; /* owns the facts */
    const shardc_executable *program;
    sc_facts facts;
    const char *wrong;
};

static shardc_status fail(shardc_error *error, shardc_status status, const char *text)
{
    if (error != NULL) {
        error->status = status;
        snprintf(error->text, sizeof error->text, "%s", text);
    }
    return status;
}

static void read_facts(sc_context *context, void *user)
{
    shardc_stepper *s = user;
    s->wrong = sc_facts_read(shardc_executable_facts(s->program), &context->arena, &s->facts);
    if (s->wrong == NULL && s->facts.train.groups.count == 0)
        s->wrong = "the program is not a train step: it optimizes nothing";
}

shardc_status shardc_stepper_new(const shardc_executable *program, shardc_stepper **out,
                                 shardc_error *error)
{
    shardc_stepper *s = calloc(1, sizeof *s);
    if (s == NULL)
        return fail(error, SHARDC_ERROR_MEMORY, "out of memory");
    s->program = program;
    bool fine = sc_context_run(&s->context, 0, read_facts, s);
    if (fine && s->wrong == NULL) {
        *out = s;
        return SHARDC_OK;
    }
    shardc_status status = fine ? fail(error, SHARDC_ERROR_ARGUMENT, s->wrong)
                                : fail(error, SHARDC_ERROR_MEMORY, "out of memory");
    shardc_stepper_free(s);
    return status;
}

void shardc_stepper_free(shardc_stepper *s)
{
    if (s == NULL)
        return;
    sc_context_free(&s->context);
    free(s);
}

/* With loss scaling, skipped steps do not count for the optimizer. */
static shardc_status count_taken(shardc_stepper *s, shardc_session *session, uint64_t step,
                                 int64_t *taken, shardc_error *error)
{
    uint32_t state = s->facts.train.scales
                         ? shardc_executable_find_state(s->program, SC_SCALE_TAKEN_STATE)
                         : SHARDC_NOT_FOUND;
    double value;
    *taken = (int64_t)step - 1;
    if (state == SHARDC_NOT_FOUND)
        return SHARDC_OK;
    shardc_status status =
        shardc_session_get_state(session, state, &value, sizeof value, "f64", error);
    *taken = status == SHARDC_OK ? (int64_t)value : *taken;
    return status;
}

shardc_status shardc_stepper_begin(shardc_stepper *s, shardc_session *session, uint64_t seed,
                                   uint64_t step, shardc_error *error)
{
    int64_t taken;
    if (step == 0)
        return fail(error, SHARDC_ERROR_ARGUMENT, "steps are counted from 1");
    shardc_status status = count_taken(s, session, step, &taken, error);
    for (uint32_t g = 0; status == SHARDC_OK && g < s->facts.train.groups.count; g++) {
        const sc_optimizer_settings *group = &s->facts.train.groups.data[g];
        double scalars[SC_SCALAR_COUNT];
        sc_optimizer_scalars(group, taken + 1, scalars);
        scalars[SC_SCALAR_LR] = sc_rate_at(&group->lr, (int64_t)step);
        for (uint32_t i = 0; status == SHARDC_OK && i < SC_SCALAR_COUNT; i++) {
            char name[64];
            snprintf(name, sizeof name, "optimizer%u.%s", g, sc_scalar_names[i]);
            uint32_t state = shardc_executable_find_state(s->program, name);
            if (state != SHARDC_NOT_FOUND)
                status = shardc_session_set_state(session, state, &scalars[i], sizeof scalars[i],
                                                  "f64", error);
        }
    }
    shardc_session_set_random(session, seed, step, 0);
    return status;
}
