#include "tools/driver/driver.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/read_program.h"
#include "ir/ops/verify.h"
#include "passes/memory_report.h"
#include "passes/separable.h"
#include "passes/tag_chunks.h"
#include "passes/train_step.h"

static bool is_meant(const sc_options *options, const char *plan)
{
    bool is_named =
        options->plans.count == 0 && (options->plan == NULL || strcmp(options->plan, plan) == 0);
    for (uint32_t i = 0; i < options->plans.count; i++)
        is_named = is_named || strcmp(options->plans.data[i], plan) == 0;
    return is_named;
}

/* For commands that only compile, --ranks sizes an `auto` axis; without such an axis it has no
 * effect. */
static bool check_ranks(sc_context *context, const sc_declarations *program,
                        const sc_options *options)
{
    sc_plan_list plans = {0};
    bool has_auto = options->ranks == 0 || options->runs_ranks;
    const char *name = NULL;
    sc_declarations_plans(program, &plans);
    for (uint32_t i = 0; i < plans.count && !has_auto; i++) {
        if (!is_meant(options, sc_text(context, plans.data[i]->name.text)))
            continue;
        has_auto = sc_plan_has_auto(context, plans.data[i], &options->plan_options);
        name = sc_text(context, plans.data[i]->name.text);
    }
    if (has_auto)
        return true;
    const char *where =
        name == NULL ? "without a plan" : sc_arena_printf(&context->arena, "in plan '%s'", name);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&context->arena,
                              "--ranks %llu has no effect: there is no 'auto' axis %s",
                              (unsigned long long)options->ranks, where),
              NULL);
    return false;
}

sc_declarations *sc_driver_load(sc_context *context, const sc_options *options)
{
    sc_file *file = options->text != NULL
                        ? sc_load_text(context, options->file, options->text, options->text_length)
                        : sc_load_file(context, options->file, options->plan_file);
    if (file == NULL || context->diag.errors > 0)
        return NULL;
    sc_declarations *program = sc_declarations_new(context, file);
    return context->diag.errors > 0 || !check_ranks(context, program, options) ? NULL : program;
}

static const char *list_plans(sc_context *context, const sc_plan_list *plans)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < plans->count; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "",
                         sc_text(context, plans->data[i]->name.text));
    return text.data;
}

bool sc_driver_choose_plan(sc_context *context, sc_declarations *program, const sc_options *options,
                           const sc_plan **out)
{
    sc_plan_list plans = {0};
    sc_declarations_plans(program, &plans);
    *out = NULL;
    if (options->plan != NULL && strcmp(options->plan, "none") == 0)
        return true;
    if (options->plan == NULL && plans.count <= 1) {
        *out = plans.count == 1 ? plans.data[0] : NULL;
        return true;
    }
    if (options->plan == NULL) {
        sc_report(&context->diag, SC_D_choose_plan, (sc_loc){0}, list_plans(context, &plans), NULL);
        return false;
    }
    const char **names = sc_arena_array(&context->arena, plans.count, sizeof *names);
    for (uint32_t i = 0; i < plans.count; i++) {
        names[i] = sc_text(context, plans.data[i]->name.text);
        if (strcmp(names[i], options->plan) == 0)
            *out = plans.data[i];
    }
    if (*out != NULL)
        return true;
    const char *near = sc_nearest(options->plan, names, plans.count);
    const char *hint = near != NULL ? sc_arena_printf(&context->arena, "; did you mean '%s'?", near)
                       : plans.count == 0 ? "; the file has none"
                                          : sc_arena_printf(&context->arena, "; the file has %s",
                                                            list_plans(context, &plans));
    sc_report(&context->diag, SC_D_unknown_plan, (sc_loc){0}, options->plan, hint, NULL);
    return false;
}

/* ---- which entry ---- */
static bool is_bound(sc_declarations *program, const sc_resolved_plan *plan,
                     const sc_entry_info *entry)
{
    sc_binding_list bindings = {0};
    sc_sym_list unbound = {0};
    sc_plan_bindings(plan, entry->entry, &bindings);
    sc_declarations_unbound_dims(program, entry->model, entry->entry, &bindings, &unbound);
    return unbound.count == 0;
}

