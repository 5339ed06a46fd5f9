/* Finds edits by compiling them. Each candidate is applied to the plan's statements as parsed and
 * compiled like the plan itself, in a context of its own, which keeps its messages and memory
 * separate. A new statement is parsed from the text that will be printed, so the advice is exactly
 * what was compiled. */
#include "tools/explain/advice.h"

#include <string.h>

#include "frontend/plan/plan.h"
#include "ir/pipeline/schedule.h"
#include "tools/driver/flops.h"
#include "tools/explain/cuts.h"
#include "tools/explain/edits.h"
#include "tools/explain/measure_memory.h"
#include "tools/explain/report.h"

enum { MAX_TRIALS = 128 }; /* per command, however large the program: each trial is a compile */

typedef struct trial {
    const sc_edit *edit; /* NULL: the unedited plan */
    bool compiles, measured;
    int64_t estimate;     /* of the peak, before kernels are known; used to compare edits */
    sc_plan_cost cost;    /* with the measured peak once there is one */
    const char *schedule; /* of a pipeline; NULL: no stages */
    sc_map moved;         /* call << 32 | value, both as names: the values that collectives move */
} trial;

struct sc_adviser {
    sc_context *context;
    const sc_options *options;
    const sc_compiled *c;
    trial now;
    SC_VEC(trial *) trials;
};

/* Returns what a compiled plan costs, but for its memory. */
static sc_plan_cost cost_of(const sc_compiled *c, const sc_comm_rows *rows)
{
    sc_plan_cost cost = {.flops = sc_rank_flops(c->local)};
    for (uint32_t r = 0; r < rows->count; r++)
        cost.sent += rows->data[r].sent * rows->data[r].count;
    if (c->pipeline.schedule != NULL) {
        sc_schedule_cost schedule;
        sc_pipeline_simulate(&c->local->context->arena, &c->pipeline, &schedule);
        cost.makespan = schedule.makespan;
        cost.imbalance = schedule.imbalance;
    }
    return cost;
}

/* ---- trying ---- */
typedef struct attempt {
    const sc_adviser *adviser;
    trial *result;
} attempt;

/* Symbols belong to a context: names from the command line are interned again in the trial's. */
static sc_options options_for(sc_context *context, const sc_adviser *a)
{
    sc_options options = *a->options;
    memset(&options.plan_options.binds, 0, sizeof options.plan_options.binds);
    memset(&options.plan_options.mesh, 0, sizeof options.plan_options.mesh);
    for (uint32_t i = 0; i < a->options->plan_options.binds.count; i++) {
        const sc_binding *bind = &a->options->plan_options.binds.data[i];
        *sc_vec_push(&context->arena, &options.plan_options.binds) =
            (sc_binding){.dim = sc_intern_text(&context->names, sc_text(a->context, bind->dim)),
                         .size = bind->size};
    }
    for (uint32_t i = 0; i < a->options->plan_options.mesh.count; i++) {
        const sc_binding *axis = &a->options->plan_options.mesh.data[i];
        *sc_vec_push(&context->arena, &options.plan_options.mesh) =
            (sc_binding){.dim = sc_intern_text(&context->names, sc_text(a->context, axis->dim)),
                         .size = axis->size};
    }
    return options;
}

/* Parses a line of a plan as if it stood in the folder of the plan's file. */
static sc_plan_stmt *parse_line(sc_context *context, const sc_plan *plan, const char *line)
{
    const char *text = sc_arena_printf(&context->arena, "lang 1; plan p for m { %s }", line),
               *name = sc_sources_line(&context->sources, plan->loc.begin).source->name,
               *slash = strrchr(name, '/');
    int folder = slash == NULL ? 0 : (int)(slash - name) + 1;
    const sc_file *file = sc_parse_text(
        context, sc_arena_printf(&context->arena, "%.*sadvice", folder, name), text, strlen(text));
    if (context->diag.errors > 0 || file->items.count != 1 ||
        file->items.data[0]->plan->body.count != 1)
        return NULL;
    return file->items.data[0]->plan->body.data[0];
}

static const sc_plan *edited(sc_context *context, const sc_plan *plan, const sc_edit *edit)
{
    sc_plan *copy = sc_arena_alloc(&context->arena, sizeof *copy);
    sc_plan_stmt *line =
        edit->kind == SC_EDIT_REMOVE ? NULL : parse_line(context, plan, edit->line);
    if (line == NULL && edit->kind != SC_EDIT_REMOVE)
        return NULL;
    *copy = *plan;
    memset(&copy->body, 0, sizeof copy->body);
    for (uint32_t i = 0; i < plan->body.count; i++) {
        bool meant = edit->kind != SC_EDIT_ADD && i == edit->statement;
        if (!meant || line != NULL)
            *sc_vec_push(&context->arena, &copy->body) = meant ? line : plan->body.data[i];
    }
    if (edit->kind == SC_EDIT_ADD)
        *sc_vec_push(&context->arena, &copy->body) = line;
    return copy;
}

