/* Moves the reduction of a partial sum below its readers, if all are linear in it and reducing
 * their results costs less.
 *
 *   %3 = reshard %2 : f32[B, S@tp, X, D]         %4 = reshard %g : f32[B, S, X]
 *   %4 = dot[X] %3, %g : f32[B, S@tp, D]    ->   %5 = dot[X] %2, %4 : f32[B, S, D]{sum:tp}
 *                                                %6 = reshard %5 : f32[B, S@tp, D]
 *
 * The results of readers may be passed on in turn. Costs are those of reshards, including those of
 * other operands; reshards that exist for other readers cost nothing. */
#include <math.h>

#include "passes/reason.h"
#include "passes/sinking.h"
#include "passes/uses.h"

/* Returns the value before widening from `narrow`, or SC_NONE if it was not widened. */
static sc_value widened_from(const sc_module *m, sc_value value, sc_dtype narrow)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    bool is_cast = (sc_op_traits(op) & SC_CONVERTS) != 0;
    return is_cast && sc_type_of(m, op->operands[0])->dtype == narrow ? op->operands[0] : SC_NONE;
}

/* Replaces a sum of two widened values that is rounded back by the sum in the narrow dtype, which
 * is rounded once as well. SC_NONE: not such a sum, or no term was partial. */
static sc_value narrow_sum(sc_module *m, sc_op_id cast, const uint32_t *uses)
{
    const sc_op *op = sc_op_at(m, cast);
    if ((sc_op_traits(op) & SC_CONVERTS) == 0 || sc_op_attr(op, SC_ATTR_gradient) != NULL)
        return SC_NONE;
    sc_dtype narrow = sc_type_of(m, op->first_result)->dtype,
             wide = sc_type_of(m, op->operands[0])->dtype;
    sc_op_id added = sc_def(m, op->operands[0]);
    const sc_op *sum = sc_op_at(m, added);
    const uint32_t wanted = SC_LINEAR | SC_ELEMENTWISE;
    if (!sc_dtype_widens(narrow, wide) || (sc_op_traits(sum) & wanted) != wanted ||
        sum->operand_count != 2 || uses[op->operands[0]] != 1)
        return SC_NONE;
    sc_value terms[2];
    bool was_partial = false;
    for (uint32_t i = 0; i < 2; i++) {
        terms[i] = widened_from(m, sum->operands[i], narrow);
        if (terms[i] == SC_NONE)
            return SC_NONE;
        const sc_op *maker = sc_op_at(m, sc_def(m, terms[i]));
        was_partial =
            was_partial || (maker->kind == SC_OP_reshard &&
                            sc_placement_partial(&sc_type_of(m, maker->operands[0])->placement,
                                                 SC_PARTIAL_SUM) != 0);
    }
    if (!was_partial)
        return SC_NONE;
    const sc_op like = *sum;
    sc_value result = op->first_result;
    sc_type type = m->values.data[result].type;
    sc_op_id made = sc_op_new(m, like.func, m->ops.data[added].next, (sc_op_kind)like.kind, terms,
                              2, like.attrs, like.attr_count, &type, 1, added);
    m->values.data[sc_result(m, made, 0)].path = m->values.data[result].path;
    m->values.data[result].path = 0;
    return sc_result(m, made, 0);
}

void sc_sink_narrow_sums(sc_module *m)
{
    uint32_t count, *uses = sc_count_uses(m);
    sc_value *map = sc_new_value_map(m, &count);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            sc_value made = narrow_sum(m, op, uses);
            if (made == SC_NONE)
                continue;
            map[sc_result(m, op, 0)] = made;
            sc_op_id sum = sc_def(m, sc_op_at(m, op)->operands[0]);
            for (uint32_t i = 0; i < 2; i++) { /* the casts, which now have no readers */
                sc_value wide = sc_op_at(m, sum)->operands[i];
                if (uses[wide] == 1)
                    sc_op_unlink(m, sc_def(m, wide));
            }
            sc_op_unlink(m, sum);
            sc_op_unlink(m, op);
        }
        sc_func_replace_uses(m, f, map, count);
    }
}

