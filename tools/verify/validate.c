#include "tools/verify/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/interp/interp.h"
#include "tools/verify/error_bounds.h"
#include "tools/verify/verification_run.h"

/* 1e-12 over 1e-9. */
static const double share_of_kind = 1e-3;

typedef enum run_kind { RUN_RANDOM, RUN_INTEGERS, RUN_DTYPES } run_kind;
static const char *const run_names[] = {"random", "integers", "dtypes"};

typedef struct named {
    sc_sym path;
    uint32_t order; /* position in the function */
    sc_value value;
} named;
typedef SC_VEC(named) named_list;

/* A named value of the per-rank program, and the values of the global one that it may correspond
 * to: several if the name is assigned repeatedly and some of the values were eliminated. */
typedef struct name_pair {
    named local;
    uint32_t first, count; /* range in the sorted list of the global program */
    uint32_t matched;      /* the one that it equals on random inputs; SC_NONE: unknown */
} name_pair;

typedef struct validation {
    sc_module *global, *local;
    sc_func_id func; /* function that gets random inputs: the entry, or a step's micro-batch */
    sc_func_id last; /* function whose outputs are compared: the entry, or a step's update */
    sc_validate_result *result;
    sc_differences differences;
    sc_random_inputs distributions;
    sc_error_bounds *bounds; /* of the global program, by value of `func` */
    sc_error_bounds *last_bounds;
    bool has_step; /* the schedule has more than one function */
    named_list names;
    SC_VEC(name_pair) pairs;
    uint32_t global_outputs, local_outputs;
    bool has_exact;
    /* the run in progress */
    run_kind kind;
    sc_limit limit; /* of an update alone, after the schedule */
    /* the per-rank program failed: only what it computed until then can be compared */
    bool stopped;
    sc_interp *one, *all;
    /* if casts are applied: the global program without them; else NULL */
    sc_interp *truth;
    sc_array *inputs, *expected, *found, *unrounded; /* unrounded: outputs of `truth` */
    bool *kept_global, *kept_local;                  /* by value */
} validation;

/* ---- values to compare ---- */

static int by_path_and_order(const void *a, const void *b)
{
    const named *x = a, *y = b;
    if (x->path != y->path)
        return x->path < y->path ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_order(const void *a, const void *b)
{
    const name_pair *x = a, *y = b;
    return x->local.order < y->local.order ? -1 : x->local.order > y->local.order;
}

static void list_names(const sc_module *m, sc_func_id func, named_list *out)
{
    uint32_t order = 0;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        bool is_given = sc_op_has(op, SC_FROM_OUTSIDE | SC_STATE_READ);
        if (!is_given) {
            for (uint32_t r = 0; r < op->result_count; r++) {
                sc_sym path = m->values.data[op->first_result + r].path;
                if (path != 0)
                    *sc_vec_push(&m->context->arena, out) =
                        (named){path, order, op->first_result + r};
                order++;
            }
        }
    }
    if (out->count > 0)
        qsort(out->data, out->count, sizeof *out->data, by_path_and_order);
}

static uint32_t group_end(const named_list *list, uint32_t first)
{
    uint32_t end = first;
    while (end < list->count && list->data[end].path == list->data[first].path)
        end++;
    return end;
}

/* Pairs values of equal paths in order; if the counts differ, each may match any of them. */
static void pair_names(validation *v)
{
    named_list locals = {0};
    sc_arena *arena = &v->local->context->arena;
    list_names(v->global, v->func, &v->names);
    list_names(v->local, v->func, &locals);
    uint32_t g = 0;
    for (uint32_t l = 0, end; l < locals.count; l = end) {
        end = group_end(&locals, l);
        while (g < v->names.count && v->names.data[g].path < locals.data[l].path)
            g++;
        if (g == v->names.count || v->names.data[g].path != locals.data[l].path)
            continue;
        uint32_t count = group_end(&v->names, g) - g;
        bool one_to_one = count == end - l;
        for (uint32_t i = l; i < end; i++)
            *sc_vec_push(arena, &v->pairs) =
                (name_pair){locals.data[i], one_to_one ? g + i - l : g, one_to_one ? 1 : count,
                            one_to_one ? 0 : SC_NONE};
    }
    if (v->pairs.count > 0)
        qsort(v->pairs.data, v->pairs.count, sizeof *v->pairs.data, by_order);
}

