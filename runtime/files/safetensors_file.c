/* Parses one safetensors file: from an untrusted header to a checked list of tensors.
 *
 *   u64 n | n bytes of JSON | data
 *   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..}
 *
 * After a failure checks continue as far as they make sense: entries are independent of each other,
 * and once every entry has offsets the tensors are checked to cover the data without gaps or
 * overlaps. */
#include "runtime/files/safetensors_internal.h"
#include "support/file.h"
#include "support/json.h"
#include "support/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX = 8, TAIL = 48 };

/* Replaces control characters: texts from files are printed to terminals. */
static void make_printable(char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            *text = '?';
    }
}

void sc_safetensors_report(sc_safetensors_error *error, const char *format, ...)
{
    char line[1024];
    va_list args;
    va_start(args, format);
    sc_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    make_printable(line);

    error->count++;
    size_t length = strlen(line);
    if (error->omitted == 0 && error->length + length + 1 + TAIL < sizeof error->text) {
        memcpy(error->text + error->length, line, length);
        error->length += length;
        error->text[error->length++] = '\n';
        error->text[error->length] = '\0';
        return;
    }
    error->omitted++;
    snprintf(error->text + error->length, TAIL, "and %" PRIu32 " more\n", error->omitted);
}

bool sc_tensor_source_read(const sc_tensor_source *source, void *out, size_t size, uint64_t offset,
                           const char **reason)
{
    if (source->file >= 0)
        return sc_file_read_at(source->file, out, size, offset, reason);
    if (size > 0)
        memcpy(out, source->bytes + offset, size);
    return true;
}

bool sc_safetensors_size(sc_element element, uint32_t rank, const uint64_t *shape,
                         uint64_t *out_count, uint64_t *out_bytes)
{
    uint64_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (__builtin_mul_overflow(count, shape[i], &count))
            return false;
    }
    *out_count = count;
    return !__builtin_mul_overflow(count, sc_element_size(element), out_bytes);
}

static bool read_element(const sc_tensor_file *file, const char *name, json_t *entry,
                         sc_element *out, sc_safetensors_error *error)
{
    json_t *dtype = json_object_get(entry, "dtype");
    if (!json_is_string(dtype)) {
        sc_safetensors_report(error, "%s: tensor '%.200s': dtype is missing or not a text",
                              file->label, name);
        return false;
    }
    if (!sc_element_from_name(json_string_value(dtype), out)) {
        sc_safetensors_report(error, "%s: tensor '%.200s': unknown dtype '%.40s'", file->label,
                              name, json_string_value(dtype));
        return false;
    }
    return true;
}

static bool read_size(json_t *value, uint64_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (uint64_t)json_integer_value(value);
    return true;
}

/* Reads the sizes into `shape`, which has room for all of the entry's. */
static bool read_shape(const sc_tensor_file *file, const char *name, json_t *entry, uint64_t *shape,
                       sc_safetensors_error *error)
{
    json_t *sizes = json_object_get(entry, "shape"), *size;
    size_t i;
    if (!json_is_array(sizes)) {
        sc_safetensors_report(error, "%s: tensor '%.200s': shape is missing or not an array",
                              file->label, name);
        return false;
    }
    json_array_foreach (sizes, i, size) {
        if (!read_size(size, &shape[i])) {
            sc_safetensors_report(error,
                                  "%s: tensor '%.200s': shape[%zu] is not a whole number from 0",
                                  file->label, name, i);
            return false;
        }
    }
    return true;
}

static bool read_offsets(const sc_tensor_file *file, const char *name, json_t *entry,
                         uint64_t data_size, uint64_t out[2], sc_safetensors_error *error)
{
    json_t *offsets = json_object_get(entry, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_size(json_array_get(offsets, 0), &out[0]) ||
        !read_size(json_array_get(offsets, 1), &out[1])) {
        sc_safetensors_report(
            error, "%s: tensor '%.200s': data_offsets is not a pair of whole numbers from 0",
            file->label, name);
        return false;
    }
    if (out[0] > out[1] || out[1] > data_size) {
        sc_safetensors_report(error,
                              "%s: tensor '%.200s': data_offsets [%" PRIu64 ", %" PRIu64
                              "] do not lie in the data of %" PRIu64 " bytes",
                              file->label, name, out[0], out[1], data_size);
        return false;
    }
    return true;
}

