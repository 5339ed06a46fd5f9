/* Chooses how an op is computed.
 *
 * The candidates for a sub-axis are the factors on which some operand or result already has it. A
 * single candidate is taken. Otherwise every combination is priced (resharding every operand to
 * what the op then needs and every result to its placement) and the cheapest wins. Ties go to the
 * first in factor order, so the result depends on no other order. */
#include "passes/assign.h"

#include <math.h>
#include <string.h>

enum { MAX_COMBINATIONS = 256 };

typedef struct candidates {
    uint32_t count;
    uint8_t factor[SC_MAX_FACTORS];
} candidates;

static const sc_placement *placement_of(const sc_assigner *assigner, sc_value value)
{
    return &assigner->placing->at[value];
}

static bool can_split(const sc_factor *factor)
{
    return factor->role != SC_ROLE_WHOLE;
}

static uint32_t value_count(const sc_op *op)
{
    return op->operand_count + op->result_count;
}

/* Value v of an op (operands, then results), and the index of a factor's dim in it (-1: none). */
static sc_value value_at(const sc_op *op, uint32_t v)
{
    return v < op->operand_count ? op->operands[v] : op->first_result + (v - op->operand_count);
}

static int dim_at(const sc_op *op, const sc_factor *factor, uint32_t v)
{
    return v < op->operand_count ? factor->operand[v] : factor->result[v - op->operand_count];
}

/* True if every dim of the factor divides by this number of shards. */
static bool factor_divides(const sc_module *m, const sc_op *op, const sc_factor *factor,
                           uint64_t shards)
{
    for (uint32_t v = 0; v < value_count(op); v++) {
        int dim = dim_at(op, factor, v);
        if (dim < 0)
            continue;
        const sc_type_dim *d = &sc_type_of(m, value_at(op, v))->dims[dim];
        if (!sc_dim_divides(m, d->dim, d->size, shards))
            return false;
    }
    return true;
}

static void find_candidates(const sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                            uint32_t sub_axis, candidates *out)
{
    const sc_op *op = sc_op_at(assigner->m, id);
    out->count = 0;
    sc_dim lock =
        id < assigner->placing->op_count
            ? assigner->placing->locks[(size_t)id * assigner->placing->sub_axis_count + sub_axis]
            : SC_NONE;
    if (lock != SC_LOCKED_OUT) {
        for (uint32_t f = 0; f < factors->count; f++) {
            const sc_factor *factor = &factors->list[f];
            if (!can_split(factor))
                continue;
            if (lock == factor->dim) {
                out->factor[0] = (uint8_t)f;
                out->count = 1;
                return;
            }
            for (uint32_t v = 0; v < value_count(op); v++) {
                int dim = dim_at(op, factor, v);
                if (dim >= 0 && placement_of(assigner, value_at(op, v))->on[sub_axis] == dim) {
                    out->factor[out->count++] = (uint8_t)f;
                    break;
                }
            }
        }
    }
}

/* The sub-axes of `set` in the order in which the value's dim has them, then the others in mesh
 * order. */
static sc_sub_axis_list ordered_as(const sc_placement *at, int dim, sc_sub_axis_set set)
{
    sc_sub_axis_list own = sc_placement_dim(at, (uint32_t)dim), list = {0};
    for (uint32_t i = 0; i < own.count; i++) {
        if ((set >> own.sub_axes[i] & 1) != 0) {
            list.sub_axes[list.count++] = own.sub_axes[i];
            set &= ~((sc_sub_axis_set)1 << own.sub_axes[i]);
        }
    }
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        if ((set >> a & 1) != 0)
            list.sub_axes[list.count++] = (uint8_t)a;
    }
    return list;
}

/* Drops sub-axes, minor ones first, until the size divides. */
static void drop_indivisible(const sc_module *m, const sc_op *op, const sc_factor *factor,
                             sc_sub_axis_list *list)
{
    while (list->count > 0 && !factor_divides(m, op, factor, sc_sub_axis_list_size(&m->mesh, list)))
        list->count--;
}

static void set_lists(sc_placement *at, int dim, const sc_sub_axis_list *list)
{
    if (dim >= 0 && list->count > 0)
        sc_placement_set_dim(at, (uint32_t)dim, list);
}

sc_placement sc_assigned_operand(const sc_module *m, const sc_factors *factors,
                                 const sc_assignment *assignment, const sc_op *op, uint32_t operand)
{
    (void)m;
    (void)op;
    sc_placement at = sc_placement_replicated();
    for (uint32_t f = 0; f < factors->count; f++)
        set_lists(&at, factors->list[f].operand[operand], &assignment->split[f]);
    return at;
}

static uint8_t partial_kind(sc_role role)
{
    return role == SC_ROLE_SUMS    ? SC_PARTIAL_SUM
           : role == SC_ROLE_MAXES ? SC_PARTIAL_MAX
           : role == SC_ROLE_MINS  ? SC_PARTIAL_MIN
                                   : 0;
}

