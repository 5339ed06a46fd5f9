/* sc_plan_seed: applies the lines of a plan to one built function.
 *
 *   shard H over tp;                  wq: {K: tp.0, G: tp.1} STRONG, line 1
 *   pin layers.attn.x: [B, S, D];     layers[0].attn.x: {} PIN, closed on every sub-axis, line 2
 *
 * Lines first make claims on axes and on dims as written. Once all claims are known, the axes are
 * cut into sub-axes and claims become seeds. Lines are processed in plan order, except that rules
 * with `*` or `if free` come late, because they depend on the others, and forms last. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"
#include "ir/ops/forms.h"

#include <inttypes.h>
#include <string.h>

/* ---- claims become seeds ---- */
static void emit_claim(sc_seeding *s, uint32_t rule, const sc_claim *claim, sc_seeds *seeds)
{
    sc_arena *arena = &s->context->arena;
    const sc_type_info *type = sc_type_of(s->m, claim->value);
    sc_split splits[SC_MAX_RANK];
    uint32_t count = 0;
    for (uint32_t i = 0; i < claim->split_count; i++) {
        sc_split of_one[SC_MAX_RANK];
        uint32_t more = sc_seeding_splits(s, type, &claim->splits[i], of_one);
        for (uint32_t k = 0; k < more && count < SC_MAX_RANK; k++)
            splits[count++] = of_one[k];
    }
    sc_sub_axis_set closed = sc_seeding_sub_axes(s, claim->closed);
    if (count == 0 && closed == 0)
        return;
    sc_split *kept = sc_arena_array(arena, count, sizeof *kept);
    if (count > 0)
        memcpy(kept, splits, count * sizeof *kept);
    *sc_vec_push(arena, &seeds->list) = (sc_seed){.value = claim->value,
                                                  .strength = claim->strength,
                                                  .rule = rule,
                                                  .closed = closed,
                                                  .split_count = count,
                                                  .splits = kept};
}

/* Converts a lock claim. A lock names factors, which are leaves; an op's factors are the leaves of
 * its operands. */
static void emit_lock(sc_seeding *s, uint32_t rule, const sc_lock_claim *lock, sc_seeds *seeds)
{
    const sc_op *op = sc_op_at(s->m, lock->op);
    for (uint32_t o = 0; o < op->operand_count; o++) {
        sc_split splits[SC_MAX_RANK];
        uint32_t count =
            sc_seeding_splits(s, sc_type_of(s->m, op->operands[o]), &lock->split, splits);
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t a = 0; a < splits[i].sub_axes.count; a++)
                *sc_vec_push(&s->context->arena, &seeds->locks) =
                    (sc_lock){lock->op, splits[i].dim, splits[i].sub_axes.sub_axes[a], rule};
        }
        if (count > 0)
            return;
    }
}

/* Keeps the sub-axes of some axes. Returns false if there are none. */
static bool keep_axes(const sc_module *m, sc_axis_set axes, sc_sub_axis_list *list)
{
    uint8_t kept = 0;
    for (uint32_t i = 0; i < list->count; i++) {
        if ((axes >> m->mesh.sub_axes[list->sub_axes[i]].axis & 1) != 0)
            list->sub_axes[kept++] = list->sub_axes[i];
    }
    list->count = kept;
    return kept > 0;
}

/* Of a form that splits nothing: the sub-axes over which it is. */
static uint32_t all_sub_axes(sc_seeding *s, sc_axis_set axes, sc_split *out)
{
    *out = (sc_split){.dim = SC_NONE};
    for (uint8_t a = 0; a < s->m->mesh.sub_axis_count; a++) {
        if ((axes >> s->m->mesh.sub_axes[a].axis & 1) != 0)
            out->sub_axes.sub_axes[out->sub_axes.count++] = a;
    }
    return 1;
}

static void emit_form(sc_seeding *s, uint32_t rule, const sc_form_claim *claim, sc_seeds *seeds)
{
    const sc_op *op = sc_op_at(s->m, claim->op);
    sc_split *splits = sc_arena_array(&s->context->arena, SC_MAX_RANK, sizeof *splits);
    sc_value operand = op->operands[sc_forms[claim->form].operand];
    uint32_t count = claim->split.dim == SC_NONE
                         ? all_sub_axes(s, claim->over, splits)
                         : sc_seeding_splits(s, sc_type_of(s->m, operand), &claim->split, splits),
             kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (keep_axes(s->m, claim->over, &splits[i].sub_axes))
            splits[kept++] = splits[i];
    }
    if (kept > 0)
        *sc_vec_push(&s->context->arena, &seeds->forms) =
            (sc_form_seed){claim->op, claim->form, rule, kept, splits};
}

