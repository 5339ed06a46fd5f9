/* Views of built functions for plans: for each value the kinds that rules name and the place that
 * paths are compared with. For a train step the view has the values of the forward pass and the
 * state that its functions read. Values created by autodiff and the optimizer follow these; no line
 * refers to them. */
#include "frontend/declare/path_match.h"
#include "frontend/plan/internal.h"
#include "frontend/plan/place_index.h"

#include <string.h>

enum {
    ACT = 1 << SC_KIND_ACT,
    INPUT = 1 << SC_KIND_INPUT,
    OUTPUT = 1 << SC_KIND_OUTPUT,
    PARAM = 1 << SC_KIND_PARAM,
    GRAD = 1 << SC_KIND_GRAD,
    OPT = 1 << SC_KIND_OPT,
    CACHE = 1 << SC_KIND_CACHE
};

/* True for <entry>.out, <entry>.out0, .. */
static bool is_output_path(const sc_context *context, sc_sym entry, sc_sym path)
{
    const char *name = sc_text(context, entry), *text = sc_text(context, path);
    size_t length = strlen(name);
    if (path == 0 || strncmp(text, name, length) != 0 || strncmp(text + length, ".out", 4) != 0)
        return false;
    text += length + 4;
    return text[strspn(text, "0123456789")] == 0;
}

/* True for a `param` op and its cast to the act dtype; both are the parameter, but rules apply only
 * to the first. */
static bool is_param(const sc_module *m, sc_value value)
{
    const sc_op *op = sc_op_at(m, sc_def(m, value));
    if (sc_op_has(op, SC_CONVERTS))
        op = sc_op_at(m, sc_def(m, op->operands[0]));
    return sc_op_has(op, SC_PARAMETER);
}

/* Returns the kinds of a `use` op. A formal is another name of its argument, to which the rules
 * were already applied; likewise a local that is another name of a parameter. */
static uint8_t kinds_of_use(const sc_plan_view *view, const sc_op *op, sc_value value)
{
    if (is_output_path(view->context, view->entry, view->m->values.data[value].path))
        return ACT | OUTPUT;
    if (sc_op_int(op, SC_ATTR_formal, 0) != 0 || is_param(view->m, op->operands[0]))
        return SC_KIND_NO_RULES;
    return view->kinds[op->operands[0]] == CACHE ? CACHE : ACT;
}

static uint8_t kinds_of_state(const sc_module *m, const sc_op *op)
{
    uint32_t state = sc_module_find_state(m, sc_op_word(op, SC_ATTR_name));
    switch (state == SC_NONE ? SC_STATE_SCALAR : m->state.data[state].kind) {
    case SC_STATE_PARAM:
        return PARAM;
    case SC_STATE_CACHE:
        return CACHE;
    case SC_STATE_GRAD:
        return GRAD;
    case SC_STATE_OPT:
        return OPT;
    default:
        return SC_KIND_NO_RULES;
    }
}

static uint8_t kinds_of(const sc_plan_view *view, const sc_op *op, sc_value value)
{
    if (sc_op_has(op, SC_FROM_OUTSIDE))
        return INPUT;
    if (sc_op_has(op, SC_APPENDS))
        return CACHE;
    if (sc_op_has(op, SC_STATE_READ))
        return kinds_of_state(view->m, op);
    if (op->kind == SC_OP_use)
        return kinds_of_use(view, op, value);
    if (sc_op_has(op, SC_KEEPS_LSE) && value > op->first_result)
        return SC_KIND_NO_RULES; /* a statistic for the backward pass, replicated as it is
                                    computed */
    bool is_cast_param = sc_op_has(op, SC_CONVERTS) && is_param(view->m, value);
    return sc_op_has(op, SC_CONSTANT) || is_cast_param ? SC_KIND_NO_RULES : ACT;
}