/* Returns the key of a moved value, in symbols of the adviser's context, which outlives the
 * trial's. */
static uint64_t moved_key(sc_context *context, const char *op, const char *scope, const char *value)
{
    sc_sym call = sc_intern_printf(&context->names, "%s %s", op, scope);
    return (uint64_t)call << 32 | sc_intern_text(&context->names, value);
}

static void keep(sc_context *context, const sc_comm_rows *rows, trial *t)
{
    t->moved.arena = &context->arena;
    for (uint32_t r = 0; r < rows->count; r++) {
        const sc_comm_row *row = &rows->data[r];
        for (uint32_t v = 0; v < row->values.count; v++)
            sc_map_insert(&t->moved, moved_key(context, row->name, row->scope, row->values.data[v]),
                          0, NULL);
    }
}

/* Compiles the file again with the edited plan, in a context of its own. */
static bool compile_edited(sc_context *context, const sc_adviser *a, const sc_edit *edit,
                           sc_options *options, sc_compiled *out)
{
    const sc_plan *plan;
    *options = options_for(context, a);
    sc_declarations *program = sc_driver_load(context, options);
    if (program == NULL || !sc_driver_choose_plan(context, program, options, &plan))
        return false;
    plan = edit == NULL ? plan : plan == NULL ? NULL : edited(context, plan, edit);
    return (plan != NULL || edit == NULL) &&
           sc_driver_compile(context, program, plan, options, NULL, NULL, NULL, out);
}

static void try_edit(sc_context *context, void *user)
{
    attempt *try = user;
    trial *t = try->result;
    sc_options options;
    sc_compiled c;
    sc_comm_rows rows = {0};
    sc_memory_report memory;
    if (!compile_edited(context, try->adviser, t->edit, &options, &c))
        return;
    sc_comm_report(c.local, &rows);
    sc_memory_report_make(c.local, &memory);
    t->cost = cost_of(&c, &rows);
    t->estimate = memory.peak;
    if (c.pipeline.schedule != NULL)
        t->schedule = sc_arena_copy_text(&try->adviser->context->arena, c.pipeline.name,
                                         strlen(c.pipeline.name));
    keep(try->adviser->context, &rows, t);
    t->compiles = true;
}

static void measure_edit(sc_context *context, void *user)
{
    attempt *try = user;
    sc_options options;
    sc_compiled c;
    sc_memory_report memory;
    if (compile_edited(context, try->adviser, try->result->edit, &options, &c) &&
        sc_measure_memory(context, &c, &memory))
        try->result->cost.peak = memory.peak;
}

/* Runs a trial. If memory runs out the whole command fails, because an untried edit would be
 * missing silently. */
static void run_attempt(void (*what)(sc_context *, void *), const sc_adviser *a, trial *t)
{
    sc_context context;
    attempt try = {a, t};
    bool fine = sc_context_run(&context, 0, what, &try);
    sc_context_free(&context);
    if (!fine)
        sc_arena_fail(&a->context->arena);
}

/* Measures the peak as `memory` does, for the few edits that are shown. */
static void measure(sc_adviser *a, trial *t)
{
    if (t->measured)
        return;
    t->measured = true;
    t->cost.peak = -1;
    run_attempt(measure_edit, a, t);
}

static bool same_edit(const sc_edit *a, const sc_edit *b)
{
    if (a->kind != b->kind || (a->kind != SC_EDIT_ADD && a->statement != b->statement))
        return false;
    return a->kind == SC_EDIT_REMOVE || strcmp(a->line, b->line) == 0;
}

/* Returns NULL when the limit of trials is reached. */
static trial *trial_of(sc_adviser *a, const sc_edit *edit)
{
    for (uint32_t i = 0; i < a->trials.count; i++) {
        if (same_edit(a->trials.data[i]->edit, edit))
            return a->trials.data[i];
    }
    if (a->trials.count >= MAX_TRIALS)
        return NULL;
    trial *t = sc_arena_alloc(&a->context->arena, sizeof *t);
    sc_edit *copy = sc_arena_alloc(&a->context->arena, sizeof *copy);
    *copy = *edit;
    t->edit = copy;
    *sc_vec_push(&a->context->arena, &a->trials) = t;
    run_attempt(try_edit, a, t);
    return t;
}

