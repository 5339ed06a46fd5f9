/* expand-forms: replaces an op that needs its sharded form by that form.
 *
 *   %2 = logsumexp[V] %1 {split = [V@tp]}   ->   %3 = max[V] %1 {split = [V@tp], form = 0}
 *                                                     (a partial max, reduced next)
 *                                                %4 = sub %1, %3 ..  %5 = exp ..  %6 = sum[V] ..
 *                                                     (a partial sum, reduced next)
 *
 * The form is the op's own definition (`expand` in its row), or the one that a plan asks for, whose
 * mark the op has (ir/ops/forms.def). Each new op is split like the original, by dim name; results
 * of reductions over the split dim are replicated. A `use` gives the last value the original
 * result's name and placement. Terminates because what an expansion emits is not visited. */
#include "ir/ops/forms.h"
#include "passes/assign.h"
#include "passes/pass.h"
#include "passes/uses.h"

#include <string.h>

typedef void expand_function(sc_expand *expand);

typedef struct expansion {
    sc_module *m;
    sc_op_id op;               /* the op being expanded */
    const sc_factors *factors; /* its factors */
    const sc_assignment *assignment;
    int64_t form;
    uint32_t rule; /* the line that asks for the form; SC_NONE: none does */
    sc_expand *expand;
} expansion;

/* True if the factor splits this dim of an operand, maybe under another name. */
static bool has_dim(const sc_module *m, const sc_op *op, const sc_factor *factor, sc_dim dim)
{
    bool found = factor->dim == dim;
    for (uint32_t o = 0; !found && o < op->operand_count; o++)
        found = factor->operand[o] >= 0 &&
                sc_type_of(m, op->operands[o])->dims[factor->operand[o]].dim == dim;
    return found;
}

static sc_sub_axis_list split_of(const sc_module *m, sc_op_id op, const sc_factors *factors,
                                 const sc_assignment *assignment, sc_dim dim)
{
    for (uint32_t f = 0; f < factors->count; f++) {
        if (assignment->split[f].count > 0 && has_dim(m, sc_op_at(m, op), &factors->list[f], dim))
            return assignment->split[f];
    }
    return (sc_sub_axis_list){0};
}

static sc_sub_axis_list split_of_dim(const expansion *x, sc_dim made_dim, sc_dim dim)
{
    if (dim == made_dim) /* a dim of the expansion, split like the op's first one */
        dim = sc_op_attr(sc_op_at(x->m, x->op), SC_ATTR_dims)->dims[0];
    return split_of(x->m, x->op, x->factors, x->assignment, dim);
}

static void copy_phase(sc_module *m, sc_op_id to, sc_op_id from)
{
    const sc_attr *phase = sc_op_attr(sc_op_at(m, from), SC_ATTR_phase);
    if (phase != NULL)
        sc_op_set_attr(m, to, *phase);
}

static void place_made(sc_emitter *emitter, sc_op_id made)
{
    expansion *x = emitter->user;
    sc_module *m = emitter->m;
    sc_factors factors;
    sc_assignment assignment = {0};
    sc_op_factors(m, sc_op_at(m, made), &factors);
    for (uint32_t f = 0; f < factors.count; f++) {
        if (factors.list[f].role != SC_ROLE_WHOLE)
            assignment.split[f] = split_of_dim(x, x->expand->made_dim, factors.list[f].dim);
    }
    sc_assignment_store(m, made, &factors, &assignment);
    sc_op_set_attr(m, made, sc_attr_int(SC_ATTR_form, x->form));
    copy_phase(m, made, x->op);
    if (x->rule != SC_NONE && sc_op_has(sc_op_at(m, made), SC_COLLECTIVE))
        sc_op_set_attr(m, made, sc_attr_int(SC_ATTR_rule, x->rule));
    for (uint32_t r = 0; r < sc_op_at(m, made)->result_count; r++) {
        sc_placement at = sc_assigned_result(m, &factors, &assignment, sc_op_at(m, made), r);
        for (uint32_t a = 0; a < SC_MAX_SUB_AXES; a++)
            at.on[a] = sc_is_partial(at.on[a]) ? SC_ON_NOTHING : at.on[a];
        sc_value value = sc_result(m, made, r);
        m->values.data[value].type = sc_type_with_placement(m, m->values.data[value].type, &at);
    }
}

static bool needs_form(const sc_factors *factors, const sc_assignment *assignment)
{
    for (uint32_t f = 0; f < factors->count; f++) {
        if (factors->list[f].role == SC_ROLE_FORM && assignment->split[f].count > 0)
            return true;
    }
    return false;
}

/* What replaces the op: the form of which it has the mark, where that splits its first dim; or its
 * definition, where a dim is split that it needs whole. NULL: nothing. */
static expand_function *find_expansion(const sc_module *m, sc_op_id op, const sc_factors *factors,
                                       const sc_assignment *assignment)
{
    const sc_op *o = sc_op_at(m, op);
    expand_function *form = sc_form_expansion(o);
    if (form != NULL &&
        split_of(m, op, factors, assignment, sc_op_attr(o, SC_ATTR_dims)->dims[0]).count > 0)
        return form;
    return needs_form(factors, assignment) ? sc_op_functions[o->kind].expand : NULL;
}

/* Makes the op gather the dims that the form would have split. */
static void keep_whole(sc_module *m, sc_op_id op, const sc_factors *factors,
                       sc_assignment *assignment)
{
    for (uint32_t f = 0; f < factors->count; f++)
        assignment->split[f].count =
            factors->list[f].role == SC_ROLE_FORM ? 0 : assignment->split[f].count;
    sc_op_drop_attr(m, op, SC_ATTR_split);
    sc_assignment_store(m, op, factors, assignment);
}

