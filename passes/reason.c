#include "passes/reason.h"

#include <string.h>

#include "ir/print_type.h"

enum { SEARCH_DEPTH = 8 };

sc_sym sc_value_path(const sc_module *m, sc_value value)
{
    if (m->values.data[value].path != 0)
        return m->values.data[value].path;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if ((sc_op_traits(op) & SC_STATE_READ) != 0)
        return sc_op_word(op, SC_ATTR_name);
    return op->operand_count == 1 && (sc_op_traits(op) & SC_NAMESAKE) != 0
               ? sc_value_path(m, op->operands[0])
               : 0;
}

/* Returns the plan line that put this sub-axis on the value, or on a value it was computed from. */
static uint32_t rule_of(const sc_module *m, const sc_placing *placing, sc_value value,
                        uint32_t sub_axis, int depth)
{
    if (placing == NULL || depth == 0)
        return SC_NONE;
    if (value < placing->value_count && sc_cause_of(placing, value, sub_axis)->rule != SC_NONE)
        return sc_cause_of(placing, value, sub_axis)->rule;
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    for (uint32_t i = 0; i < op->operand_count; i++) {
        uint8_t on = sc_type_of(m, op->operands[i])->placement.on[sub_axis];
        uint32_t rule = on == SC_ON_NOTHING
                            ? SC_NONE
                            : rule_of(m, placing, op->operands[i], sub_axis, depth - 1);
        if (rule != SC_NONE)
            return rule;
    }
    return SC_NONE;
}

static uint32_t first_difference(const sc_mesh *mesh, const sc_placement *a, const sc_placement *b)
{
    for (uint32_t i = 0; i < mesh->sub_axis_count; i++) {
        if (a->on[i] != b->on[i])
            return i;
    }
    for (uint32_t i = 0; i < mesh->sub_axis_count; i++) {
        if (a->order[i] != b->order[i])
            return i;
    }
    return 0;
}

static const char *axis_name(const sc_module *m, uint32_t sub_axis)
{
    return sc_text(m->context, m->mesh.axes[m->mesh.sub_axes[sub_axis].axis].name);
}

static const char *dim_shown(const sc_module *m, const sc_type_info *type, uint32_t index)
{
    const sc_type_dim *dim = &type->dims[index];
    return sc_text(m->context, m->dims.data[dim->group != SC_NONE ? dim->group : dim->dim].name);
}

static const char *last_segment(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot == NULL ? path : dot + 1;
}

/* Strips the instance so that all layers agree: layers[3].attn.wq becomes attn.wq. */
static const char *in_instance(const char *path)
{
    const char *bracket = strrchr(path, ']');
    return bracket != NULL && bracket[1] == '.' ? bracket + 2 : path;
}

static const char *short_name(const sc_module *m, sc_value value)
{
    sc_sym path = sc_value_path(m, value);
    if (path != 0)
        return last_segment(sc_text(m->context, path));
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    while (op->operand_count == 1 && (sc_op_traits(op) & SC_NAMESAKE) != 0)
        op = sc_op_at(m, sc_def(m, op->operands[0]));
    return sc_ops[op->kind].name;
}

static const char *rule_text(const sc_module *m, uint32_t rule)
{
    return rule == SC_NONE ? NULL : sc_text(m->context, m->rules.data[rule].text);
}

static sc_reason compose(sc_module *m, uint32_t rule, const char *detail)
{
    const char *text = rule_text(m, rule);
    sc_sym why = text == NULL ? sc_intern_text(&m->context->names, detail)
                              : sc_intern_printf(&m->context->names, "%s; %s", text, detail);
    return (sc_reason){rule, why};
}

/* Returns the style that decided how the op is computed. */
static uint32_t lock_rule(const sc_placing *placing, sc_op_id op, uint32_t sub_axis)
{
    return placing == NULL || op >= placing->op_count
               ? SC_NONE
               : placing->lock_rules[(size_t)op * placing->sub_axis_count + sub_axis];
}

