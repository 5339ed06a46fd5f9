#include "tools/load_weights.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/weights_map.h"
#include "runtime/safetensors.h"
#include "support/strbuf.h"

enum { MOST_TENSORS = 1 << 20 }; /* that one parameter may be spread over */

/* Where a parameter comes from. */
typedef struct source {
    const sc_wmap *line;
    sc_weight_layout layout;
    uint32_t tensor_count; /* one, or one an index of the dims in the tensor's name, the last of them fastest */
    const sc_safetensor **tensors;
} source;

typedef struct loading {
    sc_context *context;
    sc_program *program;
    const sc_weights *weights;
    const sc_module *m;
    sc_safetensors *file;
    const char *path;
    source *sources;    /* by state */
    const char **names; /* of all tensors; made when one is missing */
} loading;

const sc_weights *sc_weights_choose(sc_context *context, sc_program *program, sc_sym model, const char *name)
{
    sc_weights_list all = {0};
    const sc_weights *only = NULL;
    uint32_t count = 0;
    sc_strbuf list;
    sc_strbuf_init(&list, &context->arena);
    sc_program_weights(program, &all);
    for (uint32_t i = 0; i < all.count; i++) {
        const sc_weights *weights = all.data[i];
        const char *text = sc_text(context, weights->name.text);
        if (weights->model.text != model)
            continue;
        if (name != NULL && strcmp(text, name) == 0)
            return weights;
        sc_strbuf_printf(&list, "%s%s", count++ > 0 ? ", " : "", text);
        only = weights;
    }
    if (name == NULL && count == 1)
        return only;
    const char *model_text = sc_text(context, model), *problem;
    if (count == 0)
        problem =
            sc_arena_printf(&context->arena, "there is no 'weights' block for '%s' that says which tensor each parameter is", model_text);
    else if (name == NULL)
        problem =
            sc_arena_printf(&context->arena, "'%s' has several 'weights' blocks: %s; choose one with --map NAME", model_text, list.data);
    else
        problem =
            sc_arena_printf(&context->arena, "there is no 'weights' block '%s' for '%s'; the file has %s", name, model_text, list.data);
    sc_report(&context->diag, SC_D_usage, (sc_loc){0}, problem, NULL);
    return NULL;
}

/* ---- lines ---- */

static bool is_param(const loading *l, uint32_t state)
{
    return l->m->state.data[state].kind == SC_STATE_PARAM;
}

/* Instances of one declaration are one message. */
static void report_without_line(loading *l, uint32_t state)
{
    sc_context *context = l->context;
    const sc_state *first = &l->m->state.data[state];
    uint32_t others = 0;
    for (uint32_t i = 0; i < l->m->state.count; i++) {
        bool is_same = i != state && is_param(l, i) && l->sources[i].line == NULL && l->m->state.data[i].loc.begin == first->loc.begin;
        if (is_same && i < state && first->loc.begin != 0)
            return;
        others += is_same;
    }
    const char *more = others > 0 ? sc_arena_printf(&context->arena, " (and %u more instances)", others) : "";
    sc_report(&context->diag, SC_D_bad_weights, l->weights->name.loc,
              sc_arena_printf(&context->arena, "parameter '%s'%s has no line in 'weights %s'", sc_text(context, first->path), more,
                              sc_text(context, l->weights->name.text)),
              NULL);
    sc_report_note(&context->diag, first->loc, "it is declared here");
}

static void find_lines(loading *l)
{
    for (uint32_t i = 0; i < l->m->state.count; i++) {
        if (is_param(l, i))
            l->sources[i].line = sc_weights_find(l->context, l->weights, l->m->state.data[i].path);
    }
    for (uint32_t i = 0; i < l->m->state.count; i++) {
        if (is_param(l, i) && l->sources[i].line == NULL)
            report_without_line(l, i);
    }
}

/* ---- tensors ---- */

static const char *shape_text(sc_arena *arena, uint32_t rank, const uint64_t *shape)
{
    sc_strbuf text;
    sc_strbuf_init(&text, arena);
    sc_strbuf_add_char(&text, '[');
    for (uint32_t i = 0; i < rank; i++)
        sc_strbuf_printf(&text, "%s%llu", i > 0 ? ", " : "", (unsigned long long)shape[i]);
    sc_strbuf_add_char(&text, ']');
    return text.data;
}

