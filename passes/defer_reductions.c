/* defer-reductions: what is only summed up is summed up before it is reduced.
 *
 *   %7 = dot[B] %x, %dy {split = [B@dp]} : f32[D, F]            f32[D, F]{sum:dp}
 *   %8 = use %7 {gradient = "w"}         : f32[D, F]      ->    f32[D, F]{sum:dp}
 *   state_write %8 {name = "w.grad"}                            state "w.grad": f32[D, F]{sum:dp}
 *
 * Gradients and objectives go through linear ops into accumulators. There they stay pending over the axes that their storage does not
 * split: one reduction a step, however many micro-batches. A sum of terms is pending where any of them is: of a term that is whole there
 * one rank of a group keeps the value (`once`).
 *
 *   %7 = sum[B] %dx {split = [B@dp]}     : f32[S, D]             f32[S, D]{sum:dp}
 *   %8 = scatter_add %7, %positions      : f32[P, D]      ->     f32[P, D]{sum:dp}
 *
 * Other sums, a residual stream's over tp, are reduced before they grow. Those over what splits the batch (the axes of the inputs) are
 * reduced once a step whatever stands between, so they pass every op that is linear in them. After propagation, before reshards are
 * inserted; touches only types. Three walks.
 */
#include <string.h>

#include "passes/assign.h"
#include "passes/pass.h"
#include "passes/uses.h"

typedef struct deferring {
    sc_module *m;
    sc_placing *placing;
    uint32_t *uses;       /* by value */
    uint32_t *lazy_uses;  /* by value: readers that pass a pending sum on to an accumulator */
    sc_atom_set *pending; /* by value */
    sc_atom_set batch;    /* the atoms that split inputs */
    uint32_t *batch_uses; /* by value: as lazy_uses, of sums over the batch */
    bool *may_sum;        /* by value: it may come to be pending over the batch */
} deferring;

static uint32_t accumulator_of(const deferring *d, const sc_op *op)
{
    uint32_t state = sc_module_find_state(d->m, sc_op_word(op, SC_ATTR_name));
    bool sums = state != SC_NONE && (d->m->state.data[state].kind == SC_STATE_GRAD || d->m->state.data[state].kind == SC_STATE_SUM);
    return sums ? state : SC_NONE;
}

static bool is_lazy(const deferring *d, sc_value value)
{
    return d->uses[value] > 0 && d->lazy_uses[value] == d->uses[value];
}

static bool is_batch_lazy(const deferring *d, sc_value value)
{
    return d->uses[value] > 0 && d->batch_uses[value] == d->uses[value];
}

/* The cast of a gradient rounds what each rank has. */
static bool is_rounding(const sc_op *op)
{
    return (sc_op_traits(op) & SC_CONVERTS) != 0 && sc_op_attr(op, SC_ATTR_gradient) != NULL;
}

/* The operands through which a pending sum passes the op: a bit each. */
static uint32_t passing_operands(const deferring *d, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op);
    if (op->result_count != 1 || (traits & SC_SPREADS) != 0) /* what grows is reduced before */
        return 0;
    if ((traits & SC_LINEAR) != 0 || is_rounding(op))
        return (1u << op->operand_count) - 1;
    if ((traits & SC_LINEAR_FIRST) != 0)
        return sc_type_of(d->m, op->operands[1])->rank == 0 ? 1 : 0;
    for (uint32_t i = 0; (traits & SC_BILINEAR) != 0 && i < 2; i++) {
        if (sc_type_of(d->m, op->operands[1 - i])->rank == 0 && op->operands[0] != op->operands[1])
            return 1u << i;
    }
    return 0;
}

/* Likewise of a sum over the batch: what the op is linear in, while the others are whole. */
static uint32_t passing_batch(const deferring *d, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op), passing = passing_operands(d, op);
    if (op->result_count != 1 || (traits & SC_SPREADS) != 0)
        return 0;
    for (uint32_t i = 0; i < 2 && i < op->operand_count; i++) {
        bool is_linear = (traits & SC_BILINEAR) != 0 || ((traits & SC_LINEAR_FIRST) != 0 && i == 0), alone = true;
        for (uint32_t other = 0; other < op->operand_count; other++)
            alone = alone && (other == i || (!d->may_sum[op->operands[other]] && op->operands[other] != op->operands[i]));
        passing |= is_linear && alone ? 1u << i : 0;
    }
    return passing;
}

static void mark_lazy(deferring *d, sc_func_id func)
{
    sc_for_each_op_reverse (d->m, func, id) {
        const sc_op *op = sc_op_at(d->m, id);
        uint32_t passing = 0, batch = 0;
        if ((sc_op_traits(op) & SC_STATE_WRITE) != 0) {
            passing = batch = accumulator_of(d, op) != SC_NONE;
        } else if (op->result_count == 1) {
            passing = is_lazy(d, op->first_result) ? passing_operands(d, op) : 0;
            batch = is_batch_lazy(d, op->first_result) ? passing_batch(d, op) : 0;
        }
        for (uint32_t i = 0; i < op->operand_count; i++) {
            d->lazy_uses[op->operands[i]] += passing >> i & 1;
            d->batch_uses[op->operands[i]] += batch >> i & 1;
        }
    }
}

static void set_pending(deferring *d, sc_type *type, sc_atom_set pending)
{
    sc_placement at = d->m->types.data[*type].placement;
    for (uint32_t a = 0; a < d->m->mesh.atom_count; a++)
        at.on[a] = (pending >> a & 1) != 0 ? SC_PARTIAL_SUM : at.on[a];
    *type = sc_type_with_placement(d->m, *type, &at);
}

