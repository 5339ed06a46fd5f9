/* defer-reductions: accumulates partial sums and reduces the total, instead of reducing each term.
 *
 *   %7 = dot[B] %x, %dy {split = [B@dp]} : f32[D, F]            f32[D, F]{sum:dp}
 *   %8 = use %7 {gradient = "w"}         : f32[D, F]      ->    f32[D, F]{sum:dp}
 *   state_write %8 {name = "w.grad"}                            state "w.grad": f32[D, F]{sum:dp}
 *
 * Gradients and objectives reach accumulators through linear ops. The accumulators stay partial
 * over the axes that do not split their storage: one reduction per step, for any number of
 * micro-batches. A sum is partial if any of its terms is; a term that is replicated is kept by one
 * rank of a group (`once`).
 *
 *   %7 = sum[B] %dx {split = [B@dp]}     : f32[S, D]             f32[S, D]{sum:dp}
 *   %8 = scatter_add %7, %positions      : f32[P, D]      ->     f32[P, D]{sum:dp}
 *
 * Other sums, such as those of a residual stream over tp, are reduced before an op makes them
 * larger. Sums over the axes that split the batch (the axes of the inputs) are reduced once per
 * step in any case, so they pass through every op that is linear in them.
 *
 *   %3 = attend_grad ..     : f32[B, T, E]          f32[B, T, E]{sum:tp}
 *   %4 = dot[E] %3, %wk     : f32[B, S, D]    ->    f32[B, S, D]{sum:tp}  added to %q, also partial
 *   %5 = dot[B, T] %x, %3   : f32[D, E]             f32[D, E]{sum:tp}     goes to an accumulator
 *
 * A sum is also passed on if all its uses are such terms, added to siblings that are reduced
 * anyway, and gradients, provided that reducing these once per step costs less than reducing the
 * sum in every micro-batch. Runs after propagation, before reshards are inserted; changes only
 * types. Four walks. */
#include <string.h>

#include "passes/assign.h"
#include "passes/pass.h"
#include "passes/uses.h"

typedef struct deferring {
    sc_module *m;
    sc_placing *placing;
    uint32_t *uses;           /* by value */
    uint32_t *lazy_uses;      /* by value: readers that pass a partial sum on to an accumulator */
    sc_sub_axis_set *partial; /* by value */
    sc_sub_axis_set batch;    /* the sub-axes that split inputs */
    uint32_t *batch_uses;     /* by value: like lazy_uses, for sums over the batch */
    bool *may_sum;            /* by value: it may become partial over the batch */
    sc_readers readers;
    sc_planner *planner;
    double micro_batches;
    sc_sub_axis_set *passed; /* by value: sub-axes over which it stays partial for its readers */
} deferring;

static uint32_t accumulator_of(const deferring *d, const sc_op *op)
{
    uint32_t state = sc_module_find_state(d->m, sc_op_word(op, SC_ATTR_name));
    bool sums = state != SC_NONE && (d->m->state.data[state].kind == SC_STATE_GRAD ||
                                     d->m->state.data[state].kind == SC_STATE_SUM);
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

/* True for casts of gradients, which round each rank's term. */
static bool is_rounding(const sc_op *op)
{
    return (sc_op_traits(op) & SC_CONVERTS) != 0 && sc_op_attr(op, SC_ATTR_gradient) != NULL;
}

/* Returns the operands through which a partial sum passes the op, one bit each. */
static uint32_t passing_operands(const deferring *d, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op);
    if (op->result_count != 1 || (traits & SC_SPREADS) != 0) /* reduced before it grows */
        return 0;
    if ((traits & SC_LINEAR) != 0 || is_rounding(op))
        return (1u << op->operand_count) - 1;
    if ((traits & SC_LINEAR_FIRST) != 0)
        return op->operand_count < 2 || sc_type_of(d->m, op->operands[1])->rank == 0 ? 1 : 0;
    if ((traits & SC_BILINEAR) == 0 || op->operands[0] == op->operands[1])
        return 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (sc_type_of(d->m, op->operands[1 - i])->rank == 0)
            return 1u << i;
    }
    return 0;
}

/* The same for sums over the batch: operands in which the op is linear while the others are
 * replicated. */
