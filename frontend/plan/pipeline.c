/* Cuts a built entry into the chunks of a pipeline.
 *
 * The ops of a function are in the order in which the model says them. An op inside an instance of
 * a staged stack is in that instance's chunk; any other op is where it stands: with the instance
 * before it, or in the first chunk if there is none. So what stands before the stacks belongs to
 * the first chunk, what stands between two stacks to the chunk that ends the earlier one, and what
 * follows to the last. `stage PATH = k;` overrides that for ops outside the stacks. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/stage.h"

#include <inttypes.h>
#include <string.h>

/* ---- instances ---- */
/* Returns 1 + the instance of a staged stack that a path is in, or 0. */
static uint32_t find_instance(sc_stages *c, sc_sym path)
{
    bool is_new;
    uint32_t *known = sc_map_insert(&c->known, path, 0, &is_new);
    if (!is_new || path == 0)
        return *known;
    const char *text = sc_text(c->context, path);
    for (uint32_t i = 0; i < c->line->stmt->in.count; i++) {
        size_t length =
            sc_path_match_length(c->context, &c->line->stmt->in.data[i], c->built->entry, text);
        if (length == SIZE_MAX || length == 0 || text[length - 1] != ']')
            continue;
        sc_sym name = sc_intern(&c->context->names, text, length);
        uint32_t *instance = sc_map_insert(&c->instances, name, c->instance_paths.count, &is_new);
        if (is_new)
            *sc_vec_push(&c->context->arena, &c->instance_paths) = sc_text(c->context, name);
        *known = *instance + 1;
        break;
    }
    return *known;
}

/* An op is in the instance of its scope, or of its result: a formal's op is in the caller's. */
static uint32_t instance_of_op(sc_stages *c, const sc_op *op)
{
    uint32_t found = find_instance(c, op->scope);
    for (uint32_t r = 0; r < op->result_count && found == 0; r++)
        found = find_instance(c, c->m->values.data[op->first_result + r].path);
    return found == 0 ? SC_NONE : found - 1;
}