/* True if a partial value is reduced by all its readers: one more axis joins the same call. */
static bool is_reduced_next(const sc_sinking *s, sc_value value)
{
    const sc_module *m = s->m;
    if (value >= s->count || s->uses[value] == 0 || s->current[value] != SC_NONE)
        return false;
    for (uint32_t i = s->readers.first[value]; i < s->readers.first[value + 1]; i++) {
        if (sc_op_at(m, s->readers.list[i])->kind != SC_OP_reshard)
            return false;
    }
    return true;
}

static bool has_dims_of(const sc_type_info *type, const sc_type_info *other)
{
    for (uint32_t d = 0; d < other->rank; d++) {
        if (sc_type_find_dim(type, other->dims[d].dim) < 0)
            return false;
    }
    return true;
}

/* Returns the current replacement of an operand. */
static sc_value as_read(const sc_sinking *s, sc_value value)
{
    return value < s->count && s->current[value] != SC_NONE ? s->current[value] : value;
}

/* Returns an operand in that type, itself or a reshard made for another reader; SC_NONE if a
 * reshard is needed. */
static sc_value find_whole(const sc_sinking *s, sc_value value, sc_type type)
{
    uint64_t key = (uint64_t)value << 32 | type;
    if (s->m->values.data[as_read(s, value)].type == type)
        return value;
    const uint32_t *there = sc_map_find(&s->moved, key);
    there = there == NULL && s->brought != NULL ? sc_map_find(s->brought, key) : there;
    return there != NULL && s->m->values.data[*there].type == type ? *there : SC_NONE;
}

static bool passes_sums(const sc_op *op)
{
    uint32_t traits = sc_op_traits(op);
    return (traits & SC_LINEAR) != 0 ||
           ((traits & SC_BILINEAR) != 0 && op->operands[0] != op->operands[1]);
}

/* True if the value may become partial with the sum being moved, a few ops later. */
static bool comes_of_sum(const sc_sinking *s, sc_value value, uint32_t depth)
{
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    if (value == s->passing[0] || value == s->passing[1])
        return true;
    if (depth == 0 || !passes_sums(op))
        return false;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        if (comes_of_sum(s, op->operands[i], depth - 1))
            return true;
    }
    return false;
}

/* `value` has the placement it has after the reduction over these sub-axes, perhaps scattered. True
 * if the reader could take it partial there and itself be partial. Its other operands must be
 * replicated there or be resharded, which is added to `cost`. If every rank then computes what
 * before was split, it must do so once per element of `value`. Gradients are never passed. */
static bool lets_pass(const sc_sinking *s, sc_op_id reader, sc_value value,
                      sc_sub_axis_set sub_axes, sc_cost *cost)
{
    sc_module *m = s->m;
    const sc_op *op = sc_op_at(m, reader);
    sc_sub_axis_set scattered = sub_axes & sc_placement_split(&sc_type_of(m, value)->placement);
    if (!passes_sums(op) || op->result_count != 1 || sc_op_attr(op, SC_ATTR_gradient) != NULL ||
        sc_op_attr(op, SC_ATTR_unit) != NULL)
        return false;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_value other = op->operands[i];
        if (other == value)
            continue;
        const sc_type_info *type = sc_type_of(m, as_read(s, other));
        if (comes_of_sum(s, other, SC_MAX_SINK) || sc_placement_partial(&type->placement, 0) != 0 ||
            (sc_placement_split(&type->placement) & sub_axes & ~scattered) != 0)
            return false;
        if (scattered != 0 && !has_dims_of(sc_type_of(m, value), type))
            return false;
        const sc_placement whole = sc_placement_with(&type->placement, scattered, SC_ON_NOTHING);
        sc_type wanted = sc_type_with_placement(m, m->values.data[as_read(s, other)].type, &whole);
        if (find_whole(s, other, wanted) != SC_NONE)
            continue;
        sc_cost moves =
            sc_reshard_find(s->planner, m->values.data[as_read(s, other)].type, &whole)->cost;
        sc_cost_add(cost, &moves);
    }
    const sc_type_info *result = sc_type_of(m, op->first_result);
    const sc_placement partial = sc_placement_with(&result->placement, sub_axes, SC_PARTIAL_SUM);
    if (sc_placement_equal(&partial, &result->placement))
        return true;
    sc_sub_axis_set already = sc_placement_partial(&result->placement, 0);
    return (sc_placement_split(&result->placement) & sub_axes & ~scattered) == 0 &&
           (already == 0 || is_reduced_next(s, op->first_result));
}