static int64_t size_in(const loading *l, const sc_type_info *type, sc_sym name)
{
    sc_dim dim = sc_module_find_dim(l->m, name);
    int64_t size = 1;
    if (dim == SC_NONE)
        return 0;
    const sc_dim_info *info = &l->m->dims.data[dim];
    for (uint32_t i = 0; i < (info->part_count > 0 ? info->part_count : 1); i++) {
        int at = sc_type_find_dim(type, info->part_count > 0 ? info->parts[i] : dim);
        size *= at < 0 ? 0 : type->dims[at].size;
    }
    return size;
}

/* [D=64, 0 of 3, H=4]: what the line says. */
static const char *wanted_text(const loading *l, uint32_t state)
{
    const source *from = &l->sources[state];
    const sc_type_info *type = &l->m->types.data[l->m->state.data[state].type];
    sc_strbuf text;
    sc_strbuf_init(&text, &l->context->arena);
    sc_strbuf_add_char(&text, '[');
    for (uint32_t i = 0; i < from->line->as.count; i++) {
        const sc_wdim *dim = &from->line->as.data[i];
        sc_strbuf_add(&text, i > 0 ? ", " : "");
        if (dim->kind == SC_WDIM_NAME)
            sc_strbuf_printf(&text, "%s=%lld", sc_text(l->context, dim->dim.text), (long long)size_in(l, type, dim->dim.text));
        else if (dim->first == dim->last)
            sc_strbuf_printf(&text, "part %lld", (long long)dim->first);
        else
            sc_strbuf_printf(&text, "parts %lld..%lld", (long long)dim->first, (long long)dim->last);
    }
    for (uint32_t i = 0, written = 0; !from->line->has_as && i < type->rank; i++) {
        if (!from->layout.indexed[i])
            sc_strbuf_printf(&text, "%s%s=%lld", written++ > 0 ? ", " : "", sc_text(l->context, l->m->dims.data[type->dims[i].dim].name),
                             (long long)type->dims[i].size);
    }
    sc_strbuf_add_char(&text, ']');
    return text.data;
}

static const char *nearest_tensor(loading *l, const char *name)
{
    size_t count = sc_safetensors_count(l->file);
    if (l->names == NULL) {
        l->names = sc_arena_array(&l->context->arena, count, sizeof *l->names);
        for (size_t i = 0; i < count; i++)
            l->names[i] = sc_safetensors_at(l->file, i)->name;
    }
    const char *near = sc_nearest(name, l->names, count);
    return near == NULL ? "" : sc_arena_printf(&l->context->arena, "; did you mean '%s'?", near);
}

static void report_tensor(loading *l, uint32_t state, const char *text)
{
    sc_report(&l->context->diag, SC_D_weights_file, l->sources[state].line->loc, text, NULL);
}

static bool is_float(sc_element element)
{
    return element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 || element == SC_ELEMENT_BF16 || element == SC_ELEMENT_F16;
}

static void check_tensor(loading *l, uint32_t state, const char *name, const sc_safetensor *tensor)
{
    sc_arena *arena = &l->context->arena;
    const char *path = sc_text(l->context, l->m->state.data[state].path);
    int64_t sizes[SC_MAX_WEIGHT_DIMS];
    if (tensor == NULL) {
        report_tensor(l, state, sc_arena_printf(arena, "%s has no tensor '%s' for '%s'%s", l->path, name, path, nearest_tensor(l, name)));
        return;
    }
    bool fits = tensor->rank <= SC_MAX_WEIGHT_DIMS;
    for (uint32_t i = 0; fits && i < tensor->rank; i++) {
        fits = tensor->shape[i] <= INT64_MAX;
        sizes[i] = (int64_t)tensor->shape[i];
    }
    if (!fits || !sc_weight_layout_fits(&l->sources[state].layout, tensor->rank, sizes))
        report_tensor(l, state,
                      sc_arena_printf(arena, "tensor '%s' has shape %s, but '%s' needs %s of %lld elements (neighbours may be merged)",
                                      name, shape_text(arena, tensor->rank, tensor->shape), path, wanted_text(l, state),
                                      (long long)l->sources[state].layout.elements));
    else if (!is_float(tensor->element) && sc_dtype_is_float(l->m->types.data[l->m->state.data[state].type].dtype))
        report_tensor(l, state,
                      sc_arena_printf(arena, "tensor '%s' for '%s' holds %s, not floats", name, path, sc_element_name(tensor->element)));
}