sc_placement sc_assigned_result(const sc_module *m, const sc_factors *factors,
                                const sc_assignment *assignment, const sc_op *op, uint32_t result)
{
    (void)m;
    (void)op;
    sc_placement at = sc_placement_replicated();
    for (uint32_t f = 0; f < factors->count; f++) {
        const sc_factor *factor = &factors->list[f];
        uint8_t kind = partial_kind(factor->role);
        set_lists(&at, factor->result[result], &assignment->split[f]);
        if (kind != 0 && factor->result[result] < 0) {
            for (uint32_t i = 0; i < assignment->split[f].count; i++)
                at.on[assignment->split[f].sub_axes[i]] = kind;
        }
    }
    return at;
}

/* Returns the placement to price a value with: as decided, and as the op wants it on undecided
 * sub-axes. */
static sc_placement adopt(const sc_assigner *assigner, sc_value value, const sc_placement *wanted)
{
    sc_placement at = *placement_of(assigner, value);
    if (assigner->final || value >= assigner->placing->value_count)
        return at;
    sc_sub_axis_set open = ~assigner->placing->closed[value];
    const sc_type_info *type = sc_type_of(assigner->m, value);
    for (uint32_t d = 0; d < type->rank; d++) {
        const sc_sub_axis_list list = sc_placement_dim(wanted, d);
        for (uint32_t i = 0; i < list.count; i++) {
            if (at.on[list.sub_axes[i]] == SC_ON_NOTHING && (open >> list.sub_axes[i] & 1) != 0)
                sc_placement_append(&at, d, list.sub_axes[i]);
        }
    }
    return at;
}

static sc_cost move_cost(sc_assigner *assigner, sc_value value, const sc_placement *from,
                         const sc_placement *to)
{
    if (sc_placement_equal(from, to))
        return (sc_cost){0};
    sc_type type = sc_type_with_placement(assigner->m, assigner->m->values.data[value].type, from);
    return sc_reshard_find(assigner->planner, type, to)->cost;
}

/* A sharded form reduces a tensor of the result's shape twice. */
static sc_cost form_cost(const sc_assigner *assigner, const sc_op *op, const sc_placement *result,
                         const sc_sub_axis_list *split)
{
    sc_type_info type = *sc_type_of(assigner->m, op->first_result);
    type.placement = *result;
    type.dtype = type.dtype == SC_DTYPE_f64 ? SC_DTYPE_f64 : SC_DTYPE_f32;
    double bytes = (double)sc_type_local_bytes(assigner->m, &type);
    return (sc_cost){
        .bytes = 3 * sc_sent_bytes(SC_OP_all_reduce, bytes,
                                   (double)sc_sub_axis_list_size(&assigner->m->mesh, split)),
        .calls = 2};
}

sc_cost sc_assignment_cost(sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                           const sc_assignment *assignment)
{
    sc_cost total = {0};
    const sc_op *op = sc_op_at(assigner->m, id);
    for (uint32_t o = 0; o < op->operand_count; o++) {
        sc_value value = op->operands[o];
        if (sc_is_made_anywhere(assigner->m, value))
            continue;
        sc_placement needed = sc_assigned_operand(assigner->m, factors, assignment, op, o),
                     at = adopt(assigner, value, &needed);
        sc_cost cost = move_cost(assigner, value, &at, &needed);
        sc_cost_add(&total, &cost);
    }
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_placement made = sc_assigned_result(assigner->m, factors, assignment, op, r),
                     at = adopt(assigner, op->first_result + r, &made);
        sc_cost cost = move_cost(assigner, op->first_result + r, &made, &at);
        sc_cost_add(&total, &cost);
    }
    for (uint32_t f = 0; f < factors->count; f++) {
        if (factors->list[f].role != SC_ROLE_FORM || assignment->split[f].count == 0)
            continue;
        sc_placement result = sc_assigned_result(assigner->m, factors, assignment, op, 0);
        sc_cost cost = form_cost(assigner, op, &result, &assignment->split[f]);
        sc_cost_add(&total, &cost);
    }
    return total;
}

/* The order of a factor's sub-axes in value v; false if v does not split the factor. */
static bool order_in_value(const sc_assigner *assigner, const sc_op *op, const sc_factor *factor,
                           uint32_t v, sc_sub_axis_set set, sc_sub_axis_list *list)
{
    int dim = dim_at(op, factor, v);
    const sc_placement *at = placement_of(assigner, value_at(op, v));
    if (dim < 0 || sc_placement_dim(at, (uint32_t)dim).count == 0)
        return false;
    *list = ordered_as(at, dim, set);
    drop_indivisible(assigner->m, op, factor, list);
    return true;
}

/* The order in which the op's locks were set; mesh order where that is unknown. */
static sc_sub_axis_list order_in_locks(const sc_assigner *assigner, sc_op_id id,
                                       sc_sub_axis_set set)
{
    sc_sub_axis_list list = {0};
    const sc_placing *placing = assigner->placing;
    const uint8_t *orders =
        id < placing->op_count ? placing->lock_orders + (size_t)id * placing->sub_axis_count : NULL;
    for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++) {
        uint32_t at = list.count;
        if ((set >> a & 1) == 0)
            continue;
        list.count++;
        if (orders != NULL) {
            for (; at > 0 && orders[list.sub_axes[at - 1]] > orders[a]; at--)
                list.sub_axes[at] = list.sub_axes[at - 1];
        }
        list.sub_axes[at] = (uint8_t)a;
    }
    return list;
}

