/* shardc check: everything that can be wrong with a file, without running it. */
#include <string.h>

#include "tools/commands.h"
#include "tools/waste.h"

/* Entries of one plan that lack sizes, and of what: one note. */
typedef struct unbound_entries {
    sc_entry_list entries;
    sc_sym_list dims;
} unbound_entries;

static void add_unbound(sc_context *context, const sc_entry_info *entry, const sc_sym_list *dims, unbound_entries *all)
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
        sc_strbuf_printf(&names, "%s'%s'", i == 0 ? "" : i + 1 == count ? " and " : ", ", sc_text(context, all->entries.data[i].entry));
    for (uint32_t i = 0; i < all->dims.count; i++)
        sc_strbuf_printf(&dims, "%s%s", i > 0 ? ", " : "", sc_text(context, all->dims.data[i]));
    const char *subject = sc_arena_printf(&context->arena, count == 1 ? "entry %s is" : "entries %s are", names.data);
    if (count > 0)
        sc_report(&context->diag, SC_D_entry_unbound, all->entries.data[0].loc, subject,
                  plan == NULL ? "none" : sc_text(context, plan->name.text), dims.data, NULL);
}

static bool is_unbound(sc_context *context, sc_program *program, const sc_resolved_plan *resolved, const sc_entry_info *entry,
                       unbound_entries *all)
{
    sc_binding_list bindings = {0};
    sc_sym_list unbound = {0};
    sc_plan_bindings(resolved, entry->entry, &bindings);
    sc_program_unbound_dims(program, entry->model, entry->entry, &bindings, &unbound);
    if (unbound.count > 0)
        add_unbound(context, entry, &unbound, all);
    return unbound.count > 0;
}

static void check_plan(sc_context *context, sc_program *program, const sc_plan *plan, const sc_options *options)
{
    uint32_t errors = context->diag.errors;
    sc_resolved_plan *resolved = sc_plan_resolve(program, plan, &options->plan_options);
    if (resolved == NULL)
        return;
    sc_entry_list entries = {0}, bound = {0};
    sc_compiled_list compiled = {0};
    unbound_entries unbound = {0};
    sc_program_entries(program, plan != NULL ? plan->model.text : sc_program_only_model(program), &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (!is_unbound(context, program, resolved, &entries.data[i], &unbound))
            *sc_vec_push(&context->arena, &bound) = entries.data[i];
    }
    note_unbound(context, plan, &unbound);
    for (uint32_t i = 0; i < bound.count; i++) {
        sc_compiled *c = sc_arena_alloc(&context->arena, sizeof *c);
        sc_options *one = sc_arena_alloc(&context->arena, sizeof *one);
        *one = *options;
        one->entry = sc_text(context, bound.data[i].entry);
        one->trains = options->entry == NULL;
        if (options->entry != NULL && strcmp(options->entry, one->entry) != 0)
            continue;
        if (sc_driver_compile(context, program, plan, one, NULL, NULL, NULL, c)) {
            sc_check_expects(context, c, SC_D_expect_fails);
            *sc_vec_push(&context->arena, &compiled) = c;
        }
    }
    if (context->diag.errors > errors)
        return;
    sc_warn_of_repeated_work(context, &compiled);
    if (compiled.count == bound.count)
        sc_warn_of_idle_lines(context, &compiled);
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
