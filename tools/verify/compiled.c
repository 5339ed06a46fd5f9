#include "tools/verify/compiled.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/rng.h"
#include "tools/verify/compiled_internal.h"

/* ---- values to compare ---- */

/* The program whose schedule the references run, a function at a time. */
static const sc_module *scheduled(const sc_compiled_check *c)
{
    return c->is_cut ? c->global : c->local;
}

static bool is_last_call(const sc_compiled_check *c, uint32_t call)
{
    const sc_module *m = scheduled(c);
    for (uint32_t i = call + 1; i < m->schedule.count; i++) {
        if (m->schedule.data[i].func == m->schedule.data[call].func)
            return false;
    }
    return true;
}

static void add_place(sc_compiled_check *c, const sc_compiled_place *at)
{
    *sc_vec_push(&c->context->arena, &c->places) = *at;
}

/* Combines the error bounds of a value in both programs: the per-rank one may compute in narrower
 * dtypes, as gradients are reduced in. */
static sc_error_bounds bounds_of(const sc_error_bounds *global, sc_value value,
                                 const sc_error_bounds *local, sc_value other)
{
    sc_error_bounds bounds = value == SC_NONE ? (sc_error_bounds){0} : global[value];
    if (other != SC_NONE)
        bounds.unit = fmax(bounds.unit, local[other].unit);
    return bounds;
}

/* False for a gradient that chunks have one each of. */
static bool is_local(const sc_compiled_check *c, const sc_state *state)
{
    return sc_module_find_state(c->local, state->path) != SC_NONE;
}

/* After a step of a program of stages, which runs as a whole, a state has its last value. */
static void add_states(sc_compiled_check *c, sc_func_id func, const sc_error_bounds *bounds,
                       const sc_error_bounds *local, bool *seen)
{
    const sc_value *written = sc_written_states(c->global, c->global, func),
                   *also = c->is_cut ? written : sc_written_states(c->global, c->local, func);
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        bool is_over = c->is_cut && (seen[s] || !is_local(c, state));
        if ((written[s] == SC_NONE && also[s] == SC_NONE) || is_over)
            continue;
        if (written[s] == SC_NONE) /* and so must not change */
            add_place(c, &(sc_compiled_place){func, s, {0}, {state->path, -1, state->loc}});
        else
            add_place(c, &(sc_compiled_place){func,
                                              s,
                                              bounds_of(bounds, written[s], local, also[s]),
                                              {state->path, -1, state->loc}});
        seen[s] = true;
    }
}

/* Adds the states that no function writes; they must not change. */
static void add_constant_states(sc_compiled_check *c, const bool *seen)
{
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        if (!seen[s] && is_local(c, state))
            add_place(c, &(sc_compiled_place){c->last, s, {0}, {state->path, -1, state->loc}});
    }
}

static void add_outputs(sc_compiled_check *c, const sc_error_bounds *bounds,
                        const sc_error_bounds *local)
{
    const sc_op *returned = sc_returned(c->global, c->last),
                *other = c->is_cut ? returned : sc_returned(c->local, c->last);
    for (uint32_t i = 0; i < sc_output_count(c->global, c->last); i++) {
        sc_value value = returned->operands[i];
        sc_error_bounds both =
            bounds_of(bounds, value, local,
                      other != NULL && i < other->operand_count ? other->operands[i] : SC_NONE);
        add_place(c, &(sc_compiled_place){
                         c->last,
                         SC_NONE,
                         both,
                         {c->global->values.data[value].path, (int32_t)i, returned->loc}});
    }
}

/* The narrowest float dtype of the program's values, as half an ulp. */
static double narrowest_unit(const sc_module *m)
{
    double unit = 0;
    for (uint32_t v = 0; v < m->values.count; v++) {
        sc_dtype dtype = m->types.data[m->values.data[v].type].dtype;
        if (sc_dtype_is_float(dtype))
            unit = fmax(unit, ldexp(1, -sc_dtypes[dtype].significand));
    }
    return unit;
}