/* Returns the entry for which parameters are placed first: the minimised one if bound, else the
 * first bound one; 0 if there is none. *is_default: it is also the plan's default entry, which is
 * not the case for the first of several. */
static sc_sym placing_entry(sc_declarations *program, const sc_resolved_plan *plan,
                            const sc_entry_list *entries, bool *is_default)
{
    sc_sym first = 0;
    uint32_t bound = 0;
    *is_default = true;
    for (uint32_t i = 0; i < entries->count; i++) {
        if (!is_bound(program, plan, &entries->data[i]))
            continue;
        if (entries->data[i].minimised)
            return entries->data[i].entry;
        first = bound++ == 0 ? entries->data[i].entry : first;
    }
    *is_default = bound == 1;
    return first;
}

/* Returns the entry for which caches are placed first: the first bound cached one. */
static sc_sym caching_entry(sc_declarations *program, const sc_resolved_plan *plan,
                            const sc_entry_list *entries)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        if (entries->data[i].cached && is_bound(program, plan, &entries->data[i]))
            return entries->data[i].entry;
    }
    return 0;
}

static sc_sym find_entry(sc_context *context, const sc_entry_list *entries, const char *name)
{
    const char **names = sc_arena_array(&context->arena, entries->count, sizeof *names);
    for (uint32_t i = 0; i < entries->count; i++) {
        names[i] = sc_text(context, entries->data[i].entry);
        if (strcmp(names[i], name) == 0)
            return entries->data[i].entry;
    }
    sc_strbuf list;
    sc_strbuf_init(&list, &context->arena);
    for (uint32_t i = 0; i < entries->count; i++)
        sc_strbuf_printf(&list, "%s%s", i > 0 ? ", " : "; the model has ", names[i]);
    const char *near = sc_nearest(name, names, entries->count);
    sc_report(&context->diag, SC_D_unknown_entry, (sc_loc){0}, name,
              near == NULL ? list.data
                           : sc_arena_printf(&context->arena, "; did you mean '%s'?", near),
              NULL);
    return 0;
}

static bool check_bound(sc_context *context, sc_declarations *program, const sc_compiled *c)
{
    sc_binding_list bindings = {0};
    sc_sym_list unbound = {0};
    sc_plan_bindings(c->resolved, c->entry, &bindings);
    sc_declarations_unbound_dims(program, c->model, c->entry, &bindings, &unbound);
    for (uint32_t i = 0; i < unbound.count; i++)
        sc_report(&context->diag, SC_D_unbound_dim, c->plan != NULL ? c->plan->loc : (sc_loc){0},
                  sc_text(context, c->entry), sc_text(context, unbound.data[i]), NULL);
    return unbound.count == 0;
}

/* ---- one entry ---- */
static bool add_step(sc_context *context, const sc_compiled *c, sc_module *m,
                     const sc_build_result *built, sc_train_step *step)
{
    sc_training *training = sc_arena_alloc(&context->arena, sizeof *training);
    *training = (sc_training){.micro_batches = 1, .batch_dim = SC_NONE};
    if (!sc_plan_training(c->resolved, c->minimize, m, built, training))
        return false;
    if (training->micro_batches > 1 &&
        !sc_check_separable(m, built->func, training->batch_dim, training->accumulate,
                            sc_plan_micro_batch_word(c->resolved)))
        return false;
    return sc_train_step_build(m, built->func, training, step);
}

/* Builds the global program of an entry; with `step`, its train step; with `stages`, for the stages
 * of a pipeline, if the plan has one. `sizes`: of a micro-batch; NULL: see sc_driver_elaborate. */
