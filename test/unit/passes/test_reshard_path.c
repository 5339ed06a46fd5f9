/* The planner of reshards: its paths cost what an exhaustive search finds, obey the triangle
 * inequality, move data to where they say, and answer to call_cost and to axes between nodes. */
#include "test/unit/helpers/interp_case.h"

#include "passes/reshard_path.h"

/* ---- the space, enumerated: every placement of one type, every single move between two of them
 * ---- */

enum { MAX_STATES = 512 };

typedef struct setting {
    const char *mesh, *type; /* in the text of IR */
    double call_cost;
} setting;

typedef struct space {
    sc_context context;
    sc_module *m;
    sc_type_info type; /* placement unused */
    sc_type whole;     /* the same, replicated */
    double call_cost;
    uint32_t count;
    sc_placement at[MAX_STATES];
    sc_cost *moves; /* [from * count + to]; calls of NO_MOVE where there is none */
    sc_planner *planner;
    const setting *of;
} space;

#define NO_MOVE UINT32_MAX

static void parse_setting(sc_context *context, void *user)
{
    space *s = user;
    static char text[1024];
    const setting *of = s->of;
    snprintf(text, sizeof text,
             "shardc.ir 1\nmesh %s\ndim P\ndim A\ndim C\ndim D\nfunc @f {\n %%a = input : %s\n "
             "return %%a\n}\n",
             of->mesh, of->type);
    s->m = sc_parse_module(context, "space", text, strlen(text));
}

static bool fits(const space *s, const sc_placement *at)
{
    for (uint32_t d = 0; d < s->type.rank; d++) {
        sc_sub_axis_list list = sc_placement_dim(at, d);
        if (s->type.dims[d].size % (int64_t)sc_sub_axis_list_size(&s->m->mesh, &list) != 0)
            return false;
    }
    return true;
}

static int find_state(const space *s, const sc_placement *at)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (sc_placement_equal(&s->at[i], at))
            return (int)i;
    }
    return -1;
}

/* Every way to put the axes of `left` on dims, on nothing or into a partial sum; the order of
 * arrival is the order on a dim. */
static void enumerate(space *s, sc_placement at, uint32_t left)
{
    if (left == 0 && fits(s, &at) && find_state(s, &at) < 0) {
        assert_true(s->count < MAX_STATES);
        s->at[s->count++] = at;
    }
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((left >> a & 1) == 0)
            continue;
        for (uint32_t d = 0; d < s->type.rank; d++) {
            sc_placement next = at;
            sc_placement_append(&next, d, a);
            enumerate(s, next, left & ~(1u << a));
        }
        enumerate(s, at, left & ~(1u << a));
        at.on[a] = SC_PARTIAL_SUM;
        enumerate(s, at, left & ~(1u << a));
        at.on[a] = SC_ON_NOTHING;
    }
}

static double local_bytes(const space *s, const sc_placement *at)
{
    double bytes = sc_dtypes[s->type.dtype].bytes;
    for (uint32_t d = 0; d < s->type.rank; d++) {
        sc_sub_axis_list list = sc_placement_dim(at, d);
        bytes *= (double)s->type.dims[d].size / (double)sc_sub_axis_list_size(&s->m->mesh, &list);
    }
    return bytes;
}

static bool is_less(const sc_cost *a, const sc_cost *b)
{
    if (fabs(a->bytes - b->bytes) > 1e-9 * (a->bytes + b->bytes))
        return a->bytes < b->bytes;
    return a->calls != b->calls ? a->calls < b->calls : a->order < b->order;
}

