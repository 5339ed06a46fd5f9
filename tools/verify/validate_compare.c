#include "tools/verify/validate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* 1e-12 over 1e-9. */
static const double share_of_kind = 1e-3;

/* ---- values to compare ---- */

static int by_path_and_order(const void *a, const void *b)
{
    const sc_named *x = a, *y = b;
    if (x->path != y->path)
        return x->path < y->path ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int by_order(const void *a, const void *b)
{
    const sc_name_pair *x = a, *y = b;
    return x->local.order < y->local.order ? -1 : x->local.order > y->local.order;
}

/* Appends the values that a function computes; `order` counts on. */
static void list_names(const sc_module *m, sc_func_id func, uint32_t *order, sc_named_list *out)
{
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        bool is_given =
            sc_op_has(op, SC_FROM_OUTSIDE | SC_STATE_READ) || sc_op_transfers((sc_op_kind)op->kind);
        if (!is_given) {
            for (uint32_t r = 0; r < op->result_count; r++) {
                sc_sym path = m->values.data[op->first_result + r].path;
                if (path != 0)
                    *sc_vec_push(&m->context->arena, out) =
                        (sc_named){path, *order, op->first_result + r};
                (*order)++;
            }
        }
    }
}

static void sort_names(sc_named_list *list)
{
    if (list->count > 0)
        qsort(list->data, list->count, sizeof *list->data, by_path_and_order);
}

/* The functions of a cut program that run micro-batches correspond to the global one's together. */
static void list_local(const sc_validation *v, sc_named_list *out)
{
    uint32_t order = 0;
    if (!v->is_cut)
        list_names(v->local, v->func, &order, out);
    for (sc_func_id f = 0; f < v->local->funcs.count; f++) {
        if (v->is_cut && sc_is_called(v->local, f, 0, v->tail))
            list_names(v->local, f, &order, out);
    }
    sort_names(out);
}

static uint32_t group_end(const sc_named_list *list, uint32_t first)
{
    uint32_t end = first;
    while (end < list->count && list->data[end].path == list->data[first].path)
        end++;
    return end;
}

/* Pairs values of equal paths in order; if the counts differ, each may match any of them. So do
 * several of one path in a cut program, whose functions are in another order and may repeat ops. */
static void pair_names(sc_validation *v)
{
    sc_named_list locals = {0};
    sc_arena *arena = &v->local->context->arena;
    uint32_t order = 0;
    list_names(v->global, v->func, &order, &v->names);
    sort_names(&v->names);
    list_local(v, &locals);
    uint32_t g = 0;
    for (uint32_t l = 0, end; l < locals.count; l = end) {
        end = group_end(&locals, l);
        while (g < v->names.count && v->names.data[g].path < locals.data[l].path)
            g++;
        if (g == v->names.count || v->names.data[g].path != locals.data[l].path)
            continue;
        uint32_t count = group_end(&v->names, g) - g;
        bool one_to_one = count == end - l && (count == 1 || !v->is_cut);
        for (uint32_t i = l; i < end; i++)
            *sc_vec_push(arena, &v->pairs) =
                (sc_name_pair){locals.data[i], one_to_one ? g + i - l : g, one_to_one ? 1 : count,
                               one_to_one ? 0 : SC_NONE};
    }
    if (v->pairs.count > 0)
        qsort(v->pairs.data, v->pairs.count, sizeof *v->pairs.data, by_order);
}