sc_adviser *sc_adviser_new(sc_context *context, const sc_options *options, const sc_compiled *c)
{
    sc_adviser *adviser = sc_arena_alloc(&context->arena, sizeof *adviser);
    sc_comm_rows rows = {0};
    *adviser = (sc_adviser){.context = context, .options = options, .c = c};
    sc_comm_report(c->local, &rows);
    adviser->now.cost = cost_of(c, &rows);
    return adviser;
}

/* ---- choosing ---- */
static bool is_gone(sc_context *context, const sc_comm_row *row, const trial *t)
{
    for (uint32_t v = 0; v < row->values.count; v++) {
        if (sc_map_find(&t->moved,
                        moved_key(context, row->name, row->scope, row->values.data[v])) != NULL)
            return false;
    }
    return true;
}

/* True if the bytes decrease visibly, as printed. */
static bool saves(const sc_adviser *a, double before, double after)
{
    sc_arena *arena = &a->context->arena;
    return after < before && strcmp(sc_bytes_text(arena, before), sc_bytes_text(arena, after)) != 0;
}

static bool is_better(const sc_adviser *a, const trial *t, const trial *than)
{
    const sc_plan_cost *x = &t->cost;
    if (!saves(a, a->now.cost.sent, x->sent))
        return false;
    return than == NULL || x->sent < than->cost.sent ||
           (x->sent <= than->cost.sent && t->estimate < than->estimate);
}

static bool is_leaner(const sc_adviser *a, const trial *t, const trial *than)
{
    const sc_plan_cost *x = &t->cost;
    if (x->sent > a->now.cost.sent)
        return false;
    return than == NULL || t->estimate < than->estimate ||
           (t->estimate == than->estimate && x->sent < than->cost.sent);
}

static sc_advice *advise(sc_adviser *a, trial *t)
{
    sc_advice *advice = sc_arena_alloc(&a->context->arena, sizeof *advice);
    measure(a, &a->now);
    measure(a, t);
    *advice = (sc_advice){*t->edit, a->now.cost, t->cost, NULL};
    return advice;
}

/* Returns the best edit with, as `leaner`, the one that needs less memory than it; or the latter
 * alone, if it needs less than the unedited plan and there is no best one. */
static sc_advice *choose(sc_adviser *a, trial *best, trial *leanest)
{
    sc_advice *advice = best == NULL ? NULL : advise(a, best),
              *leaner = leanest == NULL || leanest == best ? NULL : advise(a, leanest);
    int64_t peak = advice != NULL ? advice->after.peak : a->now.cost.peak;
    if (leaner != NULL &&
        (leaner->after.peak < 0 || !saves(a, (double)peak, (double)leaner->after.peak)))
        leaner = NULL;
    if (advice == NULL)
        return leaner;
    advice->leaner = leaner;
    return advice;
}

/* Finds the cut that sends the fewest bytes; of equal ones the faster one. */
static sc_answer ask_of_cut(sc_adviser *a, const sc_comm_row *send)
{
    sc_answer answer = {.complete = true};
    sc_edits candidates = {0};
    trial *best = NULL;
    sc_list_cut_edits(a->c, send, &candidates);
    for (uint32_t i = 0; i < candidates.count; i++) {
        trial *t = trial_of(a, &candidates.data[i]);
        answer.complete = answer.complete && t != NULL;
        bool counts = t != NULL && t->compiles && strcmp(t->schedule, a->c->pipeline.name) == 0 &&
                      saves(a, a->now.cost.sent, t->cost.sent);
        if (counts && (best == NULL || t->cost.sent < best->cost.sent ||
                       (t->cost.sent <= best->cost.sent && t->cost.makespan < best->cost.makespan)))
            best = t;
    }
    answer.advice = best == NULL ? NULL : advise(a, best);
    return answer;
}

sc_answer sc_adviser_ask(sc_adviser *a, const sc_comm_row *row)
{
    sc_answer answer = {.complete = true};
    sc_edits candidates = {0};
    trial *best = NULL, *leanest = NULL;
    if (a->c->plan == NULL)
        return answer;
    if (sc_row_transfers(a->c->local, row))
        return ask_of_cut(a, row);
    if (a->trials.count >= MAX_TRIALS)
        return (sc_answer){0};
    sc_list_edits(a->c, row, &candidates);
    for (uint32_t i = 0; i < candidates.count; i++) {
        trial *t = trial_of(a, &candidates.data[i]);
        answer.complete = answer.complete && t != NULL;
        if (t == NULL || !t->compiles || !is_gone(a->context, row, t))
            continue;
        best = is_better(a, t, best) ? t : best;
        leanest = is_leaner(a, t, leanest) ? t : leanest;
    }
    answer.advice = choose(a, best, leanest);
    return answer;
}