static sc_module *build(sc_context *context, const sc_compiled *c, sc_sym entry,
                        const sc_binding_list *sizes, sc_train_step *step, sc_pipeline *stages,
                        sc_build_result *built)
{
    sc_pipeline unused;
    sc_module *m = sc_driver_elaborate(context, c, entry, step != NULL, sizes, built,
                                       stages != NULL ? stages : &unused);
    bool is_staged = stages != NULL && stages->schedule != NULL;
    if (m == NULL || ((step != NULL || is_staged) && !sc_verify_module(m, "elaboration")))
        return NULL;
    if (is_staged && !sc_tag_chunks(m, built->func, stages))
        return NULL;
    if (step != NULL && !add_step(context, c, m, built, step))
        return NULL;
    return context->diag.errors == c->errors_before &&
                   sc_verify_module(m, step == NULL ? "elaboration" : "differentiation")
               ? m
               : NULL;
}

static bool is_for_gpus(const sc_options *options)
{
    const sc_target *target = options->target == NULL ? NULL : sc_target_find(options->target);
    return target != NULL && sc_target_is_cuda(target);
}

/* Builds and places an entry, up to the pass `last`. */
static sc_module *place(sc_context *context, sc_compiled *c, sc_sym entry,
                        const sc_binding_list *sizes, sc_train_step *step, sc_pipeline *pipeline,
                        const sc_module *fixed, const char *last, sc_after_pass *after, void *user,
                        sc_build_result *built, sc_pass_env *env)
{
    sc_module *m = build(context, c, entry, sizes, step, pipeline, built);
    if (m == NULL)
        return NULL;
    sc_seeds *seeds = sc_arena_alloc(&context->arena, sizeof *seeds);
    if (!sc_plan_seed(c->resolved, m, built, fixed, seeds) ||
        context->diag.errors > c->errors_before)
        return NULL;
    if (after != NULL)
        after(m, NULL, user);
    *env =
        (sc_pass_env){.seeds = seeds,
                      .step = step,
                      .pipeline = pipeline == NULL || pipeline->schedule == NULL ? NULL : pipeline,
                      .batches = sizes == NULL ? NULL : c->batches,
                      .bucket = sc_plan_tune(c->resolved).bucket,
                      .prefetch = (uint32_t)sc_plan_tune(c->resolved).prefetch,
                      .cheap_functions = is_for_gpus(c->options)};
    return sc_pipeline_run(m, env, last, after, user) ? m : NULL;
}

static bool choose_entry(sc_context *context, sc_compiled *c, const sc_options *options,
                         const sc_entry_list *entries)
{
    c->entry = options->entry != NULL ? find_entry(context, entries, options->entry)
                                      : sc_plan_default_entry(c->program, c->resolved, c->model);
    return c->entry != 0;
}

/* Without --entry, a minimised entry means its train step. */
static void find_step(sc_compiled *c, const sc_options *options, const sc_entry_list *entries)
{
    for (uint32_t i = 0; i < entries->count; i++) {
        const sc_entry_info *entry = &entries->data[i];
        if (entry->entry == c->entry && entry->minimised &&
            (options->entry == NULL || options->trains) && !options->forward)
            c->minimize = entry->minimize;
    }
}

/* Without a plan, nothing else determines which of several models is meant. */
static void report_no_model(sc_context *context, const sc_declarations *program)
{
    sc_entry_list all = {0};
    sc_declarations_entries(program, 0, &all);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              all.count == 0 ? "the file has no model"
                             : "the file has several models, and no plan says which is meant",
              NULL);
    sc_report_note(
        &context->diag, (sc_loc){0},
        all.count == 0
            ? "write 'model m { entry f(..) -> [..] { .. } }', or import a file that has one"
            : "write 'plan p for MODEL { }' and choose it with --plan p");
}

/* Resolves the plan and chooses the entry. */
static bool begin(sc_context *context, sc_declarations *program, const sc_plan *plan,
                  const sc_options *options, sc_entry_list *entries, sc_compiled *out)
{
    *out = (sc_compiled){.program = program,
                         .plan = plan,
                         .options = options,
                         .errors_before = context->diag.errors};
    out->resolved = sc_plan_resolve(program, plan, &options->plan_options);
    if (out->resolved == NULL || context->diag.errors > out->errors_before)
        return false;
    out->model = plan != NULL ? plan->model.text : sc_declarations_only_model(program);
    if (out->model == 0) {
        report_no_model(context, program);
        return false;
    }
    sc_declarations_entries(program, out->model, entries);
    if (!choose_entry(context, out, options, entries) || !check_bound(context, program, out))
        return false;
    find_step(out, options, entries);
    return true;
}

