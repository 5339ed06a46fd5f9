/* Reports repeated lines of a plan and axes of its mesh that no line uses. Both depend on the text
 * alone, not on the compiled entry. */
#include "frontend/plan/internal.h"

#include <inttypes.h>

/* ---- axes ---- */
static void mark(sc_resolved_plan *plan, const sc_name_list *names)
{
    for (uint32_t i = 0; i < names->count; i++) {
        for (uint32_t a = 0; a < plan->mesh.axis_count; a++)
            plan->axis_used[a] =
                plan->axis_used[a] || plan->mesh.axes[a].name == names->data[i].text;
    }
}

static void mark_one(sc_resolved_plan *plan, sc_name name)
{
    mark(plan, &(sc_name_list){.data = &name, .count = 1});
}

/* Marks the axes that a statement uses. An `expect` uses none. A pin without `over` concerns every
 * axis but keeps the value whole on most, so only the axes in its shape count. */
static void mark_statement(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    switch (stmt->kind) {
    case SC_PLAN_SHARD:
        mark(plan, &stmt->shard.axes);
        break;
    case SC_PLAN_PIN:
        mark(plan, &stmt->pin.over);
        for (uint32_t d = 0; d < stmt->pin.shape->dims.count; d++)
            mark(plan, &stmt->pin.shape->dims.data[d].axes);
        break;
    case SC_PLAN_STYLE:
        mark_one(plan, stmt->style.axis);
        break;
    case SC_PLAN_STAGE:
        mark_one(plan, stmt->stage.axis);
        for (uint32_t a = 0; a < plan->mesh.axis_count; a++)
            plan->axis_staged[a] =
                plan->axis_staged[a] || plan->mesh.axes[a].name == stmt->stage.axis.text;
        break;
    default:
        break;
    }
}

/* Returns the first dim of the first input that has one (usually the batch); NULL if no input has
 * dims. */
static const char *first_input_dim(const sc_resolved_plan *plan)
{
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        for (uint32_t i = 0; i < view->values.count; i++) {
            sc_value value = view->values.data[i];
            sc_group_dims dims;
            sc_group_dims_of(sc_type_of(view->m, value), &dims);
            if (view->kinds[value] == 1u << SC_KIND_INPUT && dims.count > 0)
                return sc_text(plan->context, view->m->dims.data[dims.list[0].dim].name);
        }
    }
    return NULL;
}

void sc_plan_report_unused_axes(sc_resolved_plan *plan)
{
    sc_context *context = plan->context;
    if (plan->entries.count == 0)
        return;
    for (uint32_t i = 0; i < plan->plan->body.count; i++)
        mark_statement(plan, plan->plan->body.data[i]);
    for (uint32_t i = 0; i < plan->pinned_axes.count; i++)
        mark_one(plan, (sc_name){.text = plan->pinned_axes.data[i]});
    const char *dim = first_input_dim(plan);
    for (uint32_t a = 0; a < plan->mesh.axis_count; a++) {
        const sc_axis *axis = &plan->mesh.axes[a];
        if (plan->axis_used[a] || axis->size == 1)
            continue;
        const char *name = sc_text(context, axis->name);
        sc_report(&context->diag, SC_D_axis_unused, plan->axis_locs[a], name,
                  sc_arena_printf(&context->arena, "%" PRIu32, axis->size), NULL);
        sc_report_note(
            &context->diag, (sc_loc){0},
            "split something over it, as 'shard %s over %s;' does, or leave it out of the mesh",
            dim == NULL ? "DIM" : dim, name);
    }
}

sc_loc sc_plan_axis_loc(const sc_resolved_plan *plan, uint32_t axis)
{
    return plan->axis_locs[axis];
}

bool sc_plan_splits_over(const sc_resolved_plan *plan, uint32_t axis)
{
    return plan->axis_used[axis] && !plan->axis_staged[axis];
}

/* ---- lines ---- */
/* Splits a line into independent parts as text: a rule with several dims yields one per dim. */
static uint32_t say_apart(sc_context *context, const sc_plan_stmt *stmt, const char ***out)
{
    bool apart = stmt->kind == SC_PLAN_SHARD && !stmt->shard.star;
    uint32_t count = apart ? stmt->shard.dims.count : 1;
    *out = sc_arena_array(&context->arena, count, sizeof **out);
    for (uint32_t i = 0; i < count; i++) {
        sc_plan_stmt one = *stmt;
        if (apart) {
            one.shard.dims.data = &stmt->shard.dims.data[i];
            one.shard.dims.count = 1;
        }
        (*out)[i] = sc_arena_printf(&context->arena, "%d %s", (int)stmt->kind,
                                    sc_plan_line_text(context, &one));
    }
    return count;
}

enum { NOTED_REPEATS = 10 };

/* Notes lines that repeat earlier ones. Neither the order of lines nor that of a rule's dims
 * matters. */
void sc_plan_note_repeated_lines(sc_resolved_plan *plan)
{
    sc_context *context = plan->context;
    sc_map said = {.arena = &context->arena};
    plan->repeated = (sc_map){.arena = &context->arena};
    uint32_t repeats = 0;
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        const char **texts;
        uint32_t count = say_apart(context, plan->lines.data[i].stmt, &texts), known = 0,
                 first = SC_NONE;
        for (uint32_t k = 0; k < count; k++) {
            bool is_new;
            uint32_t by =
                *sc_map_insert(&said, sc_intern_text(&context->names, texts[k]), i, &is_new);
            known += !is_new;
            first = !is_new && first == SC_NONE ? by : first;
        }
        if (known < count || count == 0 || plan->lines.data[i].broken)
            continue;
        bool is_new;
        sc_map_insert(&plan->repeated, plan->lines.data[i].stmt->loc.begin, i, &is_new);
        if (repeats++ >= NOTED_REPEATS)
            continue;
        sc_report(&context->diag, SC_D_line_repeated, plan->lines.data[i].stmt->loc, NULL);
        sc_report_note(&context->diag, plan->lines.data[first].stmt->loc,
                       "it is first stated here");
    }
    if (repeats > NOTED_REPEATS)
        sc_report_note(&context->diag, (sc_loc){0},
                       "%u more lines of this plan repeat earlier ones", repeats - NOTED_REPEATS);
}

bool sc_plan_repeats_line(const sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    return sc_map_find(&plan->repeated, stmt->loc.begin) != NULL;
}
