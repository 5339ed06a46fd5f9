/* Checks lines of `weights` blocks as far as possible without sizes and files: the path is a
 * parameter, `as` lists each of its dims once, and the tensor's name can be filled in. */
#include "frontend/weights/check.h"

#include "frontend/declare/internal.h"
#include "frontend/weights/pattern.h"

typedef struct line_check {
    sc_declarations *program;
    const sc_wmap *map;
    const sc_param_path *param;
    sc_sym_list leaves;   /* of the parameter */
    SC_VEC(bool) covered; /* by the name or by `as` */
} line_check;

static bool report(const line_check *check, sc_loc loc, const char *text)
{
    sc_report(&check->program->context->diag, SC_D_bad_weights, loc, text, (char *)NULL);
    sc_report_note(&check->program->context->diag, check->param->decl->loc,
                   "the parameter is declared here");
    return false;
}

/* Marks the leaves of a dim as covered. Returns false if one of them is not a leaf of the
 * parameter. */
static bool cover(line_check *check, sc_sym dim, bool *twice)
{
    sc_sym_list leaves = {0};
    sc_declarations_leaves(check->program, dim, &leaves);
    *twice = false;
    for (uint32_t i = 0; i < leaves.count; i++) {
        uint32_t at = 0;
        while (at < check->leaves.count && check->leaves.data[at] != leaves.data[i])
            at++;
        if (at == check->leaves.count)
            return false;
        *twice = *twice || check->covered.data[at];
        check->covered.data[at] = true;
    }
    return true;
}

/* Every known name evaluates to 1; only its existence is checked here. */
static bool name_value(void *user, sc_sym name, int64_t *out)
{
    line_check *check = user;
    bool twice;
    *out = 1;
    for (uint32_t i = 0; i < check->param->count; i++) {
        if (check->param->stacks[i] == name)
            return true;
    }
    return cover(check, name, &twice);
}

static bool check_name(line_check *check)
{
    sc_context *context = check->program->context;
    const char *problem;
    sc_pattern_names names = {name_value, check};
    if (sc_pattern_fill(context, sc_text(context, check->map->pattern), &names, &problem) != NULL)
        return true;
    return report(check, check->map->pattern_loc,
                  sc_arena_printf(&context->arena, "this name does not fit: %s", problem));
}

static bool check_part(line_check *check, const sc_wdim *dim)
{
    sc_context *context = check->program->context;
    const bool ends_are_known = dim->first->kind == SC_EXPR_INT && dim->last->kind == SC_EXPR_INT;
    if (ends_are_known && dim->first->integer > dim->last->integer)
        return report(check, dim->loc, "a range of parts goes from a part to a later one");
    if (dim->of->kind != SC_EXPR_INT || dim->last->kind != SC_EXPR_INT ||
        dim->last->integer < dim->of->integer)
        return true;
    return report(check, dim->loc,
                  sc_arena_printf(&context->arena, "the last of %lld parts is %lld",
                                  (long long)dim->of->integer, (long long)dim->of->integer - 1));
}

static bool check_as(line_check *check)
{
    sc_context *context = check->program->context;
    for (uint32_t i = 0; i < check->map->as.count; i++) {
        const sc_wdim *dim = &check->map->as.data[i];
        bool twice;
        if (dim->kind != SC_WDIM_NAME) {
            if (!check_part(check, dim))
                return false;
            continue;
        }
        const char *name = sc_text(context, dim->dim.text);
        if (!cover(check, dim->dim.text, &twice))
            return report(check, dim->dim.loc,
                          sc_arena_printf(&context->arena, "'%s' is not a dim of '%s'", name,
                                          sc_text(context, check->param->text)));
        if (twice)
            return report(
                check, dim->dim.loc,
                sc_arena_printf(&context->arena,
                                "dim '%s' is listed twice here, or is also in the tensor's name",
                                name));
    }
    for (uint32_t i = 0; i < check->leaves.count; i++) {
        if (!check->covered.data[i])
            return report(check, check->map->loc,
                          sc_arena_printf(&context->arena, "'as' lacks dim '%s' of '%s'",
                                          sc_text(context, check->leaves.data[i]),
                                          sc_text(context, check->param->text)));
    }
    return true;
}

