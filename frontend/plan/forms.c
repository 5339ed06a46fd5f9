/* Forms: `form layers.attn: heads over cp;` says how the ops in these paths are computed over an
 * axis that other lines give them. What a form splits is in ir/ops/forms.def; it takes effect at
 * the end of propagation, on the forward ops that still are split over the axis then. Derivatives
 * and recomputed copies have the form of their op. */
#include "ir/ops/forms.h"
#include "frontend/plan/internal.h"

#include <string.h>

/* ---- names ---- */
/* Returns the op with forms of which the value is the first result, or NULL. */
static const sc_op *op_with_forms(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    return op->first_result == value && sc_forms_of((sc_op_kind)op->kind) != 0 ? op : NULL;
}

/* Returns the form of this name among several (bits), or SC_FORM_COUNT. */
static sc_form_id form_called(const sc_context *context, uint32_t forms, sc_sym name)
{
    sc_form_id form = 0;
    while (form < SC_FORM_COUNT &&
           ((forms >> form & 1) == 0 || strcmp(sc_forms[form].name, sc_text(context, name)) != 0))
        form++;
    return form;
}

static const char *paths_text(sc_context *context, const sc_path_list *paths)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < paths->count; i++)
        sc_strbuf_printf(&text, "%s'%s'", i > 0 ? ", " : "",
                         sc_path_text(context, &paths->data[i]));
    return text.data;
}

/* Reports that no op has the form. `forms`: those that ops in the paths have; 0: none. */
static void report_no_form(sc_resolved_plan *plan, const sc_plan_stmt *stmt, uint32_t forms)
{
    sc_context *context = plan->context;
    const char *name = sc_text(context, stmt->form.name.text), *names[SC_FORM_COUNT];
    uint32_t listed = forms != 0 ? forms : (1u << SC_FORM_COUNT) - 1, count = 0;
    sc_strbuf list;
    sc_strbuf_init(&list, &context->arena);
    for (uint32_t f = 0; f < SC_FORM_COUNT; f++) {
        if ((listed >> f & 1) == 0)
            continue;
        names[count++] = sc_forms[f].name;
        sc_strbuf_printf(&list, "%s%s of %s (%s)", count > 1 ? ", " : "", sc_forms[f].name,
                         sc_ops[sc_forms[f].op].name, sc_forms[f].summary);
    }
    const char *near = forms == 0 ? NULL : sc_nearest(name, names, count);
    const char *said =
        forms == 0
            ? sc_arena_printf(&context->arena, "no op in %s has sharded forms",
                              paths_text(context, &stmt->in))
            : sc_arena_printf(&context->arena, "no op in %s has a form '%s'%s",
                              paths_text(context, &stmt->in), name,
                              near == NULL
                                  ? ""
                                  : sc_arena_printf(&context->arena, "; did you mean '%s'?", near));
    sc_report(&context->diag, SC_D_bad_form, stmt->form.name.loc, said, NULL);
    sc_report_note(&context->diag, (sc_loc){0}, "the forms %s are %s",
                   forms != 0 ? "there" : "that ops have", list.data);
}

void sc_plan_check_form(sc_resolved_plan *plan, sc_plan_line *line)
{
    line->broken = !sc_plan_axes(plan, &line->stmt->form.axes, &line->axes) ||
                   !sc_plan_check_paths(plan, &line->stmt->in, false);
}

/* ---- what other lines split ---- */
/* The ops of a line that have its form, in one entry, and the dims of their operands. */
typedef struct formed_ops {
    uint32_t forms; /* of all ops in the paths, one bit per sc_form_id */
    /* the first that has the line's form, if possible one that it splits; NULL: none */
    const sc_op *op;
    bool splits; /* the form splits a dim of `op` */
    bool *dims;  /* by dim: leaves, composites and their parts */
} formed_ops;

static void add_dims(const sc_module *m, const sc_op *op, bool *dims)
{
    for (uint32_t o = 0; o < op->operand_count; o++) {
        const sc_type_info *type = sc_type_of(m, op->operands[o]);
        for (uint32_t i = 0; i < type->rank; i++) {
            dims[type->dims[i].dim] = true;
            if (type->dims[i].group != SC_NONE)
                dims[type->dims[i].group] = true;
        }
    }
}

