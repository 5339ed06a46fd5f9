/* The propagation engine of propagate and place-update: rounds of proposals to a fixpoint (see
 * propagate.c), initialization and final results. */
#include <stdlib.h>
#include <string.h>

#include "passes/propagate.h"

typedef struct proposal {
    sc_value value;
    uint8_t sub_axis, dim, position;
    sc_cause cause;
    uint32_t serial;
} proposal;

typedef SC_VEC(proposal) proposal_list;

/* ---- a run ---- */

/* Finds the readers of every value by counting sort. */
static void find_users(sc_propagation *p)
{
    sc_module *m = p->m;
    sc_arena *arena = &m->context->arena;
    p->user_begin = sc_arena_array(arena, m->values.count + 1, sizeof *p->user_begin);
    uint32_t *end = sc_arena_array(arena, m->values.count + 1, sizeof *end);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
                p->user_begin[m->ops.data[op].operands[i] + 1]++;
        }
    }
    for (uint32_t v = 0; v < m->values.count; v++) {
        p->user_begin[v + 1] += p->user_begin[v];
        end[v] = p->user_begin[v];
    }
    p->users = sc_arena_array(arena, p->user_begin[m->values.count], sizeof *p->users);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            for (uint32_t i = 0; i < m->ops.data[op].operand_count; i++)
                p->users[end[m->ops.data[op].operands[i]]++] = op;
        }
    }
}

static sc_placing *placing_new(sc_module *m)
{
    sc_arena *arena = &m->context->arena;
    sc_placing *placing = sc_arena_alloc(arena, sizeof *placing);
    placing->value_count = m->values.count;
    placing->op_count = m->ops.count;
    placing->sub_axis_count = m->mesh.sub_axis_count;
    placing->at = sc_arena_array(arena, m->values.count, sizeof *placing->at);
    placing->closed = sc_arena_array(arena, m->values.count, sizeof *placing->closed);
    size_t causes = (size_t)m->values.count * m->mesh.sub_axis_count,
           locks = (size_t)m->ops.count * m->mesh.sub_axis_count;
    placing->causes = sc_arena_array(arena, causes, sizeof *placing->causes);
    placing->locks = sc_arena_array(arena, locks, sizeof *placing->locks);
    placing->withdrawn = sc_arena_array(arena, m->ops.count, sizeof *placing->withdrawn);
    placing->lock_rules = sc_arena_array(arena, locks, sizeof *placing->lock_rules);
    placing->acted = sc_arena_array(arena, m->rules.count, sizeof *placing->acted);
    placing->is_form = sc_arena_array(arena, m->rules.count, sizeof *placing->is_form);
    placing->line_count = m->rules.count;
    placing->lock_orders = sc_arena_array(arena, locks, sizeof *placing->lock_orders);
    for (size_t i = 0; i < causes; i++)
        placing->causes[i] = (sc_cause){SC_NONE, SC_NONE, SC_NONE};
    memset(placing->locks, 0xff, locks * sizeof *placing->locks);
    memset(placing->lock_rules, 0xff, locks * sizeof *placing->lock_rules);
    for (sc_value v = 0; v < m->values.count; v++)
        placing->at[v] = sc_type_of(m, v)->placement;
    return placing;
}

/* From function and phase. */
static uint8_t find_stage(sc_func_id func, const sc_op *op, const sc_train_step *step)
{
    if (step == NULL)
        return SC_STAGE_FORWARD;
    if (func == step->update)
        return SC_STAGE_UPDATE;
    return sc_op_word(op, SC_ATTR_phase) == 0 ? SC_STAGE_FORWARD : SC_STAGE_BACKWARD;
}

