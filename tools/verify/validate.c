#include "tools/verify/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "tools/verify/validate_internal.h"

static const char *const run_names[] = {"random", "integers", "dtypes"};

/* ---- runs ---- */

static bool keep_marked(const sc_module *m, sc_value value, void *user)
{
    (void)m;
    const bool *kept = user;
    return kept[value];
}

/* Sets the parts of a gradient, of which the first gets the values and the others 0. `values` is
 * zeroed. */
static bool fill_parts(sc_validation *v, sc_sym path, sc_array *values)
{
    bool ok = true;
    for (uint32_t s = sc_next_gradient_part(v->local, path, 0); s != SC_NONE;
         s = sc_next_gradient_part(v->local, path, s + 1)) {
        ok = ok && sc_interp_set_state(v->all, s, values->data);
        memset(values->data, 0, (size_t)values->count * sizeof *values->data);
    }
    return ok;
}

/* Sets the same global values in both programs; state that the other program lacks or has with
 * another shape stays zero there. */
static bool fill_state(sc_validation *v, const sc_random_options *options)
{
    for (uint32_t s = 0; s < v->global->state.count; s++) {
        sc_type type = v->global->state.data[s].type;
        uint32_t other = sc_module_find_state(v->local, v->global->state.data[s].path);
        sc_array values = sc_verification_state(v->global, s, &v->distributions, v->limit, options);
        bool ok = values.data != NULL && sc_interp_set_state(v->one, s, values.data) &&
                  (v->truth == NULL || sc_interp_set_state(v->truth, s, values.data));
        if (ok && other != SC_NONE &&
            sc_same_dims(v->global, type, v->local, v->local->state.data[other].type))
            ok = sc_interp_set_state(v->all, other, values.data);
        else if (ok && other == SC_NONE)
            ok = fill_parts(v, v->global->state.data[s].path, &values);
        sc_array_free(&values);
        if (!ok)
            return false;
    }
    return true;
}

static void free_arrays(sc_array *arrays, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        sc_array_free(&arrays[i]);
}

static void close_run(sc_validation *v)
{
    free_arrays(v->inputs, v->micro_batches * v->distributions.inputs.count);
    free_arrays(v->expected, v->global_outputs);
    free_arrays(v->unrounded, v->global_outputs);
    free_arrays(v->found, v->local_outputs);
    sc_interp_free(v->one);
    sc_interp_free(v->all);
    sc_interp_free(v->truth);
    v->one = v->all = v->truth = NULL;
}

static bool open_run(sc_validation *v, bool round)
{
    v->one = sc_interp_new(v->global, &(sc_interp_options){.round = round});
    v->all = sc_interp_new(v->local,
                           &(sc_interp_options){.ranks = true, .poison = true, .round = round});
    v->truth = round ? sc_interp_new(v->global, &(sc_interp_options){0}) : NULL;
    if (v->one == NULL || v->all == NULL || (round && v->truth == NULL))
        return false;
    if (round)
        sc_interp_keep(v->truth, keep_marked, v->kept_global);
    sc_interp_keep(v->one, keep_marked, v->kept_global);
    sc_interp_keep(v->all, keep_marked, v->kept_local);
    return true;
}

/* Runs the first call. Ids that are not its inputs may be out of range for some inputs, so smaller
 * integers are tried. */
static bool start_global(sc_validation *v, sc_random_options *options, char *error,
                         size_t error_size)
{
    for (options->attempt = 0; options->attempt < SC_RANDOM_ATTEMPTS; options->attempt++) {
        if (!sc_validate_draw(v, options, 0) || !fill_state(v, options)) {
            snprintf(error, error_size, "out of memory");
            return false;
        }
        if (sc_validate_run_global(v, &(sc_call){.func = v->func}, error, error_size))
            return true;
    }
    return false;
}

static void set_random(sc_validation *v, uint64_t seed)
{
    sc_interp *all[] = {v->one, v->all, v->truth};
    for (size_t i = 0; i < 3; i++) {
        if (all[i] != NULL)
            sc_interp_set_random(all[i], seed, 1, 0);
    }
}

