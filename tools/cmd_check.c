/* shardc check: everything that can be wrong with a file, without running it. */
#include <string.h>

#include "tools/commands.h"

static void note_unbound(sc_context *context, const sc_plan *plan, const sc_entry_info *entry, const sc_sym_list *unbound)
{
    sc_strbuf names;
    sc_strbuf_init(&names, &context->arena);
    for (uint32_t i = 0; i < unbound->count; i++)
        sc_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", sc_text(context, unbound->data[i]));
    sc_report(&context->diag, SC_D_entry_unbound, entry->loc, sc_text(context, entry->entry),
              plan == NULL ? "none" : sc_text(context, plan->name.text), names.data, NULL);
}

static bool is_unbound(sc_context *context, sc_program *program, const sc_plan *plan, const sc_resolved_plan *resolved,
                       const sc_entry_info *entry)
{
    sc_binding_list bindings = {0};
    sc_sym_list unbound = {0};
    sc_plan_bindings(resolved, entry->entry, &bindings);
    sc_program_unbound_dims(program, entry->model, entry->entry, &bindings, &unbound);
    if (unbound.count > 0)
        note_unbound(context, plan, entry, &unbound);
    return unbound.count > 0;
}

static void check_plan(sc_context *context, sc_program *program, const sc_plan *plan, const sc_options *options)
{
    sc_resolved_plan *resolved = sc_plan_resolve(program, plan, &options->plan_options);
    if (resolved == NULL)
        return;
    sc_entry_list entries = {0}, bound = {0};
    sc_program_entries(program, plan != NULL ? plan->model.text : sc_program_only_model(program), &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (!is_unbound(context, program, plan, resolved, &entries.data[i]))
            *sc_vec_push(&context->arena, &bound) = entries.data[i];
    }
    for (uint32_t i = 0; i < bound.count; i++) {
        sc_compiled c;
        sc_options one = *options;
        one.entry = sc_text(context, bound.data[i].entry);
        one.trains = options->entry == NULL;
        if (options->entry != NULL && strcmp(options->entry, one.entry) != 0)
            continue;
        if (sc_driver_compile(context, program, plan, &one, NULL, NULL, NULL, &c))
            sc_check_expects(context, &c, SC_D_expect_fails);
    }
}

int sc_cmd_check(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    (void)out;
    sc_program *program = sc_driver_load(context, options);
    if (program == NULL)
        return 0;
    sc_program_check(program);
    if (context->diag.errors > 0)
        return 0;
    sc_plan_list plans = {0};
    const sc_plan *only = NULL;
    sc_program_plans(program, &plans);
    if (options->plan != NULL) {
        if (sc_driver_choose_plan(context, program, options, &only))
            check_plan(context, program, only, options);
        return 0;
    }
    for (uint32_t i = 0; i < plans.count; i++)
        check_plan(context, program, plans.data[i], options);
    if (plans.count == 0 && sc_program_only_model(program) != 0)
        check_plan(context, program, NULL, options);
    return 0;
}
