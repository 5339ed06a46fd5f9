/* Weight maps: `as [D, 0 of 3, H, E]` lists the axes of the file's tensor, major first, with a
 * merged axis written as its parts. Strides are computed from the last axis backwards: a dim's
 * stride is the product of all that follow it. `a..b of n` selects parts a to b of n; the axes that
 * follow it span b - a + 1 parts. */
#include "frontend/weights/map.h"

#include <string.h>

#include "frontend/declare/path_match.h"
#include "frontend/weights/pattern.h"

static bool report(const sc_declarations *program, const sc_wmap *map, const char *text)
{
    sc_report(&program->context->diag, SC_D_bad_weights, map->loc, text, (char *)NULL);
    return false;
}

const sc_wmap *sc_weights_find(const sc_context *context, const sc_weights *weights, sc_sym path)
{
    for (uint32_t i = 0; i < weights->maps.count; i++) {
        const sc_wmap *map = &weights->maps.data[i];
        if (!map->is_ignore && sc_path_match_text(context, &map->path, 0, sc_text(context, path),
                                                  false) == SC_PATH_EXACT)
            return map;
    }
    return NULL;
}

static const char *pattern_of(sc_context *context, const sc_param_path *param)
{
    sc_strbuf text;
    sc_strbuf_init(&text, &context->arena);
    for (uint32_t i = 0; i < param->count; i++) {
        sc_strbuf_printf(&text, "%s%s", i > 0 ? "." : "", sc_text(context, param->names[i]));
        if (param->stacks[i] != 0)
            sc_strbuf_printf(&text, "[{%s}]", sc_text(context, param->stacks[i]));
    }
    return text.data;
}

void sc_param_patterns(const sc_declarations *program, sc_sym model, sc_param_pattern_list *out)
{
    sc_context *context = program->context;
    sc_param_path_list params = {0};
    sc_param_paths(program, sc_declarations_model(program, model), &params);
    for (uint32_t i = 0; i < params.count; i++) {
        const sc_param_path *param = &params.data[i];
        if (param->kind == SC_MEMBER_PARAM && !param->absent)
            *sc_vec_push(&context->arena, out) =
                (sc_param_pattern){.path = param->text,
                                   .pattern = pattern_of(context, param),
                                   .loc = param->decl->loc};
    }
}

/* ---- names ---- */
typedef struct name_user {
    const sc_declarations *program;
    const sc_param_path *param; /* its stacks give the instance's indices */
    const char *path;           /* e.g. layers[3].attn.wq */
    const sc_module *m;
    const sc_type_info *type;
    const int64_t *index;
    bool *indexed; /* by dim of the type: true if the name contains it; may be NULL */
} name_user;

/* Returns the index of segment i of a path with indices. */
static int64_t segment_index(const char *path, uint32_t i)
{
    int64_t index = 0;
    for (; i > 0 && path != NULL; i--) {
        path = strchr(path, '.');
        path = path == NULL ? NULL : path + 1;
    }
    if (path == NULL)
        return 0;
    path += strcspn(path, ".[");
    if (*path != '[')
        return 0;
    for (path++; *path >= '0' && *path <= '9' && index < INT32_MAX; path++)
        index = index * 10 + (*path - '0');
    return index;
}

static int find_leaf(const sc_module *m, const sc_type_info *type, sc_sym name)
{
    for (uint32_t i = 0; i < type->rank; i++) {
        if (m->dims.data[type->dims[i].dim].name == name)
            return (int)i;
    }
    return -1;
}

