#include "tools/validate_compiled.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "passes/comm_report.h"
#include "support/rng.h"
#include "tools/reach.h"
#include "tools/runner.h"
#include "tools/trial.h"

/* Runs of the interpreter from starts that are off by u: two signs of each number's error are few, but errors have many. */
enum { NEARBY = 2 };
static const double stability = 8, cancelled = 4, undecided_share = 0.1;

/* What is compared: a state after a function's last call, or an output of the last function. */
typedef struct place {
    sc_func_id func;
    uint32_t state; /* of the global program; SC_NONE: an output */
    int32_t output; /* or -1 */
    sc_reach reach;
    sc_sym path;
    sc_loc loc;
} place;

/* One run of everything: a value a place, absent where the run has not come. */
typedef struct record {
    sc_array *values;
} record;

typedef struct check {
    sc_context *context;
    sc_module *global, *local;
    sc_func_id func, last; /* whose inputs are drawn, whose outputs are compared */
    bool has_step;
    sc_compiled_result *result;
    sc_draws draws;
    SC_VEC(sc_type) inputs;
    SC_VEC(place) places;
    double unit; /* the largest of what the micro-batch leaves */
    sc_runner *truth, *nearby, *code, *wide;
    record expected, near[NEARBY], found, again;
    sc_limit limit;
    sc_draw_options options;
    const char *run; /* what differences are found in */
} check;

/* ---- differences ---- */

static sc_difference *new_difference(check *c)
{
    if (c->result->first.run != NULL)
        return NULL;
    c->result->equal = false;
    c->result->first = (sc_difference){.run = c->run, .output = -1};
    return &c->result->first;
}

static void __attribute__((format(printf, 2, 3))) differ_because(check *c, const char *format, ...)
{
    sc_difference *difference = new_difference(c);
    if (difference == NULL)
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(difference->message, sizeof difference->message, format, args);
    va_end(args);
}

static void differ_at(check *c, const place *at, const sc_array *expected, const sc_array *found, int64_t element)
{
    sc_difference *difference = new_difference(c);
    if (difference == NULL)
        return;
    difference->path = at->path;
    difference->output = at->output;
    difference->loc = at->loc;
    difference->has_element = true;
    difference->rank = expected->rank;
    difference->expected = expected->data[element];
    difference->found = found->data[element];
    for (uint32_t i = expected->rank; i-- > 0; element /= expected->sizes[i])
        difference->index[i] = element % expected->sizes[i];
}

static void differ_whole(check *c, const place *at, const char *message)
{
    sc_difference *difference = new_difference(c);
    if (difference == NULL)
        return;
    difference->path = at->path;
    difference->output = at->output;
    difference->loc = at->loc;
    snprintf(difference->message, sizeof difference->message, "%s", message);
}

/* ---- what is compared ---- */

static bool is_last_call(const check *c, uint32_t call)
{
    const sc_module *m = c->local;
    for (uint32_t i = call + 1; i < m->schedule.count; i++) {
        if (m->schedule.data[i].func == m->schedule.data[call].func)
            return false;
    }
    return true;
}

static void add_place(check *c, const place *at)
{
    *sc_vec_push(&c->context->arena, &c->places) = *at;
}

/* What is known of a value of both programs: the per-rank one may compute in narrower dtypes, as gradients travel. */
static sc_reach reach_of(const sc_reach *global, sc_value value, const sc_reach *local, sc_value other)
{
    sc_reach reach = value == SC_NONE ? (sc_reach){0} : global[value];
    if (other != SC_NONE)
        reach.unit = fmax(reach.unit, local[other].unit);
    return reach;
}

static void add_states(check *c, sc_func_id func, const sc_reach *reach, const sc_reach *local, bool *seen)
{
    const sc_value *written = sc_written_states(c->global, c->global, func), *also = sc_written_states(c->global, c->local, func);
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        if (written[s] == SC_NONE && also[s] == SC_NONE)
            continue;
        if (written[s] == SC_NONE) /* and so must stay as it is */
            add_place(c, &(place){func, s, -1, {0}, state->path, state->loc});
        else
            add_place(c, &(place){func, s, -1, reach_of(reach, written[s], local, also[s]), state->path, state->loc});
        seen[s] = true;
    }
}

