/* Collects the declarations of a file and its imports, and answers questions about them. The checks are in sema_*.c. */
#include "frontend/declare/program.h"

#include <string.h>

/* ---- names ---- */
static void *find_pointer(const sc_map *map, sc_sym name, void *const *list)
{
    const uint32_t *index = sc_map_find(map, name);
    return index == NULL ? NULL : list[*index];
}

const sc_member *sc_unit_member(const sc_unit *unit, sc_sym name)
{
    const uint32_t *index = sc_map_find(&unit->member_map, name);
    return index == NULL ? NULL : &unit->members.data[*index];
}

const sc_unit *sc_program_block(const sc_program *program, sc_sym name)
{
    return find_pointer(&program->block_map, name, (void *const *)program->blocks.data);
}

const sc_unit *sc_program_model(const sc_program *program, sc_sym name)
{
    return find_pointer(&program->model_map, name, (void *const *)program->models.data);
}

const sc_callable *sc_program_fn(const sc_program *program, sc_sym name)
{
    const uint32_t *index = sc_map_find(&program->fn_map, name);
    return index == NULL ? NULL : program->fns.data[*index];
}

uint32_t sc_program_dim(const sc_program *program, sc_sym name)
{
    const uint32_t *index = sc_map_find(&program->dim_map, name);
    return index == NULL ? SC_NONE : *index;
}

/* Messages beyond the limit are only counted: looking for the nearest name would be wasted on them. */
static bool is_wasted(const sc_context *context)
{
    return context->diag.list.count >= SC_DIAG_LIMIT;
}

void sc_suggest_add(sc_context *context, sc_text_list *list, sc_sym name)
{
    if (is_wasted(context))
        return;
    *sc_vec_push(&context->arena, list) = sc_text(context, name);
}

const char *sc_suggest(sc_context *context, sc_sym wanted, const sc_text_list *list)
{
    const char *nearest = sc_nearest(sc_text(context, wanted), list->data, list->count);
    return nearest == NULL ? "" : sc_arena_printf(&context->arena, "; did you mean '%s'?", nearest);
}

void sc_report_unknown_dim(const sc_program *program, sc_name name)
{
    sc_context *context = program->context;
    sc_text_list list = {0};
    bool is_new;
    sc_map_insert(program->missing_dims, name.text, 0, &is_new);
    if (!is_new)
        return;
    for (uint32_t i = 0; i < program->dims.count; i++)
        sc_suggest_add(context, &list, program->dims.data[i].name.text);
    sc_report(&context->diag, SC_D_unknown_dim, name.loc, sc_text(context, name.text), sc_suggest(context, name.text, &list), (char *)NULL);
}

/* ---- collecting ---- */
static void report_twice(sc_program *program, sc_name name, sc_loc first)
{
    sc_diag *diag = &program->context->diag;
    sc_report(diag, SC_D_duplicate_name, name.loc, sc_text(program->context, name.text), (char *)NULL);
    sc_report_note(diag, first, "'%s' is first declared here", sc_text(program->context, name.text));
}

