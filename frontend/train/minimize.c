/* Checks what `minimize` names: an entry, optimizers, parameters. */
#include "frontend/declare/internal.h"
#include "frontend/train/check.h"

static void report(sc_declarations *program, sc_diag_id id, sc_loc loc, const char *text)
{
    sc_report(&program->context->diag, id, loc, text, (char *)NULL);
}

/* ---- paths ---- */
static void check_paths(sc_declarations *program, const sc_path_list *paths,
                        const sc_param_path_list *params)
{
    sc_context *context = program->context;
    for (uint32_t i = 0; i < paths->count; i++) {
        bool found = false;
        for (uint32_t p = 0; p < params->count && !found; p++)
            found = params->data[p].kind == SC_MEMBER_PARAM &&
                    sc_path_covers(&paths->data[i], &params->data[p], false);
        if (!found)
            sc_report(&context->diag, SC_D_matches_nothing, paths->data[i].loc,
                      sc_path_text(context, &paths->data[i]),
                      sc_suggest_param(context, &paths->data[i], params), (char *)NULL);
    }
}

/* ---- the target ---- */
static bool is_scalar(const sc_type_ref *type)
{
    return type->shape->dims.count == 0;
}

static void check_objective(sc_declarations *program, const sc_minimize *minimize,
                            const sc_callable *entry)
{
    sc_context *context = program->context;
    for (uint32_t i = 0; i < entry->results.count && i < 2; i++) {
        if (is_scalar(&entry->results.data[i]))
            continue;
        report(program, SC_D_bad_statement, minimize->target.loc,
               sc_arena_printf(
                   &context->arena,
                   "'%s' cannot be minimised: it returns neither a scalar nor (total, weight)",
                   sc_text(context, entry->name.text)));
        sc_report_note(&context->diag, entry->results.data[i].loc,
                       "this result is not a scalar; a scalar is declared as f32[]");
    }
    if (entry->at_name.text != 0) {
        report(program, SC_D_bad_statement, minimize->target.loc,
               "an entry with caches cannot be minimised");
        sc_report_note(&context->diag, entry->at_name.loc, "it is declared 'at .. along ..' here");
    }
}

static const sc_member *check_target(sc_declarations *program, const sc_minimize *minimize,
                                     const sc_unit **model)
{
    sc_context *context = program->context;
    const sc_path *path = &minimize->target;
    sc_text_list list = {0};
    bool plain = path->segs.count == 2 && path->segs.data[0].kind == SC_SEG_NAME &&
                 path->segs.data[1].kind == SC_SEG_NAME;
    if (!plain) {
        report(program, SC_D_bad_path, path->loc,
               "minimize names an entry of a model: minimize m.loss with ..");
        return NULL;
    }
    *model = sc_declarations_model(program, path->segs.data[0].name.text);
    const sc_member *entry =
        *model == NULL ? NULL : sc_unit_member(*model, path->segs.data[1].name.text);
    if (entry != NULL && entry->kind == SC_MEMBER_ENTRY)
        return entry;
    if (*model == NULL) {
        for (uint32_t i = 0; i < program->models.count; i++)
            sc_suggest_add(context, &list, program->models.data[i]->name.text);
    } else {
        sc_unit_suggest_entries(*model, context, &list);
    }
    sc_name wrong = path->segs.data[*model == NULL ? 0 : 1].name;
    sc_report(&context->diag, SC_D_unknown_name, wrong.loc,
              sc_arena_printf(&context->arena, "%s %s", *model == NULL ? "model" : "entry",
                              sc_text(context, wrong.text)),
              sc_suggest(context, wrong.text, &list), (char *)NULL);
    return NULL;
}

static void check_one(sc_declarations *program, const sc_minimize *minimize, sc_map *seen)
{
    sc_context *context = program->context;
    const sc_unit *model = NULL;
    sc_param_path_list params = {0};
    bool is_new;
    const sc_member *entry = check_target(program, minimize, &model);
    for (uint32_t i = 0; i < minimize->optimizers.count; i++) {
        sc_optimizer_settings settings;
        sc_optimizer_read(program, &minimize->optimizers.data[i],
                          entry == NULL ? 0 : entry->name.text, NULL, &settings);
    }
    if (entry == NULL)
        return;
    check_objective(program, minimize, entry->callable);
    uint32_t first =
        *sc_map_insert(seen, (uint64_t)(uintptr_t)entry, minimize->target.loc.begin, &is_new);
    if (!is_new) {
        report(program, SC_D_bad_statement, minimize->target.loc,
               sc_arena_printf(&context->arena, "'%s' is minimised twice",
                               sc_path_text(context, &minimize->target)));
        sc_report_note(&context->diag, (sc_loc){first, first + 1}, "it is first minimised here");
    }
    sc_param_paths(program, model, &params);
    check_paths(program, &minimize->over, &params);
    for (uint32_t i = 0; i < minimize->optimizers.count; i++)
        check_paths(program, &minimize->optimizers.data[i].in, &params);
}

void sc_minimize_check(sc_declarations *program)
{
    sc_map seen = {.arena = &program->context->arena};
    for (uint32_t i = 0; i < program->minimizes.count; i++)
        check_one(program, program->minimizes.data[i], &seen);
}
