/* Collects the declarations of a file and its imports and runs the checks on them. */
#include "frontend/read_program.h"

#include <string.h>

#include "frontend/declare/internal.h"
#include "frontend/train/check.h"
#include "frontend/weights/check.h"

static void report_twice(sc_declarations *program, sc_name name, sc_loc first)
{
    sc_diag *diag = &program->context->diag;
    sc_report(diag, SC_D_duplicate_name, name.loc, sc_text(program->context, name.text),
              (char *)NULL);
    sc_report_note(diag, first, "'%s' is first declared here",
                   sc_text(program->context, name.text));
}

/* True if `def` gives a size to a dim that another file declares without one: an importing file may
 * do so. */
static bool gives_size(const sc_dim_decl *old, const sc_dim_def *def, const sc_file *file)
{
    return old->form == SC_DIM_FREE && old->file != file &&
           (def->size != NULL || def->parts.count > 0 || def->alias.text != 0);
}

static void set_form(sc_dim_decl *decl, const sc_dim_def *def, const sc_file *file)
{
    decl->name = def->name;
    decl->def = def;
    decl->file = file;
    decl->form = def->size != NULL      ? SC_DIM_SIZED
                 : def->alias.text != 0 ? SC_DIM_ALIAS
                 : def->parts.count > 0 ? SC_DIM_COMPOSITE
                                        : SC_DIM_FREE;
}

static void add_dim(sc_declarations *program, const sc_dim_def *def, const sc_file *file)
{
    bool is_new;
    uint32_t index =
        *sc_map_insert(&program->dim_map, def->name.text, program->dims.count, &is_new);
    if (is_new) {
        sc_dim_decl *decl = sc_vec_push(&program->context->arena, &program->dims);
        *decl = (sc_dim_decl){.original = SC_NONE};
        set_form(decl, def, file);
        return;
    }
    sc_dim_decl *old = &program->dims.data[index];
    bool restated =
        old->file != file && def->size == NULL && def->parts.count == 0 && def->alias.text == 0;
    if (gives_size(old, def, file))
        set_form(old, def, file);
    else if (!restated)
        report_twice(program, def->name, old->name.loc);
}

static sc_unit *new_unit(sc_declarations *program, sc_name name, const sc_callable *callable,
                         const sc_stmt_list *body)
{
    sc_unit *unit = sc_arena_alloc(&program->context->arena, sizeof *unit);
    unit->name = name;
    unit->callable = callable;
    unit->body = body;
    unit->member_map.arena = &program->context->arena;
    return unit;
}

static void add_block(sc_declarations *program, const sc_callable *callable)
{
    bool is_new;
    uint32_t index =
        *sc_map_insert(&program->block_map, callable->name.text, program->blocks.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &program->blocks) =
            new_unit(program, callable->name, callable, &callable->body);
    else
        report_twice(program, callable->name, program->blocks.data[index]->name.loc);
}

/* The name and the static arguments of a model, which are those of a callable to all who read
 * them; NULL if it has none. */
static const sc_callable *head_of(sc_declarations *program, const sc_model *model)
{
    sc_context *context = program->context;
    if (!model->has_statics)
        return NULL;
    sc_callable *head = sc_arena_alloc(&context->arena, sizeof *head);
    *head = (sc_callable){.name = model->name, .loc = model->loc};
    for (uint32_t i = 0; i < model->statics.count; i++) {
        const sc_arg *arg = &model->statics.data[i];
        bool is_twice = false;
        for (uint32_t j = 0; j < head->formals.count; j++)
            is_twice = is_twice || head->formals.data[j].name.text == arg->name.text;
        if (arg->name.text == 0 || arg->values.count != 1)
            sc_report(&context->diag, SC_D_bad_statement, arg->loc,
                      "a static argument of a model has a name and a value: 'theta = 1e4'",
                      (char *)NULL);
        else if (is_twice)
            sc_report(&context->diag, SC_D_duplicate_name, arg->name.loc,
                      sc_text(context, arg->name.text), (char *)NULL);
        else
            *sc_vec_push(&context->arena, &head->formals) =
                (sc_formal){.kind = SC_FORMAL_STATIC,
                            .name = arg->name,
                            .value = arg->values.data[0],
                            .loc = arg->loc};
    }
    return head;
}

/* `model m(theta = 5e5);` */
static void give_statics(sc_declarations *program, const sc_model *given)
{
    sc_context *context = program->context;
    const uint32_t *index = sc_map_find(&program->model_map, given->name.text);
    sc_unit *unit = index == NULL ? NULL : program->models.data[*index];
    if (unit == NULL) {
        sc_text_list list = {0};
        for (uint32_t i = 0; i < program->models.count; i++)
            sc_suggest_add(context, &list, program->models.data[i]->name.text);
        sc_report(&context->diag, SC_D_unknown_name, given->name.loc,
                  sc_arena_printf(&context->arena, "model %s", sc_text(context, given->name.text)),
                  sc_suggest(context, given->name.text, &list), (char *)NULL);
    } else if (unit->given != NULL) {
        report_twice(program, given->name, unit->given->name.loc);
    } else if (unit->head == NULL) {
        sc_report(&context->diag, SC_D_bad_statement, given->loc,
                  sc_arena_printf(&context->arena, "model '%s' has no static arguments",
                                  sc_text(context, given->name.text)),
                  (char *)NULL);
    } else {
        unit->given = given;
    }
}