/* State that nobody writes stays as it is. */
static void add_constant_states(check *c, const bool *seen)
{
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        if (!seen[s])
            add_place(c, &(place){c->last, s, -1, {0}, state->path, state->loc});
    }
}

static void add_outputs(check *c, const sc_reach *reach, const sc_reach *local)
{
    const sc_op *returned = sc_returned(c->global, c->last), *other = sc_returned(c->local, c->last);
    for (uint32_t i = 0; i < sc_output_count(c->global, c->last); i++) {
        sc_value value = returned->operands[i];
        sc_reach both = reach_of(reach, value, local, other != NULL && i < other->operand_count ? other->operands[i] : SC_NONE);
        add_place(c, &(place){c->last, SC_NONE, (int32_t)i, both, c->global->values.data[value].path, returned->loc});
    }
}

static void list_places(check *c)
{
    bool *seen = sc_arena_array(&c->context->arena, c->global->state.count + 1u, sizeof *seen);
    for (uint32_t i = 0; i < c->local->schedule.count; i++) {
        sc_func_id func = c->local->schedule.data[i].func;
        if (func >= c->global->funcs.count || !is_last_call(c, i))
            continue;
        sc_draws draws;
        sc_draws_find(c->local, func, &draws);
        const sc_reach *reach = sc_reach_find(c->global, func, &c->draws), *local = sc_reach_find(c->local, func, &draws);
        add_states(c, func, reach, local, seen);
        if (func == c->last)
            add_outputs(c, reach, local);
    }
    add_constant_states(c, seen);
    for (uint32_t p = 0; p < c->places.count; p++)
        c->unit = fmax(c->unit, c->places.data[p].reach.unit);
}

static record new_record(check *c)
{
    return (record){sc_arena_array(&c->context->arena, c->places.count + 1u, sizeof(sc_array))};
}

static void clear(const check *c, record *of)
{
    for (uint32_t p = 0; of->values != NULL && p < c->places.count; p++)
        sc_array_free(&of->values[p]);
}

/* ---- starts ---- */

/* Rounds values to their dtype; for a start nearby, moves each then by half its last place, up or down. What is an integer is one for a
 * reason, and stays. */
static void settle(const sc_type_info *type, const sc_draw *draw, uint32_t nearby, sc_array *values)
{
    double unit = sc_dtype_is_float(type->dtype) ? ldexp(1, -sc_dtypes[type->dtype].significand) : 0;
    for (int64_t i = 0; i < values->count; i++) {
        double value = sc_round_to(type->dtype, values->data[i]);
        if (nearby > 0 && nearbyint(value) != value)
            value *= sc_rng_uniform(nearby, draw->stream, (uint64_t)i) < 0.5 ? 1 - unit : 1 + unit;
        values->data[i] = value;
    }
}

static bool set_states(check *c, sc_runner *runner, uint32_t nearby)
{
    const sc_module *m = sc_runner_module(runner);
    for (uint32_t s = 0; s < c->global->state.count; s++) {
        const sc_state *state = &c->global->state.data[s];
        const sc_type_info *type = &c->global->types.data[state->type];
        uint32_t mine = sc_module_find_state(m, state->path);
        if (mine == SC_NONE || !sc_same_dims(c->global, state->type, m, m->state.data[mine].type))
            continue;
        sc_array values = sc_trial_state(c->global, s, &c->draws, c->limit, &c->options);
        if (values.data != NULL)
            settle(type, &c->draws.state[s], nearby, &values);
        bool ok = values.data != NULL && sc_runner_set_state(runner, mine, values.data);
        sc_array_free(&values);
        if (!ok)
            return false;
    }
    return true;
}

static bool draw_inputs(check *c, int32_t micro_batch, uint32_t nearby, sc_array *inputs)
{
    sc_draw_options fresh = c->options;
    fresh.seed += micro_batch > 0 ? (uint64_t)micro_batch : 0;
    for (uint32_t i = 0; i < c->inputs.count; i++) {
        const sc_type_info *type = &c->global->types.data[c->inputs.data[i]];
        inputs[i] = sc_trial_values(type, &c->draws.inputs.data[i], &fresh);
        if (inputs[i].data == NULL)
            return false;
        settle(type, &c->draws.inputs.data[i], nearby, &inputs[i]);
    }
    return true;
}