/* The global program runs the micro-batches one after the other. */
static void call_batches(sc_context *context, sc_compiled *c)
{
    const sc_call call = c->global->schedule.data[0];
    uint32_t count = c->batches == NULL ? 1 : c->batches->count;
    for (uint32_t i = 1; i < count; i++)
        *sc_vec_push(&context->arena, &c->global->schedule) = (sc_call){call.func, (int32_t)i};
}

static bool compile_entry(sc_context *context, sc_declarations *program, const sc_plan *plan,
                          const sc_options *options, sc_after_pass *after, void *user,
                          const char *last, sc_compiled *out)
{
    sc_entry_list entries = {0};
    sc_binding_list sizes = {0};
    if (!begin(context, program, plan, options, &entries, out))
        return false;
    if (out->minimize != NULL) {
        out->step = sc_arena_alloc(&context->arena, sizeof *out->step);
        out->global_step = sc_arena_alloc(&context->arena, sizeof *out->global_step);
    }
    sc_build_result built;
    const sc_module *fixed = NULL;
    bool has_default;
    sc_sym before[] = {placing_entry(program, out->resolved, &entries, &has_default),
                       caching_entry(program, out->resolved, &entries)};
    out->is_default = has_default && before[0] == out->entry;
    for (size_t i = 0; i < 2 && before[i] != 0 && before[i] != out->entry; i++) {
        sc_pass_env env;
        fixed = place(context, out, before[i], NULL, NULL, NULL, fixed, "propagate", NULL, NULL,
                      &built, &env);
        if (fixed == NULL)
            return false;
    }
    if (!sc_driver_find_batches(context, out, &sizes))
        return false;
    const sc_binding_list *own = out->batches == NULL ? NULL : &sizes;
    out->global = build(context, out, out->entry, own, out->global_step, NULL, &built);
    if (out->global == NULL)
        return false;
    call_batches(context, out);
    out->local = place(context, out, out->entry, own, out->step, &out->pipeline, fixed, last, after,
                       user, &out->built, &out->env);
    out->func = out->built.func;
    if (out->batches == NULL) {
        out->whole = out->global;
        out->whole_func = out->func;
    }
    return out->local != NULL;
}

/* ---- `schedule = auto` ---- */
static bool has_line(const sc_plan *plan, sc_plan_stmt_kind kind)
{
    for (uint32_t i = 0; i < plan->body.count; i++) {
        if (plan->body.data[i]->kind == kind)
            return true;
    }
    return false;
}

/* With `expect memory()`, compiles the plan's default entry with one schedule after the other,
 * fastest first, until one fits. *fitted: the options, with those that do not refused. */
static bool fit_schedule(sc_context *context, sc_declarations *program, const sc_plan *plan,
                         const sc_options *options, sc_options *fitted)
{
    sc_entry_list entries = {0};
    sc_compiled c;
    bool has_default;
    *fitted = *options;
    bool is_done = options->plan_options.refused != NULL; /* this compile repeats another */
    if (is_done || plan == NULL || !has_line(plan, SC_PLAN_STAGE) ||
        !has_line(plan, SC_PLAN_EXPECT))
        return true;
    if (!begin(context, program, plan, options, &entries, &c))
        return false;
    const sc_expect *bound = sc_plan_memory_to_fit(c.resolved);
    if (bound == NULL || placing_entry(program, c.resolved, &entries, &has_default) == 0 ||
        !has_default)
        return true;
    sc_refused_schedules *refused = sc_arena_alloc(&context->arena, sizeof *refused);
    sc_options trial = *options;
    trial.entry = NULL;
    trial.forward = false;
    trial.plan_options.refused = fitted->plan_options.refused = refused;
    for (;;) {
        sc_memory_report memory;
        if (!compile_entry(context, program, plan, &trial, NULL, NULL, NULL, &c))
            return false;
        if (options->measure == NULL)
            sc_memory_report_make(c.local, &memory);
        else if (!options->measure(context, &c, &memory))
            return false;
        if (c.pipeline.schedule == NULL || (double)memory.peak <= bound->bytes)
            return true;
        *sc_vec_push(&context->arena, refused) =
            (sc_refused_schedule){c.pipeline.name, memory.peak};
    }
}