static void add_model(sc_declarations *program, const sc_model *model)
{
    bool is_new;
    if (!model->has_body) {
        give_statics(program, model);
        return;
    }
    uint32_t index =
        *sc_map_insert(&program->model_map, model->name.text, program->models.count, &is_new);
    if (!is_new) {
        report_twice(program, model->name, program->models.data[index]->name.loc);
        return;
    }
    sc_unit *unit = new_unit(program, model->name, NULL, &model->body);
    unit->head = head_of(program, model);
    *sc_vec_push(&program->context->arena, &program->models) = unit;
}

static void add_fn(sc_declarations *program, const sc_callable *callable)
{
    bool is_new;
    uint32_t index =
        *sc_map_insert(&program->fn_map, callable->name.text, program->fns.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &program->fns) = callable;
    else
        report_twice(program, callable->name, program->fns.data[index]->name.loc);
}

static void add_plan(sc_declarations *program, const sc_plan *plan)
{
    for (uint32_t i = 0; i < program->plans.count; i++) {
        if (program->plans.data[i]->name.text == plan->name.text) {
            report_twice(program, plan->name, program->plans.data[i]->name.loc);
            return;
        }
    }
    *sc_vec_push(&program->context->arena, &program->plans) = plan;
}

static void add_weights(sc_declarations *program, const sc_weights *weights)
{
    for (uint32_t i = 0; i < program->weights.count; i++) {
        if (program->weights.data[i]->name.text == weights->name.text) {
            report_twice(program, weights->name, program->weights.data[i]->name.loc);
            return;
        }
    }
    *sc_vec_push(&program->context->arena, &program->weights) = weights;
}

static void collect_file(sc_declarations *program, const sc_file *file)
{
    bool is_new;
    sc_map_insert(&program->seen, (uint64_t)(uintptr_t)file, 0, &is_new);
    if (is_new) {
        for (uint32_t i = 0; i < file->items.count; i++) {
            const sc_item *item = file->items.data[i];
            switch (item->kind) {
            case SC_ITEM_IMPORT:
                if (item->import.file != NULL)
                    collect_file(program, item->import.file);
                break;
            case SC_ITEM_DIM:
                for (uint32_t d = 0; d < item->dims.count; d++)
                    add_dim(program, &item->dims.data[d], file);
                break;
            case SC_ITEM_FN:
                add_fn(program, item->callable);
                break;
            case SC_ITEM_BLOCK:
                add_block(program, item->callable);
                break;
            case SC_ITEM_MODEL:
                add_model(program, item->model);
                break;
            case SC_ITEM_MINIMIZE:
                *sc_vec_push(&program->context->arena, &program->minimizes) = item->minimize;
                break;
            case SC_ITEM_PLAN:
                add_plan(program, item->plan);
                break;
            case SC_ITEM_WEIGHTS:
                add_weights(program, item->weights);
                break;
            }
        }
    }
}

static void check_model_named(sc_declarations *program, const char *what, sc_name name,
                              sc_name model)
{
    sc_context *context = program->context;
    if (sc_declarations_model(program, model.text) != NULL)
        return;
    sc_text_list list = {0};
    for (uint32_t i = 0; i < program->models.count; i++)
        sc_suggest_add(context, &list, program->models.data[i]->name.text);
    const char *suggestion = sc_suggest(context, model.text, &list);
    if (strcmp(what, "plan") == 0)
        sc_report(&context->diag, SC_D_plan_for_other_model, model.loc, sc_text(context, name.text),
                  sc_text(context, model.text), suggestion, (char *)NULL);
    else
        sc_report(&context->diag, SC_D_bad_weights, model.loc,
                  sc_arena_printf(
                      &context->arena, "weights '%s' are for model '%s', which is not declared%s",
                      sc_text(context, name.text), sc_text(context, model.text), suggestion),
                  (char *)NULL);
}

sc_declarations *sc_declarations_new(sc_context *context, const sc_file *file)
{
    sc_declarations *program = sc_arena_alloc(&context->arena, sizeof *program);
    program->context = context;
    program->missing_dims = sc_arena_alloc(&context->arena, sizeof *program->missing_dims);
    *program->missing_dims = (sc_map){.arena = &context->arena};
    program->dim_map.arena = program->block_map.arena = program->model_map.arena =
        program->fn_map.arena = &context->arena;
    program->seen.arena = program->elaborated.arena = &context->arena;
    collect_file(program, file);
    sc_dims_check(program);
    sc_units_check(program);
    for (uint32_t i = 0; i < program->plans.count; i++)
        check_model_named(program, "plan", program->plans.data[i]->name,
                          program->plans.data[i]->model);
    for (uint32_t i = 0; i < program->weights.count; i++)
        check_model_named(program, "weights", program->weights.data[i]->name,
                          program->weights.data[i]->model);
    sc_minimize_check(program);
    sc_weights_check(program);
    return program;
}
