/* Runs the calls of a train step with an executor, and manages its state. */
#include "runtime/drive/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/drive/load_weights.h"
#include "runtime/drive/settings.h"
#include "runtime/drive/train_state.h"
#include "support/state.h"

struct sc_trainer {
    sc_context *context;
    const sc_facts *facts;
    const sc_run_options *options;
    sc_executor *executor;
    sc_optimizer_settings *groups;
    uint32_t (*scalars)[SC_SCALAR_COUNT]; /* by group: the states from which a step reads them */
    /* taken: the state that counts applied steps; SHARDC_NOT_FOUND: all are applied */
    uint32_t group_count, taken;
    uint64_t steps, skipped;
    sc_state_set set; /* states in a checkpoint */
    uint32_t input_count;
    const char **names; /* by input */
    uint32_t result_count;
    sc_array *outputs;
    double *metrics;
    sc_array *held_out; /* by output of the forward function */
};

static bool fail(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

static bool failed(sc_context *context, const shardc_error *error)
{
    return fail(context, sc_arena_printf(&context->arena, "%s", error->text));
}

/* ---- parameters ---- */

bool sc_fill_parameters(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                        sc_executor *executor)
{
    shardc_error error = {.text = "there is not enough memory for the parameters"};
    if (options->weights == NULL)
        return executor->verbs->initialise(executor->self, options->seed, &error) ||
               failed(context, &error);
    if (facts->weights.is_known)
        return sc_weights_load(context, &facts->weights, options->weights, executor);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              "the program was built without a 'weights' block; build it with --map NAME", NULL);
    return false;
}

bool sc_read_parameters(sc_context *context, const sc_facts *facts, const sc_run_options *options,
                        sc_executor *executor)
{
    sc_saved_state saved;
    sc_state_set params;
    if (options->state == NULL)
        return sc_fill_parameters(context, facts, options, executor);
    sc_state_set_of(context, executor, false, &params);
    return sc_saved_state_read(context, options->state, &saved) &&
           sc_saved_state_load(context, &saved, &params);
}

void sc_note_initial_weights(sc_context *context, const sc_facts *facts,
                             const sc_run_options *options, const sc_executor *executor)
{
    bool has_parameters = false;
    for (uint32_t i = 0; i < executor->state_count && !has_parameters; i++)
        has_parameters = strcmp(executor->states[i].kind, sc_state_kind_names[SC_STATE_PARAM]) == 0;
    bool are_given = options->weights != NULL || options->state != NULL;
    if (!are_given && has_parameters && executor->is_first)
        sc_report(&context->diag, SC_D_initial_weights, (sc_loc){0}, facts->entry.name, NULL);
}

/* ---- state ---- */

const sc_state_set *sc_trainer_states(const sc_trainer *t)
{
    return &t->set;
}

sc_array sc_trainer_get_state(const sc_trainer *t, uint32_t index)
{
    shardc_error error = {.text = ""};
    sc_array array = t->executor->verbs->get_state(t->executor->self, t->set.states[index], &error);
    if (array.data == NULL)
        failed(t->context, &error);
    return array;
}

const sc_executor *sc_trainer_executor(const sc_trainer *t)
{
    return t->executor;
}

uint64_t sc_trainer_steps(const sc_trainer *t)
{
    return t->steps;
}

uint64_t sc_trainer_skipped(const sc_trainer *t)
{
    return t->skipped;
}

/* ---- inputs ---- */

/* Lists the names of the entry's inputs, in whose order arrays are given. */
static void list_inputs(sc_trainer *t)
{
    const sc_fact_entry *entry = &t->facts->entry;
    t->names = sc_arena_array(&t->context->arena, entry->inputs.count + 1u, sizeof *t->names);
    for (uint32_t i = 0; i < entry->inputs.count; i++)
        t->names[t->input_count++] = entry->inputs.data[i].name;
}

static bool check_inputs(sc_trainer *t, const sc_array *inputs, uint32_t count)
{
    if (count != t->input_count)
        return fail(t->context, "the step has a different number of inputs");
    for (uint32_t i = 0; i < count; i++) {
        const shardc_tensor_info *info = sc_executor_find_input(&t->executor->step, t->names[i]);
        bool fits = inputs[i].data != NULL;
        if (info == NULL) /* nothing reads it */
            continue;
        fits = fits && inputs[i].rank == info->rank;
        for (uint32_t d = 0; fits && d < info->rank; d++)
            fits = inputs[i].sizes[d] ==
                   info->dims[d].size *
                       ((int)d == info->batch_dim ? (int64_t)t->executor->micro_batches : 1);
        if (!fits)
            return fail(t->context, "an input is not of the global batch's shape");
    }
    return true;
}

