/* Finds edits by compiling them. Each candidate is applied to the plan's statements as parsed and
 * compiled like the plan itself, in a context of its own, which keeps its messages and memory
 * separate. A new statement is parsed from the text that will be printed, so the advice is exactly
 * what was compiled.
 *
 * Candidates for a collective over an axis are the lines that name the axis (dropped; with `if
 * free`; without one of their dims, axes or `param`) and new lines: `shard act DIM over AXIS if
 * free;` for the dims of what moves, and pins of it, replicated or as the collective leaves it. */
#include "tools/explain/advice.h"

#include <string.h>

#include "frontend/plan/plan.h"
#include "passes/reason.h"
#include "tools/driver/flops.h"
#include "tools/explain/measure_memory.h"
#include "tools/explain/query.h"
#include "tools/explain/report.h"

enum { MAX_TRIALS = 128 }; /* per command, however large the program: each trial is a compile */

typedef struct trial {
    const sc_edit *edit; /* NULL: the unedited plan */
    bool compiles, measured;
    int64_t estimate;  /* of the peak, before kernels are known; used to compare edits */
    sc_plan_cost cost; /* with the measured peak once there is one */
    sc_map moved;      /* call << 32 | value, both as names: the values that collectives move */
} trial;

struct sc_adviser {
    sc_context *context;
    const sc_options *options;
    const sc_compiled *c;
    trial now;
    SC_VEC(trial *) trials;
};

typedef SC_VEC(sc_edit) edits;

static double sent_in_all(const sc_comm_rows *rows)
{
    double sent = 0;
    for (uint32_t r = 0; r < rows->count; r++)
        sent += rows->data[r].sent * rows->data[r].count;
    return sent;
}

/* ---- candidates: lines of the plan, changed ---- */
static bool is_axis(sc_sym name, const sc_sym *axes, uint32_t count)
{
    for (uint32_t a = 0; a < count; a++) {
        if (name == axes[a])
            return true;
    }
    return false;
}

static bool names_axis(const sc_name_list *names, const sc_sym *axes, uint32_t count)
{
    for (uint32_t i = 0; i < names->count; i++) {
        if (is_axis(names->data[i].text, axes, count))
            return true;
    }
    return false;
}

static bool line_uses(const sc_plan_stmt *stmt, const sc_sym *axes, uint32_t count)
{
    if (stmt->kind == SC_PLAN_SHARD)
        return names_axis(&stmt->shard.axes, axes, count);
    if (stmt->kind == SC_PLAN_STYLE)
        return is_axis(stmt->style.axis.text, axes, count);
    if (stmt->kind != SC_PLAN_PIN)
        return false;
    for (uint32_t d = 0; d < stmt->pin.shape->dims.count; d++) {
        if (names_axis(&stmt->pin.shape->dims.data[d].axes, axes, count))
            return true;
    }
    return stmt->pin.over.count == 0 || names_axis(&stmt->pin.over, axes, count);
}

static void add_replacement(sc_adviser *a, const sc_edit *like, const sc_plan_stmt *stmt,
                            edits *out)
{
    sc_edit edit = *like;
    edit.kind = SC_EDIT_REPLACE;
    edit.line =
        sc_arena_printf(&a->context->arena, "shard %s;", sc_plan_line_text(a->context, stmt));
    *sc_vec_push(&a->context->arena, out) = edit;
}

static void drop_name(sc_arena *arena, const sc_name_list *names, uint32_t which, sc_name_list *out)
{
    *out = (sc_name_list){0};
    for (uint32_t i = 0; i < names->count; i++) {
        if (i != which)
            *sc_vec_push(arena, out) = names->data[i];
    }
}

static void drop_param_kind(sc_arena *arena, const sc_kind_list *kinds, sc_kind_list *out)
{
    *out = (sc_kind_list){.mask = kinds->mask & ~(1u << SC_KIND_PARAM)};
    for (uint32_t i = 0; i < kinds->order.count; i++) {
        if (kinds->order.data[i] != SC_KIND_PARAM)
            *sc_vec_push(arena, &out->order) = kinds->order.data[i];
    }
}

