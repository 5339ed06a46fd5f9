/* Safetensors files, read and written: https://huggingface.co/docs/safetensors (8 bytes header length, JSON header, data).
 *
 * A file is not trusted: every length and offset is checked before it is used, the tensors must cover the data section exactly, and
 * what is wrong is listed, not only the first of it. Nothing here prints, exits or keeps globals. An open file may be read from many
 * threads at once. */
#ifndef SHARDC_RUNTIME_FILES_SAFETENSORS_H
#define SHARDC_RUNTIME_FILES_SAFETENSORS_H

#include "runtime/files/durable.h"
#include "runtime/files/element.h"

typedef struct sc_safetensors sc_safetensors;

/* One tensor: row-major, `bytes` bytes from the byte `begin` of its file. All of it belongs to the sc_safetensors it comes from. */
typedef struct sc_safetensor {
    const char *name;
    sc_element element;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t count; /* elements: the product of the shape */
    uint64_t begin, bytes;
    uint32_t file; /* sc_safetensors_label */
} sc_safetensor;

/* What went wrong, a line each. Owned by the caller, who sets it to zero first. Lines that find no room are counted in the last. */
typedef struct sc_safetensors_error {
    uint32_t count;   /* problems found; 0 = none */
    uint32_t omitted; /* of them, without a line */
    size_t length;
    char text[4096]; /* 0-terminated */
} sc_safetensors_error;

/* How every file that is written begins, for sc_replacement_begin. */
#define SC_SAFETENSORS_BEGIN "{\""
enum { SC_SAFETENSORS_BEGIN_AT = 8 };

enum { SC_SAFETENSORS_HEADER_LIMIT = 100 * 1000 * 1000 }; /* bytes, the format's own limit */

/* Opens a file, or a folder (or its model.safetensors.index.json): there model.safetensors.index.json says which tensor is in which file
 * (and tensors it does not name are not visible), or without it all *.safetensors are read together. Files stay open, and values are read
 * when they are asked for. Returns NULL with `error` filled; the caller closes the result. */
sc_safetensors *sc_safetensors_open(const char *path, sc_safetensors_error *error);

/* The same for a file that is in memory; `bytes` and `label`, which names it in messages, stay the caller's and must outlive the result. */
sc_safetensors *sc_safetensors_open_memory(const void *bytes, size_t size, const char *label, sc_safetensors_error *error);

void sc_safetensors_close(sc_safetensors *tensors); /* NULL is allowed */

/* Tensors in the order of their data, files in the order of their names. */
size_t sc_safetensors_count(const sc_safetensors *tensors);
const sc_safetensor *sc_safetensors_at(const sc_safetensors *tensors, size_t index);
const sc_safetensor *sc_safetensors_find(const sc_safetensors *tensors, const char *name); /* NULL when there is none */

/* The text of a key of __metadata__ in the first file that has it, or NULL. */
const char *sc_safetensors_metadata(const sc_safetensors *tensors, const char *key);

/* The path of the tensor's file. */
const char *sc_safetensors_label(const sc_safetensors *tensors, const sc_safetensor *tensor);

/* `count` elements from `first` (row-major), as doubles, or as they are stored. False with *reason: the file cannot be read, or became
 * shorter since it was opened. */
bool sc_safetensors_read(const sc_safetensors *tensors, const sc_safetensor *tensor, uint64_t first, uint64_t count, double *out,
                         const char **reason);
bool sc_safetensors_read_stored(const sc_safetensors *tensors, const sc_safetensor *tensor, uint64_t first, uint64_t count, void *out,
                                const char **reason);

/* A tensor to write: exactly one of `values` (converted, see sc_element_store) and `raw` (already in `element`) is set; both may be NULL
 * when the shape has a 0. */
typedef struct sc_safetensors_item {
    const char *name;
    sc_element element;
    uint32_t rank;
    const uint64_t *shape;
    const double *values;
    const void *raw;
} sc_safetensors_item;

typedef struct sc_safetensors_pair {
    const char *key, *value;
} sc_safetensors_pair;

/* Writes the items in their order, with `metadata` as __metadata__ when there is any. The file appears under `path` complete or not at
 * all (sc_replacement). The header is padded so that the data starts at a multiple of 8. Returns false with `error` filled; a file that
 * stood at `path` is then as it was. */
bool sc_safetensors_write(const char *path, const sc_safetensors_item *items, size_t item_count, const sc_safetensors_pair *metadata,
                          size_t metadata_count, sc_safetensors_error *error);

/* The same a tensor at a time, for values that are not in memory together: create, then add for each item, then end. */
typedef struct sc_safetensors_writer {
    sc_replacement file;
    const char *path;
    const sc_safetensors_item *items;
    size_t next;
    bool good;
    sc_safetensors_error *error;
} sc_safetensors_writer;

/* Items, path and error outlive the writer. False: there is nothing to end. */
bool sc_safetensors_create(sc_safetensors_writer *out, const char *path, const sc_safetensors_item *items, size_t item_count,
                           const sc_safetensors_pair *metadata, size_t metadata_count, sc_safetensors_error *error);
/* The next item: its bytes, or NULL: its `values`. */
void sc_safetensors_add(sc_safetensors_writer *writer, const void *raw);
/* `keep`: every item was added. */
bool sc_safetensors_end(sc_safetensors_writer *writer, bool keep);

/* All of a file before its tensors' bytes, which follow in the items' order; malloc'd. */
char *sc_safetensors_header(const sc_safetensors_item *items, size_t item_count, const sc_safetensors_pair *metadata, size_t metadata_count,
                            size_t *out_length, sc_safetensors_error *error);

#endif