static sc_cost cost_from(const sc_sinking *s, sc_type belongs, const sc_placement *from)
{
    sc_type raw = sc_type_with_placement(s->m, belongs, from);
    return sc_reshard_find(s->planner, raw, &s->m->types.data[belongs].placement)->cost;
}

static const sc_cost never = {.bytes = INFINITY};

/* Additional cost of a value being partial over these sub-axes too: its own reduction. */
static sc_cost own_cost(const sc_sinking *s, sc_value value, sc_sub_axis_set sub_axes)
{
    const sc_module *m = s->m;
    const sc_type_info *type = sc_type_of(m, value);
    const sc_placement partial = sc_placement_with(&type->placement, sub_axes, SC_PARTIAL_SUM);
    if (sc_placement_equal(&partial, &type->placement))
        return (sc_cost){0};
    sc_cost total = {0};
    bool has_readers = value < s->count;
    uint32_t begin = has_readers ? s->readers.first[value] : 0,
             end = has_readers ? s->readers.first[value + 1] : 0;
    for (uint32_t i = begin; i < end; i++) {
        const sc_op *reader = sc_op_at(m, s->readers.list[i]);
        if (sc_op_attr(reader, SC_ATTR_gradient) != NULL)
            return never;
        if (sc_placement_partial(&type->placement, 0) == 0)
            continue;
        sc_type ends = m->values.data[reader->first_result].type; /* type after its reshard */
        sc_cost now = cost_from(s, ends, &type->placement), then = cost_from(s, ends, &partial);
        total.bytes += then.bytes - now.bytes;
        total.calls += then.calls - now.calls;
    }
    return sc_placement_partial(&type->placement, 0) != 0
               ? total
               : cost_from(s, m->values.data[value].type, &partial);
}

/* Cost of this value being partial: its own reduction, or those of its readers' results if that is
 * less. */
static sc_cost cost_below(const sc_sinking *s, sc_value value, sc_sub_axis_set sub_axes,
                          uint32_t depth, bool *pass_on)
{
    const sc_module *m = s->m;
    sc_cost own = own_cost(s, value, sub_axes), below = {0};
    bool ignored;
    *pass_on = depth > 0 && sc_placement_partial(&sc_type_of(m, value)->placement, 0) == 0 &&
               value < s->count && s->uses[value] > 0 &&
               s->readers.first[value + 1] - s->readers.first[value] == s->uses[value] &&
               (s->pinned[value] & sub_axes) == 0;
    if (!*pass_on)
        return own;
    for (uint32_t i = s->readers.first[value]; *pass_on && i < s->readers.first[value + 1]; i++) {
        sc_op_id reader = s->readers.list[i];
        *pass_on = lets_pass(s, reader, value, sub_axes, &below);
        if (*pass_on) {
            sc_cost further =
                cost_below(s, m->ops.data[reader].first_result, sub_axes, depth - 1, &ignored);
            sc_cost_add(&below, &further);
        }
        *pass_on = *pass_on && below.bytes < own.bytes;
    }
    return *pass_on ? below : own;
}

/* Emits a reshard right after the definition of a value, without a plan line of its own. */
static sc_value move_after(sc_sinking *s, sc_value value, sc_type type, const sc_reason *reason)
{
    sc_module *m = s->m;
    sc_op_id def = sc_def(m, value);
    const sc_attr *phase = sc_op_attr(sc_op_at(m, def), SC_ATTR_phase);
    sc_attr attrs[4];
    uint32_t count = 0;
    if (phase != NULL)
        attrs[count++] = *phase;
    count += sc_reason_attrs(m, value, reason, attrs + count);
    sc_op_id op = sc_op_new(m, m->ops.data[def].func, m->ops.data[def].next, SC_OP_reshard, &value,
                            1, attrs, count, &type, 1, def);
    return sc_result(m, op, 0);
}

/* Makes the other operands of a reader replicated over the axes that the sum was scattered over;
 * operands added to the sum become terms of it. */