static void mark_kept(validation *v)
{
    sc_arena *arena = &v->local->context->arena;
    v->kept_global = sc_arena_array(arena, v->global->values.count + 1u, sizeof *v->kept_global);
    v->kept_local = sc_arena_array(arena, v->local->values.count + 1u, sizeof *v->kept_local);
    for (uint32_t p = 0; p < v->pairs.count; p++) {
        const name_pair *pair = &v->pairs.data[p];
        v->kept_local[pair->local.value] = true;
        for (uint32_t i = 0; i < pair->count; i++)
            v->kept_global[v->names.data[pair->first + i].value] = true;
        v->has_exact |= v->bounds[v->names.data[pair->first].value].exact;
    }
}

/* ---- numbers ---- */

static double largest_of(const sc_array *array)
{
    double largest = 0;
    if (array->data != NULL) {
        for (int64_t i = 0; i < array->count; i++) {
            double magnitude = fabs(array->data[i]);
            largest = isfinite(magnitude) && magnitude > largest ? magnitude : largest;
        }
    }
    return largest;
}

typedef struct comparison {
    double error; /* largest error relative to the allowed one */
    int64_t at;   /* first element above the allowed error, or -1 */
} comparison;

static double error_between(double a, double b, double allowed)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    double error = fabs(a - b);
    return isfinite(error) && allowed > 0 ? error / allowed : INFINITY;
}

static comparison compare(const sc_array *a, const sc_array *b, double allowed)
{
    comparison result = {.at = -1};
    for (int64_t i = 0; i < a->count; i++) {
        double error = error_between(a->data[i], b->data[i], allowed);
        result.error = error > result.error ? error : result.error;
        if (error > 1 && result.at < 0)
            result.at = i;
    }
    return result;
}

static double distance(const sc_array *a, const sc_array *b)
{
    double largest = 0;
    if (a->data != NULL && b->data != NULL) {
        for (int64_t i = 0; i < a->count; i++) {
            double error = fabs(a->data[i] - b->data[i]);
            largest = isfinite(error) && error > largest ? error : largest;
        }
    }
    return largest;
}

static bool same_shape(const sc_array *a, const sc_array *b)
{
    return a->rank == b->rank && memcmp(a->sizes, b->sizes, a->rank * sizeof *a->sizes) == 0;
}

/* Returns the largest |a - b| that counts as equal. `bounds` NULL: the value was not computed and
 * must be identical. `unrounded` is the result of the global program without casts (no data:
 * unknown): its distance from `expected` measures how much this program amplifies small errors. */
static double allowed_error(const validation *v, const sc_error_bounds *bounds,
                            const sc_array *expected, const sc_array *unrounded, double largest)
{
    double scale = largest_of(expected) + share_of_kind * largest;
    if (bounds == NULL)
        return 0;
    switch (v->kind) {
    case RUN_RANDOM:
        return SC_VALIDATE_TOLERANCE * scale;
    case RUN_DTYPES:
        return 8 * bounds->unit * sqrt(bounds->depth) * scale + 4 * distance(expected, unrounded);
    default:
        return 0;
    }
}

/* True if this kind of run is informative about a value. */
static bool is_compared(validation *v, const sc_error_bounds *bounds)
{
    if (v->kind == RUN_INTEGERS)
        return bounds->exact;
    if (v->kind == RUN_DTYPES && bounds->decided)
        v->result->undecided++;
    return v->kind != RUN_DTYPES || !bounds->decided;
}

static void count_one(validation *v, uint32_t *random, double error)
{
    sc_validate_result *result = v->result;
    if (v->kind == RUN_INTEGERS) {
        result->exact++;
    } else if (v->kind == RUN_DTYPES) {
        result->rounded++;
        result->max_rounding_error = fmax(result->max_rounding_error, error);
    } else {
        *random += v->limit == SC_LIMIT_NONE;
        result->max_error = fmax(result->max_error, error * SC_VALIDATE_TOLERANCE);
    }
}

/* ---- comparing the results of two runs ---- */

static double largest_named(const validation *v)
{
    double largest = 0;
    for (uint32_t i = 0; i < v->names.count; i++) {
        if (!v->kept_global[v->names.data[i].value])
            continue;
        sc_array array = sc_interp_get_value(v->one, v->names.data[i].value, NULL);
        largest = fmax(largest, largest_of(&array));
        sc_array_free(&array);
    }
    return largest;
}