/* A dim without a size may get one from another file, which imports it. */
static bool gives_size(const sc_dim_decl *old, const sc_dim_def *def, const sc_file *file)
{
    return old->form == SC_DIM_FREE && old->file != file && (def->size != NULL || def->parts.count > 0 || def->alias.text != 0);
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

static void add_dim(sc_program *program, const sc_dim_def *def, const sc_file *file)
{
    bool is_new;
    uint32_t index = *sc_map_insert(&program->dim_map, def->name.text, program->dims.count, &is_new);
    if (is_new) {
        sc_dim_decl *decl = sc_vec_push(&program->context->arena, &program->dims);
        *decl = (sc_dim_decl){.original = SC_NONE};
        set_form(decl, def, file);
        return;
    }
    sc_dim_decl *old = &program->dims.data[index];
    bool restated = old->file != file && def->size == NULL && def->parts.count == 0 && def->alias.text == 0;
    if (gives_size(old, def, file))
        set_form(old, def, file);
    else if (!restated)
        report_twice(program, def->name, old->name.loc);
}

static sc_unit *new_unit(sc_program *program, sc_name name, const sc_callable *callable, const sc_stmt_list *body)
{
    sc_unit *unit = sc_arena_alloc(&program->context->arena, sizeof *unit);
    unit->name = name;
    unit->callable = callable;
    unit->body = body;
    unit->member_map.arena = &program->context->arena;
    return unit;
}

static void add_block(sc_program *program, const sc_callable *callable)
{
    bool is_new;
    uint32_t index = *sc_map_insert(&program->block_map, callable->name.text, program->blocks.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &program->blocks) = new_unit(program, callable->name, callable, &callable->body);
    else
        report_twice(program, callable->name, program->blocks.data[index]->name.loc);
}

static void add_model(sc_program *program, const sc_model *model)
{
    bool is_new;
    uint32_t index = *sc_map_insert(&program->model_map, model->name.text, program->models.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &program->models) = new_unit(program, model->name, NULL, &model->body);
    else
        report_twice(program, model->name, program->models.data[index]->name.loc);
}

static void add_fn(sc_program *program, const sc_callable *callable)
{
    bool is_new;
    uint32_t index = *sc_map_insert(&program->fn_map, callable->name.text, program->fns.count, &is_new);
    if (is_new)
        *sc_vec_push(&program->context->arena, &program->fns) = callable;
    else
        report_twice(program, callable->name, program->fns.data[index]->name.loc);
}

static void add_plan(sc_program *program, const sc_plan *plan)
{
    for (uint32_t i = 0; i < program->plans.count; i++) {
        if (program->plans.data[i]->name.text == plan->name.text) {
            report_twice(program, plan->name, program->plans.data[i]->name.loc);
            return;
        }
    }
    *sc_vec_push(&program->context->arena, &program->plans) = plan;
}

static void add_weights(sc_program *program, const sc_weights *weights)
{
    for (uint32_t i = 0; i < program->weights.count; i++) {
        if (program->weights.data[i]->name.text == weights->name.text) {
            report_twice(program, weights->name, program->weights.data[i]->name.loc);
            return;
        }
    }
    *sc_vec_push(&program->context->arena, &program->weights) = weights;
}

static void collect_file(sc_program *program, const sc_file *file)
{
    bool is_new;
    sc_map_insert(&program->seen, (uint64_t)(uintptr_t)file, 0, &is_new);
    for (uint32_t i = 0; is_new && i < file->items.count; i++) {
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

static void check_model_named(sc_program *program, const char *what, sc_name name, sc_name model)
{
    sc_context *context = program->context;
    if (sc_program_model(program, model.text) != NULL)
        return;
    sc_text_list list = {0};
    for (uint32_t i = 0; i < program->models.count; i++)
        sc_suggest_add(context, &list, program->models.data[i]->name.text);
    const char *suggestion = sc_suggest(context, model.text, &list);
    if (strcmp(what, "plan") == 0)
        sc_report(&context->diag, SC_D_plan_for_other_model, model.loc, sc_text(context, name.text), sc_text(context, model.text),
                  suggestion, (char *)NULL);
    else
        sc_report(&context->diag, SC_D_bad_weights, model.loc,
                  sc_arena_printf(&context->arena, "weights '%s' are for model '%s', which is not declared%s", sc_text(context, name.text),
                                  sc_text(context, model.text), suggestion),
                  (char *)NULL);
}

sc_program *sc_program_new(sc_context *context, const sc_file *file)
{
    sc_program *program = sc_arena_alloc(&context->arena, sizeof *program);
    program->context = context;
    program->missing_dims = sc_arena_alloc(&context->arena, sizeof *program->missing_dims);
    *program->missing_dims = (sc_map){.arena = &context->arena};
    program->dim_map.arena = program->block_map.arena = program->model_map.arena = program->fn_map.arena = &context->arena;
    program->seen.arena = program->elaborated.arena = &context->arena;
    collect_file(program, file);
    sc_dims_check(program);
    sc_units_check(program);
    for (uint32_t i = 0; i < program->plans.count; i++)
        check_model_named(program, "plan", program->plans.data[i]->name, program->plans.data[i]->model);
    for (uint32_t i = 0; i < program->weights.count; i++)
        check_model_named(program, "weights", program->weights.data[i]->name, program->weights.data[i]->model);
    sc_minimize_check(program);
    sc_weights_check(program);
    return program;
}

/* ---- looking at a program ---- */
static const sc_minimize *minimize_of(const sc_program *program, sc_sym model, sc_sym entry)
{
    for (uint32_t i = 0; i < program->minimizes.count; i++) {
        const sc_path *target = &program->minimizes.data[i]->target;
        if (target->segs.count == 2 && target->segs.data[0].name.text == model && target->segs.data[1].name.text == entry)
            return program->minimizes.data[i];
    }
    return NULL;
}

static sc_sym rows_of(const sc_callable *callable)
{
    bool has_rows = callable->at_name.text != 0 && callable->at_shape->dims.count == 1;
    return has_rows ? callable->at_shape->dims.data[0].dim.text : 0;
}

void sc_program_entries(const sc_program *program, sc_sym model, sc_entry_list *out)
{
    for (uint32_t u = 0; u < program->models.count; u++) {
        const sc_unit *unit = program->models.data[u];
        for (uint32_t i = 0; (model == 0 || unit->name.text == model) && i < unit->members.count; i++) {
            const sc_member *member = &unit->members.data[i];
            if (member->kind != SC_MEMBER_ENTRY)
                continue;
            const sc_minimize *minimize = minimize_of(program, unit->name.text, member->name.text);
            *sc_vec_push(&program->context->arena, out) = (sc_entry_info){.model = unit->name.text,
                                                                          .entry = member->name.text,
                                                                          .minimised = minimize != NULL,
                                                                          .cached = member->callable->at_name.text != 0,
                                                                          .rows = rows_of(member->callable),
                                                                          .loc = member->name.loc,
                                                                          .minimize = minimize};
        }
    }
}

void sc_program_returned_names(const sc_program *program, sc_sym model, sc_sym entry, sc_sym_list *out)
{
    const sc_unit *unit = sc_program_model(program, model);
    const sc_member *member = unit == NULL ? NULL : sc_unit_member(unit, entry);
    if (member == NULL || member->kind != SC_MEMBER_ENTRY)
        return;
    const sc_callable *callable = member->callable;
    const sc_stmt *last = callable->body.count == 0 ? NULL : callable->body.data[callable->body.count - 1];
    if (last == NULL || last->kind != SC_STMT_RETURN || last->results.count != callable->results.count)
        return;
    for (uint32_t i = 0; i < last->results.count; i++) {
        const sc_expr *result = last->results.data[i];
        *sc_vec_push(&program->context->arena, out) = result->kind == SC_EXPR_NAME ? result->name : 0;
    }
}

void sc_program_plans(const sc_program *program, sc_plan_list *out)
{
    for (uint32_t i = 0; i < program->plans.count; i++)
        *sc_vec_push(&program->context->arena, out) = program->plans.data[i];
}

void sc_program_weights(const sc_program *program, sc_weights_list *out)
{
    for (uint32_t i = 0; i < program->weights.count; i++)
        *sc_vec_push(&program->context->arena, out) = program->weights.data[i];
}

sc_sym sc_program_only_model(const sc_program *program)
{
    return program->models.count == 1 ? program->models.data[0]->name.text : 0;
}

bool sc_program_has_dim(const sc_program *program, sc_sym dim)
{
    return sc_program_dim(program, dim) != SC_NONE;
}
