/* Writes weights files from a checkpoint. A tensor is filled from the boxes of its parameters, read
 * in slabs, and written before the next one. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/drive/convert_state.h"
#include "runtime/drive/json.h"
#include "runtime/drive/save_weights.h"
#include "runtime/drive/state_reader.h"
#include "runtime/files/safetensors.h"
#include "runtime/session/shard.h"
#include "support/file.h"
#include "support/json.h"

enum { SLAB_BYTES = 1 << 20 };

#define INDEX_NAME "model.safetensors.index.json"

typedef struct exporting {
    sc_context *context;
    const sc_saved_state *saved;
    const sc_export_options *options;
    sc_weights_file *plan;
    sc_safetensors_item *items; /* by tensor, in the order of the files */
    uint32_t *files;            /* by tensor: the file it is in */
    uint32_t count, file_count;
    sc_state_reader *reader;
    uint32_t item; /* being filled */
    char *raw, *slab;
} exporting;

static bool failed(const exporting *e, const char *text)
{
    sc_report(&e->context->diag, SC_D_run_failed, (sc_loc){0}, text, NULL);
    return false;
}

static bool unwritten(const exporting *e, const char *path, const char *reason)
{
    sc_report(&e->context->diag, SC_D_cannot_write, (sc_loc){0}, path,
              sc_arena_printf(&e->context->arena, "%s", reason), NULL);
    return false;
}

static uint64_t bytes_of(const sc_safetensors_item *item)
{
    uint64_t bytes = sc_element_size(item->element);
    for (uint32_t d = 0; d < item->rank; d++)
        bytes *= item->shape[d];
    return bytes;
}

/* ---- filling a tensor ---- */

#define SCATTER(type)                                                                              \
    for (int64_t i = 0; i < count; i++)                                                            \
        memcpy(to + i * stride * (int64_t)sizeof(type), from + i * (int64_t)sizeof(type),          \
               sizeof(type));

static void scatter(size_t size, const char *from, char *to, int64_t stride, int64_t count)
{
    if (stride == 1)
        memcpy(to, from, (size_t)count * size);
    else if (size == 4)
        SCATTER(uint32_t)
    else if (size == 2)
        SCATTER(uint16_t)
    else if (size == 8)
        SCATTER(uint64_t)
    else
        SCATTER(uint8_t)
}

/* Stores the rows of a slab, which is dense, at their elements of the tensor. */
static void store_slab(const exporting *e, const sc_fact_param *param, const sc_shard_place *slab)
{
    size_t size = sc_element_size(e->items[e->item].element);
    bool has_row = slab->rank > 0 && !param->layout.indexed[slab->rank - 1];
    uint32_t outer = has_row ? slab->rank - 1 : slab->rank;
    int64_t length = has_row ? slab->sizes[outer] : 1,
            stride = has_row ? param->layout.strides[outer] : 1, rows = 1;
    for (uint32_t d = 0; d < outer; d++)
        rows *= slab->sizes[d];
    for (int64_t row = 0; row < rows; row++) {
        sc_weight_place place = {{0}};
        int64_t rest = row;
        memcpy(place.index, slab->first, slab->rank * sizeof *slab->first);
        for (uint32_t d = outer; d-- > 0;) {
            place.index[d] += rest % slab->sizes[d];
            rest /= slab->sizes[d];
        }
        scatter(size, e->slab + (size_t)(row * length) * size,
                e->raw + (size_t)sc_weight_element(&param->layout, &place) * size, stride, length);
    }
}

/* Cuts the box to as many indices of its first dims as fit, from dim `at` on one index each before
 * it. Returns the dim that is cut. */
static uint32_t cut_slab(const sc_shard_place *box, size_t size, int64_t *most)
{
    int64_t inner = 1, fit = SLAB_BYTES / (int64_t)size;
    uint32_t at = box->rank;
    while (at > 0 && inner * box->sizes[at - 1] <= fit)
        inner *= box->sizes[--at];
    *most = at == 0 ? 1 : fit / inner;
    return at;
}

static bool read_slab(exporting *e, const sc_fact_param *param, const sc_saved_tensor *tensor,
                      sc_shard_place *slab)
{
    memcpy(slab->local, slab->sizes, sizeof slab->local);
    if (!sc_state_reader_box(e->reader, tensor, slab, e->items[e->item].element, e->slab))
        return false;
    store_slab(e, param, slab);
    return true;
}

