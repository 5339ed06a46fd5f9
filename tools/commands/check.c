/* shardc check: reports all errors in a file without running it. */
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/report.h"
#include "tools/explain/waste.h"

/* Entries of one plan that lack the same sizes; reported in one note. */
typedef struct unbound_entries {
    sc_entry_list entries;
    sc_sym_list dims;
} unbound_entries;

static void add_unbound(sc_context *context, const sc_entry_info *entry, const sc_sym_list *dims,
                        unbound_entries *all)
{
    *sc_vec_push(&context->arena, &all->entries) = *entry;
    for (uint32_t i = 0; i < dims->count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < all->dims.count && !known; j++)
            known = all->dims.data[j] == dims->data[i];
        if (!known)
            *sc_vec_push(&context->arena, &all->dims) = dims->data[i];
    }
}

static void note_unbound(sc_context *context, const sc_plan *plan, const unbound_entries *all)
{
    sc_strbuf names, dims;
    uint32_t count = all->entries.count;
    sc_strbuf_init(&names, &context->arena);
    sc_strbuf_init(&dims, &context->arena);
    for (uint32_t i = 0; i < count; i++)
        sc_strbuf_printf(&names, "%s'%s'",
                         i == 0           ? ""
                         : i + 1 == count ? " and "
                                          : ", ",
                         sc_text(context, all->entries.data[i].entry));
    for (uint32_t i = 0; i < all->dims.count; i++)
        sc_strbuf_printf(&dims, "%s%s", i > 0 ? ", " : "", sc_text(context, all->dims.data[i]));
    const char *subject =
        sc_arena_printf(&context->arena, count == 1 ? "entry %s is" : "entries %s are", names.data);
    if (count > 0)
        sc_report(&context->diag, SC_D_entry_unbound, all->entries.data[0].loc, subject,
                  plan == NULL ? "none" : sc_text(context, plan->name.text), dims.data, NULL);
}

/* ---- one plan ---- */
typedef struct checked_entry {
    sc_entry_info entry;
    sc_sym_list unbound;         /* dims without sizes; if there are none: */
    const sc_compiled *compiled; /* NULL: it does not compile, or --entry names another */
} checked_entry;

typedef struct checked_plan {
    const sc_plan *plan; /* NULL: none */
    bool ok;
    SC_VEC(checked_entry) entries;
    sc_expect_results expects;
} checked_plan;

static void find_entries(sc_context *context, sc_declarations *program,
                         const sc_resolved_plan *resolved, checked_plan *out)
{
    sc_entry_list entries = {0};
    unbound_entries unbound = {0};
    sc_declarations_entries(
        program, out->plan != NULL ? out->plan->model.text : sc_declarations_only_model(program),
        &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        sc_binding_list bindings = {0};
        checked_entry entry = {.entry = entries.data[i]};
        sc_plan_bindings(resolved, entry.entry.entry, &bindings);
        sc_declarations_unbound_dims(program, entry.entry.model, entry.entry.entry, &bindings,
                                     &entry.unbound);
        if (entry.unbound.count > 0)
            add_unbound(context, &entry.entry, &entry.unbound, &unbound);
        *sc_vec_push(&context->arena, &out->entries) = entry;
    }
    note_unbound(context, out->plan, &unbound);
}

static const sc_compiled *compile(sc_context *context, sc_declarations *program,
                                  const sc_plan *plan, const sc_options *options,
                                  const sc_entry_info *entry)
{
    sc_compiled *c = sc_arena_alloc(&context->arena, sizeof *c);
    sc_options *one = sc_arena_alloc(&context->arena, sizeof *one);
    *one = *options;
    one->entry = sc_text(context, entry->entry);
    one->trains = options->entry == NULL;
    if (options->entry != NULL && strcmp(options->entry, one->entry) != 0)
        return NULL;
    return sc_driver_compile(context, program, plan, one, NULL, NULL, NULL, c) ? c : NULL;
}

