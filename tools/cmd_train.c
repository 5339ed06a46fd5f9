/* shardc train: run the train step of an entry here, as often as asked; log, held-out loss, parameters and state to files. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "ir/text.h"
#include "tools/commands.h"
#include "tools/feed.h"
#include "tools/flops.h"
#include "tools/report.h"
#include "tools/save_weights.h"
#include "tools/settings.h"
#include "tools/train_log.h"
#include "tools/train_state.h"

typedef struct training {
    sc_context *context;
    sc_options options;
    sc_compiled c;
    sc_compiled whole;    /* the entry before it is differentiated or placed, with the whole batch: its inputs and parameters */
    const char *program;  /* as text: what a state is a state of */
    sc_train_state saved; /* of --resume */
    sc_feed feed, held_out;
    sc_weights_file *file; /* of --save */
    sc_train_log log;
    sc_trainer *trainer;
    sc_train_record last; /* step; 0: none was done */
    uint64_t skipped;     /* steps that changed nothing */
    double flops, held_out_loss;
    bool has_held_out_loss;
} training;

static bool usage(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- signals: the step is finished, then everything is saved ---- */

static volatile sig_atomic_t stop_signal;

static void on_signal(int number)
{
    stop_signal = number;
}

/* A second signal ends the process at once. */
static void catch_signals(struct sigaction old[2])
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)(SA_RESETHAND | SA_RESTART)};
    sigemptyset(&action.sa_mask);
    stop_signal = 0;
    sigaction(SIGINT, &action, &old[0]);
    sigaction(SIGTERM, &action, &old[1]);
}

static void release_signals(const struct sigaction old[2])
{
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
}

/* ---- what is asked ---- */

static bool check_options(training *t)
{
    const sc_options *o = &t->options;
    uint32_t errors = t->context->diag.errors;
    if (o->steps < 1)
        usage(t->context, "shardc train needs --steps N, of at least 1");
    if (o->eval_data != NULL && o->data == NULL)
        usage(t->context, "--eval-data needs --data: it feeds the same inputs");
    if (o->eval_every > 0 && o->eval_data == NULL)
        usage(t->context, "--eval-every needs --eval-data FILE");
    sc_apply_settings(t->context, o->set, NULL, 0);
    return t->context->diag.errors == errors;
}

static const char *entry_names(sc_context *context, const sc_entry_list *entries)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < entries->count; i++) {
        if (entries->data[i].minimised)
            sc_strbuf_printf(&text, "%s%s", text.length > 0 ? ", " : "", sc_text(context, entries->data[i].entry));
    }
    return text.data;
}

/* Without --entry the minimised one is meant, even where a plan gives it no sizes: then that is what is wrong. */
static bool choose_entry(training *t, sc_program *program, sc_sym model)
{
    sc_context *context = t->context;
    sc_entry_list entries = {0};
    const char *only = NULL, *model_name = sc_text(context, model), *named = NULL;
    uint32_t count = 0;
    sc_program_entries(program, model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        const char *name = sc_text(context, entries.data[i].entry);
        if (t->options.entry != NULL && strcmp(name, t->options.entry) == 0 && !entries.data[i].minimised)
            named = name;
        if (entries.data[i].minimised && count++ == 0)
            only = name;
    }
    if (entries.count == 0 || (count > 0 && named == NULL)) { /* no entry at all is reported by who compiles */
        if (t->options.entry == NULL && count == 1)
            t->options.entry = only;
        return true;
    }
    if (count > 0)
        usage(context, sc_arena_printf(&context->arena, "entry '%s' of '%s' is not minimised, so there is nothing to train; minimised: %s",
                                       named, model_name, entry_names(context, &entries)));
    else
        usage(context, sc_arena_printf(&context->arena, "no entry of '%s' is minimised, so there is nothing to train", model_name));
    if (named == NULL)
        named = sc_text(context, entries.data[0].entry);
    sc_report_note(&context->diag, (sc_loc){0}, "write 'minimize %s.%s with adamw(lr = 1e-3);'", model_name, named);
    return false;
}