/* Compares with one of the candidate values. Returns false if its shape differs. */
static bool compare_candidate(validation *v, sc_value candidate, sc_type local_type,
                              const sc_array *found, double largest, sc_array *expected,
                              comparison *out)
{
    sc_array unrounded = {0};
    *expected = sc_interp_get_value(v->one, candidate, NULL);
    if (expected->data == NULL ||
        !sc_same_dims(v->global, v->global->values.data[candidate].type, v->local, local_type) ||
        !same_shape(expected, found)) {
        sc_array_free(expected);
        return false;
    }
    if (v->truth != NULL)
        unrounded = sc_interp_get_value(v->truth, candidate, NULL);
    *out = compare(expected, found,
                   allowed_error(v, &v->bounds[candidate], expected, &unrounded, largest));
    sc_array_free(&unrounded);
    return true;
}

/* True if this run can compare with the candidates: on integers with the one found to match on
 * random inputs, otherwise only if the run is informative about each of them. */
static bool may_compare(validation *v, const name_pair *pair)
{
    for (uint32_t i = 0; i < pair->count; i++) {
        if (!is_compared(v, &v->bounds[v->names.data[pair->first + i].value]))
            return false;
    }
    return true;
}

static void compare_pair(validation *v, name_pair *pair, double largest)
{
    const sc_value_info *info = &v->local->values.data[pair->local.value];
    sc_compared subject = {
        .path = info->path, .output = -1, .loc = sc_op_at(v->local, info->def)->loc};
    const named *candidates = &v->names.data[pair->first];
    name_pair asked = *pair;
    if (v->kind == RUN_INTEGERS && pair->matched != SC_NONE) {
        asked.first = pair->first + pair->matched;
        asked.count = 1;
        candidates += pair->matched;
    }
    if (!may_compare(v, &asked))
        return;
    bool agree, has_shape = false;
    sc_array found = sc_interp_get_value(v->all, pair->local.value, &agree), nearest = {0};
    if (found.data == NULL && v->stopped)
        return;
    comparison best = {.at = 0};
    if (found.data != NULL) {
        for (uint32_t i = 0; i < asked.count && best.at >= 0; i++) {
            sc_array expected;
            comparison one;
            if (!compare_candidate(v, candidates[i].value, info->type, &found, largest, &expected,
                                   &one))
                continue;
            bool is_nearer = !has_shape || one.at < 0 || one.error < best.error;
            sc_array_free(is_nearer ? &nearest : &expected);
            nearest = is_nearer ? expected : nearest;
            best = is_nearer ? one : best;
            pair->matched = v->kind == RUN_RANDOM && one.at < 0 ? i : pair->matched;
            has_shape = true;
        }
    }
    if (found.data == NULL || !has_shape)
        sc_differ_whole(&v->differences, &subject,
                        found.data == NULL ? "it has no value" : "it has a different shape");
    else if (!agree)
        sc_differ_whole(&v->differences, &subject,
                        "ranks that should hold the same elements differ");
    else if (best.at >= 0)
        sc_differ_at(&v->differences, &subject, &nearest, &found, best.at);
    else
        count_one(v, &v->result->values, best.error);
    sc_array_free(&nearest);
    sc_array_free(&found);
}

static void compare_values(validation *v)
{
    double largest = largest_named(v);
    for (uint32_t p = 0; p < v->pairs.count; p++)
        compare_pair(v, &v->pairs.data[p], largest);
}

static sc_dtype dtype_of(const sc_module *m, sc_type type)
{
    return m->types.data[type].dtype;
}