/* Values that sum over what splits the batch, and what comes of them. */
static void find_sums(deferring *d, sc_func_id func)
{
    sc_module *m = d->m;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        for (uint32_t r = 0; (sc_op_traits(op) & SC_FROM_OUTSIDE) != 0 && r < op->result_count; r++)
            d->batch |= sc_placement_split(&sc_type_of(m, sc_result(m, id, r))->placement);
        if (sc_ops[op->kind].roles == NULL || (sc_op_traits(op) & (SC_CONSTANT | SC_STATE_READ | SC_EFFECT)) != 0)
            continue;
        sc_factors factors;
        sc_assignment assignment;
        sc_op_factors(m, op, &factors);
        sc_assignment_load(m, id, &factors, &assignment);
        bool sums = false;
        for (uint32_t i = 0; i < op->operand_count; i++)
            sums = sums || d->may_sum[op->operands[i]];
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_placement made = sc_assigned_result(m, &factors, &assignment, op, r);
            d->may_sum[sc_result(m, id, r)] = sums || (sc_placement_partial(&made, SC_PARTIAL_SUM) & d->batch) != 0;
        }
    }
}

/* What the op's own splits leave pending in a result, and what its operands bring. */
static sc_atom_set pending_result(const deferring *d, sc_op_id id, uint32_t result)
{
    sc_module *m = d->m;
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(m, sc_op_at(m, id), &factors);
    sc_assignment_load(m, id, &factors, &assignment);
    const sc_op *op = sc_op_at(m, id);
    sc_placement made = sc_assigned_result(m, &factors, &assignment, op, result);
    sc_atom_set own = sc_placement_partial(&made, SC_PARTIAL_SUM), taken = sc_placement_split(&made), brought = 0;
    uint32_t passing = passing_operands(d, op), batch = passing_batch(d, op);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        bool is_sum = (sc_op_traits(sc_op_at(m, sc_def(m, op->operands[i]))) & SC_STATE_READ) != 0; /* pending as what is added to it */
        sc_atom_set passed = (passing >> i & 1) != 0 ? ~(sc_atom_set)0 : (batch >> i & 1) != 0 ? d->batch : 0;
        brought |= is_sum ? 0 : d->pending[op->operands[i]] & passed;
    }
    for (uint32_t f = 0; f < factors.count; f++) {
        for (uint32_t i = 0; i < assignment.split[f].count; i++)
            brought &= ~((sc_atom_set)1 << assignment.split[f].atoms[i]);
    }
    return (own | brought) & ~taken;
}

/* Why a value is pending: the line that splits what was summed, or what its operand had. */
static void note_causes(deferring *d, sc_op_id id, uint32_t result)
{
    sc_module *m = d->m;
    sc_factors factors;
    const sc_op *op = sc_op_at(m, id);
    sc_value value = sc_result(m, id, result);
    sc_op_factors(m, op, &factors);
    for (uint32_t a = 0; a < d->placing->atom_count; a++) {
        sc_cause *cause = sc_cause_of(d->placing, value, a);
        if ((d->pending[value] >> a & 1) == 0)
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++) {
            const sc_cause *source = sc_cause_of(d->placing, op->operands[o], a);
            bool brings = (d->pending[op->operands[o]] >> a & 1) != 0;
            for (uint32_t f = 0; f < factors.count && !brings; f++)
                brings = factors.list[f].operand[o] >= 0 && factors.list[f].result[result] < 0 &&
                         sc_type_of(m, op->operands[o])->placement.on[a] == (uint8_t)factors.list[f].operand[o];
            if (brings && source->rule != SC_NONE) {
                *cause = (sc_cause){source->rule, id, op->operands[o]};
                break;
            }
        }
    }
}

static void defer(deferring *d, sc_func_id func)
{
    sc_module *m = d->m;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & SC_STATE_WRITE) != 0 && accumulator_of(d, op) != SC_NONE) {
            sc_state *state = &m->state.data[accumulator_of(d, op)];
            set_pending(d, &state->type, d->pending[op->operands[0]]);
            m->values.data[op->operands[0]].type = state->type;
            continue;
        }
        for (uint32_t r = 0; r < op->result_count && (sc_op_traits(op) & SC_STATE_READ) == 0; r++) {
            sc_value value = sc_result(m, id, r);
            sc_atom_set may = op->result_count == 1 && is_lazy(d, value) ? ~(sc_atom_set)0 : is_batch_lazy(d, value) ? d->batch : 0;
            if (may == 0)
                continue;
            const sc_placement at = sc_type_of(m, value)->placement;
            d->pending[value] = pending_result(d, id, r) & may & ~sc_placement_split(&at);
            set_pending(d, &m->values.data[value].type, d->pending[value]);
            note_causes(d, id, r);
        }
    }
    sc_for_each_op (m, func, id) { /* the sums so far stand as they are stored */
        const sc_op *op = sc_op_at(m, id);
        uint32_t state = (sc_op_traits(op) & SC_STATE_READ) == 0 ? SC_NONE : accumulator_of(d, op);
        if (state != SC_NONE)
            m->values.data[op->first_result].type = m->state.data[state].type;
    }
}

bool sc_run_defer_reductions(sc_module *m, sc_pass_env *env)
{
    if (env->step == NULL)
        return true;
    deferring d = {.m = m, .placing = env->placing, .uses = sc_count_uses(m)};
    d.lazy_uses = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.lazy_uses);
    d.pending = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.pending);
    d.batch_uses = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.batch_uses);
    d.may_sum = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.may_sum);
    find_sums(&d, env->step->micro);
    mark_lazy(&d, env->step->micro);
    defer(&d, env->step->micro);
    return true;
}
