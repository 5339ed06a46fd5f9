/* Writes and reads index.json and state.json of a checkpoint. */
#include "runtime/drive/state_index.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/drive/json.h"
#include "runtime/files/durable.h"
#include "support/checksum.h"
#include "support/json.h"
#include "support/strbuf.h"

enum { SUM_DIGITS = 16 };
static const char after_sum[] = "\",";

const char *sc_state_rank_file(sc_arena *arena, uint32_t rank)
{
    return sc_arena_printf(arena, "rank-%05u.safetensors", rank);
}

bool sc_state_refuse(sc_context *context, const char *path, const char *reason)
{
    sc_report(&context->diag, SC_D_bad_state, (sc_loc){0}, path, reason, NULL);
    return false;
}

/* ---- JSON that begins with the checksum of what follows ---- */

/* Returns {"checksum": "0123456789abcdef", followed by the rest of the object, printed with
 * jansson's `flags`. Releases `root`. */
static const char *checked_text(sc_arena *arena, json_t *root, size_t flags)
{
    char *text = sc_json_write(root, flags);
    const char *result = NULL;
    json_decref(root);
    if (text != NULL) {
        const char *rest = sc_arena_printf(arena, "%s\n", text + 1); /* without the opening brace */
        result = sc_arena_printf(arena, "%s%016" PRIx64 "%s%s", SC_STATE_JSON_BEGIN,
                                 sc_checksum_of(rest, strlen(rest)), after_sum, rest);
    }
    free(text);
    return result;
}

/* Reads a regular file completely. NULL, or what is wrong. */
static const char *read_file(sc_arena *arena, const char *path, const char **out, size_t *length)
{
    struct stat about;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return sc_arena_printf(arena, "%s", strerror(errno));
    bool ok = fstat(file, &about) == 0 && S_ISREG(about.st_mode) && about.st_size >= 0;
    char *bytes = ok ? sc_arena_alloc(arena, (size_t)about.st_size + 1) : NULL;
    *length = 0;
    if (ok) {
        for (ssize_t got = 1;
             got > 0 && *length<(size_t)about.st_size; *length += got> 0 ? (size_t)got : 0)
            got = read(file, bytes + *length, (size_t)about.st_size - *length);
    }
    close(file);
    *out = bytes;
    return ok ? NULL : "it is not a regular file";
}

static const char *read_checked(sc_arena *arena, const char *path, json_t **out)
{
    const char *text = "", *problem;
    char sum[SUM_DIGITS + 1];
    size_t length = 0, begin = strlen(SC_STATE_JSON_BEGIN),
           rest = begin + SUM_DIGITS + strlen(after_sum);
    json_error_t error;
    if ((problem = read_file(arena, path, &text, &length)) != NULL)
        return problem;
    if (length < rest || memcmp(text, SC_STATE_JSON_BEGIN, begin) != 0)
        return "it is not part of a state that this version reads, or it is damaged";
    snprintf(sum, sizeof sum, "%016" PRIx64, sc_checksum_of(text + rest, length - rest));
    if (memcmp(text + begin, sum, SUM_DIGITS) != 0 ||
        memcmp(text + begin + SUM_DIGITS, after_sum, strlen(after_sum)) != 0)
        return "its checksum is wrong: it is damaged";
    *out = sc_json_read(text, length, JSON_REJECT_DUPLICATES, &error);
    return *out == NULL ? sc_arena_printf(arena, "it is not JSON: %s", error.text) : NULL;
}

/* ---- values ---- */

static const char *copy(sc_arena *arena, const char *text)
{
    return sc_arena_copy_text(arena, text, strlen(text));
}

static json_t *sizes_json(uint32_t rank, const int64_t *sizes)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < rank; i++)
        json_array_append_new(array, json_integer((json_int_t)sizes[i]));
    return array;
}

