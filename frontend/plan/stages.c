/* `stage` lines as far as names say: paths, axes, options, and what the lines of a plan say
 * together. */
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <string.h>

static void report(const sc_resolved_plan *plan, sc_loc loc, const char *text)
{
    sc_report(&plan->context->diag, SC_D_bad_plan_statement, loc, text, NULL);
}

/* ---- stacks ---- */
static const sc_member *find_member(const sc_unit *unit, const sc_seg *seg)
{
    return seg->kind == SC_SEG_ANY ? NULL : sc_unit_member(unit, seg->name.text);
}

static void list_stacks(sc_resolved_plan *plan, const sc_unit *unit, const char *prefix,
                        sc_text_list *out)
{
    enum { MOST = 16 };
    for (uint32_t i = 0; i < unit->members.count && out->count < MOST; i++) {
        const sc_member *member = &unit->members.data[i];
        if (member->kind != SC_MEMBER_SUB || member->block == NULL || member->block->broken)
            continue;
        const char *path = sc_arena_printf(&plan->context->arena, "%s%s", prefix,
                                           sc_text(plan->context, member->name.text));
        if (member->sub->stack.text != 0)
            *sc_vec_push(&plan->context->arena, out) = path;
        else
            list_stacks(plan, member->block, sc_arena_printf(&plan->context->arena, "%s.", path),
                        out);
    }
}

static void report_no_stack(sc_resolved_plan *plan, const sc_unit *model, const sc_path *path)
{
    sc_text_list stacks = {0};
    sc_strbuf text;
    const char *name = sc_path_text(plan->context, path);
    list_stacks(plan, model, "", &stacks);
    report(plan, path->loc,
           sc_arena_printf(&plan->context->arena,
                           "'%s' is no stack: a pipeline is cut between the instances of "
                           "'sub layers: layer * L'",
                           name));
    sc_strbuf_init(&text, &plan->context->arena);
    sc_strbuf_add(&text, "");
    sc_strbuf_add_list(&text, stacks.data, stacks.count, " and ");
    if (stacks.count > 0)
        sc_report_note(&plan->context->diag, (sc_loc){0}, "the model has the stack%s %s",
                       stacks.count == 1 ? "" : "s", text.data);
}

/* True if the path names subs, the last of which is a stack. A path with `*` is left to the entry.
 */
static bool check_stack(sc_resolved_plan *plan, const sc_path *path)
{
    const sc_unit *model = sc_declarations_model(plan->program, plan->model), *unit = model;
    bool has_entry = false;
    for (uint32_t i = 0; i < plan->entries.count; i++)
        has_entry = has_entry || sc_path_begins_with(path, plan->entries.data[i]->entry);
    if (has_entry && path->segs.count == 1) {
        report_no_stack(plan, model, path);
        return false;
    }
    for (uint32_t i = has_entry ? 1 : 0; i < path->segs.count && unit != NULL; i++) {
        const sc_seg *seg = &path->segs.data[i];
        const sc_member *member = find_member(unit, seg);
        if (seg->kind == SC_SEG_ANY)
            return true;
        bool is_sub = member != NULL && member->kind == SC_MEMBER_SUB,
             is_last = i + 1 == path->segs.count;
        if (!is_sub || (is_last && member->sub->stack.text == 0)) {
            report_no_stack(plan, model, path);
            return false;
        }
        unit = member->block;
    }
    return true;
}

/* ---- lines ---- */
void sc_plan_resolve_stage(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    sc_stage_line line = {.stmt = stmt};
    *sc_vec_push(&plan->context->arena, &plan->stage_lines) = stmt;
    bool fine = sc_plan_check_paths(plan, &stmt->in, false);
    if (fine) {
        for (uint32_t i = 0; i < stmt->in.count; i++)
            fine = check_stack(plan, &stmt->in.data[i]) && fine;
    }
    int axis = sc_plan_axis(plan, &stmt->stage.axis);
    line.axis = (uint8_t)axis;
    if (axis < 0 || !sc_plan_read_stage_options(plan, stmt, &line) || !fine)
        return;
    if (plan->stage.stmt == NULL)
        plan->stage = line;
}

