/* Cuts a built entry into the chunks of a pipeline.
 *
 * The ops of a function are in the order in which the model says them. An op inside an instance of
 * a staged stack is in that instance's chunk; any other op is where it stands: with the instance
 * before it, or in the first chunk if there is none. So what stands before the stacks belongs to
 * the first chunk, what stands between two stacks to the chunk that ends the earlier one, and what
 * follows to the last. `stage PATH = k;` overrides that for ops outside the stacks. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct cutter {
    sc_resolved_plan *plan;
    sc_context *context;
    const sc_stage_line *line;
    sc_module *m;
    const sc_build_result *built;
    sc_map instances; /* path of an instance -> its number, in program order */
    SC_VEC(const char *) instance_paths;
    sc_map known;                /* scope or path -> 1 + instance, or 0 */
    uint32_t *instance_of;       /* by op: the instance it is in, or SC_NONE */
    uint32_t *after;             /* by op: the instance at or before it, 0 if there is none */
    const sc_plan_stmt **placed; /* by op: the `stage PATH = ..` line that places it, or NULL */
    double *work;                /* by instance: FLOPs of what is attributed to it */
    uint32_t chunks;
    uint32_t *chunk_of_instance;
    uint32_t *chunk_of; /* by op */
} cutter;

static uint32_t instance_count(const cutter *c)
{
    return c->instance_paths.count;
}

static int64_t whole_size(const sc_module *m, const sc_type_info *type, uint32_t i)
{
    (void)m;
    return type->dims[i].size;
}

static const char *text_of(const cutter *c, sc_sym sym)
{
    return sc_text(c->context, sym);
}

/* ---- instances ---- */
/* Returns 1 + the instance of a staged stack that a path is in, or 0. */
static uint32_t find_instance(cutter *c, sc_sym path)
{
    bool is_new;
    uint32_t *known = sc_map_insert(&c->known, path, 0, &is_new);
    if (!is_new || path == 0)
        return *known;
    const char *text = text_of(c, path);
    for (uint32_t i = 0; i < c->line->stmt->in.count; i++) {
        size_t length =
            sc_path_match_length(c->context, &c->line->stmt->in.data[i], c->built->entry, text);
        if (length == SIZE_MAX || length == 0 || text[length - 1] != ']')
            continue;
        sc_sym name = sc_intern(&c->context->names, text, length);
        uint32_t *instance = sc_map_insert(&c->instances, name, instance_count(c), &is_new);
        if (is_new)
            *sc_vec_push(&c->context->arena, &c->instance_paths) = text_of(c, name);
        *known = *instance + 1;
        break;
    }
    return *known;
}

/* An op is in the instance of its scope, or of its result: a formal's op is in the caller's. */
static uint32_t instance_of_op(cutter *c, const sc_op *op)
{
    uint32_t found = find_instance(c, op->scope);
    for (uint32_t r = 0; r < op->result_count && found == 0; r++)
        found = find_instance(c, c->m->values.data[op->first_result + r].path);
    return found == 0 ? SC_NONE : found - 1;
}

static void find_instances(cutter *c)
{
    uint32_t last = 0;
    sc_for_each_op (c->m, c->built->func, id) {
        uint32_t instance = instance_of_op(c, sc_op_at(c->m, id));
        c->instance_of[id] = instance;
        last = instance == SC_NONE ? last : instance;
        c->after[id] = last;
    }
}

/* ---- stage PATH = .. ---- */
static bool is_covered(const cutter *c, const sc_path *path, const sc_op *op)
{
    if (sc_path_match_length(c->context, path, c->built->entry, text_of(c, op->scope)) !=
            SIZE_MAX &&
        op->scope != c->built->entry)
        return true;
    for (uint32_t r = 0; r < op->result_count; r++) {
        sc_sym value = c->m->values.data[op->first_result + r].path;
        if (value != 0 &&
            sc_path_matches(c->context, path, c->built->entry, value) == SC_PATH_EXACT)
            return true;
    }
    return false;
}