/* The next index of the dims that the tensor's name holds; false after the last. */
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

static void find_tensors(loading *l, uint32_t state)
{
    source *from = &l->sources[state];
    const sc_type_info *type = &l->m->types.data[l->m->state.data[state].type];
    int64_t index[SC_MAX_RANK] = {0}, count = 1;
    if (!sc_wmap_layout(l->program, from->line, l->m, state, &from->layout))
        return;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (from->layout.indexed[i] && __builtin_mul_overflow(count, type->dims[i].size, &count))
            count = INT64_MAX;
    }
    if (count > MOST_TENSORS) {
        report_tensor(l, state, sc_arena_printf(&l->context->arena, "a parameter may be spread over %d tensors at most", MOST_TENSORS));
        return;
    }
    from->tensors = sc_arena_array(&l->context->arena, (size_t)count, sizeof *from->tensors);
    do {
        sc_sym name;
        if (!sc_wmap_tensor_name(l->program, from->line, l->weights->model.text, l->m, state, index, &name))
            return;
        const char *text = sc_text(l->context, name);
        from->tensors[from->tensor_count] = sc_safetensors_find(l->file, text);
        check_tensor(l, state, text, from->tensors[from->tensor_count++]);
    } while (next_tensor(&from->layout, type, index));
}

/* ---- values ---- */

static void read_values(const source *from, const sc_type_info *type, double *values)
{
    const sc_weight_layout *layout = &from->layout;
    int64_t index[SC_MAX_RANK] = {0}, count = sc_type_elements(type);
    for (int64_t e = 0; e < count; e++) {
        int64_t at = layout->offset;
        uint64_t tensor = 0;
        for (uint32_t i = 0; i < type->rank; i++) {
            at += index[i] * layout->strides[i];
            tensor = layout->indexed[i] ? tensor * (uint64_t)type->dims[i].size + (uint64_t)index[i] : tensor;
        }
        values[e] = sc_safetensor_value(from->tensors[tensor], (uint64_t)at);
        for (uint32_t i = type->rank; i-- > 0 && ++index[i] == type->dims[i].size;)
            index[i] = 0;
    }
}

static bool give_values(loading *l, sc_weights_sink *sink, void *user)
{
    for (uint32_t i = 0; i < l->m->state.count; i++) {
        const sc_type_info *type = &l->m->types.data[l->m->state.data[i].type];
        int64_t count = sc_type_elements(type);
        if (!is_param(l, i))
            continue;
        double *values = (uint64_t)count > SIZE_MAX / sizeof *values ? NULL : malloc((size_t)count * sizeof *values);
        if (values != NULL)
            read_values(&l->sources[i], type, values);
        bool ok = values != NULL && sink(user, i, values);
        free(values);
        if (!ok) {
            sc_report(&l->context->diag, SC_D_run_failed, (sc_loc){0}, "there is not enough memory for the parameters", NULL);
            return false;
        }
    }
    return true;
}

static void report_file(sc_context *context, const sc_safetensors_error *error)
{
    for (const char *line = error->text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        sc_report(&context->diag, SC_D_weights_file, (sc_loc){0}, sc_arena_copy_text(&context->arena, line, length), NULL);
        line += length + (line[length] == '\n');
    }
}

bool sc_weights_load(sc_context *context, sc_program *program, const sc_weights *weights, const sc_module *m, const char *path,
                     sc_weights_sink *sink, void *user)
{
    sc_safetensors_error error = {0};
    uint32_t errors = context->diag.errors;
    loading l = {.context = context, .program = program, .weights = weights, .m = m, .path = path};
    l.sources = sc_arena_array(&context->arena, m->state.count + 1u, sizeof *l.sources);
    find_lines(&l);
    l.file = sc_safetensors_open(path, &error);
    if (l.file == NULL) {
        report_file(context, &error);
        return false;
    }
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (l.sources[i].line != NULL)
            find_tensors(&l, i);
    }
    bool ok = context->diag.errors == errors && give_values(&l, sink, user);
    sc_safetensors_close(l.file);
    return ok;
}