bool sc_driver_pipeline(sc_context *context, sc_declarations *program, const sc_plan *plan,
                        const sc_options *options, sc_compiled *out, sc_pipeline *pipeline)
{
    sc_entry_list entries = {0};
    bool has_default;
    sc_binding_list sizes = {0};
    sc_options *fitted = sc_arena_alloc(&context->arena, sizeof *fitted);
    if (!fit_schedule(context, program, plan, options, fitted) ||
        !begin(context, program, plan, fitted, &entries, out))
        return false;
    /* the entry for which parameters are placed is cut first, and the others follow it */
    sc_sym first = placing_entry(program, out->resolved, &entries, &has_default);
    if (first != 0 && first != out->entry &&
        sc_driver_elaborate(context, out, first, false, NULL, &out->built, pipeline) == NULL)
        return false;
    if (!sc_driver_find_batches(context, out, &sizes))
        return false;
    out->global = sc_driver_elaborate(context, out, out->entry, out->minimize != NULL,
                                      out->batches == NULL ? NULL : &sizes, &out->built, pipeline);
    out->func = out->built.func;
    return out->global != NULL;
}

bool sc_driver_compile(sc_context *context, sc_declarations *program, const sc_plan *plan,
                       const sc_options *options, sc_after_pass *after, void *user,
                       const char *last, sc_compiled *out)
{
    sc_options *fitted = sc_arena_alloc(&context->arena, sizeof *fitted);
    return fit_schedule(context, program, plan, options, fitted) &&
           compile_entry(context, program, plan, fitted, after, user, last, out);
}

bool sc_driver_compile_file(sc_context *context, const sc_options *options, sc_after_pass *after,
                            void *user, const char *last, sc_compiled *out)
{
    const sc_plan *plan;
    sc_declarations *program = sc_driver_load(context, options);
    return program != NULL && sc_driver_choose_plan(context, program, options, &plan) &&
           sc_driver_compile(context, program, plan, options, after, user, last, out);
}

const sc_target *sc_driver_target(sc_context *context, const sc_options *options)
{
    const char *name = options->target != NULL ? options->target : "cpu";
    const sc_target *target = sc_target_find(name);
    if (target != NULL)
        return target;
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    sc_strbuf_printf(&text, "there is no target '%s'", name);
    if (sc_target_nearest(name) != NULL)
        sc_strbuf_printf(&text, "; did you mean '%s'?", sc_target_nearest(name));
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text.data, NULL);
    sc_strbuf_init(&text, &context->arena);
    for (size_t i = 0; i < sc_target_count; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", sc_targets[i].name);
    sc_report_note(&context->diag, (sc_loc){0}, "targets are %s", text.data);
    return NULL;
}

bool sc_compile_forward(sc_context *context, const sc_compiled *step, const sc_options *options,
                        const char *last, sc_compiled *out)
{
    sc_options forward = *options;
    forward.entry = sc_text(context, step->entry);
    forward.forward = true;
    return sc_driver_compile(context, step->program, step->plan, &forward, NULL, NULL, last, out);
}

bool sc_splits_experts(const sc_module *m)
{
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        if (sc_op_takes_ids((sc_op_kind)op->kind, 2) && sc_op_attr(op, SC_ATTR_offset) != NULL)
            return true;
    }
    return false;
}

bool sc_has_slots(const sc_module *m)
{
    sc_for_each_op_of_all(m, id)
    {
        if (sc_op_attr(sc_op_at(m, id), SC_ATTR_share) != NULL)
            return true;
    }
    return false;
}
