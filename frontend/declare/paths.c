/* Paths of a model's parameters, each stack once. */
#include "frontend/declare/internal.h"
#include "frontend/declare/path_match.h"

enum { MAX_PATHS = 1 << 17 };

typedef struct dim_names {
    sc_sym name, value;
} dim_names;

/* The value of a static argument as far as it is known without sizes: whether an `if` on it has its
 * body. */
typedef enum taken { TAKEN_UNKNOWN, TAKEN_NO, TAKEN_YES } taken;

typedef struct static_value {
    sc_sym name;
    taken value;
} static_value;

/* Scope of names in one block along a path: its dim parameters, the substitutions of file-level
 * dims so far, and its static arguments. */
typedef struct path_scope {
    SC_VEC(dim_names) params, substitutions;
    SC_VEC(static_value) statics;
} path_scope;

typedef struct path_walk {
    const sc_declarations *program;
    sc_param_path_list *out;
    sc_sym names[SC_MAX_INLINE_DEPTH + 2], stacks[SC_MAX_INLINE_DEPTH + 2];
    uint32_t visits;
} path_walk;

static sc_sym resolve(const path_scope *scope, sc_sym name)
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

/* ---- static arguments ---- */
static taken find_static(const path_scope *scope, sc_sym name, bool *found)
{
    for (uint32_t i = scope->statics.count; i-- > 0;) {
        if (scope->statics.data[i].name == name) {
            *found = true;
            return scope->statics.data[i].value;
        }
    }
    *found = false;
    return TAKEN_UNKNOWN;
}

/* A number, a word, or the scope's static argument of that name, as sc_build_static says. What is
 * computed is unknown here. */
static taken evaluate(const sc_declarations *program, const path_scope *scope, const sc_expr *expr)
{
    bool found, is_word = expr->kind == SC_EXPR_NAME || expr->kind == SC_EXPR_CALL;
    double number = 0.0;
    const char *word = "";
    switch (expr->kind) {
    case SC_EXPR_INT:
        number = (double)expr->integer;
        break;
    case SC_EXPR_FLOAT:
        number = expr->number;
        break;
    case SC_EXPR_NAME: {
        taken value = find_static(scope, expr->name, &found);
        if (found || sc_declarations_dim(program, expr->name) != SC_NONE)
            return value;
        word = sc_text(program->context, expr->name);
        break;
    }
    case SC_EXPR_CALL: /* a word with numbers */
        word = sc_text(program->context, expr->call.callee.text);
        break;
    default:
        return TAKEN_UNKNOWN;
    }
    return sc_is_taken(is_word, word, number) ? TAKEN_YES : TAKEN_NO;
}

static const sc_arg *find_argument(const sc_arg_list *args, const sc_formal *formal,
                                   uint32_t position)
{
    uint32_t count = args == NULL ? 0 : args->count;
    for (uint32_t i = 0; i < count; i++) {
        const sc_arg *arg = &args->data[i];
        if (arg->name.text == 0 ? position-- == 0 : arg->name.text == formal->name.text)
            return arg;
    }
    return NULL;
}

/* Values of the static arguments of a callable under `args` in the outer scope. */
static void set_statics(const sc_declarations *program, const sc_callable *callable,
                        const sc_arg_list *args, const path_scope *outer, path_scope *inner)
{
    uint32_t position = 0;
    for (uint32_t i = 0; i < callable->formals.count; i++) {
        const sc_formal *formal = &callable->formals.data[i];
        if (formal->kind != SC_FORMAL_STATIC)
            continue;
        const sc_arg *arg = find_argument(args, formal, position++);
        taken value = arg != NULL && arg->values.count == 1
                          ? evaluate(program, outer, arg->values.data[0])
                          : evaluate(program, inner, formal->value);
        *sc_vec_push(&program->context->arena, &inner->statics) =
            (static_value){formal->name.text, value};
    }
}

/* False if the member is in an `if` whose body is not there. */
static bool is_present(const path_scope *scope, const sc_member *member)
{
    bool found;
    for (const sc_condition *c = member->when; c != NULL; c = c->outer) {
        if (find_static(scope, c->name.text, &found) == (c->is_else ? TAKEN_YES : TAKEN_NO))
            return false;
    }
    return true;
}

static path_scope enter_sub(const sc_declarations *program, const path_scope *outer,
                            const sc_sub *sub, const sc_callable *callable)
{
    sc_context *context = program->context;
    path_scope inner = {0};
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
    set_statics(program, callable, &sub->statics, outer, &inner);
    return inner;
}

static void add_path(path_walk *walk, const sc_unit *unit, const sc_member *member, uint32_t depth,
                     const path_scope *scope, bool absent)
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
                        .absent = absent,
                        .unit = unit,
                        .text = sc_intern_text(&context->names, text.data),
                        .dim_count = dim_count,
                        .dims = dims};
}

static void walk_unit(path_walk *walk, const sc_unit *unit, uint32_t depth, const path_scope *scope,
                      bool absent)
{
    if (depth > SC_MAX_INLINE_DEPTH || unit->broken)
        return;
    for (uint32_t i = 0; i < unit->members.count && walk->visits < MAX_PATHS; i++) {
        const sc_member *member = &unit->members.data[i];
        bool missing = absent || !is_present(scope, member);
        walk->visits++;
        if (member->kind == SC_MEMBER_PARAM || member->kind == SC_MEMBER_CACHE) {
            add_path(walk, unit, member, depth, scope, missing);
        } else if (member->kind == SC_MEMBER_SUB && member->block != NULL) {
            path_scope inner =
                enter_sub(walk->program, scope, member->sub, member->block->callable);
            walk->names[depth] = member->name.text;
            walk->stacks[depth] =
                member->sub->stack.text == 0 ? 0 : resolve(scope, member->sub->stack.text);
            walk_unit(walk, member->block, depth + 1, &inner, missing);
        }
    }
}

void sc_param_paths(const sc_declarations *program, const sc_unit *model, sc_param_path_list *out)
{
    path_walk walk = {.program = program, .out = out};
    path_scope outside = {0}, scope = {0};
    if (model->head != NULL)
        set_statics(program, model->head, model->given == NULL ? NULL : &model->given->statics,
                    &outside, &scope);
    walk_unit(&walk, model, 0, &scope, false);
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
        if (params.data[i].kind == SC_MEMBER_PARAM && !params.data[i].absent &&
            sc_map_find(&read, params.data[i].text) == NULL)
            *sc_vec_push(&context->arena, out) = params.data[i].text;
    }
}