void sc_plan_resolve_stage_at(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    static const char *const places[] = {"first", "last"};
    const sc_expr *value = stmt->stage.value;
    int64_t chunk;
    bool fine = sc_plan_check_paths(plan, &stmt->in, false);
    if (value->kind != SC_EXPR_INT)
        fine = sc_plan_check_word(plan, value->kind == SC_EXPR_NAME ? value->name : 0, value->loc,
                                  "place of a stage", places, 2) &&
               fine;
    else if (sc_declarations_eval_integer(plan->program, value, &plan->options.binds, &chunk) &&
             chunk < 0)
        report(plan, value->loc, "chunks are counted from 0");
    if (fine)
        *sc_vec_push(&plan->context->arena, &plan->stage_at_lines) = stmt;
}

bool sc_plan_has_stages(const sc_resolved_plan *plan)
{
    return plan->stage.stmt != NULL && plan->mesh.axes[plan->stage.axis].size > 1;
}

/* ---- together ---- */
static void check_one_pipeline(const sc_resolved_plan *plan)
{
    for (uint32_t i = 1; i < plan->stage_lines.count; i++) {
        const sc_plan_stmt *first = plan->stage_lines.data[0], *stmt = plan->stage_lines.data[i];
        report(plan, stmt->loc,
               stmt->stage.axis.text == first->stage.axis.text
                   ? sc_arena_printf(&plan->context->arena, "axis '%s' is staged twice",
                                     sc_text(plan->context, stmt->stage.axis.text))
                   : "a plan has one pipeline, over one axis");
        sc_report_note(&plan->context->diag, first->loc,
                       "the first is here; several stacks go into one line: 'stage a, b over %s'",
                       sc_text(plan->context, first->stage.axis.text));
    }
    if (plan->stage_lines.count > 0)
        return;
    for (uint32_t i = 0; i < plan->stage_at_lines.count; i++) {
        report(plan, plan->stage_at_lines.data[i]->loc,
               "this line has no effect: the plan has no stages");
        sc_report_note(
            &plan->context->diag, (sc_loc){0},
            "add 'stage PATHS over AXIS: schedule = .., microbatches = .., batch = ..;'");
    }
}

static bool report_use(const sc_resolved_plan *plan, sc_loc loc, const char *what)
{
    const sc_plan_stmt *stage = plan->stage.stmt;
    report(plan, loc,
           sc_arena_printf(&plan->context->arena,
                           "axis '%s' holds the stages of a pipeline, so %s cannot use it",
                           sc_text(plan->context, stage->stage.axis.text), what));
    sc_report_note(&plan->context->diag, stage->loc, "its stages are here");
    return false;
}

static bool has_name(const sc_name_list *names, sc_sym name)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->data[i].text == name)
            return true;
    }
    return false;
}

static bool pin_uses(const sc_plan_stmt *stmt, sc_sym axis)
{
    for (uint32_t d = 0; d < stmt->pin.shape->dims.count; d++) {
        if (has_name(&stmt->pin.shape->dims.data[d].axes, axis))
            return true;
    }
    return has_name(&stmt->pin.over, axis);
}

/* The ranks along the stage axis run different programs, so nothing is split over it. */
static bool check_axis_is_free(const sc_resolved_plan *plan)
{
    sc_sym axis = plan->stage.stmt->stage.axis.text;
    bool is_free = true;
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        const sc_plan_stmt *stmt = plan->lines.data[i].stmt;
        if (stmt->kind == SC_PLAN_SHARD && has_name(&stmt->shard.axes, axis))
            is_free = report_use(plan, stmt->loc, "'shard'");
        else if (stmt->kind == SC_PLAN_PIN && pin_uses(stmt, axis))
            is_free = report_use(plan, stmt->loc, "'pin'");
        else if (stmt->kind == SC_PLAN_STYLE && stmt->style.axis.text == axis)
            is_free = report_use(plan, stmt->loc, "'style'");
    }
    for (uint32_t i = 0; i < plan->pinned_axes.count; i++) {
        if (plan->pinned_axes.data[i] == axis)
            is_free = report_use(plan, plan->stage.stmt->stage.axis.loc,
                                 sc_arena_printf(&plan->context->arena, "'@%s' in the model's text",
                                                 sc_text(plan->context, axis)));
    }
    return is_free;
}

