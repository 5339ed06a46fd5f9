/* The cut of a stack for a number of chunks, and the choice of the schedule. */
#include "frontend/plan/stage.h"

#include <inttypes.h>
#include <string.h>

#include "support/units.h"

static int64_t whole_size(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    (void)m;
    return type->dims[i].size;
}

double sc_stages_flops(const sc_stages *c, const sc_op *op)
{
    return sc_op_flops(c->m, op, whole_size);
}

uint32_t sc_stages_named_chunk(const sc_stages *c, const sc_plan_stmt *stmt, uint32_t chunks)
{
    const sc_expr *value = stmt->stage.value;
    if (value->kind == SC_EXPR_INT)
        return value->integer >= 0 && value->integer < chunks ? (uint32_t)value->integer : SC_NONE;
    return strcmp(sc_text(c->context, value->name), "first") == 0 ? 0 : chunks - 1;
}

/* ---- the cut ---- */
/* Attributes the forward FLOPs of each op to the instance at or before it, and those of ops that
 * lines place to their chunks. */
static void find_work(const sc_stages *c, uint32_t chunks, double *besides)
{
    memset(c->work, 0, (size_t)c->instance_paths.count * sizeof *c->work);
    sc_for_each_op (c->m, c->built->func, id) {
        double flops = sc_stages_flops(c, sc_op_at(c->m, id));
        if (c->placed[id] != NULL)
            besides[sc_stages_named_chunk(c, c->placed[id], chunks)] += flops;
        else
            c->work[c->after[id]] += flops;
    }
}

void sc_stages_cut(const sc_stages *c, uint32_t chunks, uint32_t *ends, double *work)
{
    uint32_t end = 0;
    find_work(c, chunks, work);
    if (c->line->split == SC_SPLIT_AUTO) {
        sc_stage_cut_by_work(&c->context->arena, c->work, c->instance_paths.count, work, chunks,
                             ends);
    } else if (c->line->split == SC_SPLIT_EVEN || c->instance_paths.count == 0) {
        sc_stage_cut_evenly(c->instance_paths.count, chunks, ends);
    } else {
        for (uint32_t k = 0; k < chunks; k++) {
            end += c->line->lengths.data[k];
            ends[k] = end;
        }
    }
    uint32_t begin = 0;
    for (uint32_t k = 0; k < chunks; k++) {
        for (uint32_t i = begin; i < ends[k]; i++)
            work[k] += c->work[i];
        begin = ends[k];
    }
}

bool sc_stages_report_misfit(const sc_stages *c, uint32_t chunks)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size, count = c->instance_paths.count;
    sc_arena *arena = &c->context->arena;
    const char *axis = sc_text(c->context, c->plan->mesh.axes[c->line->axis].name);
    sc_report(&c->context->diag, SC_D_stages_do_not_fit, c->line->stmt->loc,
              sc_arena_printf(arena,
                              "%" PRIu32 " chunks (%s = %" PRIu32 ", %" PRIu32
                              " a rank) are more than the %" PRIu32 " instances of the stack",
                              chunks, axis, ranks, chunks / ranks, count),
              count == 0 ? sc_arena_printf(arena, "entry '%s' runs none of them",
                                           sc_text(c->context, c->built->entry))
              : count < ranks
                  ? sc_arena_printf(arena, "'mesh %s = ..' may be at most %" PRIu32, axis, count)
                  : sc_arena_printf(arena,
                                    "with %s = %" PRIu32 " there may be at most %" PRIu32
                                    " a rank, or '%s' at most %" PRIu32,
                                    axis, ranks, count / ranks, axis,
                                    (uint32_t)(count / (chunks / ranks))),
              NULL);
    return false;
}

