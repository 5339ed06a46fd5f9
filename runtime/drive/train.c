/* A training run: options, feeds, steps, held-out losses, checkpoints, signals. */
#include "runtime/drive/train.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "runtime/drive/json.h"
#include "runtime/drive/save_weights.h"
#include "runtime/drive/settings.h"
#include "runtime/drive/train_console.h"
#include "runtime/drive/train_feeds.h"
#include "runtime/drive/train_log.h"
#include "runtime/drive/train_state.h"
#include "support/clock.h"
#include "support/state.h"

struct sc_training_run {
    sc_context *context;
    const sc_facts *facts;
    sc_run_options options;
    sc_saved_state saved;  /* of --resume */
    sc_state_saver *saver; /* of --state */
    uint64_t saved_step;   /* last step saved in a checkpoint of this run */
    uint64_t diverging;    /* diverging steps in a row */
    bool gave_up;
    sc_train_feeds feeds;
    sc_weights_file *file;    /* of --save */
    const char *weight_facts; /* kept in states; NULL: none */
    sc_train_log log;
    sc_train_console console;
    sc_trainer *trainer;
    sc_train_record last; /* step 0: none was done */
    double held_out_loss;
    uint64_t held_out_step; /* step of the last held-out loss */
    bool has_held_out_loss, writes;
    int stopped_by; /* signal received by this process or another one of the run; 0: none */
    const sc_executor *executor;
};

typedef struct sc_training_run training;

enum { KEEP = 2, GIVE_UP = 5 }; /* defaults of --keep and --give-up */

static bool usage(sc_context *context, const char *text)
{
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, text, NULL);
    return false;
}

/* ---- signals: the step is finished, then everything is saved ---- */

/* signal handlers belong to the process: the only global state */
static volatile sig_atomic_t stop_signal;

/* A second signal of either kind ends the process at once. */
static void on_signal(int number)
{
    const struct sigaction action = {.sa_handler = SIG_DFL};
    stop_signal = number;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void catch_signals(struct sigaction old[2])
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    stop_signal = 0;
    sigaction(SIGINT, &action, &old[0]);
    sigaction(SIGTERM, &action, &old[1]);
}

static void release_signals(const struct sigaction old[2])
{
    sigaction(SIGINT, &old[0], NULL);
    sigaction(SIGTERM, &old[1], NULL);
}

/* ---- options ---- */

static bool check_options(training *t)
{
    const sc_run_options *o = &t->options;
    uint32_t errors = t->context->diag.errors;
    if (o->steps < 1)
        usage(t->context, "train needs --steps N, of at least 1");
    /* --save takes the form of its tensors from there */
    if (o->resume != NULL && o->weights != NULL && o->save == NULL)
        usage(t->context,
              "--weights makes no sense with --resume: the parameters are those of the state");
    sc_apply_settings(t->context, o->set, NULL, 0);
    return t->context->diag.errors == errors;
}

/* ---- before the first step ---- */

/* A resumed run keeps its original seed. */
static bool read_resumed(training *t)
{
    sc_context *context = t->context;
    if (t->options.resume == NULL)
        return true;
    if (!sc_saved_state_read(context, t->options.resume, &t->saved))
        return false;
    if (t->options.seed != 0 && t->options.seed != t->saved.counts.seed)
        return usage(context, sc_arena_printf(
                                  &context->arena,
                                  "--seed %llu, but %s was made with seed %llu; leave --seed out",
                                  (unsigned long long)t->options.seed, t->options.resume,
                                  (unsigned long long)t->saved.counts.seed));
    t->options.seed = t->saved.counts.seed;
    if (t->saved.counts.steps <= (uint64_t)t->options.steps)
        return true;
    return usage(
        context,
        sc_arena_printf(&context->arena,
                        "%s has done %llu steps; --steps counts these too, so %lld is too few",
                        t->options.resume, (unsigned long long)t->saved.counts.steps,
                        (long long)t->options.steps));
}

/* Detects before the run what could not be written at its end. */
static bool check_outputs(training *t)
{
    sc_context *context = t->context;
    const sc_run_options *o = &t->options;
    if (o->save == NULL)
        return true;
    if (!t->facts->weights.is_known)
        return usage(context,
                     "the program was built without a 'weights' block; build it with --map NAME");
    t->file = sc_weights_file_new(context, &t->facts->weights, o->weights);
    return t->file != NULL && sc_weights_file_try(t->file, o->save);
}

/* ---- steps ---- */

/* Makes all processes stop after the same step, although signals arrive at different times. False
 * after a message: communication failed. */
