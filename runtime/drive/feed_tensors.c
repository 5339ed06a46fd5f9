/* Opens and checks the tensors of --input NAME=FILE[:TENSOR]. */
#include <string.h>
#include <unistd.h>

#include "runtime/drive/feed_internal.h"
#include "runtime/session/shard.h"
#include "support/none.h"
#include "support/strbuf.h"

/* Splits FILE:TENSOR. Paths may contain colons: if the whole text names an existing file, it is the
 * path. */
static const char *split_tensor(sc_feeding *f, const char *text, const char **tensor)
{
    const char *colon = strrchr(text, ':');
    *tensor = NULL;
    if (colon == NULL || access(text, F_OK) == 0)
        return text;
    *tensor = colon + 1;
    return sc_arena_copy_text(&f->context->arena, text, (size_t)(colon - text));
}

static const char *list_tensors(sc_feeding *f, const sc_safetensors *file)
{
    enum { MOST = 16 };
    sc_strbuf text;
    sc_strbuf_init(&text, &f->context->arena);
    size_t count = sc_safetensors_count(file);
    for (size_t i = 0; i < count && i < MOST; i++)
        sc_strbuf_printf(&text, "%s%s", i > 0 ? ", " : "", sc_safetensors_at(file, i)->name);
    sc_strbuf_add(&text, count > MOST ? ", .." : "");
    return count == 0 ? "none" : text.data;
}

/* Returns the named tensor, or the file's only one, or the one with the input's name. */
static const sc_safetensor *choose_tensor(sc_feeding *f, const sc_safetensors *file,
                                          const char *path, const char *name, const char *input)
{
    const sc_safetensor *found = name != NULL ? sc_safetensors_find(file, name)
                                 : sc_safetensors_count(file) == 1
                                     ? sc_safetensors_at(file, 0)
                                     : sc_safetensors_find(file, input);
    if (found == NULL)
        sc_feeding_report(f,
                          sc_arena_printf(&f->context->arena,
                                          "%s has no tensor '%s' for input '%s'; it has %s%s", path,
                                          name != NULL ? name : input, input, list_tensors(f, file),
                                          name != NULL ? "" : "; say which with :TENSOR"));
    return found;
}

static bool kind_fits(sc_dtype_kind kind, sc_element element)
{
    bool is_float = element == SC_ELEMENT_F64 || element == SC_ELEMENT_F32 ||
                    element == SC_ELEMENT_BF16 || element == SC_ELEMENT_F16;
    return kind == SC_DTYPE_FLOAT ? is_float
           : kind == SC_DTYPE_INT ? !is_float && element != SC_ELEMENT_BOOL
                                  : !is_float;
}

static bool has_sizes(const sc_safetensor *tensor, uint32_t first, const int64_t *sizes,
                      uint32_t rank)
{
    bool same = tensor->rank == rank + first;
    for (uint32_t i = 0; same && i < rank; i++)
        same = tensor->shape[first + i] == (uint64_t)sizes[i];
    return same;
}

/* True if the tensor's dims from `first` on are the input's, with composite dims as one axis or as
 * their parts. */
static bool has_shape(const sc_fact_input *input, const sc_safetensor *tensor, uint32_t first)
{
    return has_sizes(tensor, first, input->type.sizes, input->type.rank) ||
           has_sizes(tensor, first, input->sizes, input->rank);
}

static bool check_tensor(sc_feeding *f, uint32_t input, const sc_safetensor *tensor,
                         bool *is_stepped)
{
    const sc_fact_input *about = sc_feeding_input(f, input);
    sc_arena *arena = &f->context->arena;
    *is_stepped = f->feed->order == SC_FEED_TRAINING && has_shape(about, tensor, 1);
    bool same = has_shape(about, tensor, 0) || *is_stepped;
    if (!same) {
        sc_strbuf shape;
        sc_strbuf_init(&shape, arena);
        for (uint32_t i = 0; i < tensor->rank; i++)
            sc_strbuf_printf(&shape, "%s%llu", i > 0 ? ", " : "",
                             (unsigned long long)tensor->shape[i]);
        sc_feeding_report(f,
                          sc_arena_printf(arena, "tensor '%s' has shape [%s], but input '%s' is %s",
                                          tensor->name, shape.data == NULL ? "" : shape.data,
                                          f->feed->names[input], about->type.text));
        if (f->feed->order == SC_FEED_TRAINING)
            sc_report_note(&f->context->diag, (sc_loc){0},
                           "or that with a dim for steps before it");
    } else if (!kind_fits(sc_dtypes[about->dtype].kind, tensor->element)) {
        same = false;
        sc_feeding_report(f, sc_arena_printf(arena, "tensor '%s' holds %s, but input '%s' is %s",
                                             tensor->name, sc_element_name(tensor->element),
                                             f->feed->names[input], sc_dtypes[about->dtype].name));
    }
    return same;
}

