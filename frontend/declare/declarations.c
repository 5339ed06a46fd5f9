/* Queries on the declarations of a file and its imports. */
#include "frontend/declare/internal.h"

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

void sc_unit_suggest_entries(const sc_unit *unit, sc_context *context, sc_text_list *list)
{
    for (uint32_t i = 0; i < unit->members.count; i++) {
        if (unit->members.data[i].kind == SC_MEMBER_ENTRY)
            sc_suggest_add(context, list, unit->members.data[i].name.text);
    }
}

const sc_unit *sc_declarations_block(const sc_declarations *program, sc_sym name)
{
    return find_pointer(&program->block_map, name, (void *const *)program->blocks.data);
}

const sc_unit *sc_declarations_model(const sc_declarations *program, sc_sym name)
{
    return find_pointer(&program->model_map, name, (void *const *)program->models.data);
}

const sc_callable *sc_declarations_fn(const sc_declarations *program, sc_sym name)
{
    const uint32_t *index = sc_map_find(&program->fn_map, name);
    return index == NULL ? NULL : program->fns.data[*index];
}

uint32_t sc_declarations_dim(const sc_declarations *program, sc_sym name)
{
    const uint32_t *index = sc_map_find(&program->dim_map, name);
    return index == NULL ? SC_NONE : *index;
}

/* True if the diagnostic limit is reached. Further errors are only counted, so skip searching for
 * suggestions. */
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

void sc_report_unknown_dim(const sc_declarations *program, sc_name name)
{
    sc_context *context = program->context;
    sc_text_list list = {0};
    bool is_new;
    sc_map_insert(program->missing_dims, name.text, 0, &is_new);
    if (!is_new)
        return;
    for (uint32_t i = 0; i < program->dims.count; i++)
        sc_suggest_add(context, &list, program->dims.data[i].name.text);
    sc_report(&context->diag, SC_D_unknown_dim, name.loc, sc_text(context, name.text),
              sc_suggest(context, name.text, &list), (char *)NULL);
}

/* ---- queries ---- */
static const sc_minimize *minimize_of(const sc_declarations *program, sc_sym model, sc_sym entry)
{
    for (uint32_t i = 0; i < program->minimizes.count; i++) {
        const sc_path *target = &program->minimizes.data[i]->target;
        if (target->segs.count == 2 && target->segs.data[0].name.text == model &&
            target->segs.data[1].name.text == entry)
            return program->minimizes.data[i];
    }
    return NULL;
}

static sc_sym rows_of(const sc_callable *callable)
{
    bool has_rows = callable->at_name.text != 0 && callable->at_shape->dims.count == 1;
    return has_rows ? callable->at_shape->dims.data[0].dim.text : 0;
}

void sc_declarations_entries(const sc_declarations *program, sc_sym model, sc_entry_list *out)
{
    for (uint32_t u = 0; u < program->models.count; u++) {
        const sc_unit *unit = program->models.data[u];
        if (model != 0 && unit->name.text != model)
            continue;
        for (uint32_t i = 0; i < unit->members.count; i++) {
            const sc_member *member = &unit->members.data[i];
            if (member->kind != SC_MEMBER_ENTRY)
                continue;
            const sc_minimize *minimize = minimize_of(program, unit->name.text, member->name.text);
            *sc_vec_push(&program->context->arena, out) =
                (sc_entry_info){.model = unit->name.text,
                                .entry = member->name.text,
                                .minimised = minimize != NULL,
                                .cached = member->callable->at_name.text != 0,
                                .rows = rows_of(member->callable),
                                .loc = member->name.loc,
                                .minimize = minimize};
        }
    }
}

void sc_declarations_returned_names(const sc_declarations *program, sc_sym model, sc_sym entry,
                                    sc_sym_list *out)
{
    const sc_unit *unit = sc_declarations_model(program, model);
    const sc_member *member = unit == NULL ? NULL : sc_unit_member(unit, entry);
    if (member == NULL || member->kind != SC_MEMBER_ENTRY)
        return;
    const sc_callable *callable = member->callable;
    const sc_stmt *last =
        callable->body.count == 0 ? NULL : callable->body.data[callable->body.count - 1];
    if (last == NULL || last->kind != SC_STMT_RETURN ||
        last->results.count != callable->results.count)
        return;
    for (uint32_t i = 0; i < last->results.count; i++) {
        const sc_expr *result = last->results.data[i];
        *sc_vec_push(&program->context->arena, out) =
            result->kind == SC_EXPR_NAME ? result->name : 0;
    }
}

void sc_declarations_plans(const sc_declarations *program, sc_plan_list *out)
{
    for (uint32_t i = 0; i < program->plans.count; i++)
        *sc_vec_push(&program->context->arena, out) = program->plans.data[i];
}

void sc_declarations_weights(const sc_declarations *program, sc_weights_list *out)
{
    for (uint32_t i = 0; i < program->weights.count; i++)
        *sc_vec_push(&program->context->arena, out) = program->weights.data[i];
}

sc_sym sc_declarations_only_model(const sc_declarations *program)
{
    return program->models.count == 1 ? program->models.data[0]->name.text : 0;
}

bool sc_declarations_has_dim(const sc_declarations *program, sc_sym dim)
{
    return sc_declarations_dim(program, dim) != SC_NONE;
}
