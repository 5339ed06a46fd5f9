/* Writes safetensors files. */
#include "runtime/files/safetensors_internal.h"
#include "support/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 8192 }; /* elements converted at a time */

static json_t *item_entry(const sc_safetensors_item *item, uint64_t begin, uint64_t end)
{
    json_t *shape = json_array();
    bool done = shape != NULL;
    for (uint32_t i = 0; i < item->rank; i++)
        done = done && json_array_append_new(shape, json_integer((json_int_t)item->shape[i])) == 0;
    if (!done) {
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", sc_element_name(item->element), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)end);
}

static bool add_metadata(json_t *header, const sc_safetensors_pair *metadata, size_t count)
{
    if (count == 0)
        return true;
    json_t *pairs = json_object();
    bool done = pairs != NULL;
    for (size_t i = 0; i < count; i++)
        done = done &&
               json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value)) == 0;
    return json_object_set_new(header, "__metadata__", pairs) == 0 && done;
}

/* JSON integers are signed. Sizes beyond that occur only beside a size of 0. */
static bool sizes_fit(const sc_safetensors_item *item)
{
    for (uint32_t i = 0; i < item->rank; i++) {
        if (item->shape[i] > INT64_MAX)
            return false;
    }
    return true;
}

/* Adds an item at offset `*end`, and advances it. */
static bool add_item(json_t *header, const sc_safetensors_item *item, uint64_t *end,
                     sc_safetensors_error *error)
{
    uint64_t count = 0, bytes = 0, begin = *end;
    if (strcmp(item->name, "__metadata__") == 0 || json_object_get(header, item->name) != NULL) {
        sc_safetensors_report(error, "tensor '%.200s': this name is taken", item->name);
        return false;
    }
    if (!sizes_fit(item) ||
        !sc_safetensors_size(item->element, item->rank, item->shape, &count, &bytes) ||
        __builtin_add_overflow(begin, bytes, end) || *end > INT64_MAX) {
        sc_safetensors_report(error, "tensor '%.200s': too large for a file", item->name);
        return false;
    }
    if (json_object_set_new(header, item->name, item_entry(item, begin, *end)) != 0) {
        sc_safetensors_report(error, "tensor '%.200s': out of memory, or the name is not UTF-8",
                              item->name);
        return false;
    }
    return true;
}

/* Returns the header's text, which the caller frees, or NULL. */
static char *header_text(const sc_safetensors_item *items, size_t item_count,
                         const sc_safetensors_pair *metadata, size_t metadata_count,
                         sc_safetensors_error *error)
{
    uint64_t end = 0;
    char *text = NULL;
    bool good = true;
    json_t *header = json_object();
    if (header == NULL || !add_metadata(header, metadata, metadata_count)) {
        sc_safetensors_report(error, "out of memory, or the metadata is not UTF-8");
        good = false;
    }
    if (header != NULL) {
        for (size_t i = 0; i < item_count; i++)
            good = add_item(header, &items[i], &end, error) && good;
    }
    if (good && (text = sc_json_write(header, JSON_COMPACT)) == NULL)
        sc_safetensors_report(error, "out of memory");
    json_decref(header);
    return text;
}

char *sc_safetensors_header(const sc_safetensors_item *items, size_t item_count,
                            const sc_safetensors_pair *metadata, size_t metadata_count,
                            size_t *out_length, sc_safetensors_error *error)
{
    char *text = header_text(items, item_count, metadata, metadata_count, error);
    if (text == NULL)
        return NULL;
    size_t length = strlen(text), padding = (8 - length % 8) % 8;
    uint64_t total = length + padding;
    char *header = malloc(sizeof total + length + padding);
    if (header != NULL) {
        memcpy(header, &total, sizeof total);
        memcpy(header + sizeof total, text, length);
        memset(header + sizeof total + length, ' ', padding);
    } else {
        sc_safetensors_report(error, "out of memory");
    }
    free(text);
    *out_length = sizeof total + length + padding;
    return header;
}

/* ---- the file ---- */

bool sc_safetensors_create(sc_safetensors_writer *out, const char *path,
                           const sc_safetensors_item *items, size_t item_count,
                           const sc_safetensors_pair *metadata, size_t metadata_count,
                           sc_safetensors_error *error)
{
    size_t length;
    *out = (sc_safetensors_writer){.items = items, .path = path, .error = error};
    if (!sc_may_replace(path)) {
        sc_safetensors_report(error, "%s: not a regular file", path);
        return false;
    }
    char *header =
        sc_safetensors_header(items, item_count, metadata, metadata_count, &length, error);
    if (header == NULL)
        return false;
    out->good =
        sc_replacement_begin(&out->file, path, SC_SAFETENSORS_BEGIN_AT, SC_SAFETENSORS_BEGIN);
    if (out->good)
        sc_durable_add(&out->file.file, header, length);
    else
        sc_safetensors_report(error, "%s: cannot be written: %s", path,
                              strerror(out->file.file.reason));
    free(header);
    return out->good;
}

/* Writes the item's `values`, converted in chunks. */
static bool add_values(sc_safetensors_writer *writer, const sc_safetensors_item *item,
                       uint64_t count)
{
    size_t size = sc_element_size(item->element);
    uint64_t chunk[CHUNK];
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < CHUNK ? count - done : CHUNK;
        for (uint64_t i = 0; i < now; i++) {
            if (!sc_element_store(item->element, chunk, i, item->values[done + i])) {
                sc_safetensors_report(
                    writer->error, "tensor '%.200s': element %" PRIu64 " is %.17g, which is no %s",
                    item->name, done + i, item->values[done + i], sc_element_name(item->element));
                return false;
            }
        }
        sc_durable_add(&writer->file.file, chunk, size * now);
        done += now;
    }
    return true;
}

void sc_safetensors_add(sc_safetensors_writer *writer, const void *raw)
{
    const sc_safetensors_item *item = &writer->items[writer->next++];
    uint64_t count = 0, bytes = 0;
    sc_safetensors_size(item->element, item->rank, item->shape, &count, &bytes);
    if (!writer->good || bytes == 0)
        return;
    if (raw != NULL)
        sc_durable_add(&writer->file.file, raw, bytes);
    else
        writer->good = add_values(writer, item, count);
}

bool sc_safetensors_end(sc_safetensors_writer *writer, bool keep)
{
    bool wanted = writer->good && keep;
    bool done = sc_replacement_end(&writer->file, wanted);
    if (wanted && !done)
        sc_safetensors_report(writer->error, "%s: cannot be written: %s", writer->path,
                              strerror(writer->file.file.reason));
    return wanted && done;
}

bool sc_safetensors_write(const char *path, const sc_safetensors_item *items, size_t item_count,
                          const sc_safetensors_pair *metadata, size_t metadata_count,
                          sc_safetensors_error *error)
{
    sc_safetensors_writer writer;
    if (!sc_safetensors_create(&writer, path, items, item_count, metadata, metadata_count, error))
        return false;
    for (size_t i = 0; i < item_count; i++)
        sc_safetensors_add(&writer, items[i].raw);
    return sc_safetensors_end(&writer, true);
}