static bool ask_for_stop(training *t)
{
    int32_t mine = stop_signal, most = mine;
    shardc_error error = {.text = ""};
    if (t->stopped_by != 0)
        return true;
    bool is_known = t->executor->verbs->most == NULL ||
                    t->executor->verbs->most(t->executor->self, mine, &most, &error);
    if (!is_known)
        sc_report(&t->context->diag, SC_D_run_failed, (sc_loc){0},
                  sc_arena_printf(&t->context->arena, "%s", error.text), NULL);
    else
        t->stopped_by = most;
    return is_known;
}

/* Computes the objective over the complete batches of the held-out file; stops without a result on
 * a signal. */
static bool evaluate(training *t, uint64_t step)
{
    double totals = 0, weights = 0, total, weight;
    for (uint64_t batch = 0; batch < t->feeds.held_out.batches; batch++) {
        if (!ask_for_stop(t))
            return false;
        if (t->stopped_by != 0)
            return true;
        if (!sc_feed_batch(t->context, &t->feeds.held_out, batch) ||
            !sc_trainer_evaluate(t->trainer, t->feeds.held_out.arrays, t->feeds.held_out.count,
                                 &total, &weight))
            return false;
        totals += total;
        weights += weight;
    }
    t->held_out_loss = weights == 0 ? 0 : totals / weights;
    t->has_held_out_loss = true;
    t->held_out_step = step;
    sc_train_console_held_out(&t->console, t->held_out_loss, sc_seconds());
    return sc_train_log_held_out(&t->log, step, t->held_out_loss);
}

static bool do_step(training *t, uint64_t tokens)
{
    sc_train_record *record = &t->last;
    double begin = sc_seconds();
    if (!sc_feed_batch(t->context, &t->feeds.trained, sc_trainer_steps(t->trainer)) ||
        !sc_trainer_step(t->trainer, t->feeds.trained.arrays, t->feeds.trained.count,
                         &record->result))
        return false;
    record->step = sc_trainer_steps(t->trainer);
    record->tokens = tokens;
    record->waited = t->feeds.trained.waited;
    record->data_bytes = t->feeds.trained.bytes;
    record->flops = t->facts->train.flops;
    record->seconds = sc_seconds() - begin;
    t->diverging = record->result.diverges ? t->diverging + 1 : 0;
    t->gave_up = t->diverging >= (uint64_t)(t->options.give_up > 0 ? t->options.give_up : GIVE_UP);
    sc_train_console_step(&t->console, record, sc_seconds());
    return sc_train_log_step(&t->log, record);
}

/* Shows the checkpoint that has been published last, once. In the log it has a line only with
 * --state-async; without, a line is a step or a held-out loss. */
static bool tell_save(training *t)
{
    sc_save_report report;
    if (!sc_state_saver_report(t->saver, &report))
        return true;
    sc_train_console_state(&t->console, &report, sc_seconds());
    return !t->options.state_async || sc_train_log_state(&t->log, &report);
}

/* Saves a checkpoint of the steps done so far, unless it exists already. */
static bool save_state(training *t)
{
    uint64_t steps = sc_trainer_steps(t->trainer);
    sc_train_state state = {.steps = steps,
                            .skipped = sc_trainer_skipped(t->trainer),
                            .seed = t->options.seed,
                            .program = t->facts->train.program,
                            .weights = t->weight_facts,
                            .has_held_out = t->held_out_step == steps,
                            .held_out = t->held_out_loss};
    if (t->saver == NULL || t->saved_step == steps)
        return true;
    sc_train_describe_data(&t->options, &t->feeds.trained, &state);
    t->saved_step = steps;
    if (!sc_trainer_scale(t->trainer, &state.loss_scale))
        return false;
    if (!sc_state_saver_finish(t->saver) || !tell_save(t))
        return false;
    return sc_state_saver_save(t->saver, &state) && tell_save(t);
}

/* After each step: goes on with a checkpoint that is written in the background. */
static bool poll_state(training *t)
{
    return t->saver == NULL || (sc_state_saver_poll(t->saver) && tell_save(t));
}

static bool is_due(uint64_t step, int64_t every)
{
    return every > 0 && step % (uint64_t)every == 0;
}

static bool do_steps(training *t)
{
    uint64_t wanted = (uint64_t)t->options.steps, tokens = sc_entry_tokens(&t->facts->entry);
    while (sc_trainer_steps(t->trainer) < wanted) {
        if (t->gave_up)
            break;
        if (!ask_for_stop(t))
            return false;
        if (t->stopped_by != 0)
            return true;
        if (!do_step(t, tokens))
            return false;
        uint64_t step = t->last.step;
        bool is_evaluated = is_due(step, t->options.eval_every) || step == wanted;
        if (sc_train_holds_out(&t->options) && is_evaluated && !t->gave_up && !evaluate(t, step))
            return false;
        if (!poll_state(t) || (is_due(step, t->options.state_every) && !save_state(t)))
            return false;
    }
    return true;
}