/* ---- runs ---- */

/* Whether the place is a state after the function; or after the one that is joined with it (SC_NONE: none is), if it leaves it alone. */
static bool is_left_by(const check *c, const place *at, sc_func_id func, sc_func_id joined)
{
    bool is_left = at->func == func || at->func == joined;
    for (uint32_t p = 0; p < c->places.count && at->func != func; p++)
        is_left = is_left && (c->places.data[p].state != at->state || c->places.data[p].func != func);
    return is_left && at->state != SC_NONE;
}

static bool note_states(check *c, const sc_runner *runner, sc_func_id func, sc_func_id joined, record *out)
{
    const sc_module *m = sc_runner_module(runner);
    for (uint32_t p = 0; p < c->places.count; p++) {
        const place *at = &c->places.data[p];
        uint32_t mine = is_left_by(c, at, func, joined) ? sc_module_find_state(m, at->path) : SC_NONE;
        if (mine == SC_NONE)
            continue;
        sc_array_free(&out->values[p]);
        out->values[p] = sc_runner_get_state(runner, mine);
        if (out->values[p].data == NULL)
            return false;
    }
    return true;
}

static void note_outputs(check *c, sc_array *outputs, uint32_t count, record *out)
{
    for (uint32_t p = 0; p < c->places.count; p++) {
        const place *at = &c->places.data[p];
        if (at->state != SC_NONE || (uint32_t)at->output >= count)
            continue;
        sc_array_free(&out->values[p]);
        out->values[p] = outputs[at->output];
        outputs[at->output] = (sc_array){0};
    }
}

/* One call; what is compared after it is noted when it is its function's last. `with`: the call of the function's other half, where the
 * program has one for both; NULL: it is itself. */
static bool run_call(check *c, sc_runner *runner, const sc_call *call, const sc_call *with, bool is_last, uint32_t nearby, record *out,
                     char *error, size_t error_size)
{
    const sc_module *m = sc_runner_module(runner);
    const sc_call *first = with != NULL ? with : call;
    sc_func_id func = with != NULL ? sc_runner_last(runner) : call->func;
    bool is_fed = first->func == c->func;
    uint32_t output_count = call->func == c->last ? sc_output_count(m, call->func) : 0, input_count = is_fed ? c->inputs.count : 0;
    sc_array *inputs = sc_arena_array(&c->context->arena, input_count + 1u, sizeof *inputs);
    sc_array *outputs = sc_arena_array(&c->context->arena, output_count + 1u, sizeof *outputs);
    sc_runner_set_random(runner, c->options.seed, 1, first->microbatch < 0 ? 0 : (uint32_t)first->microbatch);
    snprintf(error, error_size, "there is not enough memory");
    bool ok = (!is_fed || draw_inputs(c, first->microbatch, nearby, inputs)) &&
              sc_runner_run(runner, func, inputs, input_count, outputs, output_count, error, error_size) &&
              (!is_last || note_states(c, runner, call->func, with != NULL ? with->func : SC_NONE, out));
    if (ok && is_last)
        note_outputs(c, outputs, output_count, out);
    for (uint32_t i = 0; i < input_count; i++)
        sc_array_free(&inputs[i]);
    for (uint32_t i = 0; i < output_count; i++)
        sc_array_free(&outputs[i]);
    return ok;
}

/* The step as the program calls it: the last micro-batch and the update are one function. */
static bool run_joined(check *c, sc_runner *runner, record *out, char *error, size_t error_size)
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

/* The whole schedule, or at a limit the update by itself. */
static bool run(check *c, sc_runner *runner, uint32_t nearby, record *out, char *error, size_t error_size)
{
    const sc_module *m = sc_runner_module(runner);
    clear(c, out);
    snprintf(error, error_size, "there is not enough memory");
    if (!set_states(c, runner, nearby))
        return false;
    if (c->limit != SC_LIMIT_NONE)
        return run_call(c, runner, &(sc_call){.func = c->last, .microbatch = -1}, NULL, true, nearby, out, error, error_size);
    for (uint32_t i = 0; i < c->local->schedule.count; i++) {
        const sc_call *call = &c->local->schedule.data[i];
        if (call->func < m->funcs.count && !run_call(c, runner, call, NULL, is_last_call(c, i), nearby, out, error, error_size))
            return false;
    }
    return true;
}

