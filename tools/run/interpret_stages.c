#include "tools/run/interpret_stages.h"

#include <stdlib.h>
#include <string.h>

#include "tools/verify/join_batches.h"
#include "tools/verify/verification_run.h"

/* The names of inputs as the interpreter knows them. */
static const sc_sym *names_of(const sc_module *m, const sc_named_arrays *inputs)
{
    sc_sym *names = sc_arena_array(&m->context->arena, inputs->count + 1u, sizeof *names);
    for (uint32_t i = 0; i < inputs->count; i++)
        names[i] = sc_intern_text(&m->context->names, inputs->names[i]);
    return names;
}

bool sc_interpret_call(sc_interp *interp, const sc_module *m, const sc_call *call,
                       const sc_named_arrays *inputs, sc_array *outputs, uint32_t output_count,
                       shardc_error *error)
{
    const sc_interp_inputs named = {
        .names = names_of(m, inputs), .values = inputs->arrays, .count = inputs->count};
    bool returns = sc_output_count(m, call->func) > 0;
    return sc_interp_run_call(interp, call, &named, outputs, returns ? output_count : 0,
                              error->text, sizeof error->text);
}

/* ---- entries as micro-batches ---- */

/* Makes room for one micro-batch of the inputs, and finds the dim that is split in each (-1). */
static bool make_parts(const sc_compiled *c, const sc_executor_func *about,
                       const sc_named_arrays *inputs, sc_array *parts, int *dims)
{
    const char *batch = sc_text(c->global->context, c->global->dims.data[c->batches->dim].name);
    bool ok = true;
    for (uint32_t i = 0; i < inputs->count; i++) {
        const sc_array *whole = &inputs->arrays[i];
        int64_t sizes[SC_ARRAY_MAX_RANK];
        uint32_t input = 0;
        while (input < about->input_count &&
               strcmp(about->inputs[input].name, inputs->names[i]) != 0)
            input++;
        dims[i] = -1;
        for (uint32_t d = 0; d < whole->rank; d++) {
            bool is_split =
                input < about->input_count && strcmp(about->inputs[input].dims[d].name, batch) == 0;
            sizes[d] = whole->sizes[d] / (is_split ? c->batches->count : 1);
            dims[i] = is_split ? (int)d : dims[i];
        }
        parts[i] = sc_array_new(whole->rank, sizes);
        ok = ok && parts[i].data != NULL;
    }
    return ok;
}

typedef struct entry_run {
    const sc_compiled *c;
    const sc_named_arrays *inputs;
    sc_array *parts;    /* by input: one micro-batch */
    int *dims;          /* by input */
    sc_array **results; /* by micro-batch and result */
} entry_run;

static bool run_batches(sc_interp *interp, const sc_module *m, const entry_run *run,
                        uint32_t output_count, shardc_error *error)
{
    const sc_named_arrays named = {run->inputs->names, run->parts, run->inputs->count};
    bool ok = true;
    for (uint32_t i = 0; i < m->schedule.count; i++) {
        const sc_call *call = &m->schedule.data[i];
        for (uint32_t n = 0; n < run->inputs->count; n++)
            sc_take_batch(&run->inputs->arrays[n], run->dims[n], call->microbatch, &run->parts[n]);
        if (ok)
            ok = sc_interpret_call(interp, m, call, &named, run->results[call->microbatch],
                                   output_count, error);
    }
    return ok;
}

static bool join_results(const entry_run *run, sc_array *outputs, uint32_t output_count)
{
    const sc_compiled *c = run->c;
    const sc_op *returned = sc_returned(c->global, c->func);
    bool ok = true;
    for (uint32_t i = 0; i < output_count; i++) {
        const sc_type_info *type = sc_type_of(c->global, returned->operands[i]);
        outputs[i] =
            sc_join_batches(run->results, i, c->batches->count, (sc_join)c->batches->joins[i],
                            sc_type_find_dim(type, c->batches->dim), type->dtype);
        ok = ok && outputs[i].data != NULL;
    }
    return ok;
}

static bool no_memory(shardc_error *error)
{
    *error = (shardc_error){.status = SHARDC_ERROR_MEMORY, .text = "there is not enough memory"};
    return false;
}

/* The arrays of a run; false: out of memory. */
static bool begin_run(entry_run *run, uint32_t batches, uint32_t output_count, sc_array *results)
{
    run->parts = calloc(run->inputs->count + 1u, sizeof *run->parts);
    run->dims = calloc(run->inputs->count + 1u, sizeof *run->dims);
    run->results = calloc(batches, sizeof *run->results);
    if (run->parts == NULL || run->dims == NULL || run->results == NULL)
        return false;
    for (uint32_t b = 0; b < batches; b++)
        run->results[b] = &results[(size_t)b * output_count];
    return true;
}

static void end_run(entry_run *run)
{
    uint32_t count = run->parts == NULL ? 0 : run->inputs->count;
    for (uint32_t i = 0; i < count; i++)
        sc_array_free(&run->parts[i]);
    free(run->parts);
    free(run->dims);
    free(run->results);
}

bool sc_interpret_batches(sc_interp *interp, const sc_module *m, const sc_compiled *c,
                          const sc_executor_func *about, const sc_named_arrays *inputs,
                          sc_array *outputs, uint32_t output_count, shardc_error *error)
{
    const size_t count = (size_t)c->batches->count * output_count;
    entry_run run = {.c = c, .inputs = inputs};
    sc_array *results = calloc(count + 1, sizeof *results);
    if (results == NULL)
        return no_memory(error);
    bool has_room = begin_run(&run, c->batches->count, output_count, results) &&
                    make_parts(c, about, inputs, run.parts, run.dims);
    bool ok = has_room ? run_batches(interp, m, &run, output_count, error) : no_memory(error);
    if (ok && !join_results(&run, outputs, output_count))
        ok = no_memory(error);
    end_run(&run);
    for (size_t i = 0; i < count; i++)
        sc_array_free(&results[i]);
    free(results);
    return ok;
}
