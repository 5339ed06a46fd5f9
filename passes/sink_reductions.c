/* sink-reductions: moves the reduction of a partial sum below linear ops if that moves fewer bytes.
 *
 *   %2 = reshard %1 : f32[B, D]             %5 = add %1, %3 : f32[B, D]{sum:tp}
 *   %4 = reshard %3 : f32[B, D]       ->    %6 = reshard %5 : f32[B, D]
 *   %5 = add %2, %4 : f32[B, D]
 *
 * Siblings that are added are reduced once: a + b, and x + a + b as x + (a + b), if a and b are
 * partial over the same sub-axes. If the next op shrinks a sum (sum, slice), the result is reduced
 * instead. Sums that share only some partial sub-axes share that part. If all readers of a sum are
 * linear in it, their results are reduced where that costs less: for MoE experts, each output of
 * the size of a residual stream, that is their weighted sum and the cotangents of the weights. If
 * the sum was scattered (over positions, in sequence parallelism), the weights are gathered for
 * that. Views in between are looked through. Requires and keeps PLACED. One walk in order; each
 * step removes a reduction or makes one cheaper, so it terminates. */
#include "passes/sinking.h"
#include "passes/uses.h"

enum { MAX_TERMS = 16 }; /* terms of a sum */

static bool read_once(const sc_sinking *s, sc_value value)
{
    if (value < s->count)
        return s->uses[value] == 1;
    const uint32_t *inherited = sc_map_find(&s->inherited, value);
    return inherited == NULL || *inherited == 1;
}

/* Returns the op that defines an operand, looking through views; SC_NONE if there is another
 * reader. */
static sc_op_id sole_maker(const sc_sinking *s, sc_value value)
{
    for (;;) {
        if (!read_once(s, value))
            return SC_NONE;
        const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
        if ((sc_op_traits(op) & SC_VIEW) == 0 ||
            s->m->values.data[op->operands[0]].type != s->m->values.data[value].type)
            return sc_def(s->m, value);
        value = op->operands[0];
    }
}

/* Returns the op if it is a reshard of a partial sum, else SC_NONE. */
static sc_op_id as_partial(const sc_sinking *s, sc_op_id op)
{
    if (op == SC_NONE || sc_op_at(s->m, op)->kind != SC_OP_reshard)
        return SC_NONE;
    const sc_type_info *raw = sc_type_of(s->m, sc_op_at(s->m, op)->operands[0]);
    return sc_placement_partial(&raw->placement, SC_PARTIAL_SUM) != 0 ? op : SC_NONE;
}

/* Returns the reshard of a partial sum that defines an operand, or SC_NONE. */
static sc_op_id partial_behind(const sc_sinking *s, sc_value value)
{
    return as_partial(s, sole_maker(s, value));
}

/* True if the op only widens its operand. */
static bool widens(const sc_module *m, sc_op_id id)
{
    const sc_op *op = sc_op_at(m, id);
    return (sc_op_traits(op) & SC_CONVERTS) != 0 &&
           sc_dtype_widens(sc_type_of(m, op->operands[0])->dtype,
                           sc_type_of(m, op->first_result)->dtype);
}

/* The same for a term of a sum, possibly widened since: a partial sum is communicated in the dtype
 * in which it was computed. */
static sc_op_id partial_term(const sc_sinking *s, sc_value value)
{
    sc_op_id op = sole_maker(s, value);
    if (op != SC_NONE && widens(s->m, op))
        op = sole_maker(s, sc_op_at(s->m, op)->operands[0]);
    return as_partial(s, op);
}

static sc_value raw_of(const sc_sinking *s, sc_op_id reshard)
{
    return sc_op_at(s->m, reshard)->operands[0];
}

/* True if both are partial over common sub-axes, perhaps over others too, and have the same
 * destination (one is scattered over tp, say). Each can be reduced on its own where they differ, to
 * type `there`; the common part is reduced once. */
