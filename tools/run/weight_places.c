#include "tools/run/weight_places.h"

#include <string.h>

#include "support/strbuf.h"

enum { MOST_TENSORS = 1 << 20 }; /* maximum number of tensors per parameter */

bool sc_weights_choose(sc_context *context, sc_declarations *program, sc_sym model,
                       const char *name, const sc_weights **out)
{
    sc_weights_list all = {0};
    const sc_weights *only = NULL;
    uint32_t count = 0;
    sc_strbuf list;
    sc_strbuf_init(&list, &context->arena);
    sc_declarations_weights(program, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const sc_weights *weights = all.data[i];
        const char *text = sc_text(context, weights->name.text);
        if (weights->model.text != model)
            continue;
        if (name != NULL && strcmp(text, name) == 0) {
            *out = weights;
            return true;
        }
        sc_strbuf_printf(&list, "%s%s", count++ > 0 ? ", " : "", text);
        only = weights;
    }
    *out = only;
    if (name == NULL && count <= 1)
        return true;
    const char *model_text = sc_text(context, model), *problem;
    if (count == 0)
        problem = sc_arena_printf(
            &context->arena,
            "there is no 'weights' block for '%s' that maps its parameters to tensors", model_text);
    else if (name == NULL)
        problem = sc_arena_printf(
            &context->arena, "'%s' has several 'weights' blocks: %s; choose one with --map NAME",
            model_text, list.data);
    else
        problem = sc_arena_printf(&context->arena,
                                  "there is no 'weights' block '%s' for '%s'; the file has %s",
                                  name, model_text, list.data);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, problem, NULL);
    return false;
}

/* ---- lines ---- */

static bool is_param(const sc_module *m, uint32_t state)
{
    return m->state.data[state].kind == SC_STATE_PARAM;
}

/* Reports all instances of one declaration in one message. */
static void report_without_line(sc_context *context, const sc_weights *weights, const sc_module *m,
                                const sc_wmap **lines, uint32_t state)
{
    const sc_state *first = &m->state.data[state];
    uint32_t others = 0;
    for (uint32_t i = 0; i < m->state.count; i++) {
        bool is_same = i != state && is_param(m, i) && lines[i] == NULL &&
                       m->state.data[i].loc.begin == first->loc.begin;
        if (is_same && i < state && first->loc.begin != 0)
            return;
        others += is_same;
    }
    const char *more =
        others > 0 ? sc_arena_printf(&context->arena, " (and %u more instances)", others) : "";
    sc_report(&context->diag, SC_D_bad_weights, weights->name.loc,
              sc_arena_printf(&context->arena, "parameter '%s'%s has no line in 'weights %s'",
                              sc_text(context, first->path), more,
                              sc_text(context, weights->name.text)),
              NULL);
    sc_report_note(&context->diag, first->loc, "it is declared here");
}

const sc_wmap **sc_weights_lines(sc_context *context, const sc_weights *weights, const sc_module *m)
{
    const sc_wmap **lines = sc_arena_array(&context->arena, m->state.count + 1u, sizeof *lines);
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (is_param(m, i))
            lines[i] = sc_weights_find(context, weights, m->state.data[i].path);
    }
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (is_param(m, i) && lines[i] == NULL)
            report_without_line(context, weights, m, lines, i);
    }
    return lines;
}

/* ---- tensors ---- */

/* Advances to the next index of the dims in the tensor's name. Returns false after the last. */
static bool next_tensor(const sc_weight_layout *layout, const sc_type_info *type, int64_t *index)
{
    for (uint32_t i = layout->rank; i-- > 0;) {
        if (!layout->indexed[i])
            continue;
        if (++index[i] < type->dims[i].size)
            return true;
        index[i] = 0;
    }
    return false;
}

/* Without a line: one tensor named like the parameter, with its own layout. */
static void name_after_path(const sc_module *m, uint32_t state, sc_weight_tensors *out)
{
    const sc_type_info *type = &m->types.data[m->state.data[state].type];
    *out = (sc_weight_tensors){.layout = {.rank = type->rank, .elements = 1}, .count = 1};
    out->names = sc_arena_array(&m->context->arena, 1, sizeof *out->names);
    out->names[0] = m->state.data[state].path;
    for (uint32_t i = type->rank; i-- > 0;) {
        out->layout.strides[i] = out->layout.elements;
        out->layout.elements *= type->dims[i].size;
        out->layout.boundaries[out->layout.boundary_count++] = out->layout.elements;
    }
}

bool sc_weights_tensors(sc_declarations *program, const sc_weights *weights, const sc_wmap *line,
                        const sc_module *m, uint32_t state, sc_weight_tensors *out)
{
    sc_context *context = m->context;
    const sc_type_info *type = &m->types.data[m->state.data[state].type];
    int64_t index[SC_MAX_RANK] = {0}, count = 1;
    *out = (sc_weight_tensors){.count = 0};
    if (line == NULL) {
        name_after_path(m, state, out);
        return true;
    }
    if (!sc_wmap_layout(program, line, m, state, &out->layout))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (out->layout.indexed[i] && __builtin_mul_overflow(count, type->dims[i].size, &count))
            count = INT64_MAX;
    }
    if (count > MOST_TENSORS) {
        sc_report(&context->diag, SC_D_weights_file, line->loc,
                  sc_arena_printf(&context->arena,
                                  "a parameter may be spread over %d tensors at most",
                                  MOST_TENSORS),
                  NULL);
        return false;
    }
    out->names = sc_arena_array(&context->arena, (size_t)count, sizeof *out->names);
    do {
        if (!sc_wmap_tensor_name(program, line, weights->model.text, m, state, index,
                                 &out->names[out->count++]))
            return false;
    } while (next_tensor(&out->layout, type, index));
    return true;
}