static void emit(sc_seeding *s, sc_seeds *seeds)
{
    for (uint32_t l = 0; l < s->lines.count; l++) {
        const sc_line_claims *line = &s->lines.data[l];
        for (uint32_t i = 0; i < line->list.count; i++)
            emit_claim(s, line->rule, &line->list.data[i], seeds);
        for (uint32_t i = 0; i < line->locks.count; i++)
            emit_lock(s, line->rule, &line->locks.data[i], seeds);
        for (uint32_t i = 0; i < line->forms.count; i++)
            emit_form(s, line->rule, &line->forms.data[i], seeds);
    }
}

/* ---- lines together ---- */
/* Checks the lines together. Each line alone divides its dim; several lines on one dim must divide
 * it together. On a pinned value only the pin counts. */
typedef struct shared_dim {
    sc_sub_axis_set sub_axes;
    uint32_t rule; /* the first line */
} shared_dim;

static void report_together(sc_seeding *s, const sc_seed *seed, sc_dim dim,
                            const shared_dim *shared, int64_t size)
{
    sc_axis_list axes = {0};
    for (uint8_t a = 0; a < s->m->mesh.axis_count; a++) {
        if ((sc_seeding_sub_axes(s, (sc_axis_set)(1u << a)) & shared->sub_axes) != 0)
            axes.axes[axes.count++] = a;
    }
    sc_seeding_report_shards(s, dim, size, &axes,
                             sc_sub_axis_set_size(&s->m->mesh, shared->sub_axes),
                             s->m->rules.data[seed->rule].loc);
    const sc_rule_ref *first = &s->m->rules.data[shared->rule];
    sc_report_note(&s->context->diag, first->loc, "this line splits %s too: %s",
                   sc_text(s->context, s->m->dims.data[dim].name),
                   sc_text(s->context, first->text));
}

/* Returns the sub-axes of a seed that take effect: without those that a stronger line closes or
 * takes. */
static sc_sub_axis_set laid_sub_axes(const sc_seed *seed, const sc_split *split,
                                     const sc_sub_axis_set *closed, const sc_sub_axis_set *output)
{
    sc_sub_axis_set sub_axes = 0;
    for (uint32_t a = 0; a < split->sub_axes.count; a++)
        sub_axes |= (sc_sub_axis_set)1 << split->sub_axes.sub_axes[a];
    if (seed->strength > SC_SEED_PIN)
        sub_axes &= ~closed[seed->value];
    if (seed->strength > SC_SEED_OUTPUT)
        sub_axes &= ~output[seed->value];
    return sub_axes;
}

static void check_together(sc_seeding *s, const sc_seeds *seeds)
{
    sc_arena *arena = &s->context->arena;
    sc_map map = {.arena = arena};
    sc_sub_axis_set *closed = sc_arena_array(arena, s->m->values.count, sizeof *closed);
    sc_sub_axis_set *output = sc_arena_array(arena, s->m->values.count, sizeof *output);
    uint32_t split_count = 0, known = 0;
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        closed[seed->value] |= seed->closed;
        split_count += seed->split_count;
        if (seed->strength != SC_SEED_OUTPUT)
            continue;
        for (uint32_t k = 0; k < seed->split_count; k++)
            output[seed->value] |= laid_sub_axes(seed, &seed->splits[k], closed, output);
    }
    shared_dim *dims = sc_arena_array(arena, split_count, sizeof *dims);
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        if (seed->strength == SC_SEED_FIXED || seed->strength == SC_SEED_WEAK)
            continue;
        const sc_type_info *type = sc_type_of(s->m, seed->value);
        for (uint32_t k = 0; k < seed->split_count; k++) {
            const sc_split *split = &seed->splits[k];
            bool is_new;
            shared_dim *dim = &dims[*sc_map_insert(&map, ((uint64_t)seed->value << 32) | split->dim,
                                                   known, &is_new)];
            if (is_new) {
                dim->rule = seed->rule;
                known++;
            }
            dim->sub_axes |= laid_sub_axes(seed, split, closed, output);
            int64_t size = type->dims[sc_type_find_dim(type, split->dim)].size;
            uint64_t shards = sc_sub_axis_set_size(&s->m->mesh, dim->sub_axes);
            if (!sc_dim_divides(s->m, split->dim, size, shards) &&
                !sc_seeding_pad_as_needed(s, split->dim, shards, seed->strength == SC_SEED_STORAGE))
                report_together(s, seed, split->dim, dim, size);
        }
    }
}