static bool report_placed(const cutter *c, const sc_plan_stmt *stmt, const char *text,
                          const char *note)
{
    const char *path = sc_path_text(c->context, &stmt->in.data[0]);
    sc_report(&c->context->diag, SC_D_bad_plan_statement, stmt->loc,
              sc_arena_printf(&c->context->arena, "'%s' %s", path, text), NULL);
    sc_report_note(&c->context->diag, (sc_loc){0}, "%s", note);
    return false;
}

static bool place_line(cutter *c, const sc_plan_stmt *stmt)
{
    bool has_state = false, has_op = false;
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        if (!is_covered(c, &stmt->in.data[0], op))
            continue;
        if (c->instance_of[id] != SC_NONE)
            return report_placed(c, stmt, "is in a staged stack",
                                 "'split(..)' of the stage says which chunk its instances are in");
        bool is_state = sc_op_has(op, SC_STATE_READ);
        has_state = has_state || is_state;
        has_op = has_op || !is_state;
        c->placed[id] = stmt;
    }
    if (has_state && !has_op)
        return report_placed(c, stmt, "is read only: it is where it is used",
                             "name the sub or the value that uses it");
    return true;
}

static bool place_lines(cutter *c)
{
    bool fine = true;
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++)
        fine = place_line(c, c->plan->stage_at_lines.data[i]) && fine;
    return fine;
}

/* Returns the chunk that a line names, or SC_NONE if there is no such chunk. */
static uint32_t named_chunk(const cutter *c, const sc_plan_stmt *stmt, uint32_t chunks)
{
    const sc_expr *value = stmt->stage.value;
    if (value->kind == SC_EXPR_INT)
        return value->integer >= 0 && value->integer < chunks ? (uint32_t)value->integer : SC_NONE;
    return strcmp(text_of(c, value->name), "first") == 0 ? 0 : chunks - 1;
}

static bool check_places(const cutter *c, uint32_t chunks)
{
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++) {
        const sc_plan_stmt *stmt = c->plan->stage_at_lines.data[i];
        if (named_chunk(c, stmt, chunks) != SC_NONE)
            continue;
        sc_report(
            &c->context->diag, SC_D_stages_do_not_fit, stmt->stage.value->loc,
            sc_arena_printf(&c->context->arena,
                            "there is no chunk %" PRId64 ": the pipeline has %" PRIu32,
                            stmt->stage.value->integer, chunks),
            sc_arena_printf(&c->context->arena, "name a chunk from 0 to %" PRIu32, chunks - 1),
            NULL);
        return false;
    }
    return true;
}

/* ---- the cut ---- */
/* Attributes the forward FLOPs of each op to the instance at or before it, and those of ops that
 * lines place to their chunks. */
static void find_work(const cutter *c, uint32_t chunks, double *besides)
{
    memset(c->work, 0, (size_t)instance_count(c) * sizeof *c->work);
    sc_for_each_op (c->m, c->built->func, id) {
        double flops = sc_op_flops(c->m, sc_op_at(c->m, id), whole_size);
        if (c->placed[id] != NULL)
            besides[named_chunk(c, c->placed[id], chunks)] += flops;
        else
            c->work[c->after[id]] += flops;
    }
}