static bool compile(training *t)
{
    sc_context *context = t->context;
    const sc_plan *plan;
    sc_program *program = sc_driver_load(context, &t->options);
    if (program == NULL || !sc_driver_choose_plan(context, program, &t->options, &plan))
        return false;
    sc_sym model = plan != NULL ? plan->model.text : sc_program_only_model(program);
    if (model != 0 && !choose_entry(t, program, model))
        return false;
    if (!sc_driver_compile(context, program, plan, &t->options, NULL, NULL, sc_runner_last_pass(&t->options), &t->c))
        return false;
    sc_entry_list entries = {0};
    sc_program_entries(program, t->c.model, &entries);
    if (t->c.minimize == NULL)
        return usage(context, sc_arena_printf(&context->arena, "several entries are minimised: %s; choose one with --entry NAME",
                                              entry_names(context, &entries)));
    uint32_t errors = context->diag.errors;
    sc_check_expects(context, &t->c, SC_D_expect_fails); /* before a run that takes long, not after it */
    return context->diag.errors == errors;
}

/* Which optimizer has which parameters, in which dtypes: with the program, all that a state depends on. */
static void print_trained(const training *t, sc_strbuf *out)
{
    const sc_training *trained = t->c.global_step->training;
    for (uint32_t i = 0; i < trained->params.count; i++) {
        const sc_trained_param *param = &trained->params.data[i];
        sc_strbuf_printf(out, "train \"%s\" with %s, grad %s, opt %s\n", sc_text(t->context, t->c.global->state.data[param->state].path),
                         sc_optimizers[trained->groups.data[param->group].kind].name, sc_dtypes[param->grad].name,
                         sc_dtypes[param->opt].name);
    }
}

/* The compiled step is of one micro-batch, and holds what the plan does to it. */
static bool build_whole(training *t)
{
    sc_context *context = t->context;
    sc_binding_list bindings = {0};
    sc_build_result built = {0};
    sc_strbuf text;
    sc_plan_bindings(t->c.resolved, t->c.entry, &bindings);
    sc_build_request request = {.model = t->c.model,
                                .entry = t->c.entry,
                                .bindings = &bindings,
                                .dtype_of = sc_plan_dtype_of,
                                .user = t->c.resolved,
                                .training = true};
    t->whole = t->c;
    t->whole.global = sc_module_new(context);
    if (!sc_build_entry(t->c.program, &request, t->whole.global, &built))
        return false;
    t->whole.func = built.func;
    sc_strbuf_init(&text, &context->arena);
    sc_print_module(t->whole.global, NULL, &text);
    print_trained(t, &text);
    t->program = text.data;
    return true;
}

/* ---- before the first step ---- */

/* The seed of a run that goes on is the one it began with. */
static bool read_resumed(training *t)
{
    sc_context *context = t->context;
    if (t->options.resume == NULL)
        return true;
    if (!sc_train_state_read(context, t->options.resume, &t->saved))
        return false;
    if (t->options.seed != 0 && t->options.seed != t->saved.seed)
        return usage(context, sc_arena_printf(&context->arena, "--seed %llu, but %s was made with seed %llu; leave --seed out",
                                              (unsigned long long)t->options.seed, t->options.resume, (unsigned long long)t->saved.seed));
    t->options.seed = t->saved.seed;
    if (t->saved.steps <= (uint64_t)t->options.steps)
        return true;
    return usage(context, sc_arena_printf(&context->arena, "%s has done %llu steps; --steps counts these too, so %lld is too few",
                                          t->options.resume, (unsigned long long)t->saved.steps, (long long)t->options.steps));
}

/* Other data may be meant; then it begins where as many rows of it would have been read. */
static void compare_data(training *t)
{
    uint64_t tokens = t->feed.tokens == NULL ? 0 : sc_tokens_count(t->feed.tokens);
    if (t->options.resume != NULL && tokens != t->saved.tokens)
        sc_report(&t->context->diag, SC_D_other_data, (sc_loc){0}, t->options.resume,
                  sc_arena_printf(&t->context->arena, "%llu", (unsigned long long)t->saved.tokens),
                  sc_arena_printf(&t->context->arena, "%llu", (unsigned long long)tokens), NULL);
}

static bool open_feeds(training *t)
{
    sc_context *context = t->context;
    if (!sc_feed_open(context, &t->whole, &t->options, SC_FEED_TRAINING, &t->feed))
        return false;
    compare_data(t);
    if (t->options.eval_data == NULL)
        return true;
    for (uint32_t i = 0; i < t->options.inputs.count; i++) {
        const char *name = t->options.inputs.data[i].name;
        for (uint32_t j = 0; j < t->feed.count; j++) {
            if (t->feed.steps[j].tensor != NULL && strcmp(t->feed.names[j], name) == 0)
                return usage(context,
                             sc_arena_printf(&context->arena,
                                             "input '%s' holds a step per index, so that it has no value for the batches of --eval-data",
                                             name));
        }
    }
    sc_options held_out = t->options;
    held_out.data = t->options.eval_data;
    return sc_feed_open(context, &t->whole, &held_out, SC_FEED_AS_STORED, &t->held_out);
}