/* Appends the entry to the file's tensors if its offsets are usable, even with an invalid dtype, so
 * that the layout can still be checked. */
static void read_tensor(sc_tensor_file *file, const char *name, json_t *entry, uint64_t *shape,
                        uint64_t data_begin, sc_safetensors_error *error)
{
    if (!json_is_object(entry)) {
        sc_safetensors_report(error, "%s: tensor '%.200s': not an object", file->label, name);
        return;
    }
    sc_safetensor tensor = {.name = name, .shape = shape, .file = file->index};
    uint64_t offsets[2] = {0, 0};
    bool has_element = read_element(file, name, entry, &tensor.element, error);
    bool has_shape = read_shape(file, name, entry, shape, error);
    bool has_offsets =
        read_offsets(file, name, entry, file->source.size - data_begin, offsets, error);
    if (has_element && has_shape) {
        tensor.rank = (uint32_t)json_array_size(json_object_get(entry, "shape"));
        if (!sc_safetensors_size(tensor.element, tensor.rank, shape, &tensor.count, &tensor.bytes))
            sc_safetensors_report(error,
                                  "%s: tensor '%.200s': its shape is larger than 64 bits can count",
                                  file->label, name);
        else if (has_offsets && tensor.bytes != offsets[1] - offsets[0])
            sc_safetensors_report(error,
                                  "%s: tensor '%.200s': %s of its shape takes %" PRIu64
                                  " bytes, data_offsets give %" PRIu64,
                                  file->label, name, sc_element_name(tensor.element), tensor.bytes,
                                  offsets[1] - offsets[0]);
    }
    if (!has_offsets)
        return;
    tensor.begin = data_begin + offsets[0];
    tensor.bytes = offsets[1] - offsets[0];
    file->tensors[file->count++] = tensor;
}

static void check_metadata(const sc_tensor_file *file, json_t *metadata,
                           sc_safetensors_error *error)
{
    if (!json_is_object(metadata)) {
        sc_safetensors_report(error, "%s: __metadata__ is not an object", file->label);
        return;
    }
    const char *key;
    json_t *value;
    json_object_foreach (metadata, key, value) {
        if (!json_is_string(value))
            sc_safetensors_report(error, "%s: __metadata__: the value of '%.200s' is not a text",
                                  file->label, key);
    }
}

static size_t count_sizes(json_t *header)
{
    size_t total = 0;
    const char *name;
    json_t *entry;
    json_object_foreach (header, name, entry) {
        total += json_array_size(json_object_get(entry, "shape"));
    }
    return total;
}

/* Orders by offset; at equal offsets empty tensors first, so that they do not look like overlaps,
 * then by name. */