static formed_ops find_ops(sc_resolved_plan *plan, const sc_plan_view *view,
                           const sc_plan_stmt *stmt)
{
    formed_ops found = {
        .dims = sc_arena_array(&plan->context->arena, view->m->dims.count, sizeof *found.dims)};
    sc_plan_scope scope = sc_plan_scope_make(plan->context, view, &stmt->in);
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        const sc_op *op = op_with_forms(view->m, value);
        if (op == NULL || sc_plan_scope_match(&scope, view->places[value]) == SC_PATH_NO)
            continue;
        uint32_t forms = sc_forms_of((sc_op_kind)op->kind);
        found.forms |= forms;
        sc_form_id form = form_called(plan->context, forms, stmt->form.name.text);
        if (form == SC_FORM_COUNT)
            continue;
        bool splits = sc_forms[form].dims != NULL;
        if (found.op == NULL || (splits && !found.splits))
            found.op = op;
        found.splits = found.splits || splits;
        add_dims(view->m, op, found.dims);
    }
    return found;
}

static bool names_dim(const sc_module *m, const sc_name *name, const bool *dims)
{
    sc_dim dim = sc_module_find_dim(m, name->text);
    return dim != SC_NONE && dims[dim];
}

static bool names_axis(const sc_resolved_plan *plan, const sc_name_list *names, uint8_t axis)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->data[i].text == plan->mesh.axes[axis].name)
            return true;
    }
    return false;
}

/* True if the line may split one of the dims over the axis. A style may, whatever it says. */
static bool may_split(const sc_resolved_plan *plan, const sc_plan_line *line, const sc_module *m,
                      uint8_t axis, const bool *dims)
{
    const sc_plan_stmt *stmt = line->stmt;
    bool found = false;
    if (stmt->kind == SC_PLAN_PIN) {
        for (uint32_t d = 0; d < stmt->pin.shape->dims.count; d++) {
            const sc_dimref *dim = &stmt->pin.shape->dims.data[d];
            found = found || (!dim->rest && names_axis(plan, &dim->axes, axis) &&
                              names_dim(m, &dim->dim, dims));
        }
        return found;
    }
    if ((sc_axis_list_set(&line->axes) >> axis & 1) == 0 || stmt->kind == SC_PLAN_FORM)
        return false;
    if (stmt->kind == SC_PLAN_STYLE || stmt->shard.star)
        return stmt->kind == SC_PLAN_STYLE || !sc_plan_rule_only_stores(stmt);
    for (uint32_t d = 0; d < stmt->shard.dims.count; d++)
        found = found || names_dim(m, &stmt->shard.dims.data[d], dims);
    return found && !sc_plan_rule_only_stores(stmt);
}

/* True if a line, or the model's text, may split one of the dims over the axis. */
static bool is_split(const sc_resolved_plan *plan, const sc_module *m, uint8_t axis,
                     const bool *dims)
{
    bool found = plan->mesh.axes[axis].size == 1;
    for (uint32_t i = 0; i < plan->pinned_axes.count && !found; i++)
        found = plan->pinned_axes.data[i] == plan->mesh.axes[axis].name;
    for (uint32_t i = 0; i < plan->lines.count && !found; i++)
        found = plan->lines.data[i].broken || may_split(plan, &plan->lines.data[i], m, axis, dims);
    return found;
}

static void report_unsplit(sc_resolved_plan *plan, const sc_plan_stmt *stmt, const sc_module *m,
                           const sc_op *op, uint32_t axis)
{
    sc_context *context = plan->context;
    const char *name = sc_text(context, stmt->form.axes.data[axis].text);
    sc_report(&context->diag, SC_D_bad_form, stmt->form.axes.data[axis].loc,
              sc_arena_printf(&context->arena, "no line splits a dim of the %s in %s over '%s'",
                              sc_ops[op->kind].name, paths_text(context, &stmt->in), name),
              NULL);
    const sc_attr *to = sc_op_attr(op, SC_ATTR_to);
    sc_report_note(&context->diag, (sc_loc){0},
                   "a form says how an op is computed that other lines split, as 'shard act, input "
                   "%s over %s;' does",
                   to == NULL ? "DIM" : sc_text(context, m->dims.data[to->dims[0]].name), name);
}

