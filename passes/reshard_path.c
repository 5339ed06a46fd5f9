/* Cheapest reshard paths: uniform-cost search over placements of one value.
 *
 * Only sub-axes whose placement differs between the two ends move, with those minor to them, and
 * only over dims that they split at either end. The space is therefore small: a few dozen
 * placements for one or two sub-axes. Paths are memoized by (from type, to type), so a model's
 * layers share them. */
#include "passes/reshard_path.h"

#include <math.h>
#include <string.h>

#include "program/collective.h"
#include "support/hash.h"

enum { MAX_STATES = 4096 };

struct sc_planner {
    sc_module *m;
    double call_cost;
    sc_map memo; /* from type << 32 | to type -> index of plans */
    SC_VEC(sc_reshard_plan *) plans;
};

typedef struct state {
    sc_placement at;
    sc_cost cost;
    uint32_t parent;
    sc_reshard_step step; /* the step that led here */
    bool done;
} state;

typedef struct search {
    sc_planner *planner;
    const sc_module *m;
    sc_type_info type; /* dims and dtype; placement unused */
    sc_placement goal;
    sc_sub_axis_set moving;
    uint32_t dims[SC_MAX_RANK]; /* dims split by moving sub-axes at either end */
    uint32_t dim_count;
    SC_VEC(state) states;
    sc_map seen; /* hash of a placement -> state; collisions probe the next hash */
} search;

sc_planner *sc_planner_new(sc_module *m, double call_cost)
{
    sc_planner *planner = sc_arena_alloc(&m->context->arena, sizeof *planner);
    planner->m = m;
    planner->call_cost = call_cost;
    planner->memo.arena = &m->context->arena;
    return planner;
}

