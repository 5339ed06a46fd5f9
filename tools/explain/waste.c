/* Works on compiled programs: repeated work from the axes that operands and results of contractions
 * are split over, idle lines from the record of placement (passes/placing.h) and from the copies
 * between memories. */
#include "tools/explain/waste.h"

#include <string.h>

#include "ir/ops/forms.h"

#include "frontend/declare/path_match.h"
#include "tools/driver/flops.h"

/* share of a rank's FLOPs; repeated norms and routers are not reported */
static const double NEARLY_ALL = 0.95;

/* ---- work that ranks repeat ---- */
/* Number of elements computed by a rank in one call of the entry. */
static double elements(const sc_compiled *c)
{
    const sc_module *m = c->local;
    double sum = 0;
    sc_for_each_op (m, c->func, op) {
        double product = 1;
        const sc_op *o = sc_op_at(m, op);
        const sc_type_info *type = o->result_count == 0 || (sc_op_traits(o) & SC_STATE_READ) != 0
                                       ? NULL
                                       : sc_type_of(m, o->first_result);
        if (type != NULL) {
            for (uint32_t i = 0; i < type->rank; i++)
                product *= (double)sc_type_local_size(m, type, i);
        }
        sum += type == NULL ? 0 : product;
    }
    return sum;
}

/* Share of a rank's FLOPs that all ranks along the axis repeat; 0 if that is expected or small, or
 * if contractions do not dominate the program. */
static double repeated(const sc_compiled *c, uint32_t axis)
{
    double all = sc_rank_flops(c->local);
    if (c->local->mesh.axes[axis].size == 1 || !sc_plan_splits_over(c->resolved, axis) ||
        all < elements(c))
        return 0;
    double part = sc_rank_flops_repeated(c->local, axis) / all;
    return part >= NEARLY_ALL ? part : 0;
}

/* Returns a dim of the entry's inputs that the axis divides, after what splits it already: in a
 * train step any dim, in other entries only the first of an input, its rows. A single row can only
 * be computed by one rank, which is not waste. SC_NONE if there is none. */
static sc_dim divisible_dim(const sc_compiled *c, uint32_t axis)
{
    const sc_module *m = c->local;
    sc_for_each_op (m, c->func, op) {
        if ((sc_op_traits(sc_op_at(m, op)) & SC_FROM_OUTSIDE) == 0)
            continue;
        const sc_type_info *type = sc_type_of(m, sc_result(m, op, 0));
        uint32_t considered = c->step != NULL || type->rank == 0 ? type->rank : 1;
        for (uint32_t i = 0; i < considered; i++) {
            uint64_t shards = sc_type_shards(&m->mesh, type, i) * m->mesh.axes[axis].size;
            if (type->dims[i].group == SC_NONE && type->dims[i].size > 1 &&
                sc_dim_divides(m, type->dims[i].dim, type->dims[i].size, shards))
                return type->dims[i].dim;
        }
    }
    return SC_NONE;
}

static void warn_of_axis(sc_context *context, const sc_compiled *c, uint32_t axis, double part)
{
    const sc_module *m = c->local;
    const char *name = sc_text(context, m->mesh.axes[axis].name),
               *entry = sc_text(context, c->entry);
    sc_dim dim = divisible_dim(c, axis);
    if (dim == SC_NONE)
        return;
    sc_report(&context->diag, SC_D_axis_repeats, sc_plan_axis_loc(c->resolved, axis), name,
              sc_arena_printf(&context->arena, "%u", m->mesh.axes[axis].size),
              sc_arena_printf(&context->arena, "%.3g %%", 100 * part),
              sc_arena_printf(&context->arena, c->step != NULL ? "a step of '%s'" : "'%s'", entry),
              NULL);
    sc_report_note(&context->diag, (sc_loc){0}, "'shard %s over %s;' would split the work",
                   sc_text(context, m->dims.data[dim].name), name);
}

void sc_warn_of_repeated_work(sc_context *context, const sc_compiled_list *entries)
{
    const sc_compiled *first = entries->count > 0 ? entries->data[0] : NULL;
    bool has_default = false;
    for (uint32_t i = 0; i < entries->count && !has_default; i++) {
        has_default = entries->data[i]->is_default;
        first = has_default ? entries->data[i] : first;
    }
    if (first != NULL) {
        for (uint32_t axis = 0; axis < first->local->mesh.axis_count; axis++) {
            bool everywhere = !first->local->mesh.axes[axis].is_stage;
            if (!has_default) {
                for (uint32_t i = 0; i < entries->count; i++)
                    everywhere = everywhere && repeated(entries->data[i], axis) > 0;
            }
            double part = everywhere ? repeated(first, axis) : 0;
            if (part > 0)
                warn_of_axis(context, first, axis, part);
        }
    }
}