/* ---- after the last step ---- */

static sc_array parameter_values(void *user, uint32_t param)
{
    const training *t = user;
    const char *path = t->facts->weights.params[param].path;
    const sc_state_set *set = sc_trainer_states(t->trainer);
    for (uint32_t i = 0; i < set->count; i++) {
        if (strcmp(sc_state_info(set, i)->name, path) == 0)
            return sc_trainer_get_state(t->trainer, i);
    }
    sc_report(
        &t->context->diag, SC_D_run_failed, (sc_loc){0},
        sc_arena_printf(&t->context->arena, "the program has no values of parameter '%s'", path),
        NULL);
    return (sc_array){0};
}

/* Tries both: if one cannot be written, the other may. */
static void save(training *t)
{
    if (t->file != NULL)
        sc_weights_save(t->file, t->writes ? t->options.save : NULL, parameter_values, t);
    if (save_state(t) && t->saver != NULL && sc_state_saver_finish(t->saver))
        (void)tell_save(t);
}

static void report_divergence(training *t)
{
    sc_context *context = t->context;
    sc_report(&context->diag, SC_D_diverged, (sc_loc){0},
              sc_arena_printf(&context->arena, "%llu", (unsigned long long)t->diverging),
              sc_arena_printf(&context->arena, "%llu", (unsigned long long)t->last.step), NULL);
    if (t->saver != NULL)
        sc_report_note(&context->diag, (sc_loc){0},
                       "these steps were not applied: the last good values are in %s",
                       t->options.state);
}

static const char *signal_name(const training *t)
{
    return t->stopped_by == SIGINT ? "SIGINT" : "SIGTERM";
}

static void print_text(const training *t, bool is_stopped, sc_strbuf *out)
{
    const sc_run_options *o = &t->options;
    unsigned long long done = sc_trainer_steps(t->trainer), wanted = (unsigned long long)o->steps;
    if (is_stopped)
        sc_strbuf_printf(out, "stopped by %s after step %llu of %llu\n", signal_name(t), done,
                         wanted);
    else if (t->last.step == 0)
        sc_strbuf_printf(out, "nothing to do: %s has done all %llu steps\n", o->resume, done);
    else
        sc_strbuf_printf(out, "%llu step%s\n", done, done == 1 ? "" : "s");
    if (t->last.step > 0)
        sc_strbuf_printf(out, "loss %.10g\n", t->last.result.loss);
    if (t->has_held_out_loss)
        sc_strbuf_printf(out, "held-out loss %.10g\n", t->held_out_loss);
    unsigned long long skipped = sc_trainer_skipped(t->trainer);
    if (skipped > 0)
        sc_strbuf_printf(out, "%llu step%s not applied: loss or gradients were not finite\n",
                         skipped, skipped == 1 ? "" : "s");
    if (o->save != NULL)
        sc_strbuf_printf(out, "parameters are in %s\n", o->save);
    if (o->state != NULL)
        sc_strbuf_printf(out, "the state is in %s; --resume %s continues from it\n", o->state,
                         o->state);
    if (is_stopped && o->save == NULL && o->state == NULL)
        sc_strbuf_add(out, "nothing was saved (--state DIR and --save FILE do)\n");
}

static void print_json(const training *t, bool is_stopped, sc_strbuf *out)
{
    json_t *root = json_object();
    json_object_set_new(root, "version", json_integer(1));
    json_object_set_new(root, "steps", json_integer((json_int_t)sc_trainer_steps(t->trainer)));
    json_object_set_new(root, "stopped", is_stopped ? json_string(signal_name(t)) : json_null());
    json_object_set_new(root, "loss",
                        t->last.step > 0 ? sc_number_json(t->last.result.loss) : json_null());
    json_object_set_new(root, "eval_loss",
                        t->has_held_out_loss ? sc_number_json(t->held_out_loss) : json_null());
    json_object_set_new(root, "skipped", json_integer((json_int_t)sc_trainer_skipped(t->trainer)));
    sc_print_json(root, out);
}

/* ---- the run ---- */

sc_training_run *sc_train_begin(sc_context *context, const sc_run_options *options)
{
    training *t = sc_arena_alloc(&context->arena, sizeof *t);
    *t = (training){.context = context, .options = *options};
    return check_options(t) && read_resumed(t) ? t : NULL;
}