/* Runs one call of the schedule in both programs. `done`: the global program has already run it. A
 * function that only the per-rank program has prepares what the others read. Returns false if
 * nothing more can be compared. */
static bool run_call(sc_validation *v, const sc_call *call, bool done,
                     const sc_random_options *options)
{
    char error[512] = "";
    bool only_local = call->func >= v->global->funcs.count;
    if (!done && !only_local &&
        ((call->func == v->func && !sc_validate_draw(v, options, call->microbatch)) ||
         !sc_validate_run_global(v, call, error, sizeof error))) {
        sc_differ_because(&v->differences, "the global program itself fails on random inputs: %s",
                          error);
        return false;
    }
    v->stopped = !sc_validate_run_local(v, call, error, sizeof error);
    if (v->stopped) {
        sc_validate_values(v, SC_NONE);
        sc_differ_because(&v->differences, "the per-rank program fails: %s", error);
    }
    return !v->stopped;
}

static void compare_call(sc_validation *v, sc_func_id func)
{
    if (func == v->func)
        sc_validate_values(v, SC_NONE);
    if (func != v->last)
        sc_validate_states(v, func, v->bounds);
    else
        sc_validate_states(v, func, v->last_bounds);
    if (func == v->last)
        sc_validate_outputs(v);
}

static bool run_update(sc_validation *v, const sc_call *call, char *error, size_t error_size)
{
    return v->is_cut ? sc_validate_run_tail(v, error, error_size)
                     : sc_validate_run_local(v, call, error, error_size);
}

/* Runs an update alone, on newly drawn state. */
static void run_limit(sc_validation *v, sc_limit which, const sc_random_options *options)
{
    const sc_call update = {v->last, -1};
    char error[512] = "";
    sc_random_options fresh = *options;
    if (!sc_limit_applies(v->global, which))
        return;
    fresh.seed += (uint64_t)which << 32;
    v->limit = which;
    v->differences.run = sc_limit_names[which];
    free_arrays(v->expected, v->global_outputs);
    free_arrays(v->found, v->local_outputs);
    if (!fill_state(v, &fresh))
        sc_differ_because(&v->differences, "out of memory");
    else if (!sc_validate_run_global(v, &update, error, sizeof error))
        sc_differ_because(&v->differences, "the global program itself fails: %s", error);
    else if (!run_update(v, &update, error, sizeof error))
        sc_differ_because(&v->differences, "the per-rank program fails: %s", error);
    else
        compare_call(v, v->last);
    v->limit = SC_LIMIT_NONE;
    v->differences.run = run_names[v->kind];
}

/* Runs the calls of both programs side by side and compares functions after their last call.
 * Returns false if nothing more can be compared. Runs on integers and with casts are informative
 * about a micro-batch but not about the optimizer. */
static bool run_calls(sc_validation *v, const sc_random_options *options)
{
    const sc_call only = {.func = v->func};
    uint32_t count = v->has_step ? v->local->schedule.count : 1;
    for (uint32_t i = 0; i < count; i++) {
        const sc_call *call = v->has_step ? &v->local->schedule.data[i] : &only;
        if (v->has_step && v->kind != SC_RUN_RANDOM && call->func == v->last)
            return false;
        if (!run_call(v, call, call->func == v->func && call->microbatch <= 0, options))
            return false;
        if (call->func < v->global->funcs.count &&
            (i + 1 == count || v->local->schedule.data[i + 1].func != call->func))
            compare_call(v, call->func);
    }
    return true;
}

/* Runs the whole schedule once, then the update at its limits. */
static void run_schedule(sc_validation *v, sc_random_options *options)
{
    char error[512] = "";
    set_random(v, options->seed);
    if (!start_global(v, options, error, sizeof error)) {
        if (v->kind != SC_RUN_INTEGERS) /* not every program accepts integers */
            sc_differ_because(&v->differences,
                              "the global program itself fails on random inputs: %s", error);
        return;
    }
    if (!(v->is_cut ? sc_validate_stages(v, options) : run_calls(v, options)))
        return;
    if (!v->has_step)
        return;
    for (sc_limit which = SC_LIMIT_UNCLIPPED; which < SC_LIMIT_COUNT; which++) {
        if (!v->result->equal)
            break;
        run_limit(v, which, options);
    }
}