/* Weakens a rule by the smallest changes first: if equal, the first is advised. */
static void weaken_rule(sc_adviser *a, const sc_edit *like, const sc_plan_stmt *stmt, edits *out)
{
    sc_arena *arena = &a->context->arena;
    sc_plan_stmt changed = *stmt;
    if (!stmt->shard.if_free) {
        changed.shard.if_free = true;
        add_replacement(a, like, &changed, out);
    }
    if (!stmt->shard.star && stmt->shard.dims.count > 1) {
        for (uint32_t d = 0; d < stmt->shard.dims.count; d++) {
            changed = *stmt;
            drop_name(arena, &stmt->shard.dims, d, &changed.shard.dims);
            add_replacement(a, like, &changed, out);
        }
    }
    if (stmt->shard.axes.count > 1) {
        for (uint32_t x = 0; x < stmt->shard.axes.count; x++) {
            changed = *stmt;
            drop_name(arena, &stmt->shard.axes, x, &changed.shard.axes);
            add_replacement(a, like, &changed, out);
        }
    }
    changed = *stmt;
    drop_param_kind(arena, &stmt->shard.kinds, &changed.shard.kinds);
    if (changed.shard.kinds.mask != 0 && changed.shard.kinds.mask != stmt->shard.kinds.mask)
        add_replacement(a, like, &changed, out);
}

/* False for a pin of values that the collective does not involve: it hardly affects it, and a plan
 * may have thousands. */
static bool is_near(const sc_adviser *a, const sc_comm_row *row, const sc_plan_stmt *stmt,
                    bool is_rule)
{
    sc_query pinned = {.text = "", .path = &stmt->pin.path};
    return stmt->kind != SC_PLAN_PIN || is_rule || sc_query_matches_row(&pinned, a->c, row);
}

/* Adds edits of the line that caused the collective (`rule`), or of all others. */
static void change_lines(sc_adviser *a, const sc_comm_row *row, const sc_sym *axes,
                         uint32_t axis_count, bool rule, edits *out)
{
    const sc_plan *plan = a->c->plan;
    sc_loc loc = row->rule == SC_NONE ? (sc_loc){0} : a->c->local->rules.data[row->rule].loc;
    for (uint32_t i = 0; i < plan->body.count; i++) {
        const sc_plan_stmt *stmt = plan->body.data[i];
        bool is_rule = row->rule != SC_NONE && stmt->loc.begin == loc.begin;
        if (is_rule != rule || !line_uses(stmt, axes, axis_count) ||
            !is_near(a, row, stmt, is_rule))
            continue;
        sc_edit edit = {.kind = SC_EDIT_REMOVE,
                        .statement = i,
                        .loc = stmt->loc,
                        .old = sc_sources_text(&a->context->sources, stmt->loc)};
        if (stmt->kind == SC_PLAN_SHARD)
            weaken_rule(a, &edit, stmt, out);
        *sc_vec_push(&a->context->arena, out) = edit;
    }
}

/* ---- candidates: new lines ---- */
static void add_line(sc_adviser *a, const char *line, edits *out)
{
    *sc_vec_push(&a->context->arena, out) =
        (sc_edit){.kind = SC_EDIT_ADD, .loc = a->c->plan->end, .line = line};
}

static const char *dim_name(const sc_module *m, const sc_type_dim *dim)
{
    return sc_text(m->context, m->dims.data[dim->group != SC_NONE ? dim->group : dim->dim].name);
}

static bool begins_dim(const sc_type_info *type, uint32_t i)
{
    return i == 0 || type->dims[i].group == SC_NONE ||
           type->dims[i].group != type->dims[i - 1].group;
}

static void add_free_rules(sc_adviser *a, const sc_type_info *type, sc_sym axis, edits *out)
{
    const sc_module *m = a->c->local;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (begins_dim(type, i))
            add_line(a,
                     sc_arena_printf(&a->context->arena, "shard act %s over %s if free;",
                                     dim_name(m, &type->dims[i]), sc_text(a->context, axis)),
                     out);
    }
}

/* Formats [B, S@tp, D]: the dims of a type, with the given axes as in the placement. */
static const char *pin_shape(sc_adviser *a, const sc_type_info *type, const sc_placement *placement,
                             uint32_t axes)
{
    const sc_module *m = a->c->local;
    sc_strbuf text;
    sc_strbuf_init(&text, &a->context->arena);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!begins_dim(type, i))
            continue;
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "[", dim_name(m, &type->dims[i]));
        if (placement != NULL) {
            for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
                uint32_t first = m->mesh.axes[x].first_sub_axis;
                if ((axes >> x & 1) != 0 && placement->on[first] == i)
                    sc_strbuf_printf(&text, "@%s", sc_text(a->context, m->mesh.axes[x].name));
            }
        }
    }
    sc_strbuf_add(&text, type->rank == 0 ? "[]" : "]");
    return text.data;
}

