/* The public part of the safetensors reader: opens files and folders and merges their names. */
#include "runtime/files/safetensors_internal.h"
#include "support/file.h"
#include "support/json.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char index_name[] = "model.safetensors.index.json";

typedef struct opened_file {
    sc_tensor_file file;
    char *path; /* NULL: the caller's bytes */
} opened_file;

struct sc_safetensors {
    opened_file *files;
    size_t file_count;
    const sc_safetensor **tensors; /* the visible ones, in order */
    const sc_safetensor **by_name; /* the same, sorted by name */
    size_t count;
};

static void close_file(opened_file *opened)
{
    sc_tensor_file_free(&opened->file);
    if (opened->file.source.file >= 0)
        close(opened->file.source.file);
    free(opened->path);
}

void sc_safetensors_close(sc_safetensors *tensors)
{
    if (tensors == NULL)
        return;
    for (size_t i = 0; i < tensors->file_count; i++)
        close_file(&tensors->files[i]);
    free(tensors->files);
    free(tensors->tensors);
    free(tensors->by_name);
    free(tensors);
}

size_t sc_safetensors_count(const sc_safetensors *tensors)
{
    return tensors->count;
}

const sc_safetensor *sc_safetensors_at(const sc_safetensors *tensors, size_t index)
{
    return tensors->tensors[index];
}

static int compare_key(const void *key, const void *element)
{
    const sc_safetensor *const *tensor = element;
    return strcmp(key, (*tensor)->name);
}

const sc_safetensor *sc_safetensors_find(const sc_safetensors *tensors, const char *name)
{
    const sc_safetensor **found =
        bsearch(name, tensors->by_name, tensors->count, sizeof *tensors->by_name, compare_key);
    return found == NULL ? NULL : *found;
}

const char *sc_safetensors_metadata(const sc_safetensors *tensors, const char *key)
{
    for (size_t i = 0; i < tensors->file_count; i++) {
        const char *text = json_string_value(
            json_object_get(json_object_get(tensors->files[i].file.header, "__metadata__"), key));
        if (text != NULL)
            return text;
    }
    return NULL;
}

const char *sc_safetensors_label(const sc_safetensors *tensors, const sc_safetensor *tensor)
{
    return tensors->files[tensor->file].file.label;
}

bool sc_safetensors_read_stored(const sc_safetensors *tensors, const sc_safetensor *tensor,
                                uint64_t first, uint64_t count, void *out, const char **reason)
{
    size_t size = sc_element_size(tensor->element);
    const sc_tensor_source *source = &tensors->files[tensor->file].file.source;
    return sc_tensor_source_read(source, out, (size_t)count * size, tensor->begin + first * size,
                                 reason);
}

bool sc_safetensors_read(const sc_safetensors *tensors, const sc_safetensor *tensor, uint64_t first,
                         uint64_t count, double *out, const char **reason)
{
    unsigned char bytes[8192];
    size_t size = sc_element_size(tensor->element);
    for (uint64_t done = 0; done < count;) {
        uint64_t now = count - done < sizeof bytes / size ? count - done : sizeof bytes / size;
        if (!sc_safetensors_read_stored(tensors, tensor, first + done, now, bytes, reason))
            return false;
        for (uint64_t i = 0; i < now; i++)
            out[done + i] = sc_element_load(tensor->element, bytes, i);
        done += now;
    }
    return true;
}