/* Tests saving before the first step. */
static bool open_saver(training *t)
{
    const sc_run_options *o = &t->options;
    uint64_t steps = (uint64_t)o->steps - sc_trainer_steps(t->trainer);
    uint64_t saves = 1 + (o->state_every > 0 ? steps / (uint64_t)o->state_every : 0);
    if (o->state == NULL)
        return true;
    const sc_save_options save = {.folder = o->state,
                                  .keep = o->keep > 0 ? (uint32_t)o->keep : KEEP,
                                  .best = o->best,
                                  .is_async = o->state_async,
                                  .goes_on = o->resume != NULL,
                                  .saves = saves};
    if (t->facts->weights.is_known && t->facts->weights.is_complete)
        t->weight_facts = sc_weight_facts_write(&t->facts->weights, &t->context->arena);
    t->saver = sc_state_saver_open(t->context, sc_trainer_states(t->trainer), &save);
    return t->saver != NULL;
}

static uint64_t count_parameters(const sc_executor *executor)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < executor->state_count; i++) {
        if (strcmp(executor->states[i].kind, sc_state_kind_names[SC_STATE_PARAM]) == 0)
            count += (uint64_t)executor->states[i].count;
    }
    return count;
}

static void open_console(training *t)
{
    FILE *to = t->writes ? t->options.progress : NULL;
    const sc_train_start start = {
        .entry = t->facts->entry.name,
        .plan = t->facts->plan,
        .ranks = t->executor->ranks,
        .parameters = count_parameters(t->executor),
        .done = sc_trainer_steps(t->trainer),
        .wanted = (uint64_t)t->options.steps,
        .rank_bytes = t->executor->arena_bytes,
        .tokens_an_epoch =
            t->feeds.trained.data == NULL
                ? 0
                : sc_order_count(&t->feeds.trained.windows) * t->feeds.trained.row_length,
        .tokens_held_out =
            t->feeds.held_out.data == NULL
                ? 0
                : sc_order_count(&t->feeds.held_out.windows) * t->feeds.held_out.row_length};
    sc_train_console_open(&t->console, to, to != NULL && isatty(fileno(to)) == 1, &t->facts->train,
                          &start, sc_seconds());
}

static bool restore(training *t)
{
    const sc_state_set *set = sc_trainer_states(t->trainer);
    return sc_saved_state_has_no_more(t->context, &t->saved, set) &&
           sc_saved_state_load(t->context, &t->saved, set) &&
           sc_trainer_set_steps(t->trainer, t->saved.counts.steps, t->saved.counts.skipped);
}

static bool prepare(training *t, sc_open_executor *open, void *user)
{
    const sc_run_options *o = &t->options;
    if (o->resume != NULL && !sc_saved_state_fits(t->context, &t->saved, t->facts->train.program))
        return false;
    if (!sc_train_feeds_open(t->context, &t->facts->entry, o, &t->feeds))
        return false;
    if (o->resume != NULL)
        sc_train_compare_data(t->context, o, &t->feeds.trained, &t->saved.counts);
    if (!check_outputs(t))
        return false;
    sc_executor *executor = open(user);
    t->executor = executor;
    t->writes = executor != NULL && executor->is_first;
    if (executor != NULL &&
        !sc_train_feeds_bind(t->context, executor, t->facts->entry.func, &t->feeds))
        return false;
    t->trainer = executor == NULL ? NULL : sc_trainer_new(t->context, t->facts, o, executor);
    if (t->trainer == NULL || (o->resume != NULL && !restore(t)) || !open_saver(t))
        return false;
    /* opened last, because it overwrites an existing log */
    if (!sc_train_log_open(t->context, t->writes ? o->log : NULL, o->resume != NULL,
                           &t->facts->train, &t->log))
        return false;
    open_console(t);
    return true;
}

void sc_train_run(sc_training_run *run, const sc_facts *facts, sc_open_executor *open, void *user,
                  sc_strbuf *out)
{
    uint32_t errors = run->context->diag.errors;
    run->facts = facts;
    if (prepare(run, open, user)) {
        struct sigaction old[2];
        catch_signals(old);
        bool ok = do_steps(run);
        bool is_stopped =
            run->stopped_by != 0 && sc_trainer_steps(run->trainer) < (uint64_t)run->options.steps;
        if (ok && run->gave_up)
            report_divergence(run);
        if (ok)
            save(run);
        release_signals(old);
        if (ok && run->writes && run->context->diag.errors == errors)
            (run->options.json ? print_json : print_text)(run, is_stopped, out);
    }
    sc_state_saver_close(run->saver);
    sc_train_console_close(&run->console);
    sc_train_log_close(&run->log);
    sc_trainer_free(run->trainer);
    sc_feed_close(&run->feeds.trained);
    sc_feed_close(&run->feeds.held_out);
}