static void add_pins(sc_adviser *a, const sc_comm_row *row, sc_sym path, const sc_type_info *type,
                     edits *out)
{
    sc_context *context = a->context;
    const char *name = sc_path_without_indices(context, sc_text(context, path)), *over = "";
    for (uint32_t x = 0; x < a->c->local->mesh.axis_count; x++) {
        if ((row->axes >> x & 1) != 0)
            over = sc_arena_printf(&context->arena, "%s%s%s", over, *over != 0 ? ", " : "",
                                   sc_text(context, a->c->local->mesh.axes[x].name));
    }
    const char *whole = pin_shape(a, type, NULL, row->axes),
               *as_left = pin_shape(a, type, &type->placement, row->axes);
    add_line(a, sc_arena_printf(&context->arena, "pin %s: %s over %s;", name, whole, over), out);
    if (strcmp(whole, as_left) != 0)
        add_line(a, sc_arena_printf(&context->arena, "pin %s: %s over %s;", name, as_left, over),
                 out);
}

static void new_lines(sc_adviser *a, const sc_comm_row *row, const sc_sym *axes,
                      uint32_t axis_count, edits *out)
{
    const sc_module *m = a->c->local;
    const sc_op *op = sc_op_at(m, row->op);
    for (uint32_t x = 0; x < axis_count; x++)
        add_free_rules(a, sc_type_of(m, op->first_result), axes[x], out);
    for (uint32_t r = 0; r < op->result_count && r < 2; r++) {
        const sc_type_info *type = sc_type_of(m, op->first_result + r);
        sc_sym paths[3] = {sc_value_path(m, op->operands[r]),
                           m->values.data[op->first_result + r].path, 0};
        paths[2] = op->operand_count == 1 ? sc_op_word(op, SC_ATTR_moves) : 0;
        for (uint32_t p = 0; p < 3; p++) {
            if (paths[p] != 0 && (p == 0 || paths[p] != paths[p - 1]) &&
                (p < 2 || paths[2] != paths[0]))
                add_pins(a, row, paths[p], type, out);
        }
    }
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

static sc_plan_stmt *parse_line(sc_context *context, const char *line)
{
    const char *text = sc_arena_printf(&context->arena, "lang 1; plan p for m { %s }", line);
    const sc_file *file = sc_parse_text(context, "advice", text, strlen(text));
    if (context->diag.errors > 0 || file->items.count != 1 ||
        file->items.data[0]->plan->body.count != 1)
        return NULL;
    return file->items.data[0]->plan->body.data[0];
}

static const sc_plan *edited(sc_context *context, const sc_plan *plan, const sc_edit *edit)
{
    sc_plan *copy = sc_arena_alloc(&context->arena, sizeof *copy);
    sc_plan_stmt *line = edit->kind == SC_EDIT_REMOVE ? NULL : parse_line(context, edit->line);
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
    t->cost = (sc_plan_cost){.sent = sent_in_all(&rows), .flops = sc_rank_flops(c.local)};
    t->estimate = memory.peak;
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
    adviser->now.cost =
        (sc_plan_cost){.sent = sent_in_all(&rows), .flops = sc_rank_flops(c->local)};
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

sc_answer sc_adviser_ask(sc_adviser *a, const sc_comm_row *row)
{
    const sc_module *m = a->c->local;
    sc_answer answer = {.complete = true};
    sc_sym axes[SC_MAX_AXES];
    uint32_t axis_count = 0;
    edits candidates = {0};
    trial *best = NULL, *leanest = NULL;
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        if ((row->axes >> x & 1) != 0)
            axes[axis_count++] = m->mesh.axes[x].name;
    }
    if (a->c->plan == NULL)
        return answer;
    if (a->trials.count >= MAX_TRIALS)
        return (sc_answer){0};
    change_lines(a, row, axes, axis_count, true, &candidates);
    change_lines(a, row, axes, axis_count, false, &candidates);
    new_lines(a, row, axes, axis_count, &candidates);
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
