#include "tools/load_weights.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/safetensors.h"
#include "support/strbuf.h"

/* Where a parameter comes from. */
typedef struct source {
    const sc_wmap *line; /* NULL: no parameter, or none is known */
    sc_weight_tensors named;
    const sc_safetensor **tensors; /* as named */
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
    for (uint32_t i = 0; from->line != NULL && i < from->line->as.count; i++) {
        const sc_wdim *dim = &from->line->as.data[i];
        sc_strbuf_add(&text, i > 0 ? ", " : "");
        if (dim->kind == SC_WDIM_NAME)
            sc_strbuf_printf(&text, "%s=%lld", sc_text(l->context, dim->dim.text), (long long)size_in(l, type, dim->dim.text));
        else if (dim->first == dim->last)
            sc_strbuf_printf(&text, "part %lld", (long long)dim->first);
        else
            sc_strbuf_printf(&text, "parts %lld..%lld", (long long)dim->first, (long long)dim->last);
    }
    for (uint32_t i = 0, written = 0; (from->line == NULL || !from->line->has_as) && i < type->rank; i++) {
        if (!from->named.layout.indexed[i])
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
    sc_report(&l->context->diag, SC_D_weights_file, l->sources[state].line == NULL ? l->m->state.data[state].loc : l->sources[state].line->loc, text, NULL);
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
        const char *rule = l->weights == NULL ? " (without a 'weights' block tensors are called like parameters)" : "";
        report_tensor(l, state,
                      sc_arena_printf(arena, "%s has no tensor '%s' for '%s'%s%s", l->path, name, path, rule, nearest_tensor(l, name)));
        return;
    }
    bool fits = tensor->rank <= SC_MAX_WEIGHT_DIMS;
    for (uint32_t i = 0; fits && i < tensor->rank; i++) {
        fits = tensor->shape[i] <= INT64_MAX;
        sizes[i] = (int64_t)tensor->shape[i];
    }
    if (!fits || !sc_weight_layout_fits(&l->sources[state].named.layout, tensor->rank, sizes))
        report_tensor(l, state,
                      sc_arena_printf(arena, "tensor '%s' has shape %s, but '%s' needs %s of %lld elements (neighbours may be merged)",
                                      name, shape_text(arena, tensor->rank, tensor->shape), path, wanted_text(l, state),
                                      (long long)l->sources[state].named.layout.elements));
    else if (!is_float(tensor->element) && sc_dtype_is_float(l->m->types.data[l->m->state.data[state].type].dtype))
        report_tensor(l, state,
                      sc_arena_printf(arena, "tensor '%s' for '%s' holds %s, not floats", name, path, sc_element_name(tensor->element)));
}

static void find_tensors(loading *l, uint32_t state)
{
    source *from = &l->sources[state];
    if (!sc_weights_tensors(l->program, l->weights, from->line, l->m, state, &from->named))
        return;
    from->tensors = sc_arena_array(&l->context->arena, from->named.count, sizeof *from->tensors);
    for (uint32_t i = 0; i < from->named.count; i++) {
        const char *name = sc_text(l->context, from->named.names[i]);
        from->tensors[i] = sc_safetensors_find(l->file, name);
        check_tensor(l, state, name, from->tensors[i]);
    }
}

/* ---- values ---- */

static void read_values(const source *from, const sc_type_info *type, double *values)
{
    const sc_weight_layout *layout = &from->named.layout;
    sc_weight_place place = {{0}};
    int64_t count = sc_type_elements(type);
    for (int64_t e = 0; e < count; e++, sc_weight_next(type, &place)) {
        const sc_safetensor *tensor = from->tensors[sc_weight_tensor(layout, type, &place)];
        values[e] = sc_safetensor_value(tensor, (uint64_t)sc_weight_element(layout, &place));
    }
}

static bool give_values(loading *l, sc_weights_sink *sink, void *user)
{
    for (uint32_t i = 0; i < l->m->state.count; i++) {
        const sc_type_info *type = &l->m->types.data[l->m->state.data[i].type];
        int64_t count = sc_type_elements(type);
        if (l->m->state.data[i].kind != SC_STATE_PARAM)
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
    const sc_wmap **lines = weights == NULL ? NULL : sc_weights_lines(context, weights, m);
    for (uint32_t i = 0; i < m->state.count; i++)
        l.sources[i].line = lines == NULL ? NULL : lines[i];
    l.file = sc_safetensors_open(path, &error);
    if (l.file == NULL) {
        report_file(context, &error);
        return false;
    }
    for (uint32_t i = 0; i < m->state.count; i++) {
        if (l.sources[i].line != NULL || (weights == NULL && m->state.data[i].kind == SC_STATE_PARAM))
            find_tensors(&l, i);
    }
    bool ok = context->diag.errors == errors && give_values(&l, sink, user);
    sc_safetensors_close(l.file);
    return ok;
}