/* Orders the sub-axes of each factor as in the first value that splits it, or else as they were
 * locked. */
static void first_order(const sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                        const sc_sub_axis_set *sets, sc_assignment *out)
{
    const sc_op *op = sc_op_at(assigner->m, id);
    memset(out, 0, sizeof *out);
    for (uint32_t f = 0; f < factors->count; f++) {
        bool found = sets[f] == 0;
        for (uint32_t v = 0; v < value_count(op) && !found; v++)
            found = order_in_value(assigner, op, &factors->list[f], v, sets[f], &out->split[f]);
        if (!found) {
            out->split[f] = order_in_locks(assigner, id, sets[f]);
            drop_indivisible(assigner->m, op, &factors->list[f], &out->split[f]);
        }
    }
}

/* If values order a factor's sub-axes differently, takes the cheapest order. */
static void best_order(sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                       const sc_sub_axis_set *sets, sc_assignment *out)
{
    const sc_op op = *sc_op_at(assigner->m, id);
    for (uint32_t f = 0; f < factors->count; f++) {
        for (uint32_t v = 0; out->split[f].count > 1 && v < value_count(&op); v++) {
            sc_assignment other = *out;
            if (!order_in_value(assigner, &op, &factors->list[f], v, sets[f], &other.split[f]) ||
                sc_sub_axis_list_equal(&other.split[f], &out->split[f]))
                continue;
            sc_cost now = sc_assignment_cost(assigner, id, factors, out),
                    then = sc_assignment_cost(assigner, id, factors, &other);
            if (sc_cost_compare(&then, &now) < 0)
                *out = other;
        }
    }
}

static void combine(sc_assigner *assigner, sc_op_id id, const sc_factors *factors,
                    const candidates *wanted, const uint32_t *choice, sc_assignment *out)
{
    sc_sub_axis_set sets[SC_MAX_FACTORS] = {0};
    for (uint32_t a = 0; a < assigner->m->mesh.sub_axis_count; a++) {
        if (wanted[a].count > 0)
            sets[wanted[a].factor[choice[a]]] |= (sc_sub_axis_set)1 << a;
    }
    first_order(assigner, id, factors, sets, out);
    best_order(assigner, id, factors, sets, out);
}

void sc_assign(sc_assigner *assigner, sc_op_id id, const sc_factors *factors, sc_assignment *out)
{
    candidates wanted[SC_MAX_SUB_AXES] = {{0}};
    uint32_t choice[SC_MAX_SUB_AXES] = {0}, sub_axis_count = assigner->m->mesh.sub_axis_count,
             combinations = 1;
    for (uint32_t a = 0; a < sub_axis_count; a++) {
        find_candidates(assigner, id, factors, a, &wanted[a]);
        if (wanted[a].count > 1 && combinations <= MAX_COMBINATIONS)
            combinations *= wanted[a].count;
    }
    combine(assigner, id, factors, wanted, choice, out);
    if (combinations == 1)
        return;
    sc_cost best = sc_assignment_cost(assigner, id, factors, out);
    for (uint32_t n = 1; n < combinations && n < MAX_COMBINATIONS; n++) {
        for (uint32_t a = sub_axis_count; a-- > 0;) { /* mixed-radix counter */
            if (wanted[a].count > 1 && ++choice[a] < wanted[a].count)
                break;
            choice[a] = 0;
        }
        sc_assignment other;
        combine(assigner, id, factors, wanted, choice, &other);
        sc_cost cost = sc_assignment_cost(assigner, id, factors, &other);
        if (sc_cost_compare(&cost, &best) < 0) {
            best = cost;
            *out = other;
        }
    }
}

void sc_assignment_store(sc_module *m, sc_op_id op, const sc_factors *factors,
                         const sc_assignment *assignment)
{
    sc_split splits[SC_MAX_FACTORS];
    uint32_t count = 0;
    for (uint32_t f = 0; f < factors->count; f++) {
        if (assignment->split[f].count > 0)
            splits[count++] = (sc_split){factors->list[f].dim, assignment->split[f]};
    }
    if (count > 0)
        sc_op_set_attr(m, op, sc_attr_splits(m, SC_ATTR_split, splits, count));
}

void sc_assignment_load(const sc_module *m, sc_op_id op, const sc_factors *factors,
                        sc_assignment *out)
{
    memset(out, 0, sizeof *out);
    const sc_attr *attr = sc_op_attr(sc_op_at(m, op), SC_ATTR_split);
    if (attr != NULL) {
        for (uint32_t i = 0; i < attr->count; i++) {
            for (uint32_t f = 0; f < factors->count; f++) {
                if (factors->list[f].dim == attr->splits[i].dim)
                    out->split[f] = attr->splits[i].sub_axes;
            }
        }
    }
}