/* Parameters that the entry does not read are none of this program: a file of this run lacks them. */
static void warn_of_unread(training *t)
{
    sc_sym_list unread = {0};
    sc_strbuf names;
    sc_strbuf_init(&names, &t->context->arena);
    sc_program_unread_params(t->c.program, t->c.model, t->whole.global, &unread);
    for (uint32_t i = 0; i < unread.count; i++)
        sc_strbuf_printf(&names, "%s%s", i > 0 ? ", " : "", sc_text(t->context, unread.data[i]));
    if (unread.count > 0)
        sc_report(&t->context->diag, SC_D_not_saved, (sc_loc){0}, t->options.save, names.data, sc_text(t->context, t->c.entry), NULL);
}

/* What cannot be written at the end is said at the beginning. */
static bool check_outputs(training *t)
{
    sc_context *context = t->context;
    const sc_options *o = &t->options;
    if (o->state != NULL && !sc_train_state_check(context, o->state))
        return false;
    if (o->save == NULL)
        return true;
    const sc_weights *weights;
    if (!sc_weights_choose(context, t->c.program, t->c.model, o->map, &weights))
        return false;
    warn_of_unread(t);
    t->file = sc_check_writable(context, o->save) ? sc_weights_file_new(context, t->c.program, weights, t->whole.global, o->weights) : NULL;
    return t->file != NULL;
}

static bool prepare(training *t)
{
    const sc_options *o = &t->options;
    if (!check_options(t) || !read_resumed(t) || !compile(t) || !build_whole(t))
        return false;
    if (o->resume != NULL && !sc_train_state_fits(t->context, o->resume, &t->saved, t->program))
        return false;
    if (!open_feeds(t) || !check_outputs(t))
        return false;
    t->flops = sc_schedule_flops(t->c.local);
    t->trainer = sc_trainer_new(t->context, &t->c, o);
    if (t->trainer == NULL || (o->resume != NULL && !sc_train_state_restore(t->context, o->resume, &t->saved, t->trainer)))
        return false;
    return sc_train_log_open(t->context, o->log, o->resume != NULL, &t->log); /* the last: a log that was there is written over */
}

/* ---- steps ---- */

/* The objective over the whole batches of the held-out file; nothing when a signal comes between. */
static bool evaluate(training *t, uint64_t step)
{
    double totals = 0, weights = 0, total, weight;
    for (uint64_t batch = 0; batch < t->held_out.batches; batch++) {
        if (stop_signal != 0)
            return true;
        sc_feed_batch(&t->held_out, batch);
        if (!sc_trainer_evaluate(t->trainer, t->held_out.arrays, t->held_out.count, &total, &weight))
            return false;
        totals += total;
        weights += weight;
    }
    t->held_out_loss = weights == 0 ? 0 : totals / weights;
    t->has_held_out_loss = true;
    return sc_train_log_held_out(&t->log, step, t->held_out_loss);
}

static uint64_t tokens_of(const training *t)
{
    const sc_module *m = t->whole.global;
    sc_for_each_op (m, t->whole.func, op) {
        const sc_type_info *type = sc_op_at(m, op)->kind == SC_OP_input ? sc_type_of(m, sc_result(m, op, 0)) : NULL;
        if (type != NULL && type->dtype == SC_DTYPE_i32 && type->rank > 0)
            return (uint64_t)sc_type_elements(type);
    }
    return 0;
}

static bool do_step(training *t, uint64_t tokens)
{
    sc_train_record *record = &t->last;
    double begin = sc_seconds();
    sc_feed_batch(&t->feed, sc_trainer_steps(t->trainer));
    if (!sc_trainer_step(t->trainer, t->feed.arrays, t->feed.count, &record->result))
        return false;
    record->step = sc_trainer_steps(t->trainer);
    record->tokens = tokens;
    record->flops = t->flops;
    record->seconds = sc_seconds() - begin;
    t->skipped += record->result.skipped;
    sc_train_log_progress(&t->log, record, (uint64_t)t->options.steps);
    return sc_train_log_step(&t->log, record);
}

