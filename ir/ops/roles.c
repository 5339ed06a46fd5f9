/* Dim roles of every op: which dims of operands and results are split together, and the effect of
 * splitting them. */
#include "ir/ops/roles.h"

#include <string.h>

static sc_factor *find_factor(sc_factors *factors, sc_dim dim)
{
    for (uint32_t i = 0; i < factors->count; i++) {
        if (factors->list[i].dim == dim)
            return &factors->list[i];
    }
    return NULL;
}

static sc_factor *find_or_add(sc_factors *factors, sc_dim dim)
{
    sc_factor *factor = find_factor(factors, dim);
    if (factor != NULL)
        return factor;
    factor = &factors->list[factors->count++];
    *factor = (sc_factor){.role = SC_ROLE_PASSES, .dim = dim};
    memset(factor->operand, -1, sizeof factor->operand);
    memset(factor->result, -1, sizeof factor->result);
    return factor;
}

/* A leaf dim is one factor across all operands and results. */
void roles_by_name(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    factors->count = 0;
    for (uint32_t o = 0; o < op->operand_count && o < SC_MAX_FIXED_OPERANDS; o++) {
        const sc_type_info *type = sc_type_of(m, op->operands[o]);
        for (uint32_t i = 0; i < type->rank && factors->count < SC_MAX_FACTORS; i++)
            find_or_add(factors, type->dims[i].dim)->operand[o] = (int8_t)i;
    }
    for (uint32_t r = 0; r < op->result_count && r < SC_MAX_FIXED_RESULTS; r++) {
        const sc_type_info *type = sc_type_of(m, op->first_result + r);
        for (uint32_t i = 0; i < type->rank && factors->count < SC_MAX_FACTORS; i++)
            find_or_add(factors, type->dims[i].dim)->result[r] = (int8_t)i;
    }
}

static void set_role(sc_factors *factors, const sc_attr *dims, sc_role role, bool offset)
{
    if (dims != NULL) {
        for (uint32_t d = 0; d < dims->count; d++) {
            for (uint32_t i = 0; i < factors->count; i++) {
                if (factors->list[i].dim == dims->dims[d]) {
                    factors->list[i].role = role;
                    factors->list[i].offset = offset;
                }
            }
        }
    }
}

static void roles_over_dims(const sc_module *m, const sc_op *op, sc_factors *factors, sc_role role,
                            bool offset)
{
    roles_by_name(m, op, factors);
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), role, offset);
}

void roles_index(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_PASSES, true);
}

void roles_dot(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, false);
}

void roles_sum(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, false);
}

void roles_max(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_MAXES, false);
}

void roles_min(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_MINS, false);
}

void roles_form(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_FORM, false);
}

void roles_whole(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_WHOLE, false);
}

/* The mask of an element depends on its global index in every dim. */
void roles_dropout(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    for (uint32_t i = 0; i < factors->count; i++)
        factors->list[i].offset = true;
}

/* A rank reads the ids in its range of the table and gives 0 for the others: the sum over ranks is
 * the entry. */
void roles_gather(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, true);
}

/* Rows of x are added to the entries that ids select; a rank keeps those in its range of V. Dims of
 * x and ids that the result lacks are summed over. */
void roles_scatter(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    for (uint32_t i = 0; i < factors->count; i++) {
        if (factors->list[i].result[0] < 0)
            factors->list[i].role = SC_ROLE_SUMS;
    }
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_PASSES, true);
}

/* Parts of X are split as X is: one factor with two names. A result that has one of them is whole.
 */
static void join_parts(const sc_op *op, sc_factors *factors)
{
    const sc_attr *parts = sc_op_attr(op, SC_ATTR_parts), *to = sc_op_attr(op, SC_ATTR_to);
    if (parts == NULL || to == NULL)
        return;
    sc_factor *indexed = find_factor(factors, to->dims[0]),
              *part = find_factor(factors, parts->dims[0]);
    if (indexed == NULL || part == NULL)
        return;
    for (uint32_t o = 0; o < SC_MAX_FIXED_OPERANDS; o++) {
        if (part->operand[o] >= 0)
            indexed->operand[o] = part->operand[o];
    }
    for (uint32_t r = 0; r < SC_MAX_FIXED_RESULTS; r++) {
        if (part->result[r] >= 0)
            indexed->result[r] = part->result[r];
    }
    indexed->role = indexed->result[0] >= 0 ? SC_ROLE_PASSES : SC_ROLE_SUMS;
    *part = factors->list[--factors->count];
}

/* As gather and dot: a rank multiplies the rows whose ids are in its range of X, and gives 0 for
 * the others. */
void roles_routed_dot(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_to), SC_ROLE_SUMS, true);
    join_parts(op, factors);
}

/* A rank sums the rows that it has, and keeps what is in its range of X. */
void roles_routed_grad(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_to), SC_ROLE_PASSES, true);
    join_parts(op, factors);
}

/* The rank that holds the last position returns it, the others return 0: the result is a partial
 * sum. */
void roles_last(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_over_dims(m, op, factors, SC_ROLE_SUMS, true);
}

void roles_resize(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_WHOLE, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_from_dims), SC_ROLE_WHOLE, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_to), SC_ROLE_WHOLE, false);
}

void roles_topk(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_resize(m, op, factors);
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_FORM, false);
}

