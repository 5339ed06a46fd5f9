/* shardc generate: generates tokens with a cached entry, run here. */
#include "runtime/drive/generate.h"
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/run/cached_entries.h"
#include "tools/run/facts.h"
#include "tools/run/run.h"

/* Sets the batch size to the number of prompts (one row each), if nothing else gives it. */
static void size_batch(sc_context *context, sc_declarations *program, sc_sym model,
                       sc_options *options)
{
    sc_entry_list entries = {0};
    sc_sym_list unbound = {0};
    sc_sym rows = 0, entry = sc_intern_text(&context->names, options->entry);
    int64_t prompts = options->run.prompts.count > 0 ? options->run.prompts.count : 1;
    sc_declarations_entries(program, model, &entries);
    for (uint32_t i = 0; i < entries.count; i++)
        rows = entries.data[i].entry == entry ? entries.data[i].rows : rows;
    if (rows == 0)
        return;
    sc_declarations_unbound_dims(program, model, entry, &options->plan_options.binds, &unbound);
    for (uint32_t i = 0; i < unbound.count; i++) {
        if (unbound.data[i] == rows)
            *sc_vec_push(&context->arena, &options->plan_options.defaults) =
                (sc_binding){.dim = rows, .size = prompts};
    }
}

static bool compile(sc_context *context, sc_options *options, sc_compiled *c, sc_compiled *other,
                    sc_local_run *run, sc_facts *facts)
{
    const sc_plan *plan;
    const char *last = sc_last_pass(options);
    sc_declarations *program = sc_driver_load(context, options);
    if (program == NULL || !sc_driver_choose_plan(context, program, options, &plan))
        return false;
    sc_sym model = plan != NULL ? plan->model.text : sc_declarations_only_model(program);
    if (model != 0 && (options->entry = sc_choose_cached(context, program, model, options)) == NULL)
        return false;
    if (model != 0)
        size_batch(context, program, model, options);
    if (!sc_driver_compile(context, program, plan, options, NULL, NULL, last, c) ||
        !sc_find_facts(c, NULL, options->run.weights != NULL, options->map, facts))
        return false;
    if (options->interpret) {
        sc_options bound;
        facts->generates = sc_bind_one_position(context, c, options, &bound, &facts->generate);
        return !facts->generates ||
               sc_driver_compile(context, program, plan, &bound, NULL, NULL, last, c);
    }
    if (!sc_compile_other(context, c, options, last, other, &facts->generates, &facts->generate))
        return false;
    run->second = facts->generates ? other : NULL;
    run->second_name = sc_other_name(context, c, &facts->generate);
    return true;
}

int sc_cmd_generate(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options options = *given;
    sc_compiled c, other;
    sc_facts facts;
    options.forward = options.runs_ranks = true;
    sc_local_run run = {.context = context, .options = &options, .c = &c};
    if (compile(context, &options, &c, &other, &run, &facts) &&
        sc_generate_text(context, &facts, &options.run, sc_local_run_open, &run, out))
        sc_check_expects(context, &c, SC_D_expect_fails);
    sc_local_run_close(&run);
    return 0;
}