bool sc_stages_check_lengths(const sc_stages *c, uint32_t chunks)
{
    uint64_t sum = 0;
    sc_arena *arena = &c->context->arena;
    if (c->line->split != SC_SPLIT_LENGTHS || c->instance_paths.count == 0)
        return true;
    for (uint32_t i = 0; i < c->line->lengths.count; i++)
        sum += c->line->lengths.data[i];
    const char *text = c->line->lengths.count != chunks
                           ? sc_arena_printf(arena,
                                             "'split' has %" PRIu32
                                             " lengths, but the pipeline has %" PRIu32 " chunks",
                                             c->line->lengths.count, chunks)
                       : sum != c->instance_paths.count
                           ? sc_arena_printf(arena,
                                             "the lengths of 'split' add up to %" PRIu64
                                             ", but the stack has %" PRIu32 " instances",
                                             sum, c->instance_paths.count)
                           : NULL;
    if (text != NULL)
        sc_report(&c->context->diag, SC_D_bad_plan_statement, c->line->split_loc, text, NULL);
    return text == NULL;
}

/* ---- the schedule ---- */
enum { MOST_PER_RANK = 8 }; /* that `schedule = auto` tries */

/* Returns the makespan of a schedule for this entry, in FLOPs; what a chunk holds is cut anew for
 * each number of chunks. */
static double price_of(const sc_stages *c, const sc_pipeline_schedule *schedule, double *live)
{
    sc_arena *arena = &c->context->arena;
    sc_schedule_cost cost;
    double *work = sc_arena_array(arena, schedule->chunks, sizeof *work), total = 0;
    sc_stages_cut(c, schedule->chunks, sc_arena_array(arena, schedule->chunks, sizeof(uint32_t)),
                  work);
    for (uint32_t k = 0; k < schedule->chunks; k++)
        total += work[k];
    sc_schedule_simulate(arena, schedule, work, &cost);
    *live = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        *live = cost.live[r] > *live ? cost.live[r] : *live;
    return cost.makespan * (total > 0 ? total : 1);
}

static bool is_candidate(const sc_stages *c, sc_schedule_kind kind, uint32_t per_rank)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size, given = sc_schedule_rows[kind].chunks;
    uint64_t chunks = (uint64_t)ranks * per_rank;
    if ((given != 0 && given != per_rank) || (given == 0 && per_rank == 1) ||
        chunks > c->instance_paths.count ||
        c->line->micro_batches < sc_schedule_least(kind, ranks) ||
        chunks > SC_SCHEDULE_MAX_ACTIONS / 3 / (uint64_t)c->line->micro_batches)
        return false;
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++) {
        if (sc_stages_named_chunk(c, c->plan->stage_at_lines.data[i], (uint32_t)chunks) == SC_NONE)
            return false;
    }
    return c->line->split != SC_SPLIT_LENGTHS || c->line->lengths.count == chunks;
}

static const char *name_of(const sc_stages *c, sc_schedule_kind kind, uint32_t per_rank)
{
    const sc_schedule_row *row = &sc_schedule_rows[kind];
    return row->chunks != 0
               ? row->name
               : sc_arena_printf(&c->context->arena, "%s(%" PRIu32 ")", row->name, per_rank);
}

static bool is_refused(const sc_stages *c, const char *name)
{
    const sc_refused_schedules *refused = c->plan->options.refused;
    uint32_t count = refused == NULL ? 0 : refused->count;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(refused->data[i].name, name) == 0)
            return true;
    }
    return false;
}

/* Takes the fastest candidate that is not refused; of equally fast ones that with the fewest live
 * micro-batches, then the first of the table. NULL if none fits. */
