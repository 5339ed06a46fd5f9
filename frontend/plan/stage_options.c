/* The options of a `stage` line: `schedule = S, microbatches = m, batch = B, split(..)`. */
#include "frontend/plan/internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define TAKES "a stage takes 'schedule = ..', 'microbatches = ..', 'batch = ..' and 'split(..)'"

static bool fail(const sc_resolved_plan *plan, sc_loc loc, const char *text)
{
    sc_report(&plan->context->diag, SC_D_bad_plan_statement, loc, text, NULL);
    return false;
}

/* Evaluates a number from 1 to UINT32_MAX. */
static bool read_count(sc_resolved_plan *plan, const sc_expr *expr, const char *what, uint32_t *out)
{
    int64_t value;
    assert(expr != NULL);
    if (!sc_declarations_eval_integer(plan->program, expr, &plan->options.binds, &value))
        return false;
    if (value >= 1 && value <= UINT32_MAX) {
        *out = (uint32_t)value;
        return true;
    }
    return fail(plan, expr->loc,
                sc_arena_printf(&plan->context->arena, "%s is at least 1%s", what,
                                value < 1 ? ""
                                          : sc_arena_printf(&plan->context->arena,
                                                            " and at most %" PRIu32, UINT32_MAX)));
}

/* ---- schedule = .. ---- */
static const sc_arg *only_argument(const sc_expr *value)
{
    if (value->kind != SC_EXPR_CALL || value->call.args.count != 1 || value->call.has_dims)
        return NULL;
    const sc_arg *arg = &value->call.args.data[0];
    return arg->name.text == 0 && arg->values.count == 1 ? arg : NULL;
}

static bool read_file_name(sc_resolved_plan *plan, const sc_expr *value, sc_stage_line *line)
{
    const sc_arg *arg = only_argument(value);
    if (arg == NULL || arg->values.data[0]->kind != SC_EXPR_STRING)
        return fail(plan, value->loc, "'file' takes a file's name: file(\"schedule.csv\")");
    line->order = SC_STAGE_FILE;
    line->file = sc_text(plan->context, arg->values.data[0]->name);
    return true;
}

static bool read_named(sc_resolved_plan *plan, const sc_expr *value, sc_stage_line *line)
{
    const sc_schedule_row *row = &sc_schedule_rows[line->kind];
    sc_arena *arena = &plan->context->arena;
    const sc_arg *arg = only_argument(value);
    line->order = SC_STAGE_NAMED;
    line->per_rank = row->chunks;
    if (row->chunks != 0)
        return value->kind == SC_EXPR_NAME ||
               fail(plan, value->loc,
                    sc_arena_printf(arena,
                                    "'%s' takes no argument: it has %" PRIu32 " chunk%s a rank",
                                    row->name, row->chunks, row->chunks == 1 ? "" : "s"));
    if (arg == NULL)
        return fail(plan, value->loc,
                    sc_arena_printf(arena, "'%s' takes the number of chunks a rank: %s(2)",
                                    row->name, row->name));
    if (!read_count(plan, arg->values.data[0], "the number of chunks a rank", &line->per_rank))
        return false;
    return line->per_rank >= 2 ||
           fail(plan, value->loc,
                sc_arena_printf(arena, "'%s' has at least 2 chunks a rank; with one it is '%s'",
                                row->name,
                                line->kind == SC_SCHEDULE_interleaved ? "one_f_one_b" : "gpipe"));
}

static bool read_schedule(sc_resolved_plan *plan, const sc_expr *value, sc_stage_line *line)
{
    static const char *const words[] = {
#define SCHEDULE(name, chunks, v, least) #name,
#include "ir/pipeline/schedules.def"
#undef SCHEDULE
        "auto", "file"};
    bool is_call = value->kind == SC_EXPR_CALL;
    sc_sym word = value->kind == SC_EXPR_NAME ? value->name : is_call ? value->call.callee.text : 0;
    line->schedule_loc = value->loc;
    if (!sc_plan_check_word(plan, word, value->loc, "schedule", words,
                            sizeof words / sizeof *words))
        return false;
    const char *text = sc_text(plan->context, word);
    if (strcmp(text, "file") == 0)
        return read_file_name(plan, value, line);
    if (strcmp(text, "auto") == 0) {
        line->order = SC_STAGE_AUTO;
        return !is_call || fail(plan, value->loc, "'auto' takes no argument");
    }
    for (int k = 0; k < SC_SCHEDULE_COUNT; k++) {
        if (strcmp(text, sc_schedule_rows[k].name) == 0)
            line->kind = (sc_schedule_kind)k;
    }
    return read_named(plan, value, line);
}