sc_sym sc_plan_value_path(const sc_module *m, sc_value value)
{
    const sc_value_info *info = &m->values.data[value];
    if (info->path != 0)
        return info->path;
    const sc_op *op = sc_op_at(m, info->def);
    if ((sc_op_traits(op) & SC_STATE_READ) == 0)
        return 0;
    const sc_attr *name = sc_op_attr(op, SC_ATTR_name);
    return name == NULL ? 0 : name->text;
}

bool sc_plan_in_forward(const sc_context *context, const sc_op *op)
{
    sc_sym phase = sc_op_word(op, SC_ATTR_phase);
    return phase == 0 || strcmp(sc_text(context, phase), "forward") == 0;
}

/* Returns a value's place. Gradients and optimizer state have their parameter's: layers[0].wq for
 * layers[0].wq.grad. */
static sc_sym place_of(const sc_plan_view *view, const sc_op *op, sc_value value)
{
    sc_sym path = sc_plan_value_path(view->m, value);
    const char *text = sc_text(view->context, path), *end = strrchr(text, '.');
    if ((view->kinds[value] & (GRAD | OPT)) != 0 && end != NULL)
        return sc_intern(&view->m->context->names, text, (size_t)(end - text));
    return path != 0 ? path : op->scope;
}

static void add_value(sc_plan_view *view, sc_map *place_map, const sc_op *op, sc_value value)
{
    sc_arena *arena = &view->m->context->arena;
    bool is_new;
    view->kinds[value] = kinds_of(view, op, value);
    sc_sym path = sc_plan_value_path(view->m, value), place_path = place_of(view, op, value);
    uint32_t *place = sc_map_insert(place_map, place_path, view->place_paths.count, &is_new);
    if (is_new)
        *sc_vec_push(arena, &view->place_paths) = place_path;
    view->places[value] = *place;
    uint32_t index = view->values.count;
    *sc_vec_push(arena, &view->values) = value;
    uint32_t *next = sc_vec_push(arena, &view->next_same);
    *next = SC_NONE;
    if (path == 0)
        return;
    uint32_t *first = sc_map_insert(&view->by_path, path, index, &is_new);
    if (!is_new) {
        *next = *first;
        *first = index;
    }
}

static void add_func(sc_plan_view *view, sc_map *place_map, sc_func_id func)
{
    sc_for_each_op (view->m, func, id) {
        const sc_op *op = sc_op_at(view->m, id);
        bool seen =
            (sc_op_traits(op) & SC_STATE_READ) != 0 || sc_plan_in_forward(view->context, op);
        if (seen) {
            for (uint32_t r = 0; r < op->result_count; r++)
                add_value(view, place_map, op, op->first_result + r);
        }
    }
}

static sc_plan_view *new_view(sc_context *context, sc_module *m, sc_sym entry)
{
    sc_arena *arena = &context->arena;
    sc_plan_view *view = sc_arena_alloc(arena, sizeof *view);
    *view = (sc_plan_view){.context = context, .m = m, .entry = entry};
    view->by_path.arena = arena;
    view->value_count = m->values.count;
    view->index = sc_place_index_new(context);
    view->kinds = sc_arena_array(arena, view->value_count, sizeof *view->kinds);
    view->places = sc_arena_array(arena, view->value_count, sizeof *view->places);
    return view;
}

sc_plan_view *sc_plan_view_make(sc_context *context, sc_module *m, sc_sym entry)
{
    sc_plan_view *view = new_view(context, m, entry);
    sc_map place_map = {.arena = &context->arena};
    for (sc_func_id func = 0; func < m->funcs.count; func++)
        add_func(view, &place_map, func);
    return view;
}

sc_plan_view *sc_plan_view_make_symbolic(sc_context *context, sc_module *m, sc_func_id func)
{
    sc_plan_view *view = new_view(context, m, m->funcs.data[func].name);
    sc_map place_map = {.arena = &context->arena};
    view->symbolic = true;
    add_func(view, &place_map, func);
    return view;
}

sc_path_match sc_plan_view_match(const sc_plan_view *view, const sc_path *pattern, sc_sym path)
{
    return sc_path_match_text(view->context, pattern, view->entry, sc_text(view->context, path),
                              view->symbolic);
}