static bool read_sizes(json_t *array, uint32_t rank, int64_t *out)
{
    if (!json_is_array(array) || json_array_size(array) != rank)
        return false;
    for (uint32_t i = 0; i < rank; i++) {
        json_t *size = json_array_get(array, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return false;
        out[i] = (int64_t)json_integer_value(size);
    }
    return true;
}

static bool read_count(json_t *root, const char *name, uint64_t *out)
{
    json_t *value = json_object_get(root, name);
    *out = (uint64_t)json_integer_value(value);
    return json_is_integer(value);
}

static json_t *held_out_json(bool has, double loss)
{
    return has ? sc_number_json(loss) : json_null();
}

/* A loss that is not finite is ignored: it cannot be compared with others. */
static void read_held_out(json_t *root, bool *has, double *out)
{
    json_t *value = json_object_get(root, "held_out_loss");
    *has = json_is_number(value);
    *out = json_number_value(value);
}

static const char *check_kind(sc_arena *arena, json_t *root)
{
    json_int_t version = 0;
    const char *format = "";
    if (json_unpack(root, "{s:s, s:I}", "format", &format, "version", &version) != 0 ||
        strcmp(format, SC_STATE_FORMAT) != 0)
        return "it is not part of a training run's state";
    if (version != SC_STATE_VERSION)
        return sc_arena_printf(arena, "it is of version %lld, and this program reads version %d",
                               (long long)version, SC_STATE_VERSION);
    return NULL;
}

static const char *read_id(sc_arena *arena, json_t *root)
{
    const char *id = json_string_value(json_object_get(root, "id"));
    return id == NULL || strlen(id) != SC_STATE_ID ? NULL : copy(arena, id);
}

/* ---- index.json ---- */

static json_t *tensor_json(const sc_saved_index *index, const sc_saved_tensor *tensor)
{
    json_t *shards = json_array();
    for (uint32_t i = 0; i < tensor->shards.count; i++) {
        const sc_saved_shard *shard = &tensor->shards.data[i];
        int64_t bytes = (int64_t)sc_element_size(tensor->element);
        for (uint32_t d = 0; d < tensor->rank; d++)
            bytes *= shard->sizes[d];
        json_array_append_new(shards, json_pack("{s:s, s:o, s:o, s:[I, I]}", "file",
                                                index->files.data[shard->file].name, "first",
                                                sizes_json(tensor->rank, shard->first), "shape",
                                                sizes_json(tensor->rank, shard->sizes),
                                                "data_offsets", (json_int_t)shard->begin,
                                                (json_int_t)shard->begin + (json_int_t)bytes));
    }
    return json_pack("{s:s, s:o, s:o}", "dtype", sc_element_name(tensor->element), "shape",
                     sizes_json(tensor->rank, tensor->sizes), "shards", shards);
}

static json_t *file_json(const sc_saved_file *file)
{
    json_t *sums = json_array();
    for (uint64_t i = 0; i < sc_durable_blocks(file->bytes); i++) {
        char sum[SUM_DIGITS + 1];
        snprintf(sum, sizeof sum, "%016" PRIx64, file->sums[i]);
        json_array_append_new(sums, json_string(sum));
    }
    return json_pack("{s:I, s:o}", "bytes", (json_int_t)file->bytes, "xxh64", sums);
}

const char *sc_state_index_text(sc_arena *arena, const sc_saved_index *index)
{
    json_t *files = json_object(), *tensors = json_object();
    uint64_t total = 0;
    for (uint32_t i = 0; i < index->files.count; i++) {
        const sc_saved_file *file = &index->files.data[i];
        json_object_set_new(files, file->name, file_json(file));
    }
    for (uint32_t i = 0; i < index->tensors.count; i++) {
        const sc_saved_tensor *tensor = &index->tensors.data[i];
        uint64_t bytes = sc_element_size(tensor->element);
        for (uint32_t d = 0; d < tensor->rank; d++)
            bytes *= (uint64_t)tensor->sizes[d];
        total += bytes;
        json_object_set_new(tensors, tensor->name, tensor_json(index, tensor));
    }
    return checked_text(arena,
                        json_pack("{s:s, s:i, s:s, s:I, s:I, s:o, s:{s:I}, s:i, s:o, s:o}",
                                  "format", SC_STATE_FORMAT, "version", SC_STATE_VERSION, "id",
                                  index->id, "step", (json_int_t)index->step, "save",
                                  (json_int_t)index->save, "held_out_loss",
                                  held_out_json(index->has_held_out, index->held_out), "metadata",
                                  "total_size", (json_int_t)total, "block", SC_DURABLE_BLOCK,
                                  "files", files, "weight_map", tensors),
                        JSON_COMPACT);
}

static bool is_plain_name(const char *name)
{
    return name[0] != 0 && name[0] != '.' && strchr(name, '/') == NULL;
}

static bool read_sums(sc_arena *arena, json_t *sums, sc_saved_file *out)
{
    size_t count = json_array_size(sums);
    uint64_t *made = sc_arena_array(arena, count + 1, sizeof *made);
    out->sums = made;
    for (size_t i = 0; i < count; i++) {
        const char *sum = json_string_value(json_array_get(sums, i));
        char *end = NULL;
        if (sum == NULL || strlen(sum) != SUM_DIGITS)
            return false;
        made[i] = strtoull(sum, &end, 16);
        if (*end != 0)
            return false;
    }
    return json_is_array(sums) && count == sc_durable_blocks(out->bytes);
}

static bool read_files(sc_context *context, json_t *files, sc_saved_index *out, sc_map *by_name)
{
    const char *name;
    json_t *file;
    json_object_foreach (files, name, file) {
        sc_saved_file *made = sc_vec_push(&context->arena, &out->files);
        if (!is_plain_name(name) || !read_count(file, "bytes", &made->bytes) ||
            !read_sums(&context->arena, json_object_get(file, "xxh64"), made))
            return false;
        made->name = copy(&context->arena, name);
        sc_map_insert(by_name, sc_intern_text(&context->names, name), out->files.count - 1, NULL);
    }
    return json_is_object(files);
}

static bool read_shard(sc_context *context, json_t *from, const sc_saved_index *index,
                       const sc_map *files, const sc_saved_tensor *tensor, sc_saved_shard *out)
{
    const char *name = json_string_value(json_object_get(from, "file"));
    const uint32_t *file =
        name == NULL ? NULL : sc_map_find(files, sc_intern_text(&context->names, name));
    json_int_t begin = -1, end = -1;
    uint64_t bytes = sc_element_size(tensor->element);
    if (file == NULL ||
        json_unpack(json_object_get(from, "data_offsets"), "[I, I]", &begin, &end) != 0 ||
        begin < 0 || !read_sizes(json_object_get(from, "first"), tensor->rank, out->first) ||
        !read_sizes(json_object_get(from, "shape"), tensor->rank, out->sizes))
        return false;
    out->file = *file;
    out->begin = (uint64_t)begin;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (out->sizes[d] > tensor->sizes[d] || out->first[d] > tensor->sizes[d] - out->sizes[d] ||
            __builtin_mul_overflow(bytes, (uint64_t)out->sizes[d], &bytes))
            return false;
    }
    return bytes <= index->files.data[*file].bytes &&
           (uint64_t)begin <= index->files.data[*file].bytes - bytes &&
           (uint64_t)end == (uint64_t)begin + bytes;
}