int sc_cost_compare(const sc_cost *a, const sc_cost *b)
{
    double scale = fabs(a->bytes) + fabs(b->bytes);
    if (fabs(a->bytes - b->bytes) > 1e-12 * scale)
        return a->bytes < b->bytes ? -1 : 1;
    if (a->calls != b->calls)
        return a->calls < b->calls ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

double sc_sent_bytes(sc_op_kind kind, double buffer, double group)
{
    int collective = sc_op_collective(kind);
    return collective < 0 ? 0
                          : sc_collective_sent((sc_image_collective_kind)collective, buffer, group);
}

/* all_slice first, all_gather last: SHARDING 2.3. */
static uint32_t preference(sc_op_kind kind)
{
    static const sc_op_kind order[] = {SC_OP_all_slice,  SC_OP_reduce_scatter,
                                       SC_OP_all_reduce, SC_OP_collective_permute,
                                       SC_OP_all_to_all, SC_OP_all_gather};
    uint32_t i = 0;
    while (order[i] != kind)
        i++;
    return i;
}

static double local_bytes(const search *s, const sc_placement *at)
{
    sc_type_info type = s->type;
    type.placement = *at;
    return (double)sc_type_local_bytes(s->m, &type);
}

double sc_axes_weight(const sc_mesh *mesh, uint32_t axes)
{
    for (uint32_t a = 0; a < mesh->axis_count; a++) {
        if ((axes >> a & 1) != 0 && mesh->axes[a].inter)
            return 8;
    }
    return 1;
}

static uint32_t axes_of(const sc_mesh *mesh, const sc_sub_axis_list *group)
{
    uint32_t axes = 0;
    for (uint32_t i = 0; i < group->count; i++)
        axes |= 1u << mesh->sub_axes[group->sub_axes[i]].axis;
    return axes;
}

static sc_cost step_cost(const search *s, const sc_placement *from, const sc_reshard_step *step)
{
    sc_cost cost = {.order = preference(step->kind) + 1};
    if (step->kind == SC_OP_all_slice)
        return cost;
    double buffer = local_bytes(s, step->kind == SC_OP_all_gather ? &step->to : from);
    double sent =
        sc_sent_bytes(step->kind, buffer, (double)sc_sub_axis_list_size(&s->m->mesh, &step->group));
    cost.bytes = sent * sc_axes_weight(&s->m->mesh, axes_of(&s->m->mesh, &step->group)) +
                 s->planner->call_cost;
    cost.calls = 1;
    return cost;
}

sc_cost sc_send_cost(const sc_planner *planner, sc_type type, uint32_t axis)
{
    const sc_module *m = planner->m;
    double bytes = (double)sc_type_local_bytes(m, &m->types.data[type]);
    return (sc_cost){.bytes = sc_sent_bytes(SC_OP_send, bytes, 2) *
                                  sc_axes_weight(&m->mesh, 1u << axis) +
                              planner->call_cost,
                     .calls = 1};
}

static uint32_t *find_state(search *s, const sc_placement *at, bool *is_new)
{
    uint64_t key = sc_hash_bytes(at, sizeof *at, 0);
    for (;; key++) {
        uint32_t *slot = sc_map_insert(&s->seen, key, s->states.count, is_new);
        if (*is_new || sc_placement_equal(&s->states.data[*slot].at, at))
            return slot;
    }
}

/* Adds the state reached by one step from state `from`, unless a dim would be split in no order
 * that its zigzag has. */
static void offer(search *s, uint32_t from, sc_reshard_step step)
{
    bool is_new;
    sc_type_info reached = s->type;
    reached.placement = step.to;
    if (sc_type_breaks_zigzag(s->m, &reached))
        return;
    sc_cost cost = s->states.data[from].cost, more = step_cost(s, &s->states.data[from].at, &step);
    sc_cost_add(&cost, &more);
    if (s->states.count >= MAX_STATES && !sc_placement_equal(&step.to, &s->goal))
        return;
    uint32_t index = *find_state(s, &step.to, &is_new);
    if (is_new) {
        *sc_vec_push(&s->m->context->arena, &s->states) =
            (state){.at = step.to, .cost = cost, .parent = from, .step = step};
    } else if (!s->states.data[index].done &&
               sc_cost_compare(&cost, &s->states.data[index].cost) < 0) {
        s->states.data[index].cost = cost;
        s->states.data[index].parent = from;
        s->states.data[index].step = step;
    }
}

static bool is_moving(const search *s, uint32_t sub_axis)
{
    return (s->moving >> sub_axis & 1) != 0;
}

static bool divides(const search *s, const sc_placement *at, uint32_t dim, uint64_t by)
{
    sc_type_info type = s->type;
    type.placement = *at;
    return sc_dim_divides(s->m, type.dims[dim].dim, type.dims[dim].size,
                          sc_type_shards(&s->m->mesh, &type, dim) * by);
}

/* Returns the last `count` sub-axes of a dim's list, or an empty list if one of them may not
 * move. */
static sc_sub_axis_list suffix(const search *s, const sc_sub_axis_list *list, uint32_t count)
{
    sc_sub_axis_list tail = {0};
    for (uint32_t i = list->count - count; i < list->count; i++) {
        if (!is_moving(s, list->sub_axes[i]))
            return (sc_sub_axis_list){0};
        tail.sub_axes[tail.count++] = list->sub_axes[i];
    }
    return tail;
}

static void release(sc_placement *at, const sc_sub_axis_list *sub_axes)
{
    for (uint32_t i = 0; i < sub_axes->count; i++) {
        at->on[sub_axes->sub_axes[i]] = SC_ON_NOTHING;
        at->order[sub_axes->sub_axes[i]] = 0;
    }
}

static void append_all(sc_placement *at, uint32_t dim, const sc_sub_axis_list *sub_axes)
{
    for (uint32_t i = 0; i < sub_axes->count; i++)
        sc_placement_append(at, dim, sub_axes->sub_axes[i]);
}

/* A slice is free and shrinks what is moved next, so it may split any of the dims. */
static void offer_slices(search *s, uint32_t from)
{
    const sc_placement at = s->states.data[from].at;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        for (uint32_t d = 0; d < s->dim_count; d++) {
            uint8_t dim = (uint8_t)s->dims[d];
            if (!is_moving(s, a) || at.on[a] != SC_ON_NOTHING ||
                !divides(s, &at, dim, s->m->mesh.sub_axes[a].size))
                continue;
            sc_reshard_step step = {.kind = SC_OP_all_slice,
                                    .to = at,
                                    .group = {1, {(uint8_t)a}},
                                    .gather = (uint8_t)(1 + dim)};
            sc_placement_append(&step.to, dim, a);
            offer(s, from, step);
        }
    }
}