/* A move of `sent` bytes over a group; `order` is its place in the list of preferences. */
static void add_move(space *s, uint32_t from, const sc_placement *to, double sent,
                     sc_sub_axis_set group, uint32_t order)
{
    int target = find_state(s, to);
    bool inter = false;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++)
        inter =
            inter || ((group >> a & 1) != 0 && s->m->mesh.axes[s->m->mesh.sub_axes[a].axis].inter);
    sc_cost cost = {sent * (inter ? 8 : 1) + s->call_cost, 1, order};
    if (order == 1)
        cost = (sc_cost){0, 0, 1}; /* a slice is no call */
    if (target >= 0 && is_less(&cost, &s->moves[from * s->count + (uint32_t)target]))
        s->moves[from * s->count + (uint32_t)target] = cost;
}

static void add_slices(space *s, uint32_t from)
{
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        for (uint32_t d = 0; s->at[from].on[a] == SC_ON_NOTHING && d < s->type.rank; d++) {
            sc_placement to = s->at[from];
            sc_placement_append(&to, d, a);
            add_move(s, from, &to, 0, 0, 1);
        }
    }
}

/* The minor sub-axes of a dim leave it, for nothing or for another dim. */
static void add_gathers(space *s, uint32_t from)
{
    for (uint32_t d = 0; d < s->type.rank; d++) {
        sc_sub_axis_list list = sc_placement_dim(&s->at[from], d), kept = list;
        sc_sub_axis_set group = 0;
        double n = 1;
        while (kept.count > 0) {
            uint8_t sub_axis = kept.sub_axes[--kept.count];
            group |= 1u << sub_axis;
            n *= s->m->mesh.sub_axes[sub_axis].size;
            sc_placement without = s->at[from];
            sc_placement_set_dim(&without, d, &kept);
            add_move(s, from, &without, local_bytes(s, &s->at[from]) * (n - 1), group, 6);
            for (uint32_t e = 0; e < s->type.rank; e++) {
                sc_placement to = without;
                for (uint32_t i = kept.count; e != d && i < list.count; i++)
                    sc_placement_append(&to, e, list.sub_axes[i]);
                if (e != d)
                    add_move(s, from, &to, local_bytes(s, &s->at[from]) * (n - 1) / n, group, 5);
            }
        }
    }
}

/* A subset of the partial sub-axes is reduced, all at once; `to` has what was chosen so far, in
 * order, on dim d (or on nothing). */
static void add_reductions(space *s, uint32_t from, sc_placement to, int dim, sc_sub_axis_set group)
{
    double n = (double)sc_sub_axis_set_size(&s->m->mesh, group),
           bytes = local_bytes(s, &s->at[from]);
    if (group != 0)
        add_move(s, from, &to, (dim < 0 ? 2 : 1) * bytes * (n - 1) / n, group, dim < 0 ? 3 : 2);
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if (to.on[a] != SC_PARTIAL_SUM)
            continue;
        sc_placement next = to;
        next.on[a] = SC_ON_NOTHING;
        if (dim >= 0)
            sc_placement_append(&next, (uint32_t)dim, a);
        add_reductions(s, from, next, dim, group | 1u << a);
    }
}

static double stride_of(const space *s, const sc_placement *at, uint32_t sub_axis)
{
    double stride = 1;
    for (uint32_t b = 0; b < s->m->mesh.sub_axis_count; b++) {
        if (at->on[b] == at->on[sub_axis] && at->order[b] > at->order[sub_axis])
            stride *= s->m->mesh.sub_axes[b].size;
    }
    return stride;
}

/* To every placement under which a rank holds as much of each dim. */
static void add_permutes(space *s, uint32_t from)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const sc_placement *a = &s->at[from], *b = &s->at[i];
        sc_sub_axis_set group = 0;
        bool same = sc_placement_partial(a, 0) == sc_placement_partial(b, 0);
        for (uint32_t d = 0; d < s->type.rank; d++) {
            sc_sub_axis_list x = sc_placement_dim(a, d), y = sc_placement_dim(b, d);
            same = same &&
                   sc_sub_axis_list_size(&s->m->mesh, &x) == sc_sub_axis_list_size(&s->m->mesh, &y);
        }
        for (uint32_t t = 0; t < s->m->mesh.sub_axis_count; t++)
            group |= a->on[t] != b->on[t] || stride_of(s, a, t) != stride_of(s, b, t) ? 1u << t : 0;
        if (same && i != from)
            add_move(s, from, b, local_bytes(s, a), group, 4);
    }
}