void sc_propagation_init(sc_propagation *p, sc_pass_env *env)
{
    sc_module *m = p->m;
    sc_arena *arena = &m->context->arena;
    find_users(p);
    if (env->placing == NULL)
        env->placing = placing_new(m);
    p->placing = env->placing;
    if (env->planner == NULL)
        env->planner = sc_planner_new(m, env->seeds == NULL ? 0 : env->seeds->call_cost);
    p->assigner = (sc_assigner){.m = m, .placing = p->placing, .planner = env->planner};
    p->queued = sc_arena_array(arena, m->ops.count, sizeof *p->queued);
    p->is_input = sc_arena_array(arena, m->values.count, sizeof *p->is_input);
    p->stage_of = sc_arena_array(arena, m->ops.count, sizeof *p->stage_of);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            p->stage_of[op] = find_stage(f, sc_op_at(m, op), env->step);
            if ((sc_op_traits(sc_op_at(m, op)) & SC_FROM_OUTSIDE) != 0)
                p->is_input[sc_result(m, op, 0)] = true;
        }
    }
}

void sc_propagation_begin(sc_propagation *p, sc_stage stage)
{
    p->stage = (uint8_t)stage;
    if (p->m->mesh.sub_axis_count == 0)
        return;
    for (sc_func_id f = 0; f < p->m->funcs.count; f++) {
        sc_for_each_op (p->m, f, op) {
            if (p->stage_of[op] != stage || p->queued[op])
                continue;
            p->queued[op] = true;
            *sc_vec_push(&p->m->context->arena, &p->next) = op;
        }
    }
}

/* ---- rounds ---- */

void sc_propagation_touch(sc_propagation *p, sc_value value)
{
    sc_op_id def = sc_def(p->m, value);
    if (!p->queued[def] && p->stage_of[def] == p->stage) {
        p->queued[def] = true;
        *sc_vec_push(&p->m->context->arena, &p->next) = def;
    }
    for (uint32_t u = p->user_begin[value]; u < p->user_begin[value + 1]; u++) {
        if (!p->queued[p->users[u]] && p->stage_of[p->users[u]] == p->stage) {
            p->queued[p->users[u]] = true;
            *sc_vec_push(&p->m->context->arena, &p->next) = p->users[u];
        }
    }
}

static bool may_take(const sc_propagation *p, sc_value value, uint32_t dim, uint32_t sub_axis)
{
    const sc_placement *at = &p->placing->at[value];
    if (at->on[sub_axis] != SC_ON_NOTHING || (p->placing->closed[value] >> sub_axis & 1) != 0 ||
        p->is_input[value])
        return false;
    if (p->stage_of[sc_def(p->m, value)] != p->stage || sc_is_made_anywhere(p->m, value))
        return false;
    sc_type_info type = *sc_type_of(p->m, value);
    /* a zigzag is an order of activations: state keeps the dim whole */
    if (sc_op_has(sc_op_at(p->m, sc_def(p->m, value)), SC_STATE_READ) &&
        p->m->dims.data[type.dims[dim].dim].zigzag.count > 0)
        return false;
    type.placement = *at;
    return sc_dim_divides(p->m, type.dims[dim].dim, type.dims[dim].size,
                          sc_type_shards(&p->m->mesh, &type, dim) *
                              p->m->mesh.sub_axes[sub_axis].size);
}

/* Returns a value of the op that has the sub-axis on this factor, from which the cause is
 * copied. */
static sc_value source_of(const sc_propagation *p, const sc_op *op, const sc_factor *factor,
                          uint32_t sub_axis)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (factor->operand[o] >= 0 &&
            p->placing->at[op->operands[o]].on[sub_axis] == (uint8_t)factor->operand[o])
            return op->operands[o];
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        if (factor->result[r] >= 0 &&
            p->placing->at[op->first_result + r].on[sub_axis] == (uint8_t)factor->result[r])
            return op->first_result + r;
    }
    return SC_NONE;
}