/* Emits a `use` with the name and placement of the old result. */
static sc_value name_result(sc_module *m, sc_op_id op, sc_value made, sc_value old)
{
    sc_type type = m->values.data[old].type;
    sc_op_id use =
        sc_op_new(m, m->ops.data[op].func, op, SC_OP_use, &made, 1, NULL, 0, &type, 1, op);
    sc_factors factors;
    sc_assignment assignment = {0};
    sc_op_factors(m, sc_op_at(m, use), &factors);
    const sc_placement at = sc_type_of(m, made)->placement;
    for (uint32_t f = 0; f < factors.count; f++)
        assignment.split[f] = sc_placement_dim(&at, (uint32_t)factors.list[f].operand[0]);
    sc_assignment_store(m, use, &factors, &assignment);
    copy_phase(m, use, op);
    m->values.data[sc_result(m, use, 0)].path = m->values.data[old].path;
    return sc_result(m, use, 0);
}

/* ---- what a plan asks for ---- */

static bool report_form(sc_module *m, uint32_t rule, const char *text)
{
    sc_report(&m->context->diag, SC_D_bad_form, m->rules.data[rule].loc, text, NULL);
    return false;
}

/* A ring goes over all sub-axes that split its dim: those of no line too, but not those that
 * another line gives another form. Its members are one digit of the rank: the sub-axes are
 * neighbours. */
static bool check_ring(sc_module *m, const sc_pass_env *env, sc_op_id op,
                       const sc_sub_axis_list *split)
{
    const sc_attr *ring = sc_op_attr(sc_op_at(m, op), SC_ATTR_ring);
    uint32_t rule = sc_form_rule(env->placing, op, ring->sub_axes[0]);
    if (rule == SC_NONE) /* not of a plan */
        return true;
    for (uint32_t i = 0; i < split->count; i++) {
        uint8_t here = split->sub_axes[i];
        uint32_t other = sc_form_rule(env->placing, op, here);
        const char *name = sc_text(m->context, m->mesh.axes[m->mesh.sub_axes[here].axis].name);
        if (other != SC_NONE && other != rule && memchr(ring->sub_axes, here, ring->count) == NULL)
            return report_form(
                m, rule,
                sc_arena_printf(&m->context->arena,
                                "a ring goes over all axes that split its "
                                "positions, and another line gives '%s' another form",
                                name));
        if (i > 0 && sc_mesh_stride(&m->mesh, split->sub_axes[i - 1]) !=
                         sc_mesh_stride(&m->mesh, here) * m->mesh.sub_axes[here].size)
            return report_form(
                m, rule,
                sc_arena_printf(&m->context->arena,
                                "a ring goes over all axes that split its "
                                "positions; '%s' is not next to the one before it in "
                                "the mesh",
                                name));
    }
    return true;
}

/* ---- the pass ---- */

/* Emits the expansion and names its results in `map`; false after a diagnostic. */
static bool replace_op(sc_module *m, const sc_pass_env *env, sc_op_id op, int64_t form,
                       expand_function *replace, expansion *x, sc_value *map)
{
    sc_expand expand = {.split = split_of(m, op, x->factors, x->assignment,
                                          sc_op_attr(sc_op_at(m, op), SC_ATTR_dims)->dims[0]),
                        .made_dim = SC_NONE,
                        .may_decline = true};
    expand.shards = sc_sub_axis_list_size(&m->mesh, &expand.split);
    if (sc_op_attr(sc_op_at(m, op), SC_ATTR_ring) != NULL && !check_ring(m, env, op, &expand.split))
        return false;
    x->form = form;
    x->expand = &expand;
    x->rule = expand.split.count == 0 ? SC_NONE
                                      : sc_form_rule(env->placing, op, expand.split.sub_axes[0]);
    expand.e = (sc_emitter){.m = m,
                            .func = sc_op_at(m, op)->func,
                            .before = op,
                            .like = op,
                            .made = place_made,
                            .user = x};
    replace(&expand);
    if (expand.results[0] == SC_NONE) {
        sc_assignment whole = *x->assignment;
        keep_whole(m, op, x->factors, &whole);
        return true;
    }
    for (uint32_t r = 0; r < m->ops.data[op].result_count; r++)
        map[sc_result(m, op, r)] = name_result(m, op, expand.results[r], sc_result(m, op, r));
    sc_op_unlink(m, op);
    return true;
}

bool sc_run_expand_forms(sc_module *m, sc_pass_env *env)
{
    int64_t forms = 0;
    uint32_t old_values;
    sc_value *map = sc_new_value_map(m, &old_values);
    for (sc_func_id f = 0; f < m->funcs.count; f++) {
        sc_for_each_op (m, f, op) {
            sc_factors factors;
            sc_assignment assignment;
            sc_op_factors(m, sc_op_at(m, op), &factors);
            sc_assignment_load(m, op, &factors, &assignment);
            expand_function *replace = find_expansion(m, op, &factors, &assignment);
            expansion x = {.m = m, .op = op, .factors = &factors, .assignment = &assignment};
            if (replace != NULL && !replace_op(m, env, op, forms++, replace, &x, map))
                return false;
        }
        if (forms > 0)
            sc_func_replace_uses(m, f, map, old_values);
    }
    return true;
}