static void offer_gathers(search *s, uint32_t from)
{
    const sc_placement at = s->states.data[from].at;
    for (uint32_t d = 0; d < s->dim_count; d++) {
        const sc_sub_axis_list list = sc_placement_dim(&at, s->dims[d]);
        for (uint32_t count = 1; count <= list.count; count++) {
            sc_sub_axis_list tail = suffix(s, &list, count);
            if (tail.count == 0)
                break;
            sc_reshard_step step = {.kind = SC_OP_all_gather,
                                    .to = at,
                                    .group = tail,
                                    .gather = (uint8_t)(1 + s->dims[d])};
            release(&step.to, &tail);
            offer(s, from, step);
            for (uint32_t e = 0; e < s->dim_count; e++) {
                uint64_t by = sc_sub_axis_list_size(&s->m->mesh, &tail);
                if (e == d || !divides(s, &at, s->dims[e], by))
                    continue;
                sc_reshard_step exchange = step;
                exchange.kind = SC_OP_all_to_all;
                exchange.scatter = (uint8_t)(1 + s->dims[e]);
                append_all(&exchange.to, s->dims[e], &tail);
                offer(s, from, exchange);
            }
        }
    }
}

static void offer_all_reduce(search *s, uint32_t from, uint8_t kind, sc_sub_axis_set set)
{
    const sc_placement at = s->states.data[from].at;
    sc_reshard_step step = {.kind = SC_OP_all_reduce, .to = at, .reduce = kind};
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((set >> a & 1) != 0)
            step.group.sub_axes[step.group.count++] = (uint8_t)a;
    }
    release(&step.to, &step.group);
    if (step.group.count > 0)
        offer(s, from, step);
}

static void offer_reduce_scatter(search *s, uint32_t from, uint8_t kind,
                                 const sc_sub_axis_list *group)
{
    const sc_placement at = s->states.data[from].at;
    for (uint32_t d = 0; d < s->dim_count; d++) {
        if (!divides(s, &at, s->dims[d], sc_sub_axis_list_size(&s->m->mesh, group)))
            continue;
        sc_reshard_step step = {.kind = SC_OP_reduce_scatter,
                                .to = at,
                                .group = *group,
                                .gather = (uint8_t)(1 + s->dims[d]),
                                .reduce = kind};
        release(&step.to, group);
        append_all(&step.to, s->dims[d], group);
        offer(s, from, step);
    }
}

/* up to this many sub-axes all orders are tried; beyond, only mesh order and the goal's */
enum { MOST_ORDERED = 4 };

static uint32_t count_sub_axes(sc_sub_axis_set set)
{
    uint32_t count = 0;
    for (; set != 0; set &= set - 1)
        count++;
    return count;
}

/* Offers every order of every nonempty subset of `rest`, appended to `chosen`. */
static void offer_scattered(search *s, uint32_t from, uint8_t kind, sc_sub_axis_list *chosen,
                            sc_sub_axis_set rest, bool every_order)
{
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((rest >> a & 1) == 0)
            continue;
        sc_sub_axis_set later = every_order ? rest & ~((sc_sub_axis_set)1 << a)
                                            : rest & ~(((sc_sub_axis_set)2 << a) - 1);
        chosen->sub_axes[chosen->count++] = (uint8_t)a;
        offer_reduce_scatter(s, from, kind, chosen);
        offer_scattered(s, from, kind, chosen, later, every_order);
        chosen->count--;
    }
}

/* A reduction over several axes is one call over their product group (SHARDING 2.3): sub-axes that
 * end up replicated are reduced together; only those that end up splitting a dim may be
 * scattered. */
static void offer_reductions(search *s, uint32_t from, uint8_t kind)
{
    sc_sub_axis_set partial = sc_placement_partial(&s->states.data[from].at, kind) & s->moving,
                    to_dims = 0;
    sc_sub_axis_list chosen = {0};
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++)
        to_dims |=
            (partial >> a & 1) != 0 && s->goal.on[a] < s->type.rank ? (sc_sub_axis_set)1 << a : 0;
    offer_all_reduce(s, from, kind, partial & ~to_dims);
    if (to_dims != 0)
        offer_all_reduce(s, from, kind, partial);
    offer_scattered(s, from, kind, &chosen, to_dims, count_sub_axes(to_dims) <= MOST_ORDERED);
}

/* Distance, in shards of its dim, between two neighbours on a sub-axis. */
static uint64_t stride_of(const search *s, const sc_placement *at, uint32_t sub_axis)
{
    uint64_t stride = 1;
    for (uint32_t i = 0; i < s->m->mesh.sub_axis_count; i++) {
        if (at->on[i] == at->on[sub_axis] && at->order[i] > at->order[sub_axis])
            stride *= s->m->mesh.sub_axes[i].size;
    }
    return stride;
}

