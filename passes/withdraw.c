/* Withdraws `if free` splits that cost more than they save: values that such a line splits and that
 * all readers want whole.
 *
 *   x: [B, S@tp, D], also wanted whole (for queries)        x: [B, S@tp, D], also wanted whole
 *   k = dot[D] x, wk: [B, S@tp, E]                    ->    k = dot[D] x, wk: [B, S, E]
 *   attend q, k needs k whole: a gather                     attend q, k
 *
 * Connected values (keys, their norm, their rotation) form a group. It becomes whole if its inputs
 * are whole, or available whole because other readers want them so, and if that costs less than
 * splitting and gathering. A partial sum may feed a group that is only read beside larger values,
 * like the sums of a norm: one all_reduce replaces a reduce_scatter and a gather of as many bytes.
 * A residual stream stays split: there the line saves memory.
 *
 * Handles one axis at a time, in the forward program; derivatives follow. One walk from readers to
 * definitions finds the largest groups; a worklist then drops members that do not qualify, each op
 * at most once. */
#include <string.h>

#include "passes/propagate.h"

typedef struct grouping {
    sc_op_id parent; /* union-find forest; costs are at the root */
    sc_cost now, then;
} grouping;

typedef struct withdrawal {
    sc_propagation *p;
    sc_module *m;
    const sc_sub_axis_set *before; /* by value: sub-axes that split it without free lines */
    sc_sub_axis_set axis;
    bool *is_member; /* by op: its results become whole */
    /* by op: operands it wants whole over the axis in any case, one bit each */
    uint32_t *whole;
    /* by op: sub-axes of the axis over which its results are partial when computed */
    sc_sub_axis_set *sums;
    sc_value *named;       /* by value: the value that it is a view of */
    bool *is_at_hand;      /* by non-view: some reader wants it or a view of it whole in any case */
    bool *is_beside;       /* by value: only read beside larger values */
    grouping *groups;      /* by op */
    SC_VEC(sc_op_id) open; /* worklist of members */
} withdrawal;

/* Returns the sub-axes of the axis on which only free lines split the value. */
static sc_sub_axis_set freely_split(const withdrawal *w, sc_value value)
{
    return sc_placement_split(&w->p->placing->at[value]) & ~w->before[value] & w->axis;
}

static sc_placement whole_placement(const withdrawal *w, sc_value value)
{
    return sc_placement_with(&w->p->placing->at[value], freely_split(w, value), SC_ON_NOTHING);
}

static bool in_stage(const withdrawal *w, sc_op_id op)
{
    return w->p->stage_of[op] == w->p->stage;
}

/* True if the op could be computed whole over the axis: only free lines split the dims that its
 * results keep, and it does not reduce over other axes, which would cost more. Fills in the facts
 * that depend on the op alone. */
static bool could_be_whole(withdrawal *w, sc_op_id id)
{
    const sc_module *m = w->m;
    const sc_op *op = sc_op_at(m, id);
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(m, op, &factors);
    if (factors.count == 0)
        return false;
    sc_assign(&w->p->assigner, id, &factors, &assignment);
    bool could = (sc_op_traits(op) &
                  (SC_STATE_READ | SC_EFFECT | SC_FROM_OUTSIDE | SC_CONSTANT | SC_RANDOM)) == 0 &&
                 op->result_count > 0;
    for (uint32_t o = 0; o < op->operand_count; o++) {
        const sc_placement needed = sc_assigned_operand(m, &factors, &assignment, op, o);
        sc_sub_axis_set split = freely_split(w, op->operands[o]);
        w->whole[id] |= split != 0 && (sc_placement_split(&needed) & split) == 0 ? 1u << o : 0;
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        const sc_placement made = sc_assigned_result(m, &factors, &assignment, op, r);
        sc_sub_axis_set split = freely_split(w, op->first_result + r);
        could = could && split != 0 && (sc_placement_split(&made) & w->axis & ~split) == 0;
        w->sums[id] |= sc_placement_partial(&made, 0);
    }
    for (uint32_t f = 0; f < factors.count; f++)
        could = could && (factors.list[f].role != SC_ROLE_FORM || assignment.split[f].count == 0);
    return could && (w->sums[id] & ~w->axis) == 0;
}

/* True if the value has readers and none wants it split. */
static bool nobody_wants_split(const withdrawal *w, sc_value value)
{
    bool any = false;
    for (uint32_t u = w->p->user_begin[value]; u < w->p->user_begin[value + 1]; u++) {
        sc_op_id reader = w->p->users[u];
        const sc_op *op = sc_op_at(w->m, reader);
        if (!in_stage(w, reader))
            continue;
        any = true;
        if (w->is_member[reader])
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++) {
            if (op->operands[o] == value &&
                (o >= SC_MAX_FIXED_OPERANDS || (w->whole[reader] >> o & 1) == 0))
                return false;
        }
    }
    return any;
}

