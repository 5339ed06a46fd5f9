/* Safetensors, the writer. */
#include "runtime/safetensors_internal.h"
#include "support/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", sc_element_name(item->element), "shape", shape, "data_offsets", (json_int_t)begin,
                     (json_int_t)end);
}

static bool add_metadata(json_t *header, const sc_safetensors_pair *metadata, size_t count)
{
    if (count == 0)
        return true;
    json_t *pairs = json_object();
    bool done = pairs != NULL;
    for (size_t i = 0; i < count; i++)
        done = done && json_object_set_new(pairs, metadata[i].key, json_string(metadata[i].value)) == 0;
    return json_object_set_new(header, "__metadata__", pairs) == 0 && done;
}

/* JSON's integers are signed; only a size beside a 0 can be that large. */
static bool sizes_fit(const sc_safetensors_item *item)
{
    for (uint32_t i = 0; i < item->rank; i++) {
        if (item->shape[i] > INT64_MAX)
            return false;
    }
    return true;
}

/* Adds one item behind `*end` and moves that. */
static bool add_item(json_t *header, const sc_safetensors_item *item, uint64_t *end, sc_safetensors_error *error)
{
    uint64_t count = 0, bytes = 0, begin = *end;
    if (strcmp(item->name, "__metadata__") == 0 || json_object_get(header, item->name) != NULL) {
        sc_safetensors_report(error, "tensor '%.200s': this name is taken", item->name);
        return false;
    }
    if (!sizes_fit(item) || !sc_safetensors_size(item->element, item->rank, item->shape, &count, &bytes) ||
        __builtin_add_overflow(begin, bytes, end) || *end > INT64_MAX) {
        sc_safetensors_report(error, "tensor '%.200s': too large for a file", item->name);
        return false;
    }
    if (json_object_set_new(header, item->name, item_entry(item, begin, *end)) != 0) {
        sc_safetensors_report(error, "tensor '%.200s': out of memory, or the name is not UTF-8", item->name);
        return false;
    }
    return true;
}

/* The header's text, which the caller frees, or NULL. */
static char *header_text(const sc_safetensors_item *items, size_t item_count, const sc_safetensors_pair *metadata, size_t metadata_count,
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
    for (size_t i = 0; header != NULL && i < item_count; i++)
        good = add_item(header, &items[i], &end, error) && good;
    if (good && (text = sc_json_write(header, JSON_COMPACT)) == NULL)
        sc_safetensors_report(error, "out of memory");
    json_decref(header);
    return text;
}

static bool write_header(FILE *file, const char *text)
{
    size_t length = strlen(text), padding = (8 - length % 8) % 8;
    uint64_t total = length + padding;
    return fwrite(&total, sizeof total, 1, file) == 1 && fwrite(text, 1, length, file) == length &&
           fwrite("       ", 1, padding, file) == padding;
}

static bool write_values(FILE *file, const sc_safetensors_item *item, uint64_t count, sc_safetensors_error *error)
{
    size_t size = sc_element_size(item->element);
    uint64_t chunk[CHUNK];
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < CHUNK ? count - done : CHUNK;
        for (uint64_t i = 0; i < now; i++) {
            if (!sc_element_store(item->element, chunk, i, item->values[done + i])) {
                sc_safetensors_report(error, "tensor '%.200s': element %" PRIu64 " is %.17g, which is no %s", item->name, done + i,
                                      item->values[done + i], sc_element_name(item->element));
                return false;
            }
        }
        if (fwrite(chunk, size, now, file) != now)
            return false;
        done += now;
    }
    return true;
}

static bool write_item(FILE *file, const sc_safetensors_item *item, sc_safetensors_error *error)
{
    uint64_t count = 0, bytes = 0;
    sc_safetensors_size(item->element, item->rank, item->shape, &count, &bytes);
    if (bytes == 0)
        return true;
    return item->raw != NULL ? fwrite(item->raw, 1, bytes, file) == bytes : write_values(file, item, count, error);
}

/* A new file beside `path`, with the permissions that a plain open would give (mkstemp's are narrower). `out_name` is the caller's. */
static FILE *open_beside(const char *path, char **out_name)
{
    size_t size = strlen(path) + 48;
    char *name = malloc(size);
    if (name == NULL)
        return NULL;
    int descriptor = -1;
    for (int try = 0; try < 100 && descriptor < 0; try++) {
        snprintf(name, size, "%s.%ld.%d.tmp", path, (long)getpid(), try);
        descriptor = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    FILE *file = descriptor < 0 ? NULL : fdopen(descriptor, "wb");
    if (file == NULL) {
        free(name);
        return NULL;
    }
    *out_name = name;
    return file;
}

static bool write_contents(FILE *file, const char *header, const sc_safetensors_item *items, size_t item_count, sc_safetensors_error *error)
{
    if (!write_header(file, header))
        return false;
    for (size_t i = 0; i < item_count; i++) {
        if (!write_item(file, &items[i], error))
            return false;
    }
    return fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* Renaming over a device or a pipe would replace it for everybody. */
static bool may_replace(const char *path)
{
    struct stat info;
    return stat(path, &info) != 0 || S_ISREG(info.st_mode);
}

bool sc_safetensors_write(const char *path, const sc_safetensors_item *items, size_t item_count, const sc_safetensors_pair *metadata,
                          size_t metadata_count, sc_safetensors_error *error)
{
    uint32_t problems = error->count;
    char *name = NULL, *header = NULL;
    FILE *file = NULL;
    bool done = false;
    if (!may_replace(path)) {
        sc_safetensors_report(error, "%s: not a regular file", path);
        return false;
    }
    header = header_text(items, item_count, metadata, metadata_count, error);
    if (header == NULL)
        return false;
    file = open_beside(path, &name);
    if (file == NULL)
        goto done;
    done = write_contents(file, header, items, item_count, error);
    done = fclose(file) == 0 && done;
    done = done && rename(name, path) == 0;
    if (!done)
        (void)unlink(name);
done:
    if (!done && error->count == problems)
        sc_safetensors_report(error, "%s: cannot be written: %s", path, strerror(errno));
    free(name);
    free(header);
    return done;
}
