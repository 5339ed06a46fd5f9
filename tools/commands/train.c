/* shardc train: runs the train step of an entry here. */
#include <string.h>

#include "runtime/drive/train.h"
#include "tools/commands/commands.h"
#include "tools/explain/expect.h"
#include "tools/explain/waste.h"
#include "tools/run/facts.h"
#include "tools/run/parts.h"
#include "tools/run/run.h"

static bool usage(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

static const char *entry_names(sc_context *context, const sc_entry_list *entries)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < entries->count; i++) {
        if (entries->data[i].minimised)
            sc_strbuf_printf(&text, "%s%s", text.length > 0 ? ", " : "",
                             sc_text(context, entries->data[i].entry));
    }
    return text.data;
}

/* Chooses the entry. Without --entry it is the minimised one, even if a plan gives it no sizes:
 * then the missing sizes are the error. */
static bool choose_entry(sc_context *context, sc_options *options, sc_declarations *program,
                         sc_sym model)
{
    sc_entry_list entries = {0};
    const char *only = NULL, *model_name = sc_text(context, model), *named = NULL;
    uint32_t count = 0;
    sc_declarations_entries(program, model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        const char *name = sc_text(context, entries.data[i].entry);
        if (options->entry != NULL && strcmp(name, options->entry) == 0 &&
            !entries.data[i].minimised)
            named = name;
        if (entries.data[i].minimised && count++ == 0)
            only = name;
    }
    /* a file without any entry is reported when compiling */
    if (entries.count == 0 || (count > 0 && named == NULL)) {
        if (options->entry == NULL && count == 1)
            options->entry = only;
        return true;
    }
    if (count > 0)
        usage(
            context,
            sc_arena_printf(
                &context->arena,
                "entry '%s' of '%s' is not minimised, so there is nothing to train; minimised: %s",
                named, model_name, entry_names(context, &entries)));
    else
        usage(context,
              sc_arena_printf(&context->arena,
                              "no entry of '%s' is minimised, so there is nothing to train",
                              model_name));
    if (named == NULL)
        named = sc_text(context, entries.data[0].entry);
    sc_report_note(&context->diag, (sc_loc){0}, "write 'minimize %s.%s with adamw(lr = 1e-3);'",
                   model_name, named);
    return false;
}

/* Compiles the train step of the minimised entry chosen by the options and stores its name in them.
 * `last` as in sc_driver_compile. Also checks its `expect` statements. Returns false after
 * reporting errors. */
static bool compile_train(sc_context *context, sc_declarations *program, const sc_plan *plan,
                          sc_options *options, const char *last, sc_compiled *c)
{
    sc_sym model = plan != NULL ? plan->model.text : sc_declarations_only_model(program);
    if (model != 0 && !choose_entry(context, options, program, model))
        return false;
    if (!sc_driver_compile(context, program, plan, options, NULL, NULL, last, c))
        return false;
    sc_entry_list entries = {0};
    sc_declarations_entries(program, c->model, &entries);
    if (c->minimize == NULL)
        return usage(context, sc_arena_printf(
                                  &context->arena,
                                  "several entries are minimised: %s; choose one with --entry NAME",
                                  entry_names(context, &entries)));
    uint32_t errors = context->diag.errors;
    sc_check_expects(context, c, SC_D_expect_fails); /* before the long run, not after it */
    sc_warn_of_repeated_work(context,
                             &(sc_compiled_list){.data = (const sc_compiled *[]){c}, .count = 1});
    return context->diag.errors == errors;
}

/* Warns about parameters that the entry does not read: they are not in the program, so files
 * written by this run lack them. */
static void warn_of_unread(sc_context *context, const sc_compiled *whole, const char *path)
{
    sc_sym_list unread = {0};
    sc_strbuf names;
    sc_strbuf_init(&names, &context->arena);
    sc_declarations_unread_params(whole->program, whole->model, whole->global, &unread);
    for (uint32_t i = 0; i < unread.count; i++)
        sc_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", sc_text(context, unread.data[i]));
    if (unread.count > 0)
        sc_report(&context->diag, SC_D_not_saved, (sc_loc){0}, path, names.data,
                  sc_text(context, whole->entry), NULL);
}

bool sc_compile_train_file(sc_context *context, sc_options *options, sc_compiled *c)
{
    const sc_plan *plan;
    sc_declarations *program = sc_driver_load(context, options);
    return program != NULL && sc_driver_choose_plan(context, program, options, &plan) &&
           compile_train(context, program, plan, options, sc_last_pass(options), c);
}

/* A state keeps where parameters are in weights files, for `convert`, if the model says so: several
 * weights blocks, or one that lacks parameters, are errors only where a file is read or written. */
static bool find_facts(sc_context *context, const sc_compiled *c, const sc_compiled *whole,
                       const sc_options *options, sc_facts *out)
{
    bool needs = options->run.weights != NULL || options->run.save != NULL;
    sc_diag before = context->diag;
    if (needs || options->run.state == NULL)
        return sc_find_facts(c, whole, needs, options->map, out);
    if (sc_find_facts(c, whole, true, options->map, out) && out->weights.is_complete)
        return true;
    context->diag = before;
    return sc_find_facts(c, whole, false, NULL, out);
}

int sc_cmd_train(sc_context *context, const sc_options *given, sc_strbuf *out)
{
    sc_options options = *given;
    sc_compiled c, whole, forward;
    sc_facts facts;
    options.trains = options.runs_ranks = true;
    sc_local_run run = {.context = context, .options = &options, .c = &c};
    sc_training_run *training = sc_train_begin(context, &options.run);
    if (training == NULL || !sc_compile_train_file(context, &options, &c) ||
        !sc_build_whole(&c, &whole) || !find_facts(context, &c, &whole, &options, &facts))
        return 0;
    if (options.run.save != NULL)
        warn_of_unread(context, &whole, options.run.save);
    if (options.run.eval_data.count > 0 || options.run.hold_out > 0) {
        if (!sc_compile_forward(context, &c, &options, sc_last_pass(&options), &forward))
            return 0;
        run.second = &forward;
        bool is_global = options.interpret && sc_mesh_ranks(&c.local->mesh) == 1;
        const sc_module *first = is_global ? c.global : c.local;
        facts.entry.func =
            options.interpret ? first->funcs.count + forward.func : sc_second_func(&c, &forward);
    }
    sc_train_run(training, &facts, sc_local_run_open, &run, out);
    sc_local_run_close(&run);
    return 0;
}