static bool can_meet(const sc_sinking *s, sc_op_id a, sc_op_id b, sc_type *there)
{
    sc_module *m = s->m;
    if (a == SC_NONE || b == SC_NONE || a == b ||
        m->values.data[sc_result(m, a, 0)].type != m->values.data[sc_result(m, b, 0)].type)
        return false;
    sc_placement at = sc_type_of(m, sc_result(m, a, 0))->placement;
    sc_sub_axis_set common =
        sc_placement_partial(&sc_type_of(m, raw_of(s, a))->placement, SC_PARTIAL_SUM) &
        sc_placement_partial(&sc_type_of(m, raw_of(s, b))->placement, SC_PARTIAL_SUM);
    for (uint32_t i = 0; i < m->mesh.sub_axis_count; i++) {
        if ((common >> i & 1) == 0)
            continue;
        if (at.on[i] != SC_ON_NOTHING)
            return false;
        at.on[i] = SC_PARTIAL_SUM;
    }
    *there = sc_type_with_placement(m, m->values.data[sc_result(m, a, 0)].type, &at);
    return common != 0;
}

/* True if `b` is partial over a subset of the sub-axes of `a` (cotangents of keys and of queries),
 * otherwise has the same placement, and has the same destination. */
static bool includes(const sc_sinking *s, sc_op_id a, sc_op_id b)
{
    sc_module *m = s->m;
    if (a == SC_NONE || b == SC_NONE || a == b ||
        m->values.data[sc_result(m, a, 0)].type != m->values.data[sc_result(m, b, 0)].type)
        return false;
    const sc_type_info *wide = sc_type_of(m, raw_of(s, a));
    sc_placement at = sc_type_of(m, raw_of(s, b))->placement;
    for (uint32_t i = 0; i < m->mesh.sub_axis_count; i++) {
        if (at.on[i] == SC_ON_NOTHING && wide->placement.on[i] == SC_PARTIAL_SUM)
            at.on[i] = SC_PARTIAL_SUM;
    }
    return sc_placement_equal(&at, &wide->placement);
}

/* Finds the type in which two terms can be added before reduction. */
static bool find_meeting(const sc_sinking *s, sc_op_id a, sc_op_id b, sc_type *there)
{
    const sc_module *m = s->m;
    if (!includes(s, a, b) && !includes(s, b, a))
        return can_meet(s, a, b, there);
    *there = m->values.data[raw_of(s, includes(s, a, b) ? a : b)].type;
    return true;
}

/* Returns a term in the type in which it is added: unchanged, partial over more sub-axes, or
 * reduced as far as possible on its own. */
static sc_value bring(sc_sinking *s, sc_op_id before, sc_op_id partial, sc_type there)
{
    const sc_module *m = s->m;
    sc_value raw = raw_of(s, partial);
    sc_sub_axis_set more = sc_placement_partial(&m->types.data[there].placement, SC_PARTIAL_SUM) &
                           ~sc_placement_partial(&sc_type_of(m, raw)->placement, SC_PARTIAL_SUM);
    if (more != 0)
        return sc_sink_spread(s, before, raw, more);
    return m->values.data[raw].type == there ? raw
                                             : sc_sink_reshard(s, before, partial, raw, there);
}

/* a + b, both partial: over the same sub-axes, over a superset, or over some common ones, each
 * being reduced as far as possible on its own. */
static bool add_siblings(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    sc_type there;
    sc_op_id a = partial_term(s, m->ops.data[op].operands[0]),
             b = partial_term(s, m->ops.data[op].operands[1]);
    if (!find_meeting(s, a, b, &there))
        return false;
    sc_value terms[] = {bring(s, op, a, there), bring(s, op, b, there)};
    m->ops.data[op].operands[0] = terms[0];
    m->ops.data[op].operands[1] = terms[1];
    sc_sink_reduce_as(s, op, includes(s, a, b) ? a : b, there);
    return true;
}

/* The terms of a sum computed in several steps, each read only by the next. */
typedef struct term_list {
    uint32_t count;
    sc_value list[MAX_TERMS];
    sc_op_id partial[MAX_TERMS]; /* the reshard that defines a term, or SC_NONE */
} term_list;

/* Returns the sum that is a term of a sum, perhaps widened since; its terms are terms of the outer
 * sum too. */
