#include "runtime/drive/load_weights.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/safetensors.h"
#include "support/strbuf.h"

typedef struct loading {
    sc_context *context;
    const sc_fact_weights *weights;
    sc_safetensors *file;
    const char *path;
    const sc_safetensor ***tensors; /* by parameter, as its facts name them */
    const char **names;             /* of all tensors; made when one is missing */
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

static void report_tensor(loading *l, const sc_fact_param *param, const char *text)
{
    sc_report(&l->context->diag, SC_D_weights_file, param->loc, text, NULL);
}

static bool is_float(sc_element element)
{
    return element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 || element == SC_ELEMENT_BF16 || element == SC_ELEMENT_F16;
}

static void check_tensor(loading *l, const sc_fact_param *param, const char *name, const sc_safetensor *tensor)
{
    sc_arena *arena = &l->context->arena;
    const char *path = param->path;
    int64_t sizes[SC_MAX_WEIGHT_DIMS];
    if (tensor == NULL) {
        const char *rule = !l->weights->has_block ? " (without a 'weights' block tensors are called like parameters)" : "";
        report_tensor(l, param,
                      sc_arena_printf(arena, "%s has no tensor '%s' for '%s'%s%s", l->path, name, path, rule, nearest_tensor(l, name)));
        return;
    }
    bool fits = tensor->rank <= SC_MAX_WEIGHT_DIMS;
    for (uint32_t i = 0; fits && i < tensor->rank; i++) {
        fits = tensor->shape[i] <= INT64_MAX;
        sizes[i] = (int64_t)tensor->shape[i];
    }
    if (!fits || !sc_weight_layout_fits(&param->layout, tensor->rank, sizes))
        report_tensor(l, param,
                      sc_arena_printf(arena, "tensor '%s' has shape %s, but '%s' needs %s of %lld elements (neighbours may be merged)",
                                      name, shape_text(arena, tensor->rank, tensor->shape), path, param->wanted,
                                      (long long)param->layout.elements));
    else if (!is_float(tensor->element) && sc_dtype_is_float(param->dtype))
        report_tensor(l, param,
                      sc_arena_printf(arena, "tensor '%s' for '%s' holds %s, not floats", name, path, sc_element_name(tensor->element)));
}

static void find_tensors(loading *l, uint32_t index)
{
    const sc_fact_param *param = &l->weights->params[index];
    l->tensors[index] = sc_arena_array(&l->context->arena, param->tensor_count, sizeof *l->tensors[index]);
    for (uint32_t i = 0; i < param->tensor_count; i++) {
        l->tensors[index][i] = sc_safetensors_find(l->file, param->tensors[i]);
        check_tensor(l, param, param->tensors[i], l->tensors[index][i]);
    }
}

/* ---- values ---- */

static void read_values(const sc_fact_param *param, const sc_safetensor **tensors, double *values, int64_t count)
{
    sc_weight_place place = {{0}};
    for (int64_t e = 0; e < count; e++, sc_weight_next(&param->layout, param->sizes, &place)) {
        const sc_safetensor *tensor = tensors[sc_weight_tensor(&param->layout, param->sizes, &place)];
        values[e] = sc_safetensor_value(tensor, (uint64_t)sc_weight_element(&param->layout, &place));
    }
}

static bool give_values(loading *l, sc_weights_sink *sink, void *user)
{
    for (uint32_t i = 0; i < l->weights->count; i++) {
        const sc_fact_param *param = &l->weights->params[i];
        sc_array array = sc_array_new(param->rank, param->sizes);
        if (array.data != NULL)
            read_values(param, l->tensors[i], array.data, array.count);
        bool ok = array.data != NULL && sink(user, i, array.data);
        sc_array_free(&array);
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

/* A state is a folder, too, but its tensors are laid out and named for going on. */
static bool is_state(sc_context *context, const char *path)
{
    static const char *const files[] = {"state.json", "latest"};
    bool found = false;
    for (size_t i = 0; i < sizeof files / sizeof *files && !found; i++)
        found = access(sc_arena_printf(&context->arena, "%s/%s", path, files[i]), F_OK) == 0;
    if (found)
        sc_report(&context->diag, SC_D_weights_file, (sc_loc){0},
                  sc_arena_printf(&context->arena,
                                  "%s is the state of a training run, not weights: 'train --resume %s --save FILE' writes its parameters",
                                  path, path),
                  NULL);
    return found;
}

bool sc_weights_load(sc_context *context, const sc_fact_weights *weights, const char *path, sc_weights_sink *sink, void *user)
{
    sc_safetensors_error error = {0};
    uint32_t errors = context->diag.errors;
    loading l = {.context = context, .weights = weights, .path = path};
    l.tensors = sc_arena_array(&context->arena, weights->count + 1u, sizeof *l.tensors);
    if (is_state(context, path))
        return false;
    l.file = sc_safetensors_open(path, &error);
    if (l.file == NULL) {
        report_file(context, &error);
        return false;
    }
    for (uint32_t i = 0; i < weights->count; i++)
        find_tensors(&l, i);
    bool ok = weights->is_complete && context->diag.errors == errors && give_values(&l, sink, user);
    sc_safetensors_close(l.file);
    return ok;
}
