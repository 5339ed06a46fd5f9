#include "tools/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "passes/train_step.h"
#include "tools/evaluate.h"
#include "tools/settings.h"

struct sc_trainer {
    sc_context *context;
    const sc_compiled *c;
    const sc_module *m; /* what is run: the per-rank program, or the global one on one device */
    const sc_train_step *step;
    const sc_options *options;
    sc_runner *runner, *evaluator; /* evaluator: the forward program; NULL until wanted */
    sc_compiled forward;
    sc_optimizer_settings *groups;
    uint32_t group_count;
    uint64_t steps, copied_at; /* copied_at: the steps whose parameters the evaluator has */
    uint32_t *states, state_count; /* those that a checkpoint holds */
    uint32_t input_count;
    sc_array *parts; /* by input: of one micro-batch */
    int *split_dim;  /* by input: the dim that micro-batches split, or -1 */
    uint32_t result_count;
    sc_array *outputs;
    double *metrics;
};

static bool fail(sc_trainer *t, const char *text)
{
    sc_report(&t->context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- state ---- */

static void list_states(sc_trainer *t)
{
    t->states = sc_arena_array(&t->context->arena, t->m->state.count, sizeof *t->states);
    for (uint32_t s = 0; s < t->m->state.count; s++) {
        sc_state_kind kind = t->m->state.data[s].kind;
        if (kind == SC_STATE_PARAM || kind == SC_STATE_OPT)
            t->states[t->state_count++] = s;
    }
}

uint32_t sc_trainer_state_count(const sc_trainer *t)
{
    return t->state_count;
}

const char *sc_trainer_state_name(const sc_trainer *t, uint32_t index)
{
    return sc_text(t->context, t->m->state.data[t->states[index]].path);
}

sc_array sc_trainer_get_state(const sc_trainer *t, uint32_t index)
{
    return sc_runner_get_state(t->runner, t->states[index]);
}

bool sc_trainer_set_state(sc_trainer *t, uint32_t index, const sc_array *array)
{
    const sc_type_info *type = &t->m->types.data[t->m->state.data[t->states[index]].type];
    bool fits = array->data != NULL && array->rank == type->rank;
    for (uint32_t i = 0; fits && i < type->rank; i++)
        fits = array->sizes[i] == type->dims[i].size;
    return fits && sc_runner_set_state(t->runner, t->states[index], array->data);
}

uint64_t sc_trainer_steps(const sc_trainer *t)
{
    return t->steps;
}

void sc_trainer_set_steps(sc_trainer *t, uint64_t steps)
{
    t->copied_at = UINT64_MAX;
    t->steps = steps;
}

/* ---- inputs: rows [i B / n, (i + 1) B / n) of the batch dim ---- */

static bool list_inputs(sc_trainer *t)
{
    sc_arena *arena = &t->context->arena;
    sc_for_each_op (t->m, t->step->micro, id)
        t->input_count += sc_op_at(t->m, id)->kind == SC_OP_input;
    t->parts = sc_arena_array(arena, t->input_count + 1u, sizeof *t->parts);
    t->split_dim = sc_arena_array(arena, t->input_count + 1u, sizeof *t->split_dim);
    uint32_t at = 0;
    sc_for_each_op (t->m, t->step->micro, id) {
        if (sc_op_at(t->m, id)->kind != SC_OP_input)
            continue;
        const sc_type_info *type = sc_type_of(t->m, sc_result(t->m, id, 0));
        sc_dim batch = t->step->training->batch_dim;
        int64_t sizes[SC_MAX_RANK];
        for (uint32_t i = 0; i < type->rank; i++)
            sizes[i] = type->dims[i].size;
        t->split_dim[at] = batch == SC_NONE ? -1 : sc_type_find_dim(type, batch);
        t->parts[at] = sc_array_new(type->rank, sizes);
        if (t->parts[at++].data == NULL)
            return fail(t, "there is not enough memory for the inputs");
    }
    return true;
}

/* The micro-batch's rows of one whole input. */
static void take_part(const sc_array *whole, int dim, int32_t micro_batch, sc_array *part)
{
    if (dim < 0) {
        memcpy(part->data, whole->data, (size_t)part->count * sizeof *part->data);
        return;
    }
    int64_t outer = 1, inner = 1, rows = part->sizes[dim];
    for (int i = 0; i < dim; i++)
        outer *= part->sizes[i];
    for (uint32_t i = (uint32_t)dim + 1; i < part->rank; i++)
        inner *= part->sizes[i];
    for (int64_t o = 0; o < outer; o++)
        memcpy(part->data + o * rows * inner, whole->data + (o * whole->sizes[dim] + micro_batch * rows) * inner,
               (size_t)(rows * inner) * sizeof *part->data);
}

static bool check_inputs(sc_trainer *t, const sc_array *inputs, uint32_t count)
{
    if (count != t->input_count)
        return fail(t, "the step has another number of inputs");
    for (uint32_t i = 0; i < count; i++) {
        bool fits = inputs[i].data != NULL && inputs[i].rank == t->parts[i].rank;
        for (uint32_t d = 0; fits && d < inputs[i].rank; d++)
            fits = inputs[i].sizes[d] == t->parts[i].sizes[d] * ((int)d == t->split_dim[i] ? t->step->training->micro_batches : 1);
        if (!fits)
            return fail(t, "an input is not of the global batch's shape");
    }
    return true;
}

/* ---- a step ---- */

/* With loss scaling, steps that were not taken do not count for the optimizer. */
static int64_t steps_taken(const sc_trainer *t)
{
    uint32_t state = sc_module_find_state(t->m, sc_intern_text(&t->context->names, SC_SCALE_TAKEN_STATE));
    sc_array taken = !t->step->scales || state == SC_NONE ? (sc_array){0} : sc_runner_get_state(t->runner, state);
    int64_t count = taken.data == NULL ? (int64_t)t->steps : (int64_t)taken.data[0];
    sc_array_free(&taken);
    return count;
}

static bool set_scalars(sc_trainer *t)
{
    int64_t taken = steps_taken(t);
    for (uint32_t g = 0; g < t->group_count; g++) {
        double scalars[SC_SCALAR_COUNT];
        sc_optimizer_scalars(&t->groups[g], taken + 1, scalars);
        scalars[SC_SCALAR_LR] = sc_rate_at(&t->groups[g].lr, (int64_t)t->steps + 1);
        for (uint32_t i = 0; i < SC_SCALAR_COUNT; i++) {
            char name[64];
            snprintf(name, sizeof name, "optimizer%u.%s", g, sc_scalar_names[i]);
            uint32_t state = sc_module_find_state(t->m, sc_intern_text(&t->context->names, name));
            if (state != SC_NONE && !sc_runner_set_state(t->runner, state, &scalars[i]))
                return fail(t, "there is not enough memory");
        }
    }
    return true;
}

static void free_outputs(sc_trainer *t)
{
    for (uint32_t i = 0; i < t->result_count; i++)
        sc_array_free(&t->outputs[i]);
}

static bool run_call(sc_trainer *t, const sc_call *call, const sc_array *inputs)
{
    char error[512] = "";
    bool is_micro = call->func == t->step->micro, ok;
    sc_runner_set_random(t->runner, t->options->seed, t->steps + 1, is_micro ? (uint32_t)call->microbatch : 0);
    for (uint32_t i = 0; is_micro && i < t->input_count; i++)
        take_part(&inputs[i], t->split_dim[i], call->microbatch, &t->parts[i]);
    if (is_micro)
        ok = sc_runner_run(t->runner, call->func, t->parts, t->input_count, NULL, 0, error, sizeof error);
    else
        ok = sc_runner_run(t->runner, call->func, NULL, 0, t->outputs, call->func == t->step->update ? t->result_count : 0, error,
                           sizeof error);
    return ok || fail(t, sc_arena_printf(&t->context->arena, "%s", error));
}

bool sc_trainer_step(sc_trainer *t, const sc_array *inputs, uint32_t count, sc_step_result *out)
{
    if (!check_inputs(t, inputs, count) || !set_scalars(t))
        return false;
    free_outputs(t);
    for (uint32_t i = 0; i < t->m->schedule.count; i++) {
        if (!run_call(t, &t->m->schedule.data[i], inputs))
            return false;
    }
    t->steps++;
    uint32_t first = t->result_count - t->step->metric_count;
    for (uint32_t i = first; i < t->result_count; i++)
        t->metrics[i - first] = t->outputs[i].data[0];
    *out = (sc_step_result){.loss = t->outputs[0].data[0],
                            .grad_norm = t->outputs[1].data[0],
                            .lr = sc_rate_at(&t->groups[0].lr, (int64_t)t->steps),
                            .skipped = t->step->scales && t->outputs[2].data[0] == 0,
                            .metric_count = t->step->metric_count,
                            .metrics = t->metrics};
    return true;
}

/* ---- the forward program ---- */

static bool open_evaluator(sc_trainer *t)
{
    sc_options forward = *t->options;
    const char *name = sc_text(t->context, t->c->entry);
    forward.entry = name;
    forward.forward = true;
    if (!sc_driver_compile(t->context, t->c->program, t->c->plan, &forward, NULL, NULL, sc_runner_last_pass(&forward), &t->forward))
        return false;
    t->evaluator = sc_runner_new(t->context, &t->forward, &forward);
    return t->evaluator != NULL;
}

static bool copy_parameters(sc_trainer *t)
{
    const sc_module *to = sc_runner_module(t->evaluator);
    for (uint32_t s = 0; s < to->state.count; s++) {
        uint32_t from = sc_module_find_state(t->m, to->state.data[s].path);
        sc_array array = from == SC_NONE ? (sc_array){0} : sc_runner_get_state(t->runner, from);
        bool ok = array.data != NULL && sc_runner_set_state(t->evaluator, s, array.data);
        sc_array_free(&array);
        if (!ok)
            return fail(t, "there is not enough memory for the held-out loss");
    }
    return true;
}

bool sc_trainer_evaluate(sc_trainer *t, const sc_array *inputs, uint32_t count, double *total, double *weight)
{
    char error[512] = "";
    if ((t->evaluator == NULL && !open_evaluator(t)) || (t->copied_at != t->steps && !copy_parameters(t)))
        return false;
    t->copied_at = t->steps;
    const sc_module *m = t->forward.global;
    const sc_op *returned = sc_op_at(m, m->funcs.data[t->forward.func].last);
    sc_array *outputs = sc_arena_array(&t->context->arena, returned->operand_count, sizeof *outputs);
    if (!sc_runner_run(t->evaluator, t->forward.func, inputs, count, outputs, returned->operand_count, error, sizeof error))
        return fail(t, sc_arena_printf(&t->context->arena, "%s", error));
    *total = outputs[0].data[0];
    *weight = returned->operand_count > 1 ? outputs[1].data[0] : 1;
    for (uint32_t i = 0; i < returned->operand_count; i++)
        sc_array_free(&outputs[i]);
    return true;
}

/* ---- life ---- */

/* State of the step that does not begin with 0. */
static bool set_constants(sc_trainer *t)
{
    for (uint32_t s = 0; s < t->m->state.count; s++) {
        const sc_state *state = &t->m->state.data[s];
        bool is_constant = state->kind == SC_STATE_OPT && state->init == SC_INIT_CONSTANT && t->m->types.data[state->type].rank == 0;
        if (is_constant && !sc_runner_set_state(t->runner, s, &state->init_args[0]))
            return fail(t, "there is not enough memory");
    }
    return true;
}

static bool open_trainer(sc_trainer *t)
{
    sc_arena *arena = &t->context->arena;
    t->runner = sc_runner_new(t->context, t->c, t->options);
    if (t->runner == NULL)
        return false;
    t->m = sc_runner_module(t->runner);
    t->step = sc_runner_step(t->runner);
    const sc_training *training = t->step->training;
    t->group_count = training->groups.count;
    t->groups = sc_arena_array(arena, t->group_count + 1u, sizeof *t->groups);
    memcpy(t->groups, training->groups.data, t->group_count * sizeof *t->groups);
    t->result_count = 2 + t->step->scales + t->step->metric_count;
    t->outputs = sc_arena_array(arena, t->result_count, sizeof *t->outputs);
    t->metrics = sc_arena_array(arena, t->result_count, sizeof *t->metrics);
    list_states(t);
    return sc_apply_settings(t->context, t->options->set, t->groups, t->group_count) && list_inputs(t) && set_constants(t) &&
           sc_fill_parameters(t->context, t->c, t->options, t->runner);
}

sc_trainer *sc_trainer_new(sc_context *context, const sc_compiled *c, const sc_options *options)
{
    sc_trainer *t = sc_arena_alloc(&context->arena, sizeof *t);
    *t = (sc_trainer){.context = context, .c = c, .options = options, .copied_at = UINT64_MAX};
    if (open_trainer(t))
        return t;
    sc_trainer_free(t);
    return NULL;
}

void sc_trainer_free(sc_trainer *t)
{
    if (t == NULL)
        return;
    for (uint32_t i = 0; i < t->input_count && t->parts != NULL; i++)
        sc_array_free(&t->parts[i]);
    if (t->outputs != NULL)
        free_outputs(t);
    sc_runner_free(t->runner);
    sc_runner_free(t->evaluator);
}