static bool name_value(void *user, sc_sym name, int64_t *out)
{
    const name_user *u = user;
    for (uint32_t i = u->param == NULL ? 0 : u->param->count; i-- > 0;) {
        if (u->param->stacks[i] == name) {
            *out = segment_index(u->path, i);
            return true;
        }
    }
    sc_sym_list leaves = {0};
    sc_declarations_leaves(u->program, name, &leaves);
    *out = 0;
    for (uint32_t i = 0; i < leaves.count; i++) {
        int at = find_leaf(u->m, u->type, leaves.data[i]);
        if (at < 0)
            return false;
        if (u->indexed != NULL)
            u->indexed[at] = true;
        *out = *out * u->type->dims[at].size + (u->index == NULL ? 0 : u->index[at]);
    }
    return true;
}

static const sc_param_path *find_param(const sc_declarations *program, sc_sym model,
                                       const char *path)
{
    const sc_unit *unit = sc_declarations_model(program, model);
    sc_param_path_list params = {0};
    if (unit == NULL)
        return NULL;
    sc_param_paths(program, unit, &params);
    sc_sym text =
        sc_intern_text(&program->context->names, sc_path_without_indices(program->context, path));
    for (uint32_t i = 0; i < params.count; i++) {
        if (params.data[i].text == text)
            return &params.data[i];
    }
    return NULL;
}

static bool fill(const sc_declarations *program, const sc_wmap *map, name_user *user,
                 const char **text)
{
    const char *problem;
    sc_pattern_names names = {name_value, user};
    *text = sc_pattern_fill(program->context, sc_text(program->context, map->pattern), &names,
                            &problem);
    return *text != NULL || report(program, map,
                                   sc_arena_printf(&program->context->arena,
                                                   "the tensor's name does not fit: %s", problem));
}

bool sc_wmap_tensor_name(const sc_declarations *program, const sc_wmap *map, sc_sym model,
                         const sc_module *m, uint32_t state, const int64_t *index, sc_sym *name)
{
    const char *text, *path = sc_text(program->context, m->state.data[state].path);
    name_user user = {.program = program,
                      .param = find_param(program, model, path),
                      .path = path,
                      .m = m,
                      .type = sc_state_type(m, state),
                      .index = index};
    if (!fill(program, map, &user, &text))
        return false;
    *name = sc_intern_text(&program->context->names, text);
    return true;
}

/* ---- layout ---- */
typedef struct layout_walk {
    const sc_declarations *program;
    const sc_wmap *map;
    const sc_module *m;
    const sc_type_info *type;
    sc_weight_layout *out;
    bool placed[SC_MAX_RANK];
} layout_walk;

static bool multiply(layout_walk *walk, int64_t factor)
{
    if (!__builtin_mul_overflow(walk->out->elements, factor, &walk->out->elements))
        return true;
    return report(walk->program, walk->map, "the tensor would have more elements than fit");
}

static void add_boundary(sc_weight_layout *out)
{
    out->boundaries[out->boundary_count++] = out->elements;
}

static bool place_leaf(layout_walk *walk, int at)
{
    walk->placed[at] = true;
    walk->out->strides[at] = walk->out->elements;
    if (!multiply(walk, walk->type->dims[at].size))
        return false;
    add_boundary(walk->out);
    return true;
}

static bool place_dim(layout_walk *walk, sc_sym dim)
{
    sc_context *context = walk->program->context;
    sc_sym_list leaves = {0};
    sc_declarations_leaves(walk->program, dim, &leaves);
    for (uint32_t i = leaves.count; i-- > 0;) {
        int at = find_leaf(walk->m, walk->type, leaves.data[i]);
        if (at < 0 || walk->placed[at] || walk->out->indexed[at])
            return report(
                walk->program, walk->map,
                sc_arena_printf(&context->arena, "dim '%s' %s", sc_text(context, dim),
                                at < 0 ? "is not a dim of the parameter"
                                       : "is listed twice, or is also in the tensor's name"));
        if (!place_leaf(walk, at))
            return false;
    }
    return true;
}