static void bring_whole(sc_sinking *s, sc_op_id reader, sc_value raw, sc_sub_axis_set scattered,
                        sc_sub_axis_set sub_axes)
{
    sc_module *m = s->m;
    for (uint32_t i = 0; i < m->ops.data[reader].operand_count; i++) {
        sc_value other = m->ops.data[reader].operands[i];
        if (other == raw)
            continue;
        const sc_type_info type = *sc_type_of(m, as_read(s, other));
        const sc_placement whole = sc_placement_with(&type.placement, scattered, SC_ON_NOTHING);
        sc_type wanted = sc_type_with_placement(m, m->values.data[as_read(s, other)].type, &whole);
        sc_value there = find_whole(s, other, wanted);
        if (there == SC_NONE) {
            sc_reason reason =
                sc_reason_of_operand(m, s->placing, reader, i, &type.placement, &whole);
            there = move_after(s, as_read(s, other), wanted, &reason);
            sc_map_insert(&s->moved, (uint64_t)other << 32 | wanted, there, NULL);
            s->uses[other] += other < s->count;
        } else if (there < s->count)
            s->uses[there] += there != other;
        /* a bias is added once */
        bool is_term = (sc_op_traits(sc_op_at(m, reader)) & SC_LINEAR) != 0;
        there = is_term ? sc_sink_spread(s, reader, there, sub_axes) : there;
        m->ops.data[reader].operands[i] = there;
    }
}

static void pass_on_to(sc_sinking *s, sc_value value, sc_value raw, sc_op_id like,
                       sc_sub_axis_set sub_axes, uint32_t depth)
{
    sc_module *m = s->m;
    sc_sub_axis_set scattered = sub_axes & sc_placement_split(&sc_type_of(m, value)->placement);
    for (uint32_t i = s->readers.first[value]; i < s->readers.first[value + 1]; i++) {
        sc_op_id reader = s->readers.list[i];
        sc_value result = m->ops.data[reader].first_result;
        const sc_placement at =
            sc_placement_with(&sc_type_of(m, result)->placement, sub_axes, SC_PARTIAL_SUM);
        bool further;
        cost_below(s, result, sub_axes, depth - 1, &further);
        for (uint32_t o = 0; o < m->ops.data[reader].operand_count; o++) {
            if (m->ops.data[reader].operands[o] == value)
                m->ops.data[reader].operands[o] = raw;
        }
        bring_whole(s, reader, raw, scattered, sub_axes);
        bool is_partial = sc_placement_partial(&sc_type_of(m, result)->placement, 0) != 0;
        if (further)
            pass_on_to(s, result, result, like, sub_axes, depth - 1);
        if (further || is_partial) {
            m->values.data[result].type =
                sc_type_with_placement(m, m->values.data[result].type, &at);
            continue;
        }
        sc_sink_reduce_after(s, reader, like, &at);
        const sc_attr *phase = sc_op_attr(sc_op_at(m, reader), SC_ATTR_phase);
        sc_op_id reduces = sc_def(m, s->current[result]);
        sc_op_drop_attr(m, reduces, SC_ATTR_moves);
        sc_op_drop_attr(m, reduces, SC_ATTR_phase);
        if (phase != NULL)
            sc_op_set_attr(m, reduces, *phase);
    }
}

void sc_sink_below(sc_sinking *s, sc_op_id op)
{
    sc_module *m = s->m;
    sc_value raw = m->ops.data[op].operands[0], value = sc_result(m, op, 0);
    const sc_placement from = sc_type_of(m, raw)->placement;
    sc_sub_axis_set sub_axes = sc_placement_partial(&from, SC_PARTIAL_SUM);
    const sc_placement partial =
        sc_placement_with(&sc_type_of(m, value)->placement, sub_axes, SC_PARTIAL_SUM);
    bool pass_on;
    if (sub_axes == 0 || !sc_placement_equal(&partial, &from) || value >= s->count ||
        s->uses[value] == 0 || sc_op_attr(sc_op_at(m, op), SC_ATTR_form) != NULL ||
        (raw < s->count && (s->pinned[raw] & sub_axes) != 0))
        return;
    s->passing[0] = raw;
    s->passing[1] = value;
    cost_below(s, value, sub_axes, SC_MAX_SINK, &pass_on);
    if (!pass_on)
        return;
    if (m->values.data[raw].path == 0)
        m->values.data[raw].path = m->values.data[value].path;
    m->values.data[value].path = 0;
    pass_on_to(s, value, raw, op, sub_axes, SC_MAX_SINK);
    if (raw < s->count)
        s->uses[raw] += s->uses[value] - 1;
    s->uses[value] = 0;
}
