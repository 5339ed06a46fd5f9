/* Gives ops their sharded forms (ir/ops/forms.def), at the end of propagation: those that lines of
 * the plan ask for; and of what no line names, the form that sends least, forward and, in a train
 * step, backward.
 *
 *   attend %q, %k, %v, of positions split over cp = 4
 *       gather 24 KiB, ring 24 KiB, heads 18 KiB: heads, so that the op splits H over cp
 *
 * A form is chosen by cost for an op that one axis splits as the first form in the table does,
 * which is what ordinary propagation makes of it, and where sub-axes of the mesh split the dims of
 * the form as they are. */
#include "ir/ops/forms.h"
#include "passes/propagate.h"

#include <string.h>

/* ---- one form ---- */
/* The sub-axes that split the value along dims that the op's attributes name. */
static sc_sub_axis_set sub_axes_of(const sc_propagation *p, const sc_op *op, sc_value value)
{
    const sc_type_info *type = sc_type_of(p->m, value);
    const sc_placement *at = &p->placing->at[value];
    sc_sub_axis_set set = 0;
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        if (at->on[a] < type->rank &&
            (sc_attr_has_dim(sc_op_attr(op, SC_ATTR_dims), type->dims[at->on[a]].dim) ||
             sc_attr_has_dim(sc_op_attr(op, SC_ATTR_to), type->dims[at->on[a]].dim)))
            set |= (sc_sub_axis_set)1 << a;
    }
    return set;
}

/* The sub-axes over which operands or results of the op are split by position: attention that is
 * split by heads or batch only needs no form. */
static sc_sub_axis_set sub_axes_at(const sc_propagation *p, const sc_op *op)
{
    sc_sub_axis_set at = 0;
    for (uint32_t o = 0; o < op->operand_count; o++)
        at |= sub_axes_of(p, op, op->operands[o]);
    for (uint32_t r = 0; r < op->result_count; r++)
        at |= sub_axes_of(p, op, op->first_result + r);
    return at;
}

/* Marks the op of a form that splits nothing: whether it has an effect is seen where collectives
 * are. */
static void mark_only(sc_propagation *p, const sc_form_seed *seed)
{
    const sc_sub_axis_list *list = &seed->splits[0].sub_axes;
    const sc_attr_key key = (sc_attr_key)sc_forms[seed->form].mark;
    const sc_op *op = sc_op_at(p->m, seed->op);
    const sc_attr *marked = sc_op_attr(op, key), *by = sc_op_attr(op, SC_ATTR_lines);
    uint8_t sub_axes[SC_MAX_SUB_AXES];
    int64_t lines[SC_MAX_SUB_AXES];
    uint32_t count = marked == NULL || by == NULL ? 0 : marked->count;
    for (uint32_t i = 0; i < count; i++) {
        sub_axes[i] = marked->sub_axes[i];
        lines[i] = by->ints[i];
    }
    for (uint32_t i = 0; i < list->count; i++) { /* no two lines name an axis */
        sub_axes[count] = list->sub_axes[i];
        lines[count++] = seed->rule;
    }
    sc_op_set_attr(p->m, seed->op, sc_attr_sub_axes(p->m, key, sub_axes, count));
    sc_op_set_attr(p->m, seed->op, sc_attr_ints(p->m, SC_ATTR_lines, lines, count));
}

static void give_form(sc_propagation *p, const sc_form_seed *seed)
{
    sc_placing *placing = p->placing;
    sc_sub_axis_list marked = {0};
    placing->is_form[seed->rule] = true;
    if (sc_forms[seed->form].dims == NULL) {
        mark_only(p, seed);
        return;
    }
    sc_sub_axis_set at = sub_axes_at(p, sc_op_at(p->m, seed->op));
    for (uint32_t i = 0; i < seed->split_count; i++) {
        const sc_sub_axis_list *list = &seed->splits[i].sub_axes;
        for (uint32_t a = 0; a < list->count; a++) {
            uint32_t sub_axis = list->sub_axes[a];
            if ((at >> sub_axis & 1) == 0)
                continue;
            sc_lock_sub_axis(p, seed->op, sub_axis, seed->splits[i].dim, a);
            placing->lock_rules[(size_t)seed->op * placing->sub_axis_count + sub_axis] = seed->rule;
            placing->acted[seed->rule] = true;
            marked.sub_axes[marked.count++] = (uint8_t)sub_axis;
        }
    }
    if (marked.count > 0 && sc_forms[seed->form].mark >= 0)
        sc_op_set_attr(p->m, seed->op,
                       sc_attr_sub_axes(p->m, (sc_attr_key)sc_forms[seed->form].mark,
                                        marked.sub_axes, marked.count));
}