static void compare_state(validation *v, uint32_t state, const sc_error_bounds *bounds,
                          double largest)
{
    const sc_state *info = &v->global->state.data[state];
    sc_compared subject = {.path = info->path, .output = -1, .loc = info->loc};
    uint32_t other = sc_module_find_state(v->local, info->path);
    bool agree = true;
    sc_array expected = sc_interp_get_state(v->one, state, NULL), found = {0}, unrounded = {0};
    if (other != SC_NONE)
        found = sc_interp_get_state(v->all, other, &agree);
    if (v->truth != NULL)
        unrounded = sc_interp_get_state(v->truth, state, NULL);
    if (expected.data == NULL || found.data == NULL || !same_shape(&expected, &found)) {
        sc_differ_whole(&v->differences, &subject, "it is missing or has a different shape");
    } else if (dtype_of(v->global, info->type) !=
               dtype_of(v->local, v->local->state.data[other].type)) {
        sc_differ_whole(&v->differences, &subject, "it is stored in a different dtype");
    } else if (!agree) {
        sc_differ_whole(&v->differences, &subject,
                        "ranks that should hold the same part of it differ");
    } else {
        comparison one =
            compare(&expected, &found, allowed_error(v, bounds, &expected, &unrounded, largest));
        if (one.at >= 0)
            sc_differ_at(&v->differences, &subject, &expected, &found, one.at);
        else
            count_one(v, info->kind == SC_STATE_CACHE ? &v->result->caches : &v->result->states,
                      one.error);
    }
    sc_array_free(&unrounded);
    sc_array_free(&expected);
    sc_array_free(&found);
}

/* Compares the state of each kind that the function writes, and state that it leaves unchanged but
 * that the per-rank program writes. */
static void compare_states(validation *v, sc_func_id func, const sc_error_bounds *bounds)
{
    double largest[SC_STATE_KINDS] = {0};
    const sc_value *written = sc_written_states(v->global, v->global, func),
                   *also = sc_written_states(v->global, v->local, func);
    for (uint32_t s = 0; s < v->global->state.count; s++) {
        sc_array array = sc_interp_get_state(v->one, s, NULL);
        double *of_kind = &largest[v->global->state.data[s].kind];
        *of_kind = fmax(*of_kind, largest_of(&array));
        sc_array_free(&array);
    }
    for (uint32_t s = 0; s < v->global->state.count; s++) {
        const sc_state *state = &v->global->state.data[s];
        if (written[s] != SC_NONE && is_compared(v, &bounds[written[s]]))
            compare_state(v, s, &bounds[written[s]], largest[state->kind]);
        else if (written[s] == SC_NONE && also[s] != SC_NONE)
            compare_state(v, s, NULL, largest[state->kind]);
    }
}

static void compare_outputs(validation *v)
{
    const sc_op *global = sc_returned(v->global, v->last), *local = sc_returned(v->local, v->last);
    double largest = 0;
    if (v->global_outputs != v->local_outputs) {
        sc_differ_because(&v->differences,
                          "the per-rank program returns %u values, the global one %u",
                          v->local_outputs, v->global_outputs);
        return;
    }
    for (uint32_t i = 0; i < v->global_outputs; i++)
        largest = fmax(largest, largest_of(&v->expected[i]));
    for (uint32_t i = 0; i < v->global_outputs; i++) {
        const sc_array *expected = &v->expected[i], *found = &v->found[i];
        sc_value value = global->operands[i];
        sc_compared subject = {
            .path = v->global->values.data[value].path, .output = (int32_t)i, .loc = local->loc};
        if (!is_compared(v, &v->last_bounds[value]))
            continue;
        if (!same_shape(expected, found) ||
            !sc_same_dims(v->global, v->global->values.data[value].type, v->local,
                          v->local->values.data[local->operands[i]].type)) {
            sc_differ_whole(&v->differences, &subject, "it has a different shape");
            continue;
        }
        if (sc_type_of(v->global, value)->dtype !=
            sc_type_of(v->local, local->operands[i])->dtype) {
            sc_differ_whole(&v->differences, &subject, "it has a different dtype");
            continue;
        }
        comparison one =
            compare(expected, found,
                    allowed_error(v, &v->last_bounds[value], expected, &v->unrounded[i], largest));
        if (one.at >= 0)
            sc_differ_at(&v->differences, &subject, expected, found, one.at);
        else
            count_one(v, &v->result->outputs, one.error);
    }
}

/* ---- runs ---- */

static bool keep_marked(const sc_module *m, sc_value value, void *user)
{
    (void)m;
    const bool *kept = user;
    return kept[value];
}

