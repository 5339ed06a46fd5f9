/* Checks the names of a plan against the model. Every entry is elaborated once without sizes; a
 * path, dim or rule that matches nothing in any entry is an error, whichever entry is compiled. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"

#include <string.h>

static sc_dtype any_dtype(void *user, sc_tensor_kind kind, sc_sym path)
{
    (void)user, (void)kind, (void)path;
    return SC_DTYPE_f32;
}

void sc_plan_elaborate_entries(sc_resolved_plan *plan)
{
    sc_entry_list entries = {0};
    sc_declarations_entries(plan->program, plan->model, &entries);
    sc_binding_list none = {0};
    sc_module *m = sc_module_new(plan->context);
    for (uint32_t i = 0; i < entries.count; i++) {
        sc_build_request request = {.model = plan->model,
                                    .entry = entries.data[i].entry,
                                    .bindings = &none,
                                    .dtype_of = any_dtype,
                                    .symbolic = true};
        sc_build_result result = {0};
        if (!sc_build_entry(plan->program, &request, m, &result)) {
            plan->entries.count = 0;
            return;
        }
        for (uint32_t p = 0; p < result.pins.count; p++) {
            for (uint32_t a = 0; a < result.pins.data[p].axes.count; a++)
                *sc_vec_push(&plan->context->arena, &plan->pinned_axes) =
                    result.pins.data[p].axes.data[a].text;
        }
        *sc_vec_push(&plan->context->arena, &plan->entries) =
            sc_plan_view_make_symbolic(plan->context, m, result.func);
    }
}

/* ---- paths ---- */
static void add_match(sc_resolved_plan *plan, const char *path, sc_path_match match)
{
    bool is_new;
    uint32_t *known = sc_map_insert(&plan->param_matches,
                                    sc_intern_text(&plan->context->names, path), match, &is_new);
    *known = (uint32_t)match > *known ? (uint32_t)match : *known;
}

/* Returns the model's parameter paths, listed once per plan. */
static const sc_param_path_list *param_paths(sc_resolved_plan *plan)
{
    const sc_unit *model = sc_declarations_model(plan->program, plan->model);
    if (plan->params == NULL) {
        plan->params = sc_arena_alloc(&plan->context->arena, sizeof *plan->params);
        if (model != NULL)
            sc_param_paths(plan->program, model, plan->params);
        plan->param_matches = (sc_map){.arena = &plan->context->arena};
        for (uint32_t i = 0; i < plan->params->count; i++) {
            const char *bare = sc_path_without_indices(
                plan->context, sc_text(plan->context, plan->params->data[i].text));
            add_match(plan, bare, SC_PATH_EXACT);
            for (const char *point = strchr(bare, '.'); point != NULL;
                 point = strchr(point + 1, '.'))
                add_match(plan,
                          sc_arena_copy_text(&plan->context->arena, bare, (size_t)(point - bare)),
                          SC_PATH_COVERS);
        }
    }
    return plan->params;
}

/* Returns the best match of the path with a parameter, ignoring indices. */
static sc_path_match match_param(sc_resolved_plan *plan, const sc_path *path)
{
    sc_path_match best = SC_PATH_NO;
    const sc_param_path_list *params = param_paths(plan);
    bool has_any = false;
    for (uint32_t i = 0; i < path->segs.count && !has_any; i++)
        has_any = path->segs.data[i].kind == SC_SEG_ANY;
    if (!has_any) {
        const char *bare =
            sc_path_without_indices(plan->context, sc_path_text(plan->context, path));
        const uint32_t *known =
            sc_map_find(&plan->param_matches, sc_intern_text(&plan->context->names, bare));
        return known == NULL ? SC_PATH_NO : (sc_path_match)*known;
    }
    for (uint32_t i = 0; i < params->count && best < SC_PATH_EXACT; i++) {
        sc_path_match match = sc_path_match_text(
            plan->context, path, 0, sc_text(plan->context, params->data[i].text), true);
        best = match > best ? match : best;
    }
    return best;
}

static bool exists(sc_resolved_plan *plan, const sc_path *path, bool whole)
{
    sc_path_match wanted = whole ? SC_PATH_EXACT : SC_PATH_COVERS;
    sc_path_list paths = {0};
    *sc_vec_push(&plan->context->arena, &paths) = *path;
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        sc_plan_scope scope = sc_plan_scope_make(plan->context, view, &paths);
        for (uint32_t i = 0; i < scope.count; i++) {
            sc_value value = sc_plan_scope_value(&scope, i);
            if (whole && sc_plan_value_path(view->m, value) == 0)
                continue;
            if (sc_plan_scope_match(&scope, view->places[value]) >= wanted)
                return true;
        }
    }
    return match_param(plan, path) >= wanted;
}

