/* Runs of programs of stages, and of what they are compared with. */
#include "tools/verify/compiled_internal.h"
#include "tools/verify/join_batches.h"

static void free_all(sc_array *const *arrays, uint32_t batches, uint32_t count)
{
    for (uint32_t b = 0; b < batches; b++) {
        for (uint32_t i = 0; i < count; i++)
            sc_array_free(&arrays[b][i]);
    }
}

static sc_array **new_arrays(const sc_compiled_check *c, uint32_t count)
{
    sc_array **arrays = sc_arena_array(&c->context->arena, c->batch_count, sizeof *arrays);
    for (uint32_t b = 0; b < c->batch_count; b++)
        arrays[b] = sc_arena_array(&c->context->arena, count + 1u, sizeof **arrays);
    return arrays;
}

static bool draw_all(sc_compiled_check *c, uint32_t nearby, sc_array *const *inputs)
{
    bool ok = true;
    for (uint32_t b = 0; b < c->batch_count; b++)
        ok = ok && sc_compiled_draw_inputs(c, (int32_t)b, nearby, inputs[b]);
    return ok;
}

static bool note_all_states(sc_compiled_check *c, const sc_runner *runner, sc_compiled_record *out)
{
    bool ok = true;
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_compiled_place *at = &c->places.data[p];
        uint32_t mine =
            at->state == SC_NONE ? SC_NONE : sc_module_find_state(c->local, at->what.path);
        if (!ok || mine == SC_NONE)
            continue;
        out->values[p] = sc_runner_get_state(runner, mine);
        ok = out->values[p].data != NULL;
    }
    return ok;
}

bool sc_compiled_run_stages(sc_compiled_check *c, sc_runner *runner, sc_compiled_record *out,
                            char *error, size_t error_size)
{
    uint32_t output_count = sc_output_count(c->global, c->last);
    sc_array **inputs = new_arrays(c, c->inputs.count);
    sc_array *outputs = sc_arena_array(&c->context->arena, output_count + 1u, sizeof *outputs);
    bool ok = draw_all(c, 0, inputs);
    sc_runner_set_random(runner, c->options.seed, 1, 0);
    ok = ok &&
         sc_runner_run_stages(runner, c->input_names.data, inputs, c->inputs.count, c->batch_count,
                              outputs, output_count, error, error_size) &&
         note_all_states(c, runner, out);
    if (ok)
        sc_compiled_note_outputs(c, outputs, output_count, out);
    free_all(inputs, c->batch_count, c->inputs.count);
    free_all(&outputs, 1, output_count);
    return ok;
}

/* The reference: not rounded. */
static bool join_results(const sc_compiled_check *c, sc_array *const *results, sc_array *outputs,
                         uint32_t count)
{
    bool ok = true;
    for (uint32_t i = 0; i < count; i++) {
        const sc_type_info *type =
            sc_type_of(c->global, sc_returned(c->global, c->last)->operands[i]);
        outputs[i] = sc_join_batches(results, i, c->batch_count, (sc_join)c->batches->joins[i],
                                     sc_type_find_dim(type, c->batch_dim), SC_DTYPE_f64);
        ok = ok && outputs[i].data != NULL;
    }
    return ok;
}

/* The entry with the whole batch. */
static bool run_whole(sc_compiled_check *c, sc_runner *runner, sc_array *const *inputs,
                      sc_array *outputs, uint32_t output_count, char *error, size_t error_size)
{
    sc_array *joined = sc_arena_array(&c->context->arena, c->inputs.count + 1u, sizeof *joined);
    bool ok = true;
    for (uint32_t i = 0; i < c->inputs.count; i++) {
        int dim = sc_type_find_dim(&c->global->types.data[c->inputs.data[i]], c->batch_dim);
        joined[i] = sc_join_batches(inputs, i, c->batch_count, dim < 0 ? SC_JOIN_ONE : SC_JOIN_ROWS,
                                    dim, SC_DTYPE_f64);
        ok = ok && joined[i].data != NULL;
    }
    ok = ok && sc_runner_run(runner, c->whole_func, joined, c->inputs.count, outputs, output_count,
                             error, error_size);
    free_all(&joined, 1, c->inputs.count);
    return ok;
}

static bool run_each(sc_compiled_check *c, sc_runner *runner, sc_array *const *inputs,
                     sc_array *const *results, uint32_t output_count, char *error,
                     size_t error_size)
{
    bool ok = true;
    for (uint32_t b = 0; b < c->batch_count; b++) {
        sc_runner_set_random(runner, c->options.seed, 1, b);
        ok = ok && sc_runner_run(runner, c->func, inputs[b], c->inputs.count, results[b],
                                 output_count, error, error_size);
    }
    return ok;
}

bool sc_compiled_run_batches(sc_compiled_check *c, sc_runner *runner, uint32_t nearby,
                             sc_compiled_record *out, char *error, size_t error_size)
{
    uint32_t output_count = sc_output_count(c->global, c->last);
    sc_array **inputs = new_arrays(c, c->inputs.count), **results = new_arrays(c, output_count);
    sc_array *outputs = sc_arena_array(&c->context->arena, output_count + 1u, sizeof *outputs);
    bool is_whole = sc_runner_module(runner) == c->whole, ok = draw_all(c, nearby, inputs);
    if (is_whole)
        ok = ok && run_whole(c, runner, inputs, outputs, output_count, error, error_size);
    else
        ok = ok && run_each(c, runner, inputs, results, output_count, error, error_size) &&
             join_results(c, results, outputs, output_count);
    ok = ok && sc_compiled_note_states(c, runner, c->last, SC_NONE, out);
    if (ok)
        sc_compiled_note_outputs(c, outputs, output_count, out);
    free_all(inputs, c->batch_count, c->inputs.count);
    free_all(results, c->batch_count, output_count);
    free_all(&outputs, 1, output_count);
    return ok;
}
