/* Candidates for a collective over an axis are the lines that name the axis (dropped; with `if
 * free`; without one of their dims, axes or `param`) and new lines: `shard act DIM over AXIS if
 * free;` for the dims of what moves, and pins of it, replicated or as the collective leaves it. */
#include "tools/explain/edits.h"

#include <string.h>

#include "frontend/plan/plan.h"
#include "passes/reason.h"
#include "tools/explain/query.h"

typedef struct editor {
    sc_context *context;
    const sc_compiled *c;
} editor;

/* ---- lines of the plan, changed ---- */
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
    if (stmt->kind == SC_PLAN_FORM)
        return names_axis(&stmt->form.axes, axes, count);
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

static void add_replacement(const editor *a, const sc_edit *like, const sc_plan_stmt *stmt,
                            sc_edits *out)
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
static void weaken_rule(const editor *a, const sc_edit *like, const sc_plan_stmt *stmt,
                        sc_edits *out)
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
static bool is_near(const editor *a, const sc_comm_row *row, const sc_plan_stmt *stmt, bool is_rule)
{
    sc_query pinned = {.text = "", .path = &stmt->pin.path};
    return stmt->kind != SC_PLAN_PIN || is_rule || sc_query_matches_row(&pinned, a->c, row);
}

/* Adds edits of the line that caused the collective (`rule`), or of all others. */
static void change_lines(const editor *a, const sc_comm_row *row, const sc_sym *axes,
                         uint32_t axis_count, bool rule, sc_edits *out)
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

/* ---- new lines ---- */
static void add_line(const editor *a, const char *line, sc_edits *out)
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

static void add_free_rules(const editor *a, const sc_type_info *type, sc_sym axis, sc_edits *out)
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
static const char *pin_shape(const editor *a, const sc_type_info *type,
                             const sc_placement *placement, uint32_t axes)
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

static void add_pins(const editor *a, const sc_comm_row *row, sc_sym path, const sc_type_info *type,
                     sc_edits *out)
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

static void new_lines(const editor *a, const sc_comm_row *row, const sc_sym *axes,
                      uint32_t axis_count, sc_edits *out)
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

void sc_list_edits(const sc_compiled *c, const sc_comm_row *row, sc_edits *out)
{
    const sc_module *m = c->local;
    const editor a = {m->context, c};
    sc_sym axes[SC_MAX_AXES] = {0};
    uint32_t axis_count = 0;
    for (uint32_t x = 0; x < m->mesh.axis_count; x++) {
        if ((row->axes >> x & 1) != 0)
            axes[axis_count++] = m->mesh.axes[x].name;
    }
    change_lines(&a, row, axes, axis_count, true, out);
    change_lines(&a, row, axes, axis_count, false, out);
    new_lines(&a, row, axes, axis_count, out);
}