static uint32_t passing_batch(const deferring *d, const sc_op *op)
{
    uint32_t traits = sc_op_traits(op), passing = passing_operands(d, op);
    if (op->result_count != 1 || (traits & SC_SPREADS) != 0)
        return 0;
    for (uint32_t i = 0; i < 2 && i < op->operand_count; i++) {
        bool is_linear = (traits & SC_BILINEAR) != 0 || ((traits & SC_LINEAR_FIRST) != 0 && i == 0),
             alone = true;
        for (uint32_t other = 0; other < op->operand_count; other++)
            alone = alone && (other == i || (!d->may_sum[op->operands[other]] &&
                                             op->operands[other] != op->operands[i]));
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

static void set_partial(deferring *d, sc_type *type, sc_sub_axis_set partial)
{
    const sc_placement at =
        sc_placement_with(&d->m->types.data[*type].placement, partial, SC_PARTIAL_SUM);
    *type = sc_type_with_placement(d->m, *type, &at);
}

static sc_sub_axis_set splits_of_results(const sc_module *m, sc_op_id id)
{
    sc_sub_axis_set set = 0;
    for (uint32_t r = 0; r < sc_op_at(m, id)->result_count; r++)
        set |= sc_placement_split(&sc_type_of(m, sc_result(m, id, r))->placement);
    return set;
}

/* Finds values that sum over the batch axes, and values derived from them. */
static void find_sums(deferring *d, sc_func_id func)
{
    sc_module *m = d->m;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        if ((sc_op_traits(op) & SC_FROM_OUTSIDE) != 0)
            d->batch |= splits_of_results(m, id);
        if (sc_op_functions[op->kind].roles == NULL ||
            (sc_op_traits(op) & (SC_CONSTANT | SC_STATE_READ | SC_EFFECT)) != 0)
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
            d->may_sum[sc_result(m, id, r)] =
                sums || (sc_placement_partial(&made, SC_PARTIAL_SUM) & d->batch) != 0;
        }
    }
}

/* Returns the sub-axes over which a result is partial, from the op's own splits and from its
 * operands. */
static sc_sub_axis_set partial_result(const deferring *d, sc_op_id id, uint32_t result)
{
    sc_module *m = d->m;
    sc_factors factors;
    sc_assignment assignment;
    sc_op_factors(m, sc_op_at(m, id), &factors);
    sc_assignment_load(m, id, &factors, &assignment);
    const sc_op *op = sc_op_at(m, id);
    sc_placement made = sc_assigned_result(m, &factors, &assignment, op, result);
    sc_sub_axis_set own = sc_placement_partial(&made, SC_PARTIAL_SUM),
                    taken = sc_placement_split(&made), brought = 0;
    uint32_t passing = passing_operands(d, op), batch = passing_batch(d, op);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        /* partial like the value added to it */
        bool is_sum = (sc_op_traits(sc_op_at(m, sc_def(m, op->operands[i]))) & SC_STATE_READ) != 0;
        sc_sub_axis_set passed = (passing >> i & 1) != 0 ? ~(sc_sub_axis_set)0
                                 : (batch >> i & 1) != 0 ? d->batch
                                                         : 0;
        passed |= d->passed[op->operands[i]];
        brought |= is_sum ? 0 : d->partial[op->operands[i]] & passed;
    }
    for (uint32_t f = 0; f < factors.count; f++) {
        for (uint32_t i = 0; i < assignment.split[f].count; i++)
            brought &= ~((sc_sub_axis_set)1 << assignment.split[f].sub_axes[i]);
    }
    return (own | brought) & ~taken;
}

/* Records why a value is partial: the line that splits the dim summed over, or the cause of its
 * operand. */
static void note_causes(deferring *d, sc_op_id id, uint32_t result)
{
    sc_module *m = d->m;
    sc_factors factors;
    const sc_op *op = sc_op_at(m, id);
    sc_value value = sc_result(m, id, result);
    sc_op_factors(m, op, &factors);
    for (uint32_t a = 0; a < d->placing->sub_axis_count; a++) {
        sc_cause *cause = sc_cause_of(d->placing, value, a);
        if ((d->partial[value] >> a & 1) == 0)
            continue;
        for (uint32_t o = 0; o < op->operand_count; o++) {
            const sc_cause *source = sc_cause_of(d->placing, op->operands[o], a);
            bool brings = (d->partial[op->operands[o]] >> a & 1) != 0;
            for (uint32_t f = 0; f < factors.count && !brings; f++)
                brings = factors.list[f].operand[o] >= 0 && factors.list[f].result[result] < 0 &&
                         sc_type_of(m, op->operands[o])->placement.on[a] ==
                             (uint8_t)factors.list[f].operand[o];
            if (brings && source->rule != SC_NONE) {
                *cause = (sc_cause){source->rule, id, op->operands[o]};
                break;
            }
        }
    }
}

/* ---- sums that come to siblings and accumulators only ---- */