static char *join_path(const char *folder, const char *name)
{
    size_t size = strlen(folder) + strlen(name) + 2;
    char *path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

/* Appends an empty entry for a file; takes ownership of `path`. NULL: out of memory, and `path` is
 * freed. */
static opened_file *add_file(sc_safetensors *tensors, char *path)
{
    opened_file *files = realloc(tensors->files, (tensors->file_count + 1) * sizeof *files);
    if (files == NULL) {
        free(path);
        return NULL;
    }
    tensors->files = files;
    opened_file *added = &files[tensors->file_count];
    *added = (opened_file){
        .path = path,
        .file = {.label = path, .source.file = -1, .index = (uint32_t)tensors->file_count}};
    tensors->file_count++;
    return added;
}

static void open_file(sc_safetensors *tensors, char *path, sc_safetensors_error *error)
{
    const char *reason;
    opened_file *opened = path == NULL ? NULL : add_file(tensors, path);
    if (opened == NULL) {
        sc_safetensors_report(error, "out of memory");
        return;
    }
    sc_tensor_source *source = &opened->file.source;
    source->file = sc_file_open(path, &source->size, &reason);
    if (source->file < 0)
        sc_safetensors_report(error, "%s: %s", path, reason);
    else if (source->size == 0)
        sc_safetensors_report(error, "%s: the file is empty", path);
    else
        sc_tensor_file_parse(&opened->file, error);
}

static int compare_text(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static bool has_suffix(const char *text, const char *suffix)
{
    size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

/* Returns the names of the folder's *.safetensors files, which the caller frees; sorted, so that
 * the order does not depend on the file system. */
static char **list_folder(const char *folder, size_t *out_count, sc_safetensors_error *error)
{
    char **names = NULL;
    size_t count = 0;
    DIR *stream = opendir(folder);
    if (stream == NULL)
        sc_safetensors_report(error, "%s: %s", folder, strerror(errno));
    if (stream != NULL) {
        for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
            if (entry->d_name[0] == '.' || !has_suffix(entry->d_name, ".safetensors"))
                continue;
            char **grown = realloc(names, (count + 1) * sizeof *names);
            char *name = grown == NULL ? NULL : strdup(entry->d_name);
            names = grown == NULL ? names : grown;
            if (name == NULL) {
                sc_safetensors_report(error, "%s: out of memory", folder);
                break;
            }
            names[count++] = name;
        }
    }
    if (stream != NULL)
        closedir(stream);
    if (count > 1)
        qsort(names, count, sizeof *names, compare_text);
    *out_count = count;
    return names;
}

/* As transformers does, reads only the model's file where there is one of its name: others of the
 * folder are adapters, or inputs. */
static bool is_read(const char *name, char *const *names, size_t count)
{
    static const char model_name[] = "model.safetensors";
    bool has_model = false;
    for (size_t i = 0; i < count; i++)
        has_model = has_model || strcmp(names[i], model_name) == 0;
    return !has_model || strcmp(name, model_name) == 0;
}

static void open_all_of_folder(sc_safetensors *tensors, const char *folder,
                               sc_safetensors_error *error)
{
    size_t count = 0;
    uint32_t problems = error->count;
    char **names = list_folder(folder, &count, error);
    if (count == 0 && error->count == problems)
        sc_safetensors_report(error, "%s: no *.safetensors in this folder", folder);
    for (size_t i = 0; i < count; i++) {
        if (is_read(names[i], names, count))
            open_file(tensors, join_path(folder, names[i]), error);
    }
    for (size_t i = 0; i < count; i++)
        free(names[i]);
    free(names);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Returns the folder of a path; malloc'd, NULL: out of memory. */
static char *folder_of(const char *path)
{
    size_t length = (size_t)(base_name(path) - path);
    char *folder = length == 0 ? strdup(".") : strdup(path);
    if (folder != NULL && length > 0)
        folder[length] = 0;
    return folder;
}

static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && strchr(name, '/') == NULL;
}

/* Opens every file that the weight map names, once, in name order. */
static void open_listed_files(sc_safetensors *tensors, const char *folder, json_t *weight_map,
                              sc_safetensors_error *error)
{
    size_t count = 0;
    const char **files = calloc(json_object_size(weight_map) + 1, sizeof *files);
    if (files == NULL) {
        sc_safetensors_report(error, "%s: out of memory", folder);
        return;
    }
    const char *name;
    json_t *file;
    json_object_foreach (weight_map, name, file) {
        if (json_is_string(file) && is_plain_name(json_string_value(file)))
            files[count++] = json_string_value(file);
        else
            sc_safetensors_report(
                error, "%s/%s: the file of '%.200s' is not the name of a file in this folder",
                folder, index_name, name);
    }
    qsort(files, count, sizeof *files, compare_text);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || strcmp(files[i], files[i - 1]) != 0)
            open_file(tensors, join_path(folder, files[i]), error);
    }
    free(files);
}

/* Returns the index's root. NULL: there is no index (no error), or it is invalid (reported). */
static json_t *load_index(const char *folder, sc_safetensors_error *error)
{
    struct stat info;
    json_error_t problem;
    json_t *root = NULL;
    size_t size = 0;
    const char *reason = NULL;
    char *path = join_path(folder, index_name), *text = NULL;
    if (path == NULL) {
        sc_safetensors_report(error, "%s: out of memory", folder);
        return NULL;
    }
    if (stat(path, &info) == 0) {
        text = sc_file_read(path, SC_SAFETENSORS_HEADER_LIMIT, &size, &reason);
        if (text == NULL)
            sc_safetensors_report(error, "%s: not a file of at most %d bytes: %s", path,
                                  SC_SAFETENSORS_HEADER_LIMIT, reason);
        else if ((root = sc_json_read(text, size, JSON_REJECT_DUPLICATES, &problem)) == NULL)
            sc_safetensors_report(error, "%s: not JSON: %s (line %d)", path, problem.text,
                                  problem.line);
        else if (!json_is_object(json_object_get(root, "weight_map")))
            sc_safetensors_report(error, "%s: weight_map is missing or not an object", path);
    }
    free(text);
    free(path);
    return root;
}