/* Returns the group of a permute: every sub-axis that changes its dim or its stride. In (x, z, y)
 * -> (y, z, x), z keeps its position, but not its stride if x and y differ in size. */
static sc_sub_axis_list changed_sub_axes(const search *s, const sc_placement *a,
                                         const sc_placement *b)
{
    sc_sub_axis_list list = {0};
    for (uint32_t i = 0; i < s->m->mesh.sub_axis_count; i++) {
        if (a->on[i] != b->on[i] || stride_of(s, a, i) != stride_of(s, b, i))
            list.sub_axes[list.count++] = (uint8_t)i;
    }
    return list;
}

static bool same_local_shape(const search *s, const sc_placement *a, const sc_placement *b)
{
    sc_type_info x = s->type, y = s->type;
    x.placement = *a;
    y.placement = *b;
    for (uint32_t i = 0; i < s->type.rank; i++) {
        if (sc_type_shards(&s->m->mesh, &x, i) != sc_type_shards(&s->m->mesh, &y, i))
            return false;
    }
    for (uint32_t i = 0; i < s->m->mesh.sub_axis_count; i++) {
        if (sc_is_partial(a->on[i]) != sc_is_partial(b->on[i]))
            return false;
    }
    return true;
}

/* Offers a permute to `to` if every rank keeps the same number of elements of each dim, and no
 * shards of a zigzag would have to become others. */
static void offer_permute(search *s, uint32_t from, const sc_placement *to)
{
    const sc_placement at = s->states.data[from].at;
    if (sc_placement_equal(&at, to) || !same_local_shape(s, &at, to))
        return;
    sc_type_info type = s->type;
    type.placement = at;
    for (uint32_t i = 0; i < type.rank; i++) {
        if (sc_moves_zigzag(s->m, &type, to, i))
            return;
    }
    sc_reshard_step step = {
        .kind = SC_OP_collective_permute, .to = *to, .group = changed_sub_axes(s, &at, to)};
    offer(s, from, step);
}

/* Offers every assignment of `sub_axes` to `places` that keeps local shapes. */
static void offer_arrangements(search *s, uint32_t from, sc_placement *to,
                               const sc_sub_axis_list *sub_axes, uint32_t next,
                               sc_sub_axis_set places)
{
    const sc_placement at = s->states.data[from].at;
    if (next == sub_axes->count) {
        offer_permute(s, from, to);
        return;
    }
    for (uint32_t p = 0; p < sub_axes->count; p++) {
        if ((places >> p & 1) == 0)
            continue;
        to->on[sub_axes->sub_axes[next]] = at.on[sub_axes->sub_axes[p]];
        to->order[sub_axes->sub_axes[next]] = at.order[sub_axes->sub_axes[p]];
        offer_arrangements(s, from, to, sub_axes, next + 1, places & ~((sc_sub_axis_set)1 << p));
    }
}

/* Moving sub-axes that are not partial may trade places in one call; if there are many, only as in
 * the goal. */
static void offer_permutes(search *s, uint32_t from)
{
    sc_placement to = s->states.data[from].at;
    sc_sub_axis_list sub_axes = {0};
    offer_permute(s, from, &s->goal);
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if (is_moving(s, a) && !sc_is_partial(to.on[a]))
            sub_axes.sub_axes[sub_axes.count++] = (uint8_t)a;
    }
    if (sub_axes.count > 1 && sub_axes.count <= MOST_ORDERED)
        offer_arrangements(s, from, &to, &sub_axes, 0, ((sc_sub_axis_set)1 << sub_axes.count) - 1);
}

/* Returns the sub-axes of a dim from the first that differs: those minor to it cannot stay while it
 * moves. */
static sc_sub_axis_set moving_on(const sc_placement *from, const sc_placement *to, uint32_t dim)
{
    const sc_sub_axis_list a = sc_placement_dim(from, dim), b = sc_placement_dim(to, dim);
    sc_sub_axis_set set = 0;
    uint32_t same = 0;
    while (same < a.count && same < b.count && a.sub_axes[same] == b.sub_axes[same])
        same++;
    for (uint32_t i = same; i < a.count; i++)
        set |= (sc_sub_axis_set)1 << a.sub_axes[i];
    for (uint32_t i = same; i < b.count; i++)
        set |= (sc_sub_axis_set)1 << b.sub_axes[i];
    return set;
}