enum { MAX_PASSED = 32, MAX_WAY = 4 }; /* values derived from a sum; length of a chain of ops */

typedef struct passage {
    sc_sub_axis_set sub_axes;
    sc_value source;
    double price; /* cost of reducing accumulators that become partial over these sub-axes */
    uint32_t count;
    sc_value values[MAX_PASSED];
    sc_sub_axis_set partial[MAX_PASSED];
} passage;

/* Returns the sub-axes over which the op's own splits leave the result partial, and whether they
 * use any of `sub_axes`. */
static sc_sub_axis_set own_sums(const deferring *d, sc_op_id id, uint32_t result,
                                sc_sub_axis_set sub_axes, bool *uses)
{
    sc_factors factors;
    sc_assignment assignment;
    const sc_op *op = sc_op_at(d->m, id);
    sc_op_factors(d->m, op, &factors);
    sc_assignment_load(d->m, id, &factors, &assignment);
    *uses = false;
    for (uint32_t f = 0; f < factors.count; f++) {
        for (uint32_t i = 0; i < assignment.split[f].count; i++)
            *uses = *uses || (sub_axes >> assignment.split[f].sub_axes[i] & 1) != 0;
    }
    const sc_placement made = sc_assigned_result(d->m, &factors, &assignment, op, result);
    return sc_placement_partial(&made, SC_PARTIAL_SUM);
}

/* True if a term of a sum is itself partial over the sub-axes: a sibling that is reduced over them
 * anyway. */
static bool has_partial_term(const deferring *d, sc_value value, sc_sub_axis_set sub_axes,
                             uint32_t depth)
{
    sc_op_id id = sc_def(d->m, value);
    const sc_op *op = sc_op_at(d->m, id);
    bool ignored,
        adds = (sc_op_traits(op) & (SC_LINEAR | SC_COMMUTES)) == (SC_LINEAR | SC_COMMUTES);
    if (d->uses[value] != 1 || op->result_count != 1 || depth == 0 ||
        sc_op_functions[op->kind].roles == NULL)
        return false;
    if ((sc_op_traits(op) & SC_VIEW) != 0 || adds) {
        bool any = has_partial_term(d, op->operands[0], sub_axes, depth - 1);
        return any || (adds && has_partial_term(d, op->operands[1], sub_axes, depth - 1));
    }
    return (own_sums(d, id, 0, 0, &ignored) & sub_axes) == sub_axes;
}

/* True if the value is added, perhaps after other additions, to such a term. */
static bool has_sibling(const deferring *d, sc_value value, sc_sub_axis_set sub_axes)
{
    for (uint32_t way = 0; way < MAX_WAY && d->uses[value] == 1; way++) {
        const sc_op *op = sc_op_at(d->m, d->readers.list[d->readers.first[value]]);
        uint32_t traits = sc_op_traits(op);
        if ((traits & SC_LINEAR) == 0 || op->result_count != 1 ||
            sc_op_attr(op, SC_ATTR_gradient) != NULL)
            return false;
        if ((traits & SC_COMMUTES) != 0 && op->operands[0] != op->operands[1] &&
            has_partial_term(d, op->operands[op->operands[0] == value], sub_axes, MAX_WAY))
            return true;
        if ((traits & SC_COMMUTES) == 0 && (traits & SC_VIEW) == 0)
            return false;
        value = op->first_result;
    }
    return false;
}

static double bytes_to_reduce(const deferring *d, sc_value value, sc_sub_axis_set partial)
{
    sc_type home = d->m->values.data[value].type;
    const sc_placement at = d->m->types.data[home].placement,
                       raw = sc_placement_with(&at, partial, SC_PARTIAL_SUM);
    return sc_reshard_find(d->planner, sc_type_with_placement(d->m, home, &raw), &at)->cost.bytes;
}

static bool is_on(const passage *way, sc_value value)
{
    for (uint32_t i = 0; i < way->count; i++) {
        if (way->values[i] == value)
            return true;
    }
    return false;
}

static bool pass(const deferring *d, passage *way, sc_value value, sc_sub_axis_set partial,
                 uint32_t depth);