static void list_places(sc_compiled_check *c)
{
    const sc_module *m = scheduled(c);
    bool *seen = sc_arena_array(&c->context->arena, c->global->state.count + 1u, sizeof *seen);
    for (uint32_t n = 0; n < m->schedule.count; n++) {
        uint32_t i = c->is_cut ? m->schedule.count - 1 - n : n; /* the last value of a state */
        sc_func_id func = m->schedule.data[i].func;
        if (func >= c->global->funcs.count || !is_last_call(c, i))
            continue;
        sc_random_inputs distributions;
        sc_random_inputs_find(m, func, &distributions);
        const sc_error_bounds *bounds = sc_error_bounds_find(c->global, func, &c->distributions),
                              *local = c->is_cut
                                           ? bounds
                                           : sc_error_bounds_find(c->local, func, &distributions);
        add_states(c, func, bounds, local, seen);
        if (func == c->last)
            add_outputs(c, bounds, local);
    }
    add_constant_states(c, seen);
    for (uint32_t p = 0; p < c->places.count; p++) {
        double *unit = &c->places.data[p].bounds.unit;
        if (c->is_cut && *unit > 0)
            *unit = fmax(*unit, narrowest_unit(c->local));
        c->unit = fmax(c->unit, *unit);
        c->decided = c->decided || c->places.data[p].bounds.decided;
    }
}

static sc_compiled_record new_record(sc_compiled_check *c)
{
    return (sc_compiled_record){
        sc_arena_array(&c->context->arena, c->places.count + 1u, sizeof(sc_array))};
}

static void clear(const sc_compiled_check *c, sc_compiled_record *of)
{
    if (of->values == NULL)
        return;
    for (uint32_t p = 0; p < c->places.count; p++)
        sc_array_free(&of->values[p]);
}

/* ---- starts ---- */

/* Of a gradient that chunks have apart the first part has got the values; the others get 0. `first`
 * SC_NONE: it is not one. */
static bool clear_parts(sc_runner *runner, sc_sym path, uint32_t first, sc_array *values)
{
    const sc_module *m = sc_runner_module(runner);
    if (first == SC_NONE)
        return true;
    memset(values->data, 0, (size_t)values->count * sizeof *values->data);
    for (uint32_t s = sc_next_gradient_part(m, path, first + 1); s != SC_NONE;
         s = sc_next_gradient_part(m, path, s + 1)) {
        if (!sc_runner_set_state(runner, s, values->data))
            return false;
    }
    return true;
}

