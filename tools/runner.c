#include "tools/runner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *sc_runner_last_pass(const sc_options *options)
{
    return options->interpret ? NULL : "fuse";
}

sc_run_options sc_runner_options(const sc_options *o)
{
    sc_run_options run = {.seed = o->seed,
                          .json = o->json,
                          .output = o->output,
                          .weights = o->weights,
                          .data = o->data,
                          .steps = o->steps,
                          .set = o->set,
                          .eval_data = o->eval_data,
                          .log = o->log,
                          .save = o->save,
                          .state = o->state,
                          .resume = o->resume,
                          .eval_every = o->eval_every,
                          .max_tokens = o->max_tokens,
                          .top_k = o->top_k,
                          .stop = o->stop,
                          .has_stop = o->has_stop,
                          .temperature = o->temperature,
                          .top_p = o->top_p};
    run.prompts.data = o->prompts.data;
    run.prompts.count = o->prompts.count;
    run.inputs.data = o->inputs.data;
    run.inputs.count = o->inputs.count;
    return run;
}

static sc_machine *failed(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return NULL;
}

/* The machine would rather end the process than give no memory. */
static bool fits(double needed)
{
    return needed <= (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
}

static const char *too_large(sc_context *context, const char *how, double needed)
{
    double available = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return sc_arena_printf(&context->arena,
                           "running this here, every rank %s, needs at least %.3g GiB of memory; this machine has %.3g GiB", how,
                           needed / 0x1p30, available / 0x1p30);
}

/* ---- the interpreter ---- */

/* State, and the largest op with what it reads. */
static double interpreted_bytes(const sc_module *m)
{
    double state = 0, largest = 0;
    for (uint32_t i = 0; i < m->state.count; i++)
        state += (double)sc_type_local_elements(m, &m->types.data[m->state.data[i].type]);
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        double elements = 0;
        for (uint32_t v = 0; v < op->operand_count + op->result_count; v++) {
            sc_value value = v < op->operand_count ? op->operands[v] : op->first_result + v - op->operand_count;
            elements += (double)sc_type_local_elements(m, sc_type_of(m, value));
        }
        largest = elements > largest ? elements : largest;
    }
    return (state + largest) * (double)sc_mesh_ranks(&m->mesh) * sizeof(double);
}

static sc_machine *interpret(sc_runner *runner)
{
    double needed = interpreted_bytes(sc_mesh_ranks(&runner->c->local->mesh) > 1 ? runner->c->local : runner->c->global);
    if (!fits(needed))
        return failed(runner->context, too_large(runner->context, "in the interpreter", needed));
    sc_machine *machine = sc_interpreter_new(runner->c, runner->second);
    return machine != NULL ? machine : failed(runner->context, "there is not enough memory");
}

/* ---- emitted code ---- */

static sc_machine *load(sc_runner *runner)
{
    sc_context *context = runner->context;
    sc_generated generated;
    sc_error error;
    sc_strbuf bytes;
    sc_generate_part parts[2] = {{.m = runner->c->local, .step = runner->c->step},

                                 {.m = runner->second == NULL ? NULL : runner->second->local, .name = runner->second_name}};
    if (!sc_generate_parts(parts, runner->second == NULL ? 1 : 2, &(sc_generate_options){0}, &generated))
        return NULL;
    double needed = (double)generated.image->arena_bytes * (double)generated.image->ranks;
    if (!fits(needed))
        return failed(context, too_large(context, "as a thread", needed));
    sc_strbuf_init(&bytes, &context->arena);
    sc_image_write(generated.image, &bytes);
    if (sc_executable_read(bytes.data, bytes.length, &runner->program, &error) != SC_OK ||
        sc_session_new(runner->program, NULL, &runner->session, &error) != SC_OK)
        return failed(context, sc_arena_printf(&context->arena, "%s", error.text));
    sc_machine *machine = sc_machine_of_session(runner->program, runner->session);
    return machine != NULL ? machine : failed(context, "there is not enough memory");
}

sc_machine *sc_runner_open(void *user)
{
    sc_runner *runner = user;
    runner->machine = runner->options->interpret ? interpret(runner) : load(runner);
    return runner->machine;
}

void sc_runner_close(sc_runner *runner)
{
    sc_machine_free(runner->machine);
    sc_session_free(runner->session);
    sc_executable_free(runner->program);
}