/* ---- train step ---- */

/* Gets the steps that count for the optimizer, without skipped ones; with loss scaling the program
 * counts them itself. */
static bool steps_taken(const sc_trainer *t, int64_t *out)
{
    shardc_error error = {.text = ""};
    *out = (int64_t)(t->steps - t->skipped);
    if (t->taken == SHARDC_NOT_FOUND)
        return true;
    sc_array taken = t->executor->verbs->get_state(t->executor->self, t->taken, &error);
    bool is_known = taken.data != NULL;
    if (is_known)
        *out = (int64_t)taken.data[0];
    sc_array_free(&taken);
    return is_known || failed(t->context, &error);
}

static void find_scalars(sc_trainer *t)
{
    t->scalars = sc_arena_array(&t->context->arena, t->group_count, sizeof *t->scalars);
    for (uint32_t g = 0; g < t->group_count; g++) {
        for (uint32_t i = 0; i < SC_SCALAR_COUNT; i++) {
            char name[64];
            snprintf(name, sizeof name, "optimizer%u.%s", g, sc_scalar_names[i]);
            t->scalars[g][i] = sc_executor_find_state(t->executor, name);
        }
    }
    t->taken = t->facts->train.scales ? sc_executor_find_state(t->executor, SC_SCALE_TAKEN_STATE)
                                      : SHARDC_NOT_FOUND;
}

/* A checkpoint of another precision may not have counted the applied steps. */
bool sc_trainer_set_steps(sc_trainer *t, uint64_t steps, uint64_t skipped)
{
    shardc_error error = {.text = ""};
    double taken = (double)(steps - skipped);
    t->steps = steps;
    t->skipped = skipped;
    return t->taken == SHARDC_NOT_FOUND ||
           t->executor->verbs->set_state(t->executor->self, t->taken, &taken, &error) ||
           failed(t->context, &error);
}

static bool set_scalars(sc_trainer *t)
{
    shardc_error error;
    int64_t taken;
    if (!steps_taken(t, &taken))
        return false;
    for (uint32_t g = 0; g < t->group_count; g++) {
        double scalars[SC_SCALAR_COUNT];
        sc_optimizer_scalars(&t->groups[g], taken + 1, scalars);
        scalars[SC_SCALAR_LR] = sc_rate_at(&t->groups[g].lr, (int64_t)t->steps + 1);
        for (uint32_t i = 0; i < SC_SCALAR_COUNT; i++) {
            uint32_t state = t->scalars[g][i];
            if (state != SHARDC_NOT_FOUND &&
                !t->executor->verbs->set_state(t->executor->self, state, &scalars[i], &error))
                return failed(t->context, &error);
        }
    }
    return true;
}

static void free_outputs(sc_trainer *t)
{
    for (uint32_t i = 0; i < t->result_count; i++)
        sc_array_free(&t->outputs[i]);
}

static bool run_step(sc_trainer *t, const sc_array *inputs, uint32_t count)
{
    shardc_error error = {.text = ""};
    const sc_named_arrays named = {t->names, inputs, count};
    t->executor->verbs->set_random(t->executor->self, t->options->seed, t->steps + 1, 0);
    return t->executor->verbs->step(t->executor->self, &named, t->outputs, t->result_count,
                                    &error) ||
           failed(t->context, &error);
}

bool sc_trainer_scale(const sc_trainer *t, double *out)
{
    shardc_error error = {.text = ""};
    uint32_t state = t->facts->train.scales ? sc_executor_find_state(t->executor, SC_SCALE_STATE)
                                            : SHARDC_NOT_FOUND;
    *out = 0;
    if (state == SHARDC_NOT_FOUND)
        return true;
    sc_array scale = t->executor->verbs->get_state(t->executor->self, state, &error);
    bool is_known = scale.data != NULL;
    *out = is_known ? scale.data[0] : 0;
    sc_array_free(&scale);
    return is_known || failed(t->context, &error);
}

/* Sets *can_fall if a lower loss scale could make the gradients finite. False after a message: the
 * scale cannot be read. */
static bool ask_scale(const sc_trainer *t, bool *can_fall)
{
    double scale;
    bool is_known = sc_trainer_scale(t, &scale);
    *can_fall = is_known && scale >= 1;
    return is_known;
}