/* Checks that some entry has an op with the form, and for each axis one that is split over it. */
static bool check_form(sc_resolved_plan *plan, const sc_plan_line *line)
{
    const sc_plan_stmt *stmt = line->stmt;
    uint32_t forms = 0;
    sc_axis_set split = 0;
    const sc_op *op = NULL;
    const sc_module *m = NULL;
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        formed_ops found = find_ops(plan, view, stmt);
        forms |= found.forms;
        op = op == NULL ? found.op : op;
        m = view->m;
        for (uint32_t a = 0; a < line->axes.count; a++) {
            if (is_split(plan, view->m, line->axes.axes[a], found.dims))
                split = (sc_axis_set)(split | 1u << line->axes.axes[a]);
        }
    }
    if (op == NULL) {
        report_no_form(plan, stmt, forms);
        return false;
    }
    for (uint32_t a = 0; a < line->axes.count; a++) {
        if ((split >> line->axes.axes[a] & 1) != 0)
            continue;
        report_unsplit(plan, stmt, m, op, a);
        return false;
    }
    return true;
}

void sc_plan_check_forms(sc_resolved_plan *plan)
{
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        sc_plan_line *line = &plan->lines.data[i];
        if (line->stmt->kind == SC_PLAN_FORM && !line->broken && plan->entries.count > 0)
            line->broken = !check_form(plan, line);
    }
}

/* ---- on a function ---- */
typedef struct forming {
    sc_seeding *s;
    const sc_plan_line *source;
    uint32_t line;
    sc_axis_set over;
    sc_map seen; /* values that the walk below has met */
} forming;

/* Appends the axes, without those of the form, by which lines split the dim of a value and of what
 * it is made from. Dims of heads are met between weights and attention only. */
static void add_axes_besides(forming *f, sc_value value, sc_dim dim, sc_axis_list *axes)
{
    const sc_seeding *s = f->s;
    bool is_new;
    sc_map_insert(&f->seen, value, 0, &is_new);
    if (!is_new || value >= s->view->value_count)
        return;
    for (uint32_t t = s->last_taken[value]; t != 0; t = s->taken.data[t - 1].before) {
        const sc_claim_split *split = s->taken.data[t - 1].split;
        if (split->dim != dim && !sc_dim_has_part(s->m, dim, split->dim) &&
            !sc_dim_has_part(s->m, split->dim, dim))
            continue;
        for (uint32_t a = 0; a < split->axes.count; a++) {
            sc_axis_set known = (sc_axis_set)(sc_axis_list_set(axes) | f->over);
            if ((known >> split->axes.axes[a] & 1) == 0)
                axes->axes[axes->count++] = split->axes.axes[a];
        }
    }
    const sc_op *op = sc_op_at(s->m, sc_def(s->m, value));
    for (uint32_t o = 0; o < op->operand_count; o++) {
        if (sc_type_has_dim(s->m, sc_type_of(s->m, op->operands[o]), dim))
            add_axes_besides(f, op->operands[o], dim, axes);
    }
}

/* Returns the axes that split a dim of the op if the form's axes are minor to those of other
 * lines. */
static sc_axis_list axes_of(forming *f, sc_value operand, sc_dim dim, bool is_inner)
{
    sc_axis_list axes = {0};
    f->seen = (sc_map){.arena = &f->s->context->arena};
    if (is_inner)
        add_axes_besides(f, operand, dim, &axes);
    for (uint32_t a = 0; a < f->source->axes.count; a++)
        axes.axes[axes.count++] = f->source->axes.axes[a];
    return axes;
}

/* True if the axes divide the dim, perhaps padded. */
static bool fits(sc_seeding *s, sc_dim dim, const sc_axis_list *axes)
{
    uint64_t shards = sc_plan_axes_size(s->plan, axes);
    return sc_seeding_divides(s, dim, axes) ||
           (s->m->dims.data[dim].part_count == 0 &&
            (uint64_t)sc_dim_padded(s->m, dim, s->sizes[dim]) % shards == 0);
}

/* Chooses what the form splits: the first of its dims, composites as one, that all axes divide.
 * Returns false after reporting an error. */