static void find_instances(sc_stages *c)
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
static bool is_covered(const sc_stages *c, const sc_path *path, const sc_op *op)
{
    if (sc_path_match_length(c->context, path, c->built->entry, sc_text(c->context, op->scope)) !=
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

static bool report_placed(const sc_stages *c, const sc_plan_stmt *stmt, const char *text,
                          const char *note)
{
    const char *path = sc_path_text(c->context, &stmt->in.data[0]);
    sc_report(&c->context->diag, SC_D_bad_plan_statement, stmt->loc,
              sc_arena_printf(&c->context->arena, "'%s' %s", path, text), NULL);
    sc_report_note(&c->context->diag, (sc_loc){0}, "%s", note);
    return false;
}

/* Places an op that a line covers. *placed: the line has placed one. */
static bool place_op(sc_stages *c, const sc_plan_stmt *stmt, sc_op_id id, bool *placed)
{
    if (c->instance_of[id] != SC_NONE)
        return report_placed(c, stmt, "is in a staged stack",
                             "'split(..)' of the stage says which chunk its instances are in");
    c->placed[id] = stmt;
    *placed = true;
    return true;
}

/* A line covers the ops of a sub, those that compute a value, and those that read a parameter. */
static bool place_line(sc_stages *c, const sc_plan_stmt *stmt)
{
    bool placed = false;
    bool *is_state = sc_arena_array(&c->context->arena, c->m->values.count, sizeof *is_state);
    sc_for_each_op (c->m, c->built->func, id) {
        const sc_op *op = sc_op_at(c->m, id);
        bool covered = is_covered(c, &stmt->in.data[0], op), reads = false;
        for (uint32_t i = 0; i < op->operand_count; i++)
            reads = reads || is_state[op->operands[i]];
        bool is_source = sc_op_has(op, SC_STATE_READ | SC_FROM_OUTSIDE | SC_CONSTANT),
             is_copy = sc_op_has(op, SC_VIEW | SC_CONVERTS);
        for (uint32_t r = 0; r < op->result_count; r++)
            is_state[op->first_result + r] = (is_source && covered) || (is_copy && reads);
        if (is_source && covered)
            c->placed[id] = stmt; /* where a chunk's parameters are listed */
        if (!is_source && (covered || (reads && !is_copy)) && !place_op(c, stmt, id, &placed))
            return false;
    }
    return placed || report_placed(c, stmt, "is read by no op of this entry",
                                   "name a sub, a value, or a parameter that an op reads");
}

static bool place_lines(sc_stages *c)
{
    bool fine = true;
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++)
        fine = place_line(c, c->plan->stage_at_lines.data[i]) && fine;
    return fine;
}

static bool check_places(const sc_stages *c, uint32_t chunks)
{
    for (uint32_t i = 0; i < c->plan->stage_at_lines.count; i++) {
        const sc_plan_stmt *stmt = c->plan->stage_at_lines.data[i];
        if (sc_stages_named_chunk(c, stmt, chunks) != SC_NONE)
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

/* ---- chunks of instances and ops ---- */
/* Cuts the instances of the first entry that runs some. */
static bool cut_first(sc_stages *c, sc_pipeline *out)
{
    sc_arena *arena = &c->context->arena;
    out->schedule = sc_stages_schedule(c, out);
    c->chunks = out->schedule == NULL ? sc_stages_wanted(c) : out->schedule->chunks;
    if (!sc_stages_check_lengths(c, c->chunks) || !check_places(c, c->chunks))
        return false;
    if (out->schedule == NULL)
        return sc_stages_report_no_schedule(c);
    uint32_t *ends = sc_arena_array(arena, c->chunks, sizeof *ends), chunk = 0;
    sc_stages_cut(c, c->chunks, ends, sc_arena_array(arena, c->chunks, sizeof(double)));
    for (uint32_t i = 0; i < c->instance_paths.count; i++) {
        while (i >= ends[chunk])
            chunk++;
        c->chunk_of_instance[i] = chunk;
    }
    return true;
}

/* The cut of the first entry of a plan that runs the stacks is that of all: its parameters are
 * where it says. */
static void remember(const sc_stages *c, const sc_pipeline *out)
{
    sc_stage_cut *known = &c->plan->stage_cut;
    bool is_new;
    if (c->instance_paths.count == 0)
        return;
    *known = (sc_stage_cut){.schedule = out->schedule, .name = out->name};
    known->chunk_of_instance.arena = &c->context->arena;
    for (uint32_t i = 0; i < c->instance_paths.count; i++)
        sc_map_insert(&known->chunk_of_instance,
                      sc_intern_text(&c->context->names, c->instance_paths.data[i]),
                      c->chunk_of_instance[i], &is_new);
}

static void cut_as_before(sc_stages *c, sc_pipeline *out)
{
    const sc_stage_cut *known = &c->plan->stage_cut;
    uint32_t chunk = 0;
    out->schedule = known->schedule;
    out->name = known->name;
    c->chunks = known->schedule->chunks;
    for (uint32_t i = 0; i < c->instance_paths.count; i++) {
        const uint32_t *found =
            sc_map_find(&known->chunk_of_instance,
                        sc_intern_text(&c->context->names, c->instance_paths.data[i]));
        chunk = found == NULL ? chunk : *found;
        c->chunk_of_instance[i] = chunk;
    }
}

/* True for what a chunk computes for itself: parameters, constants, and casts of these. */
static bool is_anywhere(const sc_stages *c, const sc_op *op)
{
    if (sc_op_has(op, SC_CONVERTS))
        op = sc_op_at(c->m, sc_def(c->m, op->operands[0]));
    return sc_op_has(op, SC_STATE_READ | SC_CONSTANT | SC_FROM_OUTSIDE);
}

/* Returns where an op stands. Outside the stacks it follows what lines place: not before its
 * operands. */
static uint32_t standing_chunk(const sc_stages *c, sc_op_id id)
{
    const sc_op *op = sc_op_at(c->m, id);
    uint32_t chunk = c->chunk_of_instance[c->after[id]];
    if (c->instance_of[id] != SC_NONE)
        return chunk;
    for (uint32_t i = 0; i < op->operand_count; i++) {
        sc_op_id def = sc_def(c->m, op->operands[i]);
        if (!is_anywhere(c, sc_op_at(c->m, def)) && c->chunk_of[def] > chunk)
            chunk = c->chunk_of[def];
    }
    return chunk;
}

static void find_chunks(sc_stages *c)
{
    sc_for_each_op (c->m, c->built->func, id)
        c->chunk_of[id] = c->placed[id] != NULL ? sc_stages_named_chunk(c, c->placed[id], c->chunks)
                                                : standing_chunk(c, id);
}

static bool report_backward(const sc_stages *c, const sc_op *op, uint32_t chunk, sc_value value,
                            uint32_t from)
{
    sc_sym path = sc_plan_value_path(c->m, value);
    sc_report(&c->context->diag, SC_D_bad_plan_statement, op->loc,
              sc_arena_printf(&c->context->arena,
                              "an op in '%s', in chunk %" PRIu32 ", needs %s%s%s of chunk %" PRIu32
                              ": activations go from earlier chunks to later ones",
                              sc_text(c->context, op->scope), chunk, path == 0 ? "a value" : "'",
                              sc_text(c->context, path), path == 0 ? "" : "'", from),
              NULL);
    sc_report_note(&c->context->diag, c->line->stmt->loc,
                   "instances are staged in the order in which the entry runs them first");
    return false;
}

static bool check_flow(const sc_stages *c)
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

/* ---- the entry ---- */
static const sc_entry_info *find_entry(const sc_stages *c)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(c->plan->program, c->plan->model, &entries);
    for (uint32_t i = 0; i < entries.count; i++) {
        if (entries.data[i].entry == c->built->entry)
            return &entries.data[i];
    }
    return NULL;
}

/* An entry that runs none of the stacks is all in the first chunk, unless it is the trained one. */
static bool check_count(const sc_stages *c)
{
    const sc_entry_info *entry = find_entry(c);
    bool is_whole = c->instance_paths.count == 0 && (entry == NULL || !entry->minimised);
    uint32_t wanted = sc_stages_wanted(c);
    return is_whole || c->instance_paths.count >= wanted || sc_stages_report_misfit(c, wanted);
}

bool sc_plan_pipeline(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                      sc_pipeline *out)
{
    sc_arena *arena = &plan->context->arena;
    *out = (sc_pipeline){0};
    if (!sc_plan_has_stages(plan))
        return true;
    sc_stages c = {.plan = plan,
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
    size_t instances = (size_t)c.instance_paths.count + 1;
    c.work = sc_arena_array(arena, instances, sizeof *c.work);
    c.chunk_of_instance = sc_arena_array(arena, instances, sizeof *c.chunk_of_instance);
    if (!place_lines(&c))
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
    sc_stages_describe(&c, out);
    out->axis = plan->stage.axis;
    out->axis_name = plan->mesh.axes[out->axis].name;
    out->batch_dim = sc_module_find_dim(m, plan->stage.batch.text);
    out->chunk_of = c.chunk_of;
    out->refused = plan->stage.order == SC_STAGE_AUTO ? plan->options.refused : NULL;
    out->loc = plan->stage.stmt->loc;
    return true;
}