static void run_and_compare(sc_validation *v, sc_validate_run kind, uint64_t seed)
{
    sc_random_options options = {.seed = seed, .integers = kind == SC_RUN_INTEGERS};
    v->kind = kind;
    v->differences.run = run_names[kind];
    if (open_run(v, kind == SC_RUN_DTYPES))
        run_schedule(v, &options);
    else
        sc_differ_because(&v->differences, "there is not enough memory to interpret the program");
    close_run(v);
}

static void list_inputs(sc_validation *v)
{
    uint32_t count = 0;
    v->input_names = sc_arena_array(&v->local->context->arena, v->distributions.inputs.count + 1u,
                                    sizeof *v->input_names);
    sc_for_each_op (v->global, v->func, id) {
        if (sc_op_has(sc_op_at(v->global, id), SC_FROM_OUTSIDE))
            v->input_names[count++] = sc_op_word(sc_op_at(v->global, id), SC_ATTR_name);
    }
}

static void run_all(sc_validation *v, const sc_validate_options *options)
{
    sc_arena *arena = &v->local->context->arena;
    sc_random_inputs_find(v->global, v->func, &v->distributions);
    v->bounds = sc_error_bounds_find(v->global, v->func, &v->distributions);
    sc_validate_pair(v);
    v->last_bounds = v->last == v->func
                         ? v->bounds
                         : sc_error_bounds_find(v->global, v->last, &v->distributions);
    v->global_outputs = sc_output_count(v->global, v->last);
    v->local_outputs = sc_output_count(v->local, v->local_last);
    uint32_t inputs = v->distributions.inputs.count;
    v->inputs = sc_arena_array(arena, v->micro_batches * inputs + 1u, sizeof *v->inputs);
    list_inputs(v);
    v->expected = sc_arena_array(arena, v->global_outputs + 1u, sizeof *v->expected);
    v->unrounded = sc_arena_array(arena, v->global_outputs + 1u, sizeof *v->unrounded);
    v->found = sc_arena_array(arena, v->local_outputs + 1u, sizeof *v->found);
    const sc_op *op = sc_returned(v->global, v->last);
    for (uint32_t i = 0; i < v->global_outputs; i++)
        v->has_exact |= v->last_bounds[op->operands[i]].exact;
    run_and_compare(v, SC_RUN_RANDOM, options->seed);
    if (v->result->equal && v->has_exact)
        run_and_compare(v, SC_RUN_INTEGERS, options->seed);
    if (v->result->equal && options->dtypes)
        run_and_compare(v, SC_RUN_DTYPES, options->seed);
}

bool sc_validate(sc_module *global, sc_module *local, sc_func_id func,
                 const sc_validate_options *options, sc_validate_result *result)
{
    sc_validation v = {.global = global,
                       .local = local,
                       .func = func,
                       .last = func,
                       .local_last = func,
                       .is_cut = sc_module_is_cut(local),
                       .micro_batches = 1,
                       .result = result,
                       .differences = {run_names[SC_RUN_RANDOM], &result->equal, &result->first}};
    v.has_step = sc_schedules_step(global);
    if (v.has_step)
        v.last = v.local_last = global->schedule.data[global->schedule.count - 1].func;
    *result = (sc_validate_result){.equal = true};
    const char *unlike = v.is_cut                          ? sc_validate_find_stages(&v)
                         : sc_same_schedule(global, local) ? NULL
                                                           : "the per-rank program does not call "
                                                             "the same functions for the same "
                                                             "micro-batches";
    if (unlike != NULL) {
        sc_differ_because(&v.differences, "%s", unlike);
        return false;
    }
    if (func >= global->funcs.count || func >= local->funcs.count) {
        sc_differ_because(&v.differences, "the function is not in both programs");
        return false;
    }
    sc_verification_size size;
    sc_verification_shrink(global, local, options->full, &size);
    result->shrunk = size.shrink.list;
    result->ranks = sc_mesh_ranks(&local->mesh);
    if (size.too_large != NULL)
        sc_differ_because(&v.differences, "%s", size.too_large);
    else
        run_all(&v, options);
    sc_verification_restore(&size);
    return result->equal;
}