/* Cuts the instances into chunks. `work` receives the FLOPs by chunk. */
static void cut(const cutter *c, uint32_t chunks, uint32_t *ends, double *work)
{
    uint32_t end = 0;
    find_work(c, chunks, work);
    if (c->line->split == SC_SPLIT_AUTO) {
        sc_stage_cut_by_work(&c->context->arena, c->work, instance_count(c), work, chunks, ends);
    } else if (c->line->split == SC_SPLIT_EVEN || instance_count(c) == 0) {
        sc_stage_cut_evenly(instance_count(c), chunks, ends);
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

static bool report_misfit(const cutter *c, uint32_t chunks)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size, count = instance_count(c);
    sc_arena *arena = &c->context->arena;
    const char *axis = text_of(c, c->plan->mesh.axes[c->line->axis].name);
    sc_report(&c->context->diag, SC_D_stages_do_not_fit, c->line->stmt->loc,
              sc_arena_printf(arena,
                              "%" PRIu32 " chunks (%s = %" PRIu32 ", %" PRIu32
                              " a rank) are more than the %" PRIu32 " instances of the stack",
                              chunks, axis, ranks, chunks / ranks, count),
              count == 0 ? sc_arena_printf(arena, "entry '%s' runs none of them",
                                           text_of(c, c->built->entry))
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

static bool check_lengths(const cutter *c, uint32_t chunks)
{
    uint64_t sum = 0;
    sc_arena *arena = &c->context->arena;
    if (c->line->split != SC_SPLIT_LENGTHS || instance_count(c) == 0)
        return true;
    for (uint32_t i = 0; i < c->line->lengths.count; i++)
        sum += c->line->lengths.data[i];
    const char *text = c->line->lengths.count != chunks
                           ? sc_arena_printf(arena,
                                             "'split' has %" PRIu32
                                             " lengths, but the pipeline has %" PRIu32 " chunks",
                                             c->line->lengths.count, chunks)
                       : sum != instance_count(c)
                           ? sc_arena_printf(arena,
                                             "the lengths of 'split' add up to %" PRIu64
                                             ", but the stack has %" PRIu32 " instances",
                                             sum, instance_count(c))
                           : NULL;
    if (text != NULL)
        sc_report(&c->context->diag, SC_D_bad_plan_statement, c->line->split_loc, text, NULL);
    return text == NULL;
}

/* ---- the schedule ---- */
enum { MOST_PER_RANK = 8 }; /* that `schedule = auto` tries */

/* Returns the makespan of a schedule for this entry, in FLOPs; what a chunk holds is cut anew for
 * each number of chunks. */
static double price_of(const cutter *c, const sc_pipeline_schedule *schedule, double *live)
{
    sc_arena *arena = &c->context->arena;
    sc_schedule_cost cost;
    double *work = sc_arena_array(arena, schedule->chunks, sizeof *work), total = 0;
    cut(c, schedule->chunks, sc_arena_array(arena, schedule->chunks, sizeof(uint32_t)), work);
    for (uint32_t k = 0; k < schedule->chunks; k++)
        total += work[k];
    sc_schedule_simulate(arena, schedule, work, &cost);
    *live = 0;
    for (uint32_t r = 0; r < schedule->ranks; r++)
        *live = cost.live[r] > *live ? cost.live[r] : *live;
    return cost.makespan * (total > 0 ? total : 1);
}

static bool is_candidate(const cutter *c, sc_schedule_kind kind, uint32_t per_rank)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size, given = sc_schedule_rows[kind].chunks;
    uint64_t chunks = (uint64_t)ranks * per_rank;
    if ((given != 0 && given != per_rank) || (given == 0 && per_rank == 1) ||
        chunks > instance_count(c) || c->line->micro_batches < sc_schedule_least(kind, ranks) ||
        chunks > SC_SCHEDULE_MAX_ACTIONS / 3 / (uint64_t)c->line->micro_batches)
        return false;
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++) {
        if (named_chunk(c, c->plan->stage_at_lines.data[i], (uint32_t)chunks) == SC_NONE)
            return false;
    }
    return c->line->split != SC_SPLIT_LENGTHS || c->line->lengths.count == chunks;
}

static const char *name_of(const cutter *c, sc_schedule_kind kind, uint32_t per_rank)
{
    const sc_schedule_row *row = &sc_schedule_rows[kind];
    return row->chunks != 0
               ? row->name
               : sc_arena_printf(&c->context->arena, "%s(%" PRIu32 ")", row->name, per_rank);
}

/* Takes the fastest candidate; of equally fast ones that with the fewest live micro-batches, then
 * the first of the table. NULL if none fits. */
static const sc_pipeline_schedule *choose(const cutter *c, sc_pipeline *out)
{
    const sc_pipeline_schedule *best = NULL;
    double best_price = 0, best_live = 0;
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size;
    for (uint32_t v = 1; v <= MOST_PER_RANK; v++) {
        for (int k = 0; k < SC_SCHEDULE_COUNT; k++) {
            sc_schedule_kind kind = (sc_schedule_kind)k;
            if (!is_candidate(c, kind, v))
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

static const sc_pipeline_schedule *schedule_of(const cutter *c, sc_pipeline *out)
{
    const sc_stage_line *line = c->line;
    uint32_t ranks = c->plan->mesh.axes[line->axis].size;
    if (line->order == SC_STAGE_FILE) {
        out->name = line->file;
        return line->schedule;
    }
    if (line->order == SC_STAGE_AUTO && instance_count(c) > 0)
        return choose(c, out);
    bool is_named = line->order == SC_STAGE_NAMED;
    sc_schedule_kind kind = is_named ? line->kind : SC_SCHEDULE_one_f_one_b;
    uint32_t per_rank = is_named ? line->per_rank : 1;
    out->name = name_of(c, kind, per_rank);
    return sc_schedule_generate(&c->context->arena, kind, ranks, per_rank, line->micro_batches);
}

/* Returns how many chunks the line asks for, as far as it does; `auto` needs one a rank. */
static uint32_t wanted_chunks(const cutter *c)
{
    uint32_t ranks = c->plan->mesh.axes[c->line->axis].size;
    if (c->line->order == SC_STAGE_FILE)
        return c->line->schedule->chunks;
    if (c->line->order == SC_STAGE_NAMED)
        return ranks * c->line->per_rank;
    return c->line->split == SC_SPLIT_LENGTHS ? c->line->lengths.count : ranks;
}

static bool report_no_schedule(const cutter *c)
{
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

/* ---- chunks of instances and ops ---- */
/* Cuts the instances of the first entry that runs some. */
static bool cut_first(cutter *c, sc_pipeline *out)
{
    sc_arena *arena = &c->context->arena;
    out->schedule = schedule_of(c, out);
    c->chunks = out->schedule == NULL ? wanted_chunks(c) : out->schedule->chunks;
    if (!check_lengths(c, c->chunks) || !check_places(c, c->chunks))
        return false;
    if (out->schedule == NULL)
        return report_no_schedule(c);
    uint32_t *ends = sc_arena_array(arena, c->chunks, sizeof *ends), chunk = 0;
    cut(c, c->chunks, ends, sc_arena_array(arena, c->chunks, sizeof(double)));
    for (uint32_t i = 0; i < instance_count(c); i++) {
        while (i >= ends[chunk])
            chunk++;
        c->chunk_of_instance[i] = chunk;
    }
    return true;
}

/* The cut of the first entry of a plan that runs the stacks is that of all: its parameters are
 * where it says. */
static void remember(const cutter *c, const sc_pipeline *out)
{
    sc_stage_cut *known = &c->plan->stage_cut;
    bool is_new;
    if (instance_count(c) == 0)
        return;
    *known = (sc_stage_cut){.schedule = out->schedule, .name = out->name};
    known->chunk_of_instance.arena = &c->context->arena;
    for (uint32_t i = 0; i < instance_count(c); i++)
        sc_map_insert(&known->chunk_of_instance,
                      sc_intern_text(&c->context->names, c->instance_paths.data[i]),
                      c->chunk_of_instance[i], &is_new);
}

static void cut_as_before(cutter *c, sc_pipeline *out)
{
    const sc_stage_cut *known = &c->plan->stage_cut;
    uint32_t chunk = 0;
    out->schedule = known->schedule;
    out->name = known->name;
    c->chunks = known->schedule->chunks;
    for (uint32_t i = 0; i < instance_count(c); i++) {
        const uint32_t *found =
            sc_map_find(&known->chunk_of_instance,
                        sc_intern_text(&c->context->names, c->instance_paths.data[i]));
        chunk = found == NULL ? chunk : *found;
        c->chunk_of_instance[i] = chunk;
    }
}

static void find_chunks(cutter *c)
{
    sc_for_each_op (c->m, c->built->func, id)
        c->chunk_of[id] = c->placed[id] != NULL ? named_chunk(c, c->placed[id], c->chunks)
                                                : c->chunk_of_instance[c->after[id]];
}

/* True for what a chunk computes for itself: parameters, constants, and casts of these. */
static bool is_anywhere(const cutter *c, const sc_op *op)
{
    if (sc_op_has(op, SC_CONVERTS))
        op = sc_op_at(c->m, sc_def(c->m, op->operands[0]));
    return sc_op_has(op, SC_STATE_READ | SC_CONSTANT | SC_FROM_OUTSIDE);
}

static bool report_backward(const cutter *c, const sc_op *op, uint32_t chunk, sc_value value,
                            uint32_t from)
{
    sc_sym path = sc_plan_value_path(c->m, value);
    sc_report(&c->context->diag, SC_D_bad_plan_statement, op->loc,
              sc_arena_printf(&c->context->arena,
                              "an op in '%s', in chunk %" PRIu32 ", needs %s%s%s of chunk %" PRIu32
                              ": activations go from earlier chunks to later ones",
                              text_of(c, op->scope), chunk, path == 0 ? "a value" : "'",
                              text_of(c, path), path == 0 ? "" : "'", from),
              NULL);
    sc_report_note(&c->context->diag, c->line->stmt->loc,
                   "instances are staged in the order in which the entry runs them first");
    return false;
}

static bool check_flow(const cutter *c)
{
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        for (uint32_t i = 0; i < op->operand_count; i++) {
            sc_op_id def = sc_def(c->m, op->operands[i]);
            if (c->chunk_of[def] > c->chunk_of[id] && !is_anywhere(c, sc_op_at(c->m, def)))
                return report_backward(c, op, c->chunk_of[id], op->operands[i], c->chunk_of[def]);
        }
    }
    return true;
}

/* ---- what chunks hold ---- */
/* Returns the member of the model that an op outside the stacks belongs to, a param or a sub; NULL:
 * it is the entry's own. */
static const char *member_of(const cutter *c, const sc_op *op)
{
    const sc_unit *model = sc_declarations_model(c->plan->program, c->plan->model);
    sc_sym path = sc_op_has(op, SC_STATE_READ) ? sc_op_word(op, SC_ATTR_name) : op->scope;
    const char *text = text_of(c, path);
    sc_sym name = sc_intern(&c->context->names, text, strcspn(text, ".["));
    const sc_member *member = model == NULL ? NULL : sc_unit_member(model, name);
    bool is_own = member == NULL || member->kind == SC_MEMBER_FN || member->kind == SC_MEMBER_ENTRY;
    return is_own ? NULL : text_of(c, name);
}

/* Returns the index of an instance among those that differ from it in the last index only, and sets
 * *length to that of the path before the index. False if the path goes on after the index. */
static bool last_index(const char *path, size_t *length, int64_t *index)
{
    const char *bracket = strrchr(path, '[');
    *length = (size_t)(bracket - path);
    *index = 0;
    for (const char *p = bracket + 1; *p >= '0' && *p <= '9'; p++)
        *index = *index * 10 + (*p - '0');
    return path[strlen(path) - 1] == ']';
}

/* Appends an instance, to the last path if it is the next one of its stack: layers[0..7]. */
static void add_instance(const cutter *c, sc_pipeline_chunk *chunk, const char *path)
{
    sc_arena *arena = &c->context->arena;
    const char **last = chunk->paths.count == 0 ? NULL : &chunk->paths.data[chunk->paths.count - 1];
    size_t length, before;
    int64_t index, from;
    if (last != NULL && strchr(*last, '[') != NULL && last_index(path, &length, &index) &&
        last_index(*last, &before, &from) && length == before &&
        strncmp(*last, path, length) == 0) {
        const char *range = strstr(*last + length, "..");
        int64_t to = range == NULL ? from : strtoll(range + 2, NULL, 10);
        if (index == to + 1) {
            *last = sc_arena_printf(arena, "%.*s[%" PRId64 "..%" PRId64 "]", (int)length, path,
                                    from, index);
            return;
        }
    }
    *sc_vec_push(arena, &chunk->paths) = path;
}

static void describe(const cutter *c, sc_pipeline *out)
{
    sc_arena *arena = &c->context->arena;
    sc_map listed = {.arena = arena};
    bool *has_instance = sc_arena_array(arena, (size_t)instance_count(c) + 1, sizeof *has_instance);
    out->chunks = sc_arena_array(arena, c->chunks, sizeof *out->chunks);
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        uint32_t instance = c->instance_of[id];
        sc_pipeline_chunk *chunk = &out->chunks[c->chunk_of[id]];
        const char *member = instance == SC_NONE ? member_of(c, op) : NULL;
        bool is_new = false;
        chunk->flops += sc_op_flops(c->m, op, whole_size);
        if (instance != SC_NONE && !has_instance[instance])
            add_instance(c, chunk, c->instance_paths.data[instance]);
        if (instance != SC_NONE)
            has_instance[instance] = true;
        if (member != NULL)
            sc_map_insert(&listed,
                          (uint64_t)c->chunk_of[id] << 32 |
                              sc_intern_text(&c->context->names, member),
                          0, &is_new);
        if (is_new)
            *sc_vec_push(arena, &chunk->paths) = member;
    }
}

/* ---- the entry ---- */
static const sc_entry_info *find_entry(const cutter *c)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(c->plan->program, c->plan->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (entries.data[i].entry == c->built->entry)
            return &entries.data[i];
    }
    return NULL;
}

/* An entry that is not trained runs forward through the same stages, so its batch is split too. Its
 * module has the whole batch. That of a train step has one micro-batch, and was checked. */
static bool check_batch(const cutter *c)
{
    const sc_entry_info *entry = find_entry(c);
    sc_dim dim = sc_module_find_dim(c->m, c->line->batch.text);
    if (entry == NULL || entry->minimised || entry->cached || dim == SC_NONE)
        return true;
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        const sc_type_info *type =
            op->result_count == 0 ? NULL : sc_type_of(c->m, op->first_result);
        int at = type == NULL || !sc_op_has(op, SC_FROM_OUTSIDE) ? -1 : sc_type_find_dim(type, dim);
        if (at < 0 || type->dims[at].size % c->line->micro_batches == 0)
            continue;
        sc_arena *arena = &c->context->arena;
        sc_report(&c->context->diag, SC_D_micro_batches_do_not_divide, c->line->stmt->loc,
                  text_of(c, c->line->batch.text),
                  sc_arena_printf(arena, "%" PRId64, type->dims[at].size),
                  sc_arena_printf(arena, "%" PRIu32, c->line->micro_batches), "'microbatches'",
                  sc_plan_divisors_text(c->context, type->dims[at].size), NULL);
        return false;
    }
    return true;
}

/* An entry that runs none of the stacks is all in the first chunk, unless it is the trained one. */
static bool check_count(const cutter *c)
{
    const sc_entry_info *entry = find_entry(c);
    bool is_whole = instance_count(c) == 0 && (entry == NULL || !entry->minimised);
    uint32_t wanted = wanted_chunks(c);
    return is_whole || instance_count(c) >= wanted || report_misfit(c, wanted);
}

bool sc_plan_pipeline(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                      sc_pipeline *out)
{
    sc_arena *arena = &plan->context->arena;
    *out = (sc_pipeline){0};
    if (!sc_plan_has_stages(plan))
        return true;
    cutter c = {.plan = plan,
                .context = plan->context,
                .line = &plan->stage,
                .m = m,
                .built = built,
                .instances = {.arena = arena},
                .known = {.arena = arena},
                .instance_of = sc_arena_array(arena, m->ops.count, sizeof *c.instance_of),
                .after = sc_arena_array(arena, m->ops.count, sizeof *c.after),
                .placed = sc_arena_array(arena, m->ops.count, sizeof *c.placed),
                .chunk_of = sc_arena_array(arena, m->ops.count, sizeof *c.chunk_of)};
    find_instances(&c);
    size_t instances = (size_t)instance_count(&c) + 1;
    c.work = sc_arena_array(arena, instances, sizeof *c.work);
    c.chunk_of_instance = sc_arena_array(arena, instances, sizeof *c.chunk_of_instance);
    if (!check_batch(&c) || !place_lines(&c))
        return false;
    if (plan->stage_cut.schedule != NULL) {
        cut_as_before(&c, out);
    } else {
        if (!check_count(&c) || !cut_first(&c, out))
            return false;
        remember(&c, out);
    }
    find_chunks(&c);
    if (!check_flow(&c))
        return false;
    describe(&c, out);
    out->axis = plan->stage.axis;
    out->axis_name = plan->mesh.axes[out->axis].name;
    out->batch_dim = sc_module_find_dim(m, plan->stage.batch.text);
    out->chunk_of = c.chunk_of;
    out->loc = plan->stage.stmt->loc;
    return true;
}
