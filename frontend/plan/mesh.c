/* The mesh of a plan: axes, their sizes, `auto`, and the effect of --mesh. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <string.h>

#define LARGEST_MESH ((uint64_t)1 << 40)

static void suggest_axes(const sc_resolved_plan *plan, sc_text_list *list)
{
    for (uint32_t i = 0; i < plan->mesh.axis_count; i++)
        sc_suggest_add(plan->context, list, plan->mesh.axes[i].name);
}

static int find_axis(const sc_resolved_plan *plan, sc_sym name)
{
    for (uint32_t i = 0; i < plan->mesh.axis_count; i++) {
        if (plan->mesh.axes[i].name == name)
            return (int)i;
    }
    return -1;
}

/* Returns "; did you mean 'tp'?", "; its axes are dp, tp" or "; it has none". */
static const char *axis_hint(const sc_resolved_plan *plan, sc_sym name)
{
    if (plan->mesh.axis_count == 0)
        return ": it has none; write 'mesh NAME = SIZE;'";
    sc_text_list list = {0};
    suggest_axes(plan, &list);
    const char *near = sc_suggest(plan->context, name, &list);
    if (near[0] != 0)
        return near;
    sc_axis_list all = {.count = plan->mesh.axis_count};
    for (uint8_t i = 0; i < all.count; i++)
        all.axes[i] = i;
    return sc_arena_printf(&plan->context->arena, "; its axes are %s",
                           sc_plan_axes_text(plan, &all));
}

int sc_plan_axis(const sc_resolved_plan *plan, const sc_name *name)
{
    int axis = find_axis(plan, name->text);
    if (axis < 0)
        sc_report(&plan->context->diag, SC_D_unknown_axis, name->loc,
                  sc_text(plan->context, name->text), axis_hint(plan, name->text), NULL);
    return axis;
}

bool sc_plan_axes(const sc_resolved_plan *plan, const sc_name_list *names, sc_axis_list *out)
{
    *out = (sc_axis_list){0};
    bool fine = true;
    for (uint32_t i = 0; i < names->count; i++) {
        const sc_name *name = &names->data[i];
        int axis = sc_plan_axis(plan, name);
        bool twice = axis >= 0 && memchr(out->axes, axis, out->count) != NULL;
        if (twice)
            sc_report(&plan->context->diag, SC_D_axis_twice, name->loc,
                      sc_text(plan->context, name->text), NULL);
        if (axis >= 0 && !twice)
            out->axes[out->count++] = (uint8_t)axis;
        else
            fine = false;
    }
    return fine;
}

sc_axis_set sc_axis_list_set(const sc_axis_list *axes)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < axes->count; i++)
        set |= 1u << axes->axes[i];
    return (sc_axis_set)set;
}

uint64_t sc_plan_axes_size(const sc_resolved_plan *plan, const sc_axis_list *axes)
{
    uint64_t size = 1;
    for (uint32_t i = 0; i < axes->count; i++)
        size *= plan->mesh.axes[axes->axes[i]].size;
    return size;
}

const char *sc_plan_axes_text(const sc_resolved_plan *plan, const sc_axis_list *axes)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &plan->context->arena);
    for (uint32_t i = 0; i < axes->count; i++) {
        sc_strbuf_add(&text, i > 0 ? ", " : "");
        sc_strbuf_add(&text, sc_text(plan->context, plan->mesh.axes[axes->axes[i]].name));
    }
    return text.data;
}

void sc_plan_note_axes(const sc_resolved_plan *plan, const sc_axis_list *axes)
{
    for (uint32_t i = 0; i < axes->count; i++) {
        const sc_axis *axis = &plan->mesh.axes[axes->axes[i]];
        sc_report_note(&plan->context->diag, plan->axis_locs[axes->axes[i]],
                       "%s = %" PRIu32 " is here", sc_text(plan->context, axis->name), axis->size);
    }
}

static const sc_binding *override_of(const sc_plan_options *options, sc_sym axis)
{
    const sc_binding *found = NULL;
    for (uint32_t i = 0; i < options->mesh.count; i++) {
        if (options->mesh.data[i].dim == axis)
            found = &options->mesh.data[i];
    }
    return found;
}

static bool is_auto(sc_context *context, const sc_axis_def *def, const sc_plan_options *options)
{
    bool says_auto =
        def->size->kind == SC_EXPR_NAME && strcmp(sc_text(context, def->size->name), "auto") == 0;
    return says_auto && override_of(options, def->name.text) == NULL;
}

bool sc_plan_has_auto(sc_context *context, const sc_plan *plan, const sc_plan_options *options)
{
    bool has = false;
    for (uint32_t s = 0; s < plan->body.count; s++) {
        const sc_plan_stmt *stmt = plan->body.data[s];
        if (stmt->kind != SC_PLAN_MESH)
            continue;
        for (uint32_t i = 0; i < stmt->axes.count; i++)
            has = has || is_auto(context, &stmt->axes.data[i], options);
    }
    return has;
}

static bool fits_mesh(sc_resolved_plan *plan, sc_loc loc, const char *name, int64_t size,
                      uint64_t *ranks)
{
    if (size < 1) {
        sc_report(&plan->context->diag, SC_D_bad_mesh, loc,
                  sc_arena_printf(&plan->context->arena,
                                  "axis '%s' would have size %" PRId64
                                  "; a size is an integer of at least 1",
                                  name, size),
                  NULL);
        return false;
    }
    if (size > UINT32_MAX) {
        sc_report(&plan->context->diag, SC_D_bad_mesh, loc,
                  sc_arena_printf(&plan->context->arena,
                                  "axis '%s' = %" PRId64
                                  " is too large: an axis has at most %" PRIu32 " ranks",
                                  name, size, UINT32_MAX),
                  NULL);
        return false;
    }
    if ((uint64_t)size > LARGEST_MESH / *ranks) {
        sc_report(&plan->context->diag, SC_D_bad_mesh, loc,
                  sc_arena_printf(&plan->context->arena,
                                  "with axis '%s' = %" PRId64 " the mesh has more than 2^40 ranks",
                                  name, size),
                  NULL);
        return false;
    }
    *ranks *= (uint64_t)size;
    return true;
}