/* Returns a sub-axis that the form's rule gives the op and its dims do not take, because others
 * split them so far that it does not divide the rest; SC_NONE: there is none. */
static uint32_t find_left_out(const sc_propagation *p, const sc_form_seed *seed,
                              const sc_factors *factors, const sc_assignment *assignment)
{
    for (uint32_t a = 0; a < p->placing->sub_axis_count; a++) {
        size_t slot = (size_t)seed->op * p->placing->sub_axis_count + a;
        bool is_split = p->placing->lock_rules[slot] != seed->rule;
        for (uint32_t f = 0; f < factors->count && !is_split; f++)
            is_split = sc_sub_axis_list_has(&assignment->split[f], a);
        if (!is_split)
            return a;
    }
    return SC_NONE;
}

static void assign(sc_propagation *p, sc_op_id op, sc_factors *factors, sc_assignment *assignment)
{
    sc_op_factors(p->m, sc_op_at(p->m, op), factors);
    sc_assign(&p->assigner, op, factors, assignment);
}

static bool report_left_out(const sc_propagation *p, const sc_form_seed *seed, uint32_t sub_axis)
{
    sc_context *context = p->m->context;
    const sc_rule_ref *rule = &p->m->rules.data[seed->rule];
    sc_sym path = p->m->values.data[sc_result(p->m, seed->op, 0)].path;
    const char *what =
        path != 0 ? sc_text(context, path) : sc_ops[sc_op_at(p->m, seed->op)->kind].name;
    sc_dim dim = p->placing->locks[(size_t)seed->op * p->placing->sub_axis_count + sub_axis];
    const char *axis = sc_text(context, p->m->mesh.axes[p->m->mesh.sub_axes[sub_axis].axis].name);
    sc_report(&context->diag, SC_D_bad_form, rule->loc,
              sc_arena_printf(&context->arena,
                              "'%s' cannot be computed by %s: other lines split %s so far that "
                              "'%s' does not divide the rest",
                              what, sc_forms[seed->form].name,
                              sc_text(context, p->m->dims.data[dim].name), axis),
              NULL);
    return false;
}

/* Statistics for the backward pass are kept as they are computed. */
static bool settle_form(sc_propagation *p, const sc_form_seed *seed)
{
    const sc_op *op = sc_op_at(p->m, seed->op);
    sc_factors factors;
    sc_assignment assignment;
    assign(p, seed->op, &factors, &assignment);
    for (uint32_t r = 1; r < op->result_count; r++)
        p->placing->at[op->first_result + r] =
            sc_assigned_result(p->m, &factors, &assignment, op, r);
    uint32_t left_out = find_left_out(p, seed, &factors, &assignment);
    return left_out == SC_NONE || report_left_out(p, seed, left_out);
}

/* ---- by cost ---- */
/* An op that no line names, over an axis that splits it as its first form does. */
typedef struct free_op {
    sc_op_id op;
    uint32_t axis;
    uint32_t group; /* of ops that take one form */
} free_op;

typedef struct choosing {
    sc_propagation *p;
    const bool *of_inputs;
    bool trains;
    bool *is_named; /* per op: a line names it */
    SC_VEC(free_op) ops;
    SC_VEC(sc_form_prices) groups; /* of all ops together */
    sc_map by_value, rules;
} choosing;

/* The types of an op's operands and result as propagation has placed them. */
static sc_form_site site_of(const sc_propagation *p, sc_op_id id, uint32_t axis,
                            sc_type_info *types)
{
    const sc_op *op = sc_op_at(p->m, id);
    for (uint32_t v = 0; v <= op->operand_count; v++) {
        sc_value value = v < op->operand_count ? op->operands[v] : op->first_result;
        types[v] = *sc_type_of(p->m, value);
        types[v].placement = p->placing->at[value];
    }
    return (sc_form_site){p->m, op, axis, types, &types[op->operand_count]};
}