static bool fill_inputs(validation *v, const sc_random_options *options)
{
    uint32_t input = 0;
    sc_for_each_op (v->global, v->func, id) {
        const sc_op *op = sc_op_at(v->global, id);
        if (!sc_op_has(op, SC_FROM_OUTSIDE))
            continue;
        sc_array_free(&v->inputs[input]);
        v->inputs[input] = sc_verification_values(sc_type_of(v->global, op->first_result),
                                                  &v->distributions.inputs.data[input], options);
        if (v->inputs[input].data == NULL)
            return false;
        input++;
    }
    return true;
}

/* Sets the same global values in both programs; state that the other program lacks or has with
 * another shape stays zero there. */
static bool fill_state(validation *v, const sc_random_options *options)
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

static void close_run(validation *v)
{
    free_arrays(v->inputs, v->distributions.inputs.count);
    free_arrays(v->expected, v->global_outputs);
    free_arrays(v->unrounded, v->global_outputs);
    free_arrays(v->found, v->local_outputs);
    sc_interp_free(v->one);
    sc_interp_free(v->all);
    sc_interp_free(v->truth);
    v->one = v->all = v->truth = NULL;
}

static bool open_run(validation *v, bool round)
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

static bool run_one(validation *v, sc_interp *interp, sc_func_id func, sc_array *outputs,
                    uint32_t count, char *error, size_t error_size)
{
    bool is_fed = func == v->func;
    return sc_interp_run(interp, func, is_fed ? v->inputs : NULL,
                         is_fed ? v->distributions.inputs.count : 0, outputs,
                         func == v->last ? count : 0, error, error_size);
}

/* Runs one call of the global program. */
static bool run_global(validation *v, sc_func_id func, char *error, size_t error_size)
{
    return run_one(v, v->one, func, v->expected, v->global_outputs, error, error_size) &&
           (v->truth == NULL ||
            run_one(v, v->truth, func, v->unrounded, v->global_outputs, error, error_size));
}

/* Runs the first call. Ids that are not its inputs may be out of range for some inputs, so smaller
 * integers are tried. */
static bool start_global(validation *v, sc_random_options *options, char *error, size_t error_size)
{
    for (options->attempt = 0; options->attempt < SC_RANDOM_ATTEMPTS; options->attempt++) {
        if (!fill_inputs(v, options) || !fill_state(v, options)) {
            snprintf(error, error_size, "out of memory");
            return false;
        }
        if (run_global(v, v->func, error, error_size))
            return true;
    }
    return false;
}

static void set_random(validation *v, uint64_t seed, int32_t micro_batch)
{
    sc_interp *all[] = {v->one, v->all, v->truth};
    for (size_t i = 0; i < 3; i++) {
        if (all[i] != NULL)
            sc_interp_set_random(all[i], seed, 1, micro_batch < 0 ? 0 : (uint32_t)micro_batch);
    }
}

/* Runs one call of the schedule in both programs. `done`: the global program has already run it. A
 * function that only the per-rank program has prepares what the others read. Returns false if
 * nothing more can be compared. */
static bool run_call(validation *v, const sc_call *call, bool done,
                     const sc_random_options *options)
{
    char error[512] = "";
    set_random(v, options->seed, call->microbatch);
    sc_random_options fresh = *options;
    fresh.seed += call->microbatch > 0 ? (uint64_t)call->microbatch : 0;
    bool only_local = call->func >= v->global->funcs.count;
    if (!done && !only_local &&
        ((call->func == v->func && !fill_inputs(v, &fresh)) ||
         !run_global(v, call->func, error, sizeof error))) {
        sc_differ_because(&v->differences, "the global program itself fails on random inputs: %s",
                          error);
        return false;
    }
    v->stopped = !run_one(v, v->all, call->func, v->found, v->local_outputs, error, sizeof error);
    if (v->stopped) {
        compare_values(v);
        sc_differ_because(&v->differences, "the per-rank program fails: %s", error);
    }
    return !v->stopped;
}

static void compare_call(validation *v, sc_func_id func)
{
    if (func == v->func)
        compare_values(v);
    if (func != v->last)
        compare_states(v, func, v->bounds);
    else
        compare_states(v, func, v->last_bounds);
    if (func == v->last)
        compare_outputs(v);
}