static bool check_accumulate(const sc_resolved_plan *plan)
{
    const sc_name *batch = &plan->stage.batch;
    if (plan->accumulate == NULL || plan->accumulate->accumulate.dim.text == batch->text)
        return true;
    report(plan, batch->loc,
           sc_arena_printf(&plan->context->arena,
                           "'stage' and 'accumulate' split one batch, but '%s' is not '%s'",
                           sc_text(plan->context, batch->text),
                           sc_text(plan->context, plan->accumulate->accumulate.dim.text)));
    sc_report_note(&plan->context->diag, plan->accumulate->loc, "'accumulate' is here");
    return false;
}

static const char *number(const sc_resolved_plan *plan, uint64_t value)
{
    return sc_arena_printf(&plan->context->arena, "%" PRIu64, value);
}

/* Checks the numbers that need no sizes. Returns false after reporting that they do not fit. */
static bool check_micro_batches(sc_resolved_plan *plan)
{
    const sc_stage_line *line = &plan->stage;
    sc_context *context = plan->context;
    uint32_t ranks = plan->mesh.axes[line->axis].size;
    uint64_t least = line->order == SC_STAGE_NAMED ? sc_schedule_least(line->kind, ranks) : 1;
    uint64_t chunks = line->order == SC_STAGE_NAMED ? (uint64_t)ranks * line->per_rank : ranks;
    if (line->micro_batches < least) {
        const char *name = sc_schedule_rows[line->kind].name;
        sc_report(&context->diag, SC_D_stages_do_not_fit, line->count_loc,
                  sc_arena_printf(&context->arena,
                                  "%s over %s = %" PRIu32 " needs at least %" PRIu64
                                  " micro-batches, not %" PRIu32,
                                  name, sc_text(context, plan->mesh.axes[line->axis].name), ranks,
                                  least, line->micro_batches),
                  sc_arena_printf(&context->arena,
                                  "write 'microbatches = %" PRIu64
                                  "', or 'schedule = one_f_one_b', which takes any number",
                                  least),
                  NULL);
        return false;
    }
    if (chunks <= SC_SCHEDULE_MAX_ACTIONS / 3 / (uint64_t)line->micro_batches)
        return true;
    sc_report(&context->diag, SC_D_stages_do_not_fit, line->count_loc,
              sc_arena_printf(&context->arena,
                              "%s chunks of %s micro-batches are too many: a schedule has at most "
                              "%d actions",
                              number(plan, chunks), number(plan, line->micro_batches),
                              SC_SCHEDULE_MAX_ACTIONS),
              "give fewer micro-batches", NULL);
    return false;
}

void sc_plan_check_stages(sc_resolved_plan *plan)
{
    sc_stage_line *line = &plan->stage;
    uint32_t errors = plan->context->diag.errors;
    check_one_pipeline(plan);
    if (line->stmt == NULL)
        return;
    bool fine = check_axis_is_free(plan);
    fine = check_accumulate(plan) && fine;
    if (sc_plan_has_stages(plan)) {
        fine = check_micro_batches(plan) && fine;
        if (line->order == SC_STAGE_FILE)
            line->schedule = sc_plan_read_schedule(plan, line);
        fine = (line->order != SC_STAGE_FILE || line->schedule != NULL) && fine;
    }
    /* an error may have been reported before: then it is not counted again */
    if (!fine || plan->context->diag.errors > errors)
        line->stmt = NULL;
}