static bool run_reference(check *c, char *error, size_t error_size)
{
    if (!run(c, c->truth, 0, &c->expected, error, error_size))
        return false;
    for (uint32_t n = 0; n < NEARBY; n++) {
        if (!run(c, c->nearby, n + 1, &c->near[n], error, error_size))
            return false;
    }
    return true;
}

/* ---- comparing ---- */

static double norm_of(const sc_array *array)
{
    double sum = 0;
    for (int64_t i = 0; i < array->count && array->data != NULL; i++)
        sum += isfinite(array->data[i]) ? array->data[i] * array->data[i] : 0;
    return sqrt(sum);
}

/* Of the largest tensor of each kind of state, and of outputs at the end, the root mean square. */
static void find_scales(const check *c, double scales[SC_STATE_KINDS + 1])
{
    memset(scales, 0, (SC_STATE_KINDS + 1) * sizeof *scales);
    for (uint32_t p = 0; p < c->places.count; p++) {
        const place *at = &c->places.data[p];
        const sc_array *values = &c->expected.values[p];
        double *scale = &scales[at->state == SC_NONE ? SC_STATE_KINDS : c->global->state.data[at->state].kind];
        if (values->data != NULL && values->count > 0)
            *scale = fmax(*scale, norm_of(values) / sqrt((double)values->count));
    }
}

static double tolerance_of(double unit)
{
    return unit >= 0x1p-11 ? 2e-2 : unit >= 0x1p-24 ? 1e-5 : unit > 0 ? 1e-9 : 0;
}

typedef struct comparison {
    double norm, error, spread; /* of what is expected; of the difference; how far it is to runs nearby */
    int64_t worst;              /* element, -1: none differs */
    bool is_hopeless;           /* that element is not finite on one side only */
} comparison;

/* Elements that overflow in runs nearby are beyond the dtype, and say nothing. */
static bool is_beyond(const check *c, uint32_t p, int64_t i)
{
    bool is_finite = isfinite(c->expected.values[p].data[i]);
    for (uint32_t n = 0; n < NEARBY; n++) {
        if ((bool)isfinite(c->near[n].values[p].data[i]) != is_finite)
            return true;
    }
    return false;
}

static comparison compare(const check *c, uint32_t p)
{
    const double *expected = c->expected.values[p].data, *found = c->found.values[p].data;
    comparison result = {.worst = -1};
    double norm = 0, error = 0, largest = 0, spread[NEARBY] = {0};
    for (int64_t i = 0; i < c->found.values[p].count && !result.is_hopeless; i++) {
        if (is_beyond(c, p, i) || (isnan(expected[i]) && isnan(found[i])))
            continue;
        double distance = expected[i] == found[i] ? 0 : fabs(expected[i] - found[i]);
        result.is_hopeless = !isfinite(distance);
        if (result.is_hopeless || distance > largest)
            result.worst = i;
        largest = fmax(largest, distance);
        norm += isfinite(expected[i]) ? expected[i] * expected[i] : 0;
        error += distance * distance;
        for (uint32_t n = 0; n < NEARBY; n++) {
            double away = expected[i] - c->near[n].values[p].data[i];
            spread[n] += isfinite(away) ? away * away : 0;
        }
    }
    result.norm = sqrt(norm);
    result.error = sqrt(error);
    for (uint32_t n = 0; n < NEARBY; n++)
        result.spread = fmax(result.spread, sqrt(spread[n]));
    return result;
}

static void count(check *c, const place *at, const comparison *one, double allowed)
{
    sc_compiled_result *result = c->result;
    double relative = one->error == 0 ? 0 : one->norm > 0 ? one->error / one->norm : 0;
    bool is_decided = one->spread <= undecided_share * one->norm || one->spread == 0;
    result->undecided += !is_decided;
    result->states += c->limit == SC_LIMIT_NONE && at->state != SC_NONE;
    result->outputs += c->limit == SC_LIMIT_NONE && at->state == SC_NONE;
    result->limits += c->limit != SC_LIMIT_NONE;
    result->max_error = fmax(result->max_error, allowed > 0 ? one->error / allowed : 0);
    if (is_decided && relative > result->max_relative_error) {
        result->max_relative_error = relative;
        result->worst = at->path;
    }
}