void sc_validate_pair(sc_validation *v)
{
    pair_names(v);
    sc_arena *arena = &v->local->context->arena;
    v->kept_global = sc_arena_array(arena, v->global->values.count + 1u, sizeof *v->kept_global);
    v->kept_local = sc_arena_array(arena, v->local->values.count + 1u, sizeof *v->kept_local);
    for (uint32_t p = 0; p < v->pairs.count; p++) {
        const sc_name_pair *pair = &v->pairs.data[p];
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
static double allowed_error(const sc_validation *v, const sc_error_bounds *bounds,
                            const sc_array *expected, const sc_array *unrounded, double largest)
{
    double scale = largest_of(expected) + share_of_kind * largest;
    if (bounds == NULL)
        return 0;
    switch (v->kind) {
    case SC_RUN_RANDOM:
        return SC_VALIDATE_TOLERANCE * scale;
    case SC_RUN_DTYPES:
        return 8 * bounds->unit * sqrt(bounds->depth) * scale + 4 * distance(expected, unrounded);
    default:
        return 0;
    }
}

/* True if this kind of run is informative about a value. */
static bool is_compared(sc_validation *v, const sc_error_bounds *bounds)
{
    if (v->kind == SC_RUN_INTEGERS)
        return bounds->exact;
    if (v->kind == SC_RUN_DTYPES && bounds->decided)
        v->result->undecided++;
    return v->kind != SC_RUN_DTYPES || !bounds->decided;
}

static void count_one(sc_validation *v, uint32_t *random, double error)
{
    sc_validate_result *result = v->result;
    if (v->kind == SC_RUN_INTEGERS) {
        result->exact++;
    } else if (v->kind == SC_RUN_DTYPES) {
        result->rounded++;
        result->max_rounding_error = fmax(result->max_rounding_error, error);
    } else {
        *random += v->limit == SC_LIMIT_NONE;
        result->max_error = fmax(result->max_error, error * SC_VALIDATE_TOLERANCE);
    }
}

/* ---- comparing the results of two runs ---- */

static double largest_named(const sc_validation *v)
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
static bool compare_candidate(sc_validation *v, sc_value candidate, sc_type local_type,
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
static bool may_compare(sc_validation *v, const sc_name_pair *pair)
{
    for (uint32_t i = 0; i < pair->count; i++) {
        if (!is_compared(v, &v->bounds[v->names.data[pair->first + i].value]))
            return false;
    }
    return true;
}

static void compare_pair(sc_validation *v, sc_name_pair *pair, double largest)
{
    const sc_value_info *info = &v->local->values.data[pair->local.value];
    sc_compared subject = {
        .path = info->path, .output = -1, .loc = sc_op_at(v->local, info->def)->loc};
    const sc_named *candidates = &v->names.data[pair->first];
    sc_name_pair asked = *pair;
    if (v->kind == SC_RUN_INTEGERS && pair->matched != SC_NONE) {
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
            pair->matched = v->kind == SC_RUN_RANDOM && one.at < 0 ? i : pair->matched;
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

void sc_validate_values(sc_validation *v, sc_func_id func)
{
    double largest = largest_named(v);
    for (uint32_t p = 0; p < v->pairs.count; p++) {
        sc_name_pair *pair = &v->pairs.data[p];
        if (func == SC_NONE ||
            sc_op_at(v->local, sc_def(v->local, pair->local.value))->func == func)
            compare_pair(v, pair, largest);
    }
}

static sc_dtype dtype_of(const sc_module *m, sc_type type)
{
    return m->types.data[type].dtype;
}

/* Adds to a sum, which may be empty, and frees the other. */
static void add_array(sc_array *sum, sc_array *more)
{
    if (sum->data == NULL) {
        *sum = *more;
        return;
    }
    for (int64_t i = 0; more->data != NULL && i < sum->count; i++)
        sum->data[i] += more->data[i];
    sc_array_free(more);
}

/* The state of the per-rank program with this name, or the sum of its parts. *found: the state, or
 * one of them; SC_NONE: there is none, and no data. */
static sc_array local_state(const sc_validation *v, sc_sym path, uint32_t *found, bool *agree)
{
    const sc_module *m = v->local;
    sc_array sum = {0};
    *found = sc_module_find_state(m, path);
    if (*found != SC_NONE)
        return sc_interp_get_state(v->all, *found, agree);
    for (uint32_t s = sc_next_gradient_part(m, path, 0); s != SC_NONE;
         s = sc_next_gradient_part(m, path, s + 1)) {
        bool is_equal = true;
        sc_array part = sc_interp_get_state(v->all, s, &is_equal);
        add_array(&sum, &part);
        *agree = *agree && is_equal;
        *found = s;
    }
    return sum;
}

static void compare_state(sc_validation *v, uint32_t state, const sc_error_bounds *bounds,
                          double largest)
{
    const sc_state *info = &v->global->state.data[state];
    sc_compared subject = {.path = info->path, .output = -1, .loc = info->loc};
    uint32_t other;
    bool agree = true;
    sc_array expected = sc_interp_get_state(v->one, state, NULL), unrounded = {0};
    sc_array found = local_state(v, info->path, &other, &agree);
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

/* Marks the global program's states that the per-rank one writes where that calls `func`. */
static bool *written_by_local(const sc_validation *v, sc_func_id func)
{
    sc_arena *arena = &v->local->context->arena;
    uint32_t first = func == v->func ? 0 : v->tail,
             end = func == v->func ? v->tail : v->local->schedule.count;
    bool *marks = sc_arena_array(arena, v->global->state.count + 1u, sizeof *marks);
    for (sc_func_id f = 0; f < v->local->funcs.count; f++) {
        if (v->is_cut ? !sc_is_called(v->local, f, first, end) : f != func)
            continue;
        const sc_value *written = sc_written_states(v->global, v->local, f);
        for (uint32_t s = 0; s < v->global->state.count; s++)
            marks[s] = marks[s] || written[s] != SC_NONE;
    }
    return marks;
}

void sc_validate_states(sc_validation *v, sc_func_id func, const sc_error_bounds *bounds)
{
    double largest[SC_STATE_KINDS] = {0};
    const sc_value *written = sc_written_states(v->global, v->global, func);
    const bool *also = written_by_local(v, func);
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
        else if (written[s] == SC_NONE && also[s])
            compare_state(v, s, NULL, largest[state->kind]);
    }
}

void sc_validate_outputs(sc_validation *v)
{
    const sc_op *global = sc_returned(v->global, v->last),
                *local = sc_returned(v->local, v->local_last);
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