static const sc_pipeline_schedule *choose(const sc_stages *c, sc_pipeline *out)
{
    const sc_pipeline_schedule *best = NULL;
    double best_price = 0, best_live = 0;
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size;
    for (uint32_t v = 1; v <= MOST_PER_RANK; v++) {
        for (int k = 0; k < SC_SCHEDULE_COUNT; k++) {
            sc_schedule_kind kind = (sc_schedule_kind)k;
            if (!is_candidate(c, kind, v) || is_refused(c, name_of(c, kind, v)))
                continue;
            const sc_pipeline_schedule *schedule =
                sc_schedule_generate(&c->context->arena, kind, ranks, v, c->line->micro_batches);
            double live, price = price_of(c, schedule, &live), slack = 1e-9 * best_price;
            if (best != NULL && (price > best_price + slack ||
                                 (price > best_price - slack && live > best_live - 1e-9)))
                continue;
            best = schedule;
            best_price = price;
            best_live = live;
            out->name = name_of(c, kind, v);
        }
    }
    return best;
}

const sc_pipeline_schedule *sc_stages_schedule(const sc_stages *c, sc_pipeline *out)
{
    const sc_stage_line *line = c->line;
    uint32_t ranks = c->plan->mesh.axes[line->axis].size;
    if (line->order == SC_STAGE_FILE) {
        out->name = line->file;
        return line->schedule;
    }
    if (line->order == SC_STAGE_AUTO && c->instance_paths.count > 0)
        return choose(c, out);
    bool is_named = line->order == SC_STAGE_NAMED;
    sc_schedule_kind kind = is_named ? line->kind : SC_SCHEDULE_one_f_one_b;
    uint32_t per_rank = is_named ? line->per_rank : 1;
    out->name = name_of(c, kind, per_rank);
    return sc_schedule_generate(&c->context->arena, kind, ranks, per_rank, line->micro_batches);
}

uint32_t sc_stages_wanted(const sc_stages *c)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size;
    if (c->line->order == SC_STAGE_FILE)
        return c->line->schedule->chunks;
    if (c->line->order == SC_STAGE_NAMED)
        return ranks * c->line->per_rank;
    return c->line->split == SC_SPLIT_LENGTHS ? c->line->lengths.count : ranks;
}

/* Reports that every candidate needs too much memory, and how much each. */
static bool report_none_fits(const sc_stages *c, const sc_refused_schedules *refused)
{
    sc_arena *arena = &c->context->arena;
    const sc_expect *bound = sc_plan_memory_to_fit(c->plan);
    uint32_t least = 0;
    for (uint32_t i = 1; i < refused->count; i++)
        least = refused->data[i].bytes < refused->data[least].bytes ? i : least;
    const sc_refused_schedule *of_least = &refused->data[least];
    sc_report(
        &c->context->diag, SC_D_stages_do_not_fit, c->line->schedule_loc,
        sc_arena_printf(arena, "no schedule fits 'expect %s': the least, '%s', needs %s a rank",
                        bound->text, of_least->name, sc_bytes_text(arena, (double)of_least->bytes)),
        sc_arena_printf(arena,
                        "write 'expect memory() <= %" PRId64
                        "', or keep less: more and smaller micro-batches "
                        "('microbatches'), 'remat', 'offload', or more ranks",
                        of_least->bytes),
        NULL);
    sc_report_note(&c->context->diag, bound->loc, "the bound is here");
    for (uint32_t i = 0; i < refused->count; i++)
        sc_report_note(&c->context->diag, (sc_loc){0}, "%s: %s", refused->data[i].name,
                       sc_bytes_text(arena, (double)refused->data[i].bytes));
    return false;
}

bool sc_stages_report_no_schedule(const sc_stages *c)
{
    const sc_refused_schedules *refused = c->plan->options.refused;
    if (refused != NULL && refused->count > 0)
        return report_none_fits(c, refused);
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size;
    sc_report(&c->context->diag, SC_D_bad_plan_statement, c->line->split_loc,
              sc_arena_printf(&c->context->arena,
                              "no schedule has %" PRIu32 " chunks on %" PRIu32 " ranks",
                              c->line->lengths.count, ranks),
              NULL);
    sc_report_note(&c->context->diag, (sc_loc){0},
                   "give 'split' as many lengths as ranks, or a multiple of that");
    return false;
}