static sc_type type_here(const check *c, const place *at, bool local)
{
    const sc_module *m = local ? c->local : c->global;
    if (at->state == SC_NONE)
        return m->values.data[sc_returned(m, c->last)->operands[at->output]].type;
    return m->state.data[sc_module_find_state(m, at->path)].type;
}

/* Both programs have to return as many values. */
static bool same_outputs(check *c)
{
    uint32_t global = sc_output_count(c->global, c->last), local = sc_output_count(c->local, c->last);
    if (global != local)
        differ_because(c, "the per-rank program returns %u values, the global one %u", local, global);
    return global == local;
}

static void compare_place(check *c, uint32_t p, const double *scales)
{
    const place *at = &c->places.data[p];
    const sc_array *expected = &c->expected.values[p], *found = &c->found.values[p];
    if (expected->data == NULL) /* not run at this limit */
        return;
    if (found->data == NULL) {
        differ_whole(c, at, "the per-rank program lacks it");
        return;
    }
    sc_type global = type_here(c, at, false), local = type_here(c, at, true);
    if (!sc_same_dims(c->global, global, c->local, local) || c->global->types.data[global].dtype != c->local->types.data[local].dtype) {
        differ_whole(c, at, "it has another shape or dtype");
        return;
    }
    /* whatever the step computes hangs on what the micro-batches left */
    double unit = c->limit == SC_LIMIT_NONE && c->has_step && at->func == c->last && at->reach.unit > 0 ? c->unit : at->reach.unit;
    double scale = scales[at->state == SC_NONE ? SC_STATE_KINDS : c->global->state.data[at->state].kind] * sqrt((double)found->count);
    comparison one = compare(c, p);
    double allowed = unit == 0 ? 0 : tolerance_of(unit) * one.norm + stability * one.spread + cancelled * unit * scale;
    if (one.is_hopeless || !(one.error <= allowed))
        differ_at(c, at, expected, found, one.worst);
    else
        count(c, at, &one, allowed);
}

static bool same_bits(double a, double b)
{
    return (isnan(a) && isnan(b)) || memcmp(&a, &b, sizeof a) == 0;
}

/* c->again against c->found. */
static void compare_bits(check *c)
{
    for (uint32_t p = 0; p < c->places.count; p++) {
        const sc_array *a = &c->found.values[p], *b = &c->again.values[p];
        for (int64_t i = 0; a->data != NULL && b->data != NULL && i < a->count; i++) {
            if (!same_bits(a->data[i], b->data[i])) {
                differ_at(c, &c->places.data[p], a, b, i);
                return;
            }
        }
    }
}

/* ---- collectives ---- */

enum { KINDS = 8 };
static const char *const kind_names[KINDS] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                              "permute",    "broadcast",      "send",       "recv"};

typedef struct traffic {
    uint64_t calls[KINDS];
    double sent[KINDS];
} traffic;

static traffic traffic_of(const check *c, const sc_comm_rows *rows, sc_func_id func)
{
    traffic sum = {0};
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        for (int k = 0; k < KINDS && sc_op_at(c->local, row->op)->func == func; k++) {
            bool is_kind = strcmp(kind_names[k], row->name) == 0;
            sum.calls[k] += is_kind ? row->count : 0;
            sum.sent[k] += is_kind ? row->sent * row->count : 0;
        }
    }
    return sum;
}

/* The table says what a rank sends at most: at the end of a line, a permutation has nowhere to go. */
static bool is_as_told(int kind, double sent, double told)
{
    bool may_be_less = strcmp(kind_names[kind], "permute") == 0;
    return sent <= told * (1 + 1e-12) && (may_be_less || sent >= told * (1 - 1e-12));
}

