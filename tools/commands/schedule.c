/* shardc schedule: the table of actions of a pipeline, its bubble and its live micro-batches, with
 * unit costs and with the work of each chunk. */
#include <inttypes.h>
#include <string.h>

#include "ir/pipeline/schedule.h"
#include "tools/commands/commands.h"
#include "tools/explain/report.h"

typedef struct answer {
    sc_context *context;
    const sc_compiled *entry;
    const char *axis;
    sc_pipeline pipeline;
    const sc_pipeline_schedule *schedule;
    sc_schedule_cost unit, work;
} answer;

/* ---- JSON ---- */
static json_t *chunks_json(const answer *a)
{
    json_t *list = json_array();
    for (uint32_t c = 0; c < a->schedule->chunks; c++) {
        const sc_pipeline_chunk *chunk = &a->pipeline.chunks[c];
        json_t *paths = json_array();
        for (uint32_t i = 0; i < chunk->paths.count; i++)
            json_array_append_new(paths, json_string(chunk->paths.data[i]));
        json_array_append_new(list, json_pack("{s:I,s:I,s:o,s:o}", "chunk", (json_int_t)c, "rank",
                                              (json_int_t)a->schedule->rank_of[c], "paths", paths,
                                              "flops", sc_number_json(chunk->flops)));
    }
    return list;
}

static json_t *ranks_json(const answer *a)
{
    json_t *list = json_array();
    for (uint32_t r = 0; r < a->schedule->ranks; r++) {
        const sc_actions *actions = &a->schedule->actions[r];
        json_t *row = json_array();
        for (uint32_t i = 0; i < actions->list.count; i++)
            json_array_append_new(
                row, json_string(sc_action_text(&a->context->arena, actions->list.data[i])));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *refused_json(const answer *a)
{
    const sc_refused_schedules *refused = a->pipeline.refused;
    uint32_t count = refused == NULL ? 0 : refused->count;
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:s,s:I}", "schedule", refused->data[i].name,
                                              "memory", (json_int_t)refused->data[i].bytes));
    return list;
}

/* How many micro-batches it runs as, and why that is one, though the schedule has more. */
static json_t *entry_json(const answer *a)
{
    const sc_compiled *c = a->entry;
    bool is_trained = c->minimize != NULL;
    json_int_t count = is_trained           ? (json_int_t)a->schedule->micro_batches
                       : c->batches == NULL ? 1
                                            : (json_int_t)c->batches->count;
    return json_pack("{s:s,s:b,s:I,s:s?}", "name", sc_text(a->context, c->entry), "trained",
                     is_trained, "micro_batches", count, "why", c->why_one);
}

static void print_json(const answer *a, sc_strbuf *out)
{
    json_t *live = json_array();
    for (uint32_t r = 0; r < a->schedule->ranks; r++)
        json_array_append_new(live, json_real(a->unit.live[r]));
    json_t *unit = json_pack("{s:f,s:f,s:o}", "bubble", a->unit.bubble, "makespan",
                             a->unit.makespan, "live", live),
           *work = json_pack("{s:f,s:f,s:f}", "bubble", a->work.idle, "imbalance",
                             a->work.imbalance, "makespan", a->work.makespan);
    sc_print_json(json_pack("{s:i,s:s,s:s,s:I,s:o,s:o,s:o,s:o,s:o,s:o}", "version", 1, "schedule",
                            a->pipeline.name, "axis", a->axis, "micro_batches",
                            (json_int_t)a->schedule->micro_batches, "chunks", chunks_json(a),
                            "ranks", ranks_json(a), "unit", unit, "work", work, "refused",
                            refused_json(a), "entry", entry_json(a)),
                  out);
}

/* ---- text ---- */
static void pad(sc_strbuf *out, size_t width, const char *text)
{
    sc_strbuf_printf(out, " %-*s", (int)width, text);
}

/* Prints a rank's row: a column a step, which is the forward pass of a chunk. B takes two. */
static void print_row(const answer *a, uint32_t rank, uint32_t steps, size_t width, sc_strbuf *out)
{
    const sc_actions *actions = &a->schedule->actions[rank];
    uint32_t step = 0;
    sc_strbuf row;
    sc_strbuf_init(&row, &a->context->arena);
    for (uint32_t i = 0; i < actions->list.count; i++) {
        sc_action action = actions->list.data[i];
        double start = a->unit.start[rank][i] * a->schedule->chunks / a->schedule->ranks;
        for (; step < (uint32_t)(start + 0.5); step++)
            pad(&row, width, ".");
        pad(&row, width, sc_action_text(&a->context->arena, action));
        step++;
        if (action.kind == SC_ACTION_B) {
            pad(&row, width, "-");
            step++;
        }
    }
    for (; step < steps; step++)
        pad(&row, width, ".");
    while (row.length > 0 && row.data[row.length - 1] == ' ')
        row.length--;
    sc_strbuf_printf(out, "rank %-3" PRIu32, rank);
    sc_strbuf_add_bytes(out, row.data, row.length);
    sc_strbuf_add_char(out, '\n');
}