static void propose(sc_propagation *p, sc_op_id id, const sc_factor *factor,
                    const sc_sub_axis_list *split, sc_value value, int dim, proposal_list *out)
{
    if (dim < 0)
        return;
    for (uint32_t i = 0; i < split->count; i++) {
        uint32_t sub_axis = split->sub_axes[i];
        if (!may_take(p, value, (uint32_t)dim, sub_axis))
            continue;
        sc_value source = source_of(p, sc_op_at(p->m, id), factor, sub_axis);
        uint32_t rule =
            source == SC_NONE
                ? p->placing->lock_rules[(size_t)id * p->placing->sub_axis_count + sub_axis]
                : sc_cause_of(p->placing, source, sub_axis)->rule;
        *sc_vec_push(&p->m->context->arena, out) = (proposal){.value = value,
                                                              .sub_axis = (uint8_t)sub_axis,
                                                              .dim = (uint8_t)dim,
                                                              .position = (uint8_t)i,
                                                              .cause = {rule, id, source},
                                                              .serial = out->count};
    }
}

/* Proposes what one op propagates from placed values to others. */
static void visit(sc_propagation *p, sc_op_id id, proposal_list *out)
{
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(p->m, sc_op_at(p->m, id), &factors);
    if (factors.count == 0)
        return;
    sc_assign(&p->assigner, id, &factors, &assignment);
    const sc_op *op = sc_op_at(p->m, id);
    for (uint32_t f = 0; f < factors.count; f++) {
        if (assignment.split[f].count == 0)
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++)
            propose(p, id, &factors.list[f], &assignment.split[f], op->operands[o],
                    factors.list[f].operand[o], out);
        for (uint32_t r = 0; r < op->result_count; r++)
            propose(p, id, &factors.list[f], &assignment.split[f], op->first_result + r,
                    factors.list[f].result[r], out);
    }
}

static int by_value(const void *a, const void *b)
{
    const proposal *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    if (x->position != y->position)
        return x->position < y->position ? -1 : 1;
    if (x->sub_axis != y->sub_axis)
        return x->sub_axis < y->sub_axis ? -1 : 1;
    if (x->dim != y->dim)
        return x->dim < y->dim ? -1 : 1;
    return x->serial < y->serial ? -1 : x->serial > y->serial;
}

static void add_op_cost(sc_propagation *p, sc_op_id id, sc_cost *total)
{
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(p->m, sc_op_at(p->m, id), &factors);
    if (factors.count == 0)
        return;
    sc_assign(&p->assigner, id, &factors, &assignment);
    sc_cost cost = sc_assignment_cost(&p->assigner, id, &factors, &assignment);
    sc_cost_add(total, &cost);
}

/* Cost of the ops around a value with one more sub-axis on a dim. */
static sc_cost cost_with(sc_propagation *p, const proposal *offer)
{
    sc_placement kept = p->placing->at[offer->value];
    sc_cost total = {0};
    sc_placement_append(&p->placing->at[offer->value], offer->dim, offer->sub_axis);
    add_op_cost(p, sc_def(p->m, offer->value), &total);
    for (uint32_t u = p->user_begin[offer->value]; u < p->user_begin[offer->value + 1]; u++) {
        if (p->stage_of[p->users[u]] == p->stage)
            add_op_cost(p, p->users[u], &total);
    }
    p->placing->at[offer->value] = kept;
    return total;
}

/* Returns the cheapest of the proposals for one sub-axis of a value; the first of equals. */
static const proposal *choose(sc_propagation *p, const proposal *offers, uint32_t count)
{
    const proposal *best = &offers[0];
    bool priced = false;
    sc_cost best_cost = {0};
    for (uint32_t i = 1; i < count; i++) {
        if (offers[i].value != offers[0].value)
            break;
        if (offers[i].sub_axis != offers[0].sub_axis || offers[i].dim == best->dim ||
            !may_take(p, offers[i].value, offers[i].dim, offers[i].sub_axis))
            continue; /* an earlier proposal of this round may have made the dim indivisible */
        if (!priced)
            best_cost = cost_with(p, best);
        priced = true;
        sc_cost cost = cost_with(p, &offers[i]);
        if (sc_cost_compare(&cost, &best_cost) < 0) {
            best = &offers[i];
            best_cost = cost;
        }
    }
    return best;
}