/* Reports a `pad` line over a dim that is not split: it has no effect, which is easily
 * overlooked. */
static void report_idle_pads(sc_seeding *s, const sc_seeds *seeds)
{
    const bool *splits = sc_seeding_split_dims(s, seeds);
    const sc_plan *plan = s->plan->plan;
    if (plan != NULL) {
        for (uint32_t i = 0; i < plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->body.data[i];
            sc_dim dim =
                stmt->kind == SC_PLAN_PAD ? sc_module_find_dim(s->m, stmt->pad.dim.text) : SC_NONE;
            if (dim != SC_NONE && !splits[dim] &&
                sc_dim_padded(s->m, dim, s->sizes[dim]) != s->sizes[dim])
                sc_report(&s->context->diag, SC_D_pad_is_idle, stmt->loc,
                          sc_text(s->context, s->m->dims.data[dim].name),
                          sc_arena_printf(&s->context->arena, "%" PRId64, s->sizes[dim]), NULL);
        }
    }
}

/* Reports the cost of padding once per padded dim. */
static void report_padding(const sc_seeding *s, const sc_seeds *seeds)
{
    sc_arena *arena = &s->context->arena;
    bool *said = sc_arena_array(arena, s->m->dims.count, sizeof *said);
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const sc_seed *seed = &seeds->list.data[i];
        for (uint32_t k = 0; k < seed->split_count; k++) {
            sc_dim dim = seed->splits[k].dim;
            int64_t size = s->sizes[dim], padded = sc_dim_padded(s->m, dim, size);
            if (said[dim] || padded == size || seed->strength == SC_SEED_WEAK)
                continue;
            said[dim] = true;
            sc_report(
                &s->context->diag, SC_D_padded, s->m->rules.data[seed->rule].loc,
                sc_text(s->context, s->m->dims.data[dim].name),
                sc_arena_printf(arena, "%" PRId64, size),
                sc_arena_printf(arena, "%" PRId64, padded),
                sc_arena_printf(arena, "%.3g", 100.0 * (double)(padded - size) / (double)size),
                NULL);
        }
    }
}

/* ---- indices ---- */
static bool has_index(const sc_path *path)
{
    for (uint32_t i = 0; i < path->segs.count; i++) {
        if (path->segs.data[i].kind == SC_SEG_INDEX || path->segs.data[i].kind == SC_SEG_RANGE)
            return true;
    }
    return false;
}

/* Reports a path whose names exist in this function, but not with these indices. */
void sc_plan_check_indices(sc_context *context, const sc_plan_view *view, const sc_path *path)
{
    if (!has_index(path))
        return;
    const char *without = NULL;
    for (uint32_t i = 0; i < view->place_paths.count; i++) {
        sc_sym place = view->place_paths.data[i];
        if (sc_plan_view_match(view, path, place) != SC_PATH_NO)
            return;
        if (sc_path_match_text(context, path, view->entry, sc_text(context, place), true) !=
            SC_PATH_NO)
            without = sc_text(context, place);
    }
    if (without == NULL)
        return;
    sc_report(&context->diag, SC_D_matches_nothing, path->loc, sc_path_text(context, path), "",
              NULL);
    sc_report_note(&context->diag, (sc_loc){0}, "indices count from 0; the last instance is '%s'",
                   without);
}

static void check_indices(const sc_seeding *s, const sc_path_list *paths)
{
    for (uint32_t i = 0; i < paths->count; i++)
        sc_plan_check_indices(s->context, s->view, &paths->data[i]);
}