static void print_table(const answer *a, sc_strbuf *out)
{
    const sc_pipeline_schedule *s = a->schedule;
    const sc_action longest = {SC_ACTION_F, s->chunks - 1, s->micro_batches - 1};
    size_t width = strlen(sc_action_text(&a->context->arena, longest));
    uint32_t steps = (uint32_t)(a->unit.makespan * s->chunks / s->ranks + 0.5);
    for (uint32_t r = 0; r < s->ranks; r++)
        print_row(a, r, steps, width, out);
}

static void print_chunks(const answer *a, sc_strbuf *out)
{
    double total = 0;
    for (uint32_t c = 0; c < a->schedule->chunks; c++)
        total += a->pipeline.chunks[c].flops;
    sc_strbuf_add(out, "chunk  rank    work  holds\n");
    for (uint32_t c = 0; c < a->schedule->chunks; c++) {
        const sc_pipeline_chunk *chunk = &a->pipeline.chunks[c];
        sc_strbuf_printf(out, "%5" PRIu32 "  %4" PRIu32 "  %4.1f %%  ", c, a->schedule->rank_of[c],
                         total > 0 ? 100 * chunk->flops / total : 0);
        sc_strbuf_add_list(out, chunk->paths.data, chunk->paths.count, ", ");
        sc_strbuf_add_char(out, '\n');
    }
}

/* Names the schedules that `auto` would have taken before this one, and the memory they need. */
static void print_refused(const answer *a, sc_strbuf *out)
{
    const sc_refused_schedules *refused = a->pipeline.refused;
    uint32_t count = refused == NULL ? 0 : refused->count;
    for (uint32_t i = 0; i < count; i++)
        sc_strbuf_printf(out, "%s does not fit: %s a rank\n", refused->data[i].name,
                         sc_bytes_text(&a->context->arena, (double)refused->data[i].bytes));
}

/* The table is of a train step: says what of it an entry runs that is not trained. */
static void print_entry(const answer *a, sc_strbuf *out)
{
    const sc_compiled *c = a->entry;
    const char *name = sc_text(a->context, c->entry);
    if (c->batches != NULL)
        sc_strbuf_printf(out, "entry %s runs forward: the F of %" PRIu32 " micro-batches\n", name,
                         c->batches->count);
    else if (c->minimize == NULL)
        sc_strbuf_printf(out, "entry %s runs forward, as one micro-batch%s%s\n", name,
                         c->why_one == NULL ? "" : ": ", c->why_one == NULL ? "" : c->why_one);
}

static void print_text(const answer *a, sc_strbuf *out)
{
    const sc_pipeline_schedule *s = a->schedule;
    sc_strbuf_printf(out,
                     "%s over %s = %" PRIu32 ": %" PRIu32 " chunks, %" PRIu32 " micro-batches\n",
                     a->pipeline.name, a->axis, s->ranks, s->chunks, s->micro_batches);
    print_refused(a, out);
    print_table(a, out);
    sc_strbuf_printf(out, "unit costs  makespan %.4g, bubble %.1f %%\n", a->unit.makespan,
                     100 * a->unit.bubble);
    sc_strbuf_printf(out, "real work   makespan %.4g, bubble %.1f %%, imbalance %.1f %%\n",
                     a->work.makespan, 100 * a->work.idle, 100 * a->work.imbalance);
    sc_strbuf_add(out, "live micro-batches by rank ");
    for (uint32_t r = 0; r < s->ranks; r++)
        sc_strbuf_printf(out, "%s%.4g", r > 0 ? ", " : "", a->unit.live[r]);
    sc_strbuf_add_char(out, '\n');
    print_entry(a, out);
    print_chunks(a, out);
}

/* ---- the command ---- */
static void report_none(sc_context *context, const sc_plan *plan)
{
    const char *name = plan == NULL ? "none" : sc_text(context, plan->name.text);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&context->arena, "plan '%s' has no pipeline, so no schedule", name),
              NULL);
    sc_report_note(&context->diag, (sc_loc){0},
                   "a pipeline is 'stage layers over pp: schedule = one_f_one_b, microbatches = 8, "
                   "batch = B;' over an axis of several ranks");
}

int sc_cmd_schedule(sc_context *context, const sc_options *options, sc_strbuf *out)
{
    const sc_plan *plan;
    sc_compiled compiled;
    answer a = {.context = context, .entry = &compiled};
    sc_declarations *program = sc_driver_load(context, options);
    if (program == NULL || !sc_driver_choose_plan(context, program, options, &plan) ||
        !sc_driver_pipeline(context, program, plan, options, &compiled, &a.pipeline))
        return 0;
    a.schedule = a.pipeline.schedule;
    if (a.schedule == NULL) {
        report_none(context, plan);
        return 0;
    }
    sc_schedule_simulate(&context->arena, a.schedule, NULL, &a.unit);
    sc_pipeline_simulate(&context->arena, &a.pipeline, &a.work);
    a.axis = sc_text(context, a.pipeline.axis_name);
    if (options->run.csv)
        sc_schedule_write(a.schedule, out);
    else if (options->run.json)
        print_json(&a, out);
    else
        print_text(&a, out);
    return 0;
}
