#include "tools/verify/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/verify/join_batches.h"

struct sc_runner {
    const sc_module *m;
    sc_interp *interp;
    shardc_executable *program;
    shardc_session *session;
    bool is_shared; /* the program belongs to another runner */
};

const sc_module *sc_runner_module(const sc_runner *runner)
{
    return runner->m;
}

static sc_runner *failed(sc_context *context, sc_runner *runner, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    sc_runner_free(runner);
    return NULL;
}

/* Checks in advance, because the system may kill the process rather than refuse memory. */
bool sc_fits_here(double needed)
{
    return needed <= (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

const char *sc_too_large(sc_context *context, const char *how, double needed)
{
    double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return sc_arena_printf(&context->arena,
                           "running this here, every rank %s, needs at least %.3g GiB of memory; "
                           "this machine has %.3g GiB",
                           how, needed / 0x1p30, available / 0x1p30);
}

/* ---- the interpreter ---- */

sc_runner *sc_runner_interpret(const sc_module *m, const sc_interp_options *options)
{
    sc_runner *runner = calloc(1, sizeof *runner);
    if (runner == NULL)
        return NULL;
    *runner = (sc_runner){.m = m, .interp = sc_interp_new(m, options)};
    if (runner->interp != NULL)
        return runner;
    free(runner);
    return NULL;
}

/* ---- emitted code ---- */
static sc_runner *new_runner(sc_context *context)
{
    sc_runner *runner = calloc(1, sizeof *runner);
    return runner != NULL ? runner : failed(context, NULL, "there is not enough memory");
}

sc_runner *sc_runner_load(sc_context *context, const sc_generate_part *part,
                          const sc_target *target, uint32_t threads)
{
    sc_generated_program generated;
    shardc_error error;
    sc_strbuf bytes;
    int64_t host;
    const sc_generate_options how = {.target = target};
    sc_runner *runner = sc_generate_program(part, 1, &how, &generated) ? new_runner(context) : NULL;
    if (runner == NULL)
        return NULL;
    runner->m = part->m;
    double needed = sc_generated_needs(&generated, true, &host);
    if ((target == NULL || !sc_target_is_cuda(target)) && !sc_fits_here(needed))
        return failed(context, runner, sc_too_large(context, "as a thread", needed));
    sc_strbuf_init(&bytes, &context->arena);
    sc_generated_write(&generated, &bytes);
    if (shardc_executable_read(bytes.data, bytes.length, &runner->program, &error) != SHARDC_OK ||
        shardc_session_new(runner->program, &(shardc_session_options){.threads = threads},
                           &runner->session, &error) != SHARDC_OK)
        return failed(context, runner, sc_arena_printf(&context->arena, "%s", error.text));
    return runner;
}

sc_runner *sc_runner_again(sc_context *context, const sc_runner *of, uint32_t threads)
{
    shardc_error error;
    sc_runner *runner = new_runner(context);
    if (runner == NULL)
        return NULL;
    *runner = (sc_runner){.m = of->m, .program = of->program, .is_shared = true};
    if (shardc_session_new(runner->program, &(shardc_session_options){.threads = threads},
                           &runner->session, &error) != SHARDC_OK)
        return failed(context, runner, sc_arena_printf(&context->arena, "%s", error.text));
    return runner;
}

shardc_session *sc_runner_session(const sc_runner *runner)
{
    return runner->session;
}

void sc_runner_free(sc_runner *runner)
{
    if (runner == NULL)
        return;
    sc_interp_free(runner->interp);
    shardc_session_free(runner->session);
    if (!runner->is_shared)
        shardc_executable_free(runner->program);
    free(runner);
}

const shardc_executable *sc_runner_program(const sc_runner *runner)
{
    return runner->program;
}

sc_func_id sc_runner_last(const sc_runner *runner)
{
    int32_t micro_batch;
    uint32_t calls = runner->program == NULL ? 0 : shardc_executable_call_count(runner->program);
    return calls == 0 ? SC_NONE : shardc_executable_call(runner->program, calls - 1, &micro_batch);
}

/* ---- values ---- */
static sc_array whole_array(const sc_type_info *type)
{
    int64_t sizes[SC_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++)
        sizes[i] = type->dims[i].size;
    return sc_array_new(type->rank, sizes);
}

/* Programs of several stages number their states by stage. SHARDC_NOT_FOUND: no state, but a slot.
 */
static uint32_t state_in_program(const sc_runner *runner, uint32_t state)
{
    const sc_module *m = runner->m;
    return sc_module_is_cut(m)
               ? shardc_executable_find_state(runner->program,
                                              sc_text(m->context, m->state.data[state].path))
               : state;
}

bool sc_runner_set_state(sc_runner *runner, uint32_t state, const double *global)
{
    if (runner->interp != NULL)
        return sc_interp_set_state(runner->interp, state, global);
    shardc_tensor_info info;
    state = state_in_program(runner, state);
    if (state == SHARDC_NOT_FOUND)
        return true;
    shardc_executable_state(runner->program, state, &info);
    return shardc_session_set_state(runner->session, state, global,
                                    (size_t)info.count * sizeof *global, "f64", NULL) == SHARDC_OK;
}

sc_array sc_runner_get_state(const sc_runner *runner, uint32_t state)
{
    if (runner->interp != NULL)
        return sc_interp_get_state(runner->interp, state, NULL);
    sc_array array = whole_array(sc_state_type(runner->m, state));
    size_t bytes = (size_t)array.count * sizeof *array.data;
    state = state_in_program(runner, state);
    if (array.data != NULL && shardc_session_get_state(runner->session, state, array.data, bytes,
                                                       "f64", NULL) != SHARDC_OK)
        sc_array_free(&array);
    return array;
}

void sc_runner_set_random(sc_runner *runner, uint64_t seed, uint64_t step, uint32_t micro_batch)
{
    if (runner->interp != NULL)
        sc_interp_set_random(runner->interp, seed, step, micro_batch);
    else
        shardc_session_set_random(runner->session, seed, step, micro_batch);
}

static bool make_fetches(const sc_runner *runner, uint32_t func, sc_array *outputs, uint32_t count,
                         shardc_fetch_value *fetches)
{
    for (uint32_t i = 0; i < count; i++) {
        shardc_tensor_info info;
        int64_t sizes[SHARDC_TENSOR_MAX_RANK];
        shardc_executable_output(runner->program, func, i, &info);
        for (uint32_t d = 0; d < info.rank; d++)
            sizes[d] = info.dims[d].size;
        outputs[i] = sc_array_new(info.rank, sizes);
        if (outputs[i].data == NULL)
            return false;
        fetches[i] = (shardc_fetch_value){i, outputs[i].data,
                                          (size_t)outputs[i].count * sizeof(double), "f64"};
    }
    return true;
}

static bool run_session(sc_runner *runner, sc_func_id func, const sc_array *inputs,
                        uint32_t input_count, sc_array *outputs, uint32_t output_count,
                        shardc_feed_value *feeds, shardc_fetch_value *fetches, shardc_error *error)
{
    for (uint32_t i = 0; i < input_count; i++) {
        shardc_tensor_info info;
        shardc_executable_input(runner->program, func, i, &info);
        feeds[i] = (shardc_feed_value){info.name, inputs[i].data,
                                       (size_t)inputs[i].count * sizeof(double), "f64"};
    }
    return make_fetches(runner, func, outputs, output_count, fetches) &&
           shardc_session_run(runner->session, func, feeds, input_count, fetches, output_count,
                              error) == SHARDC_OK;
}

/* ---- programs of stages ---- */

/* The dim of an input that micro-batches split; -1: none; -2: no stage reads it. The function of an
 * entry takes all of them, and says nothing of a split: those that it calls do. */
static int batch_dim_of(const sc_runner *runner, const char *name)
{
    const shardc_executable *program = runner->program;
    shardc_tensor_info info;
    int found = -2;
    for (uint32_t f = 0; f < shardc_executable_func_count(program); f++) {
        for (uint32_t i = 0; i < shardc_executable_input_count(program, f); i++) {
            shardc_executable_input(program, f, i, &info);
            if (strcmp(info.name, name) == 0 && info.batch_dim > found)
                found = info.batch_dim;
        }
    }
    return found;
}

bool sc_runner_run_stages(sc_runner *runner, const sc_sym *names, sc_array *const *inputs,
                          uint32_t input_count, uint32_t micro_batches, sc_array *outputs,
                          uint32_t output_count, char *text, size_t text_size)
{
    shardc_error error = {.text = "there is not enough memory"};
    sc_func_id last = sc_runner_last(runner);
    shardc_feed_value *feeds = calloc(input_count + 1u, sizeof *feeds);
    shardc_fetch_value *fetches = calloc(output_count + 1u, sizeof *fetches);
    sc_array *joined = calloc(input_count + 1u, sizeof *joined);
    uint32_t fed = 0;
    bool ok = feeds != NULL && fetches != NULL && joined != NULL &&
              make_fetches(runner, last == SC_NONE ? 0 : last, outputs, output_count, fetches);
    for (uint32_t i = 0; i < input_count; i++) {
        const char *name = sc_text(runner->m->context, names[i]);
        int dim = batch_dim_of(runner, name);
        if (!ok || dim == -2)
            continue;
        joined[i] = sc_join_batches(inputs, i, micro_batches, dim < 0 ? SC_JOIN_ONE : SC_JOIN_ROWS,
                                    dim, SC_DTYPE_f64);
        ok = joined[i].data != NULL;
        feeds[fed++] = (shardc_feed_value){name, joined[i].data,
                                           (size_t)joined[i].count * sizeof(double), "f64"};
    }
    if (ok)
        ok = (last == SC_NONE ? shardc_session_run(runner->session, 0, feeds, fed, fetches,
                                                   output_count, &error)
                              : shardc_session_step(runner->session, feeds, fed, fetches,
                                                    output_count, &error)) == SHARDC_OK;
    for (uint32_t i = 0; i < input_count; i++) {
        if (joined != NULL)
            sc_array_free(&joined[i]);
    }
    free(joined);
    free(feeds);
    free(fetches);
    if (!ok)
        snprintf(text, text_size, "%s", error.text);
    return ok;
}

bool sc_runner_run(sc_runner *runner, sc_func_id func, const sc_array *inputs, uint32_t input_count,
                   sc_array *outputs, uint32_t output_count, char *text, size_t text_size)
{
    if (runner->interp != NULL)
        return sc_interp_run(runner->interp, func, inputs, input_count, outputs, output_count, text,
                             text_size);
    shardc_error error = {.text = "there is not enough memory"};
    shardc_feed_value *feeds = calloc(input_count + 1u, sizeof *feeds);
    shardc_fetch_value *fetches = calloc(output_count + 1u, sizeof *fetches);
    bool ok = feeds != NULL && fetches != NULL &&
              run_session(runner, func, inputs, input_count, outputs, output_count, feeds, fetches,
                          &error);
    free(feeds);
    free(fetches);
    if (!ok)
        snprintf(text, text_size, "%s", error.text);
    return ok;
}