static bool read_values(sc_context *context, double *values, uint64_t count,
                        const sc_safetensors *file, const sc_safetensor *tensor, uint64_t first)
{
    const char *reason;
    if (sc_safetensors_read(file, tensor, first, count, values, &reason))
        return true;
    sc_report(&context->diag, SC_D_bad_data, (sc_loc){0},
              sc_arena_printf(&context->arena, "%s: tensor '%s' cannot be read: %s",
                              sc_safetensors_label(file, tensor), tensor->name, reason),
              NULL);
    return false;
}

/* Reports those of the first `count` elements that the input's dtype cannot represent. */
static void check_values(sc_feeding *f, uint32_t input, const sc_safetensors *file,
                         const sc_safetensor *tensor, uint64_t count)
{
    enum { AT_ONCE = 1024 };
    double values[AT_ONCE];
    sc_dtype dtype = sc_feeding_input(f, input)->dtype;
    if (sc_dtype_is_float(dtype))
        return;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t left = count - i;
        int64_t stored; /* large enough for any element */
        if (i % AT_ONCE == 0 &&
            !read_values(f->context, values, left < AT_ONCE ? left : AT_ONCE, file, tensor, i))
            return;
        if (sc_element_store(sc_element_of_dtype(dtype), &stored, 0, values[i % AT_ONCE]))
            continue;
        sc_feeding_report(
            f, sc_arena_printf(&f->context->arena,
                               "element %llu of tensor '%s' is %.17g, which %s cannot hold",
                               (unsigned long long)i, tensor->name, values[i % AT_ONCE],
                               sc_dtypes[dtype].name));
        return;
    }
}

/* Takes ownership of the file, which stays open while steps are read from it. */
static void feed_steps(sc_feeding *f, uint32_t input, sc_safetensors *file,
                       const sc_safetensor *tensor)
{
    uint64_t held = tensor->shape[0], wanted = (uint64_t)f->options->steps;
    f->feed->steps[input] = (sc_feed_steps){file, tensor};
    if (held < wanted)
        sc_feeding_report(
            f, sc_arena_printf(
                   &f->context->arena,
                   "tensor '%s' holds %llu steps for input '%s', but --steps asks for %llu",
                   tensor->name, (unsigned long long)held, f->feed->names[input],
                   (unsigned long long)wanted));
    else
        check_values(f, input, file, tensor, wanted * (uint64_t)f->feed->arrays[input].count);
}

static void report_safetensors(sc_feeding *f, const sc_safetensors_error *error)
{
    for (const char *line = error->text; *line != 0;) {
        size_t length = strcspn(line, "\n");
        sc_feeding_report(f, sc_arena_copy_text(&f->context->arena, line, length));
        line += length + (line[length] == '\n');
    }
}

static uint32_t find_input(sc_feeding *f, const char *name)
{
    for (uint32_t i = 0; i < f->feed->count; i++) {
        if (strcmp(f->feed->names[i], name) == 0)
            return i;
    }
    const char *near = sc_nearest(name, f->feed->names, f->feed->count), *entry = f->entry->name;
    const char *hint =
        near == NULL ? "" : sc_arena_printf(&f->context->arena, "; did you mean '%s'?", near);
    sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
              sc_arena_printf(&f->context->arena, "'%s' has no input '%s'%s", entry, name, hint),
              NULL);
    return SC_NONE;
}

void sc_feed_tensor(sc_feeding *f, const sc_named_text *given)
{
    sc_safetensors_error error = {0};
    const char *tensor_name, *path = split_tensor(f, given->value, &tensor_name);
    uint32_t input = find_input(f, given->name);
    if (input == SC_NONE)
        return;
    if (f->feed->arrays[input].data != NULL) {
        sc_report(&f->context->diag, SC_D_usage, (sc_loc){0},
                  sc_arena_printf(&f->context->arena, "input '%s' is given twice", given->name),
                  NULL);
        return;
    }
    sc_safetensors *file = sc_safetensors_open(path, &error);
    if (file == NULL) {
        report_safetensors(f, &error);
        return;
    }
    const sc_safetensor *tensor = choose_tensor(f, file, path, tensor_name, given->name);
    bool is_stepped = false, fits = tensor != NULL && check_tensor(f, input, tensor, &is_stepped);
    if (!sc_feeding_reserve(f, input) || !fits) {
        sc_safetensors_close(file);
    } else if (is_stepped) {
        feed_steps(f, input, file, tensor);
    } else {
        check_values(f, input, file, tensor, tensor->count);
        read_values(f->context, f->feed->arrays[input].data, tensor->count, file, tensor, 0);
        sc_safetensors_close(file);
    }
}