static space *open_space(const setting *of)
{
    space *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->of = of;
    assert_true(sc_context_run(&s->context, 0, parse_setting, s));
    assert_non_null(s->m);
    s->whole = s->m->values.data[0].type;
    s->type = s->m->types.data[s->whole];
    s->type.placement = sc_placement_replicated();
    s->call_cost = of->call_cost;
    enumerate(s, sc_placement_replicated(), (1u << s->m->mesh.sub_axis_count) - 1);
    s->moves = malloc((size_t)s->count * s->count * sizeof *s->moves);
    assert_non_null(s->moves);
    for (uint32_t i = 0; i < s->count * s->count; i++)
        s->moves[i] = (sc_cost){INFINITY, NO_MOVE, 0};
    for (uint32_t i = 0; i < s->count; i++) {
        add_slices(s, i);
        add_gathers(s, i);
        add_permutes(s, i);
        for (int d = -1; d < (int)s->type.rank; d++)
            add_reductions(s, i, s->at[i], d, 0);
    }
    s->planner = sc_planner_new(s->m, of->call_cost);
    return s;
}

static void close_space(space *s)
{
    free(s->moves);
    sc_context_free(&s->context);
    free(s);
}

/* ---- what a path between two states may do ---- */

/* Sub-axes that stand differently at the two ends, and what is minor to them on their dim. */
static sc_sub_axis_set moving_sub_axes(const space *s, const sc_placement *from,
                                       const sc_placement *to)
{
    sc_sub_axis_set moving = 0;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++)
        moving |= from->on[a] != to->on[a] ? 1u << a : 0;
    for (uint32_t d = 0; d < s->type.rank; d++) {
        sc_sub_axis_list x = sc_placement_dim(from, d), y = sc_placement_dim(to, d);
        uint32_t same = 0;
        while (same < x.count && same < y.count && x.sub_axes[same] == y.sub_axes[same])
            same++;
        for (uint32_t i = same; i < x.count; i++)
            moving |= 1u << x.sub_axes[i];
        for (uint32_t i = same; i < y.count; i++)
            moving |= 1u << y.sub_axes[i];
    }
    return moving;
}

/* Only moving sub-axes stand otherwise than at the start, and only on dims that one of them splits
 * at either end. */
static void find_allowed(const space *s, const sc_placement *from, const sc_placement *to,
                         bool *allowed)
{
    sc_sub_axis_set moving = moving_sub_axes(s, from, to);
    bool dims[256] = {false};
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((moving >> a & 1) != 0)
            dims[from->on[a]] = dims[to->on[a]] = true;
    }
    for (uint32_t i = 0; i < s->count; i++) {
        allowed[i] = true;
        for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
            uint8_t on = s->at[i].on[a];
            bool stays = on == from->on[a] && s->at[i].order[a] == from->order[a];
            allowed[i] =
                allowed[i] && ((moving >> a & 1) == 0 ? stays : on >= s->type.rank || dims[on]);
        }
    }
}

/* A reduction over several axes is one call: what is to end whole is reduced together, alone or
 * with all the rest; what is to end on dims is scattered, or reduced with all the rest. */
static bool is_one_call(const space *s, const sc_placement *at, const sc_placement *next,
                        const sc_placement *goal)
{
    sc_sub_axis_set reduced = sc_placement_partial(at, 0) & ~sc_placement_partial(next, 0),
                    partial = sc_placement_partial(at, 0) & ~sc_placement_partial(goal, 0);
    sc_sub_axis_set to_dims = 0, scattered = 0;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        to_dims |= (partial >> a & 1) != 0 && goal->on[a] < s->type.rank ? 1u << a : 0;
        scattered |= (reduced >> a & 1) != 0 && next->on[a] < s->type.rank ? 1u << a : 0;
    }
    if (scattered != 0)
        return (reduced & ~to_dims) == 0;
    return reduced == 0 || reduced == partial || reduced == (partial & ~to_dims);
}