static void prepare(search *s, const sc_type_info *from, const sc_placement *to)
{
    s->type = *from;
    s->goal = *to;
    for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if (from->placement.on[a] != to->on[a])
            s->moving |= (sc_sub_axis_set)1 << a;
    }
    for (uint32_t d = 0; d < from->rank; d++)
        s->moving |= moving_on(&from->placement, to, d);
    for (uint32_t d = 0; d < from->rank; d++) {
        for (uint32_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
            if (is_moving(s, a) && (from->placement.on[a] == d || to->on[a] == d)) {
                s->dims[s->dim_count++] = d;
                break;
            }
        }
    }
}

/* Returns the cheapest open state, or SC_NONE. A linear scan is fastest because spaces are
 * small. */
static uint32_t next_state(const search *s)
{
    uint32_t best = SC_NONE;
    for (uint32_t i = 0; i < s->states.count; i++) {
        if (!s->states.data[i].done &&
            (best == SC_NONE ||
             sc_cost_compare(&s->states.data[i].cost, &s->states.data[best].cost) < 0))
            best = i;
    }
    return best;
}

static bool appends(const sc_reshard_step *a, const sc_reshard_step *b)
{
    return a->kind == SC_OP_all_slice && b->kind == SC_OP_all_slice && a->gather == b->gather;
}

static sc_reshard_plan *path_to(const search *s, uint32_t goal)
{
    sc_reshard_plan *plan = sc_arena_alloc(&s->m->context->arena, sizeof *plan);
    plan->cost = s->states.data[goal].cost;
    sc_reshard_step reversed[64];
    uint32_t count = 0;
    for (uint32_t i = goal; i != 0 && count < 64; i = s->states.data[i].parent)
        reversed[count++] = s->states.data[i].step;
    while (count > 0) {
        const sc_reshard_step *step = &reversed[--count];
        sc_reshard_step *last = plan->step_count > 0 ? &plan->steps[plan->step_count - 1] : NULL;
        if (last != NULL && appends(last, step)) { /* consecutive slices of one dim are merged */
            last->group.sub_axes[last->group.count++] = step->group.sub_axes[0];
            last->to = step->to;
        } else if (plan->step_count < SC_MAX_RESHARD_STEPS) {
            plan->steps[plan->step_count++] = *step;
        }
    }
    return plan;
}

static sc_reshard_plan *find_path(sc_planner *planner, const sc_type_info *from,
                                  const sc_placement *to)
{
    search s = {.planner = planner, .m = planner->m};
    s.seen.arena = &planner->m->context->arena;
    prepare(&s, from, to);
    bool is_new;
    find_state(&s, &from->placement, &is_new);
    *sc_vec_push(&planner->m->context->arena, &s.states) = (state){.at = from->placement};
    for (uint32_t current; (current = next_state(&s)) != SC_NONE;) {
        if (sc_placement_equal(&s.states.data[current].at, to))
            return path_to(&s, current);
        s.states.data[current].done = true;
        offer_slices(&s, current);
        offer_gathers(&s, current);
        for (uint32_t kind = SC_PARTIAL_SUM; kind <= SC_PARTIAL_MIN; kind++)
            offer_reductions(&s, current, (uint8_t)kind);
        offer_permutes(&s, current);
    }
    return NULL;
}

const sc_reshard_plan *sc_reshard_find(sc_planner *planner, sc_type from, const sc_placement *to)
{
    sc_type target = sc_type_with_placement(planner->m, from, to);
    bool is_new;
    uint64_t key = ((uint64_t)from << 32) | target;
    uint32_t index = *sc_map_insert(&planner->memo, key, planner->plans.count, &is_new);
    if (!is_new)
        return planner->plans.data[index];
    const sc_type_info info = planner->m->types.data[from];
    sc_reshard_plan *plan = find_path(planner, &info, to);
    if (plan == NULL) { /* the goal is a partial reduction, which is unreachable */
        plan = sc_arena_alloc(&planner->m->context->arena, sizeof *plan);
        plan->cost.bytes = INFINITY;
    }
    *sc_vec_push(&planner->m->context->arena, &planner->plans) = plan;
    return plan;
}