static int compare_place(const void *left, const void *right)
{
    const sc_safetensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

static void check_layout(const sc_tensor_file *file, uint64_t data_begin,
                         sc_safetensors_error *error)
{
    uint64_t end = 0, data_size = file->source.size - data_begin;
    for (size_t i = 0; i < file->count; i++) {
        const sc_safetensor *tensor = &file->tensors[i];
        uint64_t begin = tensor->begin - data_begin;
        if (begin < end)
            sc_safetensors_report(error, "%s: tensor '%.200s' overlaps '%.200s'", file->label,
                                  tensor->name, file->tensors[i - 1].name);
        if (begin > end)
            sc_safetensors_report(error,
                                  "%s: bytes %" PRIu64 " to %" PRIu64
                                  " of the data, before tensor '%.200s', belong to no tensor",
                                  file->label, end, begin, tensor->name);
        if (begin + tensor->bytes > end)
            end = begin + tensor->bytes;
    }
    if (end < data_size)
        sc_safetensors_report(error,
                              "%s: the last %" PRIu64 " bytes of the data belong to no tensor",
                              file->label, data_size - end);
}

static void report_unread(const sc_tensor_file *file, const char *reason,
                          sc_safetensors_error *error)
{
    sc_safetensors_report(error, "%s: the header cannot be read: %s", file->label, reason);
}

/* Reads the header's length; false after a message. */
static bool read_length(const sc_tensor_file *file, uint64_t *out, sc_safetensors_error *error)
{
    uint64_t length = 0, size = file->source.size;
    const char *reason;
    if (size < PREFIX)
        sc_safetensors_report(error, "%s: %" PRIu64 " bytes are too few for a safetensors file",
                              file->label, size);
    else if (!sc_tensor_source_read(&file->source, &length, PREFIX, 0, &reason))
        report_unread(file, reason, error);
    else if (length > SC_SAFETENSORS_HEADER_LIMIT)
        sc_safetensors_report(error,
                              "%s: a header of %" PRIu64
                              " bytes is over the limit of %d: not a safetensors file",
                              file->label, length, SC_SAFETENSORS_HEADER_LIMIT);
    else if (length > size - PREFIX)
        sc_safetensors_report(
            error, "%s: the header has %" PRIu64 " bytes, but the file ends after %" PRIu64,
            file->label, length, size - PREFIX);
    else {
        *out = length;
        return true;
    }
    return false;
}

static json_t *load_header(const sc_tensor_file *file, uint64_t *out_length,
                           sc_safetensors_error *error)
{
    json_t *header = NULL;
    json_error_t problem;
    const char *reason;
    if (!read_length(file, out_length, error))
        return NULL;
    size_t length = (size_t)*out_length;
    char *text = malloc(length + 1);
    if (text == NULL)
        sc_safetensors_report(error, "%s: out of memory", file->label);
    else if (!sc_tensor_source_read(&file->source, text, length, PREFIX, &reason))
        report_unread(file, reason, error);
    else if (length == 0 || text[0] != '{')
        sc_safetensors_report(error, "%s: the header does not begin with '{'", file->label);
    else if ((header = sc_json_read(text, length, JSON_REJECT_DUPLICATES, &problem)) == NULL)
        sc_safetensors_report(error, "%s: the header is not JSON: %s (byte %d)", file->label,
                              problem.text, problem.position);
    free(text);
    return header;
}

bool sc_tensor_file_parse(sc_tensor_file *out_file, sc_safetensors_error *error)
{
    uint32_t problems = error->count;
    uint64_t length = 0;
    out_file->header = load_header(out_file, &length, error);
    if (out_file->header == NULL)
        return false;

    uint64_t data_begin = PREFIX + length;
    size_t entries = json_object_size(out_file->header);
    out_file->shapes = calloc(count_sizes(out_file->header) + 1, sizeof *out_file->shapes);
    out_file->tensors = calloc(entries + 1, sizeof *out_file->tensors);
    if (out_file->shapes == NULL || out_file->tensors == NULL) {
        sc_safetensors_report(error, "%s: out of memory", out_file->label);
        return false;
    }

    uint64_t *shape = out_file->shapes;
    size_t expected = 0;
    const char *name;
    json_t *entry;
    json_object_foreach (out_file->header, name, entry) {
        if (strcmp(name, "__metadata__") == 0) {
            check_metadata(out_file, entry, error);
            continue;
        }
        expected++;
        read_tensor(out_file, name, entry, shape, data_begin, error);
        shape += json_array_size(json_object_get(entry, "shape"));
    }
    qsort(out_file->tensors, out_file->count, sizeof *out_file->tensors, compare_place);
    if (out_file->count == expected)
        check_layout(out_file, data_begin, error);
    return error->count == problems;
}

void sc_tensor_file_free(sc_tensor_file *file)
{
    json_decref(file->header);
    free(file->shapes);
    free(file->tensors);
}