/* Costs of the cheapest sequences of moves on the way to `goal`, by as many rounds as are of use:
 * no order of a queue to get wrong. */
static void search_from(const space *s, uint32_t from, uint32_t goal, sc_cost *best)
{
    bool allowed[MAX_STATES];
    find_allowed(s, &s->at[from], &s->at[goal], allowed);
    for (uint32_t i = 0; i < s->count; i++)
        best[i] = (sc_cost){INFINITY, NO_MOVE, 0};
    best[from] = (sc_cost){0};
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < s->count; i++) {
            for (uint32_t j = 0; best[i].calls != NO_MOVE && j < s->count; j++) {
                sc_cost cost = best[i], move = s->moves[i * s->count + j];
                if (move.calls == NO_MOVE || !allowed[j] ||
                    !is_one_call(s, &s->at[i], &s->at[j], &s->at[goal]))
                    continue;
                sc_cost_add(&cost, &move);
                if (best[j].calls == NO_MOVE || is_less(&cost, &best[j])) {
                    best[j] = cost;
                    changed = true;
                }
            }
        }
    }
}

static sc_type type_at(space *s, uint32_t i)
{
    return sc_type_with_placement(s->m, s->whole, &s->at[i]);
}

static const char *pair_text(space *s, uint32_t from, uint32_t to)
{
    static char text[512];
    snprintf(text, sizeof text, "%s over %s -> %s", sc_type_text(s->m, type_at(s, from)),
             s->of->mesh, sc_type_text(s->m, type_at(s, to)));
    return text;
}

static const setting settings[] = {
    {"x = 4", "f32[A=8, C=4]", 0},
    {"x = 4 inter", "bf16[A=8, C=4, D=12]", 100},
    {"x = 2, y = 2", "f32[A=8, C=4]", 0},
    {"x = 2, y = 3", "f32[A=12, C=6]", 0},
    {"x = 2 inter, y = 4", "bf16[A=8, C=16]", 0},
    {"x = 2, y = 2", "f32[A=8, C=4]", 1000},
    {"x = 2, y = 2, z = 2", "f32[A=8, C=4, D=2]", 0},
    {"x = 2, y = 3, z = 4", "f32[A=24, C=6]", 0},
    {"x = 2 inter, y = 2 inter, z = 3", "f32[A=12, C=12]", 64},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

static uint32_t next_random(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return *x >> 16;
}

static bool is_cheaper(double a, double b)
{
    return a < b - 1e-9 * (a + b);
}

static const sc_reshard_plan *path_of(space *s, uint32_t from, uint32_t to)
{
    return sc_reshard_find(s->planner, type_at(s, from), &s->at[to]);
}

static void check_cost(space *s, uint32_t from, uint32_t to)
{
    sc_cost best[MAX_STATES];
    search_from(s, from, to, best);
    const sc_reshard_plan *plan = path_of(s, from, to);
    assert_non_null(plan);
    if (isinf(plan->cost.bytes) && best[to].calls == NO_MOVE)
        return;
    if (is_less(&plan->cost, &best[to]) || is_less(&best[to], &plan->cost))
        fail_msg("%s costs %g in %u calls (order %u), but %g in %u calls (order %u) is the least",
                 pair_text(s, from, to), plan->cost.bytes, plan->cost.calls, plan->cost.order,
                 best[to].bytes, best[to].calls, best[to].order);
}

/* Every pair of a small space, a thousand or so of a large one. */
static void paths_are_the_cheapest(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        space *s = open_space(&settings[i]);
        uint32_t step = s->count * s->count / 1000 + 1;
        for (uint32_t pair = 0; pair < s->count * s->count; pair += step)
            check_cost(s, pair / s->count, pair % s->count);
        close_space(s);
    }
}

