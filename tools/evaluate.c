#include "tools/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    sc_interp *interp;
} filling;

static bool set_state(void *user, uint32_t state, const double *values)
{
    const filling *f = user;
    sc_sym name = sc_intern_printf(&f->m->context->names, "%s.master", sc_text(f->m->context, f->m->state.data[state].path));
    uint32_t master = sc_module_find_state(f->m, name);
    return sc_interp_set_state(f->interp, state, values) && (master == SC_NONE || sc_interp_set_state(f->interp, master, values));
}

static bool initialise(sc_context *context, sc_interp *interp, const sc_module *m, uint64_t seed)
{
    for (uint32_t i = 0; i < m->state.count; i++) {
        int64_t count = sc_type_elements(&m->types.data[m->state.data[i].type]);
        if (m->state.data[i].kind != SC_STATE_PARAM)
            continue;
        double *values = (uint64_t)count > SIZE_MAX / sizeof *values ? NULL : malloc((size_t)count * sizeof *values);
        if (values != NULL)
            sc_initial_values(m, i, seed, values);
        bool ok = values != NULL && set_state(&(filling){m, interp}, i, values);
        free(values);
        if (!ok) {
            report_run(context, "there is not enough memory for the parameters");
            return false;
        }
    }
    return true;
}

bool sc_fill_parameters(sc_context *context, const sc_compiled *c, const sc_module *m, const sc_options *options, sc_interp *interp)
{
    if (options->weights == NULL)
        return initialise(context, interp, m, options->seed);
    filling both = {m, interp};
    const sc_weights *weights;
    return sc_weights_choose(context, c->program, c->model, options->map, &weights) &&
           sc_weights_load(context, c->program, weights, m, options->weights, set_state, &both);
}

/* ---- memory ---- */

/* Of the state, and of the largest op with what it reads. The machine would rather end the process than give a NULL. */
static bool fits_in_memory(sc_context *context, const sc_module *m, sc_func_id func)
{
    double ranks = (double)sc_mesh_ranks(&m->mesh), state = 0, largest = 0;
    double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < m->state.count; i++)
        state += (double)sc_type_local_elements(m, &m->types.data[m->state.data[i].type]);
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        double bytes = 0;
        for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
            sc_value value = v < op->operand_count ? op->operands[v] : op->first_result + v - op->operand_count;
            bytes += (double)sc_type_local_elements(m, sc_type_of(m, value));
        }
        largest = fmax(largest, bytes);
    }
    double needed = (state + largest) * ranks * sizeof(double);
    if (needed <= available)
        return true;
    report_run(
        context,
        sc_arena_printf(&context->arena,
                        "running this here, every rank in the interpreter, needs at least %.3g GiB of memory; this machine has %.3g GiB",
                        needed / 0x1p30, available / 0x1p30));
    return false;
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

static bool run_batch(sc_context *context, sc_interp *interp, sc_func_id func, const sc_feed *feed, sc_evaluation *out)
{
    char error[512] = "";
    free_outputs(out);
    if (!sc_interp_run(interp, func, feed->arrays, feed->count, out->arrays, out->output_count, error, sizeof error)) {
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

static bool run_batches(sc_context *context, const sc_compiled *c, const sc_options *options, sc_feed *feed, sc_interp *interp,
                        sc_evaluation *out)
{
    uint64_t batches;
    bool ok = count_batches(context, options, feed, &batches) && sc_fill_parameters(context, c, out->m, options, interp);
    for (uint64_t b = 0; ok && b < batches; b++) {
        sc_feed_batch(feed, b);
        ok = run_batch(context, interp, c->func, feed, out);
    }
    out->batches_in_file = feed->batches;
    return ok;
}

bool sc_evaluate(sc_context *context, const sc_compiled *c, const sc_options *options, sc_evaluation *out)
{
    bool ranks = sc_mesh_ranks(&c->local->mesh) > 1;
    sc_feed feed;
    *out = (sc_evaluation){.m = ranks ? c->local : c->global};
    list_outputs(context, out->m, c->func, out);
    bool ok = sc_feed_open(context, c, options, SC_FEED_AS_STORED, &feed) && fits_in_memory(context, out->m, c->func);
    sc_interp *interp = ok ? sc_interp_new(out->m, &(sc_interp_options){.ranks = ranks, .round = true}) : NULL;
    if (ok && interp == NULL)
        report_run(context, "there is not enough memory");
    ok = interp != NULL && run_batches(context, c, options, &feed, interp, out);
    sc_interp_free(interp);
    sc_feed_close(&feed);
    return ok;
}

void sc_evaluation_free(sc_evaluation *evaluation)
{
    free_outputs(evaluation);
}