/* Reason for resharding a value from or to what the form of an op needs. */
static sc_reason reason_of_form(sc_module *m, uint32_t rule, const sc_op *op, sc_value value,
                                uint32_t sub_axis, const sc_placement *before,
                                const sc_placement *in_op)
{
    const sc_type_info *type = sc_type_of(m, value);
    const char *name = sc_ops[op->kind].name;
    if (in_op->on[sub_axis] < type->rank)
        return compose(m, rule,
                       sc_arena_printf(&m->context->arena, "%s splits %s over %s", name,
                                       dim_shown(m, type, in_op->on[sub_axis]),
                                       axis_name(m, sub_axis)));
    return compose(m, rule,
                   sc_arena_printf(&m->context->arena, "%s needs the whole dim %s of %s", name,
                                   dim_shown(m, type, before->on[sub_axis]), short_name(m, value)));
}

/* Reason for resharding a value computed in one placement to another: a stored parameter used by a
 * unit, a pin, a rule on the result. */
static sc_reason reason_of_placement(sc_module *m, const sc_placing *placing, sc_value value,
                                     uint32_t sub_axis, const sc_placement *made, uint32_t rule)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    sc_arena *arena = &m->context->arena;
    const sc_type_info *type = sc_type_of(m, value);
    if (sc_op_attr(op, SC_ATTR_unit) != NULL)
        return compose(m, rule, "stored sharded, gathered for a unit that uses it");
    uint32_t own = placing != NULL && value < placing->value_count
                       ? sc_cause_of(placing, value, sub_axis)->rule
                       : SC_NONE;
    rule = own != SC_NONE ? own : rule;
    sc_value source = op->operand_count > 0 ? op->operands[0] : value;
    /* the first that has the split; constants are only fitted */
    for (uint32_t i = op->operand_count; i-- > 0;) {
        const sc_type_info *operand = sc_type_of(m, op->operands[i]);
        if (operand->placement.on[sub_axis] < operand->rank &&
            (sc_op_traits(sc_op_at(m, sc_def(m, op->operands[i]))) & SC_CONSTANT) == 0)
            source = op->operands[i];
    }
    if (made->on[sub_axis] < type->rank)
        return compose(m, rule,
                       sc_arena_printf(arena, "%s splits %s over %s", short_name(m, source),
                                       dim_shown(m, type, made->on[sub_axis]),
                                       axis_name(m, sub_axis)));
    return compose(m, rule,
                   sc_arena_printf(arena, "%s is replicated over %s", short_name(m, source),
                                   axis_name(m, sub_axis)));
}

sc_reason sc_reason_of_result(sc_module *m, const sc_placing *placing, sc_value value,
                              const sc_placement *made, const sc_placement *wanted)
{
    uint32_t sub_axis = first_difference(&m->mesh, made, wanted);
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    const char *name = sc_ops[op->kind].name;
    uint32_t rule = rule_of(m, placing, value, sub_axis, SEARCH_DEPTH);
    uint32_t form = sc_form_rule(placing, sc_def(m, value), sub_axis);
    if (form != SC_NONE && made->on[sub_axis] < sc_type_of(m, value)->rank)
        return reason_of_form(m, form, op, value, sub_axis, wanted, made);
    if (!sc_is_partial(made->on[sub_axis]))
        return reason_of_placement(m, placing, value, sub_axis, made, rule);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_type_info *type = sc_type_of(m, op->operands[i]);
        uint8_t on = type->placement.on[sub_axis];
        if (on >= type->rank || sc_attr_has_dim(sc_op_attr(op, SC_ATTR_parts), type->dims[on].dim))
            continue; /* parts are split because what they are parts of is */
        rule = rule_of(m, placing, op->operands[i], sub_axis, SEARCH_DEPTH);
        rule = rule != SC_NONE ? rule : lock_rule(placing, sc_def(m, value), sub_axis);
        return compose(m, rule,
                       sc_arena_printf(&m->context->arena,
                                       "%s reduces over %s, which %s splits over %s", name,
                                       dim_shown(m, type, type->placement.on[sub_axis]),
                                       short_name(m, op->operands[i]), axis_name(m, sub_axis)));
    }
    return compose(m, rule,
                   sc_arena_printf(&m->context->arena, "%s is a partial reduction over %s", name,
                                   axis_name(m, sub_axis)));
}