/* Reads a box slab by slab. */
static bool read_slabs(exporting *e, const sc_fact_param *param, const sc_saved_tensor *tensor,
                       const sc_shard_place *box)
{
    int64_t most, outer = 1;
    uint32_t at = cut_slab(box, sc_element_size(e->items[e->item].element), &most);
    for (uint32_t d = 0; d + 1 < at; d++)
        outer *= box->sizes[d];
    int64_t cuts = at == 0 ? 1 : (box->sizes[at - 1] + most - 1) / most;
    for (int64_t part = 0; part < outer * cuts; part++) {
        sc_shard_place slab = *box;
        int64_t rest = part / cuts;
        for (uint32_t d = at == 0 ? 0 : at - 1; d-- > 0;) {
            slab.first[d] = box->first[d] + rest % box->sizes[d];
            slab.sizes[d] = 1;
            rest /= box->sizes[d];
        }
        if (at > 0) {
            int64_t first = part % cuts * most, left = box->sizes[at - 1] - first;
            slab.first[at - 1] = box->first[at - 1] + first;
            slab.sizes[at - 1] = left < most ? left : most;
        }
        if (!read_slab(e, param, tensor, &slab))
            return false;
    }
    return true;
}

static bool fill_part(void *user, const sc_fact_param *param, uint32_t which)
{
    exporting *e = user;
    const sc_saved_tensor *tensor =
        sc_saved_tensor_for(e->context, &e->saved->index, param->path, e->items[e->item].element);
    sc_shard_place box = {.rank = param->rank};
    for (uint32_t d = param->rank; d-- > 0;) {
        box.sizes[d] = param->layout.indexed[d] ? 1 : param->sizes[d];
        if (param->layout.indexed[d]) {
            box.first[d] = which % param->sizes[d];
            which /= (uint32_t)param->sizes[d];
        }
    }
    return read_slabs(e, param, tensor, &box);
}

/* ---- planning ---- */

/* The parameters get the dtypes that they have in the checkpoint, or that of the options. */
static bool take_dtypes(sc_context *context, const sc_saved_state *saved, sc_dtype dtype,
                        sc_fact_weights *weights)
{
    for (uint32_t i = 0; i < weights->count; i++) {
        sc_fact_param *param = &weights->params[i];
        const sc_saved_tensor *tensor = sc_saved_tensor_for(context, &saved->index, param->path,
                                                            sc_element_of_dtype(param->dtype));
        const uint32_t *own =
            sc_map_find(&saved->index.by_name, sc_intern_text(&context->names, param->path));
        if (tensor == NULL || own == NULL)
            return sc_state_refuse(context, saved->path,
                                   sc_arena_printf(&context->arena, "it has no '%s'", param->path));
        bool fits = tensor->rank == param->rank;
        for (uint32_t d = 0; fits && d < param->rank; d++)
            fits = tensor->sizes[d] == param->sizes[d];
        if (!fits)
            return sc_state_refuse(
                context, saved->path,
                sc_arena_printf(&context->arena, "'%s' is not of this model's shape", param->path));
        for (int d = 0; d < SC_DTYPE_COUNT; d++) {
            if (sc_element_of_dtype((sc_dtype)d) == saved->index.tensors.data[*own].element)
                param->dtype = (sc_dtype)d;
        }
        if (dtype != SC_DTYPE_COUNT && sc_dtype_is_float(param->dtype))
            param->dtype = dtype;
    }
    return true;
}

static bool is_file(const char *path)
{
    size_t length = strlen(path), suffix = strlen(".safetensors");
    return length > suffix && strcmp(path + length - suffix, ".safetensors") == 0;
}

/* Distributes the tensors over files in order. */
static void plan_files(exporting *e)
{
    uint64_t bytes = 0;
    e->count = sc_weights_file_count(e->plan);
    e->items = sc_arena_array(&e->context->arena, e->count + 1u, sizeof *e->items);
    e->files = sc_arena_array(&e->context->arena, e->count + 1u, sizeof *e->files);
    e->file_count = 1;
    for (uint32_t i = 0; i < e->count; i++) {
        sc_weights_tensor tensor;
        sc_weights_file_tensor(e->plan, i, &tensor);
        e->items[i] = (sc_safetensors_item){.name = tensor.name,
                                            .element = tensor.element,
                                            .rank = tensor.rank,
                                            .shape = tensor.shape};
        uint64_t more = bytes_of(&e->items[i]);
        if (bytes > 0 && bytes + more > e->options->max_shard && !is_file(e->options->path)) {
            e->file_count++;
            bytes = 0;
        }
        bytes += more;
        e->files[i] = e->file_count - 1;
    }
}

static const char *file_name(const exporting *e, uint32_t file)
{
    return sc_arena_printf(&e->context->arena, "model-%05u-of-%05u.safetensors", file + 1,
                           e->file_count);
}

static const char *file_path(const exporting *e, uint32_t file)
{
    return is_file(e->options->path)
               ? e->options->path
               : sc_arena_printf(&e->context->arena, "%s/%s", e->options->path, file_name(e, file));
}