/* True if the shards have as many elements as the tensor. */
static bool is_covered(const sc_saved_tensor *tensor)
{
    uint64_t whole = 1, given = 0;
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (__builtin_mul_overflow(whole, (uint64_t)tensor->sizes[d], &whole))
            return false;
    }
    for (uint32_t i = 0; i < tensor->shards.count; i++) {
        uint64_t count = 1;
        for (uint32_t d = 0; d < tensor->rank; d++)
            count *= (uint64_t)tensor->shards.data[i].sizes[d];
        given += count;
    }
    return whole == given;
}

static bool read_tensor(sc_context *context, const char *name, json_t *from, const sc_map *files,
                        sc_saved_index *index)
{
    const char *dtype = json_string_value(json_object_get(from, "dtype"));
    json_t *shape = json_object_get(from, "shape"), *shards = json_object_get(from, "shards");
    sc_saved_tensor *tensor = sc_vec_push(&context->arena, &index->tensors);
    tensor->name = copy(&context->arena, name);
    tensor->rank = (uint32_t)json_array_size(shape);
    sc_map_insert(&index->by_name, sc_intern_text(&context->names, name), index->tensors.count - 1,
                  NULL);
    if (dtype == NULL || !sc_element_from_name(dtype, &tensor->element) ||
        tensor->rank > SHARDC_TENSOR_MAX_RANK || !read_sizes(shape, tensor->rank, tensor->sizes) ||
        !json_is_array(shards))
        return false;
    for (size_t i = 0; i < json_array_size(shards); i++) {
        if (!read_shard(context, json_array_get(shards, i), index, files, tensor,
                        sc_vec_push(&context->arena, &tensor->shards)))
            return false;
    }
    return is_covered(tensor);
}