/* dims = [S, E]: positions pass with an offset, E must be whole because its elements are paired. */
void roles_rope(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims);
    if (dims == NULL || dims->count != 2)
        return;
    for (uint32_t i = 0; i < factors->count; i++) {
        sc_factor *factor = &factors->list[i];
        if (factor->dim == dims->dims[0])
            factor->offset = true;
        else if (factor->dim == dims->dims[1])
            factor->role = SC_ROLE_WHOLE;
    }
}

/* Which weights are dropped depends on the global index of the query: q's dims without E. */
static void count_for_dropout(const sc_op *op, sc_factors *factors)
{
    bool drops = sc_op_number(op, SC_ATTR_p, 0) > 0;
    if (!drops)
        return;
    for (uint32_t i = 0; i < factors->count; i++) {
        sc_factor *factor = &factors->list[i];
        factor->offset =
            factor->offset || (factor->operand[0] >= 0 && factor->role != SC_ROLE_WHOLE);
    }
}

/* Gives the factor of keys' index in an operand or result to that of queries, if it has none there;
 * true if the former keeps it. */
static bool keeps_index(int8_t *queries, int8_t *keys)
{
    if (*queries < 0) {
        *queries = *keys;
        *keys = -1;
    }
    return *keys >= 0;
}

/* In a ring each rank has the keys of one member: T is split as S is, one factor with two names. An
 * operand or result with both dims keeps T whole. */
static void join_for_ring(const sc_op *op, sc_factors *factors)
{
    const sc_attr *dims = sc_op_attr(op, SC_ATTR_dims), *to = sc_op_attr(op, SC_ATTR_to);
    if (sc_op_attr(op, SC_ATTR_ring) == NULL || dims == NULL || dims->count == 0 || to == NULL ||
        to->count != 1)
        return;
    sc_factor *queries = find_factor(factors, to->dims[0]),
              *keys = find_factor(factors, dims->dims[0]);
    if (queries == NULL || keys == NULL)
        return;
    bool is_left = false;
    for (uint32_t o = 0; o < SC_MAX_FIXED_OPERANDS; o++)
        is_left = keeps_index(&queries->operand[o], &keys->operand[o]) || is_left;
    for (uint32_t r = 0; r < SC_MAX_FIXED_RESULTS; r++)
        is_left = keeps_index(&queries->result[r], &keys->result[r]) || is_left;
    if (!is_left)
        *keys = factors->list[--factors->count];
}

/* dims = [T, E], to = [S]: heads and batch pass, query positions pass with an offset, keys and E
 * must be whole; in a ring keys are split as queries are. */
void roles_attend(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    join_for_ring(op, factors);
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_WHOLE, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_to), SC_ROLE_PASSES, true);
    count_for_dropout(op, factors);
}

/* Like attend. A cotangent that lacks a dim is a sum over it: those of keys over query positions
 * and groups. */
void roles_attend_grad(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    join_for_ring(op, factors);
    for (uint32_t i = 0; i < factors->count; i++) {
        sc_factor *factor = &factors->list[i];
        for (uint32_t r = 0; r < op->result_count; r++)
            factor->role = factor->result[r] < 0 ? SC_ROLE_SUMS : factor->role;
    }
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_WHOLE, false);
    const sc_attr *to = sc_op_attr(op, SC_ATTR_to);
    if (to != NULL) {
        for (uint32_t i = 0; i < factors->count; i++)
            factors->list[i].offset =
                factors->list[i].offset || factors->list[i].dim == to->dims[0];
    }
    count_for_dropout(op, factors);
}

/* dims = [S], to = [T]: rows may go anywhere in the cache, so x must be whole along S; a rank keeps
 * the rows in its shard of T. */
void roles_append(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    set_role(factors, sc_op_attr(op, SC_ATTR_dims), SC_ROLE_WHOLE, false);
    set_role(factors, sc_op_attr(op, SC_ATTR_to), SC_ROLE_PASSES, true);
}

/* Each pair of dims -> to is one factor with two names. If one side has more leaves (a plain dim
 * and a composite), only the major ones are paired: splitting them splits the whole into contiguous
 * parts; the minor leaves stay whole. */
void roles_rename(const sc_module *m, const sc_op *op, sc_factors *factors)
{
    roles_by_name(m, op, factors);
    const sc_attr *from = sc_op_attr(op, SC_ATTR_dims), *to = sc_op_attr(op, SC_ATTR_to);
    if (from == NULL || to == NULL || from->count == 0 || to->count == 0)
        return;
    uint32_t pairs = from->count == to->count ? from->count : 1;
    if (pairs == 1) {
        sc_attr minor_from = *from, minor_to = *to;
        minor_from.dims++;
        minor_to.dims++;
        minor_from.count--;
        minor_to.count--;
        set_role(factors, &minor_from, SC_ROLE_WHOLE, false);
        set_role(factors, &minor_to, SC_ROLE_WHOLE, false);
    }
    for (uint32_t d = 0; d < pairs; d++) {
        sc_factor *source = find_or_add(factors, from->dims[d]);
        const sc_factor target = *find_or_add(factors, to->dims[d]);
        source->result[0] = target.result[0];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < factors->count; i++) {
            if (factors->list[i].dim != to->dims[d])
                factors->list[kept++] = factors->list[i];
        }
        factors->count = kept;
    }
}