bool sc_trainer_step(sc_trainer *t, const sc_array *inputs, uint32_t count, sc_step_result *out)
{
    if (!check_inputs(t, inputs, count) || !set_scalars(t))
        return false;
    free_outputs(t);
    if (!run_step(t, inputs, count))
        return false;
    t->steps++;
    bool is_finite = isfinite(t->outputs[0].data[0]) && isfinite(t->outputs[1].data[0]);
    bool skipped = t->facts->train.scales ? t->outputs[2].data[0] == 0 : !is_finite,
         can_fall = false;
    if (skipped && !ask_scale(t, &can_fall))
        return false;
    t->skipped += skipped;
    uint32_t first = t->result_count - t->facts->train.metric_count;
    for (uint32_t i = first; i < t->result_count; i++)
        t->metrics[i - first] = t->outputs[i].data[0];
    *out = (sc_step_result){.loss = t->outputs[0].data[0],
                            .grad_norm = t->outputs[1].data[0],
                            .lr = sc_rate_at(&t->groups[0].lr, (int64_t)t->steps),
                            .skipped = skipped,
                            .diverges = skipped && (!isfinite(t->outputs[0].data[0]) || !can_fall),
                            .metric_count = t->facts->train.metric_count,
                            .metrics = t->metrics};
    return true;
}

/* ---- the forward function ---- */

bool sc_trainer_evaluate(sc_trainer *t, const sc_array *inputs, uint32_t count, double *total,
                         double *weight)
{
    shardc_error error = {.text = ""};
    uint32_t func = t->facts->entry.func;
    if (func >= t->executor->func_count)
        return fail(t->context, "the program has no forward function");
    uint32_t output_count = t->executor->funcs[func].output_count;
    sc_array *outputs = t->held_out;
    const sc_named_arrays named = {t->names, inputs, count};
    bool ok =
        t->executor->verbs->run(t->executor->self, func, &named, outputs, output_count, &error);
    if (ok) {
        *total = outputs[0].data[0];
        *weight = output_count > 1 ? outputs[1].data[0] : 1;
    }
    for (uint32_t i = 0; i < output_count; i++)
        sc_array_free(&outputs[i]);
    return ok || failed(t->context, &error);
}

/* ---- creation and destruction ---- */

/* Sets the states whose initial value is not 0. */
static bool set_constants(sc_trainer *t)
{
    shardc_error error;
    for (uint32_t i = 0; i < t->facts->train.constants.count; i++) {
        const sc_fact_constant *constant = &t->facts->train.constants.data[i];
        uint32_t state = sc_executor_find_state(t->executor, constant->path);
        if (state != SHARDC_NOT_FOUND &&
            !t->executor->verbs->set_state(t->executor->self, state, &constant->value, &error))
            return failed(t->context, &error);
    }
    return true;
}

/* The program may come from elsewhere, so its facts are checked. */
static bool check_facts(sc_trainer *t)
{
    const sc_executor_func *step = &t->executor->step;
    bool fits = step->name != NULL && step->output_count == t->result_count;
    for (uint32_t i = 0; fits && i < step->input_count; i++) {
        uint32_t at = 0;
        while (at < t->input_count && strcmp(t->names[at], step->inputs[i].name) != 0)
            at++;
        fits = at < t->input_count;
    }
    return fits || fail(t->context, "the facts of the program contradict its functions");
}

static bool open_trainer(sc_trainer *t)
{
    sc_arena *arena = &t->context->arena;
    const sc_fact_train *train = &t->facts->train;
    t->group_count = train->groups.count;
    t->groups = sc_arena_array(arena, t->group_count + 1u, sizeof *t->groups);
    memcpy(t->groups, train->groups.data, t->group_count * sizeof *t->groups);
    t->result_count = 2 + train->scales + train->metric_count;
    t->outputs = sc_arena_array(arena, t->result_count, sizeof *t->outputs);
    t->metrics = sc_arena_array(arena, t->result_count, sizeof *t->metrics);
    uint32_t forward = t->facts->entry.func;
    if (forward < t->executor->func_count)
        t->held_out = sc_arena_array(arena, t->executor->funcs[forward].output_count + 1u,
                                     sizeof *t->held_out);
    sc_state_set_of(t->context, t->executor, true, &t->set);
    find_scalars(t);
    list_inputs(t);
    return check_facts(t) &&
           sc_apply_settings(t->context, t->options->set, t->groups, t->group_count) &&
           sc_fill_parameters(t->context, t->facts, t->options, t->executor) && set_constants(t);
}

sc_trainer *sc_trainer_new(sc_context *context, const sc_facts *facts,
                           const sc_run_options *options, sc_executor *executor)
{
    sc_trainer *t = sc_arena_alloc(&context->arena, sizeof *t);
    *t = (sc_trainer){.context = context, .facts = facts, .options = options, .executor = executor};
    if (open_trainer(t))
        return t;
    sc_trainer_free(t);
    return NULL;
}

void sc_trainer_free(sc_trainer *t)
{
    if (t == NULL)
        return;
    free_outputs(t);
}