static void apply(sc_propagation *p, proposal_list *offers)
{
    if (offers->count > 1)
        qsort(offers->data, offers->count, sizeof *offers->data, by_value);
    for (uint32_t i = 0; i < offers->count; i++) {
        const proposal *offer = &offers->data[i];
        if (!may_take(p, offer->value, offer->dim, offer->sub_axis))
            continue; /* set by an earlier proposal of this round */
        offer = choose(p, offer, offers->count - i);
        sc_placement_append(&p->placing->at[offer->value], offer->dim, offer->sub_axis);
        *sc_cause_of(p->placing, offer->value, offer->sub_axis) = offer->cause;
        sc_propagation_touch(p, offer->value);
    }
}

void sc_propagation_run(sc_propagation *p)
{
    proposal_list offers = {0};
    while (p->next.count > 0) {
        p->active.count = 0;
        for (uint32_t i = 0; i < p->next.count; i++) {
            *sc_vec_push(&p->m->context->arena, &p->active) = p->next.data[i];
            p->queued[p->next.data[i]] = false;
        }
        p->next.count = 0;
        offers.count = 0;
        for (uint32_t i = 0; i < p->active.count; i++)
            visit(p, p->active.data[i], &offers);
        apply(p, &offers);
    }
}

/* ---- locks ---- */

void sc_lock_sub_axis(sc_propagation *p, sc_op_id op, uint32_t sub_axis, sc_dim dim, uint32_t order)
{
    size_t slot = (size_t)op * p->placing->sub_axis_count + sub_axis;
    p->placing->locks[slot] = dim;
    p->placing->lock_orders[slot] = (uint8_t)order;
}

/* Locks the other sub-axes of the axes that the op uses: `if free` lines require the whole axis to
 * be free, for ops as for values. */
void sc_lock_out_rest(sc_propagation *p, sc_op_id op)
{
    const sc_mesh *mesh = &p->m->mesh;
    sc_dim *locks = &p->placing->locks[(size_t)op * p->placing->sub_axis_count];
    for (uint32_t x = 0; x < mesh->axis_count; x++) {
        const sc_axis *axis = &mesh->axes[x];
        bool used = false;
        for (uint32_t a = axis->first_sub_axis;
             a < (uint32_t)axis->first_sub_axis + axis->sub_axis_count; a++)
            used = used || locks[a] != SC_NONE;
        if (used) {
            for (uint32_t a = axis->first_sub_axis;
                 a < (uint32_t)axis->first_sub_axis + axis->sub_axis_count; a++)
                locks[a] = locks[a] == SC_NONE ? SC_LOCKED_OUT : locks[a];
        }
    }
}

/* ---- the outcome ---- */

void sc_propagation_finish(sc_propagation *p, sc_func_id func)
{
    sc_module *m = p->m;
    p->assigner.final = true;
    sc_for_each_op (m, func, op) {
        sc_factors factors;
        sc_assignment assignment;
        sc_op_factors(m, sc_op_at(m, op), &factors);
        bool anywhere =
            m->ops.data[op].result_count == 1 && sc_is_made_anywhere(m, sc_result(m, op, 0));
        if (factors.count > 0 && !anywhere) {
            sc_assign(&p->assigner, op, &factors, &assignment);
            sc_assignment_store(m, op, &factors, &assignment);
        }
        if ((sc_op_traits(sc_op_at(m, op)) & SC_STATE_READ) != 0) {
            uint32_t state = sc_module_find_state(m, sc_op_word(sc_op_at(m, op), SC_ATTR_name));
            if (state != SC_NONE)
                m->state.data[state].type = sc_type_with_placement(
                    m, m->state.data[state].type, &p->placing->at[sc_result(m, op, 0)]);
        }
    }
    sc_for_each_op (m, func, op) {
        for (uint32_t r = 0; r < m->ops.data[op].result_count; r++) {
            sc_value value = sc_result(m, op, r);
            m->values.data[value].type =
                sc_type_with_placement(m, m->values.data[value].type, &p->placing->at[value]);
        }
    }
}