static void check_all_indices(sc_seeding *s)
{
    const sc_plan *plan = s->plan->plan;
    if (plan != NULL) {
        for (uint32_t i = 0; i < plan->body.count; i++) {
            const sc_plan_stmt *stmt = plan->body.data[i];
            check_indices(s, &stmt->in);
            if (stmt->kind == SC_PLAN_PIN)
                sc_plan_check_indices(s->context, s->view, &stmt->pin.path);
            if (stmt->kind == SC_PLAN_REMAT)
                check_indices(s, &stmt->remat.save);
        }
    }
}

/* ---- the pass ---- */
static bool is_late(const sc_plan_stmt *stmt)
{
    return stmt->kind == SC_PLAN_SHARD && (stmt->shard.star || stmt->shard.if_free);
}

static void read_line(sc_seeding *s, const sc_plan_line *source, uint32_t line)
{
    switch (source->stmt->kind) {
    case SC_PLAN_SHARD:
        sc_seeding_expect_zigzag(s, source);
        if (source->stmt->shard.star)
            sc_seeding_star_rule(s, source, line);
        else
            sc_seeding_rule(s, source, line);
        sc_seeding_keep_zigzag(s, source, line);
        break;
    case SC_PLAN_PIN:
        sc_seeding_pin(s, source, line);
        break;
    case SC_PLAN_STYLE:
        sc_seeding_style(s, source, line);
        break;
    default:
        break;
    }
}

static void read_lines(sc_seeding *s)
{
    const sc_resolved_plan *plan = s->plan;
    for (uint32_t i = 0; i < plan->lines.count; i++)
        sc_seeding_add_line(s, sc_plan_line_text(s->context, plan->lines.data[i].stmt),
                            plan->lines.data[i].stmt->loc);
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        if (!plan->lines.data[i].broken && !is_late(plan->lines.data[i].stmt))
            read_line(s, &plan->lines.data[i], i);
    }
    sc_seeding_inline_pins(s);
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        if (!plan->lines.data[i].broken && is_late(plan->lines.data[i].stmt))
            read_line(s, &plan->lines.data[i], i);
    }
    for (uint32_t i = 0; i < plan->lines.count; i++) {
        if (!plan->lines.data[i].broken && plan->lines.data[i].stmt->kind == SC_PLAN_FORM)
            sc_seeding_form(s, &plan->lines.data[i], i);
    }
}

bool sc_plan_seed(sc_resolved_plan *plan, sc_module *m, const sc_build_result *built,
                  const sc_module *fixed, sc_seeds *seeds)
{
    sc_context *context = plan->context;
    uint32_t errors = context->diag.errors;
    sc_seeding s = {.plan = plan, .context = context, .m = m, .built = built};
    s.view = sc_plan_view_make(context, m, built->entry);
    s.claimed = sc_arena_array(&context->arena, s.view->value_count, sizeof *s.claimed);
    s.last_taken = sc_arena_array(&context->arena, s.view->value_count, sizeof *s.last_taken);
    s.used_axes = sc_arena_array(&context->arena, s.view->value_count, sizeof *s.used_axes);
    s.is_fixed = sc_arena_array(&context->arena, s.view->value_count, sizeof *s.is_fixed);
    sc_seeding_find_followers(&s);
    sc_plan_bindings(plan, s.view->entry, &s.bindings);
    *seeds =
        (sc_seeds){.call_cost = plan->tuning.call_cost, .capacity = sc_plan_tune(plan).capacity};
    sc_seeding_find_sizes(&s);
    sc_seeding_pad(&s);
    check_all_indices(&s);
    sc_seeding_mark_fixed(&s, fixed);
    read_lines(&s);
    sc_seeding_cut_for_fixed(&s, fixed);
    if (!sc_seeding_cut_axes(&s))
        return false;
    sc_seeding_zigzag(&s);
    emit(&s, seeds);
    /* padding in round one spreads to dims that are renamed to the padded one */
    for (int round = 0; round < 2; round++) {
        check_together(&s, seeds);
        sc_seeding_settle_padding(&s, fixed, seeds);
    }
    report_padding(&s, seeds);
    /* not for later entries: a dim that is whole in one of them may be split in the first */
    if (fixed == NULL && context->diag.errors == errors)
        report_idle_pads(&s, seeds);
    sc_seeding_fixed_seeds(&s, fixed, seeds);
    return context->diag.errors == errors;
}