static const sc_op *sum_behind(const sc_sinking *s, sc_op_id sum, sc_value value)
{
    sc_module *m = s->m;
    sc_op_id maker = sole_maker(s, value);
    if (maker != SC_NONE && widens(m, maker))
        maker = sole_maker(s, sc_op_at(m, maker)->operands[0]);
    if (maker == SC_NONE || sc_op_at(m, maker)->kind != sc_op_at(m, sum)->kind ||
        sc_op_attr(sc_op_at(m, maker), SC_ATTR_gradient) != NULL)
        return NULL;
    sc_type type = m->values.data[sc_result(m, maker, 0)].type,
            last = m->values.data[sc_result(m, sum, 0)].type;
    return sc_type_with_dtype(m, type, m->types.data[last].dtype) == last ? sc_op_at(m, maker)
                                                                          : NULL;
}

static void find_terms(const sc_sinking *s, sc_op_id sum, sc_value value, uint32_t depth,
                       term_list *out)
{
    const sc_op *op =
        depth > 0 && out->count + depth + 1 < MAX_TERMS ? sum_behind(s, sum, value) : NULL;
    if (op != NULL) {
        find_terms(s, sum, op->operands[0], depth - 1, out);
        find_terms(s, sum, op->operands[1], depth - 1, out);
        return;
    }
    out->list[out->count] = value;
    out->partial[out->count++] = partial_term(s, value);
}

static sc_value add_before(sc_sinking *s, sc_op_id sum, sc_value a, sc_value b)
{
    sc_module *m = s->m;
    sc_value both[] = {a, b};
    const sc_attr *phase = sc_op_attr(sc_op_at(m, sum), SC_ATTR_phase);
    sc_attr attr = phase != NULL ? *phase : (sc_attr){0};
    sc_type type = m->values.data[a].type;
    sc_op_id op = sc_op_new(m, m->ops.data[sum].func, sum, (sc_op_kind)m->ops.data[sum].kind, both,
                            2, &attr, phase != NULL, &type, 1, sum);
    return sc_result(m, op, 0);
}

/* True if there is a reshard and it has the placement of the sum, in any dtype. */
static bool ends_at(const sc_sinking *s, sc_op_id reshard, sc_type belongs)
{
    if (reshard == SC_NONE)
        return false;
    sc_type type = s->m->values.data[sc_result(s->m, reshard, 0)].type;
    return sc_type_with_dtype(s->m, type, s->m->types.data[belongs].dtype) == belongs;
}

/* Chooses the largest set of terms that are partial over the same sub-axes as `like` or a subset of
 * them, or else two that can be added. They are added in type `there`. */
static bool choose_together(const sc_sinking *s, const term_list *all, sc_type belongs,
                            bool *is_chosen, uint32_t *like, sc_type *there)
{
    const sc_module *m = s->m;
    uint32_t widest = 0, most = 1;
    for (uint32_t i = 0; i < all->count; i++) {
        if (!ends_at(s, all->partial[i], belongs))
            continue;
        uint32_t count = 1;
        for (uint32_t j = 0; j < all->count; j++)
            count += includes(s, all->partial[i], all->partial[j]);
        widest = count > most ? i : widest;
        most = count > most ? count : most;
    }
    if (most > 1) {
        for (uint32_t j = 0; j < all->count; j++)
            is_chosen[j] = j == widest || includes(s, all->partial[widest], all->partial[j]);
        *there = m->values.data[raw_of(s, all->partial[widest])].type;
        *like = widest;
        return true;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        if (!ends_at(s, all->partial[i], belongs))
            continue;
        for (uint32_t j = i + 1; j < all->count; j++) {
            if (!can_meet(s, all->partial[i], all->partial[j], there))
                continue;
            is_chosen[i] = is_chosen[j] = true;
            *like = i;
            return true;
        }
    }
    return false;
}