static bool choose_split(forming *f, const sc_op *op, sc_form_id form, sc_claim_split *out)
{
    sc_seeding *s = f->s;
    const sc_plan_stmt *stmt = f->source->stmt;
    sc_form_dims dims;
    sc_group_dims groups;
    sc_claim_split first = {.dim = SC_NONE};
    sc_value operand = op->operands[sc_forms[form].operand];
    sc_forms[form].dims(s->m, op, s->of_inputs, &dims);
    sc_group_dims_of(sc_type_of(s->m, operand), &groups);
    for (uint32_t i = 0; i < groups.count; i++) {
        const sc_type_dim *leaf = &sc_type_of(s->m, operand)->dims[groups.list[i].first];
        bool is_allowed = false;
        for (uint32_t d = 0; d < dims.count; d++)
            is_allowed = is_allowed || dims.list[d] == leaf->dim;
        if (!is_allowed)
            continue;
        *out = (sc_claim_split){groups.list[i].dim,
                                axes_of(f, operand, groups.list[i].dim, !s->of_inputs[leaf->dim])};
        if (fits(s, out->dim, &out->axes) || s->of_inputs[leaf->dim])
            return true;
        first = first.dim == SC_NONE ? *out : first;
    }
    if (first.dim != SC_NONE) {
        sc_seeding_report_misfit(s, first.dim, &first.axes, stmt->form.name.loc);
        return false;
    }
    sc_report(&s->context->diag, SC_D_bad_form, stmt->form.name.loc,
              sc_arena_printf(&s->context->arena,
                              "this %s has no %s to split: its queries are %s, and every dim of "
                              "them but the contracted one is also a dim of an input",
                              sc_ops[op->kind].name, sc_forms[form].name,
                              sc_plan_shape_text(s->m, sc_type_of(s->m, op->operands[0]))),
              NULL);
    sc_report_note(&s->context->diag, op->loc, "it is here");
    return false;
}

/* Records that the line gives the op its form over its axes. Returns false after reporting a second
 * line that does. */
static bool note_line(forming *f, sc_op_id op)
{
    sc_seeding *s = f->s;
    for (uint32_t a = 0; a < f->source->axes.count; a++) {
        bool is_new;
        uint8_t axis = f->source->axes.axes[a];
        uint32_t first = *sc_map_insert(&s->formed, (uint64_t)op << 8 | axis, f->line, &is_new);
        if (is_new)
            continue;
        sc_report(&s->context->diag, SC_D_bad_form, f->source->stmt->loc,
                  sc_arena_printf(&s->context->arena,
                                  "two lines give %s a form over '%s'; name other paths or axes in "
                                  "one of them",
                                  sc_seeding_value_text(s, sc_result(s->m, op, 0)),
                                  sc_text(s->context, s->plan->mesh.axes[axis].name)),
                  NULL);
        sc_report_note(&s->context->diag, sc_seeding_line_loc(s, first), "the other line is here");
        return false;
    }
    return true;
}

static sc_axis_list without_unit_axes(const sc_resolved_plan *plan, const sc_axis_list *axes)
{
    sc_axis_list kept = {0};
    for (uint32_t a = 0; a < axes->count; a++) {
        if (plan->mesh.axes[axes->axes[a]].size > 1)
            kept.axes[kept.count++] = axes->axes[a];
    }
    return kept;
}

void sc_seeding_form(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    sc_plan_line kept = *source;
    kept.axes = without_unit_axes(s->plan, &source->axes);
    forming f = {.s = s, .source = &kept, .line = line, .over = sc_axis_list_set(&kept.axes)};
    s->of_inputs = s->of_inputs == NULL ? sc_dims_of_inputs(s->m) : s->of_inputs;
    s->formed.arena = &s->context->arena;
    sc_plan_scope scope = sc_plan_scope_make(s->context, s->view, &source->stmt->in);
    for (uint32_t i = 0; i < scope.count; i++) {
        sc_value value = sc_plan_scope_value(&scope, i);
        const sc_op *op = op_with_forms(s->m, value);
        if (kept.axes.count == 0 || op == NULL ||
            sc_plan_scope_match(&scope, s->view->places[value]) == SC_PATH_NO)
            continue;
        sc_form_claim claim = {.op = sc_def(s->m, value), .split.dim = SC_NONE, .over = f.over};
        claim.form = form_called(s->context, sc_forms_of((sc_op_kind)op->kind),
                                 source->stmt->form.name.text);
        if (claim.form == SC_FORM_COUNT)
            continue;
        if (!note_line(&f, claim.op) ||
            (sc_forms[claim.form].dims != NULL && !choose_split(&f, op, claim.form, &claim.split)))
            return;
        sc_seeding_give_form(s, line, &claim);
    }
}
