/* Paths of a model's parameters, each stack once. */
#include "frontend/declare/internal.h"
#include "frontend/declare/path_match.h"

enum { MAX_PATHS = 1 << 17 };

typedef struct dim_names {
    sc_sym name, value;
} dim_names;

/* Scope of dim names in one block along a path: its dim parameters and the substitutions of
 * file-level dims so far. */
typedef struct dim_scope {
    SC_VEC(dim_names) params, substitutions;
} dim_scope;

typedef struct path_walk {
    const sc_declarations *program;
    sc_param_path_list *out;
    sc_sym names[SC_MAX_INLINE_DEPTH + 2], stacks[SC_MAX_INLINE_DEPTH + 2];
    uint32_t visits;
} path_walk;

static sc_sym resolve(const dim_scope *scope, sc_sym name)
{
    for (uint32_t i = scope->params.count; i-- > 0;) {
        if (scope->params.data[i].name == name)
            return scope->params.data[i].value;
    }
    for (uint32_t i = scope->substitutions.count; i-- > 0;) {
        if (scope->substitutions.data[i].name == name)
            return scope->substitutions.data[i].value;
    }
    return name;
}

static bool is_param(const sc_callable *callable, sc_sym name)
{
    for (uint32_t i = 0; i < callable->dim_params.count; i++) {
        if (callable->dim_params.data[i].text == name)
            return true;
    }
    return false;
}

static dim_scope enter_sub(sc_context *context, const dim_scope *outer, const sc_sub *sub,
                           const sc_callable *callable)
{
    dim_scope inner = {0};
    uint32_t position = 0;
    for (uint32_t i = 0; i < outer->substitutions.count; i++)
        *sc_vec_push(&context->arena, &inner.substitutions) = outer->substitutions.data[i];
    for (uint32_t i = 0; i < sub->dim_args.count; i++) {
        const sc_dim_arg *arg = &sub->dim_args.data[i];
        sc_sym value = resolve(outer, arg->value.text), name = arg->name.text;
        if (name == 0 && position < callable->dim_params.count)
            name = callable->dim_params.data[position++].text;
        if (is_param(callable, name))
            *sc_vec_push(&context->arena, &inner.params) = (dim_names){name, value};
        else if (name != 0)
            *sc_vec_push(&context->arena, &inner.substitutions) = (dim_names){name, value};
    }
    return inner;
}

static void add_path(path_walk *walk, const sc_unit *unit, const sc_member *member, uint32_t depth,
                     const dim_scope *scope)
{
    sc_context *context = walk->program->context;
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    walk->names[depth] = member->name.text;
    walk->stacks[depth] = 0;
    uint32_t count = depth + 1, dim_count = member->decl->shape->dims.count;
    sc_sym *names = sc_arena_array(&context->arena, count, sizeof *names),
           *stacks = sc_arena_array(&context->arena, count, sizeof *stacks);
    sc_sym *dims = sc_arena_array(&context->arena, dim_count, sizeof *dims);
    for (uint32_t i = 0; i < count; i++) {
        names[i] = walk->names[i];
        stacks[i] = walk->stacks[i];
        sc_strbuf_add(&text, i > 0 ? "." : "");
        sc_strbuf_add(&text, sc_text(context, names[i]));
    }
    for (uint32_t i = 0; i < dim_count; i++)
        dims[i] = resolve(scope, member->decl->shape->dims.data[i].dim.text);
    *sc_vec_push(&context->arena, walk->out) =
        (sc_param_path){.count = count,
                        .names = names,
                        .stacks = stacks,
                        .decl = member->decl,
                        .kind = member->kind,
                        .unit = unit,
                        .text = sc_intern_text(&context->names, text.data),
                        .dim_count = dim_count,
                        .dims = dims};
}

static void walk_unit(path_walk *walk, const sc_unit *unit, uint32_t depth, const dim_scope *scope)
{
    if (depth > SC_MAX_INLINE_DEPTH || unit->broken)
        return;
    for (uint32_t i = 0; i < unit->members.count && walk->visits < MAX_PATHS; i++) {
        const sc_member *member = &unit->members.data[i];
        walk->visits++;
        if (member->kind == SC_MEMBER_PARAM || member->kind == SC_MEMBER_CACHE) {
            add_path(walk, unit, member, depth, scope);
        } else if (member->kind == SC_MEMBER_SUB && member->block != NULL) {
            dim_scope inner =
                enter_sub(walk->program->context, scope, member->sub, member->block->callable);
            walk->names[depth] = member->name.text;
            walk->stacks[depth] =
                member->sub->stack.text == 0 ? 0 : resolve(scope, member->sub->stack.text);
            walk_unit(walk, member->block, depth + 1, &inner);
        }
    }
}