static void check_plan(sc_context *context, sc_declarations *program, const sc_options *options,
                       checked_plan *out)
{
    uint32_t errors = context->diag.errors, bound = 0;
    sc_compiled_list compiled = {0};
    sc_resolved_plan *resolved = sc_plan_resolve(program, out->plan, &options->plan_options);
    if (resolved == NULL)
        return;
    find_entries(context, program, resolved, out);
    for (uint32_t i = 0; i < out->entries.count; i++) {
        checked_entry *entry = &out->entries.data[i];
        if (entry->unbound.count > 0)
            continue;
        bound++;
        entry->compiled = compile(context, program, out->plan, options, &entry->entry);
        if (entry->compiled == NULL)
            continue;
        sc_check_expects_into(context, entry->compiled, SC_D_expect_fails, &out->expects);
        *sc_vec_push(&context->arena, &compiled) = entry->compiled;
    }
    out->ok = context->diag.errors == errors;
    if (!out->ok)
        return;
    sc_warn_of_repeated_work(context, &compiled);
    if (compiled.count == bound)
        sc_warn_of_idle_lines(context, &compiled);
}

/* ---- JSON ---- */
static json_t *entry_json(const sc_context *context, const checked_entry *entry)
{
    json_t *unbound = json_array();
    for (uint32_t i = 0; i < entry->unbound.count; i++)
        json_array_append_new(unbound, json_string(sc_text(context, entry->unbound.data[i])));
    const sc_compiled *c = entry->compiled;
    return json_pack("{s:s,s:o,s:b,s:b}", "entry", sc_text(context, entry->entry.entry), "unbound",
                     unbound, "compiles", c != NULL, "trains", c != NULL && c->step != NULL);
}

static json_t *expect_json(sc_context *context, const sc_expect_result *result)
{
    sc_line place = sc_sources_line(&context->sources, result->expect->loc.begin);
    json_t *row = json_pack("{s:s,s:s,s:i,s:b}", "text", result->expect->text, "file",
                            place.source == NULL ? "" : place.source->name, "line", (int)place.line,
                            "holds", result->known && result->holds);
    json_object_set_new(row, "found", result->known ? sc_number_json(result->found) : json_null());
    return row;
}

static json_t *plan_json(sc_context *context, const checked_plan *checked)
{
    json_t *entries = json_array(), *expects = json_array();
    for (uint32_t i = 0; i < checked->entries.count; i++)
        json_array_append_new(entries, entry_json(context, &checked->entries.data[i]));
    for (uint32_t i = 0; i < checked->expects.count; i++)
        json_array_append_new(expects, expect_json(context, &checked->expects.data[i]));
    return json_pack("{s:o,s:b,s:o,s:o}", "plan", sc_plan_json(context, checked->plan), "ok",
                     (int)checked->ok, "entries", entries, "expects", expects);
}

/* ---- the command ---- */
typedef SC_VEC(checked_plan) checked_plans;

static void check_file(sc_context *context, const sc_options *options, checked_plans *out)
{
    sc_declarations *program = sc_driver_load(context, options);
    if (program == NULL)
        return;
    sc_declarations_check(program);
    if (context->diag.errors > 0)
        return;
    sc_plan_list plans = {0};
    const sc_plan *only = NULL;
    sc_declarations_plans(program, &plans);
    if (options->plan != NULL && !sc_driver_choose_plan(context, program, options, &only))
        return;
    if (options->plan != NULL || (plans.count == 0 && sc_declarations_only_model(program) != 0))
        *sc_vec_push(&context->arena, out) = (checked_plan){.plan = only};
    if (options->plan == NULL) {
        for (uint32_t i = 0; i < plans.count; i++)
            *sc_vec_push(&context->arena, out) = (checked_plan){.plan = plans.data[i]};
    }
    for (uint32_t i = 0; i < out->count; i++)
        check_plan(context, program, options, &out->data[i]);
}

int sc_cmd_check(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    checked_plans checked = {0};
    check_file(context, options, &checked);
    if (!options->run.json)
        return 0;
    json_t *plans = json_array();
    for (uint32_t i = 0; i < checked.count; i++)
        json_array_append_new(plans, plan_json(context, &checked.data[i]));
    sc_print_json(json_pack("{s:i,s:s,s:b,s:o}", "version", 1, "file", options->file, "ok",
                            context->diag.errors == 0, "plans", plans),
                  out);
    return 0;
}