static bool set_states(sc_compiled_check *c, sc_runner *runner, uint32_t nearby)
{
    const sc_module *m = sc_runner_module(runner);
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        const sc_type_info *type = &c->global->types.data[state->type];
        uint32_t mine = sc_module_find_state(m, state->path);
        uint32_t part = mine == SC_NONE ? sc_next_gradient_part(m, state->path, 0) : SC_NONE;
        mine = mine == SC_NONE ? part : mine;
        if (mine == SC_NONE || !sc_same_dims(c->global, state->type, m, m->state.data[mine].type))
            continue;
        sc_array values =
            sc_verification_state(c->global, s, &c->distributions, c->limit, &c->options);
        if (values.data != NULL)
            sc_compiled_settle(c, type, &c->distributions.state[s], nearby, &values);
        bool ok = values.data != NULL && sc_runner_set_state(runner, mine, values.data) &&
                  clear_parts(runner, state->path, part, &values);
        sc_array_free(&values);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- runs ---- */

/* Runs one call and records the values to compare if it is the function's last call. `with`: the
 * call of the function's other half, if the program joins the two; NULL: the call alone. */
static bool run_call(sc_compiled_check *c, sc_runner *runner, const sc_call *call,
                     const sc_call *with, bool is_last, uint32_t nearby, sc_compiled_record *out,
                     char *error, size_t error_size)
{
    assert(call != NULL);
    const sc_module *m = sc_runner_module(runner);
    const sc_call *first = with != NULL ? with : call;
    sc_func_id func = with != NULL ? sc_runner_last(runner) : call->func;
    bool is_fed = first->func == c->func;
    uint32_t output_count = call->func == c->last ? sc_output_count(m, call->func) : 0,
             input_count = is_fed ? c->inputs.count : 0;
    sc_array *inputs = sc_arena_array(&c->context->arena, input_count + 1u, sizeof *inputs);
    sc_array *outputs = sc_arena_array(&c->context->arena, output_count + 1u, sizeof *outputs);
    sc_runner_set_random(runner, c->options.seed, 1,
                         first->microbatch < 0 ? 0 : (uint32_t)first->microbatch);
    snprintf(error, error_size, "there is not enough memory");
    bool ok = (!is_fed || sc_compiled_draw_inputs(c, first->microbatch, nearby, inputs)) &&
              sc_runner_run(runner, func, inputs, input_count, outputs, output_count, error,
                            error_size) &&
              (!is_last || sc_compiled_note_states(c, runner, call->func,
                                                   with != NULL ? with->func : SC_NONE, out));
    if (ok && is_last)
        sc_compiled_note_outputs(c, outputs, output_count, out);
    for (uint32_t i = 0; i < input_count; i++)
        sc_array_free(&inputs[i]);
    for (uint32_t i = 0; i < output_count; i++)
        sc_array_free(&outputs[i]);
    return ok;
}

/* Runs a step as the program calls it, with the last micro-batch and the update joined. */
static bool run_joined(sc_compiled_check *c, sc_runner *runner, sc_compiled_record *out,
                       char *error, size_t error_size)
{
    const sc_call *calls = c->local->schedule.data;
    uint32_t last = c->local->schedule.count - 1;
    clear(c, out);
    snprintf(error, error_size, "there is not enough memory");
    if (!set_states(c, runner, 0))
        return false;
    for (uint32_t i = 0; i + 1 < last; i++) {
        if (!run_call(c, runner, &calls[i], NULL, is_last_call(c, i), 0, out, error, error_size))
            return false;
    }
    return run_call(c, runner, &calls[last], &calls[last - 1], true, 0, out, error, error_size);
}

/* Runs the whole schedule or, at a limit, the update alone. */
static bool run(sc_compiled_check *c, sc_runner *runner, uint32_t nearby, sc_compiled_record *out,
                char *error, size_t error_size)
{
    const sc_module *m = sc_runner_module(runner);
    clear(c, out);
    snprintf(error, error_size, "there is not enough memory");
    if (!set_states(c, runner, nearby))
        return false;
    if (c->is_cut && m == c->local)
        return sc_compiled_run_stages(c, runner, out, error, error_size);
    if (c->batches != NULL)
        return sc_compiled_run_batches(c, runner, nearby, out, error, error_size);
    if (c->limit != SC_LIMIT_NONE)
        return run_call(c, runner, &(sc_call){.func = c->last, .microbatch = -1}, NULL, true,
                        nearby, out, error, error_size);
    for (uint32_t i = 0; i < scheduled(c)->schedule.count; i++) {
        const sc_call *call = &scheduled(c)->schedule.data[i];
        if (call->func < m->funcs.count &&
            !run_call(c, runner, call, NULL, is_last_call(c, i), nearby, out, error, error_size))
            return false;
    }
    return true;
}

/* Adds perturbed runs until there are `count`. */
static bool run_nearby(sc_compiled_check *c, uint32_t count, char *error, size_t error_size)
{
    for (; c->nears < count; c->nears++) {
        if (!run(c, c->nearby, c->nears + 1, &c->near[c->nears], error, error_size))
            return false;
    }
    return true;
}

static bool run_reference(sc_compiled_check *c, char *error, size_t error_size)
{
    c->nears = 0;
    return run(c, c->truth, 0, &c->expected, error, error_size) &&
           run_nearby(c, SC_NEARBY, error, error_size);
}

/* ---- all of it ---- */

static bool is_joined(const sc_compiled_check *c)
{
    sc_func_id last = sc_runner_last(c->code);
    return !c->is_cut && last != SC_NONE && last >= c->local->funcs.count;
}

/* Compares the joined function, run from the same start, with its two halves, bit for bit. */
static void compare_joined(sc_compiled_check *c)
{
    char error[512];
    sc_runner *runners[] = {c->code, c->wide};
    const char *const names[] = {"joined", c->is_on_gpus ? "joined, a second session"
                                                         : "joined, two threads a rank"};
    for (int i = 0; i < 2; i++) {
        if (!c->result->equal)
            break;
        c->differences.run = names[i];
        if (run_joined(c, runners[i], &c->again, error, sizeof error))
            sc_compiled_compare_bits(c);
        else
            sc_differ_because(&c->differences, "the emitted code fails: %s", error);
        if (i == 0 && c->result->equal)
            sc_compiled_compare_joined_traffic(c);
    }
}

/* Draws other inputs while a decision is open. Code that rounds differently may decide differently
 * between almost equal numbers. If the further perturbed runs also decide differently, this start
 * does not determine what follows. A real error would show with every start, and a difference that
 * the further runs do not explain is an error. Returns false if a run failed. */
static bool settle_decisions(sc_compiled_check *c)
{
    enum { MOST_DRAWS = 8 };
    char error[512];
    bool ok = true;
    for (uint32_t draw = 1; draw < MOST_DRAWS && sc_compiled_is_open(c); draw++) {
        if (!ok)
            break;
        ok = run_nearby(c, SC_NEARBY_MOST, error, sizeof error);
        if (!ok || sc_compiled_is_open(c))
            break;
        c->result->redrawn++;
        c->options.seed += (uint64_t)1 << 48;
        ok = run_reference(c, error, sizeof error) &&
             run(c, c->code, 0, &c->found, error, sizeof error);
    }
    if (ok && c->nears == SC_NEARBY && sc_compiled_is_open(c)) /* no draw was decided */
        ok = run_nearby(c, SC_NEARBY_MOST, error, sizeof error);
    if (!ok)
        sc_differ_because(&c->differences, "a run fails: %s", error);
    return ok;
}

/* Runs emitted code three times from the same start. */
static void run_and_compare(sc_compiled_check *c)
{
    char error[512];
    c->differences.run = c->limit == SC_LIMIT_NONE ? "random" : sc_limit_names[c->limit];
    if (!run(c, c->code, 0, &c->found, error, sizeof error)) {
        sc_differ_because(&c->differences, "the emitted code fails: %s", error);
        return;
    }
    if (!settle_decisions(c) || !sc_compiled_compare_values(c))
        return;
    if (c->limit == SC_LIMIT_NONE && c->result->equal)
        (c->is_cut ? sc_compiled_compare_stage_traffic : sc_compiled_compare_traffic)(c);
    if (c->limit == SC_LIMIT_NONE && c->result->equal && is_joined(c))
        compare_joined(c);
    sc_runner *runners[] = {c->code, c->wide};
    const char *const names[] = {"again",
                                 c->is_on_gpus ? "a second session" : "two threads a rank"};
    for (int i = 0; i < 2; i++) {
        if (!c->result->equal)
            break;
        c->differences.run = names[i];
        if (run(c, runners[i], 0, &c->again, error, sizeof error))
            sc_compiled_compare_bits(c);
        else
            sc_differ_because(&c->differences, "the emitted code fails: %s", error);
    }
}

/* Finds a start. Ids that are not inputs may be out of range for some inputs, so smaller integers
 * are tried. */
static bool find_start(sc_compiled_check *c)
{
    char error[512];
    for (c->options.attempt = 0; c->options.attempt < SC_RANDOM_ATTEMPTS; c->options.attempt++) {
        if (run_reference(c, error, sizeof error))
            return true;
    }
    c->differences.run = "random";
    sc_differ_because(&c->differences, "the global program itself fails on random inputs: %s",
                      error);
    return false;
}

static void run_limits(sc_compiled_check *c)
{
    char error[512];
    uint64_t seed = c->options.seed;
    if (!c->has_step || c->is_cut)
        return;
    for (sc_limit which = SC_LIMIT_UNCLIPPED; which < SC_LIMIT_COUNT; which++) {
        if (!c->result->equal)
            break;
        if (!sc_limit_applies(c->global, which))
            continue;
        c->limit = which;
        c->differences.run = sc_limit_names[which];
        c->options.seed = seed + ((uint64_t)which << 32);
        if (run_reference(c, error, sizeof error))
            run_and_compare(c);
        else
            sc_differ_because(&c->differences, "the global program itself fails: %s", error);
    }
}

static void prepare(sc_compiled_check *c)
{
    sc_random_inputs_find(c->global, c->func, &c->distributions);
    sc_for_each_op (c->global, c->func, id) {
        const sc_op *op = sc_op_at(c->global, id);
        if (!sc_op_has(op, SC_FROM_OUTSIDE))
            continue;
        *sc_vec_push(&c->context->arena, &c->inputs) =
            c->global->values.data[op->first_result].type;
        *sc_vec_push(&c->context->arena, &c->input_names) = sc_op_word(op, SC_ATTR_name);
    }
    list_places(c);
    c->expected = new_record(c);
    c->found = new_record(c);
    c->again = new_record(c);
    for (uint32_t n = 0; n < SC_NEARBY_MOST; n++)
        c->near[n] = new_record(c);
}

static bool open_runners(sc_compiled_check *c)
{
    uint32_t ranks = (uint32_t)c->result->ranks;
    const sc_module *reference = c->whole != NULL ? c->whole : c->global;
    c->truth = sc_runner_interpret(reference, &(sc_interp_options){0});
    c->nearby = sc_runner_interpret(reference, &(sc_interp_options){.round = true});
    if (c->truth == NULL || c->nearby == NULL) {
        sc_differ_because(&c->differences, "there is not enough memory to interpret the program");
        return false;
    }
    const sc_generate_part part = {
        .m = c->local, .step = c->step, .batches = c->batches, .name = c->is_cut ? "entry" : NULL};
    c->code = sc_runner_load(c->context, &part, c->target, ranks);
    c->wide = c->code == NULL ? NULL : sc_runner_again(c->context, c->code, 2 * ranks);
    c->result->equal = c->wide != NULL;
    return c->wide != NULL;
}

static void close_all(sc_compiled_check *c)
{
    clear(c, &c->expected);
    clear(c, &c->found);
    clear(c, &c->again);
    for (uint32_t n = 0; n < SC_NEARBY_MOST; n++)
        clear(c, &c->near[n]);
    sc_runner_free(c->truth);
    sc_runner_free(c->nearby);
    sc_runner_free(c->wide);
    sc_runner_free(c->code);
}

bool sc_validate_compiled(const sc_compiled *program, const sc_validate_options *options,
                          sc_compiled_result *result)
{
    sc_module *global = program->global, *local = program->local;
    sc_func_id func = program->func;
    sc_compiled_check c = {.context = local->context,
                           .global = global,
                           .local = local,
                           .func = func,
                           .last = func,
                           .step = program->step == NULL ? NULL : program->global_step,
                           .batches = program->batches,
                           .batch_count = 1,
                           .batch_dim = SC_NONE,
                           .is_cut = sc_module_is_cut(local),
                           .target = options->target,
                           .is_on_gpus =
                               options->target != NULL && sc_target_is_cuda(options->target),
                           .result = result,
                           .differences = {"random", &result->equal, &result->first}};
    sc_verification_size size;
    *result = (sc_compiled_result){.equal = true};
    if (c.batches != NULL) {
        c.batch_count = c.batches->count;
        c.batch_dim = c.batches->dim;
    } else if (c.step != NULL) {
        c.batch_count = (uint32_t)c.step->training->micro_batches;
        c.batch_dim = c.step->training->batch_dim;
    }
    c.options.seed = options->seed;
    c.has_step = sc_schedules_step(global);
    if (c.has_step)
        c.last = global->schedule.data[global->schedule.count - 1].func;
    c.local_last = c.last;
    for (sc_func_id f = 0; f < local->funcs.count; f++) {
        if (c.is_cut && sc_output_count(local, f) > 0)
            c.local_last = f;
    }
    if (!c.is_cut && !sc_same_schedule(global, local)) {
        sc_differ_because(
            &c.differences,
            "the per-rank program does not call the same functions for the same micro-batches");
        return false;
    }
    sc_verification_shrink(global, local, options->full, &size);
    result->shrunk = size.shrink.list;
    result->ranks = sc_mesh_ranks(&local->mesh);
    if (c.batches != NULL && size.shrink.list.count == 0) {
        c.whole = program->whole;
        c.whole_func = program->whole_func;
    }
    prepare(&c);
    if (size.too_large != NULL)
        sc_differ_because(&c.differences, "%s", size.too_large);
    else if (open_runners(&c) && find_start(&c))
        run_and_compare(&c);
    if (c.wide != NULL)
        run_limits(&c);
    close_all(&c);
    sc_verification_restore(&size);
    return result->equal;
}