/* ---- writing ---- */

static bool write_tensor(exporting *e, uint32_t index, sc_safetensors_writer *writer)
{
    uint64_t bytes = bytes_of(&e->items[index]);
    e->item = index;
    e->raw = calloc((size_t)bytes + 1, 1);
    bool ok = e->raw != NULL || failed(e, "there is not enough memory for the largest tensor");
    ok = ok && sc_weights_file_parts(e->plan, index, fill_part, e);
    if (ok)
        sc_safetensors_add(writer, e->raw);
    free(e->raw);
    return ok;
}

static bool write_file(exporting *e, uint32_t file, uint32_t first, uint32_t end)
{
    /* Hugging Face readers require this key */
    static const sc_safetensors_pair metadata[] = {{"format", "pt"}};
    sc_safetensors_error error = {0};
    sc_safetensors_writer writer;
    const char *path = file_path(e, file);
    bool is_open =
        sc_safetensors_create(&writer, path, e->items + first, end - first, metadata, 1, &error);
    bool ok = is_open;
    for (uint32_t i = first; i < end; i++) {
        if (ok)
            ok = write_tensor(e, i, &writer);
    }
    ok = is_open && sc_safetensors_end(&writer, ok);
    if (error.count == 0)
        return ok;
    error.text[strcspn(error.text, "\n")] = 0;
    return unwritten(e, path, error.text);
}

/* Written last: a folder with an index is complete. */
static bool write_index(exporting *e, uint64_t total)
{
    const char *reason,
        *path = sc_arena_printf(&e->context->arena, "%s/" INDEX_NAME, e->options->path);
    json_t *map = json_object(), *root;
    for (uint32_t i = 0; i < e->count; i++)
        json_object_set_new(map, e->items[i].name, json_string(file_name(e, e->files[i])));
    root =
        json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)total, "weight_map", map);
    char *text = sc_json_write(root, JSON_INDENT(1) | JSON_SORT_KEYS);
    json_decref(root);
    bool ok = text != NULL && sc_file_write(path, text, strlen(text), 0666, &reason);
    free(text);
    return ok || unwritten(e, path, text == NULL ? "there is not enough memory" : reason);
}

static bool has_weights(const exporting *e)
{
    struct stat about;
    const char *path = sc_arena_printf(&e->context->arena, "%s/" INDEX_NAME, e->options->path);
    return stat(path, &about) == 0;
}

static bool make_folder(exporting *e)
{
    struct stat about;
    if (is_file(e->options->path))
        return true;
    if (mkdir(e->options->path, 0777) != 0 &&
        (errno != EEXIST || stat(e->options->path, &about) != 0 || !S_ISDIR(about.st_mode)))
        return unwritten(e, e->options->path, strerror(errno));
    if (has_weights(e))
        return unwritten(e, e->options->path,
                         "it has weights already; remove them or choose another folder");
    return true;
}

static bool write_all(exporting *e, uint64_t *total)
{
    bool ok = true;
    for (uint32_t i = 0; i < e->count; i++)
        *total += bytes_of(&e->items[i]);
    for (uint32_t first = 0, end; first < e->count; first = end) {
        for (end = first + 1; end < e->count; end++) {
            if (e->files[end] != e->files[first])
                break;
        }
        if (ok)
            ok = write_file(e, e->files[first], first, end);
    }
    return ok && sc_state_reader_check(e->reader, NULL) &&
           (is_file(e->options->path) || write_index(e, *total));
}

bool sc_state_export(sc_context *context, const sc_fact_weights *weights,
                     const sc_saved_state *saved, const sc_export_options *options,
                     sc_export_report *out)
{
    exporting e = {.context = context, .saved = saved, .options = options};
    sc_fact_weights own = *weights;
    own.params = sc_arena_array(&context->arena, weights->count + 1u, sizeof *own.params);
    memcpy(own.params, weights->params, weights->count * sizeof *own.params);
    if (!take_dtypes(context, saved, options->dtype, &own) ||
        (e.plan = sc_weights_file_new(context, &own, NULL)) == NULL)
        return false;
    plan_files(&e);
    e.reader = sc_state_reader_new(context, saved->path, &saved->index);
    e.slab = malloc(SLAB_BYTES);
    bool ok = (e.reader != NULL && e.slab != NULL) ||
              failed(&e, "there is not enough memory to read the state");
    *out = (sc_export_report){.tensors = e.count, .files = e.file_count};
    ok = ok && make_folder(&e) && write_all(&e, &out->bytes);
    sc_state_reader_free(e.reader);
    free(e.slab);
    return ok;
}