/* True if a dim of the parameter is undeclared. That is reported where it is used; errors in the
 * line would only follow from it. */
static bool has_missing_dims(const sc_declarations *program, const sc_param_path *param)
{
    for (uint32_t i = 0; i < param->count; i++) {
        if (sc_map_find(program->missing_dims, param->stacks[i]) != NULL)
            return true;
    }
    for (uint32_t i = 0; i < param->dim_count; i++) {
        if (sc_map_find(program->missing_dims, param->dims[i]) != NULL)
            return true;
    }
    return false;
}

static bool check_line(sc_declarations *program, const sc_wmap *map, const sc_param_path *param)
{
    if (has_missing_dims(program, param))
        return true;
    line_check check = {.program = program, .map = map, .param = param};
    for (uint32_t i = 0; i < param->dim_count; i++)
        sc_declarations_leaves(program, param->dims[i], &check.leaves);
    for (uint32_t i = 0; i < check.leaves.count; i++)
        *sc_vec_push(&program->context->arena, &check.covered) = false;
    return check_name(&check) && (!map->has_as || check_as(&check));
}

static void report_path(sc_declarations *program, const sc_wmap *map,
                        const sc_param_path_list *params, const sc_param_path *part)
{
    sc_context *context = program->context;
    if (part == NULL) {
        sc_report(&context->diag, SC_D_matches_nothing, map->path.loc,
                  sc_path_text(context, &map->path), sc_suggest_param(context, &map->path, params),
                  (char *)NULL);
        return;
    }
    sc_report(&context->diag, SC_D_bad_weights, map->path.loc,
              sc_arena_printf(&context->arena,
                              "'%s' is not a parameter but contains some, for example '%s'",
                              sc_path_text(context, &map->path), sc_text(context, part->text)),
              (char *)NULL);
}

/* A hole in a name of an `ignore` line matches any index, but it must still name a dim. */
static bool dim_value(void *user, sc_sym name, int64_t *out)
{
    *out = 1;
    return sc_declarations_dim(user, name) != SC_NONE;
}

static void check_ignore(sc_declarations *program, const sc_wmap *map)
{
    sc_context *context = program->context;
    const char *problem;
    sc_pattern_names names = {dim_value, program};
    if (map->pattern == sc_intern_text(&context->names, ""))
        problem = "it is empty";
    else if (sc_pattern_fill(context, sc_text(context, map->pattern), &names, &problem) != NULL)
        return;
    sc_report(&context->diag, SC_D_bad_weights, map->pattern_loc,
              sc_arena_printf(&context->arena, "this pattern matches no tensor: %s", problem),
              (char *)NULL);
}

static void check_block(sc_declarations *program, const sc_weights *weights, const sc_unit *model)
{
    sc_context *context = program->context;
    sc_param_path_list params = {0};
    sc_map seen = {.arena = &context->arena};
    sc_param_paths(program, model, &params);
    for (uint32_t i = 0; i < weights->maps.count; i++) {
        const sc_wmap *map = &weights->maps.data[i];
        const sc_param_path *part = NULL;
        bool found = false, ok = true, is_new;
        if (map->is_ignore) {
            check_ignore(program, map);
            continue;
        }
        uint32_t first = *sc_map_insert(
            &seen, sc_intern_text(&context->names, sc_path_text(context, &map->path)), i, &is_new);
        if (!is_new) {
            sc_report(&context->diag, SC_D_bad_weights, map->path.loc,
                      "this parameter has a line already", (char *)NULL);
            sc_report_note(&context->diag, weights->maps.data[first].path.loc, "the first is here");
        }
        for (uint32_t p = 0; p < params.count; p++) {
            if (params.data[p].kind != SC_MEMBER_PARAM ||
                !sc_path_covers(&map->path, &params.data[p], false))
                continue;
            part = &params.data[p];
            if (sc_path_covers(&map->path, part, true)) {
                found = true;
                ok = ok && check_line(program, map, part);
            }
        }
        if (!found)
            report_path(program, map, &params, part);
    }
}

void sc_weights_check(sc_declarations *program)
{
    for (uint32_t i = 0; i < program->weights.count; i++) {
        const sc_unit *model = sc_declarations_model(program, program->weights.data[i]->model.text);
        if (model != NULL)
            check_block(program, program->weights.data[i], model);
    }
}