/* Records what one reader implies for a value: it wants it whole, perhaps beside a larger value, or
 * its result has these properties. */
static void note_reader(withdrawal *w, sc_value value, sc_op_id reader)
{
    const sc_op *op = sc_op_at(w->m, reader);
    uint32_t traits = sc_op_traits(op);
    for (uint32_t o = 0; o < op->operand_count && o < SC_MAX_FIXED_OPERANDS; o++) {
        if (op->operands[o] != value)
            continue;
        bool wants = (w->whole[reader] >> o & 1) != 0;
        w->is_at_hand[w->named[value]] = w->is_at_hand[w->named[value]] || wants;
        w->is_beside[value] =
            w->is_beside[value] && (wants ? (traits & SC_ELEMENTWISE) != 0
                                          : w->is_member[reader] && w->is_beside[op->first_result]);
    }
}

/* Walks from readers to definitions. */
static void find_members(withdrawal *w, sc_func_id func)
{
    sc_for_each_op_reverse (w->m, func, id) {
        const sc_op op = *sc_op_at(w->m, id);
        if (!in_stage(w, id))
            continue;
        bool all = could_be_whole(w, id);
        for (uint32_t r = 0; r < op.result_count; r++) {
            sc_value value = op.first_result + r;
            w->is_beside[value] = true;
            for (uint32_t u = w->p->user_begin[value]; u < w->p->user_begin[value + 1]; u++) {
                if (in_stage(w, w->p->users[u]))
                    note_reader(w, value, w->p->users[u]);
            }
            all = all && nobody_wants_split(w, value) && (w->sums[id] == 0 || w->is_beside[value]);
        }
        w->is_member[id] = all;
        if (all)
            *sc_vec_push(&w->m->context->arena, &w->open) = id;
    }
}

/* True if the op can be computed whole without communication and is worth it. If all its operands
 * are replicated, computing one shard per rank is cheaper; a view is gathered with the value it
 * views. */
static bool holds(const withdrawal *w, sc_op_id id)
{
    const sc_op *op = sc_op_at(w->m, id);
    bool is_worth_it = w->sums[id] != 0, is_view = (sc_op_traits(op) & SC_VIEW) != 0;
    for (uint32_t o = 0; o < op->operand_count; o++) {
        sc_value value = op->operands[o];
        if (freely_split(w, value) == 0 || sc_is_made_anywhere(w->m, value))
            continue;
        if (!w->is_member[sc_def(w->m, value)] && (is_view || !w->is_at_hand[w->named[value]]))
            return false;
        is_worth_it = true;
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (!nobody_wants_split(w, op->first_result + r))
            return false;
    }
    return is_worth_it;
}

static void look_again(withdrawal *w, sc_op_id op)
{
    if (w->is_member[op])
        *sc_vec_push(&w->m->context->arena, &w->open) = op;
}

/* Drops members that depend on non-members, and re-examines the ops around them. */
static void drop_members(withdrawal *w)
{
    while (w->open.count > 0) {
        sc_op_id id = w->open.data[--w->open.count];
        const sc_op *op = sc_op_at(w->m, id);
        if (!w->is_member[id] || holds(w, id))
            continue;
        w->is_member[id] = false;
        for (uint32_t o = 0; o < op->operand_count; o++)
            look_again(w, sc_def(w->m, op->operands[o]));
        for (uint32_t r = 0; r < op->result_count; r++) {
            for (uint32_t u = w->p->user_begin[op->first_result + r];
                 u < w->p->user_begin[op->first_result + r + 1]; u++)
                look_again(w, w->p->users[u]);
        }
    }
}

static sc_op_id root_of(withdrawal *w, sc_op_id op)
{
    while (w->groups[op].parent != op)
        op = w->groups[op].parent = w->groups[w->groups[op].parent].parent;
    return op;
}

static void add_cost(withdrawal *w, sc_cost *sum, sc_value value, const sc_placement *from,
                     const sc_placement *to)
{
    if (sc_placement_equal(from, to))
        return;
    sc_type type = sc_type_with_placement(w->m, w->m->values.data[value].type, from);
    sc_cost_add(sum, &sc_reshard_find(w->p->assigner.planner, type, to)->cost);
}

/* True if a reader that wants the value whole is not a member. */
static bool is_gathered(const withdrawal *w, sc_value value)
{
    for (uint32_t u = w->p->user_begin[value]; u < w->p->user_begin[value + 1]; u++) {
        if (in_stage(w, w->p->users[u]) && !w->is_member[w->p->users[u]])
            return true;
    }
    return false;
}