/* True if the op is split by position over the whole axis, as its first form splits it. */
static bool is_first(choosing *c, sc_op_id id, uint32_t axis, sc_form_id form)
{
    sc_propagation *p = c->p;
    const sc_axis *x = &p->m->mesh.axes[axis];
    const sc_op *op = sc_op_at(p->m, id);
    const sc_sub_axis_set at = sub_axes_at(p, op);
    sc_factors factors;
    sc_assignment assignment;
    assign(p, id, &factors, &assignment);
    for (uint32_t a = 0; a < x->sub_axis_count; a++) {
        const uint32_t sub_axis = x->first_sub_axis + a;
        bool splits = false;
        for (uint32_t f = 0; f < factors.count; f++)
            splits = splits || (sc_sub_axis_list_has(&assignment.split[f], sub_axis) &&
                                sc_form_splits(p->m, op, form, c->of_inputs, factors.list[f].dim));
        if (!splits || (at >> sub_axis & 1) == 0)
            return false;
    }
    return x->sub_axis_count > 0 && x->size > 1;
}

/* Adds an op's prices to those of its group. A form that one of them cannot have is none's. */
static void add_prices(choosing *c, uint32_t group, const sc_form_prices *prices)
{
    if (group == c->groups.count) {
        *sc_vec_push(&c->p->m->context->arena, &c->groups) = *prices;
        return;
    }
    sc_form_prices *all = &c->groups.data[group];
    all->possible &= prices->possible;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        all->sent[f].forward += prices->sent[f].forward;
        all->sent[f].backward += prices->sent[f].backward;
        all->sent[f].spare += prices->sent[f].spare;
        all->barred[f] = all->barred[f] != NULL ? all->barred[f] : prices->barred[f];
    }
}

/* True if the op has its form already, from what made it. */
static bool has_form(const sc_op *op)
{
    const uint32_t forms = sc_forms_of((sc_op_kind)op->kind);
    bool found = false;
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++)
        found = found || ((forms >> f & 1) != 0 && sc_forms[f].mark >= 0 &&
                          sc_op_attr(op, (sc_attr_key)sc_forms[f].mark) != NULL);
    return found;
}

static void price_op(choosing *c, sc_op_id id)
{
    sc_propagation *p = c->p;
    const sc_op *op = sc_op_at(p->m, id);
    const sc_form_id first = sc_first_form((sc_op_kind)op->kind);
    sc_type_info *types = NULL;
    if (first == SC_FORM_COUNT || c->is_named[id] || has_form(op) || p->stage_of[id] != p->stage)
        return;
    const int together = sc_forms[first].together;
    for (uint32_t axis = 0; axis < p->m->mesh.axis_count; axis++) {
        if (!is_first(c, id, axis, first))
            continue;
        if (types == NULL)
            types = sc_arena_array(&p->m->context->arena, op->operand_count + 1, sizeof *types);
        sc_form_site site = site_of(p, id, axis, types);
        sc_form_prices prices;
        sc_form_price(&site, c->of_inputs, &prices);
        uint32_t group = c->groups.count;
        if (together >= 0)
            group = *sc_map_insert(
                &c->by_value, (uint64_t)op->operands[together] * SC_MAX_AXES + axis, group, NULL);
        add_prices(c, group, &prices);
        *sc_vec_push(&p->m->context->arena, &c->ops) = (free_op){id, axis, group};
    }
}

/* The rule that says why ops of this place in the program have the form. */
static uint32_t rule_of_choice(choosing *c, const free_op *one, sc_form_id form)
{
    sc_module *m = c->p->m;
    sc_placing *placing = c->p->placing;
    const sc_op *op = sc_op_at(m, one->op);
    const uint64_t key = ((uint64_t)op->loc.begin * SC_MAX_AXES + one->axis) * SC_FORM_COUNT + form;
    bool is_new;
    uint32_t *rule = sc_map_insert(&c->rules, key, m->rules.count, &is_new);
    if (!is_new)
        return *rule;
    sc_arena *arena = &m->context->arena;
    const uint32_t count = m->rules.count;
    sc_module_add_rule(
        m,
        sc_arena_printf(arena, "%s over %s sends less than other forms of %s", sc_forms[form].name,
                        sc_text(m->context, m->mesh.axes[one->axis].name), sc_ops[op->kind].name),
        op->loc);
    bool *acted = sc_arena_array(arena, count + 1, sizeof *acted),
         *is_form = sc_arena_array(arena, count + 1, sizeof *is_form);
    if (count > 0) {
        memcpy(acted, placing->acted, count * sizeof *acted);
        memcpy(is_form, placing->is_form, count * sizeof *is_form);
    }
    is_form[count] = true;
    placing->acted = acted;
    placing->is_form = is_form;
    return count;
}