/* ---- lines ---- */
typedef struct line_use {
    bool speaks, acts; /* of any entry */
    bool weak;
    bool splits, marks; /* a form: of ops that it splits; of dots */
} line_use;

static const char *names_of(sc_context *context, const sc_compiled_list *entries)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < entries->count; i++)
        sc_strbuf_printf(&text, "%s'%s'",
                         i == 0                    ? ""
                         : i + 1 == entries->count ? " and "
                                                   : ", ",
                         sc_text(context, entries->data[i]->entry));
    return text.data;
}

static void read_entry(const sc_compiled *c, sc_map *by_place, line_use *uses)
{
    const sc_seeds *seeds = c->env.seeds;
    for (uint32_t i = 0; i < seeds->list.count; i++) {
        const uint32_t *line =
            sc_map_find(by_place, c->local->rules.data[seeds->list.data[i].rule].loc.begin);
        if (line != NULL) {
            uses[*line].speaks = true;
            uses[*line].weak = seeds->list.data[i].strength == SC_SEED_WEAK;
        }
    }
    for (uint32_t i = 0; i < seeds->forms.count; i++) {
        const uint32_t *line =
            sc_map_find(by_place, c->local->rules.data[seeds->forms.data[i].rule].loc.begin);
        if (line == NULL)
            continue;
        uses[*line].speaks = true;
        if (sc_forms[seeds->forms.data[i].form].dims == NULL)
            uses[*line].marks = true;
        else
            uses[*line].splits = true;
    }
    for (uint32_t r = 0; r < c->local->rules.count; r++) {
        const uint32_t *line = sc_map_find(by_place, c->local->rules.data[r].loc.begin);
        if (line != NULL)
            uses[*line].acts = uses[*line].acts || c->env.placing->acted[r];
    }
}

/* ---- offload ---- */
static bool covers(const sc_compiled *c, const sc_plan_stmt *stmt, sc_sym path)
{
    for (uint32_t i = 0; i < stmt->in.count; i++) {
        if (sc_path_matches(c->local->context, &stmt->in.data[i], c->entry, path) != SC_PATH_NO)
            return true;
    }
    return stmt->in.count == 0;
}

/* True if the line keeps something of the kind in host memory. `any_line`: or another line keeps
 * what it names. */
static bool keeps_states(const sc_compiled *c, const sc_plan_stmt *stmt, sc_state_kind kind,
                         bool any_line)
{
    const sc_module *m = c->local;
    for (uint32_t s = 0; s < m->state.count; s++) {
        const sc_state *state = &m->state.data[s];
        if (state->kind == kind && state->host_rule != 0 &&
            (m->rules.data[state->host_rule - 1].loc.begin == stmt->loc.begin ||
             (any_line && covers(c, stmt, state->path))))
            return true;
    }
    return false;
}

/* True if the line keeps saved activations: those come back from where a copy has put them. */
static bool keeps_activations(const sc_compiled *c, const sc_plan_stmt *stmt)
{
    const sc_module *m = c->local;
    sc_for_each_op_of_all(m, id)
    {
        const sc_op *op = sc_op_at(m, id);
        uint32_t rule = (uint32_t)sc_op_int(op, SC_ATTR_rule, SC_NONE);
        if (rule != SC_NONE && m->rules.data[rule].loc.begin == stmt->loc.begin &&
            sc_copy_brings_back(m, op))
            return true;
    }
    return false;
}

static bool keeps(const sc_compiled *c, const sc_plan_stmt *stmt, sc_tensor_kind kind,
                  bool any_line)
{
    return kind == SC_KIND_ACT
               ? keeps_activations(c, stmt)
               : keeps_states(c, stmt, kind == SC_KIND_OPT ? SC_STATE_OPT : SC_STATE_PARAM,
                              any_line);
}

static bool is_kept(const sc_compiled_list *entries, const sc_plan_stmt *stmt, sc_tensor_kind kind,
                    bool any_line)
{
    for (uint32_t e = 0; e < entries->count; e++) {
        if (keeps(entries->data[e], stmt, kind, any_line))
            return true;
    }
    return false;
}