void sc_param_paths(const sc_declarations *program, const sc_unit *model, sc_param_path_list *out)
{
    path_walk walk = {.program = program, .out = out};
    dim_scope scope = {0};
    walk_unit(&walk, model, 0, &scope);
}

bool sc_path_covers(const sc_path *path, const sc_param_path *param, bool whole)
{
    if (path->segs.count > param->count || (whole && path->segs.count != param->count))
        return false;
    for (uint32_t i = 0; i < path->segs.count; i++) {
        const sc_seg *seg = &path->segs.data[i];
        if (seg->kind != SC_SEG_ANY && seg->name.text != param->names[i])
            return false;
        if ((seg->kind == SC_SEG_RANGE || seg->kind == SC_SEG_INDEX) && param->stacks[i] == 0)
            return false;
    }
    return true;
}

const char *sc_path_text(sc_context *context, const sc_path *path)
{
    sc_strbuf out;
    sc_strbuf_init(&out, &context->arena);
    sc_strbuf_add(&out, "");
    for (uint32_t i = 0; i < path->segs.count; i++) {
        const sc_seg *seg = &path->segs.data[i];
        sc_strbuf_add(&out, i > 0 ? "." : "");
        sc_strbuf_add(&out, seg->kind == SC_SEG_ANY ? "*" : sc_text(context, seg->name.text));
        if (seg->kind == SC_SEG_RANGE)
            sc_strbuf_printf(&out, "[%lld..%lld]", (long long)seg->first, (long long)seg->last);
        else if (seg->kind == SC_SEG_INDEX)
            sc_strbuf_printf(&out, "[%lld]", (long long)seg->first);
    }
    return out.data;
}

const char *sc_suggest_param(sc_context *context, const sc_path *path,
                             const sc_param_path_list *params)
{
    sc_text_list list = {0};
    for (uint32_t i = 0; i < params->count; i++) {
        if (params->data[i].kind == SC_MEMBER_PARAM)
            sc_suggest_add(context, &list, params->data[i].text);
    }
    return sc_suggest(context, sc_intern_text(&context->names, sc_path_text(context, path)), &list);
}

void sc_declarations_leaves(const sc_declarations *program, sc_sym dim, sc_sym_list *out)
{
    sc_context *context = program->context;
    uint32_t index = sc_declarations_dim(program, dim), root = index;
    while (root != SC_NONE && program->dims.data[root].form == SC_DIM_ALIAS &&
           !program->dims.data[root].broken)
        root = program->dims.data[root].original;
    if (root == SC_NONE || program->dims.data[root].form != SC_DIM_COMPOSITE) {
        *sc_vec_push(&context->arena, out) = dim;
        return;
    }
    const sc_dim_decl *decl = &program->dims.data[root];
    for (uint32_t i = 0; i < decl->part_count; i++) {
        sc_sym part = program->dims.data[decl->parts[i]].name.text;
        if (root != index) /* elaborate/dims.c names the leaves of an alias the same way */
            part = sc_intern_printf(&context->names, "%s.%s", sc_text(context, dim),
                                    sc_text(context, part));
        *sc_vec_push(&context->arena, out) = part;
    }
}

void sc_declarations_unread_params(const sc_declarations *program, sc_sym model, const sc_module *m,
                                   sc_sym_list *out)
{
    sc_context *context = program->context;
    sc_param_path_list params = {0};
    sc_map read = {.arena = &context->arena};
    for (uint32_t s = 0; s < m->state.count; s++) {
        const char *path =
            sc_path_without_indices(context, sc_text(context, m->state.data[s].path));
        sc_map_insert(&read, sc_intern_text(&context->names, path), 0, NULL);
    }
    sc_param_paths(program, sc_declarations_model(program, model), &params);
    for (uint32_t i = 0; i < params.count; i++) {
        if (params.data[i].kind == SC_MEMBER_PARAM &&
            sc_map_find(&read, params.data[i].text) == NULL)
            *sc_vec_push(&context->arena, out) = params.data[i].text;
    }
}
