/* Resolves a plan before any function is built: mesh, sizes, dtypes, numbers, and every name. */
#include "frontend/plan/internal.h"

#include <string.h>

static void check_rule_axes(sc_resolved_plan *plan, sc_plan_line *line)
{
    line->broken = !sc_plan_axes(plan, &line->stmt->shard.axes, &line->axes) ||
                   (line->stmt->shard.zigzag && !sc_plan_check_zigzag(plan, line));
}

static void add_line(sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    sc_plan_line *line = sc_vec_push(&plan->context->arena, &plan->lines);
    *line = (sc_plan_line){.stmt = stmt};
    if (stmt->kind == SC_PLAN_SHARD) {
        check_rule_axes(plan, line);
        sc_plan_check_rule(plan, line);
    } else if (stmt->kind == SC_PLAN_PIN) {
        sc_plan_check_pin(plan, line);
    } else if (stmt->kind == SC_PLAN_STYLE) {
        sc_plan_check_style(plan, line);
    } else {
        sc_plan_check_form(plan, line);
    }
}

static void resolve_statements(sc_resolved_plan *plan)
{
    for (uint32_t i = 0; i < plan->plan->body.count; i++) {
        const sc_plan_stmt *stmt = plan->plan->body.data[i];
        switch (stmt->kind) {
        case SC_PLAN_MESH:
            break;
        case SC_PLAN_SHARD:
        case SC_PLAN_PIN:
        case SC_PLAN_STYLE:
        case SC_PLAN_FORM:
            add_line(plan, stmt);
            break;
        case SC_PLAN_EXPECT:
            sc_plan_resolve_expect(plan, stmt);
            break;
        default:
            sc_plan_resolve_values(plan, stmt);
            break;
        }
    }
}

static void check_given_dims(sc_resolved_plan *plan)
{
    for (uint32_t i = 0; i < plan->options.binds.count; i++) {
        const sc_binding *bind = &plan->options.binds.data[i];
        sc_plan_check_dim(plan, &(sc_name){bind->dim, bind->loc});
    }
}

sc_resolved_plan *sc_plan_resolve(sc_declarations *program, const sc_plan *plan,
                                  const sc_plan_options *options)
{
    sc_context *context = program->context;
    sc_resolved_plan *resolved = sc_arena_alloc(&context->arena, sizeof *resolved);
    *resolved = (sc_resolved_plan){
        .context = context, .program = program, .plan = plan, .options = *options};
    resolved->dtype_memo.arena = &context->arena;
    resolved->tuning = (sc_plan_tuning){.bucket = 26214400, .prefetch = 1, .call_cost = 0};
    resolved->model = plan != NULL ? plan->model.text : sc_declarations_only_model(program);
    check_given_dims(resolved);
    if (!sc_plan_resolve_mesh(resolved))
        return NULL;
    if (plan == NULL)
        return resolved;
    sc_plan_elaborate_entries(resolved);
    resolve_statements(resolved);
    sc_plan_check_forms(resolved);
    sc_plan_check_stages(resolved);
    if (context->diag.errors == 0) /* an erroneous line may have been meant for the axis */
        sc_plan_report_unused_axes(resolved);
    sc_plan_note_repeated_lines(resolved);
    return resolved;
}

/* ---- the default entry ---- */
static void unbound(sc_declarations *program, const sc_resolved_plan *plan, sc_sym model,
                    sc_sym entry, sc_sym_list *out)
{
    sc_binding_list bindings = {0};
    sc_plan_bindings(plan, entry, &bindings);
    sc_declarations_unbound_dims(program, model, entry, &bindings, out);
}

static const char *dims_text(sc_context *context, const sc_sym_list *dims)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < dims->count; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", sc_text(context, dims->data[i]));
    return text.data;
}

static void report_choice(sc_declarations *program, const sc_resolved_plan *plan, sc_sym model,
                          const sc_entry_list *entries, uint32_t bound)
{
    sc_context *context = program->context;
    sc_loc loc = plan->plan != NULL   ? plan->plan->loc
                 : entries->count > 0 ? entries->data[0].loc
                                      : (sc_loc){0};
    const char *name = sc_text(context, model);
    const char *text =
        entries->count == 0 ? sc_arena_printf(&context->arena, "model '%s' has no entry", name)
        : bound == 0
            ? sc_arena_printf(&context->arena, "no entry of '%s' has sizes for all its dims", name)
            : sc_arena_printf(&context->arena,
                              "several entries of '%s' have sizes for all their dims", name);
    const char *remedy = entries->count == 0
                             ? "declare one in the model: 'entry f(x: f32[B]) -> [B] { .. }'"
                         : bound == 0 ? "bind them in the plan, or give them with --bind"
                                      : "choose one with --entry NAME";
    sc_report(&context->diag, SC_D_choose_entry, loc, text, remedy, NULL);
    for (uint32_t i = 0; i < entries->count; i++) {
        sc_sym_list dims = {0};
        unbound(program, plan, model, entries->data[i].entry, &dims);
        const char *entry = sc_text(context, entries->data[i].entry);
        if (dims.count > 0)
            sc_report_note(&context->diag, entries->data[i].loc, "'%s' needs sizes for %s", entry,
                           dims_text(context, &dims));
        else
            sc_report_note(&context->diag, entries->data[i].loc, "'%s' is here", entry);
    }
}

sc_sym sc_plan_default_entry(sc_declarations *program, const sc_resolved_plan *plan, sc_sym model)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(program, model, &entries);
    sc_sym minimised = 0, last = 0;
    uint32_t bound = 0;
    for (uint32_t i = 0; i < entries.count; i++) {
        sc_sym_list dims = {0};
        unbound(program, plan, model, entries.data[i].entry, &dims);
        if (dims.count > 0)
            continue;
        bound++;
        last = entries.data[i].entry;
        if (entries.data[i].minimised && minimised == 0)
            minimised = last;
    }
    if (minimised != 0 || bound == 1)
        return minimised != 0 ? minimised : last;
    if (entries.count == 1) {
        sc_sym_list dims = {0};
        unbound(program, plan, model, entries.data[0].entry, &dims);
        for (uint32_t i = 0; i < dims.count; i++)
            sc_report(&program->context->diag, SC_D_unbound_dim, entries.data[0].loc,
                      sc_text(program->context, entries.data[0].entry),
                      sc_text(program->context, dims.data[i]), NULL);
        return 0;
    }
    report_choice(program, plan, model, &entries, bound);
    return 0;
}