/* True if the kind is of train steps, and these entries are none, but another is. */
static bool is_of_another_entry(const sc_compiled_list *entries, sc_tensor_kind kind)
{
    sc_entry_list all = {0};
    for (uint32_t e = 0; e < entries->count; e++) {
        if (kind == SC_KIND_PARAM || entries->data[e]->step != NULL)
            return false;
    }
    sc_declarations_entries(entries->data[0]->program, entries->data[0]->model, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        if (all.data[i].minimised)
            return true;
    }
    return false;
}

static void warn_of_offload(sc_context *context, const sc_compiled_list *entries,
                            const sc_plan_stmt *stmt)
{
    static const char *const whys[SC_KIND_COUNT] = {
        [SC_KIND_OPT] = "it names no parameter with optimizer state",
        [SC_KIND_PARAM] = "it names no parameter",
        [SC_KIND_ACT] = "the backward pass reads nothing that it names, or other lines keep that "
                        "in host memory"};
    for (uint32_t k = 0; k < stmt->offload.order.count; k++) {
        sc_tensor_kind kind = stmt->offload.order.data[k];
        const char *names = names_of(context, entries);
        if (is_of_another_entry(entries, kind) || is_kept(entries, stmt, kind, false))
            continue;
        if (stmt->offload.order.count > 1)
            names = sc_arena_printf(&context->arena, "%s for '%s'", names, sc_kind_names[kind]);
        sc_report(&context->diag, SC_D_line_idle, stmt->loc, names,
                  is_kept(entries, stmt, kind, true) ? "other lines keep what it names"
                                                     : whys[kind],
                  NULL);
    }
}

/* Warns about room for rows of experts where ranks have all experts. */
static void warn_of_capacity(sc_context *context, const sc_compiled_list *entries,
                             const sc_plan_stmt *stmt)
{
    bool is_named = false;
    for (uint32_t i = 0; i < stmt->tune.count; i++)
        is_named =
            is_named || strcmp(sc_text(context, stmt->tune.data[i].name.text), "capacity") == 0;
    for (uint32_t e = 0; e < entries->count; e++)
        is_named = is_named && !sc_splits_experts(entries->data[e]->local);
    if (is_named)
        sc_report(&context->diag, SC_D_line_idle, stmt->loc, names_of(context, entries),
                  "no axis splits routed experts", NULL);
}

static const char *why_idle(const sc_plan_stmt *stmt, const line_use *use)
{
    if (stmt->kind == SC_PLAN_FORM && !use->marks)
        return "no op that it names is split over its axes";
    if (stmt->kind == SC_PLAN_FORM)
        return use->splits
                   ? "attention that it names is not split over its axes by position, and of "
                     "its dots no input is gathered and no result scattered over them"
                   : "of the dots that it names no input is gathered and no result scattered "
                     "over its axes";
    return use->weak ? "every tensor that it names uses the axis otherwise or is already split "
                       "this way"
                     : "other lines place every tensor that it names";
}

void sc_warn_of_idle_lines(sc_context *context, const sc_compiled_list *entries)
{
    const sc_plan *plan = entries->count > 0 ? entries->data[0]->plan : NULL;
    if (plan == NULL)
        return;
    sc_map by_place = {.arena = &context->arena};
    line_use *uses = sc_arena_array(&context->arena, plan->body.count, sizeof *uses);
    for (uint32_t i = 0; i < plan->body.count; i++) {
        bool is_new;
        sc_plan_stmt_kind kind = plan->body.data[i]->kind;
        if (kind == SC_PLAN_SHARD || kind == SC_PLAN_PIN || kind == SC_PLAN_STYLE ||
            kind == SC_PLAN_FORM)
            sc_map_insert(&by_place, plan->body.data[i]->loc.begin, i, &is_new);
    }
    for (uint32_t e = 0; e < entries->count; e++)
        read_entry(entries->data[e], &by_place, uses);
    for (uint32_t i = 0; i < plan->body.count; i++) {
        if (plan->body.data[i]->kind == SC_PLAN_OFFLOAD)
            warn_of_offload(context, entries, plan->body.data[i]);
        if (plan->body.data[i]->kind == SC_PLAN_TUNE)
            warn_of_capacity(context, entries, plan->body.data[i]);
        if (uses[i].speaks && !uses[i].acts &&
            !sc_plan_repeats_line(entries->data[0]->resolved, plan->body.data[i]))
            sc_report(&context->diag, SC_D_line_idle, plan->body.data[i]->loc,
                      names_of(context, entries), why_idle(plan->body.data[i], &uses[i]), NULL);
    }
}