/* ---- the others ---- */
static bool read_batch(sc_resolved_plan *plan, const sc_expr *value, sc_stage_line *line)
{
    if (value->kind != SC_EXPR_NAME)
        return fail(plan, value->loc, "batch is the dim that micro-batches split");
    line->batch = (sc_name){value->name, value->loc};
    return sc_plan_check_dim(plan, &line->batch);
}

static bool read_named_option(sc_resolved_plan *plan, const sc_arg *arg, sc_stage_line *line)
{
    static const char *const options[] = {"schedule", "microbatches", "batch"};
    if (!sc_plan_check_word(plan, arg->name.text, arg->name.loc, "option of a stage", options,
                            sizeof options / sizeof *options))
        return false;
    const sc_expr *value = arg->values.count == 1 ? arg->values.data[0] : NULL;
    if (value == NULL)
        return fail(plan, arg->loc, TAKES);
    const char *name = sc_text(plan->context, arg->name.text);
    if (strcmp(name, "schedule") == 0)
        return read_schedule(plan, value, line);
    if (strcmp(name, "batch") == 0)
        return read_batch(plan, value, line);
    line->count_loc = value->loc;
    return read_count(plan, value, "the number of micro-batches", &line->micro_batches);
}

static bool read_split(sc_resolved_plan *plan, const sc_expr *value, sc_stage_line *line)
{
    static const char *const words[] = {"auto", "even"};
    const sc_arg_list *args = &value->call.args;
    const sc_expr *first =
        args->count == 1 && args->data[0].values.count == 1 ? args->data[0].values.data[0] : NULL;
    line->split_loc = value->loc;
    if (first != NULL && first->kind == SC_EXPR_NAME &&
        !sc_declarations_has_dim(plan->program, first->name)) {
        if (!sc_plan_check_word(plan, first->name, first->loc, "split", words, 2))
            return false;
        bool is_even = strcmp(sc_text(plan->context, first->name), "even") == 0;
        line->split = is_even ? SC_SPLIT_EVEN : SC_SPLIT_AUTO;
        return true;
    }
    line->split = SC_SPLIT_LENGTHS;
    for (uint32_t i = 0; i < args->count; i++) {
        const sc_arg *arg = &args->data[i];
        uint32_t *length = sc_vec_push(&plan->context->arena, &line->lengths);
        if (arg->name.text != 0 || arg->values.count != 1)
            return fail(plan, arg->loc, "'split' takes 'auto', 'even', or a length for each chunk");
        if (!read_count(plan, arg->values.data[0], "a chunk's length", length))
            return false;
    }
    return args->count > 0 ||
           fail(plan, value->loc, "'split' takes 'auto', 'even', or a length for each chunk");
}

/* Returns which option an argument is, for repetitions: its name's symbol, or that of `split`. */
static bool read_option(sc_resolved_plan *plan, const sc_arg *arg, sc_stage_line *line)
{
    if (arg->name.text != 0)
        return read_named_option(plan, arg, line);
    const sc_expr *value = arg->values.count == 1 ? arg->values.data[0] : NULL;
    if (value == NULL || value->kind != SC_EXPR_CALL || value->call.has_dims ||
        strcmp(sc_text(plan->context, value->call.callee.text), "split") != 0)
        return fail(plan, arg->loc, TAKES);
    return read_split(plan, value, line);
}

static bool is_repeated(const sc_arg_list *options, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (options->data[i].name.text == options->data[index].name.text)
            return true;
    }
    return false;
}

bool sc_plan_read_stage_options(sc_resolved_plan *plan, const sc_plan_stmt *stmt,
                                sc_stage_line *line)
{
    const sc_arg_list *options = &stmt->stage.options;
    bool fine = true;
    for (uint32_t i = 0; i < options->count; i++) {
        if (is_repeated(options, i))
            fine = fail(plan, options->data[i].loc, "this option of the stage is given twice");
        else
            fine = read_option(plan, &options->data[i], line) && fine;
    }
    if (!fine)
        return false;
    const char *missing = line->schedule_loc.begin == 0 ? "schedule = one_f_one_b"
                          : line->micro_batches == 0    ? "microbatches = 8"
                          : line->batch.text == 0       ? "batch = B"
                                                        : NULL;
    if (missing == NULL)
        return true;
    return fail(plan, stmt->loc,
                sc_arena_printf(&plan->context->arena,
                                "a stage needs 'schedule', 'microbatches' and 'batch': '%s' is "
                                "missing, for example",
                                missing));
}