/* Gives the op the form; takes it back if the op's dims are split too far for it. */
static void give_choice(choosing *c, const free_op *one, sc_form_id form)
{
    sc_propagation *p = c->p;
    const size_t begin = (size_t)one->op * p->placing->sub_axis_count;
    sc_type_info *types = sc_arena_array(&p->m->context->arena,
                                         sc_op_at(p->m, one->op)->operand_count + 1, sizeof *types);
    const sc_form_site site = site_of(p, one->op, one->axis, types);
    sc_split splits[SC_MAX_RANK];
    sc_form_seed seed = {.op = one->op, .form = form, .splits = splits};
    sc_dim locks[SC_MAX_SUB_AXES];
    uint8_t orders[SC_MAX_SUB_AXES];
    uint32_t rules[SC_MAX_SUB_AXES];
    sc_factors factors;
    sc_assignment assignment;
    const uint32_t count = p->placing->sub_axis_count;
    memcpy(locks, p->placing->locks + begin, count * sizeof *locks);
    memcpy(orders, p->placing->lock_orders + begin, count * sizeof *orders);
    memcpy(rules, p->placing->lock_rules + begin, count * sizeof *rules);
    if (!sc_form_place(&site, form, c->of_inputs, splits, &seed.split_count))
        return;
    seed.rule = rule_of_choice(c, one, form);
    give_form(p, &seed);
    assign(p, one->op, &factors, &assignment);
    if (find_left_out(p, &seed, &factors, &assignment) == SC_NONE) {
        settle_form(p, &seed);
        return;
    }
    memcpy(p->placing->locks + begin, locks, count * sizeof *locks);
    memcpy(p->placing->lock_orders + begin, orders, count * sizeof *orders);
    memcpy(p->placing->lock_rules + begin, rules, count * sizeof *rules);
    if (sc_forms[form].mark >= 0)
        sc_op_drop_attr(p->m, one->op, (sc_attr_key)sc_forms[form].mark);
}

/* Ops that no line names take the form that sends least. */
static void choose_forms(sc_propagation *p, const sc_seeds *seeds, bool trains)
{
    sc_arena *arena = &p->m->context->arena;
    choosing c = {
        .p = p, .trains = trains, .by_value = {.arena = arena}, .rules = {.arena = arena}};
    c.of_inputs = sc_dims_of_inputs(p->m);
    c.is_named = sc_arena_array(arena, p->placing->op_count, sizeof *c.is_named);
    for (uint32_t i = 0; i < seeds->forms.count; i++)
        c.is_named[seeds->forms.data[i].op] = true;
    for (sc_func_id f = 0; f < p->m->funcs.count; f++) {
        sc_for_each_op (p->m, f, op)
            price_op(&c, op);
    }
    for (uint32_t i = 0; i < c.ops.count; i++) {
        const free_op *one = &c.ops.data[i];
        sc_op_kind kind = (sc_op_kind)sc_op_at(p->m, one->op)->kind;
        sc_form_id form = sc_form_cheapest(&c.groups.data[one->group], c.trains, false);
        if (form != SC_FORM_COUNT && form != sc_first_form(kind))
            give_choice(&c, one, form);
    }
}

/* Forms decide last: they change how an op is computed, and no other placement. */
bool sc_lay_forms(sc_propagation *p, const sc_seeds *seeds, bool trains)
{
    for (uint32_t i = 0; i < seeds->forms.count; i++)
        give_form(p, &seeds->forms.data[i]);
    for (uint32_t i = 0; i < seeds->forms.count; i++) {
        if (sc_forms[seeds->forms.data[i].form].dims != NULL &&
            !settle_form(p, &seeds->forms.data[i]))
            return false;
    }
    choose_forms(p, seeds, trains);
    return true;
}