static bool do_steps(training *t)
{
    uint64_t wanted = (uint64_t)t->options.steps, every = (uint64_t)t->options.eval_every, tokens = tokens_of(t);
    while (sc_trainer_steps(t->trainer) < wanted && stop_signal == 0) {
        if (!do_step(t, tokens))
            return false;
        uint64_t step = t->last.step;
        bool is_due = (every > 0 && step % every == 0) || step == wanted;
        if (t->options.eval_data != NULL && is_due && !evaluate(t, step))
            return false;
    }
    return true;
}

/* ---- afterwards ---- */

static sc_array parameter_values(void *user, uint32_t state)
{
    const training *t = user;
    const char *path = sc_text(t->context, t->whole.global->state.data[state].path);
    for (uint32_t i = 0; i < sc_trainer_state_count(t->trainer); i++) {
        if (strcmp(sc_trainer_state_name(t->trainer, i), path) == 0)
            return sc_trainer_get_state(t->trainer, i);
    }
    return (sc_array){0};
}

/* Both are tried: where one cannot be written, the other may. */
static void save(training *t)
{
    const sc_options *o = &t->options;
    sc_train_state state = {.steps = sc_trainer_steps(t->trainer),
                            .seed = o->seed,
                            .program = t->program,
                            .tokens = t->feed.tokens == NULL ? 0 : sc_tokens_count(t->feed.tokens),
                            .row_length = t->feed.row_length,
                            .rows = t->feed.rows};
    if (t->file != NULL)
        sc_weights_save(t->file, o->save, parameter_values, t);
    if (o->state != NULL)
        sc_train_state_write(t->context, o->state, &state, t->trainer);
}

static const char *signal_name(void)
{
    return stop_signal == SIGINT ? "SIGINT" : "SIGTERM";
}

static void print_text(const training *t, bool is_stopped, sc_strbuf *out)
{
    const sc_options *o = &t->options;
    unsigned long long done = sc_trainer_steps(t->trainer), wanted = (unsigned long long)o->steps;
    if (is_stopped)
        sc_strbuf_printf(out, "stopped by %s after step %llu of %llu\n", signal_name(), done, wanted);
    else if (t->last.step == 0)
        sc_strbuf_printf(out, "nothing to do: %s has done all %llu steps\n", o->resume, done);
    else
        sc_strbuf_printf(out, "%llu step%s\n", done, done == 1 ? "" : "s");
    if (t->last.step > 0)
        sc_strbuf_printf(out, "loss %.10g\n", t->last.result.loss);
    if (t->has_held_out_loss)
        sc_strbuf_printf(out, "held-out loss %.10g\n", t->held_out_loss);
    if (t->skipped > 0)
        sc_strbuf_printf(out, "%llu steps changed nothing: their gradients were not finite\n", (unsigned long long)t->skipped);
    if (o->save != NULL)
        sc_strbuf_printf(out, "parameters are in %s\n", o->save);
    if (o->state != NULL)
        sc_strbuf_printf(out, "the state is in %s; --resume %s goes on\n", o->state, o->state);
    if (is_stopped && o->save == NULL && o->state == NULL)
        sc_strbuf_add(out, "nothing was saved (--state DIR and --save FILE do)\n");
}

static void print_json(const training *t, bool is_stopped, sc_strbuf *out)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "steps", json_integer((json_int_t)sc_trainer_steps(t->trainer)));
    json_object_set_new(root, "stopped", is_stopped ? json_string(signal_name()) : json_null());
    json_object_set_new(root, "loss", t->last.step > 0 ? sc_number_json(t->last.result.loss) : json_null());
    json_object_set_new(root, "eval_loss", t->has_held_out_loss ? sc_number_json(t->held_out_loss) : json_null());
    json_object_set_new(root, "skipped", json_integer((json_int_t)t->skipped));
    sc_print_json(root, out);
}

int sc_cmd_train(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    training t = {.context = context, .options = *options};
    uint32_t errors = context->diag.errors;
    t.options.trains = true;
    if (prepare(&t)) {
        struct sigaction old[2];
        catch_signals(old);
        bool ok = do_steps(&t);
        bool is_stopped = stop_signal != 0 && sc_trainer_steps(t.trainer) < (uint64_t)t.options.steps;
        if (ok)
            save(&t);
        release_signals(old);
        if (ok && context->diag.errors == errors)
            (options->json ? print_json : print_text)(&t, is_stopped, out);
    }
    sc_train_log_close(&t.log);
    sc_trainer_free(t.trainer);
    sc_feed_close(&t.feed);
    sc_feed_close(&t.held_out);
    return 0;
}