/* Runs an update alone, on newly drawn state. */
static void run_limit(validation *v, sc_limit which, const sc_random_options *options)
{
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
    else if (!run_global(v, v->last, error, sizeof error))
        sc_differ_because(&v->differences, "the global program itself fails: %s", error);
    else if (!run_one(v, v->all, v->last, v->found, v->local_outputs, error, sizeof error))
        sc_differ_because(&v->differences, "the per-rank program fails: %s", error);
    else
        compare_call(v, v->last);
    v->limit = SC_LIMIT_NONE;
    v->differences.run = run_names[v->kind];
}

/* Runs the whole schedule once and compares functions after their last call. Runs on integers and
 * with casts are informative about a micro-batch but not about the optimizer. */
static void run_schedule(validation *v, sc_random_options *options)
{
    const sc_call only = {.func = v->func};
    uint32_t count = v->has_step ? v->local->schedule.count : 1;
    char error[512] = "";
    set_random(v, options->seed, 0);
    if (!start_global(v, options, error, sizeof error)) {
        if (v->kind != RUN_INTEGERS) /* not every program accepts integers */
            sc_differ_because(&v->differences,
                              "the global program itself fails on random inputs: %s", error);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        const sc_call *call = v->has_step ? &v->local->schedule.data[i] : &only;
        if (v->has_step && v->kind != RUN_RANDOM && call->func == v->last)
            return;
        if (!run_call(v, call, call->func == v->func && call->microbatch <= 0, options))
            return;
        if (call->func < v->global->funcs.count &&
            (i + 1 == count || v->local->schedule.data[i + 1].func != call->func))
            compare_call(v, call->func);
    }
    if (!v->has_step)
        return;
    for (sc_limit which = SC_LIMIT_UNCLIPPED; which < SC_LIMIT_COUNT; which++) {
        if (!v->result->equal)
            break;
        run_limit(v, which, options);
    }
}

static void run_and_compare(validation *v, run_kind kind, uint64_t seed)
{
    sc_random_options options = {.seed = seed, .integers = kind == RUN_INTEGERS};
    v->kind = kind;
    v->differences.run = run_names[kind];
    if (open_run(v, kind == RUN_DTYPES))
        run_schedule(v, &options);
    else
        sc_differ_because(&v->differences, "there is not enough memory to interpret the program");
    close_run(v);
}

static void run_all(validation *v, const sc_validate_options *options)
{
    sc_arena *arena = &v->local->context->arena;
    sc_random_inputs_find(v->global, v->func, &v->distributions);
    v->bounds = sc_error_bounds_find(v->global, v->func, &v->distributions);
    pair_names(v);
    mark_kept(v);
    v->last_bounds = v->last == v->func
                         ? v->bounds
                         : sc_error_bounds_find(v->global, v->last, &v->distributions);
    v->global_outputs = sc_output_count(v->global, v->last);
    v->local_outputs = sc_output_count(v->local, v->last);
    v->inputs = sc_arena_array(arena, v->distributions.inputs.count + 1u, sizeof *v->inputs);
    v->expected = sc_arena_array(arena, v->global_outputs + 1u, sizeof *v->expected);
    v->unrounded = sc_arena_array(arena, v->global_outputs + 1u, sizeof *v->unrounded);
    v->found = sc_arena_array(arena, v->local_outputs + 1u, sizeof *v->found);
    const sc_op *op = sc_returned(v->global, v->last);
    for (uint32_t i = 0; i < v->global_outputs; i++)
        v->has_exact |= v->last_bounds[op->operands[i]].exact;
    run_and_compare(v, RUN_RANDOM, options->seed);
    if (v->result->equal && v->has_exact)
        run_and_compare(v, RUN_INTEGERS, options->seed);
    if (v->result->equal && options->dtypes)
        run_and_compare(v, RUN_DTYPES, options->seed);
}

bool sc_validate(sc_module *global, sc_module *local, sc_func_id func,
                 const sc_validate_options *options, sc_validate_result *result)
{
    validation v = {.global = global,
                    .local = local,
                    .func = func,
                    .last = func,
                    .result = result,
                    .differences = {run_names[RUN_RANDOM], &result->equal, &result->first}};
    v.has_step = sc_schedules_step(global);
    if (v.has_step)
        v.last = global->schedule.data[global->schedule.count - 1].func;
    *result = (sc_validate_result){.equal = true};
    if (!sc_same_schedule(global, local)) {
        sc_differ_because(
            &v.differences,
            "the per-rank program does not call the same functions for the same micro-batches");
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