/* (x + a) + b, and longer sums, with a and b partial: becomes x + (a + b). */
static bool add_across(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    const sc_type belongs = m->values.data[sc_result(m, op, 0)].type;
    term_list all = {0};
    bool is_chosen[MAX_TERMS] = {false};
    sc_type there;
    find_terms(s, op, m->ops.data[op].operands[0], SC_MAX_SINK, &all);
    find_terms(s, op, m->ops.data[op].operands[1], SC_MAX_SINK, &all);
    uint32_t first = 0, like;
    if (all.count < 3 || !choose_together(s, &all, belongs, is_chosen, &like, &there))
        return false;
    while (first < all.count &&
           (is_chosen[first] || m->values.data[all.list[first]].type != belongs))
        first++;
    if (first == all.count)
        return false;
    sc_value rest = all.list[first], together = SC_NONE;
    for (uint32_t i = 0; i < all.count; i++) {
        if (is_chosen[i]) {
            sc_value term = bring(s, op, all.partial[i], there);
            together = together == SC_NONE ? term : add_before(s, op, together, term);
        } else if (i != first) {
            sc_value term = sc_sink_converted(s, op, all.list[i], m->types.data[belongs].dtype);
            rest = add_before(s, op, rest, term);
        }
    }
    together = sc_sink_reshard(s, op, all.partial[like], together,
                               sc_type_with_dtype(m, belongs, m->types.data[there].dtype));
    m->ops.data[op].operands[0] = rest;
    m->ops.data[op].operands[1] = sc_sink_converted(s, op, together, m->types.data[belongs].dtype);
    return true;
}

/* a + b of scalars partial over different axes: one reduction over all axes for any number of
 * terms. */
static bool add_scalars(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    if (sc_type_of(m, sc_result(m, op, 0))->rank > 0)
        return false;
    sc_op_id partial[2];
    sc_value terms[2];
    sc_sub_axis_set sets[2], all = 0;
    for (uint32_t i = 0; i < 2; i++) { /* a term on its way to an accumulator stays partial */
        terms[i] = m->ops.data[op].operands[i];
        partial[i] = partial_behind(s, terms[i]);
        terms[i] = partial[i] == SC_NONE ? terms[i] : raw_of(s, partial[i]);
        sets[i] = sc_placement_partial(&sc_type_of(m, terms[i])->placement, SC_PARTIAL_SUM);
        all |= sets[i];
    }
    if (partial[0] == SC_NONE && partial[1] == SC_NONE)
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        sc_value term = sc_sink_spread(s, op, terms[i], all & ~sets[i]);
        m->ops.data[op].operands[i] = term;
    }
    const sc_placement raw = sc_type_of(m, m->ops.data[op].operands[0])->placement;
    sc_sink_reduce_after(s, op, partial[0] != SC_NONE ? partial[0] : partial[1], &raw);
    return true;
}

/* A linear op of one operand with a smaller result: reduces the result instead. */
static bool shrink_first(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    sc_op_id partial = partial_behind(s, m->ops.data[op].operands[0]);
    if (partial == SC_NONE)
        return false;
    const sc_type_info before = *sc_type_of(m, raw_of(s, partial)),
                       reduced = *sc_type_of(m, sc_result(m, partial, 0)),
                       after = *sc_type_of(m, sc_result(m, op, 0));
    if (sc_type_local_bytes(m, &after) >= sc_type_local_bytes(m, &reduced))
        return false;
    sc_placement raw = after.placement;
    for (uint32_t a = 0; a < m->mesh.sub_axis_count; a++) {
        bool is_partial = before.placement.on[a] == SC_PARTIAL_SUM;
        if (is_partial &&
            (reduced.placement.on[a] != SC_ON_NOTHING || after.placement.on[a] != SC_ON_NOTHING))
            return false; /* scattered on the way: a reduce_scatter is already small */
        if (!is_partial && before.placement.on[a] != reduced.placement.on[a])
            return false;
        raw.on[a] = is_partial ? SC_PARTIAL_SUM : raw.on[a];
    }
    m->ops.data[op].operands[0] = raw_of(s, partial);
    sc_sink_reduce_after(s, op, partial, &raw);
    return true;
}

/* True if the only reader of a value, looking through views, adds something to it. */
static bool is_added(const sc_sinking *s, sc_value value)
{
    const sc_module *m = s->m;
    while (value < s->count && s->uses[value] == 1 &&
           s->readers.first[value + 1] - s->readers.first[value] == 1) {
        const sc_op *reader = sc_op_at(m, s->readers.list[s->readers.first[value]]);
        if ((sc_op_traits(reader) & SC_VIEW) == 0 || sc_op_attr(reader, SC_ATTR_gradient) != NULL)
            return (sc_op_traits(reader) & (SC_LINEAR | SC_COMMUTES)) == (SC_LINEAR | SC_COMMUTES);
        value = reader->first_result;
    }
    return false;
}