typedef struct candidates {
    sc_context *context;
    sc_map seen;
    SC_VEC(const char *) paths, segments; /* the last segment of each path */
} candidates;

static void add_candidate(candidates *list, const char *path)
{
    bool is_new;
    sc_map_insert(&list->seen, sc_intern_text(&list->context->names, path), 0, &is_new);
    if (!is_new || *path == 0)
        return;
    const char *point = strrchr(path, '.');
    *sc_vec_push(&list->context->arena, &list->paths) = path;
    *sc_vec_push(&list->context->arena, &list->segments) = point == NULL ? path : point + 1;
}

/* Adds the path and, unless `whole`, its prefixes. */
static void add_candidates(candidates *list, const char *path, bool whole)
{
    const char *bare = sc_path_without_indices(list->context, path);
    add_candidate(list, bare);
    for (const char *point = whole ? NULL : strchr(bare, '.'); point != NULL;
         point = strchr(point + 1, '.'))
        add_candidate(list,
                      sc_arena_copy_text(&list->context->arena, bare, (size_t)(point - bare)));
}

static void collect(sc_resolved_plan *plan, bool whole, candidates *list)
{
    *list = (candidates){.context = plan->context, .seen = {.arena = &plan->context->arena}};
    const sc_param_path_list *params = param_paths(plan);
    for (uint32_t i = 0; i < params->count; i++)
        add_candidates(list, sc_text(plan->context, params->data[i].text), whole);
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        for (uint32_t i = 0; i < view->values.count; i++) {
            sc_sym path = sc_plan_value_path(view->m, view->values.data[i]);
            if (path != 0)
                add_candidates(list, sc_text(plan->context, path), whole);
        }
        if (!whole)
            add_candidate(list, sc_text(plan->context, view->entry));
    }
}

/* Returns the nearest whole path, else the nearest by last segment alone, for a path whose front is
 * missing or wrong. */
static const char *nearest_path(sc_resolved_plan *plan, const sc_path *path, bool whole)
{
    candidates list;
    collect(plan, whole, &list);
    const char *text = sc_path_without_indices(plan->context, sc_path_text(plan->context, path));
    const char *point = strrchr(text, '.'), *last = point == NULL ? text : point + 1;
    for (uint32_t i = 0; i < list.paths.count; i++) {
        if (strcmp(list.segments.data[i], last) == 0 &&
            sc_nearest(text, &list.paths.data[i], 1) != NULL)
            return list.paths.data[i];
    }
    const char *near = sc_nearest(text, list.paths.data, list.paths.count);
    if (near != NULL)
        return near;
    near = sc_nearest(last, list.segments.data, list.segments.count);
    for (uint32_t i = 0; near != NULL && i < list.paths.count; i++) {
        if (list.segments.data[i] == near)
            return list.paths.data[i];
    }
    return NULL;
}

bool sc_plan_check_path(sc_resolved_plan *plan, const sc_path *path, bool whole)
{
    if (plan->entries.count == 0 || exists(plan, path, whole))
        return true;
    const char *near = nearest_path(plan, path, whole);
    sc_report(
        &plan->context->diag, SC_D_matches_nothing, path->loc, sc_path_text(plan->context, path),
        near == NULL ? "" : sc_arena_printf(&plan->context->arena, "; did you mean '%s'?", near),
        NULL);
    if (whole && exists(plan, path, false))
        sc_report_note(&plan->context->diag, (sc_loc){0},
                       "'%s' is a part of the model, not a value: name a value in it",
                       sc_path_text(plan->context, path));
    return false;
}

bool sc_plan_check_paths(sc_resolved_plan *plan, const sc_path_list *paths, bool whole)
{
    bool fine = true;
    for (uint32_t i = 0; i < paths->count; i++)
        fine = sc_plan_check_path(plan, &paths->data[i], whole) && fine;
    return fine;
}

/* ---- dims ---- */
bool sc_plan_check_dim(sc_resolved_plan *plan, const sc_name *dim)
{
    if (sc_declarations_has_dim(plan->program, dim->text))
        return true;
    sc_report_unknown_dim(plan->program, *dim);
    return false;
}

/* Returns the kinds that a rule applies to. `param` includes the gradient and the optimizer
 * state. */
static uint32_t kinds_of_rule(const sc_plan_stmt *stmt)
{
    const uint32_t with_param = 1u << SC_KIND_GRAD | 1u << SC_KIND_OPT;
    uint32_t mask = stmt->shard.kinds.mask;
    return mask == 0 ? UINT32_MAX : (mask & with_param) != 0 ? mask | 1u << SC_KIND_PARAM : mask;
}