/* Places a window of parts: what follows spans `last - first + 1` of them. */
static bool place_part(layout_walk *walk, const sc_wdim *dim)
{
    const sc_declarations *program = walk->program;
    sc_context *context = program->context;
    sc_binding_list sizes = {0};
    int64_t of, first, last;
    for (uint32_t i = 0; i < walk->type->rank; i++) {
        sc_sym name = walk->m->dims.data[walk->type->dims[i].dim].name;
        if (sc_declarations_dim(program, name) != SC_NONE)
            *sc_vec_push(&context->arena, &sizes) =
                (sc_binding){name, walk->type->dims[i].size, dim->loc};
    }
    if (!sc_declarations_eval_integer(program, dim->of, &sizes, &of) ||
        !sc_declarations_eval_integer(program, dim->first, &sizes, &first) ||
        !sc_declarations_eval_integer(program, dim->last, &sizes, &last))
        return false;
    if (first < 0 || last < first || last >= of)
        return report(program, walk->map,
                      sc_arena_printf(&context->arena, "there are parts 0 to %lld of %lld",
                                      (long long)of - 1, (long long)of));
    const int64_t count = last - first + 1;
    if (walk->out->elements % count != 0)
        return report(program, walk->map,
                      sc_arena_printf(&context->arena,
                                      "%lld elements do not divide into %lld parts",
                                      (long long)walk->out->elements, (long long)count));
    int64_t part = walk->out->elements / count;
    walk->out->offset += first * part;
    walk->out->elements = part;
    if (!multiply(walk, of))
        return false;
    /* the file's axis may be cut between parts, and nowhere else above them */
    while (walk->out->boundary_count > 0 &&
           walk->out->boundaries[walk->out->boundary_count - 1] >= part)
        walk->out->boundary_count--;
    walk->out->boundaries[walk->out->boundary_count++] = part;
    add_boundary(walk->out);
    return true;
}

/* Places what 'as' lists, from the last. */
static bool place_listed(layout_walk *walk)
{
    for (uint32_t i = walk->map->as.count; i-- > 0;) {
        const sc_wdim *dim = &walk->map->as.data[i];
        if (!(dim->kind == SC_WDIM_NAME ? place_dim(walk, dim->dim.text) : place_part(walk, dim)))
            return false;
    }
    return true;
}

/* Places all leaves that the tensor's name does not index, from the last. */
static bool place_all(layout_walk *walk)
{
    for (uint32_t i = walk->type->rank; i-- > 0;) {
        if (!walk->out->indexed[i] && !place_leaf(walk, (int)i))
            return false;
    }
    return true;
}

bool sc_wmap_layout(const sc_declarations *program, const sc_wmap *map, const sc_module *m,
                    uint32_t state, sc_weight_layout *out)
{
    const sc_type_info *type = sc_state_type(m, state);
    layout_walk walk = {.program = program, .map = map, .m = m, .type = type, .out = out};
    *out = (sc_weight_layout){.rank = type->rank, .elements = 1};
    const char *text, *path = sc_text(program->context, m->state.data[state].path);
    sc_sym model = 0;
    for (uint32_t i = 0; i < program->weights.count; i++) {
        const sc_weights *weights = program->weights.data[i];
        if (map >= weights->maps.data && map < weights->maps.data + weights->maps.count)
            model = weights->model.text;
    }
    name_user user = {.program = program,
                      .param = find_param(program, model, path),
                      .path = path,
                      .m = m,
                      .type = type,
                      .indexed = out->indexed};
    if (!fill(program, map, &user, &text))
        return false;
    if (map->as.count > SC_MAX_RANK)
        return report(
            program, map,
            sc_arena_printf(&program->context->arena, "'as' names at most %d axes", SC_MAX_RANK));
    if (!(map->has_as ? place_listed(&walk) : place_all(&walk)))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!walk.placed[i] && !out->indexed[i])
            return report(
                program, map,
                sc_arena_printf(&program->context->arena, "'as' lacks dim '%s' of the parameter",
                                sc_text(program->context, m->dims.data[type->dims[i].dim].name)));
    }
    return true;
}