/* For a view with its own dims (a rename) of a sum that is added to others, reduces the view, so
 * that it can be added to its siblings first. */
static bool view_first(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    sc_op_id partial = partial_behind(s, m->ops.data[op].operands[0]);
    if (partial == SC_NONE || (sc_op_traits(sc_op_at(m, op)) & SC_VIEW) == 0 ||
        sc_op_attr(sc_op_at(m, op), SC_ATTR_gradient) != NULL || !is_added(s, sc_result(m, op, 0)))
        return false;
    const sc_type_info before = *sc_type_of(m, raw_of(s, partial));
    sc_sub_axis_set sub_axes = sc_placement_partial(&before.placement, SC_PARTIAL_SUM);
    const sc_placement elsewhere = sc_placement_with(
        &sc_type_of(m, sc_result(m, partial, 0))->placement, sub_axes, SC_PARTIAL_SUM);
    if (!sc_placement_equal(&elsewhere, &before.placement))
        return false;
    const sc_placement raw =
        sc_placement_with(&sc_type_of(m, sc_result(m, op, 0))->placement, sub_axes, SC_PARTIAL_SUM);
    m->ops.data[op].operands[0] = raw_of(s, partial);
    sc_sink_reduce_after(s, op, partial, &raw);
    return true;
}

/* Merges a reshard with the reduction right before it, keeping the reason. */
static void join_reshards(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    sc_op_id first = sc_op_at(m, op)->kind == SC_OP_reshard
                         ? partial_behind(s, m->ops.data[op].operands[0])
                         : SC_NONE;
    if (first == SC_NONE)
        return;
    static const sc_attr_key reason[] = {SC_ATTR_rule, SC_ATTR_why};
    for (size_t i = 0; i < sizeof reason / sizeof *reason; i++) {
        const sc_attr *attr = sc_op_attr(sc_op_at(m, first), reason[i]);
        sc_op_drop_attr(m, op, reason[i]);
        if (attr != NULL)
            sc_op_set_attr(m, op, *attr);
    }
    m->ops.data[op].operands[0] = raw_of(s, first);
}

static void visit(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++) {
        sc_value value = m->ops.data[op].operands[i];
        if (value < s->count && s->current[value] != SC_NONE && sc_def(m, s->current[value]) != op)
            m->ops.data[op].operands[i] = s->current[value];
    }
    uint32_t traits = sc_op_traits(sc_op_at(m, op));
    if ((traits & SC_RESHARD) != 0) {
        join_reshards(s, op);
        sc_sink_below(s, op);
    }
    if ((traits & SC_LINEAR) == 0)
        return;
    if (m->ops.data[op].operand_count == 1) {
        if (!shrink_first(s, op))
            view_first(s, op);
    } else if (m->ops.data[op].operand_count == 2 && (traits & SC_COMMUTES) != 0 &&
               !add_scalars(s, op) && !add_siblings(s, op))
        add_across(s, op);
}

bool sc_run_sink_reductions(sc_module *m, sc_pass_env *env)
{
    if (env->planner == NULL)
        env->planner = sc_planner_new(m, env->seeds == NULL ? 0 : env->seeds->call_cost);
    sc_sink_narrow_sums(m);
    sc_sinking s = {.m = m,
                    .planner = env->planner,
                    .placing = env->placing,
                    .brought = env->brought,
                    .uses = sc_count_uses(m)};
    s.inherited.arena = s.moved.arena = &m->context->arena;
    s.current = sc_new_value_map(m, &s.count);
    s.pinned = sc_arena_array(&m->context->arena, s.count, sizeof *s.pinned);
    if (env->seeds != NULL) {
        for (uint32_t i = 0; i < env->seeds->list.count; i++)
            s.pinned[env->seeds->list.data[i].value] |= env->seeds->list.data[i].closed;
    }
    s.readers = sc_find_readers(m);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op)
            visit(&s, op);
    }
    return true;
}