/* ---- the cost as its own: steps, triangles ---- */

static void check_steps(space *s, uint32_t from, uint32_t to)
{
    const sc_reshard_plan *plan = path_of(s, from, to);
    double bytes = 0;
    uint32_t at = from;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        uint32_t next = (uint32_t)find_state(s, &plan->steps[i].to);
        if (plan->steps[i].kind != SC_OP_all_slice)
            bytes += s->moves[at * s->count + next].bytes;
        at = next;
    }
    if (!isinf(plan->cost.bytes) &&
        (at != to || fabs(bytes - plan->cost.bytes) > 1e-9 * (1 + bytes)))
        fail_msg("%s: the steps cost %g, the path %g", pair_text(s, from, to), bytes,
                 plan->cost.bytes);
}

static void costs_are_those_of_the_steps(void **state)
{
    (void)state;
    for (size_t i = 0; i < SETTINGS; i++) {
        space *s = open_space(&settings[i]);
        for (uint32_t pair = 0; pair < s->count * s->count; pair++)
            check_steps(s, pair / s->count, pair % s->count);
        close_space(s);
    }
}

enum { TRIANGLES = 20000 };

/* A detour that a path may take: by way of a state that it may pass, its reductions in one call,
 * and nothing scattered that ends whole. */
static bool is_on_the_way(const space *s, uint32_t a, uint32_t b, uint32_t c)
{
    bool allowed[MAX_STATES];
    sc_sub_axis_set partial = sc_placement_partial(&s->at[b], 0),
                    first = sc_placement_partial(&s->at[a], 0);
    find_allowed(s, &s->at[a], &s->at[c], allowed);
    for (uint32_t t = 0; t < s->m->mesh.sub_axis_count; t++) {
        if ((first >> t & 1) != 0 && s->at[c].on[t] == SC_ON_NOTHING &&
            s->at[b].on[t] < s->type.rank)
            return false;
    }
    return allowed[b] && (partial == first || partial == sc_placement_partial(&s->at[c], 0));
}

static void detours_are_not_cheaper(void **state)
{
    (void)state;
    uint32_t x = 7, seen = 0;
    for (size_t i = 0; i < SETTINGS; i++) {
        space *s = open_space(&settings[i]);
        assert_true(s->count > 0);
        for (uint32_t n = 0; n < TRIANGLES; n++) {
            uint32_t a = next_random(&x) % s->count, b = next_random(&x) % s->count,
                     c = next_random(&x) % s->count;
            if (!is_on_the_way(s, a, b, c))
                continue;
            double detour = path_of(s, a, b)->cost.bytes + path_of(s, b, c)->cost.bytes,
                   direct = path_of(s, a, c)->cost.bytes;
            seen++;
            if (is_cheaper(detour, direct))
                fail_msg("%s costs %g, but %g by way of %s", pair_text(s, a, c), direct, detour,
                         sc_type_text(s->m, type_at(s, b)));
        }
        close_space(s);
    }
    assert_true(seen > 1000);
}

/* ---- on real data ---- */

static sc_attr reduce_attr(space *s, uint8_t kind)
{
    return sc_attr_text(SC_ATTR_reduce,
                        sc_intern_text(&s->m->context->names, kind == SC_PARTIAL_SUM   ? "sum"
                                                              : kind == SC_PARTIAL_MAX ? "max"
                                                                                       : "min"));
}

