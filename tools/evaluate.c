#include "tools/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "tools/feed.h"
#include "tools/load_weights.h"

static void report_run(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
}

/* ---- parameters ---- */

void sc_initial_values(const sc_module *m, uint32_t state_index, uint64_t seed, double *values)
{
    const sc_state *state = &m->state.data[state_index];
    const char *path = sc_text(m->context, state->path);
    uint64_t stream = sc_fnv1a64(path, strlen(path));
    int64_t count = sc_type_elements(&m->types.data[state->type]);
    sc_init_values(state->init, state->init_args, seed, stream, 0, (uint64_t)count, values);
}

/* A parameter's value, for its master copy too. */
typedef struct filling {
    const sc_module *m;
    sc_runner *runner;
} filling;

static bool set_state(void *user, uint32_t state, const double *values)
{
    const filling *f = user;
    sc_sym name = sc_intern_printf(&f->m->context->names, "%s.master", sc_text(f->m->context, f->m->state.data[state].path));
    uint32_t master = sc_module_find_state(f->m, name);
    return sc_runner_set_state(f->runner, state, values) && (master == SC_NONE || sc_runner_set_state(f->runner, master, values));
}

static bool initialise(sc_context *context, sc_runner *runner, const sc_module *m, uint64_t seed)
{
    for (uint32_t i = 0; i < m->state.count; i++) {
        int64_t count = sc_type_elements(&m->types.data[m->state.data[i].type]);
        if (m->state.data[i].kind != SC_STATE_PARAM)
            continue;
        double *values = (uint64_t)count > SIZE_MAX / sizeof *values ? NULL : malloc((size_t)count * sizeof *values);
        if (values != NULL)
            sc_initial_values(m, i, seed, values);
        bool ok = values != NULL && set_state(&(filling){m, runner}, i, values);
        free(values);
        if (!ok) {
            report_run(context, "there is not enough memory for the parameters");
            return false;
        }
    }
    return true;
}

bool sc_fill_parameters(sc_context *context, const sc_compiled *c, const sc_options *options, sc_runner *runner)
{
    const sc_module *m = sc_runner_module(runner);
    if (options->weights == NULL)
        return initialise(context, runner, m, options->seed);
    filling both = {m, runner};
    const sc_weights *weights;
    return sc_weights_choose(context, c->program, c->model, options->map, &weights) &&
           sc_weights_load(context, c->program, weights, m, options->weights, set_state, &both);
}

/* ---- batches ---- */

static void list_outputs(sc_context *context, const sc_module *m, sc_func_id func, sc_evaluation *out)
{
    const sc_op *op = sc_op_at(m, m->funcs.data[func].last);
    out->output_count = op->kind == SC_OP_return ? op->operand_count : 0;
    out->outputs = sc_arena_array(&context->arena, out->output_count + 1u, sizeof *out->outputs);
    out->arrays = sc_arena_array(&context->arena, out->output_count + 1u, sizeof *out->arrays);
    out->sums = sc_arena_array(&context->arena, out->output_count + 1u, sizeof *out->sums);
    out->is_scalar = out->output_count > 0;
    for (uint32_t i = 0; i < out->output_count; i++) {
        out->outputs[i] = op->operands[i];
        out->is_scalar = out->is_scalar && sc_type_of(m, op->operands[i])->rank == 0;
    }
}

static void free_outputs(sc_evaluation *evaluation)
{
    for (uint32_t i = 0; i < evaluation->output_count; i++)
        sc_array_free(&evaluation->arrays[i]);
}

static bool run_batch(sc_context *context, sc_runner *runner, sc_func_id func, const sc_feed *feed, sc_evaluation *out)
{
    char error[512] = "";
    free_outputs(out);
    if (!sc_runner_run(runner, func, feed->arrays, feed->count, out->arrays, out->output_count, error, sizeof error)) {
        report_run(context, sc_arena_printf(&context->arena, "%s", error));
        return false;
    }
    for (uint32_t i = 0; i < out->output_count; i++)
        out->sums[i] += out->arrays[i].rank == 0 ? out->arrays[i].data[0] : 0;
    out->batches++;
    return true;
}

static bool count_batches(sc_context *context, const sc_options *options, const sc_feed *feed, uint64_t *batches)
{
    *batches = options->steps > 0 ? (uint64_t)options->steps : 1;
    if (feed->tokens == NULL || *batches <= feed->batches)
        return true;
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s holds %llu batches, but --steps asks for %llu", options->data,
                              (unsigned long long)feed->batches, (unsigned long long)*batches),
              NULL);
    return false;
}

static bool run_batches(sc_context *context, const sc_compiled *c, const sc_options *options, sc_feed *feed, sc_runner *runner,
                        sc_evaluation *out)
{
    uint64_t batches;
    bool ok = count_batches(context, options, feed, &batches) && sc_fill_parameters(context, c, options, runner);
    for (uint64_t b = 0; ok && b < batches; b++) {
        sc_feed_batch(feed, b);
        ok = run_batch(context, runner, c->func, feed, out);
    }
    out->batches_in_file = feed->batches;
    return ok;
}

bool sc_evaluate(sc_context *context, const sc_compiled *c, const sc_options *options, sc_evaluation *out)
{
    sc_feed feed;
    *out = (sc_evaluation){.m = c->local};
    list_outputs(context, out->m, c->func, out);
    bool ok = sc_feed_open(context, c, options, SC_FEED_AS_STORED, &feed);
    sc_runner *runner = ok ? sc_runner_new(context, c, options) : NULL;
    ok = runner != NULL && run_batches(context, c, options, &feed, runner, out);
    sc_runner_free(runner);
    sc_feed_close(&feed);
    return ok;
}

void sc_evaluation_free(sc_evaluation *evaluation)
{
    free_outputs(evaluation);
}