/* What the joined function called, in the one call of it, against its halves. */
static void compare_joined_traffic(check *c)
{
    const sc_call *last = &c->local->schedule.data[c->local->schedule.count - 1];
    sc_func_id funcs[] = {sc_runner_last(c->code), last[-1].func, last[0].func};
    c->run = "collectives";
    for (uint32_t rank = 0; rank < c->result->ranks; rank++) {
        sc_func_profile of[3];
        for (int i = 0; i < 3; i++)
            sc_session_profile(sc_runner_session(c->code), funcs[i], rank, &of[i]);
        for (int k = 0; k < KINDS; k++) {
            uint64_t calls = of[1].collectives[k] / of[1].calls + of[2].collectives[k] / of[2].calls;
            double sent = of[1].sent[k] / (double)of[1].calls + of[2].sent[k] / (double)of[2].calls;
            if (of[0].collectives[k] != calls || fabs(of[0].sent[k] - sent) > 1e-12 * sent)
                differ_because(c, "'%s' of rank %u calls %s %llu times and sends %.0f bytes, its halves %llu times, %.0f bytes",
                               sc_executable_func(sc_runner_program(c->code), funcs[0]), rank, kind_names[k],
                               (unsigned long long)of[0].collectives[k], of[0].sent[k], (unsigned long long)calls, sent);
        }
    }
}

static void compare_traffic(check *c)
{
    sc_comm_rows rows = {0};
    sc_comm_report(c->local, &rows);
    c->run = "collectives";
    for (sc_func_id func = 0; func < c->local->funcs.count; func++) {
        traffic told = traffic_of(c, &rows, func);
        double most = 0;
        for (uint32_t rank = 0; rank < c->result->ranks; rank++) {
            sc_func_profile profile;
            double sent = 0;
            sc_session_profile(sc_runner_session(c->code), func, rank, &profile);
            for (int k = 0; k < KINDS; k++) {
                if (profile.collectives[k] != told.calls[k] || !is_as_told(k, profile.sent[k], told.sent[k]))
                    differ_because(c, "in '%s' rank %u calls %s %llu times and sends %.0f bytes; `shardc comm` says %llu times, %.0f bytes",
                                   sc_text(c->context, c->local->funcs.data[func].name), rank, kind_names[k],
                                   (unsigned long long)profile.collectives[k], profile.sent[k], (unsigned long long)told.calls[k],
                                   told.sent[k]);
                sent += profile.sent[k];
                c->result->collectives += rank == 0 ? profile.collectives[k] : 0;
            }
            most = fmax(most, sent);
        }
        c->result->sent += most;
    }
}

/* ---- all of it ---- */

static bool is_joined(const check *c)
{
    sc_func_id last = sc_runner_last(c->code);
    return last != SC_NONE && last >= c->local->funcs.count;
}

/* The function that steps call last, from the same start: to the bit what its halves gave one after the other. */
static void compare_joined(check *c)
{
    char error[512];
    sc_runner *runners[] = {c->code, c->wide};
    static const char *const names[] = {"joined", "joined, two threads a rank"};
    for (int i = 0; i < 2 && c->result->equal; i++) {
        c->run = names[i];
        if (run_joined(c, runners[i], &c->again, error, sizeof error))
            compare_bits(c);
        else
            differ_because(c, "the emitted code fails: %s", error);
        if (i == 0 && c->result->equal)
            compare_joined_traffic(c);
    }
}

/* The same start on emitted code, three times. */
static void run_and_compare(check *c)
{
    char error[512];
    double scales[SC_STATE_KINDS + 1];
    c->run = c->limit == SC_LIMIT_NONE ? "random" : sc_limit_names[c->limit];
    if (!run(c, c->code, 0, &c->found, error, sizeof error)) {
        differ_because(c, "the emitted code fails: %s", error);
        return;
    }
    find_scales(c, scales);
    if (!same_outputs(c))
        return;
    for (uint32_t p = 0; p < c->places.count && c->result->equal; p++)
        compare_place(c, p, scales);
    if (c->limit == SC_LIMIT_NONE && c->result->equal)
        compare_traffic(c);
    if (c->limit == SC_LIMIT_NONE && c->result->equal && is_joined(c))
        compare_joined(c);
    sc_runner *runners[] = {c->code, c->wide};
    static const char *const names[] = {"again", "two threads a rank"};
    for (int i = 0; i < 2 && c->result->equal; i++) {
        c->run = names[i];
        if (run(c, runners[i], 0, &c->again, error, sizeof error))
            compare_bits(c);
        else
            differ_because(c, "the emitted code fails: %s", error);
    }
}