/* Checks one reader of the sum and follows its result. */
static bool pass_through(const deferring *d, passage *way, sc_op_id reader, sc_value value,
                         uint32_t depth)
{
    const sc_op *op = sc_op_at(d->m, reader);
    uint32_t traits = sc_op_traits(op);
    bool splits,
        is_view = (traits & SC_LINEAR) != 0 && op->operand_count == 1 && (traits & SC_SPREADS) == 0,
        is_first = (traits & SC_LINEAR_FIRST) != 0 && op->operands[0] == value,
        is_one = (traits & SC_BILINEAR) != 0 && op->operands[0] != op->operands[1];
    if (op->result_count != 1 || sc_op_attr(op, SC_ATTR_gradient) != NULL ||
        sc_op_attr(op, SC_ATTR_unit) != NULL || (!is_view && !is_first && !is_one))
        return false;
    for (uint32_t i = 0; i < op->operand_count; i++) { /* not a matmul of two partial sums */
        sc_value other = op->operands[i];
        if (other != value && (d->passed[other] != 0 || is_lazy(d, other) ||
                               is_batch_lazy(d, other) || is_on(way, other)))
            return false;
    }
    sc_value result = op->first_result;
    sc_sub_axis_set own = own_sums(d, reader, 0, way->sub_axes, &splits);
    if (splits)
        return false;
    if (is_lazy(d, result)) {
        way->price +=
            bytes_to_reduce(d, result, own | way->sub_axes) - bytes_to_reduce(d, result, own);
        return true;
    }
    if (has_sibling(d, result, own | way->sub_axes)) {
        if (way->count == MAX_PASSED)
            return false;
        way->partial[way->count] = own | way->sub_axes;
        way->values[way->count++] = result;
        return true;
    }
    return !is_one && own == 0 && depth > 0 && pass(d, way, result, way->sub_axes, depth - 1);
}

static bool pass(const deferring *d, passage *way, sc_value value, sc_sub_axis_set partial,
                 uint32_t depth)
{
    if (way->count == MAX_PASSED || d->uses[value] == 0 ||
        (sc_placement_split(&sc_type_of(d->m, value)->placement) & partial) != 0)
        return false;
    way->partial[way->count] = partial;
    way->values[way->count++] = value;
    for (uint32_t i = d->readers.first[value]; i < d->readers.first[value + 1]; i++) {
        if (!pass_through(d, way, d->readers.list[i], value, depth))
            return false;
    }
    return true;
}

/* Finds gradients' sums that are cheaper to reduce after their readers. */
static void find_passages(deferring *d, sc_func_id func)
{
    sc_module *m = d->m;
    sc_for_each_op (m, func, id) {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_is_forward(m, op) || sc_op_functions[op->kind].roles == NULL ||
            (sc_op_traits(op) & (SC_CONSTANT | SC_STATE_READ | SC_EFFECT)) != 0)
            continue;
        for (uint32_t r = 0; r < op->result_count; r++) {
            bool ignored;
            sc_value value = op->first_result + r;
            passage way = {.source = value, .sub_axes = own_sums(d, id, r, 0, &ignored)};
            if ((way.sub_axes & ~(is_batch_lazy(d, value) ? d->batch : 0)) == 0 ||
                !pass(d, &way, value, way.sub_axes, MAX_WAY) ||
                way.price >= d->micro_batches * bytes_to_reduce(d, value, way.sub_axes))
                continue;
            for (uint32_t i = 0; i < way.count; i++)
                d->passed[way.values[i]] |= way.partial[i];
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
            set_partial(d, &state->type, d->partial[op->operands[0]]);
            m->values.data[op->operands[0]].type = state->type;
            continue;
        }
        if ((sc_op_traits(op) & SC_STATE_READ) != 0)
            continue;
        for (uint32_t r = 0; r < op->result_count; r++) {
            sc_value value = sc_result(m, id, r);
            sc_sub_axis_set may = op->result_count == 1 && is_lazy(d, value) ? ~(sc_sub_axis_set)0
                                  : is_batch_lazy(d, value)                  ? d->batch
                                                                             : 0;
            if ((may | d->passed[value]) == 0)
                continue;
            const sc_placement at = sc_type_of(m, value)->placement;
            d->partial[value] =
                partial_result(d, id, r) & ((may & ~sc_placement_split(&at)) | d->passed[value]);
            set_partial(d, &m->values.data[value].type, d->partial[value]);
            note_causes(d, id, r);
        }
    }
    sc_for_each_op (m, func, id) { /* sums found so far have the placement of their storage */
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
    d.partial = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.partial);
    d.batch_uses = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.batch_uses);
    d.may_sum = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.may_sum);
    d.passed = sc_arena_array(&m->context->arena, m->values.count, sizeof *d.passed);
    d.readers = sc_find_readers(m);
    d.planner = env->planner;
    d.micro_batches = (double)env->step->training->micro_batches;
    find_sums(&d, env->step->micro);
    mark_lazy(&d, env->step->micro);
    find_passages(&d, env->step->micro);
    defer(&d, env->step->micro);
    return true;
}