/* Adds one axis. The size of `auto` is set once the others are known. */
static bool add_axis(sc_resolved_plan *plan, const sc_axis_def *def, uint64_t *ranks)
{
    sc_diag *diag = &plan->context->diag;
    const char *name = sc_text(plan->context, def->name.text);
    int before = find_axis(plan, def->name.text);
    if (before >= 0) {
        sc_report(diag, SC_D_bad_mesh, def->name.loc,
                  sc_arena_printf(&plan->context->arena, "axis '%s' is declared twice", name),
                  NULL);
        sc_report_note(diag, plan->axis_locs[before], "the first is here");
        return false;
    }
    int64_t size = 0;
    const sc_binding *override = override_of(&plan->options, def->name.text);
    bool automatic = is_auto(plan->context, def, &plan->options);
    if (override != NULL)
        size = override->size;
    else if (!automatic &&
             !sc_declarations_eval_integer(plan->program, def->size, &plan->options.binds, &size))
        return false;
    if (!automatic && !fits_mesh(plan, def->name.loc, name, size, ranks))
        return false;
    plan->axis_locs[plan->mesh.axis_count] = def->name.loc;
    plan->mesh.axes[plan->mesh.axis_count++] = (sc_axis){
        .name = def->name.text, .size = (uint32_t)size, .inter = def->link == SC_LINK_INTER};
    return true;
}

/* Sets the size of the one `auto` axis: the number of ranks divided by the other axes' sizes. */
static bool set_auto(sc_resolved_plan *plan, uint64_t ranks)
{
    sc_diag *diag = &plan->context->diag;
    sc_arena *arena = &plan->context->arena;
    int automatic = -1;
    for (int i = 0; i < plan->mesh.axis_count; i++) {
        if (plan->mesh.axes[i].size != 0)
            continue;
        if (automatic >= 0) {
            sc_report(diag, SC_D_bad_mesh, plan->axis_locs[i],
                      "two axes are 'auto': only one size can be derived from the number of ranks",
                      NULL);
            sc_report_note(diag, plan->axis_locs[automatic], "the first is here");
            return false;
        }
        automatic = i;
    }
    if (automatic < 0)
        return true;
    sc_axis *axis = &plan->mesh.axes[automatic];
    const char *name = sc_text(plan->context, axis->name);
    uint64_t at_hand = plan->options.ranks;
    if (at_hand == 0) {
        sc_report(diag, SC_D_auto_unknown, plan->axis_locs[automatic], name, NULL);
        at_hand = ranks;
    }
    if (at_hand % ranks != 0) {
        sc_report(diag, SC_D_bad_mesh, plan->axis_locs[automatic],
                  sc_arena_printf(arena,
                                  "%" PRIu64 " ranks are at hand, which the other axes (%" PRIu64
                                  " together) do not divide",
                                  at_hand, ranks),
                  NULL);
        return false;
    }
    uint64_t size = at_hand / ranks;
    if (!fits_mesh(plan, plan->axis_locs[automatic], name,
                   size > INT64_MAX ? INT64_MAX : (int64_t)size, &ranks))
        return false;
    axis->size = (uint32_t)size;
    return true;
}

static bool check_overrides(sc_resolved_plan *plan)
{
    bool fine = true;
    for (uint32_t i = 0; i < plan->options.mesh.count; i++) {
        const sc_binding *given = &plan->options.mesh.data[i];
        const sc_name name = {given->dim, given->loc};
        fine = sc_plan_axis(plan, &name) >= 0 && fine;
    }
    return fine;
}

bool sc_plan_resolve_mesh(sc_resolved_plan *plan)
{
    const sc_plan_stmt *first = NULL;
    uint64_t ranks = 1;
    bool fine = true;
    if (plan->plan != NULL) {
        for (uint32_t s = 0; s < plan->plan->body.count; s++) {
            const sc_plan_stmt *stmt = plan->plan->body.data[s];
            if (stmt->kind != SC_PLAN_MESH)
                continue;
            if (first != NULL) {
                sc_report(&plan->context->diag, SC_D_bad_mesh, stmt->loc,
                          "a plan has one mesh; put all axes into one line", NULL);
                sc_report_note(&plan->context->diag, first->loc, "the first is here");
                return false;
            }
            first = stmt;
            for (uint32_t i = 0; i < stmt->axes.count; i++) {
                if (plan->mesh.axis_count == SC_MAX_AXES) {
                    sc_report(&plan->context->diag, SC_D_bad_mesh, stmt->axes.data[i].name.loc,
                              sc_arena_printf(&plan->context->arena, "a mesh has at most %d axes",
                                              SC_MAX_AXES),
                              NULL);
                    return false;
                }
                fine = add_axis(plan, &stmt->axes.data[i], &ranks) && fine;
            }
        }
    }
    if (!fine || !set_auto(plan, ranks) || !check_overrides(plan))
        return false;
    plan->mesh.sub_axis_count = plan->mesh.axis_count;
    for (uint8_t i = 0; i < plan->mesh.axis_count; i++) {
        plan->mesh.axes[i].first_sub_axis = i;
        plan->mesh.axes[i].sub_axis_count = 1;
        plan->mesh.sub_axes[i] =
            (sc_sub_axis){.axis = i, .index = 0, .size = plan->mesh.axes[i].size};
    }
    return true;
}