static const char *read_index(sc_context *context, json_t *root, sc_saved_index *out)
{
    static const char wrong[] = "its entries contradict each other";
    const char *name, *problem = check_kind(&context->arena, root);
    json_int_t block = json_integer_value(json_object_get(root, "block"));
    sc_map files = {.arena = &context->arena};
    json_t *tensor, *tensors = json_object_get(root, "weight_map");
    if (problem != NULL)
        return problem;
    out->id = read_id(&context->arena, root);
    read_held_out(root, &out->has_held_out, &out->held_out);
    if (out->id == NULL || block != SC_DURABLE_BLOCK || !read_count(root, "step", &out->step) ||
        !read_count(root, "save", &out->save) || !json_is_object(tensors) ||
        !read_files(context, json_object_get(root, "files"), out, &files))
        return wrong;
    json_object_foreach (tensors, name, tensor) {
        if (!read_tensor(context, name, tensor, &files, out))
            return sc_arena_printf(&context->arena, "its entries for '%s' contradict each other",
                                   name);
    }
    return NULL;
}

const char *sc_state_index_read(sc_context *context, const char *path, sc_saved_index *out)
{
    json_t *root = NULL;
    *out = (sc_saved_index){.by_name = {.arena = &context->arena}};
    const char *problem = read_checked(&context->arena, path, &root);
    if (problem == NULL)
        problem = read_index(context, root, out);
    json_decref(root);
    return problem;
}

/* ---- state.json ---- */

static const char *hash_text(sc_arena *arena, uint64_t hash)
{
    return sc_arena_printf(arena, "%016" PRIx64, hash);
}

const char *sc_state_counts_text(sc_arena *arena, const sc_train_state *state)
{
    return checked_text(
        arena,
        json_pack("{s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:o, s:o, s:{s:I, s:s, s:I, s:I, s:I}, s:s, "
                  "s:s, s:s?}",
                  "format", SC_STATE_FORMAT, "version", SC_STATE_VERSION, "shardc", SHARDC_VERSION,
                  "id", state->id, "steps", (json_int_t)state->steps, "skipped",
                  (json_int_t)state->skipped, "seed", (json_int_t)state->seed, "loss_scale",
                  state->loss_scale > 0 ? sc_number_json(state->loss_scale) : json_null(),
                  "held_out_loss", held_out_json(state->has_held_out, state->held_out), "data",
                  "tokens", (json_int_t)state->tokens, "identity",
                  hash_text(arena, state->data_identity), "row_length",
                  (json_int_t)state->row_length, "rows", (json_int_t)state->rows, "next_row",
                  (json_int_t)state->steps * (json_int_t)state->rows, "program_hash",
                  hash_text(arena, sc_fnv1a64(state->program, strlen(state->program))), "program",
                  state->program, "weights", state->weights),
        JSON_INDENT(1));
}

static const char *read_counts(sc_arena *arena, json_t *root, sc_train_state *out)
{
    const char *problem = check_kind(arena, root),
               *program = json_string_value(json_object_get(root, "program"));
    json_t *data = json_object_get(root, "data");
    const char *identity = json_string_value(json_object_get(data, "identity"));
    if (problem != NULL)
        return problem;
    read_held_out(root, &out->has_held_out, &out->held_out);
    out->id = read_id(arena, root);
    if (program == NULL || out->id == NULL || !read_count(root, "steps", &out->steps) ||
        !read_count(root, "skipped", &out->skipped) || !read_count(root, "seed", &out->seed) ||
        !read_count(data, "tokens", &out->tokens) ||
        !read_count(data, "row_length", &out->row_length) || !read_count(data, "rows", &out->rows))
        return "it is not a state of a training run";
    const char *weights = json_string_value(json_object_get(root, "weights"));
    out->program = copy(arena, program);
    out->data_identity = identity == NULL ? 0 : strtoull(identity, NULL, 16);
    out->weights = weights == NULL ? NULL : copy(arena, weights);
    return NULL;
}

const char *sc_state_counts_read(sc_context *context, const char *path, sc_train_state *out)
{
    json_t *root = NULL;
    *out = (sc_train_state){.id = NULL};
    const char *problem = read_checked(&context->arena, path, &root);
    if (problem == NULL)
        problem = read_counts(&context->arena, root, out);
    json_decref(root);
    return problem;
}
