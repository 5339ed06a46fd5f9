/* What `minimize` names: an entry, an optimizer with its arguments, parameters. */
#include "frontend/program.h"

#include <string.h>

static const struct {
    const char *name, *arguments;
} optimizers[] = {
    {"sgd", "lr momentum nesterov decay clip decay_all"},
    {"adam", "lr beta1 beta2 eps decay clip decay_all"},
    {"adamw", "lr beta1 beta2 eps decay clip decay_all"},
    {"lion", "lr beta1 beta2 decay clip decay_all"},
};

static const struct {
    const char *name, *arguments;
} schedules[] = {{"cosine", "peak warmup total floor"}, {"linear", "peak warmup total floor"}};

enum { OPTIMIZER_COUNT = sizeof optimizers / sizeof *optimizers, SCHEDULE_COUNT = sizeof schedules / sizeof *schedules };

static void report(sc_program *program, sc_diag_id id, sc_loc loc, const char *text)
{
    sc_report(&program->context->diag, id, loc, text, (char *)NULL);
}

/* ---- arguments ---- */
static void list_words(sc_context *context, const char *words, sc_text_list *out)
{
    while (*words != 0) {
        size_t length = strcspn(words, " ");
        *sc_vec_push(&context->arena, out) = sc_arena_copy_text(&context->arena, words, length);
        words += length + (words[length] == ' ');
    }
}

static bool is_listed(const sc_text_list *words, const char *word)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (strcmp(words->data[i], word) == 0)
            return true;
    }
    return false;
}

/* Numbers are folded where the schedule is made; here only what cannot be one is refused. */
static void check_number(sc_program *program, const sc_expr *expr)
{
    switch (expr->kind) {
    case SC_EXPR_INT:
    case SC_EXPR_FLOAT:
        return;
    case SC_EXPR_NEG:
        check_number(program, expr->operand);
        return;
    case SC_EXPR_BINARY:
        check_number(program, expr->binary.left);
        check_number(program, expr->binary.right);
        return;
    default:
        report(program, SC_D_not_a_constant, expr->loc, "this argument");
    }
}

/* Named arguments out of `words`; `positional` of them may stand without a name, in order. */
static void check_arguments(sc_program *program, const char *owner, const sc_arg_list *args, const char *words, uint32_t positional,
                            const char *skip)
{
    sc_context *context = program->context;
    sc_text_list known = {0};
    list_words(context, words, &known);
    sc_map seen = {.arena = &context->arena};
    for (uint32_t i = 0; i < args->count; i++) {
        const sc_arg *arg = &args->data[i];
        const char *name = arg->name.text != 0 ? sc_text(context, arg->name.text) : i < positional ? known.data[i] : NULL;
        bool is_new;
        if (name == NULL || !is_listed(&known, name) || arg->values.count != 1) {
            report(program, SC_D_bad_argument, arg->loc,
                   name == NULL ? sc_arena_printf(&context->arena, "arguments of %s are named", owner)
                                : sc_arena_printf(&context->arena, "%s has no argument '%s'%s", owner, name,
                                                  sc_suggest(context, arg->name.text, &known)));
            sc_report_note(&context->diag, (sc_loc){0}, "arguments of %s are: %s", owner, words);
            continue;
        }
        sc_map_insert(&seen, sc_intern_text(&context->names, name), 0, &is_new);
        if (!is_new)
            report(program, SC_D_bad_argument, arg->loc, sc_arena_printf(&context->arena, "argument '%s' is given twice", name));
        if (skip == NULL || strcmp(name, skip) != 0)
            check_number(program, arg->values.data[0]);
    }
    if (known.count > 0 && sc_map_find(&seen, sc_intern_text(&context->names, known.data[0])) == NULL)
        sc_report(&context->diag, SC_D_wrong_count, args->count > 0 ? args->data[0].loc : (sc_loc){0}, owner,
                  sc_arena_printf(&context->arena, "an argument '%s'", known.data[0]), "none is given", (char *)NULL);
}

/* lr: a number, cosine(peak, warmup =, total =, floor = 0) or linear(..). */
static void check_rate(sc_program *program, const sc_expr *expr)
{
    sc_context *context = program->context;
    if (expr->kind != SC_EXPR_CALL) {
        check_number(program, expr);
        return;
    }
    for (int i = 0; i < SCHEDULE_COUNT; i++) {
        if (strcmp(schedules[i].name, sc_text(context, expr->call.callee.text)) == 0 && !expr->call.has_dims) {
            check_arguments(program, schedules[i].name, &expr->call.args, schedules[i].arguments, 1, NULL);
            return;
        }
    }
    report(program, SC_D_bad_argument, expr->loc,
           sc_arena_printf(&context->arena, "'%s' is no learning rate schedule", sc_text(context, expr->call.callee.text)));
    sc_report_note(&context->diag, (sc_loc){0},
                   "lr is a number, cosine(peak, warmup = .., total = ..) or linear(peak, warmup = .., total = ..)");
}

