#include "tools/run/facts.h"

#include "ir/text/text.h"
#include "support/hash.h"
#include "support/strbuf.h"
#include "tools/run/weight_places.h"
#include "tools/run/weight_shape.h"

/* ---- shapes ---- */

static int64_t size_in(const sc_module *m, const sc_type_info *type, sc_sym name)
{
    sc_dim dim = sc_module_find_dim(m, name);
    int64_t size = 1;
    if (dim == SC_NONE)
        return 0;
    const sc_dim_info *info = &m->dims.data[dim];
    for (uint32_t i = 0; i < (info->part_count > 0 ? info->part_count : 1); i++) {
        int at = sc_type_find_dim(type, info->part_count > 0 ? info->parts[i] : dim);
        size *= at < 0 ? 0 : type->dims[at].size;
    }
    return size;
}

/* Adds the axes that the line lists: D=64, part 0, H=4. */
static void add_listed(const sc_module *m, const sc_type_info *type, const sc_wmap *line,
                       sc_strbuf *text)
{
    sc_sources *sources = &m->context->sources;
    for (uint32_t i = 0; i < line->as.count; i++) {
        const sc_wdim *dim = &line->as.data[i];
        sc_strbuf_add(text, i > 0 ? ", " : "");
        if (dim->kind == SC_WDIM_NAME)
            sc_strbuf_printf(text, "%s=%lld", sc_text(m->context, dim->dim.text),
                             (long long)size_in(m, type, dim->dim.text));
        else if (dim->first == dim->last)
            sc_strbuf_printf(text, "part %s", sc_sources_text(sources, dim->first->loc));
        else
            sc_strbuf_printf(text, "parts %s..%s", sc_sources_text(sources, dim->first->loc),
                             sc_sources_text(sources, dim->last->loc));
    }
}

/* Adds the dims of the parameter that the tensor's name does not index. */
static void add_unindexed(const sc_module *m, const sc_type_info *type,
                          const sc_weight_layout *layout, sc_strbuf *text)
{
    uint32_t written = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (!layout->indexed[i])
            sc_strbuf_printf(text, "%s%s=%lld", written++ > 0 ? ", " : "",
                             sc_text(m->context, m->dims.data[type->dims[i].dim].name),
                             (long long)type->dims[i].size);
    }
}

/* Formats the expected shape, as the line gives it: [D=64, part 0, H=4]. */
static const char *wanted_text(const sc_module *m, uint32_t state, const sc_wmap *line,
                               const sc_weight_layout *layout)
{
    const sc_type_info *type = sc_state_type(m, state);
    sc_strbuf text;
    sc_strbuf_init(&text, &m->context->arena);
    sc_strbuf_add_char(&text, '[');
    if (line != NULL && line->has_as)
        add_listed(m, type, line, &text);
    else
        add_unindexed(m, type, layout, &text);
    sc_strbuf_add_char(&text, ']');
    return text.data;
}

/* Without a weights block: the shape by the parameter's own dims as declared, with composites as
 * one dim. */
static uint32_t own_shape(const sc_type_info *type, uint64_t *shape)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        bool joined = i > 0 && type->dims[i].group != SC_NONE &&
                      type->dims[i].group == type->dims[i - 1].group;
        if (joined)
            shape[rank - 1] *= (uint64_t)type->dims[i].size;
        else
            shape[rank++] = (uint64_t)type->dims[i].size;
    }
    return rank;
}

/* ---- parameters ---- */

static bool find_param(sc_declarations *program, const sc_weights *weights, const sc_wmap *line,
                       const sc_module *m, uint32_t state, const uint8_t *roles, sc_fact_param *out)
{
    const sc_type_info *type = sc_state_type(m, state);
    sc_weight_tensors named;
    *out = (sc_fact_param){.path = sc_text(m->context, m->state.data[state].path),
                           .loc = line == NULL ? m->state.data[state].loc : line->loc,
                           .dtype = type->dtype,
                           .rank = type->rank,
                           .wanted = ""};
    for (uint32_t i = 0; i < type->rank; i++)
        out->sizes[i] = type->dims[i].size;
    if ((weights != NULL && line == NULL) ||
        !sc_weights_tensors(program, weights, line, m, state, &named))
        return false;
    out->layout = named.layout;
    out->tensor_count = named.count;
    out->tensors = sc_arena_array(&m->context->arena, named.count, sizeof *out->tensors);
    for (uint32_t i = 0; i < named.count; i++)
        out->tensors[i] = sc_text(m->context, named.names[i]);
    out->wanted = wanted_text(m, state, line, &out->layout);
    out->shape_rank = line == NULL ? own_shape(type, out->shape)
                                   : sc_weight_shape(&out->layout, type, roles, out->shape);
    return true;
}

/* ---- parameters read by other entries only ---- */

static void add_pattern(sc_context *context, const char *text, bool is_ignore, sc_loc loc,
                        sc_fact_weights *out)
{
    *sc_vec_push(&context->arena, &out->patterns) =
        (sc_fact_pattern){.text = text, .is_ignore = is_ignore, .loc = loc};
}

/* Adds the lines that match no parameter of the module: `ignore` lines, and lines of parameters
 * that only other entries use. */
static void add_other_lines(const sc_module *m, const sc_weights *weights, const sc_wmap **lines,
                            sc_fact_weights *out)
{
    sc_map used = {.arena = &m->context->arena};
    bool is_new;
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (lines[i] != NULL)
            sc_map_insert(&used, (uint64_t)(lines[i] - weights->maps.data), 0, &is_new);
    }
    for (uint32_t i = 0; i < weights->maps.count; i++) {
        const sc_wmap *map = &weights->maps.data[i];
        if (map->is_ignore || sc_map_find(&used, i) == NULL)
            add_pattern(m->context, sc_text(m->context, map->pattern), map->is_ignore, map->loc,
                        out);
    }
}

/* Without a block, tensors are named like parameters: layers[{L}].attn.wq. */
static void add_other_params(sc_declarations *program, sc_sym model, const sc_module *m,
                             sc_fact_weights *out)
{
    sc_map others = {.arena = &m->context->arena};
    sc_sym_list unread = {0};
    sc_param_pattern_list params = {0};
    bool is_new;
    sc_declarations_unread_params(program, model, m, &unread);
    for (uint32_t i = 0; i < unread.count; i++)
        sc_map_insert(&others, unread.data[i], 0, &is_new);
    sc_param_patterns(program, model, &params);
    for (uint32_t i = 0; i < params.count; i++) {
        if (sc_map_find(&others, params.data[i].path) != NULL)
            add_pattern(m->context, params.data[i].pattern, false, params.data[i].loc, out);
    }
}

void sc_weight_facts(sc_context *context, sc_declarations *program, sc_sym model,
                     const sc_weights *weights, const sc_module *m, sc_fact_weights *out)
{
    sc_weight_roles roles;
    uint32_t errors = context->diag.errors;
    const sc_wmap **lines = weights == NULL ? NULL : sc_weights_lines(context, weights, m);
    sc_weight_roles_find(m, &roles);
    *out = (sc_fact_weights){.is_known = true, .has_block = weights != NULL};
    out->params = sc_arena_array(&context->arena, m->state.count + 1u, sizeof *out->params);
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (m->state.data[i].kind == SC_STATE_PARAM)
            find_param(program, weights, lines == NULL ? NULL : lines[i], m, i, roles.of[i],
                       &out->params[out->count++]);
    }
    if (weights != NULL)
        add_other_lines(m, weights, lines, out);
    else
        add_other_params(program, model, m, out);
    out->is_complete = context->diag.errors == errors;
}