static sc_value append_step(space *s, sc_value value, const sc_reshard_step *step)
{
    sc_attr attrs[4] = {
        sc_attr_sub_axes(s->m, SC_ATTR_over, step->group.sub_axes, step->group.count)};
    uint32_t count = 1;
    if (step->kind == SC_OP_all_reduce || step->kind == SC_OP_reduce_scatter)
        attrs[count++] = reduce_attr(s, step->reduce);
    if (step->gather != 0)
        attrs[count++] = sc_attr_dims(s->m, SC_ATTR_gather, &s->type.dims[step->gather - 1].dim, 1);
    if (step->scatter != 0)
        attrs[count++] =
            sc_attr_dims(s->m, SC_ATTR_scatter, &s->type.dims[step->scatter - 1].dim, 1);
    sc_type type = sc_type_with_placement(s->m, s->m->values.data[value].type, &step->to);
    return sc_result(
        s->m, sc_op_new(s->m, 0, SC_NONE, step->kind, &value, 1, attrs, count, &type, 1, SC_NONE),
        0);
}

static void remove_ops(space *s)
{
    sc_for_each_op (s->m, 0, op)
        sc_op_unlink(s->m, op);
}

static sc_value append_op(space *s, sc_op_kind kind, const sc_value *operand, const sc_attr *attr,
                          sc_type type)
{
    return sc_result(s->m,
                     sc_op_new(s->m, 0, SC_NONE, kind, operand, operand != NULL, attr, attr != NULL,
                               &type, 1, SC_NONE),
                     0);
}

/* A value that stands as state `from` does: the sum over P of an input whose P is split where the
 * state has a partial sum, so that every rank has a part of its own. */
static sc_value append_value_at(space *s, uint32_t from, int64_t *terms)
{
    sc_type_info input = s->type;
    sc_sub_axis_list partial = {0};
    input.placement = s->at[from];
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if (s->at[from].on[a] == SC_PARTIAL_SUM)
            partial.sub_axes[partial.count++] = (uint8_t)a;
    }
    *terms = (int64_t)sc_sub_axis_list_size(&s->m->mesh, &partial);
    input.dims[input.rank++] =
        (sc_type_dim){.dim = sc_module_find_dim(s->m, sc_intern_text(&s->m->context->names, "P")),
                      .group = SC_NONE,
                      .size = *terms};
    sc_placement_set_dim(&input.placement, input.rank - 1, &partial);
    sc_value x = append_op(s, SC_OP_input, NULL, NULL, sc_type_intern(s->m, &input));
    sc_attr over = sc_attr_dims(s->m, SC_ATTR_dims, &input.dims[input.rank - 1].dim, 1);
    return append_op(s, SC_OP_sum, &x, &over, type_at(s, from));
}

/* Runs the function that was built and compares what it returns with the sums of what went in. */
static void check_data(space *s, int64_t terms, const char *what)
{
    int64_t elements = sc_type_elements(&s->type);
    sc_array output = {0};
    int64_t sizes[SC_MAX_RANK];
    for (uint32_t i = 0; i < s->type.rank; i++)
        sizes[i] = s->type.dims[i].size;
    sizes[s->type.rank] = terms;
    sc_array input = sc_array_new(s->type.rank + 1, sizes);
    for (int64_t i = 0; i < input.count; i++)
        input.data[i] = (double)(i * 7 % 1009);
    sc_interp *interp = sc_interp_new(s->m, &(sc_interp_options){.ranks = true});
    char error[512] = "";
    if (!sc_interp_run(interp, 0, &input, 1, &output, 1, error, sizeof error))
        fail_msg("%s: %s", what, error);
    for (int64_t i = 0; i < elements; i++) {
        double sum = 0;
        for (int64_t t = 0; t < terms; t++)
            sum += input.data[i * terms + t];
        if (output.data[i] != sum)
            fail_msg("%s: element %lld is %g, not %g", what, (long long)i, output.data[i], sum);
    }
    sc_interp_free(interp);
    sc_array_free(&input);
    sc_array_free(&output);
}