static void check_optimizer(sc_program *program, const sc_optimizer *optimizer)
{
    sc_context *context = program->context;
    const char *name = sc_text(context, optimizer->name.text);
    sc_text_list known = {0};
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        *sc_vec_push(&context->arena, &known) = optimizers[i].name;
        if (strcmp(optimizers[i].name, name) != 0)
            continue;
        check_arguments(program, name, &optimizer->args, optimizers[i].arguments, 0, "lr");
        for (uint32_t a = 0; a < optimizer->args.count; a++) {
            const sc_arg *arg = &optimizer->args.data[a];
            if (strcmp(sc_text(context, arg->name.text), "lr") == 0 && arg->values.count == 1)
                check_rate(program, arg->values.data[0]);
        }
        return;
    }
    sc_report(&context->diag, SC_D_unknown_name, optimizer->name.loc, sc_arena_printf(&context->arena, "optimizer %s", name),
              sc_suggest(context, optimizer->name.text, &known), (char *)NULL);
    sc_report_note(&context->diag, (sc_loc){0}, "optimizers are sgd, adam, adamw and lion");
}

/* ---- paths ---- */
static void check_paths(sc_program *program, const sc_path_list *paths, const sc_param_path_list *params)
{
    sc_context *context = program->context;
    for (uint32_t i = 0; i < paths->count; i++) {
        bool found = false;
        for (uint32_t p = 0; p < params->count && !found; p++)
            found = params->data[p].kind == SC_MEMBER_PARAM && sc_path_covers(&paths->data[i], &params->data[p], false);
        if (!found)
            sc_report(&context->diag, SC_D_matches_nothing, paths->data[i].loc, sc_path_text(context, &paths->data[i]),
                      sc_suggest_param(context, &paths->data[i], params), (char *)NULL);
    }
}

/* ---- the target ---- */
static bool is_scalar(const sc_type_ref *type)
{
    return type->shape->dims.count == 0;
}

static void check_objective(sc_program *program, const sc_minimize *minimize, const sc_callable *entry)
{
    sc_context *context = program->context;
    for (uint32_t i = 0; i < entry->results.count && i < 2; i++) {
        if (is_scalar(&entry->results.data[i]))
            continue;
        report(program, SC_D_bad_statement, minimize->target.loc,
               sc_arena_printf(&context->arena, "'%s' cannot be minimised: it returns neither a scalar nor (total, weight)",
                               sc_text(context, entry->name.text)));
        sc_report_note(&context->diag, entry->results.data[i].loc, "this result is no scalar; a scalar is declared as f32[]");
    }
    if (entry->at_name.text != 0) {
        report(program, SC_D_bad_statement, minimize->target.loc, "an entry with caches cannot be minimised");
        sc_report_note(&context->diag, entry->at_name.loc, "it is declared 'at .. along ..' here");
    }
}

static const sc_member *check_target(sc_program *program, const sc_minimize *minimize, const sc_unit **model)
{
    sc_context *context = program->context;
    const sc_path *path = &minimize->target;
    sc_text_list list = {0};
    bool plain = path->segs.count == 2 && path->segs.data[0].kind == SC_SEG_NAME && path->segs.data[1].kind == SC_SEG_NAME;
    if (!plain) {
        report(program, SC_D_bad_path, path->loc, "minimize names an entry of a model: minimize m.loss with ..");
        return NULL;
    }
    *model = sc_program_model(program, path->segs.data[0].name.text);
    const sc_member *entry = *model == NULL ? NULL : sc_unit_member(*model, path->segs.data[1].name.text);
    if (entry != NULL && entry->kind == SC_MEMBER_ENTRY)
        return entry;
    for (uint32_t i = 0; *model == NULL && i < program->models.count; i++)
        sc_suggest_add(context, &list, program->models.data[i]->name.text);
    for (uint32_t i = 0; *model != NULL && i < (*model)->members.count; i++) {
        if ((*model)->members.data[i].kind == SC_MEMBER_ENTRY)
            sc_suggest_add(context, &list, (*model)->members.data[i].name.text);
    }
    sc_name wrong = path->segs.data[*model == NULL ? 0 : 1].name;
    sc_report(&context->diag, SC_D_unknown_name, wrong.loc,
              sc_arena_printf(&context->arena, "%s %s", *model == NULL ? "model" : "entry", sc_text(context, wrong.text)),
              sc_suggest(context, wrong.text, &list), (char *)NULL);
    return NULL;
}

static void check_one(sc_program *program, const sc_minimize *minimize, sc_map *seen)
{
    sc_context *context = program->context;
    const sc_unit *model = NULL;
    sc_param_path_list params = {0};
    bool is_new;
    const sc_member *entry = check_target(program, minimize, &model);
    for (uint32_t i = 0; i < minimize->optimizers.count; i++)
        check_optimizer(program, &minimize->optimizers.data[i]);
    if (entry == NULL)
        return;
    check_objective(program, minimize, entry->callable);
    uint32_t first = *sc_map_insert(seen, (uint64_t)(uintptr_t)entry, minimize->target.loc.begin, &is_new);
    if (!is_new) {
        report(program, SC_D_bad_statement, minimize->target.loc,
               sc_arena_printf(&context->arena, "'%s' is minimised twice", sc_path_text(context, &minimize->target)));
        sc_report_note(&context->diag, (sc_loc){first, first + 1}, "the first time is here");
    }
    sc_param_paths(program, model, &params);
    check_paths(program, &minimize->over, &params);
    for (uint32_t i = 0; i < minimize->optimizers.count; i++)
        check_paths(program, &minimize->optimizers.data[i].in, &params);
}

void sc_minimize_check(sc_program *program)
{
    sc_map seen = {.arena = &program->context->arena};
    for (uint32_t i = 0; i < program->minimizes.count; i++)
        check_one(program, program->minimizes.data[i], &seen);
}