sc_reason sc_reason_of_operand(sc_module *m, const sc_placing *placing, sc_op_id reader,
                               uint32_t operand, const sc_placement *has,
                               const sc_placement *needed)
{
    sc_op *op = sc_op_at(m, reader);
    sc_value value = op->operands[operand];
    uint32_t sub_axis = first_difference(&m->mesh, has, needed);
    uint32_t rule = rule_of(m, placing, value, sub_axis, SEARCH_DEPTH);
    const char *name = sc_ops[op->kind].name;
    uint32_t form = sc_form_rule(placing, reader, sub_axis);
    if (form != SC_NONE && has->on[sub_axis] < sc_type_of(m, value)->rank)
        return reason_of_form(m, form, op, value, sub_axis, has, needed);
    for (uint32_t i = 0; i < op->operand_count; i++) {
        const sc_type_info *type = sc_type_of(m, op->operands[i]);
        if (i == operand || type->placement.on[sub_axis] >= type->rank)
            continue;
        return compose(m, rule,
                       sc_arena_printf(&m->context->arena, "%s splits %s over %s",
                                       short_name(m, op->operands[i]),
                                       dim_shown(m, type, type->placement.on[sub_axis]),
                                       axis_name(m, sub_axis)));
    }
    const sc_type_info *type = sc_type_of(m, value);
    if (sc_is_partial(has->on[sub_axis])) {
        sc_sym path = sc_value_path(m, value);
        /* a gradient without a name yet */
        path = path == 0 && op->result_count > 0 ? m->values.data[op->first_result].path : path;
        return compose(m, rule,
                       sc_arena_printf(&m->context->arena, "%s is a partial reduction over %s",
                                       path != 0 ? in_instance(sc_text(m->context, path))
                                                 : short_name(m, value),
                                       axis_name(m, sub_axis)));
    }
    if (has->on[sub_axis] < type->rank)
        return compose(m, rule,
                       sc_arena_printf(&m->context->arena, "%s needs the whole dim %s of %s", name,
                                       dim_shown(m, type, has->on[sub_axis]),
                                       short_name(m, value)));
    return compose(m, rule,
                   sc_arena_printf(&m->context->arena, "%s reads it in this placement", name));
}

sc_reason sc_reason_of_partial(sc_module *m, const sc_placing *placing, sc_value value,
                               uint32_t sub_axis)
{
    for (;;) { /* terminates: operands precede their op */
        const sc_op *op = sc_op_at(m, sc_def(m, value));
        sc_value brings = SC_NONE;
        for (uint32_t i = op->operand_count; i-- > 0;)
            brings = sc_is_partial(sc_type_of(m, op->operands[i])->placement.on[sub_axis])
                         ? op->operands[i]
                         : brings;
        if (brings == SC_NONE)
            break;
        value = brings;
    }
    if (sc_op_at(m, sc_def(m, value))->operand_count == 0)
        return (sc_reason){SC_NONE, 0};
    const sc_placement made = sc_type_of(m, value)->placement;
    sc_placement wanted = made;
    wanted.on[sub_axis] = SC_ON_NOTHING;
    return sc_reason_of_result(m, placing, value, &made, &wanted);
}

uint32_t sc_reason_attrs(const sc_module *m, sc_value value, const sc_reason *reason,
                         sc_attr *attrs)
{
    uint32_t count = 0;
    sc_sym path = sc_value_path(m, value);
    if (reason->rule != SC_NONE)
        attrs[count++] = sc_attr_int(SC_ATTR_rule, reason->rule);
    attrs[count++] = sc_attr_text(SC_ATTR_why, reason->why);
    if (path != 0)
        attrs[count++] = sc_attr_text(SC_ATTR_moves, path);
    return count;
}