static void check_path(space *s, uint32_t from, uint32_t to)
{
    int64_t terms;
    const sc_reshard_plan *plan = path_of(s, from, to);
    if (isinf(plan->cost.bytes))
        return;
    remove_ops(s);
    sc_value value = append_value_at(s, from, &terms);
    for (uint32_t i = 0; i < plan->step_count; i++)
        value = append_step(s, value, &plan->steps[i]);
    assert_true(sc_placement_equal(&sc_type_of(s->m, value)->placement, &s->at[to]));
    value = append_op(s, SC_OP_reshard, &value, NULL, s->whole);
    sc_op_new(s->m, 0, SC_NONE, SC_OP_return, &value, 1, NULL, 0, NULL, 0, SC_NONE);
    check_data(s, terms, pair_text(s, from, to));
}

static void paths_move_the_data(void **state)
{
    (void)state;
    uint32_t x = 3;
    for (size_t i = 0; i < SETTINGS; i++) {
        space *s = open_space(&settings[i]);
        for (uint32_t n = 0; n < 300; n++)
            check_path(s, next_random(&x) % s->count, next_random(&x) % s->count);
        close_space(s);
    }
}

/* ---- what the costs weigh ---- */

/* The kinds of a path's steps, blank-separated. */
static const char *kinds_between(const char *mesh, const char *from, const char *to,
                                 double call_cost)
{
    static char text[256];
    setting of = {mesh, from, call_cost}, end = {mesh, to, call_cost};
    space *s = open_space(&of), *t = open_space(&end);
    const sc_placement goal = t->m->types.data[t->whole].placement;
    const sc_reshard_plan *plan = sc_reshard_find(s->planner, s->whole, &goal);
    assert_non_null(plan);
    text[0] = 0;
    for (uint32_t i = 0; i < plan->step_count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i > 0 ? " " : "",
                 sc_ops[plan->steps[i].kind].name);
    close_space(s);
    close_space(t);
    return text;
}

static void costly_calls_are_fewer(void **state)
{
    (void)state;
    const char *mesh = "x = 2, y = 2", *from = "f32[A=64@(x, y), C=64]";
    assert_string_equal(kinds_between(mesh, from, "f32[A=64@y, C=64]", 0),
                        "collective_permute all_gather");
    assert_string_equal(kinds_between(mesh, from, "f32[A=64@y, C=64]", 1e9),
                        "all_gather all_slice");
    assert_string_equal(kinds_between(mesh, from, "f32[A=64, C=64@(y, x)]", 0),
                        "all_to_all all_to_all");
    assert_string_equal(kinds_between(mesh, from, "f32[A=64, C=64@(y, x)]", 1e9),
                        "all_gather all_slice");
}

/* A byte between nodes counts 8: a call over both axes is worth three that keep most bytes inside,
 * and what is small crosses. */
static void bytes_between_nodes_count(void **state)
{
    (void)state;
    const char *from = "f32[A=64@x, C=64@y]", *swapped = "f32[A=64@y, C=64@x]",
               *both = "f32[A=64@(x, y), C=64]", *other = "f32[A=64, C=64@x]";
    assert_string_equal(kinds_between("x = 2, y = 2", "f32[A=64@x, C=64]", "f32[A=64@y, C=64]", 0),
                        "collective_permute");
    assert_string_equal(
        kinds_between("x = 2, y = 2 inter", "f32[A=64@x, C=64]", "f32[A=64@y, C=64]", 0),
        "all_gather all_slice");
    assert_string_equal(kinds_between("x = 2, y = 2", from, swapped, 0), "collective_permute");
    assert_string_equal(kinds_between("x = 2 inter, y = 2", from, swapped, 0),
                        "all_to_all all_to_all all_to_all");
    assert_string_equal(kinds_between("x = 2 inter, y = 2", both, other, 0),
                        "all_to_all all_gather");
    assert_string_equal(kinds_between("x = 2, y = 2 inter", both, other, 0),
                        "all_gather all_to_all");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_the_cheapest),  cmocka_unit_test(costs_are_those_of_the_steps),
        cmocka_unit_test(detours_are_not_cheaper), cmocka_unit_test(paths_move_the_data),
        cmocka_unit_test(costly_calls_are_fewer),  cmocka_unit_test(bytes_between_nodes_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