/* Adds a member's share to the cost of its group. */
static void price(withdrawal *w, sc_op_id id)
{
    const sc_op *op = sc_op_at(w->m, id);
    grouping *group = &w->groups[root_of(w, id)];
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(w->m, op, &factors);
    sc_assign(&w->p->assigner, id, &factors, &assignment);
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        const sc_placement at = w->p->placing->at[value], whole = whole_placement(w, value);
        const sc_placement made = sc_assigned_result(w->m, &factors, &assignment, op, r);
        if (is_gathered(w, value))
            add_cost(w, &group->now, value, &at, &whole);
        if (w->sums[id] == 0)
            continue;
        add_cost(w, &group->now, value, &made, &at);
        add_cost(w, &group->then, value, &made, &whole);
    }
}

static void join_groups(withdrawal *w, sc_func_id func)
{
    sc_for_each_op (w->m, func, id) {
        const sc_op *op = sc_op_at(w->m, id);
        if (!w->is_member[id])
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++) {
            sc_op_id maker = sc_def(w->m, op->operands[o]);
            if (w->is_member[maker])
                w->groups[root_of(w, maker)].parent = root_of(w, id);
        }
    }
}

static void make_whole(withdrawal *w, sc_op_id id)
{
    sc_placing *placing = w->p->placing;
    const sc_op *op = sc_op_at(w->m, id);
    placing->withdrawn[id] |= w->axis;
    for (uint32_t a = 0; a < placing->sub_axis_count; a++) {
        size_t slot = (size_t)id * placing->sub_axis_count + a;
        if ((w->axis >> a & 1) != 0 && placing->locks[slot] == SC_NONE)
            placing->locks[slot] = SC_LOCKED_OUT;
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_value value = op->first_result + r;
        sc_sub_axis_set split = freely_split(w, value);
        placing->at[value] = whole_placement(w, value);
        for (uint32_t a = 0; a < placing->sub_axis_count; a++) {
            if ((split >> a & 1) != 0)
                *sc_cause_of(placing, value, a) = (sc_cause){SC_NONE, SC_NONE, SC_NONE};
        }
    }
}

static void find_names(withdrawal *w, sc_func_id func)
{
    sc_for_each_op (w->m, func, id) {
        const sc_op *op = sc_op_at(w->m, id);
        for (uint32_t r = 0; r < op->result_count; r++)
            w->named[op->first_result + r] = (sc_op_traits(op) & SC_VIEW) != 0
                                                 ? w->named[op->operands[0]]
                                                 : op->first_result + r;
    }
}

static void withdraw_in(withdrawal *w, sc_func_id func)
{
    find_names(w, func);
    find_members(w, func);
    drop_members(w);
    join_groups(w, func);
    sc_for_each_op (w->m, func, id) {
        if (w->is_member[id])
            price(w, id);
    }
    sc_for_each_op (w->m, func, id) {
        const grouping *group = &w->groups[root_of(w, id)];
        if (w->is_member[id] && sc_cost_compare(&group->then, &group->now) < 0)
            make_whole(w, id);
    }
}

void sc_withdraw_weak_seeds(sc_propagation *p, const sc_sub_axis_set *before)
{
    sc_module *m = p->m;
    sc_arena *arena = &m->context->arena;
    withdrawal w = {.p = p, .m = m, .before = before};
    sc_sub_axis_set free = 0;
    for (sc_value v = 0; v < p->placing->value_count; v++)
        free |= sc_placement_split(&p->placing->at[v]) & ~before[v];
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        const sc_axis *axis = &m->mesh.axes[x];
        w.axis = (((sc_sub_axis_set)1 << axis->sub_axis_count) - 1) << axis->first_sub_axis;
        if ((free & w.axis) == 0)
            continue;
        w.is_member = sc_arena_array(arena, m->ops.count, sizeof *w.is_member);
        w.whole = sc_arena_array(arena, m->ops.count, sizeof *w.whole);
        w.sums = sc_arena_array(arena, m->ops.count, sizeof *w.sums);
        w.named = sc_arena_array(arena, m->values.count, sizeof *w.named);
        w.is_at_hand = sc_arena_array(arena, m->values.count, sizeof *w.is_at_hand);
        w.is_beside = sc_arena_array(arena, m->values.count, sizeof *w.is_beside);
        w.groups = sc_arena_array(arena, m->ops.count, sizeof *w.groups);
        for (sc_op_id op = 0; op < m->ops.count; op++)
            w.groups[op].parent = op;
        for (sc_func_id f = 0; f < m->funcs.count; f++)
            withdraw_in(&w, f);
    }
}