static bool is_visible(json_t *weight_map, const opened_file *opened, const char *name)
{
    if (weight_map == NULL)
        return true;
    const char *file = json_string_value(json_object_get(weight_map, name));
    return file != NULL && strcmp(file, base_name(opened->path)) == 0;
}

static int compare_name(const void *left, const void *right)
{
    const sc_safetensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Merges the files' tensors; `weight_map`, if not NULL, selects which are visible. */
static void join_files(sc_safetensors *tensors, json_t *weight_map, sc_safetensors_error *error)
{
    size_t total = 0;
    for (size_t i = 0; i < tensors->file_count; i++)
        total += tensors->files[i].file.count;
    tensors->tensors = calloc(total + 1, sizeof *tensors->tensors);
    tensors->by_name = calloc(total + 1, sizeof *tensors->by_name);
    if (tensors->tensors == NULL || tensors->by_name == NULL) {
        sc_safetensors_report(error, "out of memory");
        return;
    }
    for (size_t i = 0; i < tensors->file_count; i++) {
        const opened_file *opened = &tensors->files[i];
        for (size_t j = 0; j < opened->file.count; j++) {
            if (is_visible(weight_map, opened, opened->file.tensors[j].name))
                tensors->tensors[tensors->count++] = &opened->file.tensors[j];
        }
    }
    memcpy(tensors->by_name, tensors->tensors, tensors->count * sizeof *tensors->by_name);
    qsort(tensors->by_name, tensors->count, sizeof *tensors->by_name, compare_name);
}

static void check_names(const sc_safetensors *tensors, const char *path, json_t *weight_map,
                        sc_safetensors_error *error)
{
    for (size_t i = 1; i < tensors->count; i++) {
        if (strcmp(tensors->by_name[i]->name, tensors->by_name[i - 1]->name) == 0)
            sc_safetensors_report(error, "%s: tensor '%.200s' is in two files", path,
                                  tensors->by_name[i]->name);
    }
    const char *name;
    json_t *file;
    json_object_foreach (weight_map, name, file) {
        if (sc_safetensors_find(tensors, name) == NULL)
            sc_safetensors_report(
                error, "%s: tensor '%.200s' is not in %.200s, where the index says it is", path,
                name, json_string_value(file));
    }
}

static void open_folder(sc_safetensors *tensors, const char *folder, sc_safetensors_error *error)
{
    uint32_t problems = error->count;
    json_t *index = load_index(folder, error);
    json_t *weight_map = json_object_get(index, "weight_map");
    if (error->count != problems)
        goto done;
    if (weight_map != NULL)
        open_listed_files(tensors, folder, weight_map, error);
    else
        open_all_of_folder(tensors, folder, error);
    if (error->count != problems)
        goto done;
    join_files(tensors, weight_map, error);
    if (error->count == problems)
        check_names(tensors, folder, weight_map, error);
done:
    json_decref(index);
}

/* Ends an open: returns `tensors` if nothing was reported since `problems`; else frees everything
 * and returns NULL. */
static sc_safetensors *finish(sc_safetensors *tensors, uint32_t problems,
                              const sc_safetensors_error *error)
{
    if (error->count == problems)
        return tensors;
    sc_safetensors_close(tensors);
    return NULL;
}

sc_safetensors *sc_safetensors_open(const char *path, sc_safetensors_error *error)
{
    struct stat info;
    uint32_t problems = error->count;
    sc_safetensors *tensors = calloc(1, sizeof *tensors);
    if (tensors == NULL) {
        sc_safetensors_report(error, "%s: out of memory", path);
        return NULL;
    }
    bool exists = stat(path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) {
        open_folder(tensors, path, error);
    } else if (exists &&
               strcmp(base_name(path), index_name) == 0) { /* its files are in the same folder */
        char *folder = folder_of(path);
        if (folder != NULL)
            open_folder(tensors, folder, error);
        else
            sc_safetensors_report(error, "%s: out of memory", path);
        free(folder);
    } else {
        open_file(tensors, strdup(path), error);
        if (error->count == problems)
            join_files(tensors, NULL, error);
    }
    return finish(tensors, problems, error);
}

sc_safetensors *sc_safetensors_open_memory(const void *bytes, size_t size, const char *label,
                                           sc_safetensors_error *error)
{
    uint32_t problems = error->count;
    sc_safetensors *tensors = calloc(1, sizeof *tensors);
    opened_file *only = tensors == NULL ? NULL : add_file(tensors, NULL);
    if (only == NULL) {
        sc_safetensors_report(error, "%s: out of memory", label);
        sc_safetensors_close(tensors);
        return NULL;
    }
    only->file.label = label;
    only->file.source = (sc_tensor_source){.file = -1, .bytes = bytes, .size = size};
    if (sc_tensor_file_parse(&only->file, error))
        join_files(tensors, NULL, error);
    return finish(tensors, problems, error);
}