/* Ids that are no input may be out of range on some inputs, so smaller integers are tried. */
static bool find_start(check *c)
{
    char error[512];
    for (c->options.attempt = 0; c->options.attempt < SC_DRAW_ATTEMPTS; c->options.attempt++) {
        if (run_reference(c, error, sizeof error))
            return true;
    }
    c->run = "random";
    differ_because(c, "the global program itself fails on random inputs: %s", error);
    return false;
}

static void run_limits(check *c)
{
    char error[512];
    uint64_t seed = c->options.seed;
    for (sc_limit which = SC_LIMIT_UNCLIPPED; c->has_step && c->result->equal && which < SC_LIMIT_COUNT; which++) {
        if (!sc_limit_applies(c->global, which))
            continue;
        c->limit = which;
        c->run = sc_limit_names[which];
        c->options.seed = seed + ((uint64_t)which << 32);
        if (run_reference(c, error, sizeof error))
            run_and_compare(c);
        else
            differ_because(c, "the global program itself fails: %s", error);
    }
}

static void prepare(check *c)
{
    sc_draws_find(c->global, c->func, &c->draws);
    sc_for_each_op (c->global, c->func, id) {
        const sc_op *op = sc_op_at(c->global, id);
        if (op->kind == SC_OP_input)
            *sc_vec_push(&c->context->arena, &c->inputs) = c->global->values.data[op->first_result].type;
    }
    list_places(c);
    c->expected = new_record(c);
    c->found = new_record(c);
    c->again = new_record(c);
    for (uint32_t n = 0; n < NEARBY; n++)
        c->near[n] = new_record(c);
}

static bool open_runners(check *c)
{
    uint32_t ranks = (uint32_t)c->result->ranks;
    c->truth = sc_runner_interpret(c->global, NULL, &(sc_interp_options){0});
    c->nearby = sc_runner_interpret(c->global, NULL, &(sc_interp_options){.round = true});
    if (c->truth == NULL || c->nearby == NULL) {
        differ_because(c, "there is not enough memory to interpret the program");
        return false;
    }
    c->code = sc_runner_load(c->context, c->local, NULL, ranks);
    c->wide = c->code == NULL ? NULL : sc_runner_again(c->context, c->code, 2 * ranks);
    c->result->equal = c->wide != NULL;
    return c->wide != NULL;
}

static void close_all(check *c)
{
    clear(c, &c->expected);
    clear(c, &c->found);
    clear(c, &c->again);
    for (uint32_t n = 0; n < NEARBY; n++)
        clear(c, &c->near[n]);
    sc_runner_free(c->truth);
    sc_runner_free(c->nearby);
    sc_runner_free(c->wide);
    sc_runner_free(c->code);
}

bool sc_validate_compiled(sc_module *global, sc_module *local, sc_func_id func, const sc_validate_options *options,
                          sc_compiled_result *result)
{
    check c = {.context = local->context, .global = global, .local = local, .func = func, .last = func, .result = result, .run = "random"};
    sc_trial_size size;
    *result = (sc_compiled_result){.equal = true};
    c.options.seed = options->seed;
    c.has_step = sc_schedules_step(global);
    if (c.has_step)
        c.last = global->schedule.data[global->schedule.count - 1].func;
    if (!sc_same_schedule(global, local)) {
        differ_because(&c, "the per-rank program does not call the same functions for the same micro-batches");
        return false;
    }
    sc_trial_shrink(global, local, options->full, &size);
    result->shrunk = size.shrink.list;
    result->ranks = sc_mesh_ranks(&local->mesh);
    prepare(&c);
    if (size.too_large != NULL)
        differ_because(&c, "%s", size.too_large);
    else if (open_runners(&c) && find_start(&c))
        run_and_compare(&c);
    if (c.wide != NULL)
        run_limits(&c);
    close_all(&c);
    sc_trial_restore(&size);
    return result->equal;
}