/* True if a value in the rule's scope has the dim (name 0: any dim). */
static bool rule_reaches(sc_resolved_plan *plan, const sc_plan_stmt *stmt, sc_sym name)
{
    for (uint32_t e = 0; e < plan->entries.count; e++) {
        const sc_plan_view *view = plan->entries.data[e];
        sc_dim dim = name == 0 ? SC_NONE : sc_module_find_dim(view->m, name);
        if (name != 0 && dim == SC_NONE)
            continue;
        sc_plan_scope scope = sc_plan_scope_make(plan->context, view, &stmt->in);
        for (uint32_t i = 0; i < scope.count; i++) {
            sc_value value = sc_plan_scope_value(&scope, i);
            const sc_type_info *type = sc_type_of(view->m, value);
            if ((view->kinds[value] & kinds_of_rule(stmt)) != 0 &&
                (name == 0 ? type->rank > 0 : sc_type_has_dim(view->m, type, dim)) &&
                sc_plan_scope_match(&scope, view->places[value]) != SC_PATH_NO)
                return true;
        }
    }
    return false;
}

static const char *kinds_text(const sc_resolved_plan *plan, const sc_plan_stmt *stmt)
{
    static const char *const words[SC_KIND_COUNT] = {
        "param", "activation", "gradient", "optimizer state", "cache", "input", "output"};
    sc_strbuf text;
    sc_strbuf_init(&text, &plan->context->arena);
    for (uint32_t k = 0; k < SC_KIND_COUNT; k++) {
        if ((stmt->shard.kinds.mask >> k & 1) != 0)
            sc_strbuf_printf(&text, "%s%s", text.length > 0 ? " or " : "", words[k]);
    }
    return text.length == 0 ? "tensor" : text.data;
}

/* True for `shard params, D over dp;`, which parses as a rule about a dim `params`. */
static bool is_misspelt_kind(sc_resolved_plan *plan, const sc_name *dim)
{
    enum { SHORTEST = 3 };
    const char *text = sc_text(plan->context, dim->text);
    const char *near = strlen(text) < SHORTEST || sc_declarations_has_dim(plan->program, dim->text)
                           ? NULL
                           : sc_nearest(text, sc_kind_names, SC_KIND_COUNT);
    if (near == NULL)
        return false;
    sc_report(&plan->context->diag, SC_D_bad_plan_statement, dim->loc,
              sc_arena_printf(&plan->context->arena,
                              "'%s' is neither a dim nor a kind of tensor; did you mean '%s'?",
                              text, near),
              NULL);
    sc_report_note(&plan->context->diag, (sc_loc){0}, "the kinds are %s; then come dims",
                   sc_kinds_text(plan->context));
    return true;
}

static bool check_rule_dim(sc_resolved_plan *plan, const sc_plan_stmt *stmt, uint32_t at)
{
    const sc_name *dim = &stmt->shard.dims.data[at];
    if (is_misspelt_kind(plan, dim) || !sc_plan_check_dim(plan, dim))
        return false;
    for (uint32_t i = 0; i < at; i++) {
        if (stmt->shard.dims.data[i].text == dim->text) {
            sc_report(&plan->context->diag, SC_D_bad_plan_statement, dim->loc,
                      sc_arena_printf(&plan->context->arena,
                                      "dim '%s' is listed twice in this rule",
                                      sc_text(plan->context, dim->text)),
                      NULL);
            return false;
        }
    }
    if (plan->entries.count == 0 || rule_reaches(plan, stmt, dim->text))
        return true;
    sc_report(&plan->context->diag, SC_D_rule_matches_nothing, dim->loc,
              sc_text(plan->context, dim->text), kinds_text(plan, stmt), NULL);
    return false;
}

void sc_plan_check_rule(sc_resolved_plan *plan, sc_plan_line *line)
{
    const sc_plan_stmt *stmt = line->stmt;
    bool fine = sc_plan_check_paths(plan, &stmt->in, false);
    for (uint32_t i = 0; fine && i < stmt->shard.dims.count; i++)
        fine = check_rule_dim(plan, stmt, i) && fine;
    if (fine && stmt->shard.star && plan->entries.count > 0 && !rule_reaches(plan, stmt, 0)) {
        sc_report(&plan->context->diag, SC_D_bad_plan_statement, stmt->loc,
                  sc_arena_printf(&plan->context->arena,
                                  "no %s in this rule's scope has a dim that could be split",
                                  kinds_text(plan, stmt)),
                  NULL);
        fine = false;
    }
    line->broken = line->broken || !fine;
}
